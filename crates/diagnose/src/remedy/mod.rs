//! What to do about a finding: exact commands with their undo, least invasive first.
//!
//! Commands name threads by number and groups by the path from the snapshot; names that a task chose for itself never
//! get into a command line. What this kernel does not have is not offered; where the kernel is unknown, `valid_on` says
//! the condition. `taskset` is never offered for a bound kernel worker: the kernel refuses it.

mod class_limit;
mod group;
mod kernel;
mod kind;
mod placement;
mod pool;
mod preemption;
mod priority;

use unstarve_facts::{Holds, TaskFacts};
use unstarve_model::{KernelThread, Policy, SchedPolicy, Tid};
use unstarve_timeline::{ActorId, Ancestor};

use crate::case::Case;
use crate::report::Remedy;

pub(crate) use class_limit::ClassLimit;
pub(crate) use group::read_weight_command;
pub use kind::{REMEDIES, RemedyKind};

/// Against real-time tasks that keep others off the CPU. `creator` starts them, one after the other: then commands that
/// name them come too late.
pub(crate) fn against_rt(
    case: &Case<'_>,
    victims: &[ActorId],
    intruder: &[ActorId],
    creator: Option<Ancestor>,
) -> Vec<Remedy> {
    let mut remedies = Vec::new();
    if let Some(creator) = creator {
        remedies.push(priority::at_creator(case, creator));
    } else {
        remedies.extend(placement::move_off(case, intruder, victims));
        remedies.extend(priority::stop_inheriting(case, intruder));
        remedies.extend(priority::make_fair(case, intruder));
        remedies.extend(class_limit::less_runtime(case, intruder));
    }
    remedies.extend(priority::above(case, victims, intruder));
    remedies.extend(placement::threaded_napi(case, victims));
    remedies.extend(priority::limit_class(case, victims, intruder));
    remedies
}

/// Against a worker and its consumer taking turns for each item.
pub(crate) fn against_ping_pong(case: &Case<'_>, worker: ActorId, consumer: ActorId) -> Vec<Remedy> {
    let mut remedies = Vec::new();
    remedies.extend(group::even_weights(case, worker, consumer));
    remedies.extend(preemption::batch(case, &[consumer]));
    remedies.extend(priority::raise_above_group(case, worker, consumer));
    remedies.extend(priority::real_time_worker(case, worker));
    remedies.extend(preemption::rarer(case));
    remedies.extend(preemption::none(case));
    remedies.extend(kernel::inline_completion(case, worker));
    remedies
}

/// Against a heavier task or group.
pub(crate) fn against_weight(case: &Case<'_>, victim: ActorId, occupant: ActorId) -> Vec<Remedy> {
    let mut remedies = Vec::new();
    remedies.extend(group::even_weights(case, victim, occupant));
    remedies.extend(priority::back_to_normal(case, occupant));
    remedies.extend(priority::raise_above_group(case, victim, occupant));
    if case.is_kernel_worker(victim) {
        remedies.extend(priority::real_time_worker(case, victim));
        remedies.extend(kernel::reweight_bug(case));
        remedies.extend(kernel::inline_completion(case, victim));
    }
    remedies
}

/// Against a crowd of woken threads.
pub(crate) fn against_storm(case: &Case<'_>, crowd: ActorId, hurt: Option<ActorId>) -> Vec<Remedy> {
    let mut remedies = Vec::new();
    remedies.extend(hurt.and_then(|bystander| pool::raise_bystander(case, bystander)));
    remedies.extend(pool::fewer_threads(case, crowd));
    remedies.extend(pool::gate(case, crowd));
    remedies.extend(kernel::one_wakeup_at_a_time(case, crowd));
    remedies
}

/// Against short wakeups that push CPU-bound tasks off.
pub(crate) fn against_thrash(case: &Case<'_>, preemptors: &[ActorId]) -> Vec<Remedy> {
    let mut remedies = Vec::new();
    remedies.extend(preemption::batch(case, preemptors));
    remedies.extend(preemption::rarer(case));
    remedies.extend(preemption::none(case));
    remedies
}

/// Against interrupts that take a task's CPU.
pub(crate) fn against_interrupts(case: &Case<'_>, victim: ActorId, sources: &[ActorId]) -> Vec<Remedy> {
    let mut remedies = Vec::new();
    remedies.extend(placement::move_interrupts(case, victim, sources));
    remedies.extend(placement::move_victim(case, victim));
    remedies.extend(placement::threaded_napi_against_softirq(case, sources));
    remedies
}

