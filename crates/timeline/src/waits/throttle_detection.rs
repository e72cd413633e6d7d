//! Tasks that a limit stops: the kernel hands their CPU to nobody, or that of a real-time or deadline task to a lower
//! class, although they are runnable.

use rustc_hash::FxHashMap;
use unstarve_model::{CpuId, Nanos, Policy, Prio, TaskRef};
use unstarve_sched::Rule;

use crate::opt_time::OptTime;
use crate::timeline::Timeline;
use crate::waits::Pending;
use crate::waits::effort::{UNCOUNTED_STEPS, count_steps};
use crate::waits::parts::{Part, Span};
use crate::{ActorId, ActorKind, Actors, Piece, TaskKey, WaitKind};

/// What had the CPU while the waiting task was stopped, in all.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stopped {
    /// Whether it is now.
    pub now: bool,
    pub parts: Vec<Part>,
}

impl Stopped {
    /// While a limit stopped the task, the occupant had the CPU because of the limit; interrupts and gaps are what they
    /// are.
    #[cold]
    pub fn add_to(&self, pieces: &mut Vec<Piece>, actors: &Actors) {
        let known = pieces.iter().enumerate().map(|(place, piece)| ((piece.occupant, piece.rule), place));
        let places: FxHashMap<(ActorId, Rule), usize> = known.collect();
        // One that turned out to be another has nothing left; no occupant comes twice.
        for &(occupant, length) in self.parts.iter().filter(|part| part.1 > Nanos::ZERO) {
            let rule = match actors.get(occupant).kind {
                ActorKind::Unknown | ActorKind::Stopped => Rule::Unknown,
                ActorKind::Irq { .. } => Rule::Irq,
                ActorKind::Softirq { .. } => Rule::Softirq,
                ActorKind::Idle | ActorKind::Others | ActorKind::Tasks { .. } => Rule::Throttled,
            };
            match places.get(&(occupant, rule)) {
                Some(&place) => pieces[place].length += length,
                None => pieces.push(Piece { occupant, rule, length }),
            }
        }
    }
}

impl Timeline {
    /// After a switch: the scheduler has just chosen a task of a lower class than those that it passes over. It does so
    /// only by a limit (real-time throttling, the fair server, a deadline task's own runtime); a task that goes on
    /// running although a higher one was woken is late to be preempted, which is something else.
    #[inline]
    pub(crate) fn note_stops(&mut self, index: usize, prev: &TaskRef, next: &TaskRef) {
        // The queue is looked at only where it can matter: a limit comes into force when a higher class leaves the CPU.
        if class(prev) > Policy::Fair || self.cpus[index].stops {
            self.look_for_stops(index, next);
        }
    }

    #[inline(never)]
    fn look_for_stops(&mut self, index: usize, next: &TaskRef) {
        let may_look = self.may_look_at_all(index);
        let cpu = &mut self.cpus[index];
        let now = self.world.now;
        let is_low = class(next) <= Policy::Fair;
        if !may_look {
            (cpu.stops, cpu.not_looked) = (true, now);
            return;
        }
        cpu.stops = false;
        count_steps(cpu.queue.len());
        for place in 0..cpu.queue.len() {
            let task = self.world.tasks.get_mut(cpu.queue[place]);
            let class = task.prio.policy();
            let is_high = class > Policy::Fair;
            let Some(pending) = &mut task.pending else { continue };
            // Between sched_waking and sched_wakeup a task is not on the queue yet.
            let is_queued = pending.kind == WaitKind::Preemption || pending.queued.is_some();
            let stop = is_low && is_high && is_queued;
            if stop != pending.is_stopped() {
                pending.catch_up(cpu, class);
                pending.close_segment(cpu, now, &self.world.actors, &mut self.effort);
                pending.stop(stop);
            }
            cpu.stops |= stop;
        }
    }

    /// A task that is woken while a limit stops its class on this CPU is stopped, too: nobody preempts the lower class for it.
    #[inline]
    pub(crate) fn stop_if_its_class_is(&mut self, key: TaskKey, cpu: CpuId) {
        if self.cpus[cpu.index()].stops {
            self.stop_with_its_class(key, cpu);
        }
    }

