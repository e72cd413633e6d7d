//! What each actor felt: in a recording, and in a replay of the program that was taken from it.

use serde::{Deserialize, Serialize};
use unstarve_model::Nanos;

use crate::{ActorId, Op};

/// What each actor felt from the start of the program to the end of its recorded length.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Felt {
    /// How long that was.
    pub length: Nanos,
    /// By [`ActorId`].
    pub actors: Vec<ActorFelt>,
}

/// What one actor felt.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct ActorFelt {
    /// How often it became runnable after a sleep.
    pub wakeups: u64,
    /// How many items of work it began: what it does from one [`Op::Block`], [`Op::Take`] or sleep to the next. As many as wakeups,
    /// but for a worker that finds the next item before it sleeps.
    pub items: u64,
    /// The time from each wakeup or preemption to running, summed.
    pub waited: Nanos,
    /// The longest such time.
    pub longest: Nanos,
    /// 99 of 100 such times are not longer.
    pub p99: Nanos,
    /// Its CPU time, with interrupts that came in it left out.
    pub ran: Nanos,
    /// How often it got the CPU.
    pub switches: u64,
    /// How often it lost the CPU while runnable.
    pub preemptions: u64,
}

impl Felt {
    /// The same with what every wakeup takes added to each wait: a model has no such time of its own.
    #[must_use]
    pub fn with_dispatch(mut self, dispatch: Nanos) -> Felt {
        for felt in self.actors.iter_mut().filter(|felt| felt.wakeups > 0) {
            felt.waited += Nanos(dispatch.0 * felt.wakeups);
            felt.longest += dispatch;
            felt.p99 += dispatch;
        }
        self
    }
}

impl ActorFelt {
    /// Its wait for each item; `None` without any.
    pub fn wait_per_item(&self) -> Option<f64> {
        (self.items > 0).then(|| self.waited.0 as f64 / self.items as f64)
    }

    /// Its CPU time for each item: the price of its work.
    pub fn cpu_per_item(&self) -> Option<f64> {
        (self.items > 0).then(|| self.ran.0 as f64 / self.items as f64)
    }
}

impl Op {
    /// Whether an item of work begins with it.
    pub fn begins_item(self) -> bool {
        matches!(self, Op::Block | Op::Take | Op::SleepUntil(_) | Op::SleepFor(_))
    }
}

/// Collects what actors feel.
#[derive(Clone, Debug, Default)]
pub struct FeltSoFar {
    actors: Vec<SoFar>,
}

#[derive(Clone, Debug, Default)]
struct SoFar {
    felt: ActorFelt,
    waits: Vec<u64>,
}

impl FeltSoFar {
    fn of(&mut self, actor: ActorId) -> &mut SoFar {
        if self.actors.len() <= actor.index() {
            self.actors.resize_with(actor.index() + 1, SoFar::default);
        }
        &mut self.actors[actor.index()]
    }

    /// It became runnable after a sleep.
    pub fn woke(&mut self, actor: ActorId) {
        self.of(actor).felt.wakeups += 1;
    }

    /// It began so many items.
    pub fn began(&mut self, actor: ActorId, items: u64) {
        self.of(actor).felt.items += items;
    }

    /// It waited this long for the CPU.
    pub fn waited(&mut self, actor: ActorId, length: Nanos) {
        let so_far = self.of(actor);
        so_far.felt.waited += length;
        so_far.felt.longest = so_far.felt.longest.max(length);
        so_far.waits.push(length.0);
    }

    /// It had the CPU and used this much of it; it `stayed` runnable or not.
    pub fn ran(&mut self, actor: ActorId, time: Nanos, stayed: bool) {
        let felt = &mut self.of(actor).felt;
        felt.ran += time;
        felt.switches += 1;
        felt.preemptions += u64::from(stayed);
    }

    /// What `actors` actors felt in this time.
    pub fn felt(mut self, actors: usize, length: Nanos) -> Felt {
        self.actors.resize_with(actors, SoFar::default);
        Felt { length, actors: self.actors.into_iter().map(SoFar::felt).collect() }
    }
}

impl SoFar {
    fn felt(mut self) -> ActorFelt {
        let rank = (self.waits.len() * 99).div_ceil(100).saturating_sub(1);
        if rank < self.waits.len() {
            self.felt.p99 = Nanos(*self.waits.select_nth_unstable(rank).1);
        }
        self.felt
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ninety_nine_of_a_hundred_waits_are_not_longer_than_p99() {
        let mut so_far = FeltSoFar::default();
        (1..=1000).rev().for_each(|length| so_far.waited(ActorId(1), Nanos(length)));
        let felt = so_far.felt(3, Nanos(5));
        let waits: Vec<(u64, u64, u64)> = felt.actors.iter().map(|a| (a.p99.0, a.longest.0, a.waited.0)).collect();
        assert_eq!(waits, [(0, 0, 0), (990, 1000, 500_500), (0, 0, 0)]);
    }
}
