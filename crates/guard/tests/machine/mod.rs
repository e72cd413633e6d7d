//! A reconciler on the fake host: what it sees there, what it hears of it, and its journal.

use std::fs::{self, File};
use std::io;
use std::ops::Deref;
use std::path::PathBuf;

use tempfile::TempDir;
use unstarve_change::{TaskKey, Value};
use unstarve_executor::Attributes;
use unstarve_executor::act;
use unstarve_executor::audit::Audit;
use unstarve_executor::journal::{Contents, Journal, JournalFile, Step};
use unstarve_guard::decide::Surroundings;
use unstarve_guard::reconciler::Reconciler;
use unstarve_guard::settings::Found;
use unstarve_guard::task_events::{Born, Signal};
use unstarve_guard::task_view::TaskView;
use unstarve_guard::{Kind, Owner, Policy, Task, Uid};
use unstarve_model::{SchedPolicy, Tid};
use unstarve_testing::fake_host::{FakeHost, FakeThread};

/// The fake host as a guard sees it; clones are the same one.
#[derive(Clone, Default)]
pub struct Machine(FakeHost);

impl Deref for Machine {
    type Target = FakeHost;

    fn deref(&self) -> &FakeHost {
        &self.0
    }
}

/// What can be compared of a task.
pub fn attributes(of: &Attributes) -> (SchedPolicy, u32, i32, bool) {
    (of.policy, of.rt_priority, of.nice, of.reset_on_fork)
}

impl Machine {
    pub fn birth(&self, tid: Tid) -> Signal {
        let (kernel, creator) = self.with(tid, |thread| (Kind::of(&thread.comm, thread.flags), thread.parent));
        let (kernel, creator) = (Some(kernel != Kind::User), Some(creator));
        Signal::Born(Born { tid, tgid: tid, time: 0, kernel, creator, will_execute: false })
    }

    pub fn exit(&self, tid: Tid) -> Signal {
        self.0.exit(tid);
        Signal::Ended { tid, ran: 0, cpu: 0, realtime: false }
    }

    pub fn rename(&self, tid: Tid, comm: &str) {
        self.with(tid, |thread| thread.comm = comm.to_owned());
    }

    /// Somebody else does it.
    pub fn renice(&self, tid: Tid, nice: i32) -> Signal {
        self.set(tid, Value::Nice(nice));
        Signal::Changed { tid, by: Tid(77), by_comm: "renice".to_owned() }
    }

    /// Another program has it as a child.
    pub fn started_by(&self, tid: Tid, parent: &str) {
        let parent = self.start(parent);
        self.with(tid, |thread| thread.parent = parent);
    }

    pub fn nice(&self, tid: Tid) -> i32 {
        self.with(tid, |thread| thread.attributes().nice)
    }

    pub fn resets_on_fork(&self, tid: Tid) -> bool {
        self.with(tid, |thread| thread.attributes().reset_on_fork)
    }

    pub fn policy(&self, tid: Tid) -> SchedPolicy {
        self.with(tid, |thread| thread.attributes().policy)
    }

    /// One of the programs there are.
    pub fn nth(&self, at: usize) -> Option<Tid> {
        let threads = self.threads();
        threads.get(at % threads.len().max(1)).map(|thread| thread.key.tid)
    }

    fn seen(&self, thread: &FakeThread) -> Task {
        let kind = Kind::of(&thread.comm, thread.flags);
        let user = Uid(thread.user);
        Task {
            key: thread.key,
            tgid: thread.process,
            parent: self.thread(thread.parent).map(|parent| (parent.key.tid, parent.comm)),
            comm: thread.comm.clone(),
            cmdline: None,
            cgroup: None,
            unit: thread.unit.clone(),
            kind,
            affinity_fixed: kind != Kind::User,
            owner: Some(Owner { real: user, effective: user, saved: user }),
            works: Vec::new(),
            attributes: thread.attributes(),
        }
    }
}

impl TaskView for Machine {
    fn all(&self) -> io::Result<Vec<Task>> {
        Ok(self.threads().iter().map(|thread| self.seen(thread)).collect())
    }

    fn task(&self, tid: Tid) -> Option<Task> {
        self.thread(tid).map(|thread| self.seen(&thread))
    }

    fn task_in(&self, tgid: Tid, tid: Tid) -> Option<Task> {
        self.task(tid).filter(|task| task.tgid == tgid)
    }

    fn ran_on(&self, key: TaskKey) -> Option<(u64, u32)> {
        Some((self.thread(key.tid)?.ran.as_nanos().try_into().ok()?, 1))
    }

    fn surroundings(&self, own: Vec<Tid>) -> Surroundings {
        Surroundings { own, ..Surroundings::default() }
    }

    fn settings(&self, _policy: &Policy) -> Vec<Found> {
        Vec::new()
    }
}

/// A reconciler with a real journal.
pub struct Rig {
    pub keeper: Reconciler<FakeHost, Machine>,
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
        let mut keeper =
            Reconciler::new(policy, Vec::new(), machine.0.clone(), machine.clone(), journal, Audit::none());
        let followed = machine.clone();
        keeper.follow_by(Some(Box::new(move |tid| followed.follow(tid))));
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
