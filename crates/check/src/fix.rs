//! Fixes that several rules offer. Names that tasks choose for themselves never get into a command.

use std::collections::BTreeMap;

use unstarve_facts::{CgroupFacts, CgroupVersion, Holds, Snapshot};
use unstarve_model::{CpuSet, SchedPolicy, Tid};

use crate::case::{Case, without};
use crate::hit::Fix;
use crate::interrupts::Device;
use crate::real_time::RtGroup;

/// How many threads a command names.
const NAMED: usize = 16;

fn numbers(group: &RtGroup<'_>) -> String {
    let tids: Vec<String> = group.tids().iter().take(NAMED).map(ToString::to_string).collect();
    tids.join(" ")
}

fn for_each(group: &RtGroup<'_>, command: &str) -> String {
    match group.tids().as_slice() {
        [tid] => command.replace("$t", &tid.to_string()),
        _ => format!("for t in {}; do {command}; done", numbers(group)),
    }
}

/// Keeps the group off CPUs, where others are left.
pub(crate) fn keep_off(case: &Case<'_>, group: &RtGroup<'_>, cpus: &CpuSet) -> Option<Fix> {
    let allowed = group.allowed?;
    // Other CPUs that serve interrupts would be no better.
    let serving: CpuSet = [Device::Net, Device::Block]
        .into_iter()
        .flat_map(|device| case.interrupts.cpus(device).iter().collect::<Vec<_>>())
        .collect();
    let within = without(&without(allowed, cpus), &serving);
    let left = if within.is_empty() { without(&without(&case.online, cpus), &serving) } else { within };
    if left.is_empty() {
        return None;
    }
    Some(Fix {
        text: format!("Keep it off {}.", crate::case::cpus(cpus)),
        apply: for_each(group, &format!("taskset -pc {left} $t")),
        undo: for_each(group, &format!("taskset -pc {allowed} $t")),
        risk: "The other CPUs get its load. A new process of the same service starts where it likes unless the service itself \
               is pinned (systemd: CPUAffinity=)."
            .into(),
        valid_on: "all kernels".into(),
    })
}

/// ksoftirqd of these CPUs above the group, and above whatever else is reported there.
pub(crate) fn raise_ksoftirqd(case: &Case<'_>, group: &RtGroup<'_>, cpus: &CpuSet) -> Option<Fix> {
    let mut raised: BTreeMap<String, Vec<Tid>> = BTreeMap::new();
    let mut as_it_was: BTreeMap<String, Vec<Tid>> = BTreeMap::new();
    for cpu in cpus.iter() {
        let Some(thread) = case.ksoftirqd(cpu) else { continue };
        let priority = case.priority_above(group, &[cpu].into_iter().collect())?;
        raised.entry(format!("chrt -f -p {priority} $t")).or_default().push(thread.tid);
        let old = match thread.policy {
            SchedPolicy::Fifo => format!("chrt -f -p {} $t", thread.rt_priority),
            SchedPolicy::Rr => format!("chrt -r -p {} $t", thread.rt_priority),
            _ => "chrt -o -p 0 $t".to_owned(),
        };
        as_it_was.entry(old).or_default().push(thread.tid);
    }
    if raised.is_empty() {
        return None;
    }
    Some(Fix {
        text: "Let ksoftirqd run ahead of it, and of every other busy real-time program there.".into(),
        apply: for_all(&raised),
        undo: for_all(&as_it_was),
        risk: "A flood of packets then holds the CPU ahead of the real-time task.".into(),
        valid_on: "all kernels; lost when a CPU goes offline and comes back".into(),
    })
}

/// Each command for its threads.
fn for_all(commands: &BTreeMap<String, Vec<Tid>>) -> String {
    let each = commands.iter().map(|(command, tids)| match tids.as_slice() {
        [tid] => command.replace("$t", &tid.to_string()),
        _ => {
            let tids: Vec<String> = tids.iter().map(ToString::to_string).collect();
            format!("for t in {}; do {command}; done", tids.join(" "))
        }
    });
    each.collect::<Vec<_>>().join("; ")
}

/// Packet work in threads, whose policy can be chosen.
pub(crate) fn threaded_napi(case: &Case<'_>, group: &RtGroup<'_>, net: &CpuSet) -> Option<Fix> {
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
    let file = format!("/sys/class/net/{}/threaded", interface.name);
    Some(Fix {
        text: "Move packet work from softirqs to threads, and those above it.".into(),
        apply: format!(
            "echo 1 > {file}; for t in $(pgrep '^napi/{}-'); do chrt -f -p {priority} $t; done",
            interface.name
        ),
        undo: format!("echo 0 > {file}"),
        risk: "Throughput of small packets may drop; threads may run on any CPU until they are pinned.".into(),
        valid_on: "5.12 and later, drivers with NAPI".into(),
    })
}

/// A path for a command line; `None` if it holds anything that a shell or a terminal could take otherwise.
pub(crate) fn shell_path(path: &str) -> Option<String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-@:+,=".contains(c);
    if path.chars().all(plain) {
        return Some(path.to_owned());
    }
    let quotable = path.chars().all(|c| !unstarve_model::is_harmful(c) && c != '\'');
    quotable.then(|| format!("'{path}'"))
}

/// Where a group's file is, and which of the two names it has.
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
    let path = shell_path(&format!("{}{}/{name}", hierarchy.mount.trim_end_matches('/'), group.path))?;
    Some((path, hierarchy.version))
}
