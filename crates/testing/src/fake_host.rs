//! A host in memory: threads and files with their values, on which plans are made, applied and taken back, and on which a guard is at work.
//!
//! Of the kernel it knows what changes and their undoing depend on: what a child inherits, that a thread's id is used again, that an
//! affinity is cut to the CPUs that there are, that a write may be refused. Commands of a shell run on [`crate::model`] instead.

use std::cell::{Ref, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use unstarve_change::{Aspect, Place, TaskKey, Value};
use unstarve_executor::Attributes;
use unstarve_executor::host::Host;
use unstarve_executor::inherited_changes::{self, Kin};
use unstarve_executor::journal::Step;
use unstarve_executor::plan::Look;
use unstarve_facts::flag;
use unstarve_model::{CpuSet, SchedPolicy, Tid};
use unstarve_sched::setting::File;

/// What can be set of a thread.
type Values = BTreeMap<Aspect, Value>;

/// A thread.
#[derive(Clone, PartialEq, Debug)]
pub struct FakeThread {
    /// Which it is.
    pub key: TaskKey,
    /// Its name.
    pub comm: String,
    /// Its `PF_*` flags.
    pub flags: u64,
    /// Its process.
    pub process: Tid,
    /// The process that made it, or 1 once that has ended; 2 made the kernel's.
    pub parent: Tid,
    /// Its user.
    pub user: u32,
    /// Its unit of the system's manager.
    pub unit: Option<String>,
    /// Its CPU time.
    pub ran: Duration,
    values: Values,
    /// What they would be if nothing had been written through [`Host`].
    baseline: Values,
}

impl FakeThread {
    /// What it has.
    pub fn attributes(&self) -> Attributes {
        attributes(&self.values)
    }

    /// What it would have if nothing had been written through [`Host`].
    pub fn baseline_attributes(&self) -> Attributes {
        attributes(&self.baseline)
    }
}

/// Everything on a host that can be compared.
#[derive(Clone, PartialEq, Debug)]
pub struct FakeState {
    threads: BTreeMap<Tid, FakeThread>,
    files: BTreeMap<String, String>,
    interrupts: BTreeMap<u32, Vec<String>>,
    /// Of directories that are not root's.
    owners: BTreeMap<String, u32>,
    /// Sessions (autogroups) by number, with their nice value; and who is in which.
    sessions: BTreeMap<u64, i32>,
    in_session: BTreeMap<Tid, u64>,
    cpus: CpuSet,
    newest: Tid,
    refused: BTreeSet<Tid>,
    /// Whose children are noted from now on.
    followed: BTreeSet<Tid>,
    /// The thread from which each thread inherited its settings, as the guard's eBPF programs record it.
    origins: BTreeMap<Tid, Tid>,
}

type AtWrite = Rc<dyn Fn(&FakeHost)>;

/// The host; clones are the same one.
#[derive(Clone)]
pub struct FakeHost {
    state: Rc<RefCell<FakeState>>,
    at_write: Rc<RefCell<Option<AtWrite>>>,
}

impl Default for FakeHost {
    /// A host of four CPUs without threads.
    fn default() -> FakeHost {
        let state = FakeState {
            threads: BTreeMap::new(),
            files: BTreeMap::new(),
            interrupts: BTreeMap::new(),
            owners: BTreeMap::new(),
            sessions: BTreeMap::new(),
            in_session: BTreeMap::new(),
            cpus: (0..4).map(unstarve_model::CpuId).collect(),
            newest: Tid(1000),
            refused: BTreeSet::new(),
            followed: BTreeSet::new(),
            origins: BTreeMap::new(),
        };
        FakeHost { state: Rc::new(RefCell::new(state)), at_write: Rc::default() }
    }
}

impl fmt::Debug for FakeHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.state.borrow().fmt(f)
    }
}

/// What is there from the beginning.
impl FakeHost {
    /// An ordinary thread of a program that is a process, created at this tick.
    #[must_use]
    pub fn program(self, tid: u32, start: u64, comm: &str) -> FakeHost {
        self.add(TaskKey { tid: Tid(tid), start }, comm, 0);
        self
    }

    /// An ordinary kernel thread.
    #[must_use]
    pub fn kernel_thread(self, tid: u32, start: u64, comm: &str) -> FakeHost {
        self.add(TaskKey { tid: Tid(tid), start }, comm, flag::KTHREAD);
        self
    }

    /// The thread runs for this user.
    #[must_use]
    pub fn of_user(self, tid: u32, user: u32) -> FakeHost {
        self.with(Tid(tid), |thread| thread.user = user);
        self
    }

