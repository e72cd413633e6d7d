//! Task names that a file contains besides those in scheduler events.

use rustc_hash::FxHashMap;
use unstarve_model::{Comm, SavedTask, Tid};

/// Task names by task id; the last name of each task wins.
#[derive(Debug, Default)]
pub struct TaskNames(FxHashMap<Tid, Comm>);

/// Twice the default `pid_max`. From a file with more tasks the first ones are kept.
const MAX_TASKS: usize = 1 << 16;

impl TaskNames {
    /// Stores a task's name.
    pub fn note(&mut self, tid: Tid, comm: Comm) {
        if tid.is_idle() || comm.is_unknown() {
            return;
        }
        if self.0.len() < MAX_TASKS || self.0.contains_key(&tid) {
            self.0.insert(tid, comm);
        }
    }

    /// Gives a new task its parent's name.
    pub fn inherit(&mut self, child: Tid, parent: Tid) {
        if let Some(&comm) = self.0.get(&parent) {
            self.note(child, comm);
        }
    }

    /// The task's name.
    pub fn get(&self, tid: Tid) -> Option<Comm> {
        self.0.get(&tid).copied()
    }

    /// All names, by task id.
    pub fn saved(&self) -> Vec<SavedTask> {
        let mut tasks: Vec<SavedTask> = self.0.iter().map(|(&tid, &comm)| SavedTask { tid, comm }).collect();
        tasks.sort_by_key(|task| task.tid);
        tasks
    }
}

/// The name that a task gets when it executes a program: the last component of the path, truncated as the kernel does
/// (`begin_new_exec` in `fs/exec.c`). Unknown if the program is executed by its file descriptor, as kernels differ
/// there.
pub fn name_of_program(path: &[u8]) -> Comm {
    const KEPT: usize = 15;
    let path = path.split(|byte| *byte == 0).next().unwrap_or_default();
    if path.starts_with(b"/dev/fd/") || path.starts_with(b"/proc/") {
        return Comm::default();
    }
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    Comm::new(&name[..name.len().min(KEPT)])
}
