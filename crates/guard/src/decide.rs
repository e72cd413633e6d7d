//! Decides which task gets which new setting, and why or why not.
//!
//! Pure: no I/O, so unit tests need no real tasks. For each aspect the first matching rule of the file wins; a later rule that
//! wants another value is only noted. Changes that no rule may make are refused here.

use std::fmt;

use unstarve_model::{CpuSet, Policy as Class, SchedPolicy, Tid};
use unstarve_sched::load_weight_of_nice;
use unstarve_sched::setting::{POLICY_POSITION, RESET_ON_FORK_POSITION, TASK_SETTINGS, Want};

use crate::policy::Policy;
use crate::task::{Kind, Task};
use unstarve_change::{Aspect, Value};

/// What decisions need to know of the machine besides its tasks.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Surroundings {
    /// Processes of the guard: no rule changes them.
    pub own: Vec<Tid>,
    /// Top-level cgroups and their load weights (nice 0 = 1024), heaviest first.
    pub groups: Vec<(String, u32)>,
    /// Whether each session is a task group of its own (`kernel.sched_autogroup_enabled`).
    pub autogroup: Option<bool>,
    /// The online CPUs. The kernel drops offline CPUs from an affinity, and undo must recognise the value that it stored.
    pub online: Option<CpuSet>,
}

/// What a policy does to a task.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// Changes, in the order to make them.
    pub changes: Vec<Planned>,
    /// Aspects that already have the value that a rule wants.
    pub kept: Vec<Planned>,
    /// What to report to the user.
    pub notes: Vec<Note>,
}

/// One change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Planned {
    /// The rule's index.
    pub rule: usize,
    /// The value now.
    pub old: Value,
    /// The value to set.
    pub new: Value,
}

/// Something to report to the user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Note {
    /// The rule's index.
    pub rule: usize,
    /// What to report.
    pub kind: NoteKind,
}

/// See [`Note`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NoteKind {
    /// No rule may make this change, for this reason.
    Refused(Refusal),
    /// An earlier rule sets this aspect to another value.
    Shadowed {
        /// The earlier rule's index.
        by: usize,
        /// The aspect that both rules set.
        aspect: Aspect,
    },
    /// The change will be made but has no effect.
    CannotWin(Weakness),
    /// The task's children inherit the value and the guard reverts it afterwards, because reset-on-fork cannot be used.
    Inherited(Heirloom),
    /// The task already has more than the rule would give it, and keeps it.
    Stronger {
        /// The task's value.
        has: Value,
        /// The rule's value.
        wanted: Value,
    },
}

/// Why no rule may make a change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// The task belongs to the guard.
    Own,
    /// The policy's deny list has it.
    Denied,
    /// Migration, cpuhp, watchdog, idle injection.
    Untouchable,
    /// The init process.
    Init,
    /// Would break the guarantees of a SCHED_DEADLINE task.
    Deadline,
    /// Would lower a kernel thread that the kernel made real-time.
    LowersKernel,
    /// SCHED_IDLE for a kernel thread: other tasks wait for it.
    IdlesKernel,
    /// `PF_NO_SETAFFINITY`.
    AffinityFixed,
    /// This kernel does not have it: why not.
    NotHere(&'static str),
    /// Only tasks of the fair class have it: the message.
    NotFair(&'static str),
    /// None of the CPUs is online.
    NoSuchCpu,
}

/// Why a change has no effect.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Weakness {
    /// The task's group still has less weight than this group.
    Outweighed {
        /// The load weight of the nice value.
        weight: u32,
        /// The group.
        group: String,
        /// The group's load weight on one CPU.
        group_weight: u32,
        /// The nice value with the same weight, if there is one.
        needs: Option<i32>,
    },
    /// Nice has an effect only within the task's own cgroup.
    InsideGroup(String),
    /// Nice has an effect only within the session's autogroup.
    InsideAutogroup,
    /// Nice has no effect on a real-time task.
    RealTime,
}

/// Why children of a raised task inherit the value: reset-on-fork would also reset a value that the task had before.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Heirloom {
    /// The task's own nice value, which the kernel would set to 0.
    Nice(i32),
    /// The task's own policy, which the kernel would set to SCHED_OTHER.
    Policy(SchedPolicy),
    /// The task's own utilisation clamps.
    Clamps,
}

