//! Which task changes from what to what, and why, or why not. Pure: no I/O, so it is tested with made-up tasks.
//!
//! For each aspect the first rule in the file that matches wins; a later one that wants something else is noted, not
//! obeyed. What no rule may do is decided here too, whatever the rule says.

use std::fmt;

use unstarve_model::{CpuSet, Policy as Class, SchedPolicy, Tid};
use unstarve_sched::load_weight_of_nice;

use crate::policy::{Policy, Want};
use crate::task::{Kind, Task};
use unstarve_change::{Aspect, Value};

/// What has to be known of the machine beside its tasks.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Surroundings {
    /// Processes of the guard: no rule changes them.
    pub own: Vec<Tid>,
    /// Top-level groups and their load weights (nice 0 = 1024), heaviest first.
    pub groups: Vec<(String, u32)>,
    /// Whether sessions are groups of their own (`kernel.sched_autogroup_enabled`).
    pub autogroup: Option<bool>,
    /// The CPUs that are on. The kernel leaves the others out of an affinity, and undo has to recognise what it made.
    pub online: Option<CpuSet>,
}

/// What shall happen to a task.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// Changes in the order in which they are to be made.
    pub changes: Vec<Planned>,
    /// Aspects that are as a rule wants them already.
    pub kept: Vec<Planned>,
    /// What somebody should know.
    pub notes: Vec<Note>,
}

/// One change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Planned {
    /// The rule's index.
    pub rule: usize,
    /// What it is.
    pub old: Value,
    /// What it shall be.
    pub new: Value,
}

/// What somebody should know.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Note {
    /// The rule's index.
    pub rule: usize,
    /// What.
    pub kind: NoteKind,
}

/// See [`Note`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NoteKind {
    /// No rule may do that: why.
    Refused(Refusal),
    /// An earlier rule decides this aspect, and otherwise.
    Shadowed {
        /// The earlier rule's index.
        by: usize,
        /// What both want to decide.
        aspect: Aspect,
    },
    /// It will be set, and will not help.
    CannotWin(Weakness),
    /// Its children are born with what the rule sets, and get it taken back afterwards: why they are not born ordinary.
    Inherited(Heirloom),
    /// The task is stronger than the rule would make it, and stays so.
    Stronger {
        /// What it has.
        has: Value,
        /// What the rule would give it.
        wanted: Value,
    },
}

/// Why no rule may do that.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// It is the guard.
    Own,
    /// On the policy's deny-list.
    Denied,
    /// Migration, cpuhp, watchdog, idle injection.
    Untouchable,
    /// The first process.
    Init,
    /// SCHED_DEADLINE has guarantees that no rule can weigh.
    Deadline,
    /// A kernel thread that the kernel made real-time.
    LowersKernel,
    /// SCHED_IDLE for a kernel thread: others wait for it.
    IdlesKernel,
    /// `PF_NO_SETAFFINITY`.
    AffinityFixed,
    /// This kernel has no such thing.
    NotHere(Aspect),
    /// A slice is a fair task's.
    NotFair,
    /// None of its CPUs is online.
    NoSuchCpu,
}

/// Why it will not help.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Weakness {
    /// Beside this group it is still lighter.
    Outweighed {
        /// Of the nice value.
        weight: u32,
        /// The group.
        group: String,
        /// Its weight on one CPU.
        group_weight: u32,
        /// The nice that would equal it.
        needs: Option<i32>,
    },
    /// Nice counts only inside the task's own group.
    InsideGroup(String),
    /// Nice counts only inside the session's autogroup.
    InsideAutogroup,
    /// Nice has no effect on a real-time task.
    RealTime,
}

/// Why children of a raised task are born with what it was given: reset-on-fork would take from them what they would have had.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Heirloom {
    /// A nice value of the task's own, which the kernel would set to 0.
    Nice(i32),
    /// A policy of the task's own, which the kernel would make SCHED_OTHER.
    Policy(SchedPolicy),
    /// Clamps of the task's own.
    Clamps,
}

/// The order in which aspects are set, and the opposite of that in which they are taken back. Reset-on-fork comes first, so that
/// no child is born real-time before it holds or after it was taken back; then the class, since slices and nice depend on it.
const ORDER: [Aspect; 6] =
    [Aspect::ResetOnFork, Aspect::Class, Aspect::Nice, Aspect::Slice, Aspect::Affinity, Aspect::Uclamp];
/// Where these are in it.
const RESET_ON_FORK: usize = 0;
const CLASS: usize = 1;