    /// The thread is in this session (autogroup), whose nice value as a whole is this.
    #[must_use]
    pub fn in_session(self, tid: u32, id: u64, nice: i32) -> FakeHost {
        let mut state = self.state.borrow_mut();
        state.in_session.insert(Tid(tid), id);
        state.sessions.insert(id, nice);
        drop(state);
        self
    }

    /// A file of the kernel's.
    #[must_use]
    pub fn file(self, path: &str, text: &str) -> FakeHost {
        self.state.borrow_mut().files.insert(path.to_owned(), text.to_owned());
        self
    }

    /// A directory belongs to this user.
    #[must_use]
    pub fn owned_by(self, directory: &str, user: u32) -> FakeHost {
        self.state.borrow_mut().owners.insert(directory.to_owned(), user);
        self
    }

    /// An interrupt with a handler.
    #[must_use]
    pub fn interrupt(self, irq: u32, handler: &str, cpus: &str) -> FakeHost {
        self.state.borrow_mut().interrupts.insert(irq, vec![handler.to_owned()]);
        self.file(&format!("/proc/irq/{irq}/smp_affinity_list"), cpus)
    }

    /// These CPUs are all that threads added later can have, as in a cpuset.
    #[must_use]
    pub fn limited_to(self, cpus: CpuSet) -> FakeHost {
        self.state.borrow_mut().cpus = cpus;
        self
    }

    fn add(&self, key: TaskKey, comm: &str, flags: u64) {
        let mut state = self.state.borrow_mut();
        let class = Value::Class { policy: SchedPolicy::Other, rt_priority: 0, slice: Some(3_000_000) };
        let affinity = Value::Affinity(state.cpus.clone());
        let all = [class, Value::Nice(0), Value::Slice(3_000_000), Value::ResetOnFork(false), affinity];
        let values: Values = all.map(|value| (value.aspect(), value)).into();
        let thread = FakeThread {
            key,
            comm: comm.to_owned(),
            flags,
            process: key.tid,
            parent: if flags & flag::KTHREAD == 0 { Tid(1) } else { Tid(2) },
            user: 0,
            unit: None,
            ran: Duration::ZERO,
            baseline: values.clone(),
            values,
        };
        state.threads.insert(key.tid, thread);
    }
}

/// What happens on it.
impl FakeHost {
    fn next(&self) -> TaskKey {
        let mut state = self.state.borrow_mut();
        state.newest = Tid(state.newest.0 + 1);
        // Long before any change: who has inherited what is known by news of births alone. By the tree of processes it is known to a
        // hundredth of a second, in which all of a test happens; that is for the live tests.
        TaskKey { tid: state.newest, start: state.newest.0.into() }
    }

    /// A program starts.
    pub fn start(&self, comm: &str) -> Tid {
        let key = self.next();
        self.add(key, comm, 0);
        key.tid
    }

    /// A kernel thread starts.
    pub fn start_kernel_thread(&self, comm: &str) -> Tid {
        let key = self.next();
        self.add(key, comm, flag::KTHREAD);
        key.tid
    }

    /// A thread has a child process, with all that the kernel hands on.
    pub fn fork(&self, parent: Tid) -> Tid {
        let child = self.next();
        assert!(self.fork_as(parent, child), "{parent} has ended");
        child.tid
    }

    /// The same with a number and a time of birth of the test's choice. Whether there was a child: the parent lives, and the number is free.
    pub fn fork_as(&self, parent: Tid, child: TaskKey) -> bool {
        let mut state = self.state.borrow_mut();
        let (Some(of), false) = (state.threads.get(&parent), state.threads.contains_key(&child.tid)) else {
            return false;
        };
        let born = FakeThread {
            key: child,
            process: child.tid,
            parent: of.process,
            ran: Duration::ZERO,
            values: inherited(&of.values),
            baseline: inherited(&of.baseline),
            ..of.clone()
        };
        state.threads.insert(child.tid, born);
        let origin = state.origins.get(&parent).copied().or_else(|| state.followed.contains(&parent).then_some(parent));
        state.origins.extend(origin.map(|origin| (child.tid, origin)));
        true
    }

    /// A thread ends; its children become those of process 1.
    pub fn exit(&self, tid: Tid) {
        let mut state = self.state.borrow_mut();
        state.threads.remove(&tid);
        for orphan in state.threads.values_mut().filter(|thread| thread.parent == tid) {
            orphan.parent = Tid(1);
        }
    }

    /// Somebody else sets a value.
    pub fn set(&self, tid: Tid, value: Value) {
        self.with(tid, |thread| {
            thread.values.insert(value.aspect(), value.clone());
            thread.baseline.insert(value.aspect(), value);
        });
    }