/// What the policy does to a task; `None` if no rule matches.
pub fn decide(policy: &Policy, surroundings: &Surroundings, task: &Task) -> Option<Plan> {
    let mut winners: [Option<(usize, &Want)>; TASK_SETTINGS.len()] = [None; TASK_SETTINGS.len()];
    let mut plan = Plan { changes: Vec::new(), kept: Vec::new(), notes: Vec::new() };
    let mut matched = None;
    for index in policy.candidates(&task.comm) {
        let rule = &policy.rules[index];
        if !rule.selector.matches(task) {
            continue;
        }
        matched = matched.or(Some(index));
        for want in &rule.set {
            let aspect = want.aspect();
            let Some(place) = TASK_SETTINGS.iter().position(|other| other.aspect == aspect) else { continue };
            match winners[place] {
                None => winners[place] = Some((index, want)),
                Some((by, earlier)) if earlier != want => {
                    plan.notes.push(Note { rule: index, kind: NoteKind::Shadowed { by, aspect } });
                }
                Some(_) => {}
            }
        }
    }
    let matched = matched?;
    if let Some(refusal) = untouchable(policy, surroundings, task) {
        plan.notes = vec![Note { rule: matched, kind: NoteKind::Refused(refusal) }];
        return Some(plan);
    }
    // The class that the task gets, if it is allowed.
    let class = winners[POLICY_POSITION]
        .filter(|(rule, want)| !is_stronger(policy, task, *rule, want))
        .map(|(_, want)| resolve(task, want))
        .filter(|class| refusal(task, class).is_none());
    let becomes_realtime = class.as_ref().is_some_and(Value::is_realtime);
    for (setting, (rule, want)) in
        TASK_SETTINGS.into_iter().zip(winners).filter_map(|(setting, winner)| Some((setting, winner?)))
    {
        let mut new = resolve(task, want);
        let note = |kind| Note { rule, kind };
        if let (Value::Affinity(cpus), Some(online)) = (&mut new, &surroundings.online) {
            *cpus = cpus.iter().filter(|&cpu| online.contains(cpu)).collect();
            if cpus.is_empty() {
                plan.notes.push(note(NoteKind::Refused(Refusal::NoSuchCpu)));
                continue;
            }
        }
        if let Some(why) = setting.of_fair_tasks
            && (becomes_realtime || !is_fair(task.attributes.policy))
        {
            plan.notes.push(note(NoteKind::Refused(Refusal::NotFair(why))));
            continue;
        }
        let Some(old) = task.attributes.value(setting.aspect) else {
            plan.notes.push(note(NoteKind::Refused(Refusal::NotHere(setting.missing))));
            continue;
        };
        if !policy.rules[rule].lower {
            if old.is_stronger_than(&new) {
                plan.notes.push(note(NoteKind::Stronger { has: old, wanted: new }));
                continue;
            }
            new = new.without_lowering(&old);
        }
        if let Some(refusal) = refusal(task, &new) {
            // A value that is already set needs no refusal.
            if !old.same(&new) {
                plan.notes.push(note(NoteKind::Refused(refusal)));
            }
            continue;
        }
        if let Value::Nice(nice) = new
            && let Some(weakness) = weakness(surroundings, task, nice, class.as_ref())
        {
            plan.notes.push(note(NoteKind::CannotWin(weakness)));
        }
        let planned = Planned { rule, old, new };
        if planned.old.same(&planned.new) { plan.kept.push(planned) } else { plan.changes.push(planned) }
    }
    if winners[RESET_ON_FORK_POSITION].is_none() {
        keep_from_children(task, &mut plan);
    }
    Some(plan)
}

/// Keeps the raised values from the task's children, unless the rule wants them inherited. With reset-on-fork the kernel gives
/// children SCHED_OTHER if the task is real-time, and nice 0 if its nice is below 0 (`sched_fork()`, kernel/sched/core.c). For
/// a task that was ordinary before, children get just what they would have had without the guard. For other tasks reset-on-fork
/// would take a value from the children, so the guard reverts what they inherited.
fn keep_from_children(task: &Task, plan: &mut Plan) {
    if task.kind != Kind::User || task.attributes.reset_on_fork {
        return;
    }
    let Some(rule) = plan.changes.iter().find(|planned| planned.new.is_privileged()).map(|planned| planned.rule) else {
        return;
    };
    match heirloom(task) {
        Some(heirloom) => plan.notes.push(Note { rule, kind: NoteKind::Inherited(heirloom) }),
        None => {
            let (old, new) = (Value::ResetOnFork(false), Value::ResetOnFork(true));
            plan.changes.insert(0, Planned { rule, old, new });
        }
    }
}

/// A value that the task's children inherit now and would not inherit under reset-on-fork.
fn heirloom(task: &Task) -> Option<Heirloom> {
    let has = &task.attributes;
    match has.policy {
        SchedPolicy::Other if has.nice != 0 => Some(Heirloom::Nice(has.nice)),
        SchedPolicy::Other => has.uclamp.filter(|clamps| *clamps != (0, 1024)).map(|_| Heirloom::Clamps),
        policy => Some(Heirloom::Policy(policy)),
    }
}

