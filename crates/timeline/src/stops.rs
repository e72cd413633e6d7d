//! Real-time and deadline tasks that a limit stops: the kernel hands their CPU to a lower class, or to nobody, although
//! they are runnable.

use unstarve_model::{Nanos, Policy, Prio, TaskRef};

use crate::timeline::Timeline;
use crate::waits::Pending;
use crate::{ActorId, WaitKind};

/// What had the CPU while the waiting task was stopped, in all.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stopped {
    /// Whether it is now.
    pub now: bool,
    pub parts: Vec<(ActorId, Nanos)>,
}

impl Timeline {
    /// After a switch: the scheduler has just chosen a task of a lower class than those that it passes over. It does so
    /// only by a limit (real-time throttling, the fair server, a deadline task's own runtime); a task that goes on
    /// running although a higher one was woken is late to be preempted, which is something else.
    pub(crate) fn note_stops(&mut self, index: usize, prev: TaskRef, next: TaskRef) {
        let cpu = &mut self.cpus[index];
        // The queue is looked at only where it can matter: a limit comes into force when a higher class leaves the CPU.
        if class(prev) <= Policy::Fair && !cpu.stops {
            return;
        }
        let now = self.world.now;
        let is_low = class(next) <= Policy::Fair;
        cpu.stops = false;
        for place in 0..cpu.queue.len() {
            let task = self.world.tasks.get_mut(cpu.queue[place]);
            let is_high = task.prio.policy() > Policy::Fair;
            let Some(pending) = &mut task.pending else { continue };
            // Between sched_waking and sched_wakeup a task is not on the queue yet.
            let is_queued = pending.kind == WaitKind::Preemption || pending.queued.is_some();
            let stop = is_low && is_high && is_queued;
            if stop != pending.is_stopped() {
                pending.close_segment(cpu, now);
                pending.stop(stop);
            }
            cpu.stops |= stop;
        }
    }
}

fn class(task: TaskRef) -> Policy {
    if task.tid.is_idle() { Policy::Idle } else { task.prio.map_or(Policy::Fair, Prio::policy) }
}

impl Pending {
    fn is_stopped(&self) -> bool {
        self.stopped.as_ref().is_some_and(|stopped| stopped.now)
    }

    /// From now on it is, or is no longer. What came before must be settled.
    pub(crate) fn stop(&mut self, now: bool) {
        if now || self.stopped.is_some() {
            self.stopped.get_or_insert_default().now = now;
        }
    }

    /// What looked like a stop was none, or did not concern this task.
    pub(crate) fn forget_stops(&mut self) {
        let Some(stopped) = self.stopped.take() else { return };
        for (actor, length) in stopped.parts {
            crate::waits::add(&mut self.parts, actor, length);
        }
    }
}
