//! What threads felt in a recording, with when: so that a part of it can be asked for.

use unstarve_model::{Nanos, Time};

use super::ThreadId;
use crate::felt_waits::{Felt, FeltSoFar};

/// What threads felt, in the order in which it was known.
#[derive(Debug, Default)]
pub(super) struct FeltLog(Vec<Entry>);

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// When it ended.
    at: Time,
    thread: ThreadId,
    what: What,
}

#[derive(Clone, Copy, Debug)]
enum What {
    Woke,
    Waited(Nanos),
    Ran { time: Nanos, stayed: bool },
}

/// A part of a recording's time: after `start`, up to `end`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Part {
    pub start: Time,
    pub end: Time,
}

impl Part {
    pub fn length(self) -> Nanos {
        self.end.since(self.start)
    }

    pub fn halves(self) -> [Part; 2] {
        let middle = Time(self.start.0 + self.length().0 / 2);
        [Part { end: middle, ..self }, Part { start: middle, ..self }]
    }

    /// Whether something that began at `at` began in it: the first half has the start of the recording, the second one has the middle.
    pub fn has_begin(self, at: Time) -> bool {
        self.start <= at && at < self.end
    }

    fn has_end(self, at: Time) -> bool {
        self.start < at && at <= self.end
    }

    /// How much of what took `length` up to `at` was in it; `None` if nothing was.
    fn share(self, at: Time, length: Nanos) -> Option<Nanos> {
        let began = at.0.saturating_sub(length.0).max(self.start.0);
        (self.has_end(at) || began < self.end.0 && at > self.end)
            .then(|| Nanos(at.0.min(self.end.0).saturating_sub(began)))
    }
}

impl FeltLog {
    pub fn woke(&mut self, thread: ThreadId, at: Time) {
        self.0.push(Entry { at, thread, what: What::Woke });
    }

    pub fn waited(&mut self, thread: ThreadId, at: Time, length: Nanos) {
        self.0.push(Entry { at, thread, what: What::Waited(length) });
    }

    pub fn ran(&mut self, thread: ThreadId, at: Time, time: Nanos, stayed: bool) {
        self.0.push(Entry { at, thread, what: What::Ran { time, stayed } });
    }

    /// What `threads` threads felt in a part: of a wait that reaches beyond it, as much as was in it.
    pub fn felt(&self, part: Part, threads: usize) -> Felt {
        let mut felt = FeltSoFar::default();
        for Entry { at, thread, what } in &self.0 {
            let actor = thread.felt();
            match *what {
                What::Woke if part.has_end(*at) => felt.woke(actor),
                What::Ran { time, stayed } if part.has_end(*at) => felt.ran(actor, time, stayed),
                What::Waited(length) => {
                    if let Some(length) = part.share(*at, length) {
                        felt.waited(actor, length);
                    }
                }
                _ => {}
            }
        }
        felt.felt(threads, part.length())
    }

    /// The 5th percentile of waits: what a wakeup costs on an idle CPU, too.
    pub fn quickest(&self) -> Nanos {
        let length = |entry: &Entry| if let What::Waited(length) = entry.what { Some(length.0) } else { None };
        let mut all: Vec<u64> = self.0.iter().filter_map(length).collect();
        let rank = all.len() / 20;
        if all.is_empty() { Nanos::ZERO } else { Nanos(*all.select_nth_unstable(rank).1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_counts_in_each_half_with_what_was_in_it() {
        let whole = Part { start: Time(100), end: Time(300) };
        let [first, second] = whole.halves();
        // When the wait ended, its length, and what is in the whole, in the first and in the second half.
        let table = [
            (150, 30, [30, 30, 0]),
            (250, 30, [30, 0, 30]),
            (210, 30, [30, 20, 10]),
            (300, 200, [200, 100, 100]),
            (200, 10, [10, 10, 0]),
            // It began before the recording.
            (150, 80, [50, 50, 0]),
        ];
        for (at, length, expected) in table {
            let mut log = FeltLog::default();
            log.waited(ThreadId(0), Time(at), Nanos(length));
            let waited = [whole, first, second].map(|part| log.felt(part, 1).actors[0].waited.0);
            assert_eq!(waited, expected, "{length} up to {at}");
        }
    }

    #[test]
    fn what_happens_at_the_middle_counts_once() {
        let mut log = FeltLog::default();
        for at in [101, 200, 201, 300] {
            log.woke(ThreadId(0), Time(at));
            log.ran(ThreadId(0), Time(at), Nanos(1), false);
        }
        let halves = Part { start: Time(100), end: Time(300) }.halves();
        let counted = halves.map(|part| log.felt(part, 1).actors[0]);
        assert_eq!(counted.map(|felt| (felt.wakeups, felt.switches, felt.ran.0)), [(2, 2, 2), (2, 2, 2)]);
    }
}
