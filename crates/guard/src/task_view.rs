//! What a reconciler reads of a machine besides the values that it sets: tasks, settings, CPU times.

use std::io;

use unstarve_change::TaskKey;
use unstarve_model::Tid;

use crate::decide::Surroundings;
use crate::policy::Policy;
use crate::scan::Scanner;
use crate::settings::{self, Found};
use crate::task::Task;

/// Reads a machine's tasks: this machine's `/proc`, or a test's model.
pub trait TaskView {
    /// All tasks, without those that exit meanwhile.
    ///
    /// # Errors
    /// If they cannot be listed.
    fn all(&self) -> io::Result<Vec<Task>>;
    /// A task by its tid; `None` if it does not exist (any more).
    fn task(&self, tid: Tid) -> Option<Task>;
    /// A task whose process is known.
    fn task_in(&self, tgid: Tid, tid: Tid) -> Option<Task>;
    /// CPU time of a task in ns, and its last CPU.
    fn ran_on(&self, key: TaskKey) -> Option<(u64, u32)>;
    /// What decisions need besides tasks; `own` are the guard's processes.
    fn surroundings(&self, own: Vec<Tid>) -> Surroundings;
    /// The policy's settings that this machine has.
    fn settings(&self, policy: &Policy) -> Vec<Found>;
}

impl TaskView for Scanner {
    fn all(&self) -> io::Result<Vec<Task>> {
        self.all()
    }

    fn task(&self, tid: Tid) -> Option<Task> {
        self.task(tid)
    }

    fn task_in(&self, tgid: Tid, tid: Tid) -> Option<Task> {
        self.task_in(tgid, tid)
    }

    fn ran_on(&self, key: TaskKey) -> Option<(u64, u32)> {
        unstarve_executor::proc::ran_on(key.tid)
    }

    fn surroundings(&self, own: Vec<Tid>) -> Surroundings {
        settings::surroundings(own)
    }

    fn settings(&self, policy: &Policy) -> Vec<Found> {
        settings::find(policy).0
    }
}
