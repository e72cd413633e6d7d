//! Which threads a remedy changes, and their current values.

use rustc_hash::FxHashSet;
use unstarve_change::{Change, Selector, Target, Thread, Value};
use unstarve_facts::TaskFacts;
use unstarve_model::{Comm, Policy, SchedPolicy, Tid};
use unstarve_sched::KernelThread;
use unstarve_timeline::{ActorId, Task};

use super::rt_priority;
use crate::case::Case;

/// The first process: everything depends on it, and orphans become its children.
pub(super) const INIT: Tid = Tid(1);
/// The parent of all kernel threads.
pub(super) const KTHREADD: Tid = Tid(2);

/// Up to this many threads are listed one by one, even if they are all threads of one process.
const HANDFUL: usize = 16;

/// Sets this value on each thread of these actors. `was` returns the current value if known.
///
/// `None` if no thread may be changed, or if not all threads were kept: then only advice remains, because a command for some of
/// them would look like one for all.
pub(super) fn for_all(
    case: &Case<'_>,
    actors: &[ActorId],
    to: &Value,
    was: impl Fn(ActorId, Tid) -> Option<Value>,
) -> Option<Vec<Change>> {
    let threads = match members(case, actors) {
        Members::All(threads) => threads,
        Members::Some => return Some(vec![Change::advice()]),
    };
    if let Some(process) = whole_process(case, &threads) {
        return Some(vec![Change::of(Target::Threads(Selector::Process(process)), to.clone())]);
    }
    let each = threads.into_iter().map(|(actor, thread)| {
        let before = was(actor, thread.tid);
        Change::of(Target::Thread(thread), to.clone()).from(before)
    });
    Some(each.collect::<Vec<_>>()).filter(|changes| !changes.is_empty())
}

/// The threads of actors, each once, by id.
pub(super) enum Members {
    /// All threads that may be changed.
    All(Vec<(ActorId, Thread)>),
    /// The trace counted more threads than it kept.
    Some,
}

/// The threads of these actors. Excludes the first process, kthreadd and the stop class, which must not be changed.
pub(super) fn members(case: &Case<'_>, actors: &[ActorId]) -> Members {
    let mut threads: Vec<(Tid, ActorId)> = Vec::new();
    for &id in actors {
        let actor = case.actor(id);
        let mut tids = actor.tids.clone();
        if (actor.members as usize) > tids.len() {
            tids.extend(namesakes(case, id));
            tids.sort_unstable();
            tids.dedup();
        }
        if (actor.members as usize) > tids.len() {
            return Members::Some;
        }
        let stops = case.kernel_thread(id) == Some(KernelThread::Migration);
        let is_of_init =
            |tid: Tid| tid == INIT || case.snapshot.and_then(|snapshot| snapshot.process_of(tid)) == Some(INIT);
        let may_change =
            |tid: &Tid| !(is_of_init(*tid) || stops || is_kthreadd(case, *tid) || is_anothers(case, id, *tid));
        threads.extend(tids.into_iter().filter(may_change).map(|tid| (tid, id)));
    }
    threads.sort_unstable();
    threads.dedup_by_key(|(tid, _)| *tid);
    Members::All(threads.into_iter().map(|(tid, actor)| (actor, thread(case, actor, tid))).collect())
}

/// Whether the id was reused for a new task after the actor's own task had ended.
fn is_anothers(case: &Case<'_>, actor: ActorId, tid: Tid) -> bool {
    let tasks = &case.world.tasks;
    tasks.find(tid).is_some_and(|key| case.actor(actor).had(tasks.get(key)) == Some(false))
}

fn is_kthreadd(case: &Case<'_>, tid: Tid) -> bool {
    // In a PID namespace, 2 is a program like any other.
    tid == KTHREADD && case.snapshot.and_then(|snapshot| snapshot.is_kernel_thread(tid)) != Some(false)
}

/// Threads in the snapshot like the actor's own: same name, same priority, same cgroup, and both kernel threads or both programs.
/// An unrelated program may have the same name.
fn namesakes(case: &Case<'_>, id: ActorId) -> Vec<Tid> {
    let actor = case.actor(id);
    let (Some(snapshot), Some(comm)) = (case.snapshot, actor.comm()) else { return Vec::new() };
    let kernel = case.is_kernel_thread(id);
    let groups: FxHashSet<&str> = actor.tids.iter().filter_map(|tid| snapshot.cgroup_of(*tid)).collect();
    let is_theirs = |task: &TaskFacts| snapshot.cgroup_of(task.tid).is_none_or(|path| groups.contains(path));
    let same = |task: &&TaskFacts| {
        Comm::from(task.comm.as_str()) == comm
            && task.prio() == actor.prio()
            && task.kernel_thread == kernel
            && is_theirs(task)
    };
    snapshot.tasks.iter().filter(same).map(|task| task.tid).collect()
}