/// Against a balancer that leaves tasks waiting beside an idle CPU.
pub(crate) fn against_idle(case: &Case<'_>, victim: ActorId) -> Vec<Remedy> {
    let mut remedies = Vec::new();
    // Isolated CPUs belong to no domain: neither the balancer nor a wakeup's search ever looks at them.
    if !placement::is_isolated(case, victim) {
        remedies.extend(placement::balance_sooner(case));
        remedies.extend(placement::scan_wider(case));
        remedies.extend(kernel::newidle_regression(case));
    }
    remedies.extend(placement::spread_by_hand(case, victim));
    remedies
}

/// Against endless moves.
pub(crate) fn against_churn(case: &Case<'_>, victim: ActorId) -> Vec<Remedy> {
    let mut remedies = Vec::new();
    remedies.extend(placement::balance_later(case));
    remedies.extend(placement::spread_by_hand(case, victim));
    remedies
}

/// Against a cgroup's bandwidth limit.
pub(crate) fn against_limit(case: &Case<'_>, path: &str) -> Vec<Remedy> {
    group::raise_limit(case, path).into_iter().collect()
}

/// Against one that nobody recorded.
pub(crate) fn against_unknown_limit(case: &Case<'_>, victim: ActorId) -> Vec<Remedy> {
    group::read_limit(case, victim).into_iter().collect()
}

/// Against the kernel's limit on real-time tasks: throttling, or the fair server.
pub(crate) fn against_class_limit(case: &Case<'_>, victim: ActorId, kind: ClassLimit) -> Vec<Remedy> {
    let mut remedies = vec![class_limit::leave_room(case, victim)];
    remedies.extend(class_limit::lift(case, victim, kind));
    remedies
}

/// Against a deadline task's own runtime.
pub(crate) fn against_deadline_limit(case: &Case<'_>, victim: ActorId) -> Vec<Remedy> {
    class_limit::more_runtime(case, victim).into_iter().collect()
}

/// A remedy in the making.
struct Draft {
    id: RemedyKind,
    text: String,
    apply: String,
    undo: String,
    risk: &'static str,
    valid_on: String,
}

impl Draft {
    fn done(self) -> Remedy {
        let Draft { id, text, apply, undo, risk, valid_on } = self;
        Remedy {
            id: id.id.into(),
            text,
            apply,
            undo,
            risk: risk.into(),
            valid_on,
            changes: Vec::new(),
            proved: Vec::new(),
        }
    }
}

/// Threads named in one command line; beyond it the process, or the reader's own list, has to do.
const THREADS: usize = 16;

/// Runs `command` for each thread of the actors, `$t` being its id.
fn for_threads(case: &Case<'_>, actors: &[ActorId], command: &str) -> Option<String> {
    let mut tids: Vec<Tid> = actors.iter().flat_map(|id| case.actor(*id).tids.iter().copied()).collect();
    tids.sort_unstable();
    tids.dedup();
    for_tids(case, &tids, command)
}

fn for_tids(case: &Case<'_>, tids: &[Tid], command: &str) -> Option<String> {
    match (tids, one_process(case, tids)) {
        ([], _) => None,
        ([tid], _) => Some(command.replace("$t", &tid.to_string())),
        (many, Some(process)) if many.len() > THREADS => {
            Some(format!("for t in $(ls /proc/{process}/task); do {command}; done"))
        }
        (many, _) => {
            let list: Vec<String> = many.iter().take(THREADS).map(Tid::to_string).collect();
            let more =
                if many.len() > THREADS { format!(" # and {} more", many.len() - THREADS) } else { String::new() };
            Some(format!("for t in {}; do {command}; done{more}", list.join(" ")))
        }
    }
}

/// Gives each thread back what it had: threads may have had different things, and then each gets its own.
fn give_back(case: &Case<'_>, actors: &[ActorId], command: impl Fn(ActorId, Tid) -> String) -> Option<String> {
    let mut threads: Vec<(Tid, ActorId)> =
        actors.iter().flat_map(|id| case.actor(*id).tids.iter().map(|tid| (*tid, *id))).collect();
    threads.sort_unstable();
    threads.dedup_by_key(|(tid, _)| *tid);
    let mut groups: Vec<(String, Vec<Tid>)> = Vec::new();
    for (tid, actor) in threads {
        let command = command(actor, tid);
        match groups.iter_mut().find(|(other, _)| *other == command) {
            Some((_, tids)) => tids.push(tid),
            None => groups.push((command, vec![tid])),
        }
    }
    if let [(command, tids)] = &groups[..] {
        return for_tids(case, tids, command);
    }
    // Listed in full: a shorter list would end in a comment, and swallow what comes after it.
    let each = groups.iter().map(|(command, tids)| match &tids[..] {
        [tid] => command.replace("$t", &tid.to_string()),
        many => {
            let list: Vec<String> = many.iter().map(Tid::to_string).collect();
            format!("for t in {}; do {command}; done", list.join(" "))
        }
    });
    (!groups.is_empty()).then(|| each.collect::<Vec<_>>().join("; "))
}