    /// A thread changes in another way.
    ///
    /// # Panics
    /// If it has ended.
    pub fn with<T>(&self, tid: Tid, change: impl FnOnce(&mut FakeThread) -> T) -> T {
        change(self.state.borrow_mut().threads.get_mut(&tid).expect("a thread that lives"))
    }

    /// Values of this thread cannot be written from now on.
    pub fn refuse(&self, tid: Tid) {
        self.state.borrow_mut().refused.insert(tid);
    }

    /// Who is born of this thread, and of those, is noted from now on.
    pub fn follow(&self, tid: Tid) {
        self.state.borrow_mut().followed.insert(tid);
    }

    /// Called before and after each value of a thread is written, until another is set. It may panic in place of a writer that is killed.
    pub fn at_write(&self, look: impl Fn(&FakeHost) + 'static) {
        *self.at_write.borrow_mut() = Some(Rc::new(look));
    }
}

/// What is there now.
impl FakeHost {
    /// Everything, to be compared later.
    pub fn state(&self) -> FakeState {
        self.state.borrow().clone()
    }

    /// A thread, unless it has ended.
    pub fn thread(&self, tid: Tid) -> Option<FakeThread> {
        self.state.borrow().threads.get(&tid).cloned()
    }

    /// All threads, by number.
    pub fn threads(&self) -> Vec<FakeThread> {
        self.state.borrow().threads.values().cloned().collect()
    }

    /// A thread's value.
    ///
    /// # Panics
    /// If it has ended.
    pub fn value(&self, tid: Tid, aspect: Aspect) -> Option<Value> {
        self.with(tid, |thread| thread.values.get(&aspect).cloned())
    }

    fn looked_up<T>(&self, tid: Tid, of: impl FnOnce(&FakeThread) -> T) -> Option<T> {
        self.state.borrow().threads.get(&tid).map(of)
    }

    fn of_key(&self, key: TaskKey) -> Option<Ref<'_, FakeThread>> {
        let found = Ref::filter_map(self.state.borrow(), |state| state.threads.get(&key.tid)).ok()?;
        (found.key == key).then_some(found)
    }

    fn write_to(&self, key: TaskKey, value: &Value) -> io::Result<()> {
        let look = self.at_write.borrow().clone();
        let call = || look.iter().for_each(|look| look(self));
        call();
        let mut state = self.state.borrow_mut();
        if state.refused.contains(&key.tid) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let shown = match value {
            // What is read is not what was written.
            Value::Affinity(cpus) => Value::Affinity(cpus.iter().filter(|cpu| state.cpus.contains(*cpu)).collect()),
            other => other.clone(),
        };
        let thread = state.threads.get_mut(&key.tid).filter(|thread| thread.key == key).ok_or_else(gone)?;
        thread.values.insert(shown.aspect(), shown);
        drop(state);
        call();
        Ok(())
    }
}

fn gone() -> io::Error {
    rustix::io::Errno::SRCH.into()
}

/// What a child has (`sched_fork()`, kernel/sched/core.c).
fn inherited(of: &Values) -> Values {
    let mut child = of.clone();
    if child.insert(Aspect::ResetOnFork, Value::ResetOnFork(false)) == Some(Value::ResetOnFork(true)) {
        let is_realtime = child.get(&Aspect::Class).is_some_and(Value::is_realtime);
        let nice = match child.get(&Aspect::Nice) {
            Some(Value::Nice(nice)) if !is_realtime => (*nice).max(0),
            _ => 0,
        };
        child.insert(Aspect::Nice, Value::Nice(nice));
        if is_realtime {
            let class = Value::Class { policy: SchedPolicy::Other, rt_priority: 0, slice: None };
            child.insert(Aspect::Class, class);
        }
    }
    child
}

fn attributes(values: &Values) -> Attributes {
    let mut all = Attributes {
        policy: SchedPolicy::Other,
        deadline: None,
        rt_priority: 0,
        nice: 0,
        reset_on_fork: false,
        slice: None,
        uclamp: None,
        affinity: CpuSet::default(),
        files: Vec::new(),
    };
    for value in values.values() {
        match value {
            Value::Class { policy, rt_priority, .. } => (all.policy, all.rt_priority) = (*policy, *rt_priority),
            Value::Nice(nice) => all.nice = *nice,
            Value::Slice(slice) => all.slice = Some(*slice),
            Value::Affinity(cpus) => all.affinity = cpus.clone(),
            Value::ResetOnFork(on) => all.reset_on_fork = *on,
            other if other.of_task().is_some_and(|setting| setting.file.is_some()) => all.files.push(other.clone()),
            other => panic!("no test sets {other} of a thread"),
        }
    }
    all
}