/// Whether the task already has more than the rule wants, and the rule does not set `lower`.
fn is_stronger(policy: &Policy, task: &Task, rule: usize, want: &Want) -> bool {
    let old = task.attributes.value(want.aspect());
    !policy.rules[rule].lower && old.is_some_and(|old| old.is_stronger_than(&want.value_for(Some(&old))))
}

/// The value to set.
fn resolve(task: &Task, want: &Want) -> Value {
    want.value_for(task.attributes.value(want.aspect()).as_ref())
}

fn is_fair(policy: SchedPolicy) -> bool {
    policy.class() == Some(Class::Fair)
}

/// Why no rule may change the task at all, if so.
fn untouchable(policy: &Policy, surroundings: &Surroundings, task: &Task) -> Option<Refusal> {
    if surroundings.own.contains(&task.tgid) {
        return Some(Refusal::Own);
    }
    if task.kind == Kind::Untouchable {
        return Some(Refusal::Untouchable);
    }
    if task.tgid == Tid(1) {
        return Some(Refusal::Init);
    }
    if policy.limits.deny.iter().any(|glob| glob.matches(&task.comm)) {
        return Some(Refusal::Denied);
    }
    (task.attributes.policy.class() == Some(Class::Deadline)).then_some(Refusal::Deadline)
}

/// Why no rule may make this change to the task, if so.
fn refusal(task: &Task, new: &Value) -> Option<Refusal> {
    match new {
        Value::Affinity(_) if task.affinity_fixed => Some(Refusal::AffinityFixed),
        Value::Class { .. } if task.kind == Kind::User => None,
        Value::Class { rt_priority, .. } if *rt_priority < task.attributes.rt_priority => Some(Refusal::LowersKernel),
        Value::Class { policy: SchedPolicy::Idle, .. } => Some(Refusal::IdlesKernel),
        _ => None,
    }
}

/// Why a nice value will not have the expected effect, if so.
fn weakness(surroundings: &Surroundings, task: &Task, nice: i32, class: Option<&Value>) -> Option<Weakness> {
    let realtime = class.map_or(task.attributes.rt_priority > 0, Value::is_realtime);
    if realtime {
        return Some(Weakness::RealTime);
    }
    if nice >= 0 {
        // The rule asks for less weight.
        return None;
    }
    match task.cgroup.as_deref() {
        Some("/") => {}
        Some(group) => return Some(Weakness::InsideGroup(group.to_owned())),
        // Kernel threads are in the root group, whatever `/proc` showed.
        None if task.kind != Kind::User => {}
        None => return None,
    }
    if task.kind == Kind::User && surroundings.autogroup == Some(true) {
        return Some(Weakness::InsideAutogroup);
    }
    let weight = load_weight_of_nice(nice);
    let (group, group_weight) = surroundings.groups.first().filter(|(_, group_weight)| *group_weight > weight)?;
    let needs = unstarve_sched::least_nice_that_equals(*group_weight);
    Some(Weakness::Outweighed { weight, group: group.clone(), group_weight: *group_weight, needs })
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refusal::Own => "it is the guard itself",
            Refusal::Denied => "the policy's deny-list has it",
            Refusal::Untouchable => "migration, cpuhp, watchdog and idle-injection threads stay above everybody",
            Refusal::Init => "the first process stays as it is",
            Refusal::Deadline => "a deadline task has guarantees that no rule can weigh",
            Refusal::LowersKernel => "a kernel thread that is real-time is never lowered",
            Refusal::IdlesKernel => "a kernel thread is never made SCHED_IDLE: others wait for it",
            Refusal::AffinityFixed => "the kernel binds it to its CPUs (PF_NO_SETAFFINITY)",
            Refusal::NotHere(why) | Refusal::NotFair(why) => why,
            Refusal::NoSuchCpu => "none of these CPUs is online",
        })
    }
}

impl fmt::Display for Heirloom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Heirloom::Nice(nice) => write!(f, "nice {nice}"),
            Heirloom::Policy(policy) => f.write_str(policy.name()),
            Heirloom::Clamps => f.write_str("utilisation clamps"),
        }
    }
}

impl fmt::Display for Weakness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Weakness::Outweighed { weight, group, group_weight, needs } => {
                write!(f, "it weighs {weight}, but {group} up to {group_weight} on one CPU: ")?;
                match needs {
                    Some(nice) => write!(f, "nice {nice} would equal that"),
                    None => f.write_str("no nice equals that; a real-time policy would, or less weight for the group"),
                }
            }
            Weakness::InsideGroup(group) => write!(f, "nice counts only against tasks of its own group {group}"),
            Weakness::InsideAutogroup => f.write_str("nice counts only inside its session's autogroup"),
            Weakness::RealTime => f.write_str("nice has no effect while the task is real-time"),
        }
    }
}
