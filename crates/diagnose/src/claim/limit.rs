//! Claims about limits: a cgroup's quota, and the kernel's limits on real-time and deadline tasks.

use unstarve_facts::Throttled;
use unstarve_model::{Nanos, Policy};

use super::{Actors, Kind, Share};

#[derive(Clone, PartialEq, Debug)]
pub(crate) enum LimitHeadline {
    Group { who: GroupMembers, lost: Nanos, path: String },
    // That it is a cgroup's limit is inferred.
    GroupInferred { who: Kind, lost: Nanos },
    // The real-time class was throttled: `used_up` by another task, or by the victim itself.
    RealTimeClass { who: Kind, lost: Nanos, longest: Nanos, used_up: Option<Actors> },
    // A deadline task, whose runtime is not known.
    Deadline { who: Kind, lost: Nanos, longest: Nanos },
    // A deadline task used up its runtime.
    Runtime { who: Kind, runtime: Nanos, times: u64, lost: Nanos, longest: Nanos },
}

/// The throttled tasks of a cgroup.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum GroupMembers {
    OneProgram(Kind),
    Programs(Actors),
    // None is in the snapshot; the lost time is then a lower bound.
    Unknown,
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) enum LimitClaim {
    // The victim's CPU went idle beside it.
    CpuWentIdle,
    // The same, several times and each time for longer than `least`.
    CpuWentIdleOften { times: u64, least: Nanos },
    // The kernel's counters of the cgroup.
    Counted(Throttled),
    // Which program used most of the quota.
    UsedMost { most: Actors, used: Nanos, by_others: Nanos },
    NoMemberKnown,
    // What a cgroup's quota allows, and what it took.
    Quota { cap: Option<QuotaCap>, hidden: Option<Nanos> },
    // A lower class, or idle, had the CPU of this task.
    LowerClassRan(Policy),
    // The fair server's runtime and period.
    FairServer { runtime: Nanos, period: Nanos },
    // `sched_rt_runtime_us` and its period.
    RealTimeRuntime { runtime: Nanos, period: Nanos },
    RealTimeRan { ran: Nanos, share: Share },
    // The part of that which one task had.
    PartOfThat { who: Actors, ran: Nanos },
    // The throttled task ends other runs by itself.
    WorksInPieces,
    // It takes all CPU time it gets.
    RunsWithoutEnd,
    MeanRun(Nanos),
    // What the deadline task asked for.
    AskedFor { runtime: Nanos, period: Nanos },
    // Of its runs, those that used up the runtime.
    RunsSpent { spent: u64, runs: u64 },
    // Those that ended before.
    RunsEndedEarlier(u64),
    // There is no such run.
    NoRunEndedEarlier,
}

/// A quota that allows a task less than its fair share.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct QuotaCap {
    pub path: String,
    pub quota_us: u64,
    pub period_us: u64,
    pub due: Nanos,
}