/// A thread of an actor as a change names it.
fn thread(case: &Case<'_>, actor: ActorId, tid: Tid) -> Thread {
    let own = case.actor(actor);
    // For a thread that has ended: the name under which it ran most.
    let main = || case.main_actor_of(tid).map(|main| case.actor(main)).filter(|main| main.shares(own, tid));
    let traced = latest(case, tid).map_or_else(|| main().unwrap_or(own).comm(), |task| Some(task.comm));
    match case.snapshot.and_then(|snapshot| snapshot.task(tid)) {
        Some(task) => as_called(task, traced),
        None => {
            let confirmed = case.is_kernel_thread(actor) && !case.is_kernel_thread_by_name_alone(actor);
            let known = match traced.filter(|comm| !comm.is_unknown()) {
                Some(comm) => Thread::known_by(tid, comm.as_bytes()),
                None => Thread::known_by(tid, case.name(actor)),
            };
            Thread { reset_on_fork: confirmed.then_some(false), kernel_thread: confirmed.then_some(true), ..known }
        }
    }
}

/// A task of the snapshot as a change names it, with its name from the trace: it may have executed another program since. For a
/// worker, the snapshot's name says what it works on.
pub(super) fn of_snapshot(case: &Case<'_>, task: &TaskFacts) -> Thread {
    // A task created later may have reused the id.
    let same = latest(case, task.tid).filter(|traced| traced.birth.is_none());
    as_called(task, same.map(|traced| traced.comm))
}

/// The thread as of the end of the trace. `timeout`, `chrt` and `taskset` exec the program that they start, and a command finds
/// the thread by its current name.
fn latest<'a>(case: &'a Case<'_>, tid: Tid) -> Option<&'a Task> {
    let tasks = &case.world.tasks;
    tasks.find(tid).map(|key| tasks.get(key))
}

/// A task of the snapshot with its name from the trace, or the snapshot's name if that says more. Kernel threads never have the
/// flag: kthread() clears it, and nothing sets it.
fn as_called(task: &TaskFacts, traced: Option<Comm>) -> Thread {
    let other = traced.filter(|comm| !comm.is_unknown() && !task.comm.as_bytes().starts_with(comm.as_bytes()));
    let named = match other {
        Some(comm) => Thread::known_by(task.tid, comm.as_bytes()),
        None => Thread::known_by(task.tid, &task.comm),
    };
    Thread {
        start: Some(task.start_ticks),
        reset_on_fork: if task.kernel_thread { Some(false) } else { task.reset_on_fork },
        kernel_thread: Some(task.kernel_thread),
        user: task.user,
        ..named
    }
}

/// The process that has exactly these threads, if there are too many to list.
fn whole_process(case: &Case<'_>, threads: &[(ActorId, Thread)]) -> Option<Thread> {
    if threads.len() <= HANDFUL {
        return None;
    }
    let snapshot = case.snapshot?;
    let process = snapshot.process_of(threads.first()?.1.tid)?;
    let is_meant = |tid: Tid| threads.binary_search_by_key(&tid, |(_, thread)| thread.tid).is_ok();
    let in_process = threads.iter().all(|(_, thread)| snapshot.process_of(thread.tid) == Some(process));
    let mut its = snapshot.tasks.iter().filter(|task| task.tgid.unwrap_or(task.tid) == process);
    let all = its.all(|task| is_meant(task.tid));
    (in_process && all).then(|| snapshot.task(process).map(|task| of_snapshot(case, task))).flatten()
}

/// The policy and priority of a thread, if the snapshot agrees with the trace. A trace alone has only priorities: FIFO looks like
/// RR, and BATCH like OTHER.
pub(super) fn class_before(case: &Case<'_>, actor: ActorId, tid: Tid) -> Option<Value> {
    let task = case.snapshot?.task(tid)?;
    let same = match rt_priority(case, actor) {
        Some(priority) => task.policy.class() == Some(Policy::Rt) && i64::from(task.rt_priority) == i64::from(priority),
        None => task.policy.class() == Some(Policy::Fair),
    };
    same.then(|| class(task.policy, task.rt_priority))
}

/// The nice of a thread. A fair task's priority shows it, unless the snapshot has another value; a real-time task's nice is only
/// in the snapshot.
pub(super) fn nice_before(case: &Case<'_>, actor: ActorId, tid: Tid) -> Option<Value> {
    let recorded = case.snapshot.and_then(|snapshot| snapshot.task(tid)).map(|task| task.nice);
    let traced = case.actor(actor).prio()?.nice();
    match (traced, recorded) {
        (Some(traced), Some(recorded)) if traced != recorded => None,
        (traced, recorded) => traced.or(recorded).map(Value::Nice),
    }
}

/// The CPUs on which a thread may run.
pub(super) fn cpus_before(case: &Case<'_>, tid: Tid) -> Option<Value> {
    case.snapshot?.allowed_cpus(tid).cloned().map(Value::Affinity)
}

/// A policy with its priority.
pub(super) fn class(policy: SchedPolicy, rt_priority: u32) -> Value {
    Value::Class { policy, rt_priority, slice: None }
}
