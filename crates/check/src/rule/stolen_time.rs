//! Rule `stolen-time`: the hypervisor does not run this machine's CPUs when they have work.

use super::Rule;
use crate::case::{AuditInput, cpus};
use crate::hit::{Draft, Fix, FixNotes, Hit, Severity};
use unstarve_model::{CpuId, CpuSet};

pub(super) const RULE: Rule = Rule {
    id: "stolen-time",
    title: "The hypervisor keeps CPUs of this machine waiting",
    about: "While a virtual CPU does not run, the task on it looks as if it ran, and whatever waits behind it waits longer: locks are \
            held, ticks and RCU's reports are missed. No setting of this machine changes that.",
    source: "account_steal_time() in kernel/sched/cputime.c; Documentation/filesystems/proc.rst (steal); \
             Documentation/RCU/stallwarn.rst",
    check,
    upgrade: None,
};

/// Of the time since boot.
const NOTICED: f64 = 0.02;
const HURTS: f64 = 0.10;

fn check(case: &AuditInput<'_>) -> Vec<Hit> {
    hit(case).into_iter().collect()
}

fn hit(case: &AuditInput<'_>) -> Option<Hit> {
    let times = case.snapshot.cpu_times.as_ref()?;
    let mut stolen: Vec<(f64, CpuId)> = times
        .iter()
        .filter_map(|(cpu, times)| Some((times.stolen()?, CpuId(*cpu))))
        .filter(|(part, _)| *part >= NOTICED)
        .collect();
    stolen.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let &(worst, _) = stolen.first()?;
    let all: CpuSet = stolen.iter().map(|(_, cpu)| *cpu).collect();
    let severity = if worst >= HURTS { Severity::Warning } else { Severity::Info };
    Some(
        Draft::new(RULE.id, severity, "steal")
            .says(format!("The hypervisor took up to {:.0} % of the time of {} since boot.", worst * 100.0, cpus(&all)))
            .brief(format!("{:.0} % steal", worst * 100.0))
            .because_of(stolen.iter().take(4).map(|(part, cpu)| {
                format!("CPU {cpu}: {:.1} % of its time is steal in /proc/stat", part * 100.0)
            }))
            .would(
                "Tasks wait behind one that seems to run and does not, for as long as the host runs others: tens of milliseconds to \
                 seconds. Watchdogs may report lockups and RCU stalls of which nothing in this machine is the cause.",
            )
            .fix(Fix::advice(FixNotes {
                text: "Ask for the time at the host: fewer virtual CPUs on its CPUs, virtual CPUs pinned to CPUs of their own, no CPU \
                       limit on this machine, or an instance type without credits. Weights and cgroups of this machine do not help.",
                risk: "None here.",
                valid_on: "virtual machines whose hypervisor reports steal",
            }))
            .done(),
    )
}
