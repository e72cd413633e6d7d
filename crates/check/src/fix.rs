//! Fixes that several rules offer. Names that tasks choose for themselves never appear in a command.

use unstarve_change::{Change, Selector, Target, Thread, Value};
use unstarve_facts::{CgroupFacts, CgroupVersion, Holds, Snapshot, TaskFacts};
use unstarve_model::{CpuSet, SchedPolicy};

use crate::case::{AuditInput, without};
use crate::hit::{Fix, FixNotes};
use crate::interrupts::Device;
use crate::real_time::RtGroup;

/// A thread as the target of a change.
pub(crate) fn thread(task: &TaskFacts) -> Target {
    Target::Thread(Thread {
        start: Some(task.start_ticks),
        // No kernel thread has the flag: kthreadd lacks it, and only user space sets it.
        reset_on_fork: if task.kernel_thread { Some(false) } else { task.reset_on_fork },
        kernel_thread: Some(task.kernel_thread),
        user: task.user,
        ..Thread::known_by(task.tid, &task.comm)
    })
}

/// SCHED_FIFO at this priority.
pub(crate) fn fifo(rt_priority: u32) -> Value {
    Value::Class { policy: SchedPolicy::Fifo, rt_priority, slice: None }
}

/// Moves the group off these CPUs, if others are left.
pub(crate) fn keep_off(case: &AuditInput<'_>, group: &RtGroup<'_>, cpus: &CpuSet) -> Option<Fix> {
    let allowed = group.allowed?;
    // The kernel refuses it: a deadline task's bandwidth is guaranteed over all CPUs.
    if group.policy == SchedPolicy::Deadline {
        return None;
    }
    // Other CPUs that serve interrupts are no improvement.
    let serving: CpuSet = [Device::Net, Device::Block]
        .into_iter()
        .flat_map(|device| case.interrupts.cpus(device).iter().collect::<Vec<_>>())
        .collect();
    let within = without(&without(allowed, cpus), &serving);
    let left = if within.is_empty() { without(&without(&case.online, cpus), &serving) } else { within };
    if left.is_empty() {
        return None;
    }
    let affinity = |cpus: &CpuSet| Value::Affinity(cpus.clone());
    let changes = group.tasks.iter().map(|task| Change::of(thread(task), affinity(&left)).from(affinity(allowed)));
    Fix::of(
        FixNotes {
            text: &format!("Keep it off {}.", crate::case::cpus(cpus)),
            risk: "The other CPUs get its load. A new process of the same service starts where it likes unless the service \
                   itself is pinned (systemd: CPUAffinity=).",
            valid_on: "all kernels",
        },
        changes.collect(),
    )
}

/// Raises ksoftirqd of these CPUs above the group and every other program reported there.
pub(crate) fn raise_ksoftirqd(case: &AuditInput<'_>, group: &RtGroup<'_>, cpus: &CpuSet) -> Option<Fix> {
    let mut raised = Vec::new();
    for cpu in cpus.iter() {
        let Some(task) = case.ksoftirqd(cpu) else { continue };
        let priority = case.priority_above(group, &[cpu].into_iter().collect())?;
        let was = Value::Class { policy: task.policy, rt_priority: task.rt_priority, slice: None };
        raised.push((priority, Change::of(thread(task), fifo(priority)).from(was)));
    }
    raised.sort_by_key(|(priority, _)| *priority);
    Fix::of(
        FixNotes {
            text: "Let ksoftirqd run ahead of it, and of every other busy real-time program there.",
            risk: "A flood of packets then holds the CPU ahead of the real-time task.",
            valid_on: "all kernels; lost when a CPU goes offline and comes back",
        },
        raised.into_iter().map(|(_, change)| change).collect(),
    )
}

/// Moves packet processing into threads, whose policy can be set.
pub(crate) fn threaded_napi(case: &AuditInput<'_>, group: &RtGroup<'_>, net: &CpuSet) -> Option<Fix> {
    if net.is_empty() || case.facts.threaded_napi() == Holds::No {
        return None;
    }
    // These threads may run on any CPU that serves the network.
    let priority = case.priority_above(group, &case.interrupts.cpus(Device::Net))?;
    let plain = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
    let interface = case
        .snapshot
        .networks
        .iter()
        .find(|network| network.hardware && network.threaded == Some(false) && plain(&network.name))?;
    let text = |value: &str| Value::Text(value.to_owned());
    let threads = Target::Threads(Selector::KernelThreads { prefix: format!("napi/{}-", interface.name) });
    Fix::of(
        FixNotes {
            text: "Move packet work from softirqs to threads, and those above it.",
            risk: "Throughput of small packets may drop; threads may run on any CPU until they are pinned.",
            valid_on: "5.12 and later, drivers with NAPI",
        },
        vec![
            Change::file(format!("/sys/class/net/{}/threaded", interface.name), "1").from(text("0")),
            Change::of(threads, fifo(priority)),
        ],
    )
}

/// A change of a setting in /proc/sys or /sys from the snapshot's value.
pub(crate) fn setting(snapshot: &Snapshot, path: &str, value: &str) -> Change {
    let was = snapshot.settings.get(path).map(|text| Value::Text(text.trim().to_owned()));
    Change::file(path, value).from(was)
}

/// The path of a group's file, with the name that the cgroup version uses.
pub(crate) fn group_file(
    snapshot: &Snapshot,
    group: &CgroupFacts,
    v1: &str,
    v2: &str,
) -> Option<(String, CgroupVersion)> {
    let hierarchy = snapshot.hierarchy.as_ref()?;
    let name = match hierarchy.version {
        CgroupVersion::V1 => v1,
        CgroupVersion::V2 => v2,
    };
    let path = format!("{}{}/{name}", hierarchy.mount.trim_end_matches('/'), group.path);
    // A path that cannot be quoted in a command is no target of a change either.
    unstarve_change::quoted(&path)?;
    Some((path, hierarchy.version))
}
