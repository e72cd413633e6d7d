//! Claims about real-time and deadline tasks: those that keep others off a CPU, and those that wait behind lower tasks.

use unstarve_facts::PreemptMode;
use unstarve_model::{Nanos, Policy, Prio, Tid};
use unstarve_sched::Rule;

use super::{Actors, Kind, Share};
use crate::report::Work;

#[derive(Clone, PartialEq, Debug)]
pub(crate) enum RealTimeHeadline {
    // Tasks of a class had the CPU; `longest` is zero where each run was below 1 ms.
    KeptOff { who: Kind, lost: Nanos, by: Actors, class: Policy, longest: Nanos, period: Option<Nanos> },
    NotPreempted { who: Kind, longest: Nanos, behind: Actors, lost: Nanos, period: Option<Nanos> },
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) enum RealTimeClaim {
    // The priorities of occupant and victim.
    Precedence { high: Prio, low: Prio },
    // The share of the trace, and the rule that alone kept the victim off.
    KeptOffBy { share: Share, rule: Rule },
    Recurs { every: Nanos, seen: usize },
    // The share of the worst ten seconds.
    WorstWindow(Share),
    // The occupants waited behind the victim, too.
    TakeTurns { who: Actors, waited: Nanos },
    // What the occupants have in common.
    InGroup(String),
    DescendFrom(String, Tid),
    CreatedBy(String, Tid),
    // Priority inheritance: the holder of a lock has the priority of the booster.
    Inherits { holder: Actors, booster: Actors },
    // A task of lower priority was not preempted.
    NotPreempted { high: Option<Prio>, low: Option<Prio>, occupant: Actors },
    // The share of the recording, and the number of waits.
    ShareInWaits { share: Share, waits: u64 },
    RunsEvery(Nanos),
    WorkedAt(Actors, Work),
    Preempts(PreemptMode),
}
