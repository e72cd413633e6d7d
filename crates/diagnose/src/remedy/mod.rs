//! Remedies for findings: typed changes, least invasive first. Only `unstarve_change` turns them into commands.
//!
//! Changes name threads by id and groups by their path in the snapshot. Names that a task chose for itself never get into a
//! command line. A change contains the old value only if the trace or its snapshot has it. Remedies that this kernel does not
//! support are left out. `taskset` is never offered for a bound kernel worker: the kernel refuses it.

mod class_limit;
mod group;
mod kernel;
mod kind;
mod other_culprits;
mod placement;
mod poller;
mod pool;
mod preemption;
mod priority;
mod session;
mod threads;

use std::fmt::Display;

use rustc_hash::FxHashSet;
use unstarve_change::{Change, Commands, FeatureState, Value};
use unstarve_facts::Holds;
use unstarve_sched::KernelThread;
use unstarve_timeline::{ActorId, Ancestor};

use crate::case::Case;
use crate::finding::stem;
use crate::report::{Remedy, RemedyId};

pub(crate) use class_limit::ClassLimit;
pub(crate) use group::read_weight_command;
pub use kind::{REMEDIES, RemedyKind};
pub(crate) use other_culprits::spare_no_other_culprit;

/// Against real-time tasks that keep others off the CPU. `creator` is the task that starts them one after the other: then
/// commands that name them would come too late.
/// name them come too late.
pub(crate) fn against_rt(
    case: &Case<'_>,
    victims: &[ActorId],
    intruder: &[ActorId],
    creator: Option<Ancestor>,
) -> Vec<Remedy> {
    let mut remedies = Vec::new();
    let program = of_one_program(case, intruder);
    if let Some(creator) = creator {
        remedies.push(priority::at_creator(case, creator));
    } else {
        remedies.extend(placement::move_off(case, &program, victims));
        remedies.extend(priority::stop_inheriting(case, &program));
        remedies.extend(priority::below_victim(case, victims, &program));
        remedies.extend(priority::make_fair(case, &program));
        remedies.extend(class_limit::less_runtime(case, &program));
    }
    remedies.extend(priority::above(case, victims, intruder));
    remedies.extend(priority::raise_real_time(case, victims, intruder));
    remedies.extend(placement::threaded_napi(case, victims));
    remedies.extend(priority::limit_class(case, victims, intruder));
    poller::first(case, intruder, remedies)
}

/// Maximum program names changed by one remedy: its title lists them all.
const NAMED_TOGETHER: usize = 3;

/// The intruders that a remedy changes. No kernel threads, which are real-time because the kernel needs it. If there are too many
/// programs to list in the title, only the program of the first intruder, because a title must name everything that it changes.
fn of_one_program(case: &Case<'_>, intruder: &[ActorId]) -> Vec<ActorId> {
    let programs = || intruder.iter().copied().filter(|id| !case.is_kernel_thread(*id));
    let Some(first) = programs().next() else { return Vec::new() };
    let stems: FxHashSet<String> = programs().map(|id| stem(&case.name(id)).to_owned()).collect();
    if stems.len() <= NAMED_TOGETHER {
        return programs().collect();
    }
    let process = |id: ActorId| case.first_tid(id).and_then(|tid| case.process_of(tid));
    let (name, of_process) = (case.name(case.mainly(first)), process(first));
    let is_it = |id: &ActorId| {
        stem(&case.name(case.mainly(*id))) == stem(&name) || of_process.is_some() && process(*id) == of_process
    };
    programs().filter(is_it).collect()
}

/// Against a task of lower class or priority that is not preempted.
pub(crate) fn against_not_preempted(case: &Case<'_>, victim: ActorId, occupant: ActorId) -> Vec<Remedy> {
    let mut remedies = Vec::new();
    remedies.extend(placement::move_occupant(case, occupant, victim));
    remedies.extend(placement::move_victim_from(case, victim, occupant));
    remedies.extend(preemption::full(case));
    remedies.extend(preemption::real_time_kernel(case));
    remedies
}

