//! Rule `rt-above-irq-thread`: real-time programs at or above the priority of threaded interrupt handlers of their CPUs.

use std::collections::BTreeMap;

use unstarve_change::{Change, Value};
use unstarve_facts::TaskFacts;
use unstarve_model::CpuSet;
use unstarve_sched::KernelThread;

use super::Rule;
use super::rt_on_interrupt_cpu::limit;
use crate::case::{AuditInput, common, counted, cpus, is_above_fair};
use crate::fix;
use crate::hit::{Draft, Fix, FixNotes, Hit};
use crate::real_time::RtGroup;

pub(super) const RULE: Rule = Rule {
    id: "rt-above-irq-thread",
    title: "Real-time programs run ahead of interrupt, timer or RCU threads of their CPUs",
    about: "With PREEMPT_RT, with threadirqs and for drivers that ask for it, interrupts are handled in threads of FIFO 50, timer \
            softirqs in ktimers and RCU callbacks in rcuc of FIFO 1. A program of that priority or above that does not sleep keeps \
            devices, timers and memory reclaim of its CPU waiting, also those that it waits for itself.",
    source: "sched_set_fifo() in kernel/irq/manage.c, run_ktimerd() in kernel/softirq.c, rcutree.kthread_prio in \
             kernel/rcu/tree.c; Documentation/core-api/real-time/theory.rst; data/kthreads.tsv",
    check,
    upgrade: None,
};

fn check(case: &AuditInput<'_>) -> Vec<Hit> {
    let threads: Vec<&TaskFacts> = case.kernel_threads().filter(|task| serves(task)).collect();
    if threads.is_empty() {
        return Vec::new();
    }
    super::quiet_together(
        &RULE,
        "run ahead of interrupt or timer threads",
        case.real_time.iter().filter_map(|group| hit(case, group, &threads)),
    )
}

/// Whether others wait for what this kernel thread does, and it is real-time so that they need not: threads of interrupts, timers
/// and RCU callbacks. Those of normal priority are what `rt-on-interrupt-cpu` is about.
fn serves(task: &TaskFacts) -> bool {
    let is_kind = matches!(
        KernelThread::of(&task.comm.as_str().into()),
        Some(KernelThread::IrqThread | KernelThread::Ktimers | KernelThread::Ksoftirqd { .. })
    );
    is_above_fair(task.policy) && (is_kind || task.comm.starts_with("rcuc/"))
}

fn hit(case: &AuditInput<'_>, group: &RtGroup<'_>, threads: &[&TaskFacts]) -> Option<Hit> {
    let allowed = group.allowed?;
    let meets = |task: &&&TaskFacts| task.allowed.as_ref().is_some_and(|its| !common(its, allowed).is_empty());
    let below: Vec<&TaskFacts> = threads.iter().filter(meets).filter(|task| group.is_above(task)).copied().collect();
    let first = below.first()?;
    let on: CpuSet = below
        .iter()
        .filter_map(|task| task.allowed.as_ref())
        .flat_map(|its| common(its, allowed).iter().collect::<Vec<_>>())
        .collect();
    let title = |task: &TaskFacts| format!("{} ({} {})", task.comm, task.policy.word(), task.rt_priority);
    let more = below.len() - 1;
    let others = if more > 0 { format!(" and {}", counted(more as u64, "more such thread")) } else { String::new() };
    Some(
        Draft::new(RULE.id, group.severity(), group.subject())
            .says(format!("{} may run on {} ahead of {}{others}.", group.named(), cpus(&on), title(first)))
            .brief(format!("ahead of {}{others}", first.comm))
            .because(format!("its affinity is {allowed}"))
            .because_of(group.evidence_of_use())
            .because_of(below.iter().take(4).map(|task| {
                let its = task.allowed.as_ref().map(ToString::to_string).unwrap_or_default();
                format!("{} runs on {its}", title(task))
            }))
            .would(format!(
                "While {} runs, these threads wait: interrupts of their devices are not handled, timers do not fire, memory is not \
                 freed. {}",
                group.name,
                limit(case)
            ))
            .fix(fix::keep_off(case, group, &on))
            .fix(raise(case, group, &below))
            .fix(lower(group, &below))
            .done(),
    )
}

/// Each thread above every busy real-time program of its CPUs.
fn raise(case: &AuditInput<'_>, group: &RtGroup<'_>, below: &[&TaskFacts]) -> Option<Fix> {
    let mut raised: BTreeMap<u32, Vec<Change>> = BTreeMap::new();
    for task in below {
        let priority = case.priority_above(group, task.allowed.as_ref()?)?;
        let was = Value::Class { policy: task.policy, rt_priority: task.rt_priority, slice: None };
        raised.entry(priority).or_default().push(Change::of(fix::thread(task), fix::fifo(priority)).from(was));
    }
    Fix::of(
        FixNotes {
            text: "Let these threads run ahead of it, and of every other busy real-time program there.",
            risk: "A device that interrupts without end then holds the CPU ahead of it. Interrupt threads are created anew when a \
                   driver requests the interrupt: rtirq or a tuned profile can set them each time.",
            valid_on: "all kernels",
        },
        raised.into_values().flatten().collect(),
    )
}

fn lower(group: &RtGroup<'_>, below: &[&TaskFacts]) -> Option<Fix> {
    let lowest = below.iter().map(|task| task.rt_priority).min().filter(|&lowest| lowest > 1)?;
    Some(Fix::advice(FixNotes {
        text: &format!(
            "Or run {} below {lowest}: a program that waits for devices is served no later behind their interrupts.",
            group.name
        ),
        risk: "Interrupts then delay it: measure its latency (cyclictest).",
        valid_on: "all kernels",
    }))
}
