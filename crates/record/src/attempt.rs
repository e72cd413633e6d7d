use std::sync::Arc;

use unstarve_model::EventType;

use crate::RecordError;
use crate::instance::{self, Instance, name_of};
use crate::tracefs::TraceFs;

/// Tries what a recording begins with: a tracing instance of our own, and in it the event without which nothing can be
/// explained. The instance is removed at once, and so are those of recorders that were killed; returns how many.
///
/// # Errors
/// If this host, or this process's rights on it, allow no recording.
pub fn attempt() -> Result<usize, RecordError> {
    let tracefs = Arc::new(TraceFs::open()?);
    let left = instance::remove_leftovers(&tracefs);
    let instance = Instance::create(tracefs)?;
    match instance.has(name_of(EventType::Switch)) {
        true => Ok(left),
        false => Err(RecordError::NoSwitchEvent),
    }
}
