//! Files of hosts that were refused: they are not read again as long as they are the same. Hosts can write any number of bad files, and each
//! takes a child that reads it.
//!
//! What is noted is a compactor's own file in the store, believed as its other ones are. A file is the same if nothing of what the system says of it
//! has changed: who may write in the hour can change the bytes and the time of writing, and not the time of the change itself.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use unstarve_model::WallTime;

use crate::error::{FleetError, chain};
use crate::problem::{Kind, Problem};
use crate::store::{Entry, Hour, Stamp, Store};

/// In the store itself.
pub(crate) const REFUSED_NAME: &str = "_refused.json";
/// Bytes of the file. Further bad files are read in each run.
const MAX_REFUSALS_BYTES: u64 = 16 << 20;
/// Characters of a reason: of the same hour ten are listed.
const MAX_REASON_CHARS: usize = 200;
/// What was refused is read again after this time: a child may have been ended for want of memory that there is now.
const READ_AGAIN_AFTER_NS: u64 = 24 * 3600 * 1_000_000_000;
/// A file that was changed so short a time ago may be changed again without another time.
const MIN_UNCHANGED_NS: u64 = 2_000_000_000;

#[derive(Clone, Serialize, Deserialize, Debug)]
struct Refusal {
    #[serde(flatten)]
    stamp: Stamp,
    at_ns: u64,
    why: String,
}

/// By hour and name.
type RefusalsByHour = BTreeMap<String, BTreeMap<String, Refusal>>;

/// What is in the file.
#[derive(Serialize, Deserialize)]
struct RefusalsFile {
    /// Another version may read what this one refuses.
    version: String,
    hours: RefusalsByHour,
}

/// Those of the last run, and those for the next one.
pub(crate) struct Refusals {
    known: RefusalsByHour,
    next: RefusalsByHour,
    now: WallTime,
}

impl Refusals {
    /// Those that the last run noted. What cannot be read or may be another's is a problem, and as if it were not there.
    pub fn read(store: &Store, now: WallTime, problems: &mut Vec<Problem>) -> Refusals {
        let known = match store.get(REFUSED_NAME, MAX_REFUSALS_BYTES + 1) {
            Ok(None) => RefusalsByHour::new(),
            Ok(Some(text)) => serde_json::from_slice::<RefusalsFile>(&text)
                .ok()
                .filter(|kept| kept.version == env!("CARGO_PKG_VERSION"))
                .map(|kept| kept.hours)
                .unwrap_or_default(),
            Err(error) => {
                let why = format!("not used, and files that were refused before are read again: {}", chain(&error));
                Problem::of(Kind::Store, REFUSED_NAME, &why).add(problems);
                RefusalsByHour::new()
            }
        };
        Refusals { known, next: RefusalsByHour::new(), now }
    }

    /// Whether the file was refused and is the same: then it stays noted.
    pub fn holds(&mut self, hour: &Hour<'_>, entry: &Entry) -> Option<String> {
        let note = self.known.get(hour.key())?.get(&entry.name)?;
        let age = self.now.0.checked_sub(note.at_ns)?;
        if note.stamp != entry.stamp || age >= READ_AGAIN_AFTER_NS {
            return None;
        }
        let why = note.why.clone();
        self.next.entry(hour.key().to_owned()).or_default().insert(entry.name.clone(), note.clone());
        Some(why)
    }

    /// The hour was not looked at: what is noted of it stays.
    pub fn keep(&mut self, hour: &Hour<'_>) {
        if let Some(notes) = self.known.get(hour.key()) {
            self.next.insert(hour.key().to_owned(), notes.clone());
        }
    }

    /// The file is refused for what is in it.
    pub fn note(&mut self, hour: &Hour<'_>, entry: &Entry, why: &str) {
        let clock = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_nanos());
        if u128::from(entry.stamp.changed_ns) + u128::from(MIN_UNCHANGED_NS) > clock {
            return;
        }
        let why = why.chars().take(MAX_REASON_CHARS).collect();
        let note = Refusal { stamp: entry.stamp, at_ns: self.now.0, why };
        self.next.entry(hour.key().to_owned()).or_default().insert(entry.name.clone(), note);
    }

    /// Notes them for the next run.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(mut self, store: &Store) -> Result<(), FleetError> {
        let count = |notes: &RefusalsByHour| notes.values().map(BTreeMap::len).sum::<usize>();
        if count(&self.next) == 0 && count(&self.known) == 0 {
            return Ok(());
        }
        self.limit();
        let kept = RefusalsFile { version: env!("CARGO_PKG_VERSION").to_owned(), hours: self.next };
        let text = serde_json::to_vec(&kept);
        let text =
            text.map_err(|error| FleetError::Rows { path: store.path().join(REFUSED_NAME), why: error.to_string() })?;
        store.put(REFUSED_NAME, &text)
    }

    /// Drops what would make the file too large.
    fn limit(&mut self) {
        let bytes = |what: &dyn Fn() -> serde_json::Result<Vec<u8>>| {
            what().map_or(MAX_REFUSALS_BYTES, |text| text.len() as u64)
        };
        // The version, and what is between notes.
        let mut all = 100;
        for (hour, notes) in &mut self.next {
            all += bytes(&|| serde_json::to_vec(hour)) + 4;
            notes.retain(|name, note| {
                let more = bytes(&|| serde_json::to_vec(name)) + bytes(&|| serde_json::to_vec(note)) + 2;
                let is_kept = all + more <= MAX_REFUSALS_BYTES;
                all += if is_kept { more } else { 0 };
                is_kept
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twenty_thousand_notes_fit_and_any_number_is_limited() {
        let note = Refusal {
            stamp: Stamp { inode: u64::MAX, ..Stamp::default() },
            at_ns: u64::MAX,
            why: "x".repeat(MAX_REASON_CHARS),
        };
        let mut refusals = Refusals { known: RefusalsByHour::new(), next: RefusalsByHour::new(), now: WallTime(0) };
        for host in 0..60_000 {
            let hour = refusals.next.entry(format!("table=a/date=2026-11-23/hour={:02}", host % 24)).or_default();
            hour.insert(format!("web{host}-c05a1cd7-1795421990359013721.parquet"), note.clone());
        }
        refusals.limit();
        let notes: usize = refusals.next.values().map(BTreeMap::len).sum();
        assert!((20_000..60_000).contains(&notes), "{notes} notes");
        let kept = RefusalsFile { version: env!("CARGO_PKG_VERSION").to_owned(), hours: refusals.next };
        let bytes = serde_json::to_vec(&kept).expect("JSON").len() as u64;
        assert!(bytes <= MAX_REFUSALS_BYTES, "{bytes} bytes");
    }
}
