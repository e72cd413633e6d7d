//! What a task was doing when a snapshot was taken.

use serde::{Deserialize, Serialize};

/// The state of a task at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Seen {
    /// `R` runs or waits for a CPU, `S` sleeps, and so on; see proc_pid_stat(5).
    pub state: char,
    /// The CPU on which it ran last, or on whose run queue it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u32>,
    /// How long it had run and waited; only for runnable tasks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sums: Option<RunSums>,
}

/// A task's `/proc/PID/task/TID/schedstat`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunSums {
    /// Time on CPUs, in ns.
    pub ran_ns: u64,
    /// `run_delay`: time on run queues, in ns. Does not include a wait in progress.
    pub run_delay_ns: u64,
    /// How often it got a CPU.
    pub turns: u64,
}

impl Seen {
    /// Whether it was running or waiting for a CPU.
    pub fn is_runnable(&self) -> bool {
        self.state == 'R'
    }
}
