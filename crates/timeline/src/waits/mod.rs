//! Waits: how they begin, move between CPUs, end, and are reported with a rule for each occupant.

pub(crate) mod attribution;
mod deferred_waits;
pub(crate) mod initial_runnable;
pub(crate) mod parts;
mod pending;
mod throttle_detection;

use unstarve_model::{CpuId, Nanos, Policy, Time};
use unstarve_sched::Rule;
use unstarve_sched::fairness::whole;

use crate::cpus::idle::IdleWatch;
use crate::cpus::{Cpu, Cpus};
use crate::effort::{Effort, UNCOUNTED_STEPS, count_steps};
use crate::machine::Machine;
use crate::opt_time::OptTime;
use crate::run_queues::RunQueue;
use crate::waits::attribution::{PieceRoom, split};
pub(crate) use crate::waits::deferred_waits::Correction;
use crate::waits::deferred_waits::{DeferredWaits, Ended};
use crate::waits::initial_runnable::InitialRunnable;
use crate::waits::parts::{Part, Span, add_span, keep_longest};
pub(crate) use crate::waits::pending::{Pending, Preemptor};
use crate::{ActorId, Actors, OpenWait, Piece, Sink, State, TaskKey, Throughout, Wait, WaitEnd, WaitKind, World};

/// More woken tasks of one kind than this many per CPU, and at least four, are a crowd.
const CROWD_PER_CPU: u32 = 2;
const CROWD_LEAST: u32 = 4;

/// No CPU needs longer than this to leave idle.
const LEAVES_IDLE_WITHIN: Nanos = Nanos::from_millis(1);

/// What waits need besides the waiting tasks.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    deferred: DeferredWaits,
    initial: InitialRunnable,
    effort: Effort,
    /// Kept to save allocations.
    pieces: PieceRoom,
    parts: Vec<Part>,
}

/// The task becomes runnable on `cpu` and waits there since `start`; it is on the run queue since `queued`.
pub(crate) fn begin(
    machine: &mut Machine,
    key: TaskKey,
    kind: WaitKind,
    cpu: CpuId,
    (start, queued): (Time, Option<Time>),
) {
    let Machine { world, cpus, queues, .. } = machine;
    let now = world.now;
    let here = &mut cpus[cpu.index()];
    let queue = queues.push(cpu.index(), key);
    let task = world.tasks.get_mut(key);
    let group = if task.pinned { None } else { task.affinity.or(task.moved.then_some(IdleWatch::ALL)) };
    task.put_on(cpu);
    task.state = State::Waiting;
    world.actors.join(task);
    if task.account.weight == 0 {
        let weight = task.weight();
        queue.fairness().join(start, &mut task.account, weight);
    }
    let mark = (start == now).then(|| here.mark(now));
    task.pending = Some(Pending {
        queued: queued.into(),
        mark,
        idle_before: group.map(|group| (group, cpus.idle_total(group, now))),
        ..Pending::new(kind, task.actor, start, cpu)
    });
    if kind != WaitKind::Preemption {
        let threshold = (CROWD_PER_CPU * world.cpus).max(CROWD_LEAST);
        let actor = world.actors.get_mut(task.actor);
        actor.woken_waiting += 1;
        if actor.woken_waiting > threshold {
            actor.last_crowd = Some(now);
        }
    }
    throttle_detection::stop_if_its_class_is(queue, &mut world.tasks, key);
}

impl Waits {
    /// The limit of steps beyond those of each event.
    #[inline(always)]
    pub fn effort(&mut self) -> &mut Effort {
        &mut self.effort
    }

    /// What was left out because it took too many steps.
    pub fn effort_so_far(&self) -> &Effort {
        &self.effort
    }

    /// The waiting task migrates to another CPU's queue.
    pub fn move_to(&mut self, machine: &mut Machine, key: TaskKey, to: CpuId) {
        let Machine { world, cpus, queues, .. } = machine;
        let now = world.now;
        let task = world.tasks.get_mut(key);
        let weight = task.weight();
        let Some(pending) = &mut task.pending else { return };
        let from = &cpus[pending.cpu.index()];
        let queue = queues.remove(from.index(), key);
        pending.owed += queue.fairness().leave(now, &mut task.account);
        self.deferred.note(from, pending, key, now);
        pending.catch_up(from, queue, task.prio.policy());
        pending.close_segment(from, queue, now, &world.actors, &mut self.effort);
        pending.stop(false);
        pending.migrations += 1;
        pending.cpu = to;
        pending.mark = Some(cpus[to.index()].mark(now));
        queues.push(to.index(), key).fairness().join(now, &mut task.account, weight);
        task.put_on(to);
    }

