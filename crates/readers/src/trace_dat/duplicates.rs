//! Removes events that two ring buffers of one file both recorded.

use rustc_hash::FxHashMap;
use unstarve_model::{CpuId, Event, EventKind, EventType, Nanos, Time};

/// Finds events that two ring buffers of one file both recorded (`trace-cmd record -e sched -B more -e sched`).
///
/// Each buffer reads the clock for itself, so the two copies differ by some hundred nanoseconds; the rest is equal. Two
/// equal events in different buffers on one CPU, with no other event of their type between them, are the same event.
#[derive(Debug, Default)]
pub(super) struct DuplicateEvents {
    last: FxHashMap<(CpuId, EventType), Last>,
}

#[derive(Debug)]
struct Last {
    buffer: usize,
    time: Time,
    kind: EventKind,
}

/// Longer than any tracing callback takes, usually even with interrupts.
const MAX_TWIN_DISTANCE: Nanos = Nanos(10_000);

impl DuplicateEvents {
    /// Whether another buffer has already yielded this `event` of `buffer`.
    pub(super) fn has(&mut self, buffer: usize, event: &Event) -> bool {
        let Some(event_type) = event.kind.event_type() else { return false };
        let last = self.last.get(&(event.cpu, event_type));
        let is_twin = last.is_some_and(|last| {
            last.buffer != buffer && last.kind == event.kind && event.time.since(last.time) < MAX_TWIN_DISTANCE
        });
        if is_twin {
            // The next event in the first buffer may look the same, but is not a copy of this one.
            self.last.remove(&(event.cpu, event_type));
        } else {
            self.last.insert((event.cpu, event_type), Last { buffer, time: event.time, kind: event.kind });
        }
        is_twin
    }
}
