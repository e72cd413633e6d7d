//! Programs in few words, for tests.

use unstarve_model::{Nanos, SchedPolicy, Tid};

use super::{Played, Replica, SchedulerModel, play};
use crate::{Actor, ActorId, Cgroup, Class, Deadline, Op, Placement, Program, Quota, SwitchCosts};

/// A program that is being written down.
pub(super) struct Script {
    pub(super) program: Program,
}

pub(super) fn ms(length: u64) -> Nanos {
    Nanos::from_millis(length)
}

pub(super) fn us(length: u64) -> Nanos {
    Nanos::from_micros(length)
}

pub(super) fn nice(nice: i32) -> Class {
    Class::Fair { policy: SchedPolicy::Other, nice }
}

pub(super) fn fair(policy: SchedPolicy) -> Class {
    Class::Fair { policy, nice: 0 }
}

pub(super) fn fifo(priority: u32) -> Class {
    Class::Realtime { policy: SchedPolicy::Fifo, priority }
}

pub(super) fn rr(priority: u32) -> Class {
    Class::Realtime { policy: SchedPolicy::Rr, priority }
}

pub(super) fn deadline(runtime: u64, deadline: u64, period: u64) -> Class {
    Class::Deadline(Deadline { runtime: ms(runtime), deadline: ms(deadline), period: ms(period) })
}

impl Script {
    /// A program on so many CPUs, of this length.
    pub(super) fn new(cpus: u32, length: Nanos) -> Script {
        let cpus = (0..cpus).map(unstarve_model::CpuId).collect();
        Script { program: Program { cpus, length, ..Program::default() } }
    }

    pub(super) fn group(&mut self, parent: Option<usize>, load_weight: u32, quota: Option<(Nanos, Nanos)>) -> usize {
        let path = format!("/{}", self.program.cgroups.len());
        let quota = quota.map(|(runtime, period)| Quota { runtime, period });
        self.program.cgroups.push(Cgroup { path, parent, load_weight, quota });
        self.program.cgroups.len() - 1
    }

    /// An actor on these CPUs (such as `0-1`) in this cgroup.
    pub(super) fn actor(&mut self, class: Class, cpus: &str, cgroup: Option<usize>, ops: Vec<Op>) -> ActorId {
        let tid = Tid(self.program.actors.len() as u32 + 1);
        let placement = Placement { class, cpus: cpus.parse().expect("CPUs"), cgroup, slice: None };
        let costs = SwitchCosts::default();
        let comm = format!("actor-{}", tid.0);
        self.program.actors.push(Actor {
            tid,
            process: None,
            comm,
            is_kernel_thread: false,
            placement,
            begins_on: None,
            is_born: false,
            costs,
            ops,
        });
        ActorId(tid.0 - 1)
    }

    /// An actor on CPU 0 in the root group that computes all the time.
    pub(super) fn hog(&mut self, class: Class) -> ActorId {
        self.actor(class, "0", None, hog())
    }

    pub(super) fn play(&self, release: &str) -> Played {
        self.play_with(release, |_| ())
    }

    pub(super) fn play_with(&self, release: &str, change: impl Fn(&mut SchedulerModel)) -> Played {
        let knobs = &self.program.knobs;
        let mut model = SchedulerModel::of_kernel(release, self.program.cpus.len(), knobs).expect("a known kernel");
        change(&mut model);
        let played = play(&self.program, &model, Replica::AS_RECORDED).expect("it can be played");
        check_sums(&self.program, &played);
        played
    }
}

/// What an actor does that computes all the time.
pub(super) fn hog() -> Vec<Op> {
    vec![Op::Run(Nanos(u64::MAX))]
}

/// What an actor does that computes for `run` every `period`, `times` times, beginning with a sleep.
pub(super) fn ticker(period: Nanos, run: Nanos, times: u64) -> Vec<Op> {
    let at = |turn: u64| Nanos(period.0 * turn);
    (1..=times).flat_map(|turn| [Op::SleepUntil(at(turn)), Op::Run(run)]).collect()
}

/// Panics unless every nanosecond of each CPU and of each actor is accounted exactly once.
pub(super) fn check_sums(program: &Program, played: &Played) {
    let length = program.length;
    for (cpu, played) in played.cpus.iter().enumerate() {
        assert_eq!(played.ran + played.idle + played.switching, length, "CPU {cpu}: {played:?}");
    }
    let ran: Nanos = played.cpus.iter().map(|cpu| cpu.ran).sum();
    assert_eq!(played.felt.actors.iter().map(|felt| felt.ran).sum::<Nanos>(), ran);
    for (index, felt) in played.felt.actors.iter().enumerate() {
        let ended = played.finished[index].map_or(Nanos::ZERO, |at| length - at);
        let sum = felt.ran + felt.waited + played.slept[index] + ended;
        assert_eq!(sum, length, "actor {index}: {felt:?}, slept {}, ended {ended}", played.slept[index]);
        assert!(felt.longest <= felt.waited && felt.p99 <= felt.longest, "actor {index}: {felt:?}");
    }
}

/// The CPU time of each actor in percent of the length.
pub(super) fn shares(played: &Played) -> Vec<f64> {
    played.felt.actors.iter().map(|felt| felt.ran.share_of(played.felt.length) * 100.0).collect()
}