    /// A woken task runs, and no event showed on which CPU it was queued. It is taken to have waited here, unless this CPU was
    /// idle for long and its previous CPU was busy: then it was pulled from there. Returns whether it is taken to have waited
    /// here.
    pub fn follow(&mut self, machine: &mut Machine, key: TaskKey, to: CpuId) -> bool {
        let Machine { world, cpus, queues, .. } = &mut *machine;
        let now = world.now;
        let task = world.tasks.get_mut(key);
        let weight = task.weight();
        let Some(pending) = &mut task.pending else { return false };
        let (from, here) = (cpus[pending.cpu.index()].occupancy(), cpus[to.index()].occupancy());
        let since = pending.start.max(here.forgotten());
        let idle_here = here.time_of(ActorId::IDLE, since, now);
        let idle_before: Nanos = pending.parts.iter().filter(|part| part.0 == ActorId::IDLE).map(|part| part.1).sum();
        let idle_there = idle_before + from.time_of(ActorId::IDLE, pending.segment, now);
        if idle_here > LEAVES_IDLE_WITHIN && idle_there < idle_here {
            self.move_to(machine, key, to);
            return false;
        }
        queues.remove(pending.cpu.index(), key).fairness().leave(now, &mut task.account);
        if let Some(hold) = pending.hold.take() {
            self.deferred.forget(hold);
        }
        pending.parts.clear();
        let unknown = since.since(pending.start);
        if unknown > Nanos::ZERO {
            pending.parts.push((ActorId::UNKNOWN, unknown));
        }
        (pending.cpu, pending.segment, pending.mark) = (to, since, None);
        (pending.passed_over, pending.passed_over_total) = (OptTime::NONE, Nanos::ZERO);
        pending.stopped = None;
        let fairness = queues.push(to.index(), key).fairness();
        fairness.join(now, &mut task.account, weight);
        // The current weight of the other tasks here stands for their weight during the wait.
        let share = f64::from(weight) / fairness.weight().max(1) as f64;
        pending.owed = now.since(pending.start).0 as f64 * share;
        task.put_on(to);
        true
    }

    /// Settles all waits of a CPU, so that its occupancy log can be dropped.
    pub fn take_stock(&mut self, machine: &mut Machine, index: usize) {
        let now = machine.world.now;
        let (occupancy, waits) = (machine.cpus[index].occupancy(), machine.queues[index].len());
        // Settles no more waits than there were changes, however many tasks wait.
        if !occupancy.is_full(waits) {
            return;
        }
        self.effort.grant(occupancy.changes());
        if self.effort.is_spent() && waits > UNCOUNTED_STEPS {
            // For each task waiting here, this time becomes unknown.
            self.effort.cut_short(waits as u64);
        } else {
            self.settle_waits(machine, index);
        }
        let cpu = &mut machine.cpus[index];
        self.initial.add_up(cpu, now, &machine.world.actors, &mut self.effort);
        cpu.forget_occupants(now);
    }

    fn settle_waits(&mut self, machine: &mut Machine, index: usize) {
        let Machine { world, cpus, queues, .. } = machine;
        let now = world.now;
        let (cpu, queue) = (&cpus[index], &queues[index]);
        // Tasks that have waited here since the last settlement all waited for the same occupants.
        let last = cpu.occupancy().forgotten();
        let mut since_last = None;
        count_steps(queue.len());
        for &key in queue.waiting() {
            let task = world.tasks.get_mut(key);
            let class = task.prio.policy();
            let Some(pending) = &mut task.pending else { continue };
            pending.catch_up(cpu, queue, class);
            self.deferred.note(cpu, pending, key, now);
            let was_passed_over = pending.passed_over.is_some();
            if pending.segment == last && pending.mark.is_none() {
                let span =
                    since_last.get_or_insert_with(|| span(cpu, queue, (last, now), &world.actors, &mut self.effort));
                pending.add_segment(span, (cpu, queue.len()), now, &world.actors, &mut self.effort);
            } else {
                pending.close_segment(cpu, queue, now, &world.actors, &mut self.effort);
            }
            pending.passed_over = was_passed_over.then_some(now).into();
        }
    }

    /// The task no longer waits, since an unknown time: the wait is not reported.
    pub fn drop_wait(&mut self, machine: &mut Machine, key: TaskKey) {
        let Machine { world, queues, .. } = machine;
        let now = world.now;
        let task = world.tasks.get_mut(key);
        let Some(pending) = task.pending.take() else { return };
        queues.remove(pending.cpu.index(), key).fairness().leave(now, &mut task.account);
        uncrowd(&mut world.actors, &pending);
        if let Some(hold) = pending.hold {
            self.deferred.forget(hold);
        }
    }

