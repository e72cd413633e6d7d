//! Whether the ids in front of the events are those of the events.
//!
//! perf writes the ids of samples as its own PID namespace has them: others than the kernel's, which are in the fields of
//! tracepoints, and 0 for all tasks outside of that namespace. `-F pid` without `tid` prints the process. At a switch both are in
//! one line, and must be the same.

use unstarve_model::{Event, EventKind, Issuer, Loss, LossKind, Tid};

/// Fewer contradictions than this may have other reasons.
const LEAST: u64 = 3;

/// Compares the two ids of each switch.
#[derive(Debug, Default)]
pub struct HeaderIds {
    same: u64,
    other: u64,
    /// Events whose id was passed over.
    ignored: u64,
}

impl HeaderIds {
    /// A switch away from `prev`, in a line that begins with `head`. The idle task is 0 everywhere.
    pub fn note(&mut self, head: Option<Tid>, prev: Tid) {
        match head {
            Some(head) if !prev.is_idle() => *(if head == prev { &mut self.same } else { &mut self.other }) += 1,
            _ => {}
        }
    }

    /// Whether the ids in front are of no use, by the switches so far.
    pub fn are_foreign(&self) -> bool {
        self.other >= LEAST && self.other > self.same
    }

    /// Who was current at these events is known of switches alone if the ids are foreign.
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

    /// What is not known for it.
    pub fn loss(&self) -> Option<Loss> {
        let detail = "recorded in a PID namespace, or printed with -F pid and without tid; give the perf.data itself";
        (self.ignored > 0).then(|| Loss::new(LossKind::ForeignIds, self.ignored).with_detail(detail))
    }
}
