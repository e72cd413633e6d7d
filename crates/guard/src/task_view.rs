//! What a keeper sees of a machine beside the values that it sets: its tasks, its settings, how much they ran.

use std::io;

use unstarve_change::TaskKey;
use unstarve_model::Tid;

use crate::decide::Surroundings;
use crate::policy::Policy;
use crate::scan::Scanner;
use crate::settings::{self, Found};
use crate::task::Task;

/// Eyes on a machine: this one's `/proc`, or a test's model.
pub trait TaskView {
    /// All tasks.
    ///
    /// # Errors
    /// If they cannot be listed. One that ends meanwhile is left out.
    fn all(&self) -> io::Result<Vec<Task>>;
    /// One task, by its thread's id; `None` if there is none (any more).
    fn task(&self, tid: Tid) -> Option<Task>;
    /// One task of a process that is known.
    fn task_in(&self, tgid: Tid, tid: Tid) -> Option<Task>;
    /// CPU time of a task in ns, and the CPU on which it last was.
    fn ran_on(&self, key: TaskKey) -> Option<(u64, u32)>;
    /// What has to be known beside tasks; `own` are the guard's processes.
    fn surroundings(&self, own: Vec<Tid>) -> Surroundings;
    /// The policy's settings that are here.
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
