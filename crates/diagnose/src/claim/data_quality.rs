//! Why a recording cannot show that no task is starved.

use unstarve_model::{Loss, Nanos};

use super::{Actors, Kind, UnprovedWait};

#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Doubt {
    // Events are missing, or lack what a wait is judged by: its rates are not valid.
    Incomplete(Incomplete),
    // All events are there, but the reason of one wait is not: most of it was behind an equal.
    Unexplained { who: Kind, waited: Nanos, held: Nanos, occupant: Actors, has_snapshot: bool },
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Incomplete {
    // None could be read of a file with so many parts that could not be decoded.
    SwitchesUnreadable(u64),
    NoSwitches,
    FewSwitches(u64),
    // Shorter than any stall.
    Short { span: Nanos, stall: Nanos },
    // The longest wait in a recording without priorities.
    NoPriorities(Nanos),
    // A wait of, or behind, a task of unknown priority.
    Unranked { who: Actors, waited: Nanos, behind: Actors },
    CpusNotRecorded(Loss),
    SwitchesMissing { missing: u64, read: u64 },
    PartsUndecoded(u64),
    EventsLost { lost: u64, read: u64 },
    EventsOutOfOrder(u64),
    OccupantUnknown { unknown: Nanos, waited: Nanos },
    EndsEarly { loss: Loss, wait: Option<UnprovedWait> },
}

/// Why a finding is not certain.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Uncertain {
    // The events show the waits, but not the cause itself; or only weights and limits would show it.
    Inferred { from_settings: bool },
    OccupantUnknown { unknown: Nanos, waited: Nanos },
    Lost(Loss),
    // The waits were not over when the recording ended.
    NotOver,
}
