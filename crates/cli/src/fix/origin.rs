//! Whether a recording is of this host and boot: only then do its thread ids name threads of this host.

use std::fs;

use unstarve_executor::plan::Ids;
use unstarve_facts::Snapshot;

/// Where a recording is from.
pub struct Origin {
    pub ids: Ids,
    /// Why its thread ids mean nothing here.
    pub why: Option<String>,
}

pub fn of(snapshot: Option<&Snapshot>, asserted: bool) -> Origin {
    let here = fs::read_to_string("/proc/sys/kernel/random/boot_id").map(|text| text.trim().to_owned()).ok();
    judge(snapshot.and_then(|snapshot| snapshot.boot.as_deref()), here.as_deref(), asserted)
}

fn judge(recorded: Option<&str>, here: Option<&str>, asserted: bool) -> Origin {
    let strange = |why: &str| Origin { ids: Ids::AreStrange, why: Some(why.to_owned()) };
    match (recorded, here) {
        (Some(recorded), Some(here)) if recorded == here => Origin { ids: Ids::Hold, why: None },
        // What it says counts for more than what somebody believes.
        (Some(_), Some(_)) => strange("it was recorded on another host, or before this one was booted"),
        _ if asserted => Origin { ids: Ids::Hold, why: None },
        _ => strange("it does not say on which host and boot it was recorded (--this-boot, if it was this one)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_hold_on_the_boot_that_was_recorded_alone() {
        let ids = |recorded, here, asserted| judge(recorded, here, asserted).ids;
        assert_eq!(ids(Some("a"), Some("a"), false), Ids::Hold);
        assert_eq!(ids(Some("a"), Some("b"), true), Ids::AreStrange);
        assert_eq!(ids(None, Some("b"), false), Ids::AreStrange);
        assert_eq!(ids(None, Some("b"), true), Ids::Hold);
        assert_eq!(ids(Some("a"), None, false), Ids::AreStrange);
    }
}
