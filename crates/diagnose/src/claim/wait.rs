//! Claims about a wait, whatever its reason.

use unstarve_model::{CpuId, Nanos};
use unstarve_sched::Rule;
use unstarve_timeline::ActorId;

use super::{Actors, Claim, Kind, Share};
use crate::case::Case;

#[derive(Clone, PartialEq, Debug)]
pub(crate) enum WaitHeadline {
    Long { who: Kind, longest: Nanos, behind: Actors },
    Unproved(UnprovedWait),
}

/// A wait for a CPU that has no events after the holder took it: it lasted at least `proved` and at most `possible`.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct UnprovedWait {
    pub who: Kind,
    pub proved: Nanos,
    pub possible: Nanos,
    pub cpu: CpuId,
    pub holder: Actors,
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) enum WaitClaim {
    // The time lost, as a share of the trace.
    ShareOfTrace(Share),
    // The same in findings that speak of a recording.
    ShareOfRecording(Share),
    // Other tasks to which the same happened.
    AlsoWaited(Alike, Actors),
    // Other tasks that waited behind the same occupant, and their time.
    AlsoBehind { who: Actors, lost: Nanos },
    // The rule by which the occupant had the CPU.
    Under(Rule),
    NoEventAfter(CpuId),
    // It has less weight by its own nice value.
    IsNice,
    // Unfinished at the end of the recording: of its CPU, where `proved` is less than `possible`.
    StillWaiting { who: Kind, cpu: CpuId, proved: Nanos, possible: Nanos, holder: Actors },
    // It polls instead of sleeping: `SPDK reactor`.
    Polls { who: Actors, what: &'static str },
    // A scheduler of sched_ext decided about ordinary tasks; its name, if the kernel shows it.
    BpfScheduler(Option<String>),
    // Runnable when the recording began and when it ended, and never ran.
    SeenThroughout(Vec<String>),
    // Without any event; may have been asleep.
    MaybeThroughout(Vec<String>),
}

/// What exactly other tasks have in common with the victim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Alike {
    StoppedLikely,
    StoppedWithIt,
    WaitedForCpu,
    Waited,
    WaitedAsLong,
}

impl WaitClaim {
    /// If the occupant is known to poll.
    pub fn polls(case: &Case<'_>, occupant: ActorId) -> Option<Claim> {
        let what = case.poller(occupant)?.what();
        Some(WaitClaim::Polls { who: Actors::of(case, [occupant]), what }.into())
    }

    /// If a BPF scheduler was loaded.
    pub fn bpf_scheduler(case: &Case<'_>) -> Option<Claim> {
        let name = case.bpf_scheduler()?.name.map(|name| unstarve_model::clean(name).into_owned());
        Some(WaitClaim::BpfScheduler(name).into())
    }

    /// `None` if there are no others.
    pub fn also(case: &Case<'_>, alike: Alike, others: impl IntoIterator<Item = ActorId>) -> Option<Claim> {
        let who = Actors::of(case, others);
        (!who.names.is_empty()).then(|| WaitClaim::AlsoWaited(alike, who).into())
    }

    /// The others, each with its time; `None` if there are none.
    pub fn also_behind(case: &Case<'_>, others: impl Iterator<Item = (ActorId, Nanos)> + Clone) -> Option<Claim> {
        let who = Actors::of(case, others.clone().map(|(victim, _)| victim));
        let lost = others.map(|(_, lost)| lost).sum();
        (!who.names.is_empty()).then(|| WaitClaim::AlsoBehind { who, lost }.into())
    }
}
