use std::fmt;

use serde::{Deserialize, Serialize};

/// Why an occupant, and not the waiting task, had the CPU.
///
/// Every piece of a wait has exactly one. They are tried in the order of this list, the first that fits is taken.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// Nobody knows who had the CPU: events were lost, or the trace had not begun.
    Unknown,
    /// A hard interrupt handler ran.
    Irq,
    /// A softirq was served on top of whatever task was current (not by ksoftirqd, which is a task like others).
    Softirq,
    /// The CPU went idle although the task was runnable there: a cgroup bandwidth limit kept it off. Or, of real-time and
    /// deadline tasks, the scheduler chose a task of a lower class: the limit on theirs.
    Throttled,
    /// The CPU was idle and had yet to switch to the task: idle-exit latency.
    Idle,
    /// The occupant's class always goes first: deadline over real-time over fair; or a higher real-time priority.
    Class,
    /// Both are real-time tasks of one priority, of which the first keeps the CPU until it leaves (SCHED_FIFO) or for its
    /// slice (SCHED_RR); or both are deadline tasks, of which the one with the earlier deadline goes first.
    Order,
    /// No event has the priorities of both: nobody knows why.
    Unranked,
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
    pub const ALL: [Rule; 12] = [
        Rule::Unknown,
        Rule::Irq,
        Rule::Softirq,
        Rule::Throttled,
        Rule::Idle,
        Rule::Class,
        Rule::Order,
        Rule::Unranked,
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
            Rule::Order => "order",
            Rule::Unranked => "unranked",
            Rule::Weight => "weight",
            Rule::WakeupPreemption => "wakeup-preemption",
            Rule::Count => "count",
            Rule::Fair => "fair",
        }
    }

    /// Why an occupant had the CPU, in one line: `its share, or that of its cgroup, is larger`.
    pub fn meaning(self) -> &'static str {
        match self {
            Rule::Unknown => "events are missing",
            Rule::Irq => "a hardware interrupt handler ran",
            Rule::Softirq => "deferred interrupt work (a softirq) ran",
            Rule::Throttled => "a limit stopped the waiting task: its cgroup's quota, or the one on real-time tasks",
            Rule::Idle => "the CPU was idle and had not switched yet",
            Rule::Class => "real-time goes first: deadline before real-time before all others",
            Rule::Order => "order among real-time tasks of one priority: it came first, or its deadline is earlier",
            Rule::Unranked => "not known: the recording has no priorities",
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
