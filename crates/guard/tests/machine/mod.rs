//! A machine in memory, and a keeper on it.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use tempfile::TempDir;
use unstarve_change::{Aspect, Place, TaskKey, Value};
use unstarve_executor::Attributes;
use unstarve_executor::act;
use unstarve_executor::audit::Audit;
use unstarve_executor::host::Host;
use unstarve_executor::inherited_changes::{self, Kin};
use unstarve_executor::journal::{Contents, Journal, JournalFile, Step};
use unstarve_guard::decide::Surroundings;
use unstarve_guard::reconciler::Reconciler;
use unstarve_guard::settings::Found;
use unstarve_guard::task_events::{Born, Signal};
use unstarve_guard::task_view::TaskView;
use unstarve_guard::{Kind, Owner, Policy, Task, Uid};
use unstarve_model::{SchedPolicy, Tid};

/// A task, and what it would be without a guard.
struct Living {
    task: Task,
    would_be: Attributes,
    parent: Tid,
    ran: Duration,
}

#[derive(Default)]
struct World {
    tasks: BTreeMap<Tid, Living>,
    last: u32,
    refused: BTreeSet<Tid>,
    at_write: Option<Rc<dyn Fn()>>,
    /// Whose children are noted from now on.
    followed: BTreeSet<Tid>,
    /// Who has what it has from whom, as the kernel's programs note it.
    origins: BTreeMap<Tid, Tid>,
}

/// A machine; clones are the same one.
#[derive(Clone, Default)]
pub struct Machine(Rc<RefCell<World>>);

/// What can be compared of a task.
pub fn attributes(of: &Attributes) -> (SchedPolicy, u32, i32, bool) {
    (of.policy, of.rt_priority, of.nice, of.reset_on_fork)
}

impl Machine {
    pub fn new() -> Machine {
        let machine = Machine::default();
        machine.0.borrow_mut().last = 1000;
        machine
    }

    fn add(&self, comm: &str, kind: Kind, parent: Tid, has: (Attributes, Attributes)) -> Tid {
        let mut world = self.0.borrow_mut();
        world.last += 1;
        let tid = Tid(world.last);
        let task = Task {
            // Long before any change: who has inherited what is known by news of births alone. By the tree of processes it is
            // known to a hundredth of a second, in which all of a test happens; that is for the live tests.
            key: TaskKey { tid, start: world.last.into() },
            tgid: tid,
            parent: None,
            comm: comm.to_owned(),
            cmdline: None,
            cgroup: None,
            unit: None,
            kind,
            affinity_fixed: kind != Kind::User,
            owner: None,
            works: Vec::new(),
            attributes: has.0,
        };
        world.tasks.insert(tid, Living { task, would_be: has.1, parent, ran: Duration::ZERO });
        tid
    }

    /// A new program, started by nobody in our care.
    pub fn program(&self, comm: &str) -> Tid {
        self.add(comm, Kind::User, Tid(1), (ordinary(), ordinary()))
    }

    pub fn kernel_thread(&self, comm: &str) -> Tid {
        self.add(comm, Kind::Kthread, Tid(2), (ordinary(), ordinary()))
    }

    pub fn name_kernel_thread(&self, tid: Tid, comm: &str, kind: Kind) {
        self.rename(tid, comm);
        self.with(tid, |living| living.task.kind = kind);
    }

    /// A child process, with all that its parent has.
    pub fn fork(&self, parent: Tid) -> Tid {
        let (like, has) = self.with(parent, |living| {
            (living.task.clone(), (born_of(&living.task.attributes), born_of(&living.would_be)))
        });
        let child = self.add(&like.comm, Kind::User, parent, has);
        self.with(child, |living| {
            (living.task.owner, living.task.unit, living.task.parent) = (like.owner, like.unit, like.parent);
        });
        let mut world = self.0.borrow_mut();
        let origin = world.origins.get(&parent).copied().or_else(|| world.followed.contains(&parent).then_some(parent));
        world.origins.extend(origin.map(|origin| (child, origin)));
        child
    }

    pub fn birth(&self, tid: Tid) -> Signal {
        self.with(tid, |living| {
            let kernel = living.task.kind != Kind::User;
            let creator = Some(living.parent);
            Signal::Born(Born { tid, tgid: tid, time: 0, kernel: Some(kernel), creator, will_execute: false })
        })
    }