impl Host for FakeHost {
    fn read(&self, target: &Place, aspect: Aspect) -> io::Result<Option<Value>> {
        let state = self.state.borrow();
        Ok(match target {
            Place::Task(key) => self.of_key(*key).and_then(|thread| thread.values.get(&aspect).cloned()),
            Place::Session { id } => {
                state.sessions.get(id).copied().map(Value::Nice).filter(|_| aspect == Aspect::Nice)
            }
            Place::File { path, .. } => state
                .files
                .get(path)
                .map(|text| Value::content(File::at(path).map_or(text.as_str(), |file| file.in_force(text)))),
            Place::Feature { .. } => None,
        })
    }

    fn is_there(&self, target: &Place) -> bool {
        let state = self.state.borrow();
        match target {
            Place::Task(key) => self.of_key(*key).is_some(),
            Place::Session { id } => state.sessions.contains_key(id),
            Place::File { path, .. } | Place::Feature { path, .. } => state.files.contains_key(path),
        }
    }

    fn handlers(&self, target: &Place) -> Option<Vec<String>> {
        match target {
            Place::File { path, .. } => self.handlers_of(unstarve_sched::setting::interrupt_of(path)?),
            _ => None,
        }
    }

    fn write(&mut self, target: &Place, value: &Value) -> io::Result<()> {
        match (target, value) {
            (Place::Task(key), value) => return self.write_to(*key, value),
            (Place::Session { id }, Value::Nice(nice)) => {
                *self.state.borrow_mut().sessions.get_mut(id).ok_or_else(gone)? = *nice;
            }
            (Place::File { path, .. }, Value::Content(content)) => {
                self.state.borrow_mut().files.insert(path.clone(), content.to_string());
            }
            _ => return Err(io::ErrorKind::InvalidInput.into()),
        }
        Ok(())
    }

    fn heirs(&self, changes: &[Step]) -> Vec<Step> {
        let state = self.state.borrow();
        let kin = |thread: &FakeThread| Kin {
            key: thread.key,
            tgid: thread.process,
            parent: thread.parent,
            has_ended: false,
        };
        let all: Vec<Kin> = state.threads.values().map(kin).collect();
        inherited_changes::find(&all, changes, |key, aspect| self.of_key(key)?.values.get(&aspect).cloned())
    }

    fn origin(&self, tid: Tid) -> Option<Tid> {
        self.state.borrow().origins.get(&tid).copied()
    }
}

impl Look for FakeHost {
    fn start_of(&self, tid: Tid) -> Option<u64> {
        self.looked_up(tid, |thread| thread.key.start)
    }

    fn comm_of(&self, tid: Tid) -> Option<String> {
        self.looked_up(tid, |thread| thread.comm.clone())
    }

    fn flags_of(&self, tid: Tid) -> Option<u64> {
        self.looked_up(tid, |thread| thread.flags)
    }

    fn user_of(&self, tid: Tid) -> Option<u32> {
        self.looked_up(tid, |thread| thread.user)
    }

    fn owner_of_directory(&self, path: &str) -> Option<u32> {
        let (directory, _) = path.rsplit_once('/')?;
        let state = self.state.borrow();
        state.files.contains_key(path).then(|| state.owners.get(directory).copied().unwrap_or(0))
    }

    fn threads_of(&self, process: Tid) -> Vec<Tid> {
        let state = self.state.borrow();
        state.threads.values().filter(|thread| thread.process == process).map(|thread| thread.key.tid).collect()
    }

    fn session_of(&self, tid: Tid) -> Option<u64> {
        self.state.borrow().in_session.get(&tid).copied()
    }

    fn kernel_threads(&self, prefix: &str) -> Vec<Tid> {
        let is_one = |thread: &&FakeThread| thread.flags & flag::KTHREAD != 0 && thread.comm.starts_with(prefix);
        self.state.borrow().threads.values().filter(is_one).map(|thread| thread.key.tid).collect()
    }

    fn file(&self, path: &str) -> Option<Place> {
        let is_there = self.state.borrow().files.contains_key(path);
        is_there.then(|| Place::File { path: path.to_owned(), inode: 1, root: None })
    }

    fn text(&self, path: &str) -> io::Result<String> {
        self.state.borrow().files.get(path).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn handlers_of(&self, irq: u32) -> Option<Vec<String>> {
        self.state.borrow().interrupts.get(&irq).cloned()
    }

    fn weight_file(&self, _: Tid) -> Option<(String, unstarve_sched::setting::cgroup::CgroupVersion)> {
        None
    }
}
