use std::collections::VecDeque;

use unstarve_model::{Nanos, Time};
use unstarve_timeline::{ActorId, Run, Wait};

/// The latest stays of real-time and deadline tasks on each CPU, to tell at the end of a wait how long its longest stretch
/// behind them was: a wait of 400 ms beside a compiler, in which an audio thread runs for 0.3 ms at a time, was never
/// longer than 0.3 ms behind the audio thread.
#[derive(Debug, Default)]
pub(crate) struct RealTimeStays {
    by_cpu: Vec<VecDeque<Stay>>,
}

#[derive(Clone, Copy, Debug)]
struct Stay {
    actor: ActorId,
    start: Time,
    end: Time,
}

impl RealTimeStays {
    /// A wait that spans more of them is made of short ones.
    const KEPT: usize = 512;
    /// The stop class and interrupt threads cut a stay in two for microseconds.
    const GAP: Nanos = Nanos::from_micros(100);

    pub fn push(&mut self, run: &Run) {
        let index = run.cpu.index();
        if self.by_cpu.len() <= index {
            self.by_cpu.resize_with(index + 1, VecDeque::new);
        }
        let stays = &mut self.by_cpu[index];
        let continued = stays.iter_mut().rev().take(2).find(|stay| stay.actor == run.actor);
        if let Some(stay) = continued.filter(|stay| run.start.since(stay.end) <= RealTimeStays::GAP) {
            stay.end = run.end;
            return;
        }
        if stays.len() == RealTimeStays::KEPT {
            stays.pop_front();
        }
        stays.push_back(Stay { actor: run.actor, start: run.start, end: run.end });
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
                let cut = Stay { actor: stay.actor, start: stay.start.max(start), end: stay.end.min(end) };
                (cut.end > cut.start).then_some(cut)
            },
        )
    }
}
