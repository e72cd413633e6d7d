//! Hours that were dropped, in one file for all.
//!
//! A commit says that an hour is dropped. As long as it is there, each reader opens it, and hours are dropped for ever: a year of hours of
//! five tables is 43,800 files. So when nothing of such an hour is left, its number gets into `state/dropped.json`, and then its commit
//! goes. It stays dropped: files that hosts copy later do not count, and the next run removes them.
//!
//! Who reads a store reads this file before and after the hours: an hour that is in it does not count, whatever is found in its directory.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use unstarve_tables::Partition;

use super::directory::Store;
use crate::error::FleetError;

/// In `state/`.
const DROPPED_NAME: &str = "dropped.json";
const MAX_DROPPED_BYTES: u64 = 16 << 20;
/// The format that this version writes and reads.
const FORMAT: u32 = 1;
const HOUR_NS: u64 = 3_600_000_000_000;

/// Hours since 1970 by table: each range by its first hour, with its last one. Ranges do not touch each other.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct DroppedHours(BTreeMap<String, BTreeMap<u64, u64>>);

/// The content of the file.
#[derive(Serialize, Deserialize)]
struct DroppedFile {
    format: u32,
    /// The first and the last hour of each range.
    tables: BTreeMap<String, Vec<(u64, u64)>>,
}

impl DroppedHours {
    /// Reads them; none without the file.
    ///
    /// # Errors
    /// If it cannot be read: rows that were dropped would count again.
    pub fn read(store: &Store) -> Result<DroppedHours, FleetError> {
        let Some(text) = store.note(DROPPED_NAME, MAX_DROPPED_BYTES)? else { return Ok(DroppedHours::default()) };
        let bad = |why: String| FleetError::Rows { path: store.path().join("state").join(DROPPED_NAME), why };
        let file: DroppedFile = serde_json::from_slice(&text).map_err(|error| bad(error.to_string()))?;
        if file.format != FORMAT {
            return Err(bad(format!("its format is {}, this version reads {FORMAT}", file.format)));
        }
        let ranges = |ranges: Vec<(u64, u64)>| ranges.into_iter().collect();
        Ok(DroppedHours(file.tables.into_iter().map(|(table, of)| (table, ranges(of))).collect()))
    }

    /// Writes them. `false` if they are too many for a file, which then stays as it is.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&self, store: &Store) -> Result<bool, FleetError> {
        let ranges = |ranges: &BTreeMap<u64, u64>| ranges.iter().map(|(first, last)| (*first, *last)).collect();
        let tables = self.0.iter().map(|(table, of)| (table.clone(), ranges(of))).collect();
        let text = serde_json::to_vec(&DroppedFile { format: FORMAT, tables });
        let text =
            text.map_err(|error| FleetError::Rows { path: store.path().join(DROPPED_NAME), why: error.to_string() })?;
        if text.len() as u64 > MAX_DROPPED_BYTES {
            return Ok(false);
        }
        store.put_note(DROPPED_NAME, &text).map(|()| true)
    }

    /// Whether an hour is among them.
    pub fn has(&self, hour: &Partition) -> bool {
        let (Some(ranges), Some(number)) = (self.0.get(&hour.table), number(hour)) else { return false };
        ranges.range(..=number).next_back().is_some_and(|(_, last)| number <= *last)
    }

    /// Adds an hour.
    pub fn add(&mut self, hour: &Partition) {
        let Some(number) = number(hour).filter(|_| !self.has(hour)) else { return };
        let ranges = self.0.entry(hour.table.clone()).or_default();
        let before = ranges.range(..number).next_back().filter(|(_, last)| **last + 1 == number);
        let first = before.map_or(number, |(first, _)| *first);
        let last = ranges.remove(&(number + 1)).unwrap_or(number);
        ranges.insert(first, last);
    }

    /// How many there are of each table.
    pub fn counts(&self) -> impl Iterator<Item = (&String, u64)> {
        let count = |ranges: &BTreeMap<u64, u64>| {
            ranges
                .iter()
                .fold(0_u64, |all, (first, last)| all.saturating_add(last.saturating_sub(*first)).saturating_add(1))
        };
        self.0.iter().map(move |(table, ranges)| (table, count(ranges)))
    }
}

fn number(hour: &Partition) -> Option<u64> {
    Some(hour.begin()?.0 / HOUR_NS)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use unstarve_model::WallTime;

    use super::*;

    fn hour(number: u64) -> Partition {
        Partition::of("hosts", WallTime(number * HOUR_NS))
    }

    proptest! {
        /// Whatever is added in whatever order is there, and nothing else; what touches is one range.
        #[test]
        fn what_was_added_is_there(added in prop::collection::vec(3_u64..40, 0..40)) {
            let mut dropped = DroppedHours::default();
            added.iter().for_each(|number| dropped.add(&hour(*number)));
            let found: Vec<u64> = (0..50).filter(|number| dropped.has(&hour(*number))).collect();
            let mut expected = added;
            expected.sort_unstable();
            expected.dedup();
            let gaps = expected.windows(2).filter(|two| two[1] - two[0] > 1).count();
            prop_assert_eq!(dropped.counts().map(|(_, count)| count).sum::<u64>(), expected.len() as u64);
            prop_assert_eq!(dropped.0.values().map(BTreeMap::len).sum::<usize>(), gaps + usize::from(!expected.is_empty()));
            prop_assert_eq!(found, expected);
        }
    }
}
