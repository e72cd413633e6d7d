//! The text of claims about CPUs that were idle, interrupted or did not run.

use std::fmt;

use super::Halves;
use crate::claim::{CpuClaim, CpuHeadline, InterruptCost};

impl CpuHeadline {
    pub(super) fn in_words(&self) -> Halves {
        match self {
            Self::OwnIdle { who, longest, lost } => Halves::of(
                format!("{who} was kept off its idle CPU"),
                format!("up to {longest} at a time, {lost} in all; the events do not show by what"),
            ),
            Self::OtherIdle { who, lost, waits, longest } => Halves::of(
                format!("{who} waited beside an idle CPU that it may use"),
                format!("{lost} in {waits} waits, up to {longest} at a time"),
            ),
            Self::Interrupted { who, by, cost } => Halves::of(format!("{who} loses its CPU to {by}"), cost.to_string()),
            Self::Stopped { who, longest, lost } => Halves::of(
                format!("{who} waited for a CPU that did not run itself"),
                format!("up to {longest} at a time, {lost} in all"),
            ),
        }
    }
}

impl fmt::Display for InterruptCost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Share { share, of } => {
                write!(f, "{share} of the {of} in which it wanted to run")
            }
            Self::InOneWait(longest) => write!(f, "up to {longest} in one wait"),
        }
    }
}

impl fmt::Display for CpuClaim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::IdleExitIsShort => {
                f.write_str("a CPU leaves idle in microseconds, from the deepest states in a few milliseconds")
            }
            Self::IdleCauses => f.write_str(
                "possible causes: a cgroup's CPU limit, sched_ext, real-time throttling, a hypervisor that did not run the CPU, or a \
                 switch that was not recorded",
            ),
            Self::ShareBesideIdle { share, tick } => {
                write!(f, "{share} of the recording; waits with less than a tick ({tick}) of it are left out")
            }
            Self::AffinityKnown => f.write_str("its affinity is known from the host snapshot"),
            Self::AffinityInferred(moves) => write!(f, "its affinity is inferred: it has moved {moves} times"),
            Self::InterruptsTook { in_runs, in_waits } => {
                write!(f, "interrupts took {in_runs} out of its runs and {in_waits} out of its waits")
            }
            Self::PacketsOfHost => f.write_str(
                "hardly any of these softirqs followed a device's interrupt: programs of this host send the packets to each other",
            ),
            Self::Interrupt { what, count, cpu, total, share, longest } => write!(
                f,
                "{what}: {count} times on CPU {cpu}, {total} ({share} of the recording), up to {longest}"
            ),
            Self::TicksStopped => f.write_str(
                "its ticks came steadily, and then none for many periods, while the same task was current and no event of the CPU \
                 came; other CPUs went on",
            ),
            Self::Stolen { cpu, time } => write!(
                f,
                "the hypervisor did: it took {time} of CPU {cpu} during the recording (steal in /proc/stat)"
            ),
            Self::StopCauses => f.write_str(
                "possible causes: a hypervisor that ran another guest there (steal), firmware (SMI), or a section with interrupts off",
            ),
        }
    }
}
