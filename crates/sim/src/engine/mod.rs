//! Engine A: a [`Program`] played forward under a model of the Linux scheduler, in milliseconds.
//!
//! [`play`] is a simulation of discrete events: ends of runs, timers, ticks. What the kernel decides is in `unstarve-sched`
//! ([`unstarve_sched::fair`], [`unstarve_sched::rt`], [`unstarve_sched::deadline`]), with its source; here are the queues, the
//! actors and the clock.
//!
//! # What is modelled
//!
//! CFS up to 6.5 and EEVDF from 6.6 on with the settings and feature bits of [`SchedulerModel`], nested cgroups by weight (on
//! several CPUs by the part of their load on each), `cpu.max`, SCHED_BATCH and SCHED_IDLE; FIFO and RR with the real-time limit up
//! to 6.11, the fair server since; SCHED_DEADLINE with throttling; ticks, wakeup preemption, custom slices, delayed dequeue. A
//! woken actor goes to its last CPU, or to an idle one that it may use; an idle CPU pulls a waiting actor; a real-time actor goes
//! to the CPU with the least important one.
//!
//! # What is not
//!
//! Periodic load balancing, choice of a CPU by load or cache, capacities, NUMA, SMT; caches and frequencies: a run is as long
//! as it was recorded; interrupts and softirqs outside of threads; the time in which the kernel cannot be preempted, or is lazy
//! about it (PREEMPT_LAZY); priority inheritance; `sched_yield`; BPF schedulers; groups of SCHED_RR and FIFO (CONFIG_RT_GROUP_SCHED); core
//! scheduling; the slices of 5 ms in which a CPU takes a cgroup's quota; burst.

mod balance;
#[cfg(test)]
mod builder;
mod check;
mod classes;
mod events;
mod fair;
mod operations;
#[cfg(test)]
mod random;
mod replica;
mod run;
mod scheduler_model;
mod state;
#[cfg(test)]
mod tests;

use unstarve_model::{Event, Nanos};

pub use replica::Replica;
pub use scheduler_model::{Costs, FairRules, SchedulerModel};

use crate::{ActorId, Felt, Program};

/// What happened when a program was played.
#[derive(Clone, PartialEq, Debug)]
pub struct Played {
    /// What each actor felt. A wait that lasts at the end counts up to there.
    pub felt: Felt,
    /// When each actor had done all of its operations; `None` if it had not by the end.
    pub finished: Vec<Option<Nanos>>,
    /// How long each actor slept. With its CPU time, its waits and the time after it finished, this is the whole length.
    pub slept: Vec<Nanos>,
    /// What each CPU did, in the order of the program's CPUs.
    pub cpus: Vec<CpuPlayed>,
    /// How many events that took.
    pub events: u64,
}

/// What a CPU did. The three times are the whole length.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CpuPlayed {
    /// It ran actors.
    pub ran: Nanos,
    /// Nobody wanted it.
    pub idle: Nanos,
    /// It switched between actors, at [`Costs::switch`] and [`Costs::wake`].
    pub switching: Nanos,
    /// How often it switched to an actor.
    pub switches: u64,
}

/// Why a program could not be played.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The program does not say on which kernel it was recorded.
    #[error("the program names no kernel, so its scheduler is unknown; name one (such as 6.12)")]
    NoKernel,
    /// The kernel is not known.
    #[error(
        "`{release}` is no kernel whose scheduler is known here; Linux 3.10 to {} are",
        unstarve_facts::Version::NEWEST_READ
    )]
    UnknownKernel {
        /// Its release.
        release: String,
    },
    /// A setting that the model needs is missing from the facts.
    #[error("no kernel has a setting `{name}`")]
    NoSuchSetting {
        /// Its name.
        name: String,
    },
    /// A setting has a value that is no number.
    #[error("`{name}` is set to `{value}`, which is no number")]
    NotANumber {
        /// The setting.
        name: String,
        /// Its value.
        value: String,
    },
    /// The program has no CPU.
    #[error("the program has no CPU to run on")]
    NoCpu,
    /// The program is longer than a day, or has a longer time in it.
    #[error("the program lasts {length}, and at most a day can be played")]
    TooLong {
        /// Its length.
        length: Nanos,
    },
    /// An index in the program leads nowhere.
    #[error("{place} names {what} that the program does not have")]
    Dangling {
        /// Where.
        place: String,
        /// What.
        what: String,
    },
    /// An actor's class has a policy or parameters that no kernel takes there.
    #[error("actor {} has the policy {policy} in a class or with parameters for which no kernel takes it", .actor.0)]
    ImpossibleClass {
        /// The actor.
        actor: ActorId,
        /// Its policy.
        policy: &'static str,
    },
    /// The events became too many.
    #[error(
        "stopped after {events} events, {at} into the program: far more than its {operations} operations should take; \
         this is a fault of the model, or its slices are far too short"
    )]
    TooManyEvents {
        /// The limit.
        events: u64,
        /// The time in the program.
        at: Nanos,
        /// The program's operations.
        operations: usize,
    },
}

/// Plays a program forward, from its beginning to its recorded length. The same arguments give the same result.
///
/// # Errors
///
/// The program is malformed or too long, or the events became too many; see [`EngineError`].
pub fn play(program: &Program, scheduler: &SchedulerModel, replica: Replica) -> Result<Played, EngineError> {
    check::check(program)?;
    Ok(run::Engine::new(program, scheduler, replica)?.run()?.0)
}

/// The same with the events that a recording of it would have.
///
/// # Errors
///
/// As [`play`].
pub fn play_recorded(
    program: &Program,
    scheduler: &SchedulerModel,
    replica: Replica,
) -> Result<(Played, Vec<Event>), EngineError> {
    check::check(program)?;
    let mut engine = run::Engine::new(program, scheduler, replica)?;
    engine.log = Some(events::Log::default());
    engine.run()
}
