use unstarve_change::{Aspect, Value};
use unstarve_model::{CpuSet, SchedPolicy};

/// Everything about a task that can be set, as read at one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Attributes {
    /// Its policy.
    pub policy: SchedPolicy,
    /// Runtime, deadline and period in ns, of a deadline task.
    pub deadline: Option<(u64, u64, u64)>,
    /// 1 to 99 for FIFO and RR, else 0.
    pub rt_priority: u32,
    /// −20 to 19; kept, and without effect, while the task is real-time.
    pub nice: i32,
    /// Whether its children start as ordinary tasks.
    pub reset_on_fork: bool,
    /// The length of its turn in ns; `None` where the kernel does not tell (before 6.12, or real-time).
    pub slice: Option<u64>,
    /// Utilisation clamps, 0 to 1024; `None` where the kernel has none.
    pub uclamp: Option<(u32, u32)>,
    /// The CPUs on which it may run.
    pub affinity: CpuSet,
}

impl Attributes {
    /// The present value of an aspect; `None` where this kernel does not have it.
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
            Aspect::Content => return None,
        })
    }
}
