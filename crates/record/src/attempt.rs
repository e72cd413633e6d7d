//! Tests whether this host allows recording, for `unstarve doctor`.

use std::sync::Arc;

use unstarve_model::EventType;

use crate::RecordError;
use crate::instance::{self, Instance, name_of};
use crate::tracefs::TraceFs;

/// Tries the first steps of a recording: creates a tracing instance and enables `sched_switch`, without which nothing
/// can be explained. Removes the instance at once, and those that killed recorders left behind; returns how many of the
/// latter.
///
/// # Errors If this host, or the rights of this process, allow no recording.
pub fn attempt() -> Result<usize, RecordError> {
    let tracefs = Arc::new(TraceFs::open()?);
    let left = instance::remove_leftovers(&tracefs);
    let instance = Instance::create(tracefs)?;
    match instance.has(name_of(EventType::Switch)) {
        true => Ok(left),
        false => Err(RecordError::NoSwitchEvent),
    }
}
