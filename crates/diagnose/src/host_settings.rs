use std::sync::Arc;

use unstarve_kernel::Snapshot;
use unstarve_model::{Tid, TraceInfo, WallClock, clean};
use unstarve_timeline::{CpuSet, Settings};

/// What is known of the recorded machine besides its events: what its snapshot says, and what the file itself does.
#[derive(Debug)]
pub(crate) struct HostSettings {
    snapshot: Option<Arc<Snapshot>>,
    wall: Option<WallClock>,
    host: Option<String>,
}

impl HostSettings {
    pub fn of(info: &TraceInfo, snapshot: Option<&Arc<Snapshot>>) -> HostSettings {
        let known = snapshot.map(|snapshot| &**snapshot);
        HostSettings { wall: wall(info, known), host: host(info, known), snapshot: snapshot.map(Arc::clone) }
    }
}

/// Where the wall's clock stood: as the recorder noted it, else as the file tells.
pub(crate) fn wall(info: &TraceInfo, snapshot: Option<&Snapshot>) -> Option<WallClock> {
    let noted = snapshot.and_then(|snapshot| WallClock::of(&snapshot.clock_pairs));
    noted.or_else(|| WallClock::of(&info.clocks))
}

/// The machine's name, harmless to terminals; nothing where it was left out on purpose.
pub(crate) fn host(info: &TraceInfo, snapshot: Option<&Snapshot>) -> Option<String> {
    let is_redacted = snapshot.and_then(|snapshot| snapshot.view.as_ref()).is_some_and(|view| view.redacted);
    let told = snapshot.and_then(|snapshot| snapshot.host.as_deref()).or(info.host.as_deref());
    told.filter(|_| !is_redacted).map(|name| clean(name).into_owned())
}

impl Settings for HostSettings {
    fn group_weight(&self, tid: Tid) -> Option<u32> {
        self.snapshot.as_ref()?.weight_of_top_cgroup(tid)
    }

    fn allowed_cpus(&self, tid: Tid) -> Option<CpuSet> {
        Some(self.snapshot.as_ref()?.allowed_cpus(tid)?.iter().collect())
    }

    fn has_bandwidth_limit(&self, tid: Tid) -> Option<bool> {
        let snapshot = self.snapshot.as_ref()?;
        snapshot.cgroup_of(tid)?;
        Some(snapshot.limited_cgroup_of(tid).is_some())
    }

    fn process_of(&self, tid: Tid) -> Option<Tid> {
        self.snapshot.as_ref()?.process_of(tid)
    }

    fn cgroup_of(&self, tid: Tid) -> Option<&str> {
        self.snapshot.as_ref()?.cgroup_of(tid)
    }

    fn wall(&self) -> Option<WallClock> {
        self.wall
    }

    fn host(&self) -> Option<&str> {
        self.host.as_deref()
    }
}
