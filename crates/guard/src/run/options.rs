//! What a guard is started with.

use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::task_events::SourceName;

/// How a guard is to run.
pub struct Options {
    /// The policy's file, for `guard status`.
    pub policy_path: PathBuf,
    /// Where the journal is.
    pub state: PathBuf,
    /// Where Prometheus metrics are written.
    pub metrics: Option<PathBuf>,
    /// A source to use and no other.
    pub source: Option<SourceName>,
    /// What starts the dead-man, given its real-time priority.
    pub dead_man: Box<dyn Fn(u32) -> Command>,
    /// Becomes readable when the guard is to end.
    pub end: UnixStream,
    /// For how long at most.
    pub time: Option<Duration>,
    /// Lines for people: how it began.
    pub say: Box<dyn Fn(&str)>,
}
