use rustc_hash::FxHashMap;
use unstarve_model::{CpuSet, Glob, Tid};

use crate::owner::UidSet;
use crate::scan::Wanted;
use crate::task::{Kind, Task};

/// Which tasks: all that is named must hold.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Selector {
    /// What the task is.
    pub kind: Option<Kind>,
    /// Its name.
    pub comm: Option<Glob>,
    /// Its process's arguments.
    pub cmdline: Option<Glob>,
    /// Its group.
    pub cgroup: Option<Glob>,
    /// Its unit.
    pub unit: Option<Glob>,
    /// A workqueue that it was seen to serve.
    pub workqueue: Option<Glob>,
    /// A function that it was seen to run.
    pub work: Option<Glob>,
    /// CPUs that its affinity does not go beyond.
    pub cpu: Option<Cpus>,
    /// The parent of its process.
    pub parent: Option<Parent>,
    /// Users of whom all its ids are.
    pub owner: Option<UidSet>,
}

/// A set of CPUs by its text, for comparing and hashing selectors.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cpus(pub CpuSet);

impl std::hash::Hash for Cpus {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.to_string().hash(state);
    }
}

/// A parent.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Parent {
    /// By its name.
    Comm(Glob),
    /// By its number.
    Pid(Tid),
}

impl Selector {
    /// Whether the task is meant. What is not known of it does not match.
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

    /// One and the same item must have both the workqueue and the function.
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

    /// Whether it asks for what a worker works on.
    pub fn asks_for_work(&self) -> bool {
        self.workqueue.is_some() || self.work.is_some()
    }

    pub(super) fn wanted(&self, wanted: Wanted) -> Wanted {
        Wanted {
            cmdline: wanted.cmdline || self.cmdline.is_some(),
            cgroup: wanted.cgroup || self.cgroup.is_some() || self.unit.is_some(),
            parent: wanted.parent || self.parent.is_some(),
            owner: wanted.owner || self.owner.is_some(),
        }
    }

    /// Whether it names nothing, and so would take every task of the machine.
    pub(super) fn is_empty(&self) -> bool {
        *self == Selector::default()
    }
}

/// Finds the rules that may match a name, without asking each of 100,000.
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

    /// In ascending order.
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
