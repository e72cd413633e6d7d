//! What a recording's format proves about the recorded machine, for the analysis.

use unstarve_model::{CpuSet, Tid, TraceInfo};
use unstarve_sched::{GroupId, Groups};
use unstarve_timeline::Settings;

/// The host snapshot inside a trace.dat is not read: cgroup weights, affinities and limits count as unknown.
pub(crate) struct SourceSettings {
    marks_overwritten: bool,
    nothing_overwritten: bool,
}

impl SourceSettings {
    pub fn new(info: &TraceInfo) -> SourceSettings {
        SourceSettings {
            // Pages of the kernel's ring buffer say how many events were lost before them; other formats do not.
            marks_overwritten: info.format.starts_with("trace.dat"),
            nothing_overwritten: info.nothing_overwritten,
        }
    }
}

impl Settings for SourceSettings {
    fn groups(&self) -> Groups {
        Groups::default()
    }
    fn group(&self, _: Tid) -> Option<GroupId> {
        None
    }
    fn own_weight(&self, _: Tid) -> Option<u32> {
        None
    }
    fn allowed_cpus(&self, _: Tid) -> Option<CpuSet> {
        None
    }
    fn has_bandwidth_limit(&self, _: Tid) -> Option<bool> {
        None
    }
    fn marks_overwritten(&self) -> bool {
        self.marks_overwritten
    }
    fn nothing_overwritten(&self) -> bool {
        self.nothing_overwritten
    }
}
