use serde::{Deserialize, Serialize};

use crate::Policy;

/// A task's policy (`include/uapi/linux/sched.h`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SchedPolicy {
    /// SCHED_NORMAL.
    Other,
    /// SCHED_FIFO.
    Fifo,
    /// SCHED_RR.
    Rr,
    /// SCHED_BATCH: fair, taken to be CPU-bound.
    Batch,
    /// SCHED_IDLE: fair, with the weight 3.
    Idle,
    /// SCHED_DEADLINE.
    Deadline,
    /// SCHED_EXT: scheduled by a BPF program if one is loaded, else fair.
    Ext,
    /// A policy that this program does not know.
    #[serde(other)]
    Unknown,
}

impl SchedPolicy {
    /// The policy of a number of the kernel's (`SCHED_*` in `include/uapi/linux/sched.h`).
    pub fn from_number(number: u32) -> SchedPolicy {
        match number {
            0 => SchedPolicy::Other,
            1 => SchedPolicy::Fifo,
            2 => SchedPolicy::Rr,
            3 => SchedPolicy::Batch,
            5 => SchedPolicy::Idle,
            6 => SchedPolicy::Deadline,
            7 => SchedPolicy::Ext,
            _ => SchedPolicy::Unknown,
        }
    }

    /// What people call it: `RR`, `FIFO`, `deadline`.
    pub fn word(self) -> &'static str {
        match self {
            SchedPolicy::Other => "normal",
            SchedPolicy::Fifo => "FIFO",
            SchedPolicy::Rr => "RR",
            SchedPolicy::Batch => "batch",
            SchedPolicy::Idle => "idle",
            SchedPolicy::Deadline => "deadline",
            SchedPolicy::Ext => "ext",
            SchedPolicy::Unknown => "unknown",
        }
    }

    /// The scheduling class; `None` for a policy that this program does not know. SCHED_EXT counts as fair.
    pub fn class(self) -> Option<Policy> {
        Some(match self {
            SchedPolicy::Other | SchedPolicy::Batch | SchedPolicy::Idle | SchedPolicy::Ext => Policy::Fair,
            SchedPolicy::Fifo | SchedPolicy::Rr => Policy::Rt,
            SchedPolicy::Deadline => Policy::Deadline,
            SchedPolicy::Unknown => return None,
        })
    }
}
