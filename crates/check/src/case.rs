//! The input of rules: a host and the facts about its kernel.

use std::collections::BTreeMap;

use unstarve_facts::{Facts, Snapshot, TaskFacts};
use unstarve_model::{CpuId, CpuSet, Policy, SchedPolicy};
pub(crate) use unstarve_model::{counted, grouped};
use unstarve_sched::KernelThread;

use crate::hit::Severity;
use crate::interrupts::Interrupts;
use crate::real_time::{self, RtGroup};

/// The input of a rule: a host, and the facts about its present or future kernel.
pub(crate) struct AuditInput<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) facts: Facts<'a>,
    pub(crate) online: CpuSet,
    pub(crate) interrupts: Interrupts,
    pub(crate) real_time: Vec<RtGroup<'a>>,
    ksoftirqd: BTreeMap<u32, &'a TaskFacts>,
    workers: BTreeMap<u32, Vec<&'a TaskFacts>>,
}

impl<'a> AuditInput<'a> {
    pub(crate) fn new(snapshot: &'a Snapshot) -> AuditInput<'a> {
        let mut ksoftirqd = BTreeMap::new();
        let mut workers: BTreeMap<u32, Vec<&TaskFacts>> = BTreeMap::new();
        for task in snapshot.tasks.iter().filter(|task| task.kernel_thread) {
            match KernelThread::of(&task.comm.as_str().into()) {
                Some(KernelThread::Ksoftirqd { cpu }) => {
                    ksoftirqd.entry(cpu).or_insert(task);
                }
                Some(KernelThread::BoundWorker { cpu, high: false }) => workers.entry(cpu).or_default().push(task),
                _ => {}
            }
        }
        AuditInput {
            snapshot,
            facts: Facts::of_host(snapshot),
            online: snapshot.cpus.online.clone().unwrap_or_default(),
            interrupts: Interrupts::of(snapshot),
            real_time: real_time::groups(snapshot),
            ksoftirqd,
            workers,
        }
    }

    /// A CPU's ksoftirqd.
    pub(crate) fn ksoftirqd(&self, cpu: CpuId) -> Option<&'a TaskFacts> {
        self.ksoftirqd.get(&cpu.0).copied()
    }

    /// The visible workers of a CPU's normal-priority pool.
    pub(crate) fn workers(&self, cpu: CpuId) -> &[&'a TaskFacts] {
        self.workers.get(&cpu.0).map_or(&[], Vec::as_slice)
    }

    /// The priority that puts kernel threads of these CPUs above a real-time program and every other one there that
    /// uses them: one value for each thread, so that fixes of a page do not undo each other. `None` if no priority
    /// does, or if only a program that hardly ever runs would need so much.
    pub(crate) fn priority_above(&self, group: &RtGroup<'_>, cpus: &CpuSet) -> Option<u32> {
        // 99 is reserved for migration and watchdog threads.
        let above = |group: &RtGroup<'_>| {
            (group.policy != SchedPolicy::Deadline && group.priority < 98).then_some(group.priority + 1)
        };
        let own = above(group)?;
        let meets = |other: &&RtGroup<'a>| other.allowed.is_some_and(|allowed| !common(allowed, cpus).is_empty());
        let busy = self.real_time.iter().filter(|other| other.severity() > Severity::Info).filter(meets);
        match busy.filter_map(above).max() {
            None => Some(own),
            Some(priority) => (priority >= own).then_some(priority),
        }
    }

    /// All kernel threads.
    pub(crate) fn kernel_threads(&self) -> impl Iterator<Item = &'a TaskFacts> {
        self.snapshot.tasks.iter().filter(|task| task.kernel_thread)
    }

    /// Whether there is a task of this name.
    /// Whether the snapshot has the host's interrupts.
    pub(crate) fn knows_interrupts(&self) -> bool {
        !self.snapshot.irqs.is_empty()
    }

    /// Whether the snapshot has the host's threads. One made of a bundle's texts may not: each host has some.
    pub(crate) fn knows_threads(&self) -> bool {
        !self.snapshot.tasks.is_empty()
    }

    pub(crate) fn has_task(&self, name: &str) -> bool {
        self.snapshot.tasks.iter().any(|task| task.comm == name)
    }

    /// How many softirqs of a kind a CPU ran in a second since boot, on average.
    pub(crate) fn softirqs_a_second(&self, kind: &str, cpu: CpuId) -> Option<f64> {
        let seconds = self.snapshot.uptime_ticks.filter(|&ticks| ticks >= 100)? as f64 / 100.0;
        let count = self.snapshot.softirqs.as_ref()?.get(kind)?.get(&cpu.0).copied()?;
        Some(count as f64 / seconds)
    }

    /// Whether one of the watched programs runs; `None` if that was not checked.
    pub(crate) fn runs(&self, program: &str) -> Option<bool> {
        self.snapshot.services.as_ref().map(|services| services.runs(program))
    }
}

/// Whether a task always precedes fair tasks.
pub(crate) fn is_above_fair(policy: SchedPolicy) -> bool {
    matches!(policy.class(), Some(Policy::Rt | Policy::Deadline))
}

/// The fraction of one CPU that a task used on average over its life; for a process's first thread with its ended
/// children, which inherit its policy. `None` if the task is too young.
pub(crate) fn use_of_cpu(snapshot: &Snapshot, task: &TaskFacts) -> Option<f64> {
    let age = age(snapshot, task)?;
    let children = task.child_ticks.filter(|_| task.tgid.is_none() && task.reset_on_fork != Some(true)).unwrap_or(0);
    Some(task.cpu_ticks?.saturating_add(children) as f64 / age as f64)
}

/// The same of the task alone, without its children.
pub(crate) fn own_use_of_cpu(snapshot: &Snapshot, task: &TaskFacts) -> Option<f64> {
    Some(task.cpu_ticks? as f64 / age(snapshot, task)? as f64)
}

/// In clock ticks; `None` if it is too young to be judged by its CPU time.
fn age(snapshot: &Snapshot, task: &TaskFacts) -> Option<u64> {
    snapshot.uptime_ticks?.checked_sub(task.start_ticks).filter(|&ticks| ticks >= 20)
}

/// The intersection.
pub(crate) fn common(a: &CpuSet, b: &CpuSet) -> CpuSet {
    a.iter().filter(|&cpu| b.contains(cpu)).collect()
}

/// The CPUs of `a` without those of `b`.
pub(crate) fn without(a: &CpuSet, b: &CpuSet) -> CpuSet {
    a.iter().filter(|&cpu| !b.contains(cpu)).collect()
}

/// `CPU 3`, `CPUs 0-2`.
pub(crate) fn cpus(set: &CpuSet) -> String {
    if set.len() == 1 { format!("CPU {set}") } else { format!("CPUs {set}") }
}
