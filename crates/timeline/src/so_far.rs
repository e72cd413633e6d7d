//! What is not over yet, at the moment of asking.

use unstarve_model::{CpuId, Nanos, Policy};

use crate::attribution::{PieceRoom, split};
use crate::cpu::{Cpu, Current};
use crate::effort::Effort;
use crate::timeline::Timeline;
use crate::waits::wait_of;
use crate::{OnCpu, Run, RunEnd, Sink, Task, TaskKey, WaitEnd};
use unstarve_sched::fairness::whole;

/// Steps that one look at all that waits may take, see [`Effort`].
const OF_A_LOOK: i64 = 1 << 22;

impl Timeline {
    /// Reports runs, and waits of at least this length that are believed, as if the trace ended now; and waits that are over
    /// but held back. All of them go on as before, and are reported again when they are over.
    pub fn so_far(&self, least: Nanos, believes: impl Fn(&Task, OnCpu) -> bool, sink: &mut impl Sink) {
        for cpu in &self.cpus {
            if let Current::Task(key) = cpu.current {
                self.run_so_far(cpu, key, sink);
            }
        }
        let mut room = (PieceRoom::default(), Effort::of(OF_A_LOOK));
        for ended in self.held.ended() {
            self.held_so_far(ended, &mut room.0, sink);
        }
        for (key, task) in self.world.tasks.iter() {
            let Some((since, cpu)) = task.waiting_since() else { continue };
            let long = self.world.now.since(since) >= least;
            if long && self.switches() > 0 && self.is_believed(key) && believes(task, self.on_cpu(cpu)) {
                self.wait_so_far(key, &mut room, sink);
            }
        }
    }

    fn on_cpu(&self, cpu: CpuId) -> OnCpu {
        self.cpus.get(cpu.index()).map_or(OnCpu::Unknown, |cpu| self.now_on(cpu))
    }

    fn run_so_far(&self, cpu: &Cpu, key: TaskKey, sink: &mut impl Sink) {
        let now = self.world.now;
        let task = self.world.tasks.get(key);
        let (mut fairness, mut account) = (cpu.fairness, task.account);
        let run = Run {
            task: key,
            actor: cpu.base,
            cpu: cpu.id,
            start: task.run.start,
            end: now,
            irq: task.run.irq,
            softirq: task.run.softirq,
            ideal: whole(fairness.due(now, &mut account)),
            ended: RunEnd::Cut,
            start_seen: task.run.start_seen,
        };
        sink.run(&self.world, &run);
    }

    fn wait_so_far(&self, key: TaskKey, (pieces, effort): &mut (PieceRoom, Effort), sink: &mut impl Sink) {
        let now = self.world.now;
        let task = self.world.tasks.get(key);
        let Some(mut pending) = task.pending.clone() else { return };
        let cpu = &self.cpus[pending.cpu.index()];
        let (mut fairness, mut account) = (cpu.fairness, task.account);
        pending.owed += fairness.due(now, &mut account);
        pending.close_segment(cpu, now, &self.world.actors, effort);
        if task.prio.policy() <= Policy::Fair {
            pending.forget_stops();
        }
        let idle_elsewhere = self.idle_beside(&pending, task.pinned);
        let pieces = split(
            &pending,
            &pending.parts,
            task.may_be_throttled(),
            self.missing_switches > 0,
            now,
            &self.world.actors,
            pieces,
        );
        effort.take_pieces(pieces.len());
        let over = (now, WaitEnd::TraceEnd);
        let mut wait = wait_of(key, &pending, over, pieces, idle_elsewhere, cpu.queue.len() as u32);
        wait.beside_unheard = self.unheard_beside(&pending);
        sink.wait(&self.world, &wait);
    }
}
