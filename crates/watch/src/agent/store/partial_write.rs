//! Handles incomplete episodes: the machine crashed before they were on the disk.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io;

use unstarve_files::trust::Directory;

use super::{END_OF_EPISODE, EPISODE, LARGEST_EPISODE, LOGGED, Store, StoreError, TRACE};
use crate::episode::{Episode, Stage, is_id};

/// Maximum ids listed in a line; the rest are counted.
const MOST_NAMED: usize = 8;

impl Store {
    /// Removes incomplete episodes that are not in the log, as unfinished. Returns lines about these and about incomplete ones that are in the log.
    ///
    /// This program writes complete episodes, unless a disk drops data that it has confirmed. Earlier versions synced only the log (decision 0470).
    pub(super) fn remove_torn(&self, logged: &[Episode]) -> Result<Vec<String>, StoreError> {
        let complete = logged.iter().filter(|episode| episode.stage > Stage::Begun);
        let complete: BTreeSet<&str> = complete.map(|episode| episode.id.as_str()).collect();
        let is_told = |id: &str| complete.contains(id) || self.directory_of(id).join(LOGGED).symlink_metadata().is_ok();
        let (mut removed, mut kept) = (Vec::new(), Vec::new());
        let mut ids: Vec<String> = self.names()?.into_iter().filter(|name| is_id(name)).collect();
        ids.sort();
        for id in ids {
            match (self.lacks(&id), is_told(&id)) {
                (None, _) => {}
                // Logged episodes have been reported; their traces may have been removed on purpose.
                (Some(Lack::Trace), true) => {}
                (Some(_), true) => kept.push(id),
                (Some(_), false) if fs::remove_dir_all(self.directory_of(&id)).is_ok() => removed.push(id),
                (Some(_), false) => kept.push(id),
            }
        }
        let line = |what: &str, ids: Vec<String>| (!ids.is_empty()).then(|| format!("{what}: {}", named(ids)));
        let removed = line("removed, not whole: the machine stopped before they were on the disk", removed);
        let kept = line("not whole, because the machine stopped before they were on the disk", kept);
        Ok(removed.into_iter().chain(kept).collect())
    }

    /// Which part of an episode is missing.
    fn lacks(&self, id: &str) -> Option<Lack> {
        let path = self.directory_of(id);
        // An unreadable directory proves nothing.
        let directory = Directory::open(&path).ok()?;
        match directory.read(OsStr::new(EPISODE), LARGEST_EPISODE).ok()? {
            // Ends as this program writes it; if it cannot be parsed for another reason, another program has written it.
            Some(bytes) if bytes.ends_with(END_OF_EPISODE) => {}
            _ => return Some(Lack::Part),
        }
        let expected = self.episode(id)?.trace_bytes?;
        match path.join(TRACE).symlink_metadata() {
            Ok(trace) => (trace.len() < expected).then_some(Lack::Part),
            Err(error) => (error.kind() == io::ErrorKind::NotFound).then_some(Lack::Trace),
        }
    }
}

enum Lack {
    /// The trace is missing.
    Trace,
    /// A part of the trace or of the record is missing.
    Part,
}

fn named(ids: Vec<String>) -> String {
    let more = ids.len().saturating_sub(MOST_NAMED);
    let mut text = ids.into_iter().take(MOST_NAMED).collect::<Vec<_>>().join(", ");
    if more > 0 {
        text.push_str(&format!(" and {more} more"));
    }
    text
}
