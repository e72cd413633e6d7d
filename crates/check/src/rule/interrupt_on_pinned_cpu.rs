//! Rule `interrupt-on-pinned-cpu`: interrupts on CPUs that tasks are pinned to.

use std::collections::BTreeMap;

use unstarve_change::{Change, Value};
use unstarve_facts::IrqFacts;
use unstarve_model::CpuSet;

use super::Rule;
use crate::case::{AuditInput, common, cpus, use_of_cpu, without};
use crate::hit::{Draft, Fix, FixNotes, Hit, Severity};

pub(super) const RULE: Rule = Rule {
    id: "interrupt-on-pinned-cpu",
    title: "Interrupts reach CPUs to which tasks are pinned, or irqbalance may move them there",
    about: "Who pins a task wants the CPU for it; an interrupt there takes it away for the handler and its softirq, and the pinned \
            task delays the interrupt's second half. irqbalance knows isolated CPUs but no affinities of tasks.",
    source: "Documentation/core-api/irq/irq-affinity.rst; irqbalance(1), IRQBALANCE_BANNED_CPULIST; case A: Nutanix, 2021",
    check,
    upgrade: None,
};

/// Interrupts a second that disturb a pinned task.
const NOTICED: f64 = 100.0;
/// A fair task that uses less of a CPU was pinned for another purpose.
const BUSY: f64 = 0.25;

fn check(case: &AuditInput<'_>) -> Vec<Hit> {
    let pinned = pinned(case);
    if pinned.is_empty() {
        return Vec::new();
    }
    reached(case, &pinned).into_iter().chain(balanced(case, &pinned)).collect()
}

/// CPUs with pinned busy or real-time tasks → an example. A task counts as pinned if it may use at most half of the
/// CPUs.
fn pinned(case: &AuditInput<'_>) -> BTreeMap<u32, String> {
    let narrow = |allowed: &CpuSet| allowed.len() * 2 <= case.online.len();
    let mut found = BTreeMap::new();
    for group in case.real_time.iter().filter(|group| group.severity() > Severity::Info) {
        let Some(allowed) = group.allowed.filter(|allowed| narrow(allowed)) else { continue };
        for cpu in allowed.iter() {
            found.entry(cpu.0).or_insert_with(|| group.title());
        }
    }
    for task in case.snapshot.tasks.iter().filter(|task| !task.kernel_thread) {
        let Some(allowed) = task.allowed.as_ref().filter(|allowed| narrow(allowed)) else { continue };
        if use_of_cpu(case.snapshot, task).is_some_and(|part| part >= BUSY) {
            for cpu in allowed.iter() {
                found.entry(cpu.0).or_insert_with(|| task.comm.clone());
            }
        }
    }
    let isolated = case.snapshot.cpus.isolated.iter().flat_map(CpuSet::iter);
    for cpu in isolated {
        found.entry(cpu.0).or_insert_with(|| "isolated".to_owned());
    }
    found
}

fn set(pinned: &BTreeMap<u32, String>) -> CpuSet {
    pinned.keys().map(|&cpu| unstarve_model::CpuId(cpu)).collect()
}

fn reached(case: &AuditInput<'_>, pinned: &BTreeMap<u32, String>) -> Option<Hit> {
    let seconds = case.snapshot.uptime_ticks.filter(|&ticks| ticks >= 100)? as f64 / 100.0;
    let rates = case.snapshot.irqs.iter().flat_map(|irq| {
        let counts = irq.per_cpu.iter().flatten();
        counts.map(move |(&cpu, &count)| (irq, cpu, count as f64 / seconds))
    });
    let still_there = |irq: &IrqFacts, cpu: u32| {
        irq.affinity.as_ref().is_none_or(|affinity| affinity.contains(unstarve_model::CpuId(cpu)))
    };
    let mut worst: Vec<(&IrqFacts, u32, f64)> = rates
        // A disk's queue belongs to the submitting CPU: this is intended.
        .filter(|(irq, ..)| !irq.devices.iter().any(|device| device.starts_with("block/")))
        .filter(|(irq, cpu, rate)| *rate >= NOTICED && pinned.contains_key(cpu) && still_there(irq, *cpu))
        .collect();
    worst.sort_by(|a, b| b.2.total_cmp(&a.2));
    let &(irq, cpu, _) = worst.first()?;
    let evidence = worst.iter().take(4).map(|(irq, cpu, rate)| {
        format!(
            "interrupt {} ({}) came {} times a second to CPU {cpu}, to which {} is pinned",
            irq.irq,
            irq.handlers.join(", "),
            crate::case::grouped(rate.round() as u64),
            pinned[cpu]
        )
    });
    Some(
        Draft::new(RULE.id, Severity::Warning, format!("interrupts on CPU {cpu}"))
            .says(format!("{} CPUs to which tasks are pinned.", match worst.len() {
                1 => "A busy interrupt reaches".to_owned(),
                count => format!("{count} busy interrupts reach"),
            }))
            .brief(format!("{} beside pinned tasks", crate::case::counted(worst.len() as u64, "busy interrupt")))
            .because_of(evidence)
            .would("The pinned task loses the CPU for every handler and its softirq, and what softirqs leave to ksoftirqd waits for it.")
            .fix(move_interrupt(case, irq, &set(pinned)))
            .done(),
    )
}

fn move_interrupt(case: &AuditInput<'_>, irq: &IrqFacts, pinned: &CpuSet) -> Option<Fix> {
    let others = without(&case.online, pinned);
    let old = irq.affinity.as_ref().filter(|_| !others.is_empty())?;
    Fix::of(
        FixNotes {
            text: &format!("Serve it on {}.", cpus(&others)),
            risk: "Some devices manage the affinity themselves and refuse (NVMe queues); irqbalance may move it back.",
            valid_on: "all kernels",
        },
        vec![Change::of_interrupt(irq.irq, &others, irq.handlers.clone()).from(Value::content(old))],
    )
}

/// irqbalance avoids isolated and nohz_full CPUs by itself, and CPUs in its configuration.
fn balanced(case: &AuditInput<'_>, pinned: &BTreeMap<u32, String>) -> Option<Hit> {
    if case.runs("irqbalance") != Some(true) {
        return None;
    }
    let known: CpuSet = [&case.snapshot.cpus.isolated, &case.snapshot.cpus.nohz_full]
        .into_iter()
        .flatten()
        .flat_map(CpuSet::iter)
        .collect();
    let open = common(&without(&set(pinned), &known), &case.online);
    let first = open.iter().next()?;
    Some(
        Draft::new(RULE.id, Severity::Info, "irqbalance")
            .says(format!("irqbalance runs and may move interrupts to {}, to which tasks are pinned.", cpus(&open)))
            .brief(format!("may move interrupts to {}, to which tasks are pinned", cpus(&open)))
            .because(format!("{} is pinned to CPU {first}", pinned[&first.0]))
            .because("irqbalance spares isolated CPUs by itself; these are not")
            .would("An interrupt that served its CPU well today may land beside a pinned or real-time task tomorrow.")
            .fix(Fix::advice(FixNotes {
                text: &format!(
                    "Let irqbalance spare them: write IRQBALANCE_BANNED_CPULIST={open} into /etc/default/irqbalance and restart it."
                ),
                risk: "The other CPUs serve all interrupts. The file is /etc/sysconfig/irqbalance on Red Hat and its relatives.",
                valid_on: "irqbalance 1.8 and later; before, IRQBALANCE_BANNED_CPUS with a mask",
            }))
            .done(),
    )
}
