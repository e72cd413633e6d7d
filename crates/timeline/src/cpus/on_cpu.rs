//! What each CPU does at this moment, for those who watch a timeline while it grows.

use unstarve_model::Time;

use crate::cpus::{Cpu, Current};
use crate::{TaskKey, Tasks};

/// What a CPU does at this moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnCpu {
    /// Not known: no switch has been seen there, or events are missing.
    Unknown,
    /// Nothing.
    Idle,
    /// A task, since then.
    Task {
        /// Which.
        task: TaskKey,
        /// When it got the CPU, or when it was first seen there.
        since: Time,
    },
}

impl Cpu {
    /// What it does at this moment.
    pub(crate) fn now(&self, tasks: &Tasks) -> OnCpu {
        match self.current() {
            Current::Unknown => OnCpu::Unknown,
            Current::Idle => OnCpu::Idle,
            Current::Task(task) => OnCpu::Task { task, since: tasks.get(task).run.start },
        }
    }
}
