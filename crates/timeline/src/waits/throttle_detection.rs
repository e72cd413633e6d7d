//! Tasks that a limit stops: the kernel hands their CPU to nobody, or that of a real-time or deadline task to a lower
//! class, although they are runnable.

use rustc_hash::FxHashMap;
use unstarve_model::{Nanos, Policy, Prio, TaskRef};
use unstarve_sched::Rule;

use crate::effort::count_steps;
use crate::machine::Machine;
use crate::opt_time::OptTime;
use crate::run_queues::RunQueue;
use crate::waits::Waits;
use crate::waits::parts::{Part, Span};
use crate::waits::pending::Pending;
use crate::{ActorId, ActorKind, Actors, Piece, TaskKey, Tasks, World};

/// What had the CPU while the waiting task was stopped, in all.
#[derive(Clone, Debug, Default)]
pub(super) struct Stopped {
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

impl Waits {
    /// After a switch: the scheduler has just chosen a task of a lower class than those that it passes over. It does so
    /// only by a limit (real-time throttling, the fair server, a deadline task's own runtime); a task that goes on
    /// running although a higher one was woken is late to be preempted, which is something else.
    #[inline]
    pub fn note_stops(&mut self, machine: &mut Machine, index: usize, prev: &TaskRef, next: &TaskRef) {
        // The queue is looked at only where it can matter: a limit comes into force when a higher class leaves the CPU.
        if class(prev) > Policy::Fair || machine.queues[index].is_limited() {
            self.look_for_stops(machine, index, next);
        }
    }

    #[inline(never)]
    fn look_for_stops(&mut self, machine: &mut Machine, index: usize, next: &TaskRef) {
        let Machine { world, cpus, queues, .. } = machine;
        let (cpu, queue) = (&cpus[index], &mut queues[index]);
        let now = world.now;
        let is_low = class(next) <= Policy::Fair;
        if !self.effort.may_look_at_all(queue.len()) {
            return queue.skip_look(now);
        }
        let mut is_limited = false;
        count_steps(queue.len());
        for key in queue.waiting() {
            let task = world.tasks.get_mut(*key);
            let class = task.prio.policy();
            let is_high = class > Policy::Fair;
            let Some(pending) = &mut task.pending else { continue };
            let stop = is_low && is_high && pending.is_queued();
            if stop != pending.is_stopped() {
                pending.catch_up(cpu, queue, class);
                pending.close_segment(cpu, queue, now, &world.actors, &mut self.effort);
                pending.stop(stop);
            }
            is_limited |= stop;
        }
        queue.set_limited(is_limited);
    }

    /// The CPU goes idle although tasks are on its queue.
    pub fn pass_over(&mut self, world: &mut World, queue: &RunQueue, migrations_recorded: bool) {
        if !self.effort.may_look_at_all(queue.len()) {
            return;
        }
        count_steps(queue.len());
        // A task that was moved looks the same, unless moves are recorded or there is nowhere to go.
        let stays = migrations_recorded || world.cpus == 1;
        for key in queue.waiting() {
            let task = world.tasks.get_mut(*key);
            // Of the higher classes see `note_stops`.
            let limit_possible = task.may_be_throttled().unwrap_or(stays) && task.prio.policy() == Policy::Fair;
            let Some(pending) = &mut task.pending else { continue };
            if limit_possible && pending.is_queued() {
                pending.passed_over = OptTime::some(pending.passed_over.get().unwrap_or(world.now));
            }
        }
    }

    /// The CPU is no longer idle.
    pub fn stop_passing_over(&mut self, machine: &mut Machine, index: usize) {
        let Machine { world, cpus, queues, .. } = machine;
        let (cpu, queue) = (&cpus[index], &queues[index]);
        // A task that is not looked at counts as passed over whenever the CPU is idle from then on.
        if !self.effort.may_look_at_all(queue.len()) {
            return;
        }
        count_steps(queue.len());
        for key in queue.waiting() {
            if let Some(pending) = &mut world.tasks.get_mut(*key).pending
                && let Some(since) = pending.passed_over.take()
            {
                pending.passed_over_total += cpu.occupancy().time_of(ActorId::IDLE, since, world.now);
            }
        }
    }
}

/// A task that is woken while a limit stops its class on this CPU is stopped, too: nobody preempts the lower class for it.
#[inline]
pub(super) fn stop_if_its_class_is(queue: &RunQueue, tasks: &mut Tasks, key: TaskKey) {
    if queue.is_limited() {
        stop_with_its_class(queue, tasks, key);
    }
}

#[cold]
fn stop_with_its_class(queue: &RunQueue, tasks: &mut Tasks, key: TaskKey) {
    let is_real_time = |key: TaskKey| tasks.get(key).prio.policy() == Policy::Rt;
    let is_stopped =
        |other: &TaskKey| is_real_time(*other) && tasks.get(*other).pending.as_ref().is_some_and(Pending::is_stopped);
    if is_real_time(key)
        && queue.waiting().iter().any(is_stopped)
        && let Some(pending) = &mut tasks.get_mut(key).pending
    {
        pending.stop(true);
    }
}

#[inline]
fn class(task: &TaskRef) -> Policy {
    if task.tid().is_idle() { Policy::Idle } else { task.prio().map_or(Policy::Fair, Prio::policy) }
}

impl Pending {
    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.as_ref().is_some_and(|stopped| stopped.now)
    }

    /// From now on it is, or is no longer. What came before must be settled.
    pub(super) fn stop(&mut self, now: bool) {
        if now || self.stopped.is_some() {
            self.stopped.get_or_insert_default().now = now;
        }
    }

    /// What looked like a stop was none, or did not concern this task.
    #[inline]
    pub(super) fn forget_stops(&mut self) {
        if self.stopped.is_some() {
            self.forget_stopped();
        }
    }

    /// The task turns up on another CPU, and no event shows a move: nobody knows how long it still waited on the old
    /// one, so what that one did meanwhile proves no limit.
    pub(crate) fn disbelieve_limits(&mut self) {
        self.passed_over_total = Nanos::ZERO;
        self.forget_stops();
    }

    #[cold]
    fn forget_stopped(&mut self) {
        let Some(stopped) = self.stopped.take() else { return };
        Span::new(stopped.parts).add_to(&mut self.parts);
    }
}