/// What the policy wants of a task; `None` if no rule is about it.
pub fn decide(policy: &Policy, surroundings: &Surroundings, task: &Task) -> Option<Plan> {
    let mut winners: [Option<(usize, &Want)>; ORDER.len()] = [None; ORDER.len()];
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
            let Some(place) = ORDER.iter().position(|&other| other == aspect) else { continue };
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
    // The class that it will have, if that may be.
    let class = winners[CLASS]
        .filter(|(rule, want)| !is_stronger(policy, task, *rule, want))
        .map(|(_, want)| resolve(task, want).0)
        .filter(|class| refusal(task, class).is_none());
    let becomes_realtime = class.as_ref().is_some_and(Value::is_realtime);
    for (rule, want) in winners.into_iter().flatten() {
        let (mut new, aspect) = resolve(task, want);
        let note = |kind| Note { rule, kind };
        if let (Value::Affinity(cpus), Some(online)) = (&mut new, &surroundings.online) {
            *cpus = cpus.iter().filter(|&cpu| online.contains(cpu)).collect();
            if cpus.is_empty() {
                plan.notes.push(note(NoteKind::Refused(Refusal::NoSuchCpu)));
                continue;
            }
        }
        if aspect == Aspect::Slice && (becomes_realtime || !is_fair(task.attributes.policy)) {
            plan.notes.push(note(NoteKind::Refused(Refusal::NotFair)));
            continue;
        }
        let Some(old) = task.attributes.value(aspect) else {
            plan.notes.push(note(NoteKind::Refused(Refusal::NotHere(aspect))));
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
            // What is so already needs no refusal.
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
    if winners[RESET_ON_FORK].is_none() {
        keep_from_children(task, &mut plan);
    }
    Some(plan)
}

/// A program that is raised does not pass that on, unless its rule says so: the kernel gives the children of a task with reset-on-fork
/// SCHED_OTHER if it is real-time, and nice 0 if its nice is below (`sched_fork()`, kernel/sched/core.c). That is what they
/// would have had where the task itself has been ordinary; from others it would take something, and the guard takes back what
/// their children were born with.
fn keep_from_children(task: &Task, plan: &mut Plan) {
    if task.kind != Kind::User || task.attributes.reset_on_fork {
        return;
    }
    let Some(rule) = plan.changes.iter().find(|planned| planned.new.is_above_ordinary()).map(|planned| planned.rule)
    else {
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

/// What a task's children have from it that they would not be born with under reset-on-fork.
fn heirloom(task: &Task) -> Option<Heirloom> {
    let has = &task.attributes;
    match has.policy {
        SchedPolicy::Other if has.nice != 0 => Some(Heirloom::Nice(has.nice)),
        SchedPolicy::Other => has.uclamp.filter(|clamps| *clamps != (0, 1024)).map(|_| Heirloom::Clamps),
        policy => Some(Heirloom::Policy(policy)),
    }
}

impl Want {
    /// What it is about. Class and priority are one thing.
    pub fn aspect(&self) -> Aspect {
        match self {
            Want::Value(value) => value.aspect(),
            Want::Uclamp { .. } => Aspect::Uclamp,
            Want::Priority(_) => Aspect::Class,
        }
    }

    /// Whether it makes tasks real-time.
    pub fn is_realtime(&self) -> bool {
        match self {
            Want::Value(value) => value.is_realtime(),
            Want::Priority(_) => true,
            Want::Uclamp { .. } => false,
        }
    }
}

/// Whether the task has more than the rule wants for it, and the rule does not say that it shall have less.
fn is_stronger(policy: &Policy, task: &Task, rule: usize, want: &Want) -> bool {
    let (new, aspect) = resolve(task, want);
    let old = task.attributes.value(aspect);
    !policy.rules[rule].lower && old.is_some_and(|old| old.is_stronger_than(&new))
}

/// The value that a task shall have.
fn resolve(task: &Task, want: &Want) -> (Value, Aspect) {
    let value = match want {
        Want::Value(value) => value.clone(),
        Want::Uclamp { min, max } => {
            let (old_min, old_max) = task.attributes.uclamp.unwrap_or((0, 1024));
            // One clamp alone must not cross the other.
            let max = max.unwrap_or(old_max.max(min.unwrap_or(0)));
            Value::Uclamp { min: min.unwrap_or(old_min.min(max)), max }
        }
        Want::Priority(priority) => {
            let policy = match task.attributes.policy {
                SchedPolicy::Rr => SchedPolicy::Rr,
                _ => SchedPolicy::Fifo,
            };
            Value::Class { policy, rt_priority: *priority, slice: None }
        }
    };
    let aspect = value.aspect();
    (value, aspect)
}

fn is_fair(policy: SchedPolicy) -> bool {
    policy.class() == Some(Class::Fair)
}

/// Whether no rule may touch the task at all.
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

/// Whether no rule may do this to the task.
fn refusal(task: &Task, new: &Value) -> Option<Refusal> {
    match new {
        Value::Affinity(_) if task.affinity_fixed => Some(Refusal::AffinityFixed),
        Value::Class { .. } if task.kind == Kind::User => None,
        Value::Class { rt_priority, .. } if *rt_priority < task.attributes.rt_priority => Some(Refusal::LowersKernel),
        Value::Class { policy: SchedPolicy::Idle, .. } => Some(Refusal::IdlesKernel),
        _ => None,
    }
}

/// Whether a nice value will not do what somebody who writes it expects.
fn weakness(surroundings: &Surroundings, task: &Task, nice: i32, class: Option<&Value>) -> Option<Weakness> {
    let realtime = class.map_or(task.attributes.rt_priority > 0, Value::is_realtime);
    if realtime {
        return Some(Weakness::RealTime);
    }
    if nice >= 0 {
        // Lighter is what was asked for.
        return None;
    }
    match task.cgroup.as_deref() {
        Some("/") => {}
        Some(group) => return Some(Weakness::InsideGroup(group.to_owned())),
        // Kernel threads are in the root group, whatever was read.
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
            Refusal::NotHere(Aspect::Slice) => "this kernel has no slices of tasks (6.12 has)",
            Refusal::NotHere(Aspect::Uclamp) => "this kernel has no utilisation clamps (CONFIG_UCLAMP_TASK)",
            Refusal::NotHere(_) => "this kernel does not have that",
            Refusal::NoSuchCpu => "none of these CPUs is online",
            Refusal::NotFair => "only a fair task has a slice, and this one is not, or will not be",
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
