//! Hosts' files that were refused are not read again until they change: hosts can write any number of bad files, and reading one takes a child
//! process.
//!
//! The notes are beside commits. A file has not changed if its inode, size, mtime and ctime are the same:
//! someone who may write in the hour can set the first three, but not ctime.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use unstarve_model::WallTime;

use crate::error::{FleetError, chain};
use crate::problem::{Kind, Problem};
use crate::store::{Entry, Stamp, Store};

/// In `state/`.
pub(crate) const REFUSED_NAME: &str = "refused.json";
/// Maximum size of the file. Bad files that do not fit are read in each run.
const MAX_REFUSALS_BYTES: u64 = 16 << 20;
/// Maximum length of a noted reason.
pub(crate) const MAX_REASON_CHARS: usize = 200;
/// After this time a refused file is read again: the child may have lacked memory that is there now.
pub(crate) const READ_AGAIN_AFTER_NS: u64 = 24 * 3600 * 1_000_000_000;
/// A file that changed more recently is not noted: another change could get the same ctime.
const MIN_UNCHANGED_NS: u64 = 2_000_000_000;

/// Whether what a file is found to be can be noted: whatever changes it later gets another ctime.
pub(crate) fn is_settled(stamp: Stamp) -> bool {
    let clock = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_nanos());
    u128::from(stamp.changed_ns) + u128::from(MIN_UNCHANGED_NS) <= clock
}

#[derive(Clone, Serialize, Deserialize, Debug)]
struct Refusal {
    #[serde(flatten)]
    stamp: Stamp,
    at_ns: u64,
    why: String,
}

/// By hour and name.
type RefusalsByHour = BTreeMap<String, BTreeMap<String, Refusal>>;

/// The content of the file.
#[derive(Serialize, Deserialize)]
struct RefusalsFile {
    /// Another version may read what this one refuses.
    version: String,
    hours: RefusalsByHour,
}

/// The notes of the last run, and those for the next one.
pub(crate) struct Refusals {
    known: RefusalsByHour,
    next: RefusalsByHour,
    now: WallTime,
}

impl Refusals {
    /// Reads the notes of the last run. A file that cannot be read or trusted is a problem, and ignored.
    pub fn read(store: &Store, now: WallTime, problems: &mut Vec<Problem>) -> Refusals {
        let known = match store.note(REFUSED_NAME, MAX_REFUSALS_BYTES + 1) {
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

    /// The reason of an earlier refusal, if the file has not changed since; it stays noted.
    pub fn holds(&mut self, hour: &str, entry: &Entry) -> Option<String> {
        let note = self.noted(hour, &entry.name, entry.stamp)?.clone();
        let why = note.why.clone();
        self.next.entry(hour.to_owned()).or_default().insert(entry.name.clone(), note);
        Some(why)
    }

    /// The reason of an earlier refusal, if the file has not changed since: for a reader, who notes nothing.
    pub fn why(&self, hour: &str, name: &str, stamp: Stamp) -> Option<&str> {
        self.noted(hour, name, stamp).map(|note| note.why.as_str())
    }

    fn noted(&self, hour: &str, name: &str, stamp: Stamp) -> Option<&Refusal> {
        let note = self.known.get(hour)?.get(name)?;
        let age = self.now.0.checked_sub(note.at_ns)?;
        (note.stamp == stamp && age < READ_AGAIN_AFTER_NS).then_some(note)
    }

    /// Keeps the notes of an hour that was not read.
    pub fn keep(&mut self, hour: &str) {
        if let Some(notes) = self.known.get(hour) {
            self.next.insert(hour.to_owned(), notes.clone());
        }
    }

    /// Notes a file that was refused because of its content.
    pub fn note(&mut self, hour: &str, entry: &Entry, why: &str) {
        if !is_settled(entry.stamp) {
            return;
        }
        let why = why.chars().take(MAX_REASON_CHARS).collect();
        let note = Refusal { stamp: entry.stamp, at_ns: self.now.0, why };
        self.next.entry(hour.to_owned()).or_default().insert(entry.name.clone(), note);
    }

    /// Writes the notes for the next run.
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
        store.put_note(REFUSED_NAME, &text)
    }

    /// Drops notes that would make the file too large.
    fn limit(&mut self) {
        let bytes = |what: &dyn Fn() -> serde_json::Result<Vec<u8>>| {
            what().map_or(MAX_REFUSALS_BYTES, |text| text.len() as u64)
        };
        // The version, and the separators between notes.
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
