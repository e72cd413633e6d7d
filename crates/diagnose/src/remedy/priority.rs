//! Remedies that change policies, priorities and nice values, and the limits on real-time classes.

use unstarve_change::{Change, Target, Value};
use unstarve_facts::{Holds, TaskFacts};
use unstarve_model::{Nanos, Policy, SchedPolicy, Tid, clean};
use unstarve_sched::{KernelThread, Rule, least_nice_that_equals, load_weight_of_nice, load_weight_of_prio};
use unstarve_timeline::{ActorId, Ancestor};

use super::threads::{INIT, KTHREADD, class, class_before, for_all, nice_before, of_snapshot};
use super::{Draft, RT_RUNTIME, advice, kind, rewrite, rt_priority, where_valid};
use crate::case::Case;
use crate::claim::Actors;
use crate::report::Remedy;

/// A child of a real-time task inherits the policy unless its parent resets it. Offered only if the snapshot shows a real-time
/// parent: an ordinary parent did not pass it on, and the command would make it real-time.
pub(super) fn stop_inheriting(case: &Case<'_>, intruder: &[ActorId]) -> Option<Remedy> {
    let (helper, parents) = intruder.iter().find_map(|id| Some((*id, realtime_parents(case, *id)?)))?;
    let first = *parents.first()?;
    let sets_flag = |task: &&TaskFacts| {
        let was = task.reset_on_fork.map(Value::ResetOnFork);
        Change::of(Target::Thread(of_snapshot(case, task)), Value::ResetOnFork(true)).from(was)
    };
    Some(
        Draft {
            id: kind::RESET_ON_FORK,
            text: format!(
                "{} has the priority of its parent {} ({}), real-time too, as if inherited: let the parent's children be \
                 ordinary.",
                case.name(helper),
                clean(&first.comm),
                first.tid
            ),
            changes: parents.iter().map(sets_flag).collect(),
            risk: "Children that need real-time must ask for it themselves. It lasts until the parent is restarted.",
            valid_on: "all kernels".into(),
        }
        .done(),
    )
}

/// Threads of the parent's process from which an actor's task may have inherited its policy: real-time, of the same priority, and
/// without the reset flag. Not of the first process, which adopts all orphans; not of kthreadd, whose children the kernel makes
/// ordinary itself (kthread() in kernel/kthread.c).
fn realtime_parents<'a>(case: &Case<'a>, actor: ActorId) -> Option<Vec<&'a TaskFacts>> {
    let snapshot = case.snapshot?;
    let priority = u32::try_from(rt_priority(case, actor)?).ok()?;
    let process = |task: &TaskFacts| task.tgid.unwrap_or(task.tid);
    let parents = |tid: &Tid| {
        let helper = snapshot.task(*tid).filter(|task| !task.kernel_thread)?;
        let parent = snapshot.task(process(helper))?.parent.filter(|parent| ![INIT, KTHREADD].contains(parent))?;
        let gives = |task: &&TaskFacts| {
            process(task) == parent
                && task.policy.class() == Some(Policy::Rt)
                && task.rt_priority == priority
                && task.reset_on_fork != Some(true)
        };
        let threads: Vec<&TaskFacts> = snapshot.tasks.iter().filter(gives).collect();
        (!threads.is_empty()).then_some(threads)
    };
    case.actor(actor).tids.iter().find_map(parents)
}

