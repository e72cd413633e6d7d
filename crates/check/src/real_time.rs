//! Real-time programs of a host, grouped.

use std::collections::BTreeMap;

use unstarve_facts::{Snapshot, TaskFacts};
use unstarve_model::{CpuSet, SchedPolicy};

use crate::case::{is_above_fair, use_of_cpu};
use crate::hit::Severity;

/// Real-time threads of one program with the same policy, priority and affinity.
pub(crate) struct RtGroup<'a> {
    /// The program's name.
    pub(crate) name: &'a str,
    pub(crate) policy: SchedPolicy,
    pub(crate) priority: u32,
    /// The CPUs they may use; `None` if unknown.
    pub(crate) allowed: Option<&'a CpuSet>,
    pub(crate) tasks: Vec<&'a TaskFacts>,
    /// The fraction of one CPU that they used together, averaged over their lives.
    pub(crate) cpu_use: Option<f64>,
}

/// All real-time threads except kernel threads.
pub(crate) fn groups(snapshot: &Snapshot) -> Vec<RtGroup<'_>> {
    let mut groups: BTreeMap<_, RtGroup<'_>> = BTreeMap::new();
    for task in snapshot.tasks.iter().filter(|task| !task.kernel_thread && is_above_fair(task.policy)) {
        let name = program(snapshot, task);
        let key = (name, task.policy.word(), task.rt_priority, task.allowed.as_ref().map(ToString::to_string));
        let group = groups.entry(key).or_insert_with(|| RtGroup {
            name,
            policy: task.policy,
            priority: task.rt_priority,
            allowed: task.allowed.as_ref(),
            tasks: Vec::new(),
            cpu_use: None,
        });
        group.cpu_use = match (group.cpu_use, use_of_cpu(snapshot, task)) {
            (Some(sum), Some(more)) => Some(sum + more),
            (known, new) => known.or(new),
        };
        group.tasks.push(task);
    }
    let mut groups: Vec<_> = groups.into_values().collect();
    // The group that uses most CPU time first.
    groups.sort_by(|a, b| b.cpu_use.unwrap_or(0.0).total_cmp(&a.cpu_use.unwrap_or(0.0)));
    groups
}

/// The name of a thread's process.
fn program<'a>(snapshot: &'a Snapshot, task: &'a TaskFacts) -> &'a str {
    let leader = task.tgid.and_then(|tgid| snapshot.task(tgid));
    &leader.unwrap_or(task).comm
}

/// A real-time task that uses more of a CPU than this delays others; one below the smaller limit does housekeeping.
const BUSY: f64 = 0.05;
const QUIET: f64 = 0.001;

impl RtGroup<'_> {
    /// `monitor RR 10`.
    pub(crate) fn title(&self) -> String {
        match self.policy {
            SchedPolicy::Deadline => format!("{} deadline", self.name),
            policy => format!("{} {} {}", self.name, policy.word(), self.priority),
        }
    }

    /// `monitor[950] RR 10`, `stargate RR 20 (40 threads)`.
    pub(crate) fn named(&self) -> String {
        match self.tasks.as_slice() {
            [task] => self.title().replacen(self.name, &format!("{}[{}]", self.name, task.tid), 1),
            tasks => format!("{} ({} threads)", self.title(), tasks.len()),
        }
    }

    /// The subject, without ids that change between runs.
    pub(crate) fn subject(&self) -> String {
        match self.allowed {
            Some(allowed) => format!("{} on {allowed}", self.title()),
            None => self.title(),
        }
    }

    /// The severity of waiting behind it, by its CPU use so far.
    pub(crate) fn severity(&self) -> Severity {
        match self.cpu_use {
            Some(part) if part >= BUSY => Severity::Critical,
            Some(part) if part < QUIET => Severity::Info,
            _ => Severity::Warning,
        }
    }

    /// `used 12 % of a CPU on average so far`.
    pub(crate) fn evidence_of_use(&self) -> Option<String> {
        let part = self.cpu_use?;
        let percent = part * 100.0;
        let digits = if percent < 10.0 { 1 } else { 0 };
        let children =
            self.tasks.iter().any(|task| task.tgid.is_none() && task.child_ticks.is_some_and(|ticks| ticks > 0));
        let who = match (self.tasks.len(), children) {
            (1, false) => "it",
            (1, true) => "it and its children",
            (_, false) => "they",
            (_, true) => "they and their children",
        };
        Some(if percent < 0.05 {
            format!("{who} used next to no CPU time so far")
        } else {
            format!("{who} used {percent:.digits$} % of a CPU on average so far")
        })
    }

    /// Whether it precedes a task on a CPU that both may use.
    pub(crate) fn is_above(&self, task: &TaskFacts) -> bool {
        match (self.policy, task.policy) {
            (_, policy) if !is_above_fair(policy) => true,
            (SchedPolicy::Deadline, policy) => policy != SchedPolicy::Deadline,
            (_, SchedPolicy::Deadline) => false,
            // Among equal FIFO tasks the running one keeps the CPU.
            _ => self.priority >= task.rt_priority,
        }
    }
}