/// Against an equal that keeps the CPU.
pub(crate) fn against_stuck_equal(case: &Case<'_>, victim: ActorId, occupant: ActorId) -> Vec<Remedy> {
    let mut remedies = Vec::new();
    remedies.extend(placement::move_occupant(case, occupant, victim));
    if !case.knows_group(victim) && !case.is_kernel_thread(victim) {
        remedies.extend(group::read_limit(case, victim));
    }
    if case.is_kernel_thread(victim) {
        remedies.extend(priority::real_time_worker(case, victim));
        remedies.extend(kernel::reweight_bug(case));
        remedies.extend(kernel::vruntime_bugs(case));
    } else {
        remedies.extend(placement::spread_by_hand(case, victim));
    }
    poller::unless_bpf(case, poller::first(case, &[occupant], remedies))
}

/// Against too many equals.
pub(crate) fn against_crowded_cpu(case: &Case<'_>, victim: ActorId) -> Vec<Remedy> {
    let mut remedies = Vec::new();
    remedies.extend(pool::fewer_threads(case, victim));
    remedies.extend(placement::spread_by_hand(case, victim));
    if remedies.is_empty() {
        remedies.push(pool::fewer_tasks(case));
    }
    poller::unless_bpf(case, remedies)
}

/// Against a worker and its consumer that alternate for each item.
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
    remedies.extend(group::reserve_for_system(case, victim, occupant));
    remedies.extend(session::back_to_normal(case, victim, occupant));
    remedies.extend(priority::back_to_normal(case, victim, occupant));
    remedies.extend(priority::raise_above_group(case, victim, occupant));
    if case.is_kernel_worker(victim) {
        remedies.extend(priority::real_time_worker(case, victim));
        remedies.extend(kernel::reweight_bug(case));
        remedies.extend(kernel::inline_completion(case, victim));
    }
    poller::first(case, &[occupant], remedies)
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

/// Against short wakeups that preempt CPU-bound tasks.
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

/// Against packets that no device brings: there is no interrupt to move, and they follow their sender to any CPU.
pub(crate) fn against_own_packets(case: &Case<'_>, victim: ActorId) -> Vec<Remedy> {
    placement::deliver_elsewhere(case, victim).into_iter().collect()
}

/// Against a load balancer that leaves tasks waiting beside an idle CPU.
pub(crate) fn against_idle(case: &Case<'_>, victim: ActorId) -> Vec<Remedy> {
    let mut remedies = Vec::new();
    // Isolated CPUs are in no scheduling domain: neither the load balancer nor the search at wakeup considers them.
    if !placement::is_isolated(case, victim) {
        remedies.extend(placement::balance_sooner(case));
        remedies.extend(placement::scan_wider(case));
        remedies.extend(kernel::newidle_regression(case));
    }
    remedies.extend(placement::spread_by_hand(case, victim));
    poller::unless_bpf(case, remedies)
}

/// Against too frequent migrations.
pub(crate) fn against_churn(case: &Case<'_>, victim: ActorId) -> Vec<Remedy> {
    let mut remedies = Vec::new();
    remedies.extend(placement::balance_later(case));
    remedies.extend(placement::spread_by_hand(case, victim));
    remedies
}

/// Against a cgroup's quota.
pub(crate) fn against_limit(case: &Case<'_>, path: &str) -> Vec<Remedy> {
    group::raise_limit(case, path).into_iter().collect()
}

/// Against a quota that was not recorded.
pub(crate) fn against_unknown_limit(case: &Case<'_>, victim: ActorId) -> Vec<Remedy> {
    group::read_limit(case, victim).into_iter().collect()
}

