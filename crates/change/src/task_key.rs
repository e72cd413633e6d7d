//! Identity of a thread that survives reuse of its id.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use unstarve_model::Tid;

/// One thread, identified even if its id is reused: `starttime` of proc_pid_stat(5), in clock ticks since boot.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize, JsonSchema)]
pub struct TaskKey {
    /// The thread.
    pub tid: Tid,
    /// Its creation time.
    pub start: u64,
}
