use rustc_hash::FxHashMap;
use unstarve_model::{Comm, SavedTask, Tid};

/// The names that a file gives tasks besides those in scheduler events; the last one of each stands.
#[derive(Debug, Default)]
pub struct TaskNames(FxHashMap<Tid, Comm>);

/// Twice as many tasks as `pid_max` allows by default; a file that names more keeps the first ones.
const MAX_TASKS: usize = 1 << 16;

impl TaskNames {
    /// Remembers a task's name.
    pub fn note(&mut self, tid: Tid, comm: Comm) {
        if tid.is_idle() || comm.is_unknown() {
            return;
        }
        if self.0.len() < MAX_TASKS || self.0.contains_key(&tid) {
            self.0.insert(tid, comm);
        }
    }

    /// A new task has its parent's name.
    pub fn inherit(&mut self, child: Tid, parent: Tid) {
        if let Some(&comm) = self.0.get(&parent) {
            self.note(child, comm);
        }
    }

    /// The task's name.
    pub fn get(&self, tid: Tid) -> Option<Comm> {
        self.0.get(&tid).copied()
    }

    /// All of them, by id.
    pub fn saved(&self) -> Vec<SavedTask> {
        let mut tasks: Vec<SavedTask> = self.0.iter().map(|(&tid, &comm)| SavedTask { tid, comm }).collect();
        tasks.sort_by_key(|task| task.tid);
        tasks
    }
}

/// The name that a program gives its task when it is executed: the last part of its path, as far as the kernel keeps it
/// (`begin_new_exec` in `fs/exec.c`). Unknown for a program that is executed by its descriptor: kernels differ in that.
pub fn name_of_program(path: &[u8]) -> Comm {
    const KEPT: usize = 15;
    let path = path.split(|byte| *byte == 0).next().unwrap_or_default();
    if path.starts_with(b"/dev/fd/") || path.starts_with(b"/proc/") {
        return Comm::default();
    }
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    Comm::new(&name[..name.len().min(KEPT)])
}
