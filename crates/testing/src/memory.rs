//! A host in memory: threads and files with values, on which plans are made, applied and undone.

use std::collections::BTreeMap;
use std::io;

use unstarve_change::{Aspect, Place, TaskKey, Value};
use unstarve_executor::host::Host;
use unstarve_executor::plan::Look;
use unstarve_facts::flag;
use unstarve_model::{SchedPolicy, Tid};

/// A thread as in `/proc`, with its settings.
#[derive(Clone, PartialEq, Debug)]
struct FakeThread {
    start: u64,
    comm: String,
    flags: u64,
    user: u32,
    process: Tid,
    values: BTreeMap<Aspect, Value>,
}

/// The host.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Memory {
    threads: BTreeMap<Tid, FakeThread>,
    files: BTreeMap<String, String>,
    interrupts: BTreeMap<u32, Vec<String>>,
    /// The owners of directories that are not root's.
    owners: BTreeMap<String, u32>,
    /// Sessions by number with their nice value, and the threads in each.
    sessions: BTreeMap<u64, i32>,
    in_session: BTreeMap<Tid, u64>,
}

impl Memory {
    /// Adds an ordinary process with one thread, created at this tick.
    #[must_use]
    pub fn program(self, tid: u32, start: u64, comm: &str) -> Memory {
        self.thread(tid, start, comm, 0)
    }

    /// Adds an ordinary kernel thread.
    #[must_use]
    pub fn kernel_thread(self, tid: u32, start: u64, comm: &str) -> Memory {
        self.thread(tid, start, comm, flag::KTHREAD)
    }

    fn thread(mut self, tid: u32, start: u64, comm: &str, flags: u64) -> Memory {
        let class = Value::Class { policy: SchedPolicy::Other, rt_priority: 0, slice: None };
        let values = [class, Value::Nice(0)].map(|value| (value.aspect(), value)).into();
        self.threads
            .insert(Tid(tid), FakeThread { start, comm: comm.to_owned(), flags, user: 0, process: Tid(tid), values });
        self
    }

    /// Makes the thread run as this user.
    #[must_use]
    pub fn of_user(mut self, tid: u32, user: u32) -> Memory {
        if let Some(known) = self.threads.get_mut(&Tid(tid)) {
            known.user = user;
        }
        self
    }

    /// Puts the thread into this session (autogroup) with this nice value.
    #[must_use]
    pub fn in_session(mut self, tid: u32, id: u64, nice: i32) -> Memory {
        self.in_session.insert(Tid(tid), id);
        self.sessions.insert(id, nice);
        self
    }

    /// Adds a kernel file.
    #[must_use]
    pub fn file(mut self, path: &str, text: &str) -> Memory {
        self.files.insert(path.to_owned(), text.to_owned());
        self
    }

    /// Makes a directory belong to this user.
    #[must_use]
    pub fn owned_by(mut self, directory: &str, user: u32) -> Memory {
        self.owners.insert(directory.to_owned(), user);
        self
    }

    /// Adds an interrupt with a handler.
    #[must_use]
    pub fn interrupt(mut self, irq: u32, handler: &str, cpus: &str) -> Memory {
        self.interrupts.insert(irq, vec![handler.to_owned()]);
        self.file(&format!("/proc/irq/{irq}/smp_affinity_list"), cpus)
    }

    fn known(&self, key: TaskKey) -> Option<&FakeThread> {
        self.threads.get(&key.tid).filter(|known| known.start == key.start)
    }
}

impl Host for Memory {
    fn read(&self, target: &Place, aspect: Aspect) -> io::Result<Option<Value>> {
        Ok(match target {
            Place::Task(key) => self.known(*key).and_then(|known| known.values.get(&aspect).cloned()),
            Place::Session { id } => self.sessions.get(id).copied().map(Value::Nice).filter(|_| aspect == Aspect::Nice),
            Place::File { path, .. } => self.files.get(path).cloned().map(Value::Text),
            Place::Feature { .. } => None,
        })
    }

    fn is_there(&self, target: &Place) -> bool {
        match target {
            Place::Task(key) => self.known(*key).is_some(),
            Place::Session { id } => self.sessions.contains_key(id),
            Place::File { path, .. } | Place::Feature { path, .. } => self.files.contains_key(path),
        }
    }

    fn handlers(&self, target: &Place) -> Option<Vec<String>> {
        match target {
            Place::File { path, .. } => self.handlers_of(unstarve_change::interrupt_of(path)?),
            _ => None,
        }
    }

    fn write(&mut self, target: &Place, value: &Value) -> io::Result<()> {
        match (target, value) {
            (Place::Task(key), value) => {
                let known = self.threads.get_mut(&key.tid).filter(|known| known.start == key.start);
                let known = known.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
                known.values.insert(value.aspect(), value.clone());
            }
            (Place::Session { id }, Value::Nice(nice)) => {
                *self.sessions.get_mut(id).ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))? = *nice;
            }
            (Place::File { path, .. }, Value::Text(text)) => {
                self.files.insert(path.clone(), text.clone());
            }
            _ => return Err(io::ErrorKind::InvalidInput.into()),
        }
        Ok(())
    }
}

impl Look for Memory {
    fn start_of(&self, tid: Tid) -> Option<u64> {
        self.threads.get(&tid).map(|known| known.start)
    }

    fn comm_of(&self, tid: Tid) -> Option<String> {
        self.threads.get(&tid).map(|known| known.comm.clone())
    }

    fn flags_of(&self, tid: Tid) -> Option<u64> {
        self.threads.get(&tid).map(|known| known.flags)
    }

    fn user_of(&self, tid: Tid) -> Option<u32> {
        self.threads.get(&tid).map(|known| known.user)
    }

    fn owner_of_directory(&self, path: &str) -> Option<u32> {
        let (directory, _) = path.rsplit_once('/')?;
        self.files.contains_key(path).then(|| self.owners.get(directory).copied().unwrap_or(0))
    }

    fn threads_of(&self, process: Tid) -> Vec<Tid> {
        self.threads.iter().filter(|(_, known)| known.process == process).map(|(tid, _)| *tid).collect()
    }

    fn session_of(&self, tid: Tid) -> Option<u64> {
        self.in_session.get(&tid).copied()
    }

    fn kernel_threads(&self, prefix: &str) -> Vec<Tid> {
        let is_one = |known: &FakeThread| known.flags & flag::KTHREAD != 0 && known.comm.starts_with(prefix);
        self.threads.iter().filter(|(_, known)| is_one(known)).map(|(tid, _)| *tid).collect()
    }

    fn file(&self, path: &str) -> Option<Place> {
        self.files.get(path).map(|_| Place::File { path: path.to_owned(), inode: 1, root: None })
    }

    fn text(&self, path: &str) -> io::Result<String> {
        self.files.get(path).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn handlers_of(&self, irq: u32) -> Option<Vec<String>> {
        self.interrupts.get(&irq).cloned()
    }

    fn weight_file(&self, _: Tid) -> Option<String> {
        None
    }
}