fn one_process(case: &Case<'_>, tids: &[Tid]) -> Option<Tid> {
    let snapshot = case.snapshot?;
    let process = |tid: &Tid| snapshot.task(*tid).map(|task| task.tgid.unwrap_or(task.tid));
    let first = process(tids.first()?)?;
    tids.iter().all(|tid| process(tid) == Some(first)).then_some(first)
}

/// `this kernel (6.1)` where the version is known, the condition otherwise; `None` if it does not hold.
fn where_valid(case: &Case<'_>, holds: Holds, condition: &str) -> Option<String> {
    match (holds, case.facts.version()) {
        (Holds::Yes, Some(version)) => Some(format!("{condition}; this kernel is {version}")),
        (Holds::Yes, None) => Some(condition.into()),
        (Holds::No, _) => None,
        (Holds::Depends(what), _) => Some(format!("{condition}; not known here: {what}")),
    }
}

/// A worker whose affinity is fixed by the kernel (`PF_NO_SETAFFINITY`).
fn is_fixed(case: &Case<'_>, actor: ActorId) -> bool {
    let by_name = matches!(
        case.actor(actor).kernel_thread,
        Some(
            KernelThread::BoundWorker { .. }
                | KernelThread::UnboundWorker
                | KernelThread::Rescuer
                | KernelThread::Ksoftirqd { .. }
                | KernelThread::Migration
                | KernelThread::Ktimers
        )
    );
    let told = case.snapshot.and_then(|snapshot| snapshot.task(case.first_tid(actor)?)).map(|task| task.affinity_fixed);
    told.unwrap_or(by_name) || by_name
}

/// `chrt`'s word for a policy.
fn chrt_word(policy: SchedPolicy) -> &'static str {
    match policy {
        SchedPolicy::Fifo => "--fifo",
        SchedPolicy::Rr => "--rr",
        SchedPolicy::Batch => "--batch",
        SchedPolicy::Idle => "--idle",
        SchedPolicy::Deadline => "--deadline",
        SchedPolicy::Ext => "--ext",
        SchedPolicy::Other | SchedPolicy::Unknown => "--other",
    }
}

/// A thread in the snapshot, if what it is there is what it is in the trace: of that class, and real-time with that priority.
fn known_as_traced<'a>(case: &Case<'a>, actor: ActorId, tid: Tid) -> Option<&'a TaskFacts> {
    let task = case.snapshot?.task(tid)?;
    let same = match rt_priority(case, actor) {
        Some(priority) => task.policy.class() == Some(Policy::Rt) && i64::from(task.rt_priority) == i64::from(priority),
        None => task.policy.class() == Some(Policy::Fair),
    };
    same.then_some(task)
}

/// What `chrt` has to be told so that a thread has the policy, the priority and the flag again that it has now.
fn chrt_arguments(case: &Case<'_>, actor: ActorId, tid: Tid) -> String {
    let priority = rt_priority(case, actor);
    let known = known_as_traced(case, actor, tid);
    let guess = if priority.is_some() { SchedPolicy::Rr } else { SchedPolicy::Other };
    let word = chrt_word(known.map_or(guess, |task| task.policy));
    // chrt takes the flag away from whom it is not named for.
    let flag = match known {
        Some(TaskFacts { reset_on_fork: Some(true), .. }) if priority.is_some() => "--reset-on-fork ",
        _ => "",
    };
    format!("{flag}{word} --pid {} $t", priority.unwrap_or(0))
}

/// What an undo has to say where a policy was not recorded: a trace shows priorities alone.
fn guessed(case: &Case<'_>, actors: &[ActorId]) -> &'static str {
    let mut threads = actors.iter().flat_map(|id| case.actor(*id).tids.iter().map(|tid| (*id, *tid)));
    match threads.find(|(actor, tid)| known_as_traced(case, *actor, *tid).is_none()) {
        None => "",
        Some((actor, _)) if rt_priority(case, actor).is_some() => "  # or --fifo: ask chrt -p before",
        Some(_) => "  # or --batch, --idle: ask chrt -p before",
    }
}

/// The real-time priority as `chrt` shows it, 1 to 99; `None` for other classes.
fn rt_priority(case: &Case<'_>, actor: ActorId) -> Option<i32> {
    let prio = case.actor(actor).prio()?;
    (prio.policy() == unstarve_model::Policy::Rt).then_some(99 - prio.0)
}

/// Takes a change of policy back.
fn undo_policy(case: &Case<'_>, actors: &[ActorId]) -> Option<String> {
    let command = give_back(case, actors, |actor, tid| format!("chrt {}", chrt_arguments(case, actor, tid)))?;
    Some(command + guessed(case, actors))
}
