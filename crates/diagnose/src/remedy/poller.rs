//! Remedies against programs that poll instead of sleeping, and against a BPF scheduler.

use unstarve_timeline::ActorId;

use super::{Draft, advice, kind};
use crate::case::Case;
use crate::report::Remedy;

/// Where a poller is the culprit: first its CPUs, as its product sets them, and no remedy that raises kernel workers alone. They are
/// born with nice 0, and timers, softirqs and RCU callbacks wait behind it, too.
pub(super) fn first(case: &Case<'_>, occupants: &[ActorId], others: Vec<Remedy>) -> Vec<Remedy> {
    let Some(occupant) = occupants.iter().copied().find(|id| case.poller(*id).is_some()) else { return others };
    let raises_workers =
        |remedy: &Remedy| [kind::WORKER_TO_RT, kind::RAISE_WORKER].iter().any(|kind| remedy.id.as_str() == kind.id);
    let own = move_off(case, occupant).into_iter().chain([isolate()]);
    own.chain(others.into_iter().filter(|remedy| !raises_workers(remedy))).collect()
}

fn move_off(case: &Case<'_>, occupant: ActorId) -> Option<Remedy> {
    let poller = case.poller(occupant)?;
    let draft = Draft {
        id: kind::MOVE_POLLER,
        text: format!("{} Its CPUs are set by {}.", poller.advice(), poller.set_by()),
        changes: advice(),
        risk: "Its new CPUs have work of the kernel, too, if less than CPUs 0 and 1.",
        valid_on: format!("threads that are a {}", poller.what()),
    };
    Some(draft.done())
}

fn isolate() -> Remedy {
    let draft = Draft {
        id: kind::ISOLATE_POLLER,
        text: "Isolate its CPUs: a cpuset partition (cpuset.cpus.partition isolated), or at boot isolcpus=managed_irq,domain,CPUS \
               nohz_full=CPUS rcu_nocbs=CPUS; keep interrupts (irqbalance: IRQBALANCE_BANNED_CPULIST) and unbound workqueues \
               (/sys/devices/virtual/workqueue/cpumask) off them."
            .into(),
        changes: advice(),
        risk: "Work that the poller causes by its own system calls still runs on its CPU. Raising kernel workers alone ends none of it.",
        valid_on: "partitions from 6.7 on, managed_irq from 5.6 on; not CPU 0".into(),
    };
    draft.done()
}

/// Where a BPF scheduler decides, remedies of the fair class change nothing.
pub(super) fn unless_bpf(case: &Case<'_>, of_fair_class: Vec<Remedy>) -> Vec<Remedy> {
    let Some(scheduler) = case.bpf_scheduler() else { return of_fair_class };
    let name = scheduler.name.map(|name| format!(" ({})", unstarve_model::clean(name))).unwrap_or_default();
    let draft = Draft {
        id: kind::BPF_SCHEDULER,
        text: format!(
            "Ask the BPF scheduler{name}: its options, its statistics, a newer version. Or unload it, and record again: stop its \
             service (often scx.service or scx_loader.service), or press SysRq-S; the fair class then schedules all its tasks."
        ),
        changes: advice(),
        risk: "Without it the host has the fair class's latencies and fairness.",
        valid_on: "6.12 and later with a loaded sched_ext scheduler (/sys/kernel/sched_ext/state)".into(),
    };
    vec![draft.done()]
}
