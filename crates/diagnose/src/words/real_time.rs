//! The text of claims about real-time and deadline tasks.

use std::fmt;

use unstarve_facts::PreemptMode;
use unstarve_model::{Nanos, Policy, Prio};
use unstarve_sched::Rule;

use super::every;
use crate::claim::{RealTimeClaim, RealTimeHeadline};

impl fmt::Display for RealTimeHeadline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::KeptOff { who, lost, by, class, longest, period } => {
                let class = if *class == Policy::Deadline { "deadline" } else { "real-time" };
                let longest = match *longest {
                    Nanos::ZERO => "less than 1 ms at a time".to_owned(),
                    longest => format!("up to {longest} at a time"),
                };
                write!(f, "{who} waited {lost} while {by} ({class}) had its CPU, {longest}{}.", every(*period))
            }
            Self::NotPreempted { who, longest, behind, lost, period } => write!(
                f,
                "{who} waited up to {longest} behind {behind}, which goes after it and was not preempted, {lost} in all{}.",
                every(*period)
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
                "both have priority {}: who has the CPU keeps it until it leaves (SCHED_FIFO), or for a slice of up to 100 ms \
                 (SCHED_RR)",
                priority(*high)
            ),
            Self::Precedence { high, low } => {
                write!(f, "priority {} always runs before {}", priority(*high), priority(*low))
            }
            Self::KeptOffBy { share, rule } => {
                let rule = if *rule == Rule::Order { "order among equals" } else { rule.word() };
                write!(f, "{share} of the trace: runnable, and kept off the CPU by {rule} alone")
            }
            Self::Recurs { every, seen } => {
                let hedge = if *seen == 2 { "; two make only one interval" } else { "" };
                write!(f, "recurs every {every}, seen {seen} times{hedge}")
            }
            Self::WorstWindow(share) => write!(f, "{share} of its worst ten seconds"),
            Self::TakeTurns { who, waited } => {
                write!(f, "{who} waited {waited} the other way round: they take turns")
            }
            Self::InGroup(path) => write!(f, "all of them are in the cgroup {}", path.escape_debug()),
            Self::DescendFrom(name, tid) => write!(f, "all of them descend from {name} ({tid})"),
            Self::CreatedBy(name, tid) => write!(f, "all of them were created by {name} ({tid})"),
            Self::Inherits { holder, booster } => write!(
                f,
                "{holder} is an ordinary task, lifted to the priority of {booster}, which it wakes in the end (priority inheritance)"
            ),
            Self::NotPreempted { high, low, occupant } => {
                let [high, low] = [high, low].map(|prio| prio.map_or("?".to_owned(), priority));
                write!(
                    f,
                    "priority {high} goes before {low} ({occupant}), and did not until that one left or was preempted"
                )
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

/// `98 (rt)`.
fn priority(prio: Prio) -> String {
    format!("{} ({})", prio.0, prio.policy())
}

fn preempts(mode: PreemptMode) -> &'static str {
    match mode {
        PreemptMode::None => "preempt=none: only where code gives way",
        PreemptMode::Voluntary => "preempt=voluntary: only where code gives way",
        PreemptMode::Lazy => "preempt=lazy: real-time wakeups at once, fair ones at the tick",
        PreemptMode::Full => "preempt=full: everywhere but in sections with preemption off",
        PreemptMode::Realtime => "PREEMPT_RT: nearly everywhere",
    }
}
