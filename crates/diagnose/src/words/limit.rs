//! The text of claims about limits.

use std::fmt;

use unstarve_model::Policy;

use super::{Halves, place};
use crate::claim::{GroupMembers, LimitClaim, LimitHeadline, QuotaCap};

impl LimitHeadline {
    pub(super) fn in_words(&self) -> Halves {
        match self {
            Self::Group { who, lost, path } => {
                let path = place(path);
                let (who, at_least) = match who {
                    GroupMembers::OneProgram(who) => (format!("{who} is"), ""),
                    GroupMembers::Programs(who) => (format!("{who} are"), ""),
                    GroupMembers::Unknown => (format!("The threads of {path} are"), "at least "),
                };
                let head = format!("{who} stopped by the CPU limit of {path}");
                Halves::of(head, format!("for {at_least}{lost}, and not by other threads"))
            }
            Self::GroupInferred { who, lost } => Halves::of(
                format!("{who} is stopped, most likely by a cgroup's CPU limit"),
                format!("for {lost}, and not by other threads"),
            ),
            Self::RealTimeClass { who, lost, longest, used_up } => {
                let by = used_up.as_ref().map(|other| format!(", which {other} used up")).unwrap_or_default();
                Halves::of(
                    format!("{who} (real-time) is stopped by the kernel's limit on real-time threads{by}"),
                    format!("for {lost}, up to {longest} at a time"),
                )
            }
            Self::Deadline { who, lost, longest } => Halves::of(
                format!("{who} (deadline) is stopped until its next period"),
                format!(
                    "for {lost}, up to {longest} at a time; it used up its runtime before the period ended, or gave the rest back"
                ),
            ),
            Self::Runtime { who, runtime, times, lost, longest } => Halves::of(
                format!("{who} (deadline) used up its runtime of {runtime} {times} times"),
                format!("stopped for {lost}, up to {longest} at a time"),
            ),
        }
    }
}

impl fmt::Display for LimitClaim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CpuWentIdle => {
                f.write_str("its CPU went idle while it was runnable and not moved: a bandwidth limit")
            }
            Self::CpuWentIdleOften { times, least } => write!(
                f,
                "its CPU went idle for more than {least}, {times} times, while it was runnable and not moved, which only a \
                 bandwidth limit explains if no events are missing"
            ),
            Self::Counted(counted) => write!(
                f,
                "the kernel counted {} of {} periods throttled, {} over all CPUs, while this was recorded",
                counted.count, counted.periods, counted.ns
            ),
            Self::UsedMost { most, used, by_others } => {
                write!(f, "of what its tasks that waited used of the limit, {most} had {used}, the others {by_others}")
            }
            Self::NoMemberKnown => f.write_str("none of its tasks existed when the host snapshot was taken"),
            Self::Quota { cap, hidden } => {
                let hidden = hidden.map(|hidden| {
                    format!("{hidden} of its waits were that limit's, see `throttled`, and are not counted here")
                });
                let parts: Vec<String> = cap.iter().map(QuotaCap::to_string).chain(hidden).collect();
                f.write_str(&parts.join("; "))
            }
            Self::LowerClassRan(policy) => {
                f.write_str("tasks of a lower class, or none, had its CPU while it was runnable")?;
                let only_limit = if *policy == Policy::Rt { ": no priority allows that, only the limit" } else { "" };
                f.write_str(only_limit)
            }
            Self::FairServer { runtime, period } => {
                write!(f, "the fair server gives starved tasks {runtime} of each {period}")
            }
            Self::RealTimeRuntime { runtime, period } => {
                write!(f, "real-time tasks may use {runtime} of each {period} (sched_rt_runtime_us)")
            }
            Self::RealTimeRan { ran, share } => {
                write!(f, "real-time tasks ran for {ran} ({share} of the recording)")
            }
            Self::PartOfThat { who, ran } => write!(f, "{who} had {ran} of that"),
            Self::WorksInPieces => {
                f.write_str("it ends other runs by itself: its work comes in pieces, and a stop delays one")
            }
            Self::RunsWithoutEnd => {
                f.write_str("it never leaves the CPU by itself: others run only while it is stopped")
            }
            Self::MeanRun(mean) => write!(f, "its runs were {mean} long on average"),
            Self::AskedFor { runtime, period } => write!(f, "it asked for {runtime} of each {period}"),
            Self::RunsSpent { spent, runs } => {
                write!(f, "{spent} of its {runs} runs ended when that was used up; it was still runnable")
            }
            Self::RunsEndedEarlier(runs) => {
                write!(f, "{runs} runs ended earlier: its work comes in pieces, and the stops delay them")
            }
            Self::NoRunEndedEarlier => f.write_str("it never ended a run by itself: only its runtime limits it"),
        }
    }
}

impl fmt::Display for QuotaCap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let QuotaCap { path, quota_us, period_us, due } = self;
        let path = path.escape_debug();
        write!(f, "the limit of {path} ({quota_us} µs of each {period_us} µs) allows it no more than {due}")
    }
}
