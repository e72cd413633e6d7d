//! The text of claims about CPUs that were idle, interrupted or did not run.

use std::fmt;

use super::percent;
use crate::claim::{CpuClaim, CpuHeadline, InterruptCost};

impl fmt::Display for CpuHeadline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CpuHeadline::OwnIdle { who, longest, lost } => write!(
                f,
                "{who} was runnable for up to {longest} while its own CPU was idle, {lost} in all: something that the events do \
                 not show kept it off."
            ),
            CpuHeadline::OtherIdle { who, lost, waits, longest } => write!(
                f,
                "{who} waited beside an idle CPU that it may use: {lost} in {waits} waits, up to {longest} at a time."
            ),
            CpuHeadline::Interrupted { who, by, cost } => write!(f, "{who} loses its CPU to {by}: {cost}."),
            CpuHeadline::Stopped { who, longest, lost } => {
                write!(f, "{who} waited up to {longest} for a CPU that did not run itself, {lost} in all.")
            }
        }
    }
}

impl fmt::Display for InterruptCost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InterruptCost::Share { share, of } => {
                write!(f, "{} of the {of} in which it wanted to run", percent(*share))
            }
            InterruptCost::InOneWait(longest) => write!(f, "up to {longest} in one wait"),
        }
    }
}

impl fmt::Display for CpuClaim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CpuClaim::IdleExitIsShort => {
                f.write_str("a CPU leaves idle in microseconds, from the deepest states in a few milliseconds")
            }
            CpuClaim::IdleCauses => f.write_str(
                "what may be: a cgroup's CPU limit, sched_ext, real-time throttling, a hypervisor that did not run the CPU, or a \
                 switch that was not recorded",
            ),
            CpuClaim::ShareBesideIdle { share, tick } => {
                write!(f, "{} of the trace; waits with less than a tick ({tick}) of it are left out", percent(*share))
            }
            CpuClaim::AffinityKnown => f.write_str("its affinity is known from the host snapshot"),
            CpuClaim::AffinityInferred(moves) => write!(f, "its affinity is inferred: it has moved {moves} times"),
            CpuClaim::InterruptsTook { in_runs, in_waits } => {
                write!(f, "interrupts took {in_runs} out of its runs and {in_waits} out of its waits")
            }
            CpuClaim::PacketsOfHost => f.write_str(
                "hardly any of these softirqs followed a device's interrupt: programs of this host send the packets to each other",
            ),
            CpuClaim::Interrupt { what, count, cpu, total, share, longest } => write!(
                f,
                "{what}: {count} times on CPU {cpu}, {total} ({} of the trace), up to {longest}",
                percent(*share)
            ),
            CpuClaim::TicksStopped => f.write_str(
                "its ticks came steadily, and then none for many periods, while the same task was current and no event of the CPU \
                 came; other CPUs went on",
            ),
            CpuClaim::StopCauses => f.write_str(
                "what may be: a hypervisor that ran another guest there (steal), firmware (SMI), or a section with interrupts off",
            ),
        }
    }
}
