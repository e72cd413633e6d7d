//! From which machine a recording is, and at what time of day.

use unstarve_facts::Snapshot;
use unstarve_model::{TraceInfo, WallClock, clean};

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
