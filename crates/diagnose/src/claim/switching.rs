//! Claims about tasks that switch, migrate or are woken too often.

use unstarve_model::Nanos;

use super::{Actors, Kind, Share};

#[derive(Clone, PartialEq, Debug)]
pub(crate) enum SwitchingHeadline {
    PingPong { who: Kind, consumer: Actors, lost: Nanos },
    Migrates { who: Kind, moves: u64, ran_for_each: Nanos },
    // `rate` is per second of running.
    Preempted { who: Kind, rate: f64, by: Actors },
    Storm { members: u32, who: Actors, cpus: u32, waiting: f64, bystander: Option<Bystander> },
}

/// A task that waits behind a crowd and is not in it.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Bystander {
    pub who: Actors,
    pub lost: Nanos,
    pub longest: Nanos,
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) enum SwitchingClaim {
    SwitchesPerItem { switches: f64, items: u64, runs: u64 },
    // The share of the worker's runs that its consumer ends.
    EndedByConsumer { share: Share, consumer: Actors },
    ConsumerRuns { consumer: Actors, mean: Nanos },
    ItemTakes(Nanos),
    // The weights of the consumer's cgroup and of the worker.
    GroupOutweighs { consumer: Actors, weight: u32, worker: u32 },
    NoGroupOutweighs(Actors),
    // The command that shows the weight.
    GroupMayOutweigh { consumer: Actors, command: String },
    // The cost of one migration and of all.
    ColdCaches { each: Nanos, all: Nanos },
    // The share of waits with a migration.
    MovedInWaits(Share),
    // Involuntary switches, and their rate per second of running.
    Involuntary { switches: u64, rate: f64 },
    RunsFor { mean: Nanos, shortest_slice: Nanos },
    PreemptorRuns { by: Actors, mean: Nanos },
    WaitedToRun { who: Actors, waited: Nanos, ran: Nanos },
    EachWakeup { runs: Nanos, longest: Nanos },
    // The share of waits that follow a wakeup.
    FollowWakeups(Share),
}
