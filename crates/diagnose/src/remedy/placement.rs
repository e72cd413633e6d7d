//! Remedies that move tasks, interrupts or packets to other CPUs, or change how the load balancer moves tasks.

use rustc_hash::FxHashSet;
use unstarve_change::{Change, Target, Value};
use unstarve_model::{CpuId, CpuSet, Tid};
use unstarve_sched::KernelThread;
use unstarve_timeline::{ActorId, ActorKind};

use super::threads::{Members, cpus_before, for_all, members};
use super::{Draft, advice, is_fixed, kind, rewrite, turn_off, where_valid};
use crate::case::Case;
use crate::claim::Actors;
use crate::report::Remedy;

/// CPUs on which these actors do not wait; `None` if there are none.
fn others(case: &Case<'_>, actors: &[ActorId]) -> Option<CpuSet> {
    let accounts: Vec<_> = actors.iter().filter_map(|id| case.ledger.account(*id)).collect();
    let taken = |cpu: &CpuId| accounts.iter().any(|account| account.cpus.contains(*cpu));
    let free: CpuSet = (0..case.world.cpus).map(CpuId).filter(|cpu| !taken(cpu) && !isolated(case, *cpu)).collect();
    (!free.is_empty()).then_some(free)
}

/// [`others`] without CPUs on which the moved task would only starve other tasks: those to which a program of the recording is
/// bound, and the last CPU that is not isolated.
fn room_for(case: &Case<'_>, comer: &[ActorId], victims: &[ActorId]) -> Option<CpuSet> {
    let free = others(case, victims)?;
    let shared = (0..case.world.cpus).map(CpuId).filter(|cpu| !isolated(case, *cpu)).count();
    if shared == 1 && (case.world.cpus as usize) > shared {
        return None;
    }
    let comers: FxHashSet<Tid> = comer.iter().flat_map(|id| case.actor(*id).tids.iter().copied()).collect();
    let bound = case.snapshot.map(|snapshot| -> CpuSet {
        let programs = case
            .world
            .actors
            .iter()
            .filter(|(id, actor)| actor.comm().is_some() && !case.is_kernel_thread(*id) && !case.is_observer(*id));
        let tids = programs.flat_map(|(_, actor)| &actor.tids).filter(|tid| !comers.contains(tid));
        tids.filter_map(|tid| snapshot.allowed_cpus(*tid).filter(|cpus| cpus.len() == 1)?.last()).collect()
    });
    let bound = bound.unwrap_or_default();
    let room: CpuSet =
        (0..case.world.cpus).map(CpuId).filter(|cpu| free.contains(*cpu) && !bound.contains(*cpu)).collect();
    (!room.is_empty()).then_some(room)
}

/// Whether the CPU was isolated at boot: then nothing should be moved there.
fn isolated(case: &Case<'_>, cpu: CpuId) -> bool {
    case.snapshot.and_then(|snapshot| snapshot.cpus.isolated.as_ref()).is_some_and(|cpus| cpus.contains(cpu))
}

/// Whether the victim waited only on isolated CPUs.
pub(super) fn is_isolated(case: &Case<'_>, victim: ActorId) -> bool {
    let Some(account) = case.ledger.account(victim) else { return false };
    let mut used = (0..case.world.cpus).map(CpuId).filter(|cpu| account.cpus.contains(*cpu)).peekable();
    used.peek().is_some() && used.all(|cpu| isolated(case, cpu))
}

/// Whether its tasks cannot leave the CPUs on which they waited: bound kernel threads and pinned programs.
fn cannot_leave(case: &Case<'_>, victim: ActorId) -> bool {
    if case.actor(victim).kernel_thread.is_some_and(|thread| thread.bound_cpu().is_some()) {
        return true;
    }
    let allowed = case.snapshot.zip(case.first_tid(victim)).and_then(|(snapshot, tid)| snapshot.allowed_cpus(tid));
    let Some((account, allowed)) = case.ledger.account(victim).zip(allowed) else { return false };
    (0..case.world.cpus).map(CpuId).all(|cpu| !allowed.contains(cpu) || account.cpus.contains(cpu))
}

/// Binds each thread of the actors to these CPUs.
fn onto(case: &Case<'_>, actors: &[ActorId], cpus: CpuSet) -> Option<Vec<Change>> {
    for_all(case, actors, &Value::Affinity(cpus), |_, tid| cpus_before(case, tid))
}

