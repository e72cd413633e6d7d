//! Options of a guard.

use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::task_events::SourceName;

/// Options of a guard.
pub struct Options {
    /// The policy's file, for `guard status`.
    pub policy_path: PathBuf,
    /// The state directory, with the journal.
    pub state: PathBuf,
    /// Where Prometheus metrics are written.
    pub metrics: Option<PathBuf>,
    /// The only event source to use, if set.
    pub source: Option<SourceName>,
    /// Starts the dead-man process, given its real-time priority.
    pub dead_man: Box<dyn Fn(u32) -> Command>,
    /// Becomes readable when the guard is to end.
    pub end: UnixStream,
    /// Maximum run time.
    pub time: Option<Duration>,
    /// Prints a line for the user at the start.
    pub say: Box<dyn Fn(&str)>,
}
