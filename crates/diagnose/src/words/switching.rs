//! The text of claims about tasks that switch, migrate or are woken too often.

use std::fmt;

use unstarve_model::counted;

use super::Halves;
use crate::claim::{SwitchingClaim, SwitchingHeadline};

impl SwitchingHeadline {
    pub(super) fn in_words(&self) -> Halves {
        match self {
            Self::PingPong { who, consumer, lost } => Halves::of(
                format!("{who} loses the CPU to {consumer} after nearly every work item"),
                format!("each item wakes {consumer}, which takes the CPU and sleeps again; {lost} of waiting in all"),
            ),
            Self::Migrates { who, moves, ran_for_each } => Halves::of(
                format!("{who} moves between CPUs all the time"),
                format!("{moves} times, once for every {ran_for_each} of running"),
            ),
            Self::Preempted { who, rate, by } => Halves::of(
                format!("{who} is preempted all the time by short runs of {by}"),
                format!("{rate:.0} times for each second of running"),
            ),
            Self::Storm { members, who, cpus, waiting, bystander } => {
                let cpus = counted((*cpus).into(), "CPU");
                let bystander = bystander.as_ref().map(|other| {
                    format!(
                        "; {}, which is not one of them, waited {} behind them, up to {} at a time",
                        other.who, other.lost, other.longest
                    )
                });
                Halves::of(
                    format!("{members} threads {who} share {cpus} and are woken together"),
                    format!("{waiting:.0} wait for a CPU on average{}", bystander.unwrap_or_default()),
                )
            }
        }
    }
}

impl fmt::Display for SwitchingClaim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SwitchesPerItem { switches, items, runs } => {
                write!(f, "{switches:.1} switches for each completed item ({items} items in {runs} runs)")
            }
            Self::EndedByConsumer { share, consumer } => {
                write!(f, "{share} of the worker's runs end because {consumer}, which it has just woken, takes the CPU")
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
                write!(f, "the kernel assumes that a cold cache costs {each} a move: at worst {all} in all")
            }
            Self::MovedInWaits(share) => {
                write!(f, "in {share} of its waits it was moved while it waited")
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
