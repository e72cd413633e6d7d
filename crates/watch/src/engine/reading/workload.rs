//! Waits by workload: a pod's container, or a systemd unit.

use std::sync::Arc;
use std::time::Duration;

use unstarve_model::Nanos;

use crate::engine::reading::Place;

/// Waits of one workload, each counted when it ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WorkloadSums {
    /// Total waiting time of its threads.
    pub waited: Nanos,
    /// The part in which threads of others had the CPU: other workloads, and kernel threads.
    pub behind: Nanos,
    /// The part in which the CPU was idle: its CPU limit stopped it, or the CPU woke up.
    pub idle: Nanos,
    /// For how long threads of others waited while its own had the CPU. Over all workloads, the same sum as `behind`.
    pub kept: Nanos,
}

/// Waits of one workload since it was first seen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Workload {
    /// Which pod, container or unit.
    pub place: Arc<Place>,
    /// Its number among all workloads that the engine has seen: one that is forgotten and seen again has another number, and its sums start at 0.
    pub number: u64,
    /// Its sums.
    pub sums: WorkloadSums,
}

/// All workloads that the engine can tell apart, at most [`Workloads::LIMIT`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Workloads {
    /// One entry for each workload, in no particular order.
    pub each: Vec<Workload>,
    /// The sums of all tasks, whether their workload is known or not, since the engine started. They never decrease.
    pub total: WorkloadSums,
}

impl Workloads {
    /// Maximum number of workloads at a time; `PLACES` of counted.h.
    pub const LIMIT: usize = 256;
    /// One that has not waited and kept nobody waiting for this long makes room for another one.
    pub(crate) const IDLE: Duration = Duration::from_secs(60);
}

impl WorkloadSums {
    /// Adds to each sum.
    pub(crate) fn add(&mut self, other: &WorkloadSums) {
        let add = |sum: &mut Nanos, ns: Nanos| *sum = Nanos(sum.0.wrapping_add(ns.0));
        add(&mut self.waited, other.waited);
        add(&mut self.behind, other.behind);
        add(&mut self.idle, other.idle);
        add(&mut self.kept, other.kept);
    }

    /// Of each sum the larger.
    #[must_use]
    pub(crate) fn most(&self, other: &WorkloadSums) -> WorkloadSums {
        WorkloadSums {
            waited: self.waited.max(other.waited),
            behind: self.behind.max(other.behind),
            idle: self.idle.max(other.idle),
            kept: self.kept.max(other.kept),
        }
    }

    /// The growth since earlier sums.
    #[must_use]
    pub(crate) fn since(&self, earlier: &WorkloadSums) -> WorkloadSums {
        WorkloadSums {
            waited: self.waited.saturating_sub(earlier.waited),
            behind: self.behind.saturating_sub(earlier.behind),
            idle: self.idle.saturating_sub(earlier.idle),
            kept: self.kept.saturating_sub(earlier.kept),
        }
    }
}