/// Short-lived tasks get their priority from the task that starts them: change it there.
pub(super) fn at_creator(case: &Case<'_>, creator: Ancestor) -> Remedy {
    let known = case.snapshot.and_then(|snapshot| snapshot.task(creator.tid));
    let known = known.filter(|task| task.tid != INIT && task.policy.class() == Some(Policy::Rt));
    let to_fair = |task: &TaskFacts| {
        let target = Target::Thread(of_snapshot(case, task));
        Change::of(target, class(SchedPolicy::Other, 0)).from(class(task.policy, task.rt_priority))
    };
    Draft {
        id: kind::CREATOR_TO_FAIR,
        text: format!(
            "Let {} ({}) start its real-time tasks as ordinary ones: without `chrt` in its commands, without CPUSchedulingPolicy= in its \
             unit. Those that run are gone before a command could name them.",
            clean(&creator.comm.to_string()),
            creator.tid
        ),
        changes: known.map_or_else(advice, |task| vec![to_fair(task)]),
        risk: "Jobs that call sched_setscheduler() themselves stay real-time until they are changed, too.",
        valid_on: "all kernels".into(),
    }
    .done()
}

/// Makes the intruder an ordinary task.
pub(super) fn make_fair(case: &Case<'_>, intruder: &[ActorId]) -> Option<Remedy> {
    let first = *intruder.first()?;
    rt_priority(case, first)?;
    let mut changes = for_all(case, intruder, &class(SchedPolicy::Other, 0), |id, tid| class_before(case, id, tid))?;
    // Nice has no effect while the task is real-time.
    changes.extend(for_all(case, intruder, &Value::Nice(-10), |id, tid| nice_before(case, id, tid))?);
    Some(
        Draft {
            id: kind::INTRUDER_TO_FAIR,
            text: format!(
                "Take {} out of the real-time class; nice −10 still favours it.",
                Actors::of(case, intruder.iter().copied())
            ),
            changes,
            risk: "Its own latency then depends on the load; a watchdog or heartbeat may have been made real-time on purpose.",
            valid_on: "all kernels".into(),
        }
        .done(),
    )
}

/// The lowest real-time priority among these tasks; `None` if one is not real-time.
fn lowest_real_time(case: &Case<'_>, actors: &[ActorId]) -> Option<i32> {
    let priorities: Option<Vec<i32>> = actors.iter().map(|id| rt_priority(case, *id)).collect();
    priorities?.into_iter().min()
}

/// The policy that these real-time tasks keep: SCHED_RR unless the snapshot shows another. Events do not distinguish FIFO from
/// RR.
fn real_time_policy(case: &Case<'_>, actors: &[ActorId]) -> SchedPolicy {
    let tids = actors.iter().flat_map(|id| &case.actor(*id).tids);
    let mut known = tids.filter_map(|tid| case.snapshot?.policy_of(*tid)).peekable();
    if known.peek().is_some() && known.all(|policy| policy == SchedPolicy::Rr) {
        SchedPolicy::Rr
    } else {
        SchedPolicy::Fifo
    }
}

/// Keeps the intruder real-time, below its real-time victims.
pub(super) fn below_victim(case: &Case<'_>, victims: &[ActorId], intruder: &[ActorId]) -> Option<Remedy> {
    let first = *intruder.first()?;
    let lowest = lowest_real_time(case, victims)?;
    let highest = intruder.iter().filter_map(|id| rt_priority(case, *id)).max()?;
    let priority = lowest - 1;
    if priority < 1 || highest < lowest {
        return None;
    }
    let real_time: Vec<ActorId> =
        intruder.iter().copied().filter(|id| rt_priority(case, *id).is_some_and(|its| its > priority)).collect();
    let lower = class(real_time_policy(case, &real_time), u32::try_from(priority).ok()?);
    Some(
        Draft {
            id: kind::LOWER_INTRUDER,
            text: format!(
                "Run {} at real-time priority {priority}, below {} at {lowest}: it still goes before all fair tasks.",
                case.name(first),
                case.name(*victims.first()?)
            ),
            changes: for_all(case, &real_time, &lower, |id, tid| class_before(case, id, tid))?,
            risk: "It is late when the other one runs for long. Threads with priorities between the two run before it, too.",
            valid_on: "all kernels; holds until the program sets its own priority again".into(),
        }
        .done(),
    )
}

