//! The text of findings: the only module in which sentences about them are made. A file for each family of [`crate::claim`].

mod actors;
mod conclusion;
mod cpu;
mod data_quality;
mod difference;
mod limit;
mod place;
mod real_time;
mod selected;
mod sharing;
mod switching;
#[cfg(test)]
mod tests;
mod wait;

use std::fmt;

use unstarve_model::Nanos;

use crate::claim::{Claim, CpuHeadline, Headline, LimitHeadline, NeverRan, Share, SwitchingHeadline, Unproved};
use crate::report::Severity;

pub use place::place;
pub(crate) use selected::{before_finding, elsewhere, in_part, judged_by_the_whole, nobody, selection, task_pattern};

/// The sentence of a finding. That a victim never ran is more important than the headline.
pub(crate) fn sentence(never_ran: Option<&NeverRan>, halves: &Halves, unproved: Option<&Unproved>) -> String {
    let before = never_ran.map(|never_ran| format!("{never_ran} ")).unwrap_or_default();
    let after = unproved.map(|unproved| format!(" {unproved}")).unwrap_or_default();
    format!("{before}{}: {}.{after}", halves.head, halves.details)
}

/// What the sentence says first, without its full stop.
pub(crate) fn headline(never_ran: Option<&NeverRan>, halves: &Halves) -> String {
    never_ran.map_or_else(|| halves.head.clone(), |never_ran| never_ran.to_string().trim_end_matches('.').to_owned())
}

/// The sentence of a finding in two halves: `ksoftirqd/1 is starved by wl (real-time)` and `waited 177 ms, up to 90.0 ms at a time`.
pub(crate) struct Halves {
    /// What happens to which tasks, because of which others.
    pub head: String,
    /// How long.
    pub details: String,
}

impl Halves {
    fn of(head: String, details: String) -> Halves {
        Halves { head, details }
    }
}

/// What a finding says of its victims: only the worst is called starvation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verb {
    Starved,
    Delayed,
}

impl Verb {
    pub fn of(severity: Severity) -> Verb {
        if severity == Severity::Critical { Verb::Starved } else { Verb::Delayed }
    }
}

/// `is starved`, `is delayed`.
impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verb::Starved => "is starved",
            Verb::Delayed => "is delayed",
        })
    }
}

impl Headline {
    pub fn in_words(&self, verb: Verb) -> Halves {
        match self {
            Self::Wait(one) => one.in_words(verb),
            Self::Limit(one) => one.in_words(),
            Self::Cpu(one) => one.in_words(),
            Self::RealTime(one) => one.in_words(verb),
            Self::Sharing(one) => one.in_words(verb),
            Self::Switching(one) => one.in_words(),
        }
    }

    /// The reason, where the rule by which the culprit had the CPU is not all of it.
    pub fn why(&self) -> Option<&'static str> {
        match self {
            Self::Limit(LimitHeadline::Group { .. } | LimitHeadline::GroupInferred { .. }) => {
                Some("the cgroup has used up its CPU limit (rule: throttled)")
            }
            Self::Limit(LimitHeadline::RealTimeClass { .. }) => {
                Some("the kernel limits real-time threads to a part of each period (rule: throttled)")
            }
            Self::Limit(LimitHeadline::Deadline { .. } | LimitHeadline::Runtime { .. }) => {
                Some("a deadline thread may use its runtime once in each period (rule: throttled)")
            }
            Self::Cpu(CpuHeadline::OwnIdle { .. }) => {
                Some("the recording does not show what kept the thread off the CPU")
            }
            Self::Cpu(CpuHeadline::OtherIdle { .. }) => Some("the scheduler left the thread queued beside an idle CPU"),
            Self::Cpu(CpuHeadline::Interrupted { .. }) => Some("interrupts run before any thread"),
            Self::Cpu(CpuHeadline::Stopped { .. }) => Some("the CPU itself did not run"),
            Self::Switching(SwitchingHeadline::Migrates { .. }) => Some("the load balancer moves the threads"),
            Self::Wait(_) | Self::RealTime(_) | Self::Sharing(_) | Self::Switching(_) => None,
        }
    }
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wait(one) => one.fmt(f),
            Self::Limit(one) => one.fmt(f),
            Self::Cpu(one) => one.fmt(f),
            Self::RealTime(one) => one.fmt(f),
            Self::Sharing(one) => one.fmt(f),
            Self::Switching(one) => one.fmt(f),
        }
    }
}

pub(crate) fn evidence(claims: &[Claim]) -> Vec<String> {
    claims.iter().map(Claim::to_string).collect()
}

/// `37 %`, `0.4 %`.
impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = self.0 * 100.0;
        if self.0 < 0.0995 { write!(f, "{percent:.1} %") } else { write!(f, "{percent:.0} %") }
    }
}

/// `, every 1.00 s`, or nothing.
fn every(period: Option<Nanos>) -> String {
    period.map(|period| format!(", every {period}")).unwrap_or_default()
}
