//! What each CPU does now, for observers of a growing timeline.

use unstarve_model::Time;

use crate::cpus::{Cpu, Current};
use crate::{TaskKey, Tasks};

/// What a CPU does now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnCpu {
    /// Unknown: no switch was seen there, or events are missing.
    Unknown,
    /// Idle.
    Idle,
    /// Runs a task.
    Task {
        /// The task.
        task: TaskKey,
        /// When it got the CPU, or was first seen there.
        since: Time,
    },
}

impl Cpu {
    /// What the CPU does now.
    pub(crate) fn now(&self, tasks: &Tasks) -> OnCpu {
        match self.current() {
            Current::Unknown => OnCpu::Unknown,
            Current::Idle => OnCpu::Idle,
            Current::Task(task) => OnCpu::Task { task, since: tasks.get(task).run.start },
        }
    }
}