    #[cold]
    fn stop_with_its_class(&mut self, key: TaskKey, cpu: CpuId) {
        let policy = |key: TaskKey| self.world.tasks.get(key).prio.policy();
        let is_stopped = |other: &TaskKey| {
            policy(*other) == Policy::Rt
                && self.world.tasks.get(*other).pending.as_ref().is_some_and(Pending::is_stopped)
        };
        if policy(key) == Policy::Rt
            && self.cpus[cpu.index()].queue.iter().any(is_stopped)
            && let Some(pending) = &mut self.world.tasks.get_mut(key).pending
        {
            pending.stop(true);
        }
    }

    /// The CPU goes idle although tasks are on its queue.
    pub(crate) fn pass_over(&mut self, index: usize) {
        let now = self.world.now;
        if !self.may_look_at_all(index) {
            return;
        }
        count_steps(self.cpus[index].queue.len());
        for place in 0..self.cpus[index].queue.len() {
            let key = self.cpus[index].queue[place];
            let task = self.world.tasks.get_mut(key);
            // A task that was moved looks the same, unless moves are recorded or there is nowhere to go.
            let stays = self.migrations_recorded || self.world.cpus == 1;
            // Of the higher classes see `note_stops`.
            let limit_possible = task.may_be_throttled().unwrap_or(stays) && task.prio.policy() == Policy::Fair;
            let Some(pending) = &mut task.pending else { continue };
            // Between sched_waking and sched_wakeup a task is not on the queue yet, so the CPU may well go idle.
            if limit_possible && (pending.kind == WaitKind::Preemption || pending.queued.is_some()) {
                pending.passed_over = OptTime::some(pending.passed_over.get().unwrap_or(now));
            }
        }
    }

    /// The task turns up on another CPU, and no event told of a move: nobody knows how long it still waited on the old
    /// one, so what that one did meanwhile proves no limit.
    pub(crate) fn disbelieve_limits(&mut self, key: TaskKey) {
        if let Some(pending) = &mut self.world.tasks.get_mut(key).pending {
            pending.passed_over_total = Nanos::ZERO;
            pending.forget_stops();
        }
    }

    /// The CPU is no longer idle.
    pub(crate) fn stop_passing_over(&mut self, index: usize) {
        let now = self.world.now;
        // Whom nobody looks at counts as passed over whenever the CPU is idle from then on.
        if !self.may_look_at_all(index) {
            return;
        }
        count_steps(self.cpus[index].queue.len());
        for place in 0..self.cpus[index].queue.len() {
            let key = self.cpus[index].queue[place];
            if let Some(pending) = &mut self.world.tasks.get_mut(key).pending
                && let Some(since) = pending.passed_over.take()
            {
                pending.passed_over_total += self.cpus[index].occupancy.time_of(ActorId::IDLE, since, now);
            }
        }
    }

    /// Whether a step may be taken for each task that waits for this CPU.
    pub(crate) fn may_look_at_all(&mut self, index: usize) -> bool {
        let waits = self.cpus[index].queue.len();
        if waits <= UNCOUNTED_STEPS {
            return true;
        }
        let may = !self.effort.is_spent();
        if may {
            self.effort.take(waits);
        } else {
            self.effort.not_looked += 1;
        }
        may
    }
}

#[inline]
fn class(task: &TaskRef) -> Policy {
    if task.tid().is_idle() { Policy::Idle } else { task.prio().map_or(Policy::Fair, Prio::policy) }
}

impl Pending {
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.as_ref().is_some_and(|stopped| stopped.now)
    }

    /// From now on it is, or is no longer. What came before must be settled.
    pub(crate) fn stop(&mut self, now: bool) {
        if now || self.stopped.is_some() {
            self.stopped.get_or_insert_default().now = now;
        }
    }

    /// What looked like a stop was none, or did not concern this task.
    #[inline]
    pub(crate) fn forget_stops(&mut self) {
        if self.stopped.is_some() {
            self.forget_stopped();
        }
    }

    #[cold]
    fn forget_stopped(&mut self) {
        let Some(stopped) = self.stopped.take() else { return };
        Span::new(stopped.parts).add_to(&mut self.parts);
    }
}
