use std::collections::VecDeque;

use crate::engine::reading::Reading;
use crate::engine::{Engine, EngineError};

/// Gives prepared readings, one after another; then [`EngineError::Ended`]. For tests and examples.
#[derive(Debug, Default)]
pub struct Scripted {
    readings: VecDeque<Result<Reading, EngineError>>,
}

impl Scripted {
    /// An engine that gives these.
    pub fn new(readings: impl IntoIterator<Item = Result<Reading, EngineError>>) -> Scripted {
        Scripted { readings: readings.into_iter().collect() }
    }
}

impl Engine for Scripted {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn read(&mut self) -> Result<Reading, EngineError> {
        self.readings.pop_front().unwrap_or(Err(EngineError::Ended))
    }
}