    pub fn exit(&self, tid: Tid) -> Signal {
        let mut world = self.0.borrow_mut();
        world.tasks.remove(&tid);
        for living in world.tasks.values_mut().filter(|living| living.parent == tid) {
            living.parent = Tid(1);
        }
        Signal::Ended { tid, ran: 0, cpu: 0, realtime: false }
    }

    pub fn rename(&self, tid: Tid, comm: &str) {
        self.with(tid, |living| living.task.comm = comm.to_owned());
    }

    /// Somebody else does it.
    pub fn renice(&self, tid: Tid, nice: i32) -> Signal {
        self.with(tid, |living| {
            living.task.attributes.nice = nice;
            living.would_be.nice = nice;
        });
        Signal::Changed { tid, by: Tid(77), by_comm: "renice".to_owned() }
    }

    pub fn give_to(&self, tid: Tid, uid: u32) {
        let uid = Uid(uid);
        self.with(tid, |living| living.task.owner = Some(Owner { real: uid, effective: uid, saved: uid }));
    }

    pub fn move_to(&self, tid: Tid, unit: &str) {
        self.with(tid, |living| living.task.unit = Some(unit.to_owned()));
    }

    pub fn started_by(&self, tid: Tid, parent: &str) {
        self.with(tid, |living| living.task.parent = Some((Tid(77), parent.to_owned())));
    }

    /// Its number is another task's by now.
    pub fn reuse(&self, tid: Tid, comm: &str, nice: i32) {
        self.with(tid, |living| {
            living.task.key.start += 1_000;
            living.task.comm = comm.to_owned();
            living.task.attributes.nice = nice;
            living.would_be.nice = nice;
        });
    }

    pub fn run(&self, tid: Tid, time: Duration) {
        self.with(tid, |living| living.ran += time);
    }

    pub fn refuse(&self, tid: Tid) {
        self.0.borrow_mut().refused.insert(tid);
    }

    /// Done before each value is written.
    pub fn at_write(&self, look: impl Fn() + 'static) {
        self.0.borrow_mut().at_write = Some(Rc::new(look));
    }

    pub fn nice(&self, tid: Tid) -> i32 {
        self.with(tid, |living| living.task.attributes.nice)
    }

    pub fn resets_on_fork(&self, tid: Tid) -> bool {
        self.with(tid, |living| living.task.attributes.reset_on_fork)
    }

    pub fn policy(&self, tid: Tid) -> SchedPolicy {
        self.with(tid, |living| living.task.attributes.policy)
    }

    /// One of the programs there are.
    pub fn nth(&self, at: usize) -> Option<Tid> {
        let world = self.0.borrow();
        world.tasks.keys().nth(at % world.tasks.len().max(1)).copied()
    }

    /// Everybody: what it is, and what it would be without a guard.
    pub fn compared(&self) -> Vec<(Tid, String, Attributes, Attributes)> {
        let world = self.0.borrow();
        let row = |(tid, living): (&Tid, &Living)| {
            (*tid, living.task.comm.clone(), living.task.attributes.clone(), living.would_be.clone())
        };
        world.tasks.iter().map(row).collect()
    }

    fn with<T>(&self, tid: Tid, look: impl FnOnce(&mut Living) -> T) -> T {
        look(self.0.borrow_mut().tasks.get_mut(&tid).expect("a task that lives"))
    }

    fn task_of(&self, tid: Tid) -> Option<Task> {
        self.0.borrow().tasks.get(&tid).map(|living| living.task.clone())
    }

    fn kin(&self) -> Vec<Kin> {
        let world = self.0.borrow();
        let kin = |living: &Living| Kin {
            key: living.task.key,
            tgid: living.task.tgid,
            parent: living.parent,
            has_ended: false,
        };
        world.tasks.values().map(kin).collect()
    }
}

/// What a child has (`sched_fork()`, kernel/sched/core.c).
fn born_of(parent: &Attributes) -> Attributes {
    let mut child = Attributes { reset_on_fork: false, ..parent.clone() };
    if parent.reset_on_fork && parent.rt_priority > 0 {
        (child.policy, child.rt_priority, child.nice) = (SchedPolicy::Other, 0, 0);
    } else if parent.reset_on_fork {
        child.nice = child.nice.max(0);
    }
    child
}

fn ordinary() -> Attributes {
    Attributes {
        policy: SchedPolicy::Other,
        deadline: None,
        rt_priority: 0,
        nice: 0,
        reset_on_fork: false,
        slice: Some(3_000_000),
        uclamp: None,
        affinity: "0-3".parse().expect("CPUs"),
    }
}

