//! Selectors: which tasks a rule matches, and an index that finds candidate rules by task name.

use rustc_hash::FxHashMap;
use unstarve_model::{CpuSet, Glob, Tid};

use crate::owner::UidSet;
use crate::scan::Wanted;
use crate::task::{Kind, Task};

/// The conditions of a rule; a task must satisfy all that are set.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Selector {
    /// The kind of task.
    pub kind: Option<Kind>,
    /// The task's name.
    pub comm: Option<Glob>,
    /// The arguments of its process.
    pub cmdline: Option<Glob>,
    /// Its cgroup.
    pub cgroup: Option<Glob>,
    /// Its systemd unit.
    pub unit: Option<Glob>,
    /// A workqueue that the worker has served.
    pub workqueue: Option<Glob>,
    /// A function that the worker has executed.
    pub work: Option<Glob>,
    /// CPUs that its affinity must be within.
    pub cpu: Option<Cpus>,
    /// The parent of its process.
    pub parent: Option<Parent>,
    /// Users that all its ids must belong to.
    pub owner: Option<UidSet>,
}

/// A set of CPUs with its text, so that selectors can be compared and hashed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cpus(pub CpuSet);

impl std::hash::Hash for Cpus {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.to_string().hash(state);
    }
}

/// The parent process.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Parent {
    /// By name.
    Comm(Glob),
    /// By pid.
    Pid(Tid),
}

impl Selector {
    /// Whether a task satisfies all conditions. An unknown property does not match.
    pub fn matches(&self, task: &Task) -> bool {
        let glob = |glob: &Option<Glob>, text: Option<&str>| {
            glob.as_ref().is_none_or(|glob| text.is_some_and(|text| glob.matches(text)))
        };
        self.kind.is_none_or(|kind| kind.covers(task.kind))
            && glob(&self.comm, Some(&task.comm))
            && glob(&self.cgroup, task.cgroup.as_deref())
            && glob(&self.unit, task.unit.as_deref())
            && glob(&self.cmdline, task.cmdline.as_deref())
            && self.works_match(task)
            && self.owner.as_ref().is_none_or(|set| task.owner.is_some_and(|owner| owner.is_within(set)))
            && self.cpu.as_ref().is_none_or(|cpus| {
                let allowed = &task.attributes.affinity;
                !allowed.is_empty() && allowed.iter().all(|cpu| cpus.0.contains(cpu))
            })
            && self.parent.as_ref().is_none_or(|wanted| match (wanted, &task.parent) {
                (_, None) => false,
                (Parent::Pid(pid), Some((parent, _))) => pid == parent,
                (Parent::Comm(glob), Some((_, comm))) => glob.matches(comm),
            })
    }

    /// Workqueue and function must match the same work item.
    fn works_match(&self, task: &Task) -> bool {
        if self.workqueue.is_none() && self.work.is_none() {
            return true;
        }
        let is = |glob: &Option<Glob>, text: &Option<String>| {
            glob.as_ref().is_none_or(|glob| text.as_ref().is_some_and(|text| glob.matches(text)))
        };
        task.kind == Kind::Kworker
            && task.works.iter().any(|work| is(&self.workqueue, &work.workqueue) && is(&self.work, &work.function))
    }

    /// Whether it has conditions on the work items of a worker.
    pub fn asks_for_work(&self) -> bool {
        self.workqueue.is_some() || self.work.is_some()
    }

    pub(super) fn wanted(&self, wanted: Wanted) -> Wanted {
        Wanted {
            cmdline: wanted.cmdline || self.cmdline.is_some(),
            cgroup: wanted.cgroup || self.cgroup.is_some() || self.unit.is_some(),
            parent: wanted.parent || self.parent.is_some(),
            owner: wanted.owner || self.owner.is_some(),
            settings: wanted.settings,
        }
    }

    /// Whether it has no condition, and so would match every task.
    pub(super) fn is_empty(&self) -> bool {
        *self == Selector::default()
    }
}

/// Finds the rules that may match a task name without trying up to 100,000 rules.
#[derive(Clone, Debug, Default)]
pub struct Index {
    by_comm: FxHashMap<String, Vec<usize>>,
    others: Vec<usize>,
}

impl Index {
    pub(super) fn new<'a>(selectors: impl Iterator<Item = &'a Selector>) -> Index {
        let mut index = Index::default();
        for (number, selector) in selectors.enumerate() {
            match selector.comm.as_ref().and_then(Glob::literal) {
                Some(comm) => index.by_comm.entry(comm).or_default().push(number),
                None => index.others.push(number),
            }
        }
        index
    }

    /// Candidate rules, ascending.
    pub(super) fn candidates(&self, comm: &str) -> impl Iterator<Item = usize> {
        let mut named = self.by_comm.get(comm).map(Vec::as_slice).unwrap_or_default().iter().copied().peekable();
        let mut others = self.others.iter().copied().peekable();
        std::iter::from_fn(move || match (named.peek(), others.peek()) {
            (Some(name), Some(other)) if name < other => named.next(),
            (Some(_), None) => named.next(),
            _ => others.next(),
        })
    }
}
