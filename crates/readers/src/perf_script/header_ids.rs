//! Detects whether the task ids before the events are usable.
//!
//! perf prints the sample's ids as seen in perf's own PID namespace. They differ from the kernel's ids, which are in
//! the tracepoint's fields, and are 0 for tasks outside the namespace. `-F pid` without `tid` prints the process id. A
//! switch event has both ids in one line, and they must match.

use unstarve_model::{Event, EventKind, Issuer, Loss, LossKind, Tid};

/// Fewer mismatches than this may have other reasons.
const MIN_MISMATCHES: u64 = 3;

/// Compares the two ids of each switch.
#[derive(Debug, Default)]
pub struct HeaderIds {
    same: u64,
    other: u64,
    /// Events whose id was ignored.
    ignored: u64,
}

impl HeaderIds {
    /// Notes a switch away from `prev` in a line that begins with `head`. The idle task is 0 in every namespace.
    pub fn note(&mut self, head: Option<Tid>, prev: Tid) {
        match head {
            Some(head) if !prev.is_idle() => *(if head == prev { &mut self.same } else { &mut self.other }) += 1,
            _ => {}
        }
    }

    /// Whether the ids before the events are unusable, judged by the switches so far.
    pub fn are_foreign(&self) -> bool {
        self.other >= MIN_MISMATCHES && self.other > self.same
    }

    /// Removes the current task from events if the ids are unusable; only switches keep theirs.
    pub fn correct(&mut self, events: &mut [Event]) {
        if !self.are_foreign() {
            return;
        }
        self.ignored += events.len() as u64;
        for event in events {
            let current = match event.kind {
                EventKind::Switch { prev, .. } => Some(prev.tid()),
                _ => None,
            };
            event.issuer = Issuer::new(current, event.issuer.context());
        }
    }

    /// The loss to report for removed ids.
    pub fn loss(&self) -> Option<Loss> {
        let detail = "recorded in a PID namespace, or printed with -F pid and without tid; give the perf.data itself";
        (self.ignored > 0).then(|| Loss::new(LossKind::ForeignIds, self.ignored).with_detail(detail))
    }
}