/// Raises a real-time program above the real-time intruder.
pub(super) fn raise_real_time(case: &Case<'_>, victims: &[ActorId], intruder: &[ActorId]) -> Option<Remedy> {
    let programs: Vec<ActorId> = victims.iter().copied().filter(|id| !case.is_kernel_thread(*id)).collect();
    let first = *programs.first()?;
    lowest_real_time(case, &programs)?;
    let highest = intruder.iter().filter_map(|id| rt_priority(case, *id)).max()?;
    let priority = highest + 1;
    if priority > 98 {
        return None;
    }
    let higher = class(real_time_policy(case, &programs), u32::try_from(priority).ok()?);
    Some(
        Draft {
            id: kind::RAISE_REAL_TIME_VICTIM,
            text: format!("Run {} at real-time priority {priority}, above {highest}.", case.name(first)),
            changes: for_all(case, &programs, &higher, |id, tid| class_before(case, id, tid))?,
            risk: "The thread that runs first today is late when this one runs for long.",
            valid_on: "all kernels; holds until the program sets its own priority again".into(),
        }
        .done(),
    )
}

/// Raises the victim above the intruder.
pub(super) fn above(case: &Case<'_>, victims: &[ActorId], intruder: &[ActorId]) -> Option<Remedy> {
    // Grace periods wait for RCU's threads, and callers of synchronize_rcu() wait for those.
    let is_rcu = |id: ActorId| case.actor(id).kernel_thread == Some(KernelThread::Rcu) && case.is_kernel_thread(id);
    let workers: Vec<ActorId> =
        victims.iter().copied().filter(|id| case.is_kernel_worker(*id) || is_rcu(*id)).collect();
    let highest = intruder.iter().filter_map(|id| rt_priority(case, *id)).max()?;
    let first = *workers.first()?;
    // 99 is reserved for the kernel's own watchdogs and the stop class's helpers.
    let priority = (highest + 1).min(98);
    if priority <= highest {
        return None;
    }
    let fifo = class(SchedPolicy::Fifo, u32::try_from(priority).ok()?);
    let ephemeral = matches!(
        case.actor(first).kernel_thread,
        Some(KernelThread::BoundWorker { .. } | KernelThread::UnboundWorker | KernelThread::Rescuer)
    );
    let text = if ephemeral {
        format!(
            "Run the worker at real-time priority {priority}, above {highest}. Workers come and go and serve every workqueue of \
             their CPU: it holds for these threads only."
        )
    } else {
        format!("Run {} at real-time priority {priority}, above {highest}: others wait for its work.", case.name(first))
    };
    Some(
        Draft {
            id: kind::VICTIM_ABOVE_INTRUDER,
            text,
            changes: for_all(case, &workers, &fifo, |id, tid| class_before(case, id, tid))?,
            risk: "Its work now runs before the real-time task: a flood of packets or completions can hold \
                   that task up.",
            valid_on: if is_rcu(first) {
                "all kernels; rcutree.kthread_prio= on the kernel's command line makes it last".into()
            } else {
                "all kernels; must be set again after a reboot".into()
            },
        }
        .done(),
    )
}

/// The fair server gets a fifth of each second. It acts if fair tasks starved for the rest of the second…
const WITHOUT_THE_SERVER: Nanos = Nanos::from_millis(800);
/// …or received less than that fifth in pieces.
const LEAVES_LESS: f64 = 0.8;

