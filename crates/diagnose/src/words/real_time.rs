//! The text of claims about real-time and deadline tasks.

use std::fmt;

use unstarve_facts::PreemptMode;
use unstarve_model::{Nanos, Policy, Prio};
use unstarve_sched::Rule;

use super::{Halves, Verb, every};
use crate::claim::{RealTimeClaim, RealTimeHeadline};

impl RealTimeHeadline {
    pub(super) fn in_words(&self, verb: Verb) -> Halves {
        match self {
            Self::KeptOff { who, lost, by, class, longest, period } => {
                let class = if *class == Policy::Deadline { "deadline" } else { "real-time" };
                let longest = match *longest {
                    Nanos::ZERO => "less than 1 ms at a time".to_owned(),
                    longest => format!("up to {longest} at a time"),
                };
                Halves::of(
                    format!("{who} {verb} by {by} ({class})"),
                    format!("waited {lost}, {longest}{}", every(*period)),
                )
            }
            Self::NotPreempted { who, longest, behind, lost, period } => Halves::of(
                format!("{who} {verb} by {behind}, which has a lower priority and was not preempted"),
                format!("waited up to {longest} at a time, {lost} in all{}", every(*period)),
            ),
        }
    }
}

impl fmt::Display for RealTimeClaim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Precedence { high, low } if high == low && high.policy() == Policy::Deadline => {
                f.write_str("both are deadline tasks, of which the one with the earlier deadline goes first")
            }
            Self::Precedence { high, low } if high == low => write!(
                f,
                "both have {}: the one that has the CPU keeps it until it leaves (SCHED_FIFO), or for a slice of up to 100 ms \
                 (SCHED_RR)",
                priority(*high)
            ),
            Self::Precedence { high, low } => {
                write!(f, "{} always runs before {}", priority(*high), priority(*low))
            }
            Self::KeptOffBy { share, rule } => {
                let rule = if *rule == Rule::Order { "order among equals" } else { rule.word() };
                write!(f, "for {share} of the recording it was runnable, and kept off the CPU by {rule} alone")
            }
            Self::Recurs { every, seen } => match seen {
                2 => write!(f, "seen twice, {every} apart"),
                seen => write!(f, "recurs every {every}, seen {seen} times"),
            },
            Self::WorstWindow(share) => write!(f, "{share} of its worst ten seconds"),
            Self::TakeTurns { who, waited } => {
                write!(f, "{who} waited {waited} behind the victim, too: they take turns")
            }
            Self::InGroup(path) => write!(f, "all of them are in the cgroup {}", path.escape_debug()),
            Self::DescendFrom(name, tid) => write!(f, "all of them descend from {name} ({tid})"),
            Self::CreatedBy(name, tid) => write!(f, "all of them were created by {name} ({tid})"),
            Self::Inherits { holder, booster } => write!(
                f,
                "{holder} is a normal thread that runs with the priority of {booster}, which waits for its lock (priority inheritance)"
            ),
            Self::NotPreempted { high, low, occupant } => {
                let [high, low] = [high, low].map(|prio| prio.map_or("?".to_owned(), priority));
                write!(f, "{high} runs before {low} ({occupant}). It waited until that thread left the CPU")
            }
            Self::ShareInWaits { share, waits } => {
                write!(f, "{share} of the recording, in {waits} waits in all")
            }
            Self::RunsEvery(period) => write!(f, "it runs every {period}"),
            Self::WorkedAt(who, work) => write!(f, "{who} worked at {work}"),
            Self::Preempts(mode) => write!(f, "this kernel preempts as {}", preempts(*mode)),
        }
    }
}

/// `real-time priority 1`, `a normal thread`: on the scale of chrt and nice, not the kernel's.
fn priority(prio: Prio) -> String {
    match (prio.policy(), prio.nice()) {
        (Policy::Rt, _) => format!("real-time priority {}", 99 - prio.0.clamp(0, 99)),
        (Policy::Deadline, _) => "a deadline thread".to_owned(),
        (_, Some(0) | None) => "a normal thread".to_owned(),
        (_, Some(nice)) => format!("a normal thread of nice {nice}"),
    }
}

fn preempts(mode: PreemptMode) -> &'static str {
    match mode {
        PreemptMode::None => "preempt=none: only where kernel code allows it",
        PreemptMode::Voluntary => "preempt=voluntary: only where kernel code allows it",
        PreemptMode::Lazy => "preempt=lazy: real-time wakeups at once, fair ones at the tick",
        PreemptMode::Full => "preempt=full: everywhere but in sections with preemption off",
        PreemptMode::Realtime => "PREEMPT_RT: nearly everywhere",
    }
}
