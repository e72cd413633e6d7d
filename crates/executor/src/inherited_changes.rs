//! Finds tasks that inherited changes: threads and child processes get policy, nice, affinity and clamps of the task that
//! creates them.

use rustc_hash::FxHashMap;
use unstarve_model::Tid;

use crate::journal::Step;
use unstarve_change::TaskKey;
use unstarve_change::{Aspect, Place, Value};

/// A task's place in the process tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kin {
    /// The task.
    pub key: TaskKey,
    /// Its process.
    pub tgid: Tid,
    /// The current parent of its process: PID 1 or a subreaper if the creator has exited.
    pub parent: Tid,
    /// A zombie: it inherits nothing, but its children may have inherited from it.
    pub has_ended: bool,
}

/// Maximum number of ancestors: reused pids could form a cycle.
const FURTHEST: usize = 256;

/// Finds tasks created after a change of an ancestor, or of another thread of their process, that have exactly the value set
/// there. Returns the changes that reverting means for them, by the nearest ancestor. A child whose parent has exited is not
/// found; a running guard has seen its fork.
pub fn find(kin: &[Kin], changes: &[Step], value: impl Fn(TaskKey, Aspect) -> Option<Value>) -> Vec<Step> {
    let process_of: FxHashMap<TaskKey, Tid> = kin.iter().map(|kin| (kin.key, kin.tgid)).collect();
    let parent_of: FxHashMap<Tid, Tid> = kin.iter().map(|kin| (kin.tgid, kin.parent)).collect();
    let mut by_process: FxHashMap<Tid, Vec<&Step>> = FxHashMap::default();
    for change in changes {
        let Place::Task(key) = change.target else { continue };
        if let Some(process) = process_of.get(&key) {
            by_process.entry(*process).or_default().push(change);
        }
    }
    by_process.values_mut().for_each(|changes| *changes = representatives(changes));
    let mut found = Vec::new();
    if by_process.is_empty() {
        return found;
    }
    for heir in kin.iter().filter(|heir| !heir.has_ended) {
        let mut ancestors: Vec<&[&Step]> = Vec::new();
        let mut process = heir.tgid;
        for _ in 0..FURTHEST {
            ancestors.extend(by_process.get(&process).map(Vec::as_slice));
            match parent_of.get(&process) {
                Some(parent) if parent.0 > 0 && *parent != process => process = *parent,
                _ => break,
            }
        }
        found.extend(of_ancestors(heir.key, &ancestors, &value));
    }
    found
}

/// Finds what processes have from threads that are gone: a thread that is not the leader and calls execve becomes the leader,
/// with the leader's pid and start time and with its own policy, nice, affinity and clamps (`de_thread()`, fs/exec.c).
pub fn taken_over(
    changes: &[Step],
    start_of: impl Fn(Tid) -> Option<u64>,
    value: impl Fn(TaskKey, Aspect) -> Option<Value>,
) -> Vec<Step> {
    let of_gone = |change: &&Step| match change.target {
        Place::Task(key) => start_of(key.tid) != Some(key.start),
        _ => false,
    };
    let mut found: Vec<Step> = Vec::new();
    for change in changes.iter().filter(of_gone) {
        let Some(process) = change.process.filter(|process| start_of(process.tid) == Some(process.start)) else {
            continue;
        };
        let target = Place::Task(process);
        let aspect = change.new.aspect();
        let has_own = |other: &Step| other.target == target && other.new.aspect() == aspect;
        if changes.iter().chain(&found).any(has_own) {
            continue;
        }
        let Some(now) = value(process, aspect).filter(|now| change.explains(now)) else { continue };
        found.push(Step { new: now, ..change.inherited_by(process, &change.comm) });
    }
    found
}

/// What a task inherited from its ancestors' changes, the nearest first. The value that a nearer ancestor goes back to may
/// itself be inherited, so the search continues beyond it.
fn of_ancestors(heir: TaskKey, ancestors: &[&[&Step]], value: &impl Fn(TaskKey, Aspect) -> Option<Value>) -> Vec<Step> {
    let mut aspects: Vec<Aspect> = ancestors.iter().flat_map(|changes| aspects_of(changes, heir)).collect();
    aspects.sort();
    aspects.dedup();
    let found = aspects.into_iter().filter_map(|aspect| {
        let value = value(heir, aspect)?;
        let of_aspect = || ancestors.iter().flat_map(|changes| changes.iter()).filter(|c| c.new.aspect() == aspect);
        let exactly = |change: &Step| change.new.same(&value);
        let by_steps = |change: &Step| change.explains(&value);
        let exact = ancestors.iter().find_map(|changes| inherited(changes, heir, &value, exactly));
        // A value that an ancestor had before was more likely inherited then than lowered to later.
        let may_be_step = || !of_aspect().any(|change| change.old.same(&value) || change.new.same(&value));
        let step = || ancestors.iter().find_map(|changes| inherited(changes, heir, &value, by_steps));
        let (change, before) = exact.or_else(|| may_be_step().then(step).flatten())?;
        Some(Step { old: before, new: value, ..change.inherited_by(heir, &change.comm) })
    });
    found.collect()
}

