use std::collections::VecDeque;

use unstarve_model::{CpuId, Nanos, Time};
use unstarve_timeline::{ActorId, Run, TaskKey, Wait};

/// The latest stays of real-time and deadline tasks on each CPU, to tell at the end of a wait how long its longest stretch
/// behind them was: a wait of 400 ms beside a compiler, in which an audio thread runs for 0.3 ms at a time, was never
/// longer than 0.3 ms behind the audio thread.
#[derive(Clone, Debug, Default)]
pub(crate) struct RealTimeStays {
    by_cpu: Vec<VecDeque<Stay>>,
}

#[derive(Clone, Copy, Debug)]
struct Stay {
    actor: ActorId,
    /// Namesakes that follow one another are not one stay.
    task: TaskKey,
    start: Time,
    end: Time,
}

impl RealTimeStays {
    /// A wait that spans more of them is made of short ones.
    const KEPT: usize = 512;
    /// The stop class and interrupt threads cut a stay in two for microseconds.
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
            // It ends last now; who looks back stops at the first that ended before.
            stays.push_back(Stay { end: run.end, ..stay });
            return;
        }
        if stays.len() == RealTimeStays::KEPT {
            stays.pop_front();
        }
        stays.push_back(run);
    }

    /// Whether the stays within the wait are most of what real-time tasks had of it. Of a CPU whose first event ends a stay nobody saw
    /// it begin; where more stays were than are kept, those that are kept stand for the others.
    pub fn knows(&self, wait: &Wait<'_>, all: Nanos) -> bool {
        let is_full = |stays: &VecDeque<Stay>| stays.len() == RealTimeStays::KEPT;
        let known: Nanos = self.within(wait).map(|stay| stay.end.since(stay.start)).sum();
        known >= Nanos(all.0 / 2) || self.by_cpu.iter().any(is_full)
    }

    /// The longest stay of this actor within the wait; `None` if it is not known.
    pub fn longest_of(&self, actor: ActorId, wait: &Wait<'_>) -> Option<Nanos> {
        self.within(wait).filter(|stay| stay.actor == actor).map(|stay| stay.end.since(stay.start)).max()
    }

    /// The longest stretch of the wait in which one real-time task followed the other without a gap.
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

    /// The stays that reach into the wait, cut to it, the latest first; of all CPUs if it was moved.
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

    /// Two numbers that stand for two tasks: only that they differ counts.
    const HOG: ActorId = ActorId::OTHERS;
    const STOPPER: ActorId = ActorId::UNKNOWN;

    #[test]
    fn a_microsecond_of_the_stop_class_hides_no_hog() {
        assert_eq!(order_after_a_blip(), [(STOPPER, 10_020), (HOG, 60_000)]);
    }

    /// The hog from 0 to 60 ms with 20 µs of the stopper at 10 ms: who is kept with which end, in µs.
    fn order_after_a_blip() -> Vec<(ActorId, u64)> {
        let mut stays = RealTimeStays::default();
        for (actor, start, end) in [(HOG, 0, 10_000), (STOPPER, 10_000, 10_020), (HOG, 10_020, 60_000)] {
            let (start, end) = (Time(start * 1000), Time(end * 1000));
            stays.push_stay(CpuId(0), Stay { actor, task: TaskKey::FIRST, start, end });
        }
        stays.by_cpu[0].iter().map(|stay| (stay.actor, stay.end.0 / 1000)).collect()
    }
}