    /// The task gets the CPU, or the trace ends with the wait open: reports the wait. The pending wait is processed in place
    /// and then cleared: moving its 200 bytes was a large part of the cost of a wait.
    pub fn end(
        &mut self,
        machine: &mut Machine,
        key: TaskKey,
        open: Option<OpenWait>,
        switches_are_missing: bool,
        sink: &mut impl Sink,
    ) {
        let Machine { world, cpus, queues, .. } = machine;
        let now = world.now;
        let ended = if open.is_some() { WaitEnd::TraceEnd } else { WaitEnd::Ran };
        let task = world.tasks.get_mut(key);
        let (limited, class) = (task.may_be_throttled(), task.prio.policy());
        let Some(pending) = &mut task.pending else { return };
        let cpu = &cpus[pending.cpu.index()];
        let queue = queues.remove(pending.cpu.index(), key);
        let queue_length = queue.len() as u32 + 1;
        pending.owed += match ended {
            // It stays runnable here.
            WaitEnd::Ran => queue.fairness().due(now, &mut task.account),
            WaitEnd::TraceEnd => queue.fairness().leave(now, &mut task.account),
        };
        uncrowd(&mut world.actors, pending);
        pending.catch_up(cpu, queue, class);
        let is_plain = pending.is_plain();
        let only;
        let parts = if is_plain {
            match cpu.occupancy().only_part(pending.segment, now) {
                Some(part) => {
                    only = [part];
                    &only[..]
                }
                None => {
                    let parts = &mut self.parts;
                    parts.clear();
                    if self.effort.is_spent() {
                        add_span(parts, cpu.occupancy(), (pending.segment, now), None, &mut self.effort);
                    } else {
                        let add = |actor, length| parts.push((actor, length));
                        let looked_at = cpu.occupancy().parts(pending.segment, now, pending.mark, add);
                        if looked_at > UNCOUNTED_STEPS {
                            self.effort.take(looked_at);
                        }
                    }
                    &parts[..]
                }
            }
        } else {
            pending.close_segment(cpu, queue, now, &world.actors, &mut self.effort);
            if class <= Policy::Fair {
                // Its class was changed meanwhile.
                pending.forget_stops();
            }
            &pending.parts[..]
        };
        let outcome = Outcome {
            end: now,
            open,
            idle_elsewhere: idle_beside(cpus, pending, parts, task.pinned, now),
            beside_unheard: unheard_beside(cpus, pending),
            queue_length,
        };
        if pending.hold.is_some() {
            return self.defer(world, key, outcome);
        }
        let pieces = split(pending, parts, limited, switches_are_missing, now, &world.actors, &mut self.pieces);
        self.effort.take_pieces(pieces.len());
        let wait = outcome.wait(key, pending, ended, pieces);
        task.pending = None;
        sink.wait(world, &wait);
    }

    /// A part of the wait belongs to a run in progress: it is reported at the end of that run.
    #[cold]
    fn defer(&mut self, world: &mut World, key: TaskKey, outcome: Outcome) {
        let Some(pending) = world.tasks.get_mut(key).pending.take() else { return };
        let Some(hold) = pending.hold else { return };
        world.tasks.pin(key);
        self.deferred.keep(hold, Ended { task: key, pending, outcome });
    }

    /// Whether waits depend on what the current run on this CPU turns out to be.
    #[inline(always)]
    pub fn depend_on_stay(&self, index: usize) -> bool {
        self.deferred.has_parts(index)
    }

    /// The current run on the CPU ends: reports the waits deferred until then.
    pub fn settle_stay(
        &mut self,
        index: usize,
        correction: Option<&Correction>,
        world: &mut World,
        switches_are_missing: bool,
        sink: &mut impl Sink,
    ) {
        let mut parts = self.deferred.take_parts(index);
        for part in parts.drain(..) {
            if let Some(ended) = self.deferred.settle(&part, correction, &mut world.tasks) {
                let pieces = ended.report(world, switches_are_missing, &mut self.pieces, sink);
                self.effort.take_pieces(pieces);
                world.tasks.unpin(ended.task);
            }
        }
        self.deferred.give_back_room(index, parts);
    }

    /// Reports deferred waits as they are known now.
    pub fn report_held_back(
        &self,
        world: &World,
        switches_are_missing: bool,
        room: &mut PieceRoom,
        sink: &mut impl Sink,
    ) {
        for ended in self.deferred.ended() {
            ended.report(world, switches_are_missing, room, sink);
        }
    }

