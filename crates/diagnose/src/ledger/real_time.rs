//! The latest long runs on each CPU, to find the longest stretch that a wait spent behind them.

use std::collections::VecDeque;

use unstarve_model::{CpuId, Nanos, Time};
use unstarve_timeline::{ActorId, Run, TaskKey, Wait};

/// The latest runs of real-time and deadline tasks on each CPU. At the end of a wait they give its longest stretch behind such
/// tasks. Example: in a wait of 400 ms beside a compiler, an audio thread runs for 0.3 ms at a time; then the wait was never
/// behind the audio thread for longer than 0.3 ms.
#[derive(Clone, Debug, Default)]
pub(crate) struct RealTimeStays {
    by_cpu: Vec<VecDeque<Stay>>,
}

#[derive(Clone, Copy, Debug)]
struct Stay {
    actor: ActorId,
    /// Compared in addition to the actor: two tasks of the same name that run one after the other are two runs.
    task: TaskKey,
    start: Time,
    end: Time,
}

impl RealTimeStays {
    /// A wait that spans more runs than this is made of short ones.
    const KEPT: usize = 512;
    /// The stop class and interrupt threads may interrupt a run for some microseconds; the parts still count as one run.
    const GAP: Nanos = Nanos::from_micros(100);

    pub fn push(&mut self, run: &Run) {
        self.push_stay(run.cpu, Stay { actor: run.actor, task: run.task, start: run.start, end: run.end });
    }

    fn push_stay(&mut self, cpu: CpuId, run: Stay) {
        let index = cpu.index();
        if self.by_cpu.len() <= index {
            self.by_cpu.resize_with(index + 1, VecDeque::new);
        }
        let stays = &mut self.by_cpu[index];
        let goes_on = |stay: &Stay| {
            (stay.actor, stay.task) == (run.actor, run.task) && run.start.since(stay.end) <= RealTimeStays::GAP
        };
        let continued = (stays.len().saturating_sub(2)..stays.len()).rev().find(|at| goes_on(&stays[*at]));
        if let Some(stay) = continued.and_then(|at| stays.remove(at)) {
            // Moved to the back, because searches go backwards and stop at the first run that ended before the wait.
            stays.push_back(Stay { end: run.end, ..stay });
            return;
        }
        if stays.len() == RealTimeStays::KEPT {
            stays.pop_front();
        }
        stays.push_back(run);
    }

    /// Whether the known runs within the wait cover most of what real-time tasks had of it. They may not: on a CPU whose first
    /// event ends a run, its beginning was not recorded. If more runs happened than are kept, the kept ones stand for the others.
    pub fn knows(&self, wait: &Wait<'_>, all: Nanos) -> bool {
        let is_full = |stays: &VecDeque<Stay>| stays.len() == RealTimeStays::KEPT;
        let known: Nanos = self.within(wait).map(|stay| stay.end.since(stay.start)).sum();
        known >= Nanos(all.0 / 2) || self.by_cpu.iter().any(is_full)
    }

    /// The longest run of this actor within the wait; `None` if it is unknown.
    pub fn longest_of(&self, actor: ActorId, wait: &Wait<'_>) -> Option<Nanos> {
        self.within(wait).filter(|stay| stay.actor == actor).map(|stay| stay.end.since(stay.start)).max()
    }

    /// The longest stretch of the wait in which real-time tasks followed one another without a gap.
    pub fn longest_stretch(&self, wait: &Wait<'_>) -> Option<Nanos> {
        let mut longest = None;
        // Backwards in time.
        let mut stretch: Option<(Time, Time)> = None;
        for stay in self.within(wait) {
            let (start, end) = match stretch {
                Some((start, end)) if start.since(stay.end) <= RealTimeStays::GAP => (start.min(stay.start), end),
                _ => (stay.start, stay.end),
            };
            stretch = Some((start, end));
            longest = longest.max(Some(end.since(start)));
        }
        longest
    }

    /// The runs that overlap the wait, clipped to it, latest first; on all CPUs if the task was migrated while it waited.
    fn within(&self, wait: &Wait<'_>) -> impl Iterator<Item = Stay> {
        let (start, end) = (wait.start, wait.end);
        let moved = wait.migrations > 0;
        let cpus = self.by_cpu.iter().enumerate().filter(move |(index, _)| moved || *index == wait.cpu.index());
        cpus.flat_map(move |(_, stays)| stays.iter().rev().take_while(move |stay| stay.end > start)).filter_map(
            move |stay| {
                let cut =
                    Stay { actor: stay.actor, task: stay.task, start: stay.start.max(start), end: stay.end.min(end) };
                (cut.end > cut.start).then_some(cut)
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two ids that stand for two tasks; they only need to differ.
    const HOG: ActorId = ActorId::OTHERS;
    const STOPPER: ActorId = ActorId::UNKNOWN;

    #[test]
    fn a_microsecond_of_the_stop_class_hides_no_hog() {
        assert_eq!(order_after_a_blip(), [(STOPPER, 10_020), (HOG, 60_000)]);
    }

    /// The hog runs from 0 to 60 ms, interrupted by the stopper for 20 µs at 10 ms: the kept runs and their ends in µs.
    fn order_after_a_blip() -> Vec<(ActorId, u64)> {
        let mut stays = RealTimeStays::default();
        for (actor, start, end) in [(HOG, 0, 10_000), (STOPPER, 10_000, 10_020), (HOG, 10_020, 60_000)] {
            let (start, end) = (Time(start * 1000), Time(end * 1000));
            stays.push_stay(CpuId(0), Stay { actor, task: TaskKey::FIRST, start, end });
        }
        stays.by_cpu[0].iter().map(|stay| (stay.actor, stay.end.0 / 1000)).collect()
    }
}
