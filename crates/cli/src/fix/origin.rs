//! Whether a recording is of this host and boot, so that its thread ids name threads of this host, and who could have
//! written it.

use std::fs;

use unstarve_executor::authority::{Author, Authority, Named};
use unstarve_executor::plan::Ids;
use unstarve_facts::Snapshot;

use crate::input::Authorship;

/// The host and boot of a recording.
pub struct Origin {
    pub ids: Ids,
    /// Why its thread ids are invalid here.
    pub why: Option<String>,
    pub written: Authorship,
}

impl Origin {
    /// Whether only root and this process's user could have written it.
    pub fn is_trusted(&self) -> bool {
        self.written.author == Author::Trusted
    }

    /// The origin by the recording itself, and by `--this-boot`.
    pub fn authority(&self, named: Named) -> Authority {
        Authority { ids: self.ids, author: self.written.author, named }
    }
}

pub fn of(snapshot: Option<&Snapshot>, asserted: bool, written: Authorship) -> Origin {
    let here = fs::read_to_string("/proc/sys/kernel/random/boot_id").map(|text| text.trim().to_owned()).ok();
    let (ids, why) = judge(snapshot.and_then(|snapshot| snapshot.boot.as_deref()), here.as_deref(), asserted);
    Origin { ids, why, written }
}

fn judge(recorded: Option<&str>, here: Option<&str>, asserted: bool) -> (Ids, Option<String>) {
    let strange = |why: &str| (Ids::AreStrange, Some(why.to_owned()));
    match (recorded, here) {
        (Some(recorded), Some(here)) if recorded == here => (Ids::Hold, None),
        // The recording's boot id overrules `--this-boot`.
        (Some(_), Some(_)) => strange("it was recorded on another host, or before this one was booted"),
        _ if asserted => (Ids::Hold, None),
        (None, _) => {
            let why = "it does not say on which host and boot it was recorded (--this-boot, if it was this one)";
            (Ids::AreUnknown, Some(why.to_owned()))
        }
        (Some(_), None) => (Ids::AreUnknown, Some("the boot id of this host cannot be read".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_hold_on_the_boot_that_was_recorded_alone() {
        let ids = |recorded, here, asserted| judge(recorded, here, asserted).0;
        assert_eq!(ids(Some("a"), Some("a"), false), Ids::Hold);
        assert_eq!(ids(Some("a"), Some("b"), true), Ids::AreStrange);
        assert_eq!(ids(None, Some("b"), false), Ids::AreUnknown);
        assert_eq!(ids(None, Some("b"), true), Ids::Hold);
        assert_eq!(ids(Some("a"), None, false), Ids::AreUnknown);
    }
}
