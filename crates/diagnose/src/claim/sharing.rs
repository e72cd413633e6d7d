//! Claims about fair tasks: of different weight, and equals.

use unstarve_model::Nanos;

use super::{Actors, Kind, Share};

#[derive(Clone, PartialEq, Debug)]
pub(crate) enum SharingHeadline {
    // Heavier tasks, whose number is `heavier`, had the CPU. `share` of its equal share is what the victim got.
    Outweighed { who: Kind, lost: Nanos, by: Actors, heavier: usize, longest: Option<Nanos>, share: Option<Share> },
    // That it is a weight is inferred from the share; `by_group` if most likely from that of the occupant's cgroup.
    OutweighedInferred { who: Kind, share: Share, by: Actors, by_group: bool },
    // `behind` is absent if it has the victim's name.
    StuckEqual { who: Kind, waited: Nanos, behind: Option<Actors>, held: Nanos },
    Crowded { who: Kind, longest: Nanos },
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) enum SharingClaim {
    Weights { occupant: Contender, victim: Contender },
    Owed { owed: Nanos, share: Share, due: Nanos, got: Nanos },
    // Time in waits of more than `least`.
    Stalled { stalled: Nanos, share: Share, behind: Nanos, least: Nanos },
    // The command that shows the weight.
    WeightNotRecorded { command: String },
    // Tasks of unknown session; all if absent.
    SessionsUnknown(Option<Actors>),
    // The share of the recording, and the longest time of the equal.
    LongerThanTurns { share: Share, held: Nanos },
    // Neither weights nor limits explain it.
    NoSettingExplains,
    // Some may, and the snapshot is missing.
    SettingMayExplain,
    KnownBug { id: &'static str, says: &'static str },
    WasIn { who: Actors, function: String },
    // The average number of tasks waiting on the CPU.
    WaitTogether(u64),
}

/// One side of a competition by weights.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Contender {
    pub who: Actors,
    pub weight: u32,
    pub of: WeightOf,
}

/// The owner of a load weight.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum WeightOf {
    Group(String),
    // An autogroup session with this nice value.
    Session(i32),
    // The task's cgroup, whose path is not known.
    ItsGroup,
    Task,
}
