use unstarve_model::{CpuId, Time};

use crate::cpus::{Cpu, Current};
use crate::{TaskKey, Timeline};

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

impl Timeline {
    /// What each CPU does at this moment, from CPU 0 to the last that was heard of.
    pub fn on_cpus(&self) -> impl Iterator<Item = (CpuId, OnCpu)> {
        self.cpus.iter().map(|cpu| (cpu.id, self.now_on(cpu)))
    }

    pub(crate) fn now_on(&self, cpu: &Cpu) -> OnCpu {
        match cpu.current {
            Current::Unknown => OnCpu::Unknown,
            Current::Idle => OnCpu::Idle,
            Current::Task(task) => OnCpu::Task { task, since: self.world.tasks.get(task).run.start },
        }
    }
}