/// Against a hypervisor or firmware that stops a CPU: no scheduler setting helps. `stolen` if the hypervisor is known to do it.
pub(crate) fn against_stopped_cpu(stolen: bool) -> Vec<Remedy> {
    let ask = Draft {
        id: kind::ASK_HYPERVISOR,
        text: "Ask for the time at the host of this virtual machine: fewer virtual CPUs on its CPUs, virtual CPUs pinned to CPUs of \
               their own, no CPU limit on the machine, or an instance type without credits. Nothing in this machine helps: no weight, \
               cgroup or priority."
            .into(),
        changes: advice(),
        risk: "None here; other guests of the host get less.",
        valid_on: "virtual machines whose hypervisor reports steal".into(),
    };
    let find = Draft {
        id: kind::FIND_STOPPER,
        text: "Find out what stops the CPU: `steal` in /proc/stat grows with what a hypervisor takes; the tracer hwlat shows firmware (SMI), \
               irqsoff the longest section with interrupts off."
            .into(),
        changes: advice(),
        risk: "None: it only reads. The tracers slow the machine down while they run.",
        valid_on: "all kernels".into(),
    };
    vec![if stolen { ask } else { find }.done()]
}

/// Against the kernel's limit on real-time tasks: throttling, or the fair server. If other tasks wait for the time that the limit
/// leaves them, it is not removed.
pub(crate) fn against_class_limit(case: &Case<'_>, user: ActorId, kind: ClassLimit, others_wait: bool) -> Vec<Remedy> {
    let mut remedies = vec![class_limit::leave_room(case, user)];
    remedies.extend(class_limit::lift(case, user, kind).filter(|_| !others_wait));
    remedies
}

/// Against the runtime of a deadline task.
pub(crate) fn against_overrun(case: &Case<'_>, victim: ActorId) -> Vec<Remedy> {
    class_limit::enough_runtime(case, victim).into_iter().collect()
}

pub(crate) fn against_deadline_limit(case: &Case<'_>, victim: ActorId) -> Vec<Remedy> {
    class_limit::more_runtime(case, victim).into_iter().collect()
}

/// A remedy under construction.
struct Draft {
    id: RemedyKind,
    text: String,
    changes: Vec<Change>,
    risk: &'static str,
    valid_on: String,
}

impl Draft {
    /// Writes the commands from the changes, so that both always agree.
    fn done(self) -> Remedy {
        let Draft { id, text, changes, risk, valid_on } = self;
        let Commands { apply, undo } = unstarve_change::commands(&changes).unwrap_or_default();
        let (id, risk) = (RemedyId::from(id), risk.into());
        Remedy { id, text, apply, undo, risk, valid_on, changes, proved: Vec::new(), predicted: None }
    }
}

/// What real-time tasks may use of each second, in µs.
const RT_RUNTIME: &str = "/proc/sys/kernel/sched_rt_runtime_us";

/// Something that only a person can do.
fn advice() -> Vec<Change> {
    vec![Change::advice()]
}

/// A new value for the file of a setting, with the old one if the snapshot has it.
fn rewrite(path: impl Into<String>, to: impl Display, was: Option<&str>) -> Vec<Change> {
    vec![Change::file(path, to).from(was.map(Value::content))]
}

/// Turns a feature bit off. `known` is its state in the snapshot.
fn turn_off(name: &str, known: Option<bool>) -> Change {
    let word = |on: bool| Value::content(FeatureState::from(on).word(name));
    Change::feature(name, FeatureState::Off).from(known.map(word))
}

/// `this kernel (6.1)` if the version is known, otherwise the condition; `None` if the condition does not hold.
fn where_valid(case: &Case<'_>, holds: Holds, condition: &str) -> Option<String> {
    match (holds, case.facts.version()) {
        (Holds::Yes, Some(version)) => Some(format!("{condition}; this kernel is {version}")),
        (Holds::Yes, None) => Some(condition.into()),
        (Holds::No, _) => None,
        (Holds::Depends(what), _) => Some(format!("{condition}; not known here: {what}")),
    }
}

/// Whether the kernel fixed the affinity of this worker (`PF_NO_SETAFFINITY`).
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

/// The real-time priority as `chrt` shows it, 1 to 99; `None` for other classes.
fn rt_priority(case: &Case<'_>, actor: ActorId) -> Option<i32> {
    let prio = case.actor(actor).prio()?;
    (prio.policy() == unstarve_model::Policy::Rt).then_some(99 - prio.0)
}
