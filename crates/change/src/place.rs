//! The subject of a value.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::TaskKey;

/// The subject of a value.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// A task.
    Task(TaskKey),
    /// An autogroup session, which competes as a whole with others. The kernel numbers sessions and uses each number once per
    /// boot (`autogroup_seq_nr` in kernel/sched/autogroup.c).
    Session {
        /// Its number in `/proc/PID/autogroup`.
        id: u64,
    },
    /// A file below /proc or /sys. The inode distinguishes a group or device that was created again from the original one.
    File {
        /// Its path.
        path: String,
        /// Its inode.
        inode: u64,
        /// The root directory of the path, unless `/`: for a host's files as seen from a container.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        root: Option<String>,
    },
    /// A scheduler feature.
    Feature {
        /// The file with all of them.
        path: String,
        /// Its name.
        name: String,
        /// Like `root` of a file.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        root: Option<String>,
    },
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Task(key) => write!(f, "task {}", key.tid),
            Place::Session { id } => write!(f, "session autogroup-{id}"),
            Place::File { path, .. } => f.write_str(path),
            Place::Feature { name, .. } => write!(f, "feature {name}"),
        }
    }
}
