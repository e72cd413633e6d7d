//! The rules that explain why an occupant, and not the waiting task, had the CPU.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Why an occupant, and not the waiting task, had the CPU.
///
/// Every piece of a wait has exactly one. They are tried in the order of this list, the first that fits is taken.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// Nobody knows who had the CPU: events were lost, the trace had not begun, or the CPU itself did not run.
    #[default]
    Unknown,
    /// A hard interrupt handler ran.
    Irq,
    /// A softirq was served on top of whatever task was current (not by ksoftirqd, which is a task like others).
    Softirq,
    /// The CPU went idle although the task was runnable there: a cgroup bandwidth limit kept it off. Or, of real-time and
    /// deadline tasks, the scheduler chose a task of a lower class: the limit on theirs.
    Throttled,
    /// The CPU was idle and did not run the task: idle-exit latency, as long as that lasts; beyond it something that the events do
    /// not show kept the task off.
    Idle,
    /// The occupant's class always goes first: deadline over real-time over fair.
    Class,
    /// Both are real-time tasks, and the occupant's priority is higher.
    Priority,
    /// Both are real-time tasks of one priority, of which the first keeps the CPU until it leaves (SCHED_FIFO) or for its
    /// slice (SCHED_RR); or both are deadline tasks, of which the one with the earlier deadline goes first.
    Order,
    /// No event has the priorities of both: nobody knows why.
    Unranked,
    /// The occupant is of a lower class, or a lower real-time priority, and kept the CPU all the same: the kernel could not preempt
    /// it yet (a section with preemption off, or a kernel that preempts rarely).
    NotPreempted,
    /// The waiting task was running and was pushed off by a task that had just been woken; until that one leaves.
    WakeupPreemption,
    /// The occupant's load weight, or that of its top-level cgroup, is larger.
    Weight,
    /// More tasks of the occupant's kind were woken than there are CPUs to run them.
    Count,
    /// Plain sharing with equals.
    Fair,
}

impl Rule {
    /// All rules, in the order in which they are tried.
    pub const ALL: [Rule; 14] = [
        Rule::Unknown,
        Rule::Irq,
        Rule::Softirq,
        Rule::Throttled,
        Rule::Idle,
        Rule::Class,
        Rule::Priority,
        Rule::Order,
        Rule::Unranked,
        Rule::NotPreempted,
        Rule::WakeupPreemption,
        Rule::Weight,
        Rule::Count,
        Rule::Fair,
    ];

    /// The rule's word in reports: `wakeup-preemption`.
    pub fn word(self) -> &'static str {
        match self {
            Rule::Unknown => "unknown",
            Rule::Irq => "irq",
            Rule::Softirq => "softirq",
            Rule::Throttled => "throttled",
            Rule::Idle => "idle",
            Rule::Class => "class",
            Rule::Priority => "priority",
            Rule::Order => "order",
            Rule::Unranked => "unranked",
            Rule::NotPreempted => "not-preempted",
            Rule::Weight => "weight",
            Rule::WakeupPreemption => "wakeup-preemption",
            Rule::Count => "count",
            Rule::Fair => "fair",
        }
    }

    /// Whether the occupant always goes before the waiting task: its class does, or its real-time priority.
    pub fn is_precedence(self) -> bool {
        matches!(self, Rule::Class | Rule::Priority)
    }

    /// Why an occupant had the CPU, in one line: `its share, or that of its cgroup, is larger`.
    pub fn meaning(self) -> &'static str {
        match self {
            Rule::Unknown => "events are missing, or the CPU itself did not run",
            Rule::Irq => "a hardware interrupt handler ran",
            Rule::Softirq => "deferred interrupt work (a softirq) ran",
            Rule::Throttled => "a limit stopped the waiting task: its cgroup's quota, or the one on real-time tasks",
            Rule::Idle => "the CPU was idle: it was waking up, or the task was kept off it",
            Rule::Class => "real-time threads always run before normal ones (deadline first)",
            Rule::Priority => "higher real-time priority",
            Rule::Order => "order among real-time tasks of one priority: it came first, or its deadline is earlier",
            Rule::Unranked => "not known: the recording has no priorities",
            Rule::NotPreempted => "lower class or priority, but not preempted: the kernel could not, or was late",
            Rule::Weight => "larger weight: its nice value or its cgroup gives it a larger share",
            Rule::WakeupPreemption => "wakeup preemption: it was just woken and took the CPU at once",
            Rule::Count => "too many woken at once: more tasks of its kind than CPUs",
            Rule::Fair => "its turn among tasks of equal weight",
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}
