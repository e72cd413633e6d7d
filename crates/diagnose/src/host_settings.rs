use std::sync::Arc;

use unstarve_kernel::Snapshot;
use unstarve_model::Tid;
use unstarve_timeline::{CpuSet, Settings};

/// What the timeline may ask a host snapshot.
#[derive(Debug)]
pub(crate) struct HostSettings(pub Arc<Snapshot>);

impl Settings for HostSettings {
    fn group_weight(&self, tid: Tid) -> Option<u32> {
        self.0.weight_of_top_cgroup(tid)
    }

    fn allowed_cpus(&self, tid: Tid) -> Option<CpuSet> {
        Some(self.0.allowed_cpus(tid)?.iter().collect())
    }

    fn has_bandwidth_limit(&self, tid: Tid) -> Option<bool> {
        self.0.cgroup_of(tid)?;
        Some(self.0.limited_cgroup_of(tid).is_some())
    }

    fn is_kernel_thread(&self, tid: Tid) -> Option<bool> {
        self.0.is_kernel_thread(tid)
    }
}
