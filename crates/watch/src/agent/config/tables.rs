//! The section `[tables]`: which Parquet files are written.

use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Labels, Length};

/// Sums of each interval as Parquet files, for questions about many hosts.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Tables {
    /// Where they are written, below `v1/table=NAME/date=YYYY-MM-DD/hour=HH/`.
    pub directory: PathBuf,
    /// The length of an interval: a file for each table and interval.
    pub every: Length,
    /// Files are removed, the oldest first, when all of them are larger than this.
    #[schemars(range(min = 1))]
    pub mib: u64,
    /// Hours older than this are removed.
    pub age: Length,
    /// The old place of `[labels]`, which holds for the whole watch. Still read.
    #[schemars(extend("deprecated" = true))]
    #[serde(skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
}

impl Default for Tables {
    fn default() -> Tables {
        Tables {
            directory: PathBuf::from("/var/lib/unstarve/tables"),
            every: Length(Duration::from_secs(300)),
            mib: 256,
            age: Length(Duration::from_secs(14 * 86_400)),
            labels: Labels::new(),
        }
    }
}