/// A process may have thousands of threads, all changed in the same way. The first two changed stand for all of them, ordered
/// by time (two, because a thread does not inherit from itself). An inherited change has the number of the parent's change.
fn representatives<'a>(changes: &[&'a Step]) -> Vec<&'a Step> {
    let mut by_task: FxHashMap<&Place, Vec<&'a Step>> = FxHashMap::default();
    for change in changes {
        by_task.entry(&change.target).or_default().push(change);
    }
    let mut tasks: Vec<Vec<&Step>> = by_task.into_values().collect();
    tasks.iter_mut().for_each(|changes| changes.sort_by_key(|change| change.seq));
    tasks.sort_by_key(|changes| changes.first().map(|change| (change.at, change.seq)));
    let mut seen: FxHashMap<String, u32> = FxHashMap::default();
    tasks.retain(|changes| {
        let alike: String = changes.iter().map(|change| format!("{}>{};", change.old, change.new)).collect();
        let count = seen.entry(alike).or_default();
        *count += 1;
        *count <= 2
    });
    let mut kept: Vec<&Step> = tasks.into_iter().flatten().collect();
    kept.sort_by_key(|change| change.seq);
    kept
}

/// What a task inherited from these changes of one other task, by its current value of each aspect.
pub fn of_one(heir: TaskKey, changes: &[&Step], value: impl Fn(TaskKey, Aspect) -> Option<Value>) -> Vec<Step> {
    of_ancestors(heir, &[changes], &value)
}

/// Whether a task was created after a change of another task.
fn is_since(change: &Step, heir: TaskKey) -> bool {
    change.at > 0 && heir.start >= change.at && change.target != Place::Task(heir)
}

fn aspects_of(changes: &[&Step], heir: TaskKey) -> Vec<Aspect> {
    let mut aspects: Vec<Aspect> =
        changes.iter().filter(|change| is_since(change, heir)).map(|change| change.new.aspect()).collect();
    aspects.sort();
    aspects.dedup();
    aspects
}

/// The change that set a value on an ancestor, which a task then inherited, and the value that the ancestor has when all its
/// changes are reverted. `None` if it was not inherited, or stays the same.
fn inherited<'a>(
    changes: &[&'a Step],
    heir: TaskKey,
    value: &Value,
    is_its_doing: impl Fn(&Step) -> bool,
) -> Option<(&'a Step, Value)> {
    let aspect = value.aspect();
    let is_it = |change: &&&Step| change.new.aspect() == aspect && is_since(change, heir) && is_its_doing(change);
    let set = changes.iter().rev().find(is_it)?;
    // A task may have been changed several times; it goes back to the value before the first of these changes.
    let mut before: Option<&Value> = None;
    for change in changes.iter().rev().filter(|change| change.target == set.target && change.new.aspect() == aspect) {
        if before.is_none_or(|before| change.explains(before)) {
            before = Some(&change.old);
        }
    }
    before.filter(|before| !before.same(value)).map(|before| (*set, before.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(tid: u32, start: u64) -> TaskKey {
        TaskKey { tid: Tid(tid), start }
    }

    fn kin(tid: u32, start: u64, tgid: u32, parent: u32) -> Kin {
        Kin { key: key(tid, start), tgid: Tid(tgid), parent: Tid(parent), has_ended: false }
    }

    #[test]
    fn children_grandchildren_and_threads_born_since_have_inherited() {
        let mut change = Step::new(Place::Task(key(10, 5)), "parent", "rule", Value::Nice(0), Value::Nice(-10));
        change.at = 100;
        let kin = [
            kin(1, 0, 1, 0),
            kin(10, 5, 10, 1),
            kin(11, 150, 10, 1),  // a thread
            kin(12, 150, 12, 10), // a child
            kin(13, 160, 13, 12), // its child
            kin(14, 50, 14, 10),  // a child that was there before, by chance with the same nice
            kin(15, 160, 15, 12), // a grandchild that has set its own
            kin(16, 160, 16, 1),  // not a descendant
        ];
        let nice = |key: TaskKey, _| Some(Value::Nice(if key.tid == Tid(15) { 3 } else { -10 }));
        let heirs = find(&kin, std::slice::from_ref(&change), nice);
        let tids: Vec<_> = heirs.iter().map(|heir| heir.target.to_string()).collect();
        assert_eq!(tids, ["task 11", "task 12", "task 13"]);
        assert!(heirs.iter().all(|heir| heir.old == Value::Nice(0) && heir.from == Some(key(10, 5))));
        assert!(find(&kin, &heirs[..0], nice).is_empty());
    }

    #[test]
    fn a_circle_of_parents_ends() {
        let mut change = Step::new(Place::Task(key(3, 0)), "", "rule", Value::Nice(0), Value::Nice(1));
        change.at = 1;
        let kin = [kin(3, 0, 3, 4), kin(4, 1, 4, 3), kin(5, 1, 5, 4)];
        assert_eq!(find(&kin, &[change], |_, _| Some(Value::Nice(1))).len(), 2);
    }
}
