//! The host and the wall clock of a recording.

use unstarve_facts::Snapshot;
use unstarve_model::{TraceInfo, WallClock, clean};

/// The wall clock: as the recorder noted it, otherwise from the file.
pub(crate) fn wall(info: &TraceInfo, snapshot: Option<&Snapshot>) -> Option<WallClock> {
    let noted = snapshot.and_then(|snapshot| WallClock::of(&snapshot.clock_pairs));
    noted.or_else(|| WallClock::of(&info.clocks))
}

/// The host's name, safe to print on a terminal; `None` if it was redacted.
pub(crate) fn host(info: &TraceInfo, snapshot: Option<&Snapshot>) -> Option<String> {
    let is_redacted = snapshot.and_then(|snapshot| snapshot.view.as_ref()).is_some_and(|view| view.redacted);
    let told = snapshot.and_then(|snapshot| snapshot.host.as_deref()).or(info.host.as_deref());
    told.filter(|_| !is_redacted).map(|name| clean(name).into_owned())
}
