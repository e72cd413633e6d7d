//! Remembers which real-time programs ran on each CPU lately. A wait that is over can then be blamed on one of them. bpf/recent.h does the same
//! in the kernel.

use unstarve_model::{Nanos, Time};

use crate::engine::reading::TaskId;

/// Tasks that a CPU remembers.
pub(crate) const RECENT: usize = 4;
/// The sums halve each 2^29 ns (0.5 s).
const HALVES_SHIFT: u32 = 29;
/// Shorter runs are not remembered.
const LEAST_RUN: u64 = 1 << 15;
/// Who had a CPU for less than this lately kept nobody waiting for long.
const LEAST: u64 = 1_000_000;

/// The real-time tasks that had most of a CPU lately.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct RecentRuns {
    /// Which half-life the sums are of.
    pub at: u64,
    pub each: [Option<(TaskId, u64)>; RECENT],
}

impl RecentRuns {
    /// A task leaves the CPU, or has it still, after it has run for so long.
    pub fn add(&mut self, task: TaskId, ran: Nanos, now: Time) {
        if ran.0 < LEAST_RUN {
            return;
        }
        let at = now.0 >> HALVES_SHIFT;
        for (_, ns) in self.each.iter_mut().flatten() {
            *ns = halved(*ns, at.saturating_sub(self.at));
        }
        self.at = at;
        let is_it = |place: &&mut Option<(TaskId, u64)>| place.is_some_and(|(known, _)| known.tid == task.tid);
        if let Some(place) = self.each.iter_mut().find(is_it) {
            *place = Some((task, place.map_or(0, |(_, ns)| ns).saturating_add(ran.0)));
            return;
        }
        // Many that have little take nothing from one that has much.
        let least = self.each.iter_mut().min_by_key(|place| place.map_or(0, |(_, ns)| ns));
        if let Some(place) = least.filter(|place| place.is_none_or(|(_, ns)| ran.0 > ns)) {
            *place = Some((task, ran.0));
        }
    }

    /// The task that had the CPU for longer lately than all others together.
    pub fn most(&self, now: Time) -> Option<TaskId> {
        let passed = (now.0 >> HALVES_SHIFT).saturating_sub(self.at);
        let all: u64 = self.each.iter().flatten().map(|(_, ns)| *ns).fold(0, u64::saturating_add);
        let (task, most) = self.each.iter().flatten().copied().max_by_key(|(_, ns)| *ns)?;
        (halved(most, passed) >= LEAST && most > all - most).then_some(task)
    }
}

/// A sum after so many half-lives.
fn halved(ns: u64, passed: u64) -> u64 {
    if passed < u64::from(u64::BITS) { ns >> passed } else { 0 }
}

#[cfg(test)]
mod tests {
    use unstarve_model::{Comm, Tid};

    use super::*;

    const MS: u64 = 1_000_000;

    fn task(tid: u32) -> TaskId {
        TaskId { tid: Tid(tid), tgid: Tid(tid), comm: Comm::from("hog") }
    }

    fn most(runs: &[(u32, u64, u64)], now: u64) -> Option<u32> {
        let mut recent = RecentRuns::default();
        runs.iter().for_each(|(tid, ran, at)| recent.add(task(*tid), Nanos(*ran), Time(*at)));
        recent.most(Time(now)).map(|task| task.tid.0)
    }

    #[test]
    fn who_had_most_is_known_for_some_seconds() {
        let run = [(7, 160 * MS, 1_000 * MS)];
        assert_eq!(most(&run, 1_200 * MS), Some(7));
        assert_eq!(most(&run, 3_000 * MS), Some(7));
        assert_eq!(most(&run, 9_000 * MS), None);
        assert_eq!(most(&run, u64::MAX), None);
        assert_eq!(most(&[], 1_200 * MS), None);
    }

    #[test]
    fn no_half_is_nobody() {
        let both = [(7, 100 * MS, 1_000 * MS), (8, 100 * MS, 1_000 * MS)];
        assert_eq!(most(&both, 1_000 * MS), None);
        let later = [(7, 100 * MS, 1_000 * MS), (8, 100 * MS, 3_000 * MS)];
        assert_eq!(most(&later, 3_000 * MS), Some(8), "the one of a second ago counts less");
        let third = [(7, 100 * MS, 1_000 * MS), (8, 100 * MS, 1_000 * MS), (9, 150 * MS, 1_000 * MS)];
        assert_eq!(most(&third, 1_000 * MS), None, "not more than the others together");
    }

    #[test]
    fn many_that_have_little_take_nothing_from_one_that_has_much() {
        let mut runs = vec![(7, 300 * MS, 1_000 * MS)];
        runs.extend((100..200).map(|tid| (tid, MS, 1_000 * MS)));
        assert_eq!(most(&runs, 1_000 * MS), Some(7));
    }

    #[test]
    fn many_short_turns_are_as_one() {
        let turns: Vec<_> = (0..20).map(|turn| (7, 10 * MS, (1_000 + 20 * turn) * MS)).collect();
        assert_eq!(most(&turns, 1_400 * MS), Some(7));
        let shorter: Vec<_> = (0..100_000).map(|turn| (7, 20_000, 1_000 * MS + turn * 40_000)).collect();
        assert_eq!(most(&shorter, 5_000 * MS), None, "runs of threads of interrupts are not remembered");
    }
}
