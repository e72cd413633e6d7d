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

/// A policy's number in the kernel, its name in JSON, its name for people, and its class.
type PolicyRow = (SchedPolicy, u32, &'static str, &'static str, Policy);

/// All but the unknown one.
const POLICY_ROWS: [PolicyRow; 7] = [
    (SchedPolicy::Other, 0, "other", "normal", Policy::Fair),
    (SchedPolicy::Fifo, 1, "fifo", "FIFO", Policy::Rt),
    (SchedPolicy::Rr, 2, "rr", "RR", Policy::Rt),
    (SchedPolicy::Batch, 3, "batch", "batch", Policy::Fair),
    (SchedPolicy::Idle, 5, "idle", "idle", Policy::Fair),
    (SchedPolicy::Deadline, 6, "deadline", "deadline", Policy::Deadline),
    (SchedPolicy::Ext, 7, "ext", "ext", Policy::Fair),
];

impl SchedPolicy {
    /// The policy of a kernel number (`SCHED_*` in `include/uapi/linux/sched.h`).
    pub fn from_number(number: u32) -> SchedPolicy {
        POLICY_ROWS.iter().find(|(_, known, ..)| *known == number).map_or(SchedPolicy::Unknown, |row| row.0)
    }

    fn row(self) -> Option<&'static PolicyRow> {
        POLICY_ROWS.iter().find(|(policy, ..)| *policy == self)
    }

    /// Its number in the kernel; `None` for an unknown policy.
    pub fn number(self) -> Option<u32> {
        self.row().map(|(_, number, ..)| *number)
    }

    /// Its name in JSON, in rules, and as an option of chrt(1): `other`, `fifo`.
    pub fn name(self) -> &'static str {
        self.row().map_or("unknown", |(_, _, name, ..)| name)
    }

    /// Its name in text for people: `RR`, `FIFO`, `deadline`.
    pub fn word(self) -> &'static str {
        self.row().map_or("unknown", |(.., word, _)| word)
    }

    /// The scheduling class; `None` for an unknown policy. SCHED_EXT counts as fair.
    pub fn class(self) -> Option<Policy> {
        self.row().map(|(.., class)| *class)
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
