use rustc_hash::FxHashMap;
use unstarve_model::{CpuId, Event, EventKind, EventType, Nanos, Time};

/// Finds events that two ring buffers of one file both recorded (`trace-cmd record -e sched -B more -e sched`).
///
/// Each buffer reads the clock for itself, so twins differ by some hundred nanoseconds; all else is the same. Two equal
/// events of different buffers on one CPU, with no other event of their type between them, are one.
#[derive(Debug, Default)]
pub(super) struct Twins {
    last: FxHashMap<(CpuId, EventType), Last>,
}

#[derive(Debug)]
struct Last {
    buffer: usize,
    time: Time,
    kind: EventKind,
}

/// Longer than any tracing callback takes, interrupts included as a rule.
const APART: Nanos = Nanos(10_000);

impl Twins {
    /// Whether `event` of `buffer` was given already, by another buffer.
    pub(super) fn has(&mut self, buffer: usize, event: &Event) -> bool {
        let Some(event_type) = event.kind.event_type() else { return false };
        let last = self.last.get(&(event.cpu, event_type));
        let is_twin = last.is_some_and(|last| {
            last.buffer != buffer && last.kind == event.kind && event.time.since(last.time) < APART
        });
        if is_twin {
            // Its own successor in the first buffer may look the same: that one is no twin of this.
            self.last.remove(&(event.cpu, event_type));
        } else {
            self.last.insert((event.cpu, event_type), Last { buffer, time: event.time, kind: event.kind });
        }
        is_twin
    }
}
