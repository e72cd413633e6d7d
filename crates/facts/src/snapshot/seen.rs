use serde::{Deserialize, Serialize};

/// What a task was doing at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Seen {
    /// `R` runs or waits for a CPU, `S` sleeps, and so on as in proc_pid_stat(5).
    pub state: char,
    /// The CPU on which it ran last, or on whose runqueue it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u32>,
    /// How much it had run and waited; of runnable tasks alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sums: Option<RunSums>,
}

/// A task's `/proc/PID/task/TID/schedstat`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RunSums {
    /// Time on CPUs, in ns.
    pub ran_ns: u64,
    /// `run_delay`: time on runqueues in waits that are over, in ns.
    pub run_delay_ns: u64,
    /// How often it got a CPU.
    pub turns: u64,
}

impl Seen {
    /// Whether it ran or waited for a CPU.
    pub fn is_runnable(&self) -> bool {
        self.state == 'R'
    }
}
