//! The text of claims about tasks that switch, migrate or are woken too often.

use std::fmt;

use unstarve_model::counted;

use crate::claim::{SwitchingClaim, SwitchingHeadline};

impl fmt::Display for SwitchingHeadline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PingPong { who, consumer, lost } => write!(
                f,
                "{who} loses the CPU to {consumer} after nearly every item: {consumer} is woken, takes the CPU, finds one item and \
                 sleeps again; the worker waited {lost} for it."
            ),
            Self::Migrates { who, moves, ran_for_each } => {
                write!(f, "{who} moved {moves} times between CPUs, once for every {ran_for_each} that it ran.")
            }
            Self::Preempted { who, rate, by } => write!(
                f,
                "{who} wants the CPU all the time and loses it {rate:.0} times for each second it runs, to short runs of {by}."
            ),
            Self::Storm { members, who, cpus, waiting, bystander } => {
                let cpus = counted((*cpus).into(), "CPU");
                write!(
                    f,
                    "{members} threads {who} share {cpus} and are woken by the crowd: on average {waiting:.0} wait on a CPU"
                )?;
                if let Some(other) = bystander {
                    write!(
                        f,
                        "; {}, which has no part in it, waited {} behind them, up to {} at a time",
                        other.who, other.lost, other.longest
                    )?;
                }
                f.write_str(".")
            }
        }
    }
}

impl fmt::Display for SwitchingClaim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SwitchesPerItem { switches, items, runs } => {
                write!(f, "{switches:.1} switches for each completed item ({items} items in {runs} stays)")
            }
            Self::EndedByConsumer { share, consumer } => {
                write!(f, "{share} of the worker's stays end because {consumer}, whom it has just woken, takes the CPU")
            }
            Self::ConsumerRuns { consumer, mean } => {
                write!(f, "{consumer} then runs for {mean} on average and sleeps again")
            }
            Self::ItemTakes(mean) => write!(f, "an item takes {mean} from being queued to its end"),
            Self::GroupOutweighs { consumer, weight, worker } => write!(
                f,
                "{consumer} sits in a top-level cgroup of load weight {weight}, the worker in the root group with {worker}"
            ),
            Self::NoGroupOutweighs(consumer) => {
                write!(f, "no cgroup weight favours {consumer}: it is the wakeup preemption of equals")
            }
            Self::GroupMayOutweigh { consumer, command } => write!(
                f,
                "likely cause: {consumer} runs in a cgroup whose cpu.weight is above 100. This trace does not show it; `unstarve \
                 record` does, or: {command}"
            ),
            Self::ColdCaches { each, all } => {
                write!(f, "the kernel reckons a cold cache at {each} a move; at worst that is {all}")
            }
            Self::MovedInWaits(share) => {
                write!(f, "{share} of its waits saw a move while it waited")
            }
            Self::Involuntary { switches, rate } => {
                write!(f, "{switches} involuntary switches, {rate:.0} for each second that it ran")
            }
            Self::RunsFor { mean, shortest_slice } => write!(
                f,
                "it keeps the CPU for {mean} on average; the scheduler's own shortest slice is {shortest_slice}"
            ),
            Self::PreemptorRuns { by, mean } => write!(f, "{by} runs for {mean} at a time"),
            Self::WaitedToRun { who, waited, ran } => write!(
                f,
                "{who} threads waited {waited} to run {ran} in all: {:.1} times as long",
                waited.0 as f64 / ran.0.max(1) as f64
            ),
            Self::EachWakeup { runs, longest } => {
                write!(f, "each wakeup leads to {runs} of running, after a wait of up to {longest}")
            }
            Self::FollowWakeups(share) => {
                write!(f, "{share} of their waits follow a wakeup, not a preemption")
            }
        }
    }
}
