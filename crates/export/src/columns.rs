//! The columns of the tables, declared once: CSV headers, Arrow schemas and the documentation follow.

/// What a column holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Unsigned, 64 bits.
    U64,
    /// Unsigned, 32 bits.
    U32,
    /// Signed, 32 bits.
    I32,
    /// UTF-8.
    Text,
}

/// Whether a cell may be empty.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Presence {
    /// Never.
    Always,
    /// Where it is not known, or does not apply.
    Optional,
}

/// A column of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// What it holds.
    pub kind: Kind,
    /// Whether a cell may be empty.
    pub presence: Presence,
    /// `ns`, or nothing.
    pub unit: &'static str,
    /// For people.
    pub meaning: &'static str,
}

const fn column(name: &'static str, kind: Kind, unit: &'static str, meaning: &'static str) -> Column {
    Column { name, kind, presence: Presence::Always, unit, meaning }
}

const fn optional(name: &'static str, kind: Kind, unit: &'static str, meaning: &'static str) -> Column {
    Column { name, kind, presence: Presence::Optional, unit, meaning }
}

use Kind::{I32, Text, U32, U64};

const START_UTC: &str = "when the wait began, in UTC (RFC 3339), where the recording has the time of day";
const HOST: &str = "the name of the recorded machine, where known";

pub(crate) const WAITS: &[Column] = &[
    column("wait", U64, "", "number of the wait in this export, from 0; `pieces` refers to it"),
    column("start_ns", U64, "ns", "when the task became runnable, on the trace's clock"),
    column("end_ns", U64, "ns", "when it got the CPU, or the trace ended"),
    column("wait_ns", U64, "ns", "`end_ns` − `start_ns`; the pieces add up to it"),
    optional("queued_ns", U64, "ns", "when it was put on a runqueue (`sched_wakeup`), where recorded"),
    column("comm", Text, "", "the task's name"),
    column("tid", U32, "", "its thread id"),
    column("kind", Text, "", "`kworker`, `ksoftirqd`, `rcu`, … by its name, else `task`"),
    column("policy", Text, "", "`fair`, `rt`, `deadline`"),
    column("prio", I32, "", "the kernel's priority: 0–99 real-time, 100–139 fair, −1 deadline"),
    optional("group_weight", U32, "", "load weight of its top-level cgroup, where known and not the root's"),
    column("cpu", U32, "", "the CPU on which the wait ended"),
    column("begun", Text, "", "`wakeup`, `new` or `preemption`"),
    column("ended", Text, "", "`ran`, or `trace-end` if it waited still"),
    optional("culprit", Text, "", "who had the CPU for the longest piece; empty for a wait of no length"),
    optional("rule", Text, "", "the rule of that piece"),
    column("owed_ns", U64, "ns", "what an equal share of the CPU would have given it during the wait"),
    optional(
        "idle_elsewhere_ns",
        U64,
        "ns",
        "how long another CPU that it may use was idle, where its affinity is known",
    ),
    column("migrations", U32, "", "how often it was moved while it waited"),
    column("queue_length", U32, "", "tasks that waited on that CPU at the end, this one included"),
    optional("preempted_by", Text, "", "who took the CPU from it, for preemption waits"),
    optional("work_function", Text, "", "the work item of a worker, where known"),
    optional("workqueue", Text, "", "its workqueue, where known"),
    optional("start_utc", Text, "", START_UTC),
    optional("tgid", U32, "", "the task's process, where the host snapshot knows it"),
    optional("cgroup", Text, "", "the path of its cgroup, where the snapshot knows it"),
    optional("culprit_tids", Text, "", "the culprit's threads: the first of this name and priority, apart by blanks"),
    optional("culprit_tgids", Text, "", "their processes, where known"),
    optional("culprit_cgroups", Text, "", "the paths of their cgroups, where known, apart by commas"),
    optional("host", Text, "", HOST),
];

pub(crate) const PIECES: &[Column] = &[
    column("wait", U64, "", "number of the wait, as in `waits`"),
    column("start_ns", U64, "ns", "when that wait began, on the trace's clock"),
    column("comm", Text, "", "who waited"),
    column("tid", U32, "", "its thread id"),
    column("cpu", U32, "", "the CPU on which the wait ended"),
    column(
        "occupant",
        Text,
        "",
        "who or what had the CPU: a task's name, `idle`, `irq 33 virtio0`, `softirq NET_RX`, `unknown`",
    ),
    column("occupant_kind", Text, "", "`task`, `kworker`, …, `irq`, `softirq`, `idle`, `unknown`, `others`"),
    optional("occupant_policy", Text, "", "`fair`, `rt`, `deadline`, `idle`; empty for what is no task"),
    optional("occupant_prio", I32, "", "the kernel's priority of a task"),
    optional("occupant_group_weight", U32, "", "load weight of its top-level cgroup, where known and not the root's"),
    column("rule", Text, "", "why the occupant had it: `class`, `weight`, `wakeup-preemption`, … (docs/blame.md)"),
    column("piece_ns", U64, "ns", "how long, in this wait"),
    optional("start_utc", Text, "", START_UTC),
    optional("occupant_tids", Text, "", "the occupant's threads: the first of this name and priority, apart by blanks"),
    optional("occupant_tgids", Text, "", "their processes, where known"),
    optional("occupant_cgroups", Text, "", "the paths of their cgroups, where known, apart by commas"),
    optional("host", Text, "", HOST),
];

pub(crate) const BLAME: &[Column] = &[
    column("victim", Text, "", "who waited"),
    column("victim_kind", Text, "", "`kworker`, `ksoftirqd`, `rcu`, … by its name, else `task`"),
    optional("victim_policy", Text, "", "`fair`, `rt`, `deadline`"),
    optional("victim_prio", I32, "", "the kernel's priority"),
    optional("victim_group_weight", U32, "", "load weight of its top-level cgroup, where known and not the root's"),
    column("occupant", Text, "", "who or what had the CPU"),
    column("occupant_kind", Text, "", "`task`, `kworker`, …, `irq`, `softirq`, `idle`, `unknown`, `others`"),
    optional("occupant_policy", Text, "", "`fair`, `rt`, `deadline`, `idle`; empty for what is no task"),
    optional("occupant_prio", I32, "", "the kernel's priority of a task"),
    optional("occupant_group_weight", U32, "", "load weight of its top-level cgroup, where known and not the root's"),
    column("rule", Text, "", "why the occupant had it (docs/blame.md)"),
    column("waits", U64, "", "in how many waits"),
    column("total_ns", U64, "ns", "how long, in all"),
    column("longest_ns", U64, "ns", "the most in one wait"),
    optional("victim_tids", Text, "", "the victim's threads, the first few, apart by blanks"),
    optional("victim_tgids", Text, "", "their processes, where the host snapshot knows them"),
    optional("victim_cgroups", Text, "", "the paths of their cgroups, where known, apart by commas"),
    optional("occupant_tids", Text, "", "the occupant's threads, the first few"),
    optional("occupant_tgids", Text, "", "their processes, where known"),
    optional("occupant_cgroups", Text, "", "the paths of their cgroups, where known"),
    optional("host", Text, "", HOST),
];
