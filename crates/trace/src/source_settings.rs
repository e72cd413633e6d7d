//! What a recording's format proves about the recorded machine, for the analysis.

use unstarve_model::TraceInfo;
use unstarve_timeline::Settings;

/// The host snapshot inside a trace.dat is not read: cgroup weights, affinities and limits count as unknown.
pub(crate) struct SourceSettings {
    marks_overwritten: bool,
    nothing_overwritten: bool,
}

impl SourceSettings {
    pub fn new(info: &TraceInfo) -> SourceSettings {
        SourceSettings { marks_overwritten: info.marks_overwritten(), nothing_overwritten: info.nothing_overwritten }
    }
}

impl Settings for SourceSettings {
    fn marks_overwritten(&self) -> bool {
        self.marks_overwritten
    }
    fn nothing_overwritten(&self) -> bool {
        self.nothing_overwritten
    }
}
