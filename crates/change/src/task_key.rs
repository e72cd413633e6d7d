use serde::{Deserialize, Serialize};
use unstarve_model::Tid;

/// One thread for good, however often its id is used again: `starttime` of proc_pid_stat(5), in clock ticks since boot.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct TaskKey {
    /// The thread.
    pub tid: Tid,
    /// When it was created.
    pub start: u64,
}
