//! Rule `rt-beside-completion-worker`: real-time tasks on CPUs whose workers complete direct I/O.

use std::collections::BTreeMap;

use unstarve_change::{Change, Selector, Target};
use unstarve_facts::{Holds, Mount};
use unstarve_model::{CpuId, CpuSet};

use super::Rule;
use super::rt_on_interrupt_cpu::limit;
use crate::case::{AuditInput, common, cpus};
use crate::fix;
use crate::hit::{Draft, Fix, FixNotes, Hit, Severity};
use crate::interrupts::Device;
use crate::real_time::RtGroup;

pub(super) const RULE: Rule = Rule {
    id: "rt-beside-completion-worker",
    title: "Real-time tasks may run where a bound kernel worker completes direct I/O of a mounted file system",
    about: "A direct write completes in a normal-priority worker that is bound to the CPU of the interrupt. A real-time task \
            there keeps it from running, and with it everybody who waits for the write, itself included.",
    source: "iomap_dio_bio_end_io() in fs/iomap/direct-io.c, sb_init_dio_done_wq() in fs/super.c; commits a4ae47e5d2bc and \
             eca9dc20891d (6.19); data/workqueues.tsv; case A3: Nutanix, 2021",
    check,
    upgrade: None,
};

fn check(case: &AuditInput<'_>) -> Vec<Hit> {
    let mounts = completing_mounts(case);
    if mounts.is_empty() {
        return Vec::new();
    }
    let places = completion_cpus(case);
    super::quiet_together(
        &RULE,
        "may run where kernel workers complete direct I/O",
        case.real_time.iter().filter_map(|group| hit(case, group, &mounts, &places)),
    )
}

/// Mounted file systems whose direct writes complete in bound workers of normal priority.
pub(super) fn completing_mounts<'a>(case: &AuditInput<'a>) -> Vec<&'a Mount> {
    let of = |fs: &str| {
        let rows = unstarve_facts::WORKQUEUES.rows().filter(|row| row.name() == "dio");
        rows.filter_map(|row| row.get("file_systems")).any(|list| list.split(' ').any(|name| name == fs))
    };
    let mut mounts: Vec<&Mount> = case
        .snapshot
        .mounts
        .iter()
        .filter(|mount| of(&mount.fs) && mount.options.split(',').all(|option| option != "ro"))
        .collect();
    mounts.sort_by(|a, b| a.device.cmp(&b.device));
    mounts.dedup_by(|a, b| a.device == b.device);
    mounts
}

/// The CPUs that receive completions: those of block interrupts, or all if these are unknown.
fn completion_cpus(case: &AuditInput<'_>) -> CpuSet {
    let serving = case.interrupts.cpus(Device::Block);
    if serving.is_empty() { case.online.clone() } else { serving }
}

/// Whether the completing CPUs are known; otherwise no CPU is known to be better.
fn known_places(case: &AuditInput<'_>) -> bool {
    !case.interrupts.cpus(Device::Block).is_empty()
}

fn hit(case: &AuditInput<'_>, group: &RtGroup<'_>, mounts: &[&Mount], places: &CpuSet) -> Option<Hit> {
    let allowed = common(group.allowed?, places);
    let starves = |cpu: CpuId| {
        let seen = case.workers(cpu);
        seen.is_empty() || seen.iter().any(|worker| group.is_above(worker))
    };
    let exposed: CpuSet = allowed.iter().filter(|&cpu| starves(cpu)).collect();
    if exposed.is_empty() {
        return None;
    }
    let inline = case.facts.direct_overwrites_complete_inline();
    let severity = match group.severity() {
        Severity::Critical if inline == Holds::Yes => Severity::Warning,
        severity => severity,
    };
    Some(
        Draft::new(RULE.id, severity, group.subject())
            .says(format!(
                "{} may run on {}, where a worker of normal priority completes direct writes of {}.",
                group.named(),
                cpus(&exposed),
                described(mounts)
            ))
            .brief("ahead of dio workers")
            .because(format!("its affinity is {}", group.allowed?))
            .because_of(group.evidence_of_use())
            .because_of(exposed.iter().take(2).filter_map(|cpu| case.interrupts.evidence(Device::Block, cpu)))
            .because_of(seen_at_work(case))
            .would(consequence(case, group, inline))
            .priced(
                "On an all-flash storage controller random writes (120,000 a second) dropped when a real-time controller filled \
                 the CPUs of the dio workers that it was waiting for (Nutanix, Linux 5.10, 2021).",
            )
            .fix(known_places(case).then(|| fix::keep_off(case, group, &exposed)).flatten())
            .fix(raise_workers(case, group, &exposed))
            .fix(inline_completion(inline))
            .done(),
    )
}

/// `xfs on /dev/nvme0n1`.
pub(super) fn described(mounts: &[&Mount]) -> String {
    let shown: Vec<String> = mounts.iter().take(3).map(|mount| format!("{} on {}", mount.fs, mount.device)).collect();
    let more = mounts.len().saturating_sub(3);
    if more > 0 { format!("{} and {more} more", shown.join(", ")) } else { shown.join(", ") }
}

/// Workers whose name in /proc shows that they did this work.
pub(super) fn seen_at_work(case: &AuditInput<'_>) -> Option<String> {
    let at_work: Vec<&str> = case
        .kernel_threads()
        .filter(|task| task.comm.contains("-dio/") || task.comm.contains("+dio/"))
        .map(|task| task.comm.as_str())
        .collect();
    let first = at_work.first()?;
    Some(match at_work.len() {
        1 => format!("{first} is such a worker"),
        count => format!("{count} such workers are there, for example {first}"),
    })
}

fn consequence(case: &AuditInput<'_>, group: &RtGroup<'_>, inline: Holds) -> String {
    let which = match inline {
        Holds::Yes => "Extending and unwritten writes, and O_DSYNC without FUA,",
        Holds::No => "Every asynchronous direct write",
        Holds::Depends(_) => "Before 6.19 every asynchronous direct write, since then extending and unwritten ones,",
    };
    format!(
        "{which} would complete only when {} leaves the CPU; other work of the same worker pool waits, too, because a worker \
         that waits for the CPU counts as running. {}",
        group.name,
        limit(case)
    )
}

fn raise_workers(case: &AuditInput<'_>, group: &RtGroup<'_>, cpus: &CpuSet) -> Option<Fix> {
    let mut raised: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for cpu in cpus.iter() {
        raised.entry(case.priority_above(group, &[cpu].into_iter().collect())?).or_default().push(cpu.0);
    }
    let changes = raised
        .into_iter()
        .map(|(priority, cpus)| Change::of(Target::Threads(Selector::Workers { cpus }), fix::fifo(priority)));
    Fix::of(
        FixNotes {
            text: "Let the workers of these CPUs run ahead of it, and of every other busy real-time program there.",
            risk: "Workers come and go within minutes and are born normal, so this holds only for those that are there now; and \
                   whatever such a worker does next is real-time, too.",
            valid_on: "all kernels",
        },
        changes.collect(),
    )
}

fn inline_completion(inline: Holds) -> Option<Fix> {
    (inline != Holds::Yes).then(|| {
        Fix::advice(FixNotes {
            text: "Linux 6.19 and later complete plain overwrites in the interrupt, without a worker.",
            risk: "Extending and unwritten writes still need the worker.",
            valid_on: "6.19 and later",
        })
    })
}
