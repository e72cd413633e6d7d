//! The status of a store: what it has, and what remains to be done.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;

use crate::commit::Name;
use crate::error::FleetError;
use crate::problem::Problem;
use crate::store::{Depth, DroppedHours, Hour, Store};

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
    /// Hosts' files that were merged, and are kept for readers that still use them.
    pub superseded: u64,
    /// Their bytes.
    pub superseded_bytes: u64,
    /// Files that a run was writing when it was killed; the next run removes them.
    pub garbage: u64,
    /// Their bytes.
    pub garbage_bytes: u64,
    /// Commits whose files have not all got their place; the next run moves them.
    pub unfinished: u64,
    /// Dropped hours.
    pub dropped: u64,
}

/// Determines the status of a store.
///
/// # Errors
/// If the directory is no store, or cannot be read.
pub fn status(store: &Store) -> Result<Status, FleetError> {
    let mut status = Status::default();
    store.holds()?;
    status.beside = store.beside()?;
    let dropped = DroppedHours::read(store)?;
    for (table, count) in dropped.counts() {
        status.tables.entry(table.clone()).or_default().dropped += count;
    }
    for partition in store.kept_hours(&dropped, &mut status.problems)? {
        if let Some(hour) = store.try_hour(&partition, Depth::Needed, &mut status.problems) {
            status.tables.entry(partition.table.clone()).or_default().add(&hour);
        }
    }
    Ok(status)
}

impl TableStatus {
    fn add(&mut self, hour: &Hour<'_>) {
        match hour.is_dropped() {
            true => self.dropped += 1,
            false => self.hours += 1,
        }
        for output in hour.outputs() {
            self.files += 1;
            self.rows += output.rows;
            self.bytes += output.bytes;
            if let Some(hourly) = output.hourly.filter(|_| hour.has_hourly(output)) {
                self.hourly_rows += hourly.rows;
                self.hourly_bytes += hourly.bytes;
            }
        }
        let loose: Vec<&str> = hour.loose().map(|entry| entry.name.as_str()).collect();
        for entry in hour.hosts.files(Name::Part) {
            let (files, bytes) = match loose.binary_search(&entry.name.as_str()) {
                Ok(_) => (&mut self.loose, &mut self.loose_bytes),
                Err(_) => (&mut self.superseded, &mut self.superseded_bytes),
            };
            *files += 1;
            *bytes += entry.bytes;
        }
        for entry in hour.garbage() {
            self.garbage += 1;
            self.garbage_bytes += entry.bytes;
        }
        self.unfinished += hour.commits.iter().filter(|made| !made.holds).count() as u64;
    }
}
