//! For how much of each slice of the last windows a task waited.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;
use unstarve_model::{Nanos, Time};

use crate::window::{MAX_TASKS, TaskIdent, WINDOW_SLICES};

/// The windows that are kept for the curve.
pub(crate) const HISTORY_WINDOWS: u64 = 6;
const HISTORY_SLICES: u64 = HISTORY_WINDOWS * WINDOW_SLICES;
/// Maximum tasks kept of a slice that has left the window: those that waited longest.
const MAX_PAST_TASKS: usize = 256;

/// Waiting time by task and slice. A wait is spread over the slices in which it lasted.
#[derive(Default, Debug)]
pub(crate) struct WaitHistory {
    /// The index of the oldest slice.
    first: u64,
    slices: VecDeque<FxHashMap<TaskIdent, u64>>,
}

impl WaitHistory {
    /// Begins the slices up to this index, and drops the oldest.
    pub fn advance(&mut self, index: u64) {
        if self.slices.is_empty() || index.saturating_sub(self.first) >= 2 * HISTORY_SLICES {
            // The beginning, or a gap in which nothing of the past stays.
            self.slices.clear();
            self.first = index.saturating_sub(HISTORY_SLICES - 1);
        }
        while self.first + (self.slices.len() as u64) <= index {
            self.slices.push_back(FxHashMap::default());
            if let Some(left) = self.slices.len().checked_sub(WINDOW_SLICES as usize + 1) {
                shorten(&mut self.slices[left]);
            }
            if self.slices.len() as u64 > HISTORY_SLICES {
                self.slices.pop_front();
                self.first += 1;
            }
        }
    }

    /// Adds a wait.
    pub fn add(&mut self, who: TaskIdent, (start, end): (Time, Time), slice: Nanos) {
        let last = end.0 / slice.0;
        self.advance(last);
        for index in (start.0 / slice.0).max(self.first)..=last {
            let part = Time((index + 1).saturating_mul(slice.0)).min(end).since(Time(index * slice.0).max(start));
            let Some(tasks) = self.slices.get_mut((index - self.first) as usize) else { return };
            if part > Nanos::ZERO && (tasks.len() < MAX_TASKS || tasks.contains_key(&who)) {
                *tasks.entry(who).or_default() += part.0;
            }
        }
    }

    /// The waiting time of each task in the window that ends at slice `now`.
    pub fn in_window(&self, now: u64) -> FxHashMap<TaskIdent, u64> {
        let mut sums = FxHashMap::default();
        let left = (now + 1).saturating_sub(WINDOW_SLICES).saturating_sub(self.first);
        for (who, waited) in self.slices.iter().skip(usize::try_from(left).unwrap_or(usize::MAX)).flatten() {
            *sums.entry(*who).or_default() += waited;
        }
        sums
    }

    /// A task's waiting time by slice, oldest first.
    pub fn of(&self, who: TaskIdent) -> Vec<u64> {
        self.slices.iter().map(|tasks| tasks.get(&who).copied().unwrap_or(0)).collect()
    }
}

fn shorten(tasks: &mut FxHashMap<TaskIdent, u64>) {
    if tasks.len() > MAX_PAST_TASKS {
        let mut all: Vec<(TaskIdent, u64)> = tasks.drain().collect();
        all.sort_by_key(|(_, waited)| std::cmp::Reverse(*waited));
        all.truncate(MAX_PAST_TASKS);
        tasks.extend(all);
    }
}

#[cfg(test)]
mod tests {
    use unstarve_model::{Comm, Tid};

    use super::*;

    const SLICE: Nanos = Nanos(10);

    fn task(tid: u32) -> TaskIdent {
        (Tid(tid), Comm::from("t"))
    }

    #[test]
    fn a_wait_is_spread_over_its_slices() {
        let mut history = WaitHistory::default();
        history.add(task(1), (Time(1_005), Time(1_027)), SLICE);
        let curve = history.of(task(1));
        assert_eq!(curve[curve.len() - 3..], [5, 10, 7]);
        // 30 slices later the window of 20 has nothing of it, and the curve still has.
        history.advance(132);
        assert_eq!(history.in_window(132).get(&task(1)), None);
        assert_eq!(history.of(task(1)).iter().sum::<u64>(), 22);
    }

    /// A wait of 50 slices that has just ended fills the window and no more.
    #[test]
    fn what_was_before_the_window_is_not_in_it() {
        let mut history = WaitHistory::default();
        history.add(task(1), (Time(10_000), Time(10_500)), SLICE);
        let now = 10_500 / SLICE.0;
        let waited = history.in_window(now)[&task(1)];
        // The slice at the end has just begun.
        assert_eq!(waited, (WINDOW_SLICES - 1) * SLICE.0);
    }

    #[test]
    fn what_left_the_window_is_bounded() {
        let mut history = WaitHistory::default();
        for tid in 0..5_000 {
            history.add(task(tid), (Time(1_000), Time(1_000 + 1 + u64::from(tid) % 9)), SLICE);
        }
        history.advance(130);
        assert!(history.slices.iter().all(|tasks| tasks.len() <= MAX_PAST_TASKS));
        history.advance(u64::MAX / SLICE.0);
        assert!(history.slices.len() as u64 <= HISTORY_SLICES, "a gap of years");
    }
}
