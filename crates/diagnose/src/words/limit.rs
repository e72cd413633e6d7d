//! The text of claims about limits.

use std::fmt;

use unstarve_model::Policy;

use crate::claim::{GroupMembers, LimitClaim, LimitHeadline, QuotaCap};

impl fmt::Display for LimitHeadline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Group { who, lost, path } => {
                let path = path.escape_debug();
                match who {
                    GroupMembers::OneProgram(who) => write!(f, "{who} was stopped for {lost}")?,
                    GroupMembers::Programs(who) => write!(f, "{who} were stopped for {lost}")?,
                    GroupMembers::Unknown => write!(f, "The tasks of {path} were stopped for at least {lost}")?,
                }
                write!(f, " by the CPU limit of {path}, not by other tasks.")
            }
            Self::GroupInferred { who, lost } => {
                write!(f, "{who} was stopped for {lost}, most likely by a cgroup's CPU limit, not by other tasks.")
            }
            Self::RealTimeClass { who, lost, longest, used_up } => {
                write!(f, "{who} (real-time) was stopped for {lost}, up to {longest} at a time: ")?;
                match used_up {
                    Some(other) => write!(f, "{other} had used up what the kernel allows real-time tasks."),
                    None => f.write_str("it used up what the kernel allows real-time tasks."),
                }
            }
            Self::Deadline { who, lost, longest } => write!(
                f,
                "{who} (deadline) was stopped for {lost}, up to {longest} at a time: it used up its runtime before the period \
                 ended, or gave the rest back."
            ),
            Self::Runtime { who, runtime, times, lost, longest } => write!(
                f,
                "{who} (deadline) used up its runtime of {runtime} {times} times and was stopped for {lost}, up to {longest} at a \
                 time."
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
            Self::NoMemberKnown => f.write_str("none of its tasks was there when the host was asked"),
            Self::Quota { cap, hidden } => {
                let hidden = hidden.map(|hidden| {
                    format!("{hidden} of its waits were that limit's, see `throttled`, and are not counted here")
                });
                let parts: Vec<String> = cap.iter().map(QuotaCap::to_string).chain(hidden).collect();
                f.write_str(&parts.join("; "))
            }
            Self::LowerClassRan(policy) => {
                f.write_str("tasks of a lower class, or nobody, had its CPU while it was runnable")?;
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
                write!(f, "real-time tasks ran for {ran} ({share} of the trace)")
            }
            Self::PartOfThat { who, ran } => write!(f, "{who} had {ran} of that"),
            Self::WorksInPieces => {
                f.write_str("it ends other turns by itself: its work comes in pieces, and a stop delays one")
            }
            Self::RunsWithoutEnd => {
                f.write_str("it never leaves the CPU by itself: what it does not get is all that others have")
            }
            Self::MeanRun(mean) => write!(f, "its runs were {mean} long on average"),
            Self::AskedFor { runtime, period } => write!(f, "it asked for {runtime} of each {period}"),
            Self::RunsSpent { spent, runs } => {
                write!(f, "{spent} of its {runs} turns ended when that was used up, and it was runnable still")
            }
            Self::RunsEndedEarlier(runs) => {
                write!(f, "{runs} turns ended earlier: its work comes in pieces, and the stops delay them")
            }
            Self::NoRunEndedEarlier => {
                f.write_str("it never ended a turn by itself: it computes without end, and its runtime limits it")
            }
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
