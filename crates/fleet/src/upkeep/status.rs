//! The status of a store: what it has, and what remains to be done.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;

use crate::commit::{Name, Output};
use crate::error::{FleetError, chain};
use crate::problem::{Kind, Problem};
use crate::store::{Depth, Hour, State, Store};

/// The status of a store.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Debug)]
pub struct Status {
    /// By table.
    pub tables: BTreeMap<String, TableStatus>,
    /// Misplaced files and directories.
    pub beside: Vec<PathBuf>,
    /// Problems found.
    pub problems: Vec<Problem>,
}

/// The status of a table.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Debug)]
pub struct TableStatus {
    /// Hours that were not dropped.
    pub hours: u64,
    /// Merged files that count.
    pub files: u64,
    /// Their rows.
    pub rows: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Rows of their files by the hour.
    pub hourly_rows: u64,
    /// The bytes of these files.
    pub hourly_bytes: u64,
    /// Hosts' files that are not merged yet.
    pub loose: u64,
    /// Their bytes.
    pub loose_bytes: u64,
    /// Files that were merged or replaced, and are kept for readers that still use them.
    pub superseded: u64,
    /// Their bytes.
    pub superseded_bytes: u64,
    /// Files that no commit has ever listed.
    pub garbage: u64,
    /// Their bytes.
    pub garbage_bytes: u64,
    /// Dropped hours whose commit is still there.
    pub dropped: u64,
}

/// Determines the status of a store.
///
/// # Errors
/// If the directory cannot be read, or has files and no table.
pub fn status(store: &Store) -> Result<Status, FleetError> {
    let mut status = Status::default();
    store.holds()?;
    status.beside = store.beside()?;
    for partition in store.hours(&mut status.problems)? {
        let state = store.hour(&partition).and_then(|hour| State::of(&hour, Depth::Needed, &mut status.problems));
        match state {
            Ok(state) => status.tables.entry(partition.table.clone()).or_default().add(&state),
            Err(error) => Problem::of(Kind::Place, partition.path(), &chain(&error)).add(&mut status.problems),
        }
    }
    Ok(status)
}

impl TableStatus {
    fn add(&mut self, state: &State) {
        let outputs = &state.files.outputs;
        if state.is_dropped() {
            self.dropped += 1;
        } else {
            self.hours += 1;
        }
        self.files += outputs.len() as u64;
        self.rows += outputs.iter().map(|output| output.rows).sum::<u64>();
        self.bytes += outputs.iter().map(|output| output.bytes).sum::<u64>();
        let hourly = || outputs.iter().filter_map(|output| output.hourly.as_ref());
        self.hourly_rows += hourly().map(|hourly| hourly.rows).sum::<u64>();
        self.hourly_bytes += hourly().map(|hourly| hourly.bytes).sum::<u64>();
        let garbage: Vec<&str> = state.garbage().into_iter().map(|entry| entry.name.as_str()).collect();
        for entry in state.entries.iter().filter(|entry| entry.is_regular) {
            let is_output = outputs.iter().flat_map(Output::names).any(|name| name == entry.name);
            let (files, bytes) = if state.files.loose.binary_search(&entry.name).is_ok() {
                (&mut self.loose, &mut self.loose_bytes)
            } else if garbage.contains(&entry.name.as_str()) || Hour::is_hidden(&entry.name) {
                (&mut self.garbage, &mut self.garbage_bytes)
            } else if matches!(entry.kind, Name::Part | Name::Merged(_) | Name::Hourly(_)) && !is_output {
                (&mut self.superseded, &mut self.superseded_bytes)
            } else {
                continue;
            };
            *files += 1;
            *bytes += entry.bytes;
        }
    }
}
