//! What a compaction is asked for, and what it did.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use unstarve_model::WallTime;

use crate::problem::Problem;

/// What a compaction does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// The time now.
    pub now: WallTime,
    /// How long after its end an hour is left alone: hosts still write.
    pub settle: Duration,
    /// How long a file that does not count any more is left for those who read it still.
    pub grace: Duration,
    /// Hours that are older are dropped.
    pub keep: Option<Duration>,
}

/// What a compaction did.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Debug)]
pub struct Done {
    /// Hours that got a commit with merged files.
    pub hours: u64,
    /// Files of hosts that were merged, and their bytes.
    pub inputs: u64,
    /// Their bytes.
    pub input_bytes: u64,
    /// Their rows.
    pub rows: u64,
    /// Files that were written.
    pub outputs: u64,
    /// Their bytes.
    pub output_bytes: u64,
    /// Hours that are no longer kept since now.
    pub dropped: u64,
    /// Files that were removed.
    pub removed: u64,
    /// Files of hosts in hours that have not ended for long enough: they are left for a later run.
    pub waiting: u64,
    /// When the first of these hours can be merged.
    pub waiting_until: Option<WallTime>,
    /// Commits that another compactor made first.
    pub lost: u64,
    /// Files of hosts that an earlier run refused and that are the same: they were not read again.
    pub refused_before: u64,
    /// What is beside the tables and may have been meant to be in them: it is left alone.
    pub beside: Vec<PathBuf>,
    /// What was left alone.
    pub problems: Vec<Problem>,
}

impl Done {
    /// With the problems in order, each once.
    pub(crate) fn sorted(mut self) -> Done {
        self.problems.sort();
        self.problems.dedup();
        self
    }
}
