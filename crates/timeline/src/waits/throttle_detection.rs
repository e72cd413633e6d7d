//! Detects throttled tasks: although they are runnable, the kernel leaves their CPU idle, or gives the CPU of a real-time or
//! deadline task to a lower class.

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

/// The occupants of the CPU while the waiting task was throttled.
#[derive(Clone, Debug, Default)]
pub(super) struct Stopped {
    /// Whether it is throttled now.
    pub now: bool,
    pub parts: Vec<Part>,
}

impl Stopped {
    /// While the task was throttled, an occupant had the CPU because of the limit; interrupts and gaps keep their rules.
    #[cold]
    pub fn add_to(&self, pieces: &mut Vec<Piece>, actors: &Actors) {
        let known = pieces.iter().enumerate().map(|(place, piece)| ((piece.occupant, piece.rule), place));
        let places: FxHashMap<(ActorId, Rule), usize> = known.collect();
        // An actor that turned out to be another one has no time left; each occupant occurs once.
        for &(occupant, length) in self.parts.iter().filter(|part| part.1 > Nanos::ZERO) {
            let rule = match actors.get(occupant).kind {
                ActorKind::Unknown | ActorKind::Stopped => Rule::Unknown,
                ActorKind::Irq { .. } | ActorKind::Vector(_) => Rule::Irq,
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
    /// After a switch: the scheduler has just chosen a task of a lower class than waiting ones. It does so only because of a
    /// limit (real-time throttling, the fair server, a deadline task's own runtime). A task that keeps running after a higher
    /// one was woken is merely not preempted yet, which is another rule.
    #[inline]
    pub fn note_stops(&mut self, machine: &mut Machine, index: usize, prev: &TaskRef, next: &TaskRef) {
        // Visits the queue only if necessary: a limit takes effect when a higher class leaves the CPU.
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

    /// The CPU becomes idle although tasks are on its queue.
    pub fn pass_over(&mut self, world: &mut World, queue: &RunQueue, migrations_recorded: bool) {
        if !self.effort.may_look_at_all(queue.len()) {
            return;
        }
        count_steps(queue.len());
        // A migrated task looks the same, unless migrations are recorded or there is no other CPU.
        let stays = migrations_recorded || world.cpus == 1;
        for key in queue.waiting() {
            let task = world.tasks.get_mut(*key);
            // For higher classes see `note_stops`.
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
        // A task that is not visited counts as throttled whenever the CPU is idle from then on.
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

/// A task woken while its class is throttled on this CPU is throttled, too: the lower class is not preempted for it.
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

    /// Sets whether it is throttled from now on. Earlier time must be settled.
    pub(super) fn stop(&mut self, now: bool) {
        if now || self.stopped.is_some() {
            self.stopped.get_or_insert_default().now = now;
        }
    }

    /// What looked like throttling was none, or did not concern this task.
    #[inline]
    pub(super) fn forget_stops(&mut self) {
        if self.stopped.is_some() {
            self.forget_stopped();
        }
    }

    /// The task turns up on another CPU without a migration event: it is unknown how long it waited on the old one, so what
    /// that CPU did meanwhile proves no throttling.
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
