//! What findings state, as data. Text is made of it in [`crate::words`] alone.
//!
//! Findings that state similar facts share a family: its claims and headlines are in one file here, and their words in the file of
//! the same name there.

mod actors;
mod conclusion;
mod cpu;
mod data_quality;
mod difference;
mod limit;
mod real_time;
mod sharing;
mod switching;
mod wait;

use unstarve_model::{CpuId, Nanos};

pub(crate) use actors::{Actors, Kind};
pub(crate) use conclusion::{Answer, Conclusion, Lead, Reservation};
pub(crate) use cpu::{CpuClaim, CpuHeadline, InterruptCost};
pub(crate) use data_quality::{Doubt, Incomplete, Uncertain};
pub(crate) use difference::{Difference, Unjudged};
pub(crate) use limit::{GroupMembers, LimitClaim, LimitHeadline, QuotaCap};
pub(crate) use real_time::{RealTimeClaim, RealTimeHeadline};
pub(crate) use sharing::{Contender, SharingClaim, SharingHeadline, WeightOf};
pub(crate) use switching::{Bystander, SwitchingClaim, SwitchingHeadline};
pub(crate) use wait::{Alike, UnprovedWait, WaitClaim, WaitHeadline};

/// A part of something, 0 to 1.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Share(pub f64);

/// One enum of all families.
macro_rules! families {
    ($(#[$doc:meta])* $name:ident { $($family:ident($of:ident)),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Debug)]
        pub(crate) enum $name {
            $($family($of)),*
        }
        $(impl From<$of> for $name {
            fn from(one: $of) -> $name {
                $name::$family(one)
            }
        })*
    };
}

families! {
    /// A fact that speaks for a finding.
    Claim {
        Wait(WaitClaim),
        Limit(LimitClaim),
        Cpu(CpuClaim),
        RealTime(RealTimeClaim),
        Sharing(SharingClaim),
        Switching(SwitchingClaim),
    }
}

families! {
    /// The sentence of a finding: which tasks waited, for how long, behind which others, and why.
    Headline {
        Wait(WaitHeadline),
        Limit(LimitHeadline),
        Cpu(CpuHeadline),
        RealTime(RealTimeHeadline),
        Sharing(SharingHeadline),
        Switching(SwitchingHeadline),
    }
}

/// Names of victims that were runnable for the whole recording and never ran; goes before the headline.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum NeverRan {
    Seen(Vec<String>),
    Inferred(Vec<String>),
}

/// An unfinished wait of which less than half is proved, because the events of its CPU end early; goes after the headline.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Unproved {
    pub proved: Nanos,
    pub possible: Nanos,
    pub cpu: CpuId,
}