    /// The rule by which `holder` has the CPU of the waiting task, for a time of this length.
    pub fn rule_of(
        &mut self,
        world: &World,
        key: TaskKey,
        (holder, length): Part,
        switches_are_missing: bool,
        end: Time,
    ) -> Rule {
        let task = world.tasks.get(key);
        let Some(pending) = &task.pending else { return Rule::Unknown };
        let (limited, parts) = (task.may_be_throttled(), [(holder, length)]);
        let pieces = split(pending, &parts, limited, switches_are_missing, end, &world.actors, &mut self.pieces);
        pieces.first().map_or(Rule::Unknown, |piece| piece.rule)
    }
}

/// Reports a wait in progress as if it ended now. It continues.
pub(crate) fn report_so_far(
    machine: &Machine,
    key: TaskKey,
    switches_are_missing: bool,
    (room, effort): &mut (PieceRoom, Effort),
    sink: &mut impl Sink,
) {
    let Machine { world, cpus, queues, .. } = machine;
    let now = world.now;
    let task = world.tasks.get(key);
    let Some(mut pending) = task.pending.clone() else { return };
    let (cpu, queue) = (&cpus[pending.cpu.index()], &queues[pending.cpu.index()]);
    let (mut fairness, mut account) = (queue.fairness_so_far(), task.account);
    pending.owed += fairness.due(now, &mut account);
    pending.close_segment(cpu, queue, now, &world.actors, effort);
    if task.prio.policy() <= Policy::Fair {
        pending.forget_stops();
    }
    let outcome = Outcome {
        end: now,
        open: None,
        idle_elsewhere: idle_beside(cpus, &pending, &pending.parts, task.pinned, now),
        beside_unheard: unheard_beside(cpus, &pending),
        queue_length: queue.len() as u32,
    };
    let limited = task.may_be_throttled();
    let pieces = split(&pending, &pending.parts, limited, switches_are_missing, now, &world.actors, room);
    effort.take_pieces(pieces.len());
    sink.wait(world, &outcome.wait(key, &pending, WaitEnd::TraceEnd, pieces));
}

/// The occupants of the CPU between these times, to be added to waits.
fn span(cpu: &Cpu, queue: &RunQueue, between: (Time, Time), actors: &Actors, effort: &mut Effort) -> Span {
    let mut parts = Vec::new();
    add_span(&mut parts, cpu.occupancy(), between, None, effort);
    keep_longest(&mut parts, queue.len(), actors, effort);
    Span::new(parts)
}

/// How long another CPU that the waiting task may use has been idle.
#[inline]
fn idle_beside(cpus: &Cpus, pending: &Pending, parts: &[Part], pinned: bool, now: Time) -> Option<Nanos> {
    let Some((group, before)) = pending.idle_before else { return pinned.then_some(Nanos::ZERO) };
    let since = (cpus.idle_total(group, now) + pending.idle_carried).saturating_sub(before);
    if since == Nanos::ZERO {
        return Some(since);
    }
    // Each actor has one part, so at most one is idle.
    let own = parts.iter().find(|part| part.0 == ActorId::IDLE).map_or(Nanos::ZERO, |part| part.1);
    Some(since.saturating_sub(own))
}

/// A CPU that the waiting task may use and that has issued no event.
#[inline]
fn unheard_beside(cpus: &Cpus, pending: &Pending) -> Option<CpuId> {
    if !cpus.has_unheard() {
        return None;
    }
    let (group, _) = pending.idle_before?;
    cpus.unheard_in(group)
}

/// What is known of a wait at its end besides its parts.
#[derive(Clone, Copy, Debug)]
struct Outcome {
    end: Time,
    /// Set if the trace ended first.
    open: Option<OpenWait>,
    idle_elsewhere: Option<Nanos>,
    beside_unheard: Option<CpuId>,
    queue_length: u32,
}

impl Outcome {
    /// The wait to report.
    #[inline]
    fn wait<'a>(self, task: TaskKey, pending: &Pending, ended: WaitEnd, pieces: &'a [Piece]) -> Wait<'a> {
        Wait {
            task,
            actor: pending.actor,
            kind: pending.kind,
            cpu: pending.cpu,
            start: pending.start,
            queued: pending.queued.get(),
            end: self.end,
            ended,
            pieces,
            idle_elsewhere: self.idle_elsewhere,
            beside_unheard: self.beside_unheard,
            throughout: (pending.assumed && ended == WaitEnd::TraceEnd).then_some(Throughout::Seen),
            migrations: pending.migrations,
            queue_length: self.queue_length,
            owed: whole(pending.owed),
            preempted_by: pending.preemptor.map(|preemptor| preemptor.latest()),
            open: self.open,
        }
    }
}

#[inline]
fn uncrowd(actors: &mut Actors, pending: &Pending) {
    if pending.kind != WaitKind::Preemption {
        let actor = actors.get_mut(pending.actor);
        actor.woken_waiting = actor.woken_waiting.saturating_sub(1);
    }
}
