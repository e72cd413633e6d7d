//! Options and result of a compaction.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use unstarve_model::WallTime;

use crate::problem::Problem;

/// Options of a compaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// The time now.
    pub now: WallTime,
    /// How long after its end an hour is left alone, because hosts still write to it.
    pub settle: Duration,
    /// How long hosts' files are kept after they were merged, for readers that took them before.
    pub grace: Duration,
    /// Older hours are dropped.
    pub keep: Option<Duration>,
}

/// The result of a compaction.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Debug)]
pub struct Done {
    /// Hours that got a commit with merged files.
    pub hours: u64,
    /// Hosts' files that were merged.
    pub inputs: u64,
    /// Their bytes.
    pub input_bytes: u64,
    /// Their rows.
    pub rows: u64,
    /// Files that were written.
    pub outputs: u64,
    /// Their bytes.
    pub output_bytes: u64,
    /// Hours dropped.
    pub dropped: u64,
    /// Files removed.
    pub removed: u64,
    /// Commits of a run that was killed, whose files got their place.
    pub finished: u64,
    /// Hosts' files in hours that are not settled yet; a later run merges them.
    pub waiting: u64,
    /// When the first of these hours can be merged.
    pub waiting_until: Option<WallTime>,
    /// Hosts' files that an earlier run refused and that have not changed: they were not read again.
    pub refused_before: u64,
    /// Misplaced files that look like files of tables; they are left alone.
    pub beside: Vec<PathBuf>,
    /// Problems with files, which were left alone.
    pub problems: Vec<Problem>,
}

impl Done {
    /// Sorts the problems, and removes duplicates.
    pub(crate) fn sorted(mut self) -> Done {
        self.problems.sort();
        self.problems.dedup();
        self
    }
}
