//! How an episode ended.

use serde::{Deserialize, Serialize};
use unstarve_model::{ClockPair, Nanos, WallTime};

/// What the victim waited from the beginning to the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    /// The part that the culprit and the rule are to blame for; `None` if the rule is unknown.
    pub by_cause: Option<Nanos>,
    /// All waits of the victim's role; `None` for one group of several in a role.
    pub waited: Option<Nanos>,
}

/// An episode that has ended.
#[derive(Clone, PartialEq, Debug)]
pub struct Ended {
    /// The number of its [`Begun`](super::Begun).
    pub number: u64,
    /// When its condition was last above its threshold.
    pub at: ClockPair,
    /// From the earliest time at which its waits can have begun until then.
    pub duration: Nanos,
    /// What was waited meanwhile.
    pub totals: Totals,
    /// Why it counts as over.
    pub reason: EndReason,
}

/// Why an episode counts as over.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EndReason {
    /// Its condition was not above its threshold for `calm`.
    Calm,
    /// It goes on as the episode `continued_as`.
    Continued,
    /// The watch ended: it may have lasted longer.
    WatchEnded,
    /// The watch was killed: its end was not seen.
    WatchKilled,
    /// The machine stood still or slept, or the counters began anew: it may have lasted longer.
    MachineStood,
    /// Too many episodes were open, and this one was calm, though not for long enough.
    Crowded,
}

impl EndReason {
    /// The word for JSON, tables and fields of the journal.
    pub fn word(self) -> &'static str {
        match self {
            EndReason::Calm => "calm",
            EndReason::Continued => "continued",
            EndReason::WatchEnded => "watch-ended",
            EndReason::WatchKilled => "watch-killed",
            EndReason::MachineStood => "machine-stood",
            EndReason::Crowded => "crowded",
        }
    }
}

/// The end of an episode.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct End {
    pub at: Option<WallTime>,
    pub duration: Option<Nanos>,
    pub totals: Totals,
    pub reason: EndReason,
    pub continued_as: Option<String>,
}

impl End {
    /// Nobody saw it.
    pub fn unseen(reason: EndReason) -> End {
        End { at: None, duration: None, totals: Totals::default(), reason, continued_as: None }
    }

    /// Another episode goes on in its place, from this time on.
    pub fn continued(at: WallTime, id: String) -> End {
        End { at: Some(at), continued_as: Some(id), ..End::unseen(EndReason::Continued) }
    }
}

impl From<Ended> for End {
    fn from(ended: Ended) -> End {
        let Ended { at, duration, totals, reason, .. } = ended;
        End { at: Some(at.wall), duration: Some(duration), totals, reason, continued_as: None }
    }
}
