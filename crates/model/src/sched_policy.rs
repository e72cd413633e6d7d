//! Scheduling policies.

use serde::{Deserialize, Serialize};

use crate::Policy;

/// A task's policy (`include/uapi/linux/sched.h`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum SchedPolicy {
    /// SCHED_NORMAL.
    Other,
    /// SCHED_FIFO.
    Fifo,
    /// SCHED_RR.
    Rr,
    /// SCHED_BATCH: fair, assumed to be CPU-bound.
    Batch,
    /// SCHED_IDLE: fair, with the weight 3.
    Idle,
    /// SCHED_DEADLINE.
    Deadline,
    /// SCHED_EXT: scheduled by a BPF program if one is loaded, else fair.
    Ext,
    /// An unknown policy.
    #[serde(other)]
    Unknown,
}

impl SchedPolicy {
    /// The policy of a kernel number (`SCHED_*` in `include/uapi/linux/sched.h`).
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

    /// Its number in the kernel; `None` for an unknown policy.
    pub fn number(self) -> Option<u32> {
        Some(match self {
            SchedPolicy::Other => 0,
            SchedPolicy::Fifo => 1,
            SchedPolicy::Rr => 2,
            SchedPolicy::Batch => 3,
            SchedPolicy::Idle => 5,
            SchedPolicy::Deadline => 6,
            SchedPolicy::Ext => 7,
            SchedPolicy::Unknown => return None,
        })
    }

    /// Its name in JSON, in rules, and as an option of chrt(1): `other`, `fifo`.
    pub fn name(self) -> &'static str {
        match self {
            SchedPolicy::Other => "other",
            SchedPolicy::Fifo => "fifo",
            SchedPolicy::Rr => "rr",
            SchedPolicy::Batch => "batch",
            SchedPolicy::Idle => "idle",
            SchedPolicy::Deadline => "deadline",
            SchedPolicy::Ext => "ext",
            SchedPolicy::Unknown => "unknown",
        }
    }

    /// Its name in text for people: `RR`, `FIFO`, `deadline`.
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

    /// The scheduling class; `None` for an unknown policy. SCHED_EXT counts as fair.
    pub fn class(self) -> Option<Policy> {
        Some(match self {
            SchedPolicy::Other | SchedPolicy::Batch | SchedPolicy::Idle | SchedPolicy::Ext => Policy::Fair,
            SchedPolicy::Fifo | SchedPolicy::Rr => Policy::Rt,
            SchedPolicy::Deadline => Policy::Deadline,
            SchedPolicy::Unknown => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_lead_back_to_the_policy() {
        let known: Vec<SchedPolicy> =
            (0..10).map(SchedPolicy::from_number).filter(|policy| *policy != SchedPolicy::Unknown).collect();
        assert_eq!(known.len(), 7, "4 was SCHED_ISO and never merged");
        for policy in known {
            assert_eq!(policy.number().map(SchedPolicy::from_number), Some(policy));
            let json = format!("\"{}\"", policy.name());
            assert_eq!(serde_json::to_string(&policy).ok(), Some(json.clone()));
            assert_eq!(serde_json::from_str::<SchedPolicy>(&json).ok(), Some(policy));
            assert!(policy.class().is_some());
        }
        assert_eq!((SchedPolicy::Unknown.number(), SchedPolicy::Unknown.class()), (None, None));
    }
}