/// Whether all its threads were bound to some of these CPUs in the snapshot, and it ran elsewhere anyway: it sets its own
/// affinity, and would do so again.
fn moves_itself(case: &Case<'_>, intruder: ActorId, free: &CpuSet) -> bool {
    let Some(snapshot) = case.snapshot else { return false };
    let is_on_free = |tid: &Tid| {
        snapshot.allowed_cpus(*tid).is_some_and(|allowed| {
            let mut its = (0..case.world.cpus).map(CpuId).filter(|cpu| allowed.contains(*cpu)).peekable();
            its.peek().is_some() && its.all(|cpu| free.contains(cpu))
        })
    };
    let tids = &case.actor(intruder).tids;
    !tids.is_empty() && tids.iter().all(is_on_free)
}

/// Moves the intruder to CPUs on which the victims do not run.
pub(super) fn move_off(case: &Case<'_>, intruder: &[ActorId], victims: &[ActorId]) -> Option<Remedy> {
    // This helps permanently only if the victim cannot leave its CPU; otherwise the two may meet again on another CPU.
    let bound = victims.iter().any(|id| cannot_leave(case, *id));
    let free = room_for(case, intruder, victims).filter(|_| bound)?;
    let is_movable = |id: &ActorId| !is_fixed(case, *id) && !moves_itself(case, *id, &free);
    let movable: Vec<ActorId> = intruder.iter().copied().filter(is_movable).collect();
    movable.first()?;
    Some(
        Draft {
            id: kind::MOVE_INTRUDER,
            text: format!(
                "Keep {} off the CPU that {} cannot leave.",
                Actors::of(case, movable.iter().copied()),
                case.name(*victims.first()?)
            ),
            changes: onto(case, &movable, free)?,
            risk: "Its new CPUs get its load. New processes of the same service start where they like unless the service \
                   itself is pinned (systemd: CPUAffinity=).",
            valid_on: "all kernels".into(),
        }
        .done(),
    )
}

/// Moves the occupant that keeps the CPU away from the victim.
pub(super) fn move_occupant(case: &Case<'_>, occupant: ActorId, victim: ActorId) -> Option<Remedy> {
    if is_fixed(case, occupant) || case.is_kernel_thread(occupant) {
        return None;
    }
    let free = room_for(case, &[occupant], &[victim]).filter(|free| !moves_itself(case, occupant, free))?;
    Some(
        Draft {
            id: kind::MOVE_OCCUPANT,
            text: format!("Keep {} off the CPUs on which {} waits.", case.name(occupant), case.name(victim)),
            changes: onto(case, &[occupant], free)?,
            risk: "Its new CPUs get its load. Threads there wait for it.",
            valid_on: "all kernels".into(),
        }
        .done(),
    )
}

/// Moves the real-time program away from the task that is not preempted.
pub(super) fn move_victim_from(case: &Case<'_>, victim: ActorId, occupant: ActorId) -> Option<Remedy> {
    if is_fixed(case, victim) || case.is_kernel_thread(victim) {
        return None;
    }
    let free = room_for(case, &[victim], &[occupant])?;
    Some(
        Draft {
            id: kind::MOVE_VICTIM,
            text: format!("Run {} on CPUs that {} does not use.", case.name(victim), case.name(occupant)),
            changes: onto(case, &[victim], free)?,
            risk: "It has fewer CPUs. Threads there wait for it.",
            valid_on: "all kernels".into(),
        }
        .done(),
    )
}

/// Moves the victim.
pub(super) fn move_victim(case: &Case<'_>, victim: ActorId) -> Option<Remedy> {
    if is_fixed(case, victim) {
        return None;
    }
    let free = others(case, &[victim])?;
    Some(
        Draft {
            id: kind::MOVE_VICTIM,
            text: format!("Keep {} on CPUs where these interrupts are not served.", case.name(victim)),
            changes: onto(case, &[victim], free)?,
            risk: "It has fewer CPUs, and finds its data in another CPU's cache.",
            valid_on: "all kernels".into(),
        }
        .done(),
    )
}

