//! The scheduling attributes of a task: what sched_getattr(2), getpriority(2) and sched_getaffinity(2) show.

use unstarve_change::{Aspect, Value};
use unstarve_model::{CpuSet, SchedPolicy};

/// All settable attributes of a task, read at one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Attributes {
    /// The scheduling policy.
    pub policy: SchedPolicy,
    /// Runtime, deadline and period in ns, for SCHED_DEADLINE.
    pub deadline: Option<(u64, u64, u64)>,
    /// 1 to 99 for FIFO and RR, else 0.
    pub rt_priority: u32,
    /// −20 to 19; stored, but without effect while the task is real-time.
    pub nice: i32,
    /// Whether its children start as ordinary tasks.
    pub reset_on_fork: bool,
    /// The slice in ns; `None` if the kernel does not report it (before 6.12, or real-time).
    pub slice: Option<u64>,
    /// Utilisation clamps, 0 to 1024; `None` if the kernel has none.
    pub uclamp: Option<(u32, u32)>,
    /// The CPUs on which the task may run.
    pub affinity: CpuSet,
    /// Settings that are files in `/proc/PID`, as far as they were read.
    pub files: Vec<Value>,
}

impl Attributes {
    /// The value of an aspect; `None` if this kernel does not support it.
    pub fn value(&self, aspect: Aspect) -> Option<Value> {
        Some(match aspect {
            Aspect::Class => match self.deadline {
                Some((runtime, deadline, period)) => Value::Deadline { runtime, deadline, period },
                None => Value::Class { policy: self.policy, rt_priority: self.rt_priority, slice: self.slice },
            },
            Aspect::Nice => Value::Nice(self.nice),
            Aspect::Slice => Value::Slice(self.slice?),
            Aspect::Affinity => Value::Affinity(self.affinity.clone()),
            Aspect::Uclamp => {
                let (min, max) = self.uclamp?;
                Value::Uclamp { min, max }
            }
            Aspect::ResetOnFork => Value::ResetOnFork(self.reset_on_fork),
            _ => return self.files.iter().find(|value| value.aspect() == aspect).cloned(),
        })
    }
}