fn key_of(place: &Place) -> TaskKey {
    match place {
        Place::Task(key) => *key,
        other => panic!("{other} is no task, and the model has nothing else"),
    }
}

impl Host for Machine {
    fn read(&self, target: &Place, aspect: Aspect) -> io::Result<Option<Value>> {
        let task = self.is_there(target).then(|| self.task_of(key_of(target).tid)).flatten();
        Ok(task.and_then(|task| task.attributes.value(aspect)))
    }

    fn is_there(&self, target: &Place) -> bool {
        let key = key_of(target);
        self.task_of(key.tid).is_some_and(|task| task.key == key)
    }

    fn write(&mut self, target: &Place, value: &Value) -> io::Result<()> {
        let tid = key_of(target).tid;
        let look = self.0.borrow().at_write.clone();
        if let Some(look) = look {
            look();
        }
        if self.0.borrow().refused.contains(&tid) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        self.with(tid, |living| match value {
            Value::Nice(nice) => living.task.attributes.nice = *nice,
            Value::Class { policy, rt_priority, .. } => {
                (living.task.attributes.policy, living.task.attributes.rt_priority) = (*policy, *rt_priority);
            }
            Value::ResetOnFork(on) => living.task.attributes.reset_on_fork = *on,
            other => panic!("the rules of these tests set no {other}"),
        });
        Ok(())
    }

    fn heirs(&self, changes: &[Step]) -> Vec<Step> {
        let value = |key: TaskKey, aspect| self.task_of(key.tid)?.attributes.value(aspect);
        inherited_changes::find(&self.kin(), changes, value)
    }

    fn origin(&self, tid: Tid) -> Option<Tid> {
        self.0.borrow().origins.get(&tid).copied()
    }
}

impl TaskView for Machine {
    fn all(&self) -> io::Result<Vec<Task>> {
        Ok(self.0.borrow().tasks.values().map(|living| living.task.clone()).collect())
    }

    fn task(&self, tid: Tid) -> Option<Task> {
        self.task_of(tid)
    }

    fn task_in(&self, tgid: Tid, tid: Tid) -> Option<Task> {
        self.task_of(tid).filter(|task| task.tgid == tgid)
    }

    fn ran_on(&self, key: TaskKey) -> Option<(u64, u32)> {
        let world = self.0.borrow();
        let living = world.tasks.get(&key.tid)?;
        Some((living.ran.as_nanos().try_into().ok()?, 1))
    }

    fn surroundings(&self, own: Vec<Tid>) -> Surroundings {
        Surroundings { own, ..Surroundings::default() }
    }

    fn settings(&self, _policy: &Policy) -> Vec<Found> {
        Vec::new()
    }
}

/// A keeper with a real journal.
pub struct Rig {
    pub keeper: Reconciler<Machine, Machine>,
    directory: TempDir,
}

const BOOT: &str = "this-boot";

impl Rig {
    pub fn new(policy: Policy, machine: &Machine) -> Rig {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("journal");
        let file = File::options().create(true).append(true).open(&path).expect("a journal");
        let store = JournalFile::new(file).expect("a journal");
        let journal = Journal::over(store, &path, BOOT, Contents::default()).expect("a journal");
        let mut keeper = Reconciler::new(policy, Vec::new(), machine.clone(), machine.clone(), journal, Audit::none());
        let followed = machine.clone();
        keeper.follow_by(Some(Box::new(move |tid| {
            followed.0.borrow_mut().followed.insert(tid);
        })));
        Rig { keeper, directory }
    }

    pub fn hear(&mut self, signal: Signal) {
        self.keeper.hear(&mut vec![signal]).expect("a journal that can be written");
    }

    pub fn journal_path(&self) -> PathBuf {
        self.directory.path().join("journal")
    }

    /// What a process that finds the journal would take back.
    pub fn written_down(&self) -> Vec<Step> {
        let bytes = fs::read(self.journal_path()).expect("a journal");
        Contents::parse(&bytes, BOOT).expect("a journal of this version").open
    }

    pub fn take_back(&mut self) {
        self.keeper.close();
        let open = self.keeper.journal().open_changes();
        let (host, journal, audit) = self.keeper.for_taking_back();
        let undone = act::undo(host, journal, audit, &open);
        assert!(undone.failed.is_empty(), "{:?}", undone.failed);
    }
}