/// Moves the interrupt.
pub(super) fn move_interrupts(case: &Case<'_>, victim: ActorId, sources: &[ActorId]) -> Option<Remedy> {
    let (irq, name) = sources.iter().find_map(|id| match case.actor(*id).kind {
        ActorKind::Irq { irq, name } => Some((irq, name)),
        _ => None,
    })?;
    let free = others(case, &[victim])?;
    let known = case.snapshot.and_then(|snapshot| snapshot.irq(irq));
    let old = known.and_then(|known| known.affinity.as_ref()).map(Value::content);
    // The trace has the name of one handler, `/proc` a directory for each. A directory's name contains no slash.
    let traced = || name.map(|name| case.world.names.get(name).to_string()).filter(|name| !name.contains('/'));
    let handlers: Vec<String> = match known {
        Some(known) => known.handlers.clone(),
        None => traced().into_iter().collect(),
    };
    Some(
        Draft {
            id: kind::MOVE_INTERRUPT,
            text: format!("Serve interrupt {irq} on other CPUs than those that {} uses.", case.name(victim)),
            changes: vec![Change::of_interrupt(irq, &free, handlers).from(old)],
            risk: "irqbalance moves it back without --banirq; per-queue interrupts of NVMe are managed \
                   by the kernel and refuse (EIO).",
            valid_on: "all kernels".into(),
        }
        .done(),
    )
}

const NAPI_TEXT: &str = "Move the packet work of a network device into threads (napi/IF-N): they have a policy and an \
                         affinity like other tasks and do not hold up other softirqs. /sys/class/net/IF/threaded of the \
                         busy device (eth0) takes 1, and 0 to go back.";

/// Processes packets without ksoftirqd, if it is the victim.
pub(super) fn threaded_napi(case: &Case<'_>, victims: &[ActorId]) -> Option<Remedy> {
    let is_ksoftirqd = |id: &ActorId| matches!(case.actor(*id).kernel_thread, Some(KernelThread::Ksoftirqd { .. }));
    victims.first().filter(|id| is_ksoftirqd(id))?;
    napi(case)
}

/// Processes packets outside of the softirq, if it is the culprit.
pub(super) fn threaded_napi_against_softirq(case: &Case<'_>, sources: &[ActorId]) -> Option<Remedy> {
    const NET_RX: u8 = 3;
    sources.iter().find(|id| matches!(case.actor(**id).kind, ActorKind::Softirq { vec: NET_RX }))?;
    napi(case)
}

/// Packets over loopback and veth also pass RPS (`netif_rx`).
pub(super) fn deliver_elsewhere(case: &Case<'_>, victim: ActorId) -> Option<Remedy> {
    others(case, &[victim])?;
    Some(
        Draft {
            id: kind::DELIVER_ELSEWHERE,
            text: "Let other CPUs deliver these packets: rps_cpus of the receive queue of the device over which the programs of this \
                   host send to each other (/sys/class/net/lo/queues/rx-0/rps_cpus for loopback) takes a mask of CPUs, and 0 to \
                   go back."
                .into(),
            changes: advice(),
            risk: "Each delivery costs an interrupt between CPUs, and the receiver may find its data in another CPU's cache.",
            valid_on: "all kernels with CONFIG_RPS".into(),
        }
        .done(),
    )
}

fn napi(case: &Case<'_>) -> Option<Remedy> {
    let valid_on =
        where_valid(case, case.facts.threaded_napi(), "kernels from 5.12 on, drivers that use NAPI (not lo)")?;
    Some(
        Draft {
            id: kind::THREADED_NAPI,
            text: NAPI_TEXT.into(),
            // No event shows which device is busy.
            changes: advice(),
            risk: "The threads are fair tasks and have to be raised (chrt) to go before a real-time task; some throughput.",
            valid_on,
        }
        .done(),
    )
}

/// Writes `sched_migration_cost_ns` in /proc/sys/kernel, or its successor in debugfs.
fn migration_cost(case: &Case<'_>, to: &str) -> Vec<Change> {
    let known = case.snapshot.and_then(|snapshot| {
        snapshot.setting("migration_cost_ns").or_else(|| snapshot.setting("sched_migration_cost_ns"))
    });
    if let Some((path, value)) = known {
        return rewrite(path, to, Some(value));
    }
    let moved = case.facts.version().is_none_or(|version| version.is_at_least(5, 13));
    let path =
        if moved { "/sys/kernel/debug/sched/migration_cost_ns" } else { "/proc/sys/kernel/sched_migration_cost_ns" };
    rewrite(path, to, None)
}