/// The kernel's own protection against starvation by a whole class: the fair server, or real-time throttling before it.
///
/// Neither limits deadline tasks: the server is a deadline entity itself and runs after earlier deadlines, and throttling affects
/// only the real-time class.
pub(super) fn limit_class(case: &Case<'_>, victims: &[ActorId], intruder: &[ActorId]) -> Vec<Remedy> {
    if intruder.iter().any(|id| case.actor(*id).policy() == Some(Policy::Deadline)) {
        return Vec::new();
    }
    // What is reserved for fair tasks is taken from real-time ones.
    if !victims.iter().all(|id| case.is_fair(*id)) {
        return Vec::new();
    }
    let cpu = case.cpu_of(intruder, victims);
    // A limit changes nothing for an intruder that leaves fair tasks that much time anyway.
    let acts = |victim: &ActorId| {
        let longest = case.ledger.account(*victim).map_or(Nanos::ZERO, |it| it.longest_by_rule[Rule::Class as usize]);
        longest >= WITHOUT_THE_SERVER || case.share_of_window(*victim, &[ActorId::OTHERS], Rule::Class) >= LEAVES_LESS
    };
    let had: Nanos = intruder.iter().filter_map(|id| Some(case.ledger.account(*id)?.runs.total)).sum();
    if had.share_of(case.span()) < LEAVES_LESS && !victims.iter().any(acts) {
        return Vec::new();
    }
    let mut remedies = Vec::new();
    let server = case.facts.fair_server();
    if let (Some(cpu), Some(valid_on)) = (cpu, where_valid(case, server, "kernels from 6.12 on, debugfs writable")) {
        let name = format!("fair_server/cpu{cpu}/runtime");
        let old = case.snapshot.and_then(|snapshot| snapshot.setting(&name)).map(|(_, value)| value);
        remedies.push(
            Draft {
                id: kind::FAIR_SERVER,
                text: format!(
                    "Reserve 20 % of CPU {cpu} for normal threads, instead of 5 %: it helps only against waits of most of a second, \
                     and normal threads share it by weight."
                ),
                changes: rewrite(format!("/sys/kernel/debug/sched/{name}"), "200000000", old),
                risk: "Real-time tasks of this CPU can be held up for as long. The kernel may refuse to set or restore it while the \
                       server is at work (EBUSY): it is tried for some seconds, and the undo can be repeated.",
                valid_on,
            }
            .done(),
        );
    }
    // Before the fair server: throttling, which needs a change only if it was turned off.
    let turned_off = case.snapshot.and_then(|snapshot| snapshot.setting("sched_rt_runtime_us"));
    if server == Holds::No && case.facts.rt_throttling() == Holds::No {
        remedies.push(
            Draft {
                id: kind::RT_THROTTLING,
                text: "Real-time throttling is off; back at its default it leaves other classes 5 % of each second."
                    .into(),
                changes: rewrite(RT_RUNTIME, "950000", turned_off.map(|(_, value)| value)),
                risk: "A real-time task that wants a whole CPU is stopped for 50 ms of each second.",
                valid_on: "kernels up to 6.11".into(),
            }
            .done(),
        );
    }
    remedies
}

