//! Reports runs and waits that are still in progress.

use unstarve_model::{CpuId, Nanos};
use unstarve_sched::fairness::whole;

use crate::cpus::{Cpu, OnCpu};
use crate::effort::Effort;
use crate::timeline::Timeline;
use crate::waits::attribution::PieceRoom;
use crate::waits::initial_runnable::is_believed;
use crate::waits::report_so_far;
use crate::{Run, RunEnd, Sink, Task, TaskKey};

/// Maximum steps of one visit of all waiting tasks, see [`Effort`].
const STEPS_OF_A_LOOK: i64 = 1 << 22;

impl Timeline {
    /// Reports runs and credible waits of at least this length as if the trace ended now, and ended waits that are deferred.
    /// All of them continue, and are reported again when they end.
    pub fn so_far(&self, least: Nanos, believes: impl Fn(&Task, OnCpu) -> bool, sink: &mut impl Sink) {
        let (machine, world) = (&self.machine, &self.machine.world);
        for cpu in machine.cpus.iter() {
            if let Some(key) = cpu.task() {
                self.run_so_far(cpu, key, sink);
            }
        }
        let missing = self.losses.switches_are_missing();
        let mut room = (PieceRoom::default(), Effort::of(STEPS_OF_A_LOOK));
        self.waits.report_held_back(world, missing, &mut room.0, sink);
        for (key, task) in world.tasks.iter() {
            let Some((since, cpu)) = task.waiting_since() else { continue };
            let long = world.now.since(since) >= least;
            if long && self.switches() > 0 && is_believed(world, key) && believes(task, self.on_cpu(cpu)) {
                report_so_far(machine, key, missing, &mut room, sink);
            }
        }
    }

    fn on_cpu(&self, cpu: CpuId) -> OnCpu {
        self.machine.cpus.get(cpu).map_or(OnCpu::Unknown, |cpu| cpu.now(&self.machine.world.tasks))
    }

    fn run_so_far(&self, cpu: &Cpu, key: TaskKey, sink: &mut impl Sink) {
        let world = &self.machine.world;
        let now = world.now;
        let task = world.tasks.get(key);
        let (mut fairness, mut account) = (self.machine.queues[cpu.index()].fairness_so_far(), task.account);
        let run = Run {
            task: key,
            actor: cpu.holder(),
            cpu: cpu.id(),
            start: task.run.start,
            end: now,
            irq: task.run.irq,
            softirq: task.run.softirq,
            ideal: whole(fairness.due(now, &mut account)),
            ended: RunEnd::Cut,
            start_seen: task.run.start_seen,
        };
        sink.run(world, &run);
    }
}
