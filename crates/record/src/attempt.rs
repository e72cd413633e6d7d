use std::sync::Arc;

use unstarve_model::EventType;

use crate::RecordError;
use crate::instance::{Instance, name_of};
use crate::tracefs::TraceFs;

/// Tries what a recording begins with: a tracing instance of our own, and in it the event without which nothing can be
/// explained. The instance is removed at once.
///
/// # Errors
/// If this host, or this process's rights on it, allow no recording.
pub fn attempt() -> Result<(), RecordError> {
    let instance = Instance::create(Arc::new(TraceFs::open()?))?;
    match instance.has(name_of(EventType::Switch)) {
        true => Ok(()),
        false => Err(RecordError::NoSwitchEvent),
    }
}