/// Nice for a worker (or a task of the root group) beside a heavy group, if any nice value is enough.
pub(super) fn raise_above_group(case: &Case<'_>, victim: ActorId, occupant: ActorId) -> Option<Remedy> {
    let now = case.actor(victim).prio()?.nice()?;
    // A task in a group competes by its group's weight; its nice has no effect against other groups.
    if !case.competes_by_nice(victim, occupant) {
        return None;
    }
    let one_group = case.actor(victim).group() == case.actor(occupant).group();
    // SCHED_IDLE weighs 3 at any nice.
    if case.actor(victim).own_weight() != Some(load_weight_of_nice(now)) {
        return leave_idle(case, victim);
    }
    let heavy = if one_group { None } else { case.actor(occupant).group_weight() };
    let own = case.actor(occupant).prio().and_then(load_weight_of_prio);
    let (nice, why) = match (heavy, own) {
        (Some(weight), _) => {
            let nice = least_nice_that_equals(weight)?;
            let whose = if case.session_nice(occupant).is_some() { "session" } else { "group" };
            (nice, format!("nice {nice} weighs {}, its {whose} {weight}", load_weight_of_nice(nice)))
        }
        (None, Some(weight)) if case.snapshot.is_some() && (weight > 1024 || now > 0) => {
            let nice = least_nice_that_equals(weight)?;
            (nice, format!("nice {nice} weighs {}, {} {weight}", load_weight_of_nice(nice), case.name(occupant)))
        }
        (None, _) if case.snapshot.is_some() => {
            // Nothing outweighs the victim: a small increase of weight is enough to change which task preempts which.
            (-10, "nothing outweighs it; more weight makes it lose the CPU less easily".into())
        }
        (None, _) => (-20, "nice −20 weighs as much as cpu.weight 8668; beside a smaller group less is enough".into()),
    };
    if nice >= now {
        return None;
    }
    let (id, risk) = match case.actor(victim).kernel_thread {
        Some(KernelThread::BoundWorker { .. } | KernelThread::UnboundWorker | KernelThread::Rescuer) => (
            kind::RAISE_WORKER,
            "Workers come and go and serve every workqueue of their CPU's pool: it holds for this thread only, and for \
             whatever it does next.",
        ),
        Some(_) => {
            (kind::RAISE_WORKER, "Programs on its CPU wait for it longer. It holds until the machine is restarted.")
        }
        None => (
            kind::RAISE_VICTIM,
            "Others on its CPU get less. It holds until the program is restarted, and for what it starts from now on.",
        ),
    };
    Some(
        Draft {
            id,
            text: format!("Give {} more weight: {why}.", case.name(victim)),
            changes: for_all(case, &[victim], &Value::Nice(nice), |id, tid| nice_before(case, id, tid))?,
            risk,
            valid_on: "all kernels".into(),
        }
        .done(),
    )
}

/// A task that others wait for should not be SCHED_IDLE.
fn leave_idle(case: &Case<'_>, victim: ActorId) -> Option<Remedy> {
    Some(
        Draft {
            id: kind::RAISE_VICTIM,
            text: format!("Take {} out of SCHED_IDLE: threads that wait for it wait behind every other task.", case.name(victim)),
            changes: for_all(case, &[victim], &class(SchedPolicy::Other, 0), |id, tid| class_before(case, id, tid))?,
            risk: "Others on its CPU get less. It holds until the program is restarted, and for what it starts from now on.",
            valid_on: "all kernels".into(),
        }
        .done(),
    )
}

/// The last resort for a worker if no nice value helps.
pub(super) fn real_time_worker(case: &Case<'_>, worker: ActorId) -> Option<Remedy> {
    rt_priority(case, worker).is_none().then_some(())?;
    Some(
        Draft {
            id: kind::WORKER_TO_RT,
            text: format!(
                "Make {} real-time at the lowest priority: it then goes before every fair task.",
                case.name(worker)
            ),
            changes: for_all(case, &[worker], &class(SchedPolicy::Fifo, 1), |id, tid| class_before(case, id, tid))?,
            risk: "A work item that loops keeps the CPU from all normal threads. It holds for this thread only.",
            valid_on: "all kernels".into(),
        }
        .done(),
    )
}

/// Resets a hog's negative nice, if that is what outweighs the victim: in a separate cgroup or session nice only counts inside.
pub(super) fn back_to_normal(case: &Case<'_>, victim: ActorId, occupant: ActorId) -> Option<Remedy> {
    let nice = case.actor(occupant).prio()?.nice()?;
    if nice >= 0 || case.is_kernel_worker(occupant) || !case.competes_by_nice(occupant, victim) {
        return None;
    }
    Some(
        Draft {
            id: kind::OCCUPANT_TO_NICE_0,
            text: format!("{} runs at nice {nice}; at nice 0 it has no more weight than others.", case.name(occupant)),
            changes: for_all(case, &[occupant], &Value::Nice(0), |id, tid| nice_before(case, id, tid))?,
            risk: "The nice value may have been set on purpose.",
            valid_on: "all kernels".into(),
        }
        .done(),
    )
}
