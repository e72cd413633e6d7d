//! Task priorities and scheduling classes.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The kernel's priority of a task: 0–99 real-time (lower runs first), 100–139 fair (120 + nice), −1 deadline.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Prio(pub i32);

/// The scheduling class, as far as a priority shows it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    /// The idle task of a CPU. (SCHED_IDLE tasks have a fair priority and look fair in a trace.)
    Idle,
    /// SCHED_OTHER, SCHED_BATCH and SCHED_IDLE.
    Fair,
    /// SCHED_FIFO and SCHED_RR.
    Rt,
    /// SCHED_DEADLINE, and the stop class, whose tasks the kernel shows with RT priority 0.
    Deadline,
}

impl Policy {
    /// Whether the class always runs before `other`.
    pub fn is_above(self, other: Policy) -> bool {
        self > other
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Policy::Idle => "idle",
            Policy::Fair => "fair",
            Policy::Rt => "rt",
            Policy::Deadline => "deadline",
        })
    }
}

impl Prio {
    /// Threads of the stop class, and SCHED_FIFO 99.
    pub const STOP: Prio = Prio(0);

    /// The default priority: fair, nice 0.
    pub const NORMAL: Prio = Prio(120);

    /// The class of this priority.
    #[inline]
    pub fn policy(self) -> Policy {
        match self.0 {
            ..0 => Policy::Deadline,
            0..100 => Policy::Rt,
            _ => Policy::Fair,
        }
    }

    /// The nice value of a fair task, `None` for the other classes.
    #[inline]
    pub fn nice(self) -> Option<i32> {
        (100..140).contains(&self.0).then_some(self.0 - 120)
    }
}
