//! Times that are no times: `perf script --deltatime` prints how long ago the event before was.

use unstarve_model::Time;

use crate::text::TextError;

/// After so many events it is clear.
const ENOUGH: u32 = 256;
/// Fewer say nothing.
const LEAST: u32 = 16;

/// How often the times of the first events go back. perf sorts: in a whole text they never do, and where parts of texts were
/// put together once for each part. Differences go down as often as up.
#[derive(Debug, Default)]
pub struct Deltas {
    events: u32,
    back: u32,
    last: Time,
}

impl Deltas {
    /// Takes the next event's time.
    pub fn note(&mut self, time: Time) {
        if self.events < ENOUGH {
            self.events += 1;
            self.back += u32::from(time < self.last);
            self.last = time;
        }
    }

    /// Whether enough events came, and were not judged yet.
    pub fn are_many(&mut self) -> bool {
        let many = self.events == ENOUGH;
        self.events += u32::from(many);
        many
    }

    /// An error if the times cannot be times.
    pub fn check(&self, line: u64) -> Result<(), TextError> {
        if self.events >= LEAST && self.back >= self.events / 4 {
            return Err(TextError::Deltas { line, back: self.back, events: self.events.min(ENOUGH) });
        }
        Ok(())
    }
}