const MIGRATION_COST_VALID: &str = "5.13 and later in debugfs, before that sysctl kernel.sched_migration_cost_ns";

/// Makes idle CPUs look for work sooner.
pub(super) fn balance_sooner(case: &Case<'_>) -> Option<Remedy> {
    Some(
        Draft {
            id: kind::LOWER_MIGRATION_COST,
            text:
                "Lower the migration cost: a CPU that goes idle looks for waiting tasks only if it expects to be idle for longer than \
                   that. Some tuning profiles set it to 5 or 50 ms."
                    .into(),
            changes: migration_cost(case, "100000"),
            risk: "More moves between CPUs, colder caches, on the whole machine.",
            valid_on: MIGRATION_COST_VALID.into(),
        }
        .done(),
    )
}

/// Raises the estimated cost of a migration.
pub(super) fn balance_later(case: &Case<'_>) -> Option<Remedy> {
    Some(
        Draft {
            id: kind::RAISE_MIGRATION_COST,
            text: "Let the balancer leave tasks alone that ran within the last 5 ms.".into(),
            changes: migration_cost(case, "5000000"),
            risk: "Tasks may wait longer beside an idle CPU, on the whole machine.",
            valid_on: MIGRATION_COST_VALID.into(),
        }
        .done(),
    )
}

/// At a wakeup, the search for an idle CPU stops early on busy caches (SIS_UTIL, 6.0 and later).
pub(super) fn scan_wider(case: &Case<'_>) -> Option<Remedy> {
    let known = case.snapshot.and_then(|snapshot| snapshot.feature("SIS_UTIL"));
    let version = case.facts.version();
    if known == Some(false) || version.is_some_and(|version| !version.is_at_least(6, 0)) || case.world.cpus < 8 {
        return None;
    }
    Some(
        Draft {
            id: kind::NO_SIS_UTIL,
            text:
                "Let a wakeup look at all CPUs of its cache for an idle one; busy pinned tasks make it give up early."
                    .into(),
            changes: vec![turn_off("SIS_UTIL", known)],
            risk: "Wakeups cost more on machines with many CPUs for each cache.",
            valid_on: "6.0 and later, debugfs writable".into(),
        }
        .done(),
    )
}

/// Pins each thread to one of its CPUs by hand, to find out whether placement is the cause.
pub(super) fn spread_by_hand(case: &Case<'_>, victim: ActorId) -> Option<Remedy> {
    if is_fixed(case, victim) || case.world.cpus < 2 {
        return None;
    }
    let first = case.first_tid(victim)?;
    let allowed = case.snapshot.and_then(|snapshot| snapshot.allowed_cpus(first));
    let mut cpus: Vec<CpuId> =
        (0..case.world.cpus).map(CpuId).filter(|cpu| allowed.is_none_or(|allowed| allowed.contains(*cpu))).collect();
    // Prefer CPUs on which it has not waited.
    let crowded = |cpu: &CpuId| case.ledger.account(victim).is_some_and(|account| account.cpus.contains(*cpu));
    cpus.sort_by_key(|cpu| (crowded(cpu), std::cmp::Reverse(*cpu)));
    if cpus.len() < 2 {
        return None;
    }
    // One CPU per thread. If not all threads were kept, only some could be pinned.
    let Members::All(threads) = members(case, &[victim]) else { return None };
    let pins = threads.into_iter().zip(cpus.iter().cycle()).map(|((_, thread), cpu)| {
        let was = cpus_before(case, thread.tid);
        Change::of(Target::Thread(thread), Value::Affinity([*cpu].into_iter().collect())).from(was)
    });
    let changes: Vec<Change> = pins.collect();
    if changes.is_empty() {
        return None;
    }
    Some(
        Draft {
            id: kind::PIN,
            text: format!(
                "Give {} a CPU of its own, to see whether placement is all that is wrong.",
                case.name(victim)
            ),
            changes,
            risk: "Pinned, it waits even where another CPU is idle.",
            valid_on: "all kernels".into(),
        }
        .done(),
    )
}
