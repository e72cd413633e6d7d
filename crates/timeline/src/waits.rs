use unstarve_model::{CpuId, CpuSet, Nanos, Policy, Time};

use crate::attribution::split;
use crate::cpu::Cpu;
use crate::deferred_waits::{Ended, HoldId};
use crate::effort::{Effort, UNCOUNTED_STEPS, count_steps};
use crate::grace::drives_grace_periods;
use crate::idle::{IdleGroup, IdleWatch};
use crate::occupancy::Mark;
use crate::opt_time::OptTime;
use crate::parts::{Part, Span, add, add_span, keep_longest};
use crate::throttle_detection::Stopped;
use crate::timeline::Timeline;
use crate::{ActorId, Actors, OpenWait, Piece, Sink, State, TaskKey, Throughout, Wait, WaitEnd, WaitKind};
use unstarve_sched::fairness::whole;

/// A wait in progress.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    pub kind: WaitKind,
    pub actor: ActorId,
    pub start: Time,
    pub queued: OptTime,
    /// Where it waits now.
    pub cpu: CpuId,
    /// From when on the present CPU's occupants are not yet in `parts`.
    pub segment: Time,
    /// Who had that CPU then, if that moment was the present.
    pub mark: Option<Mark>,
    /// Occupants so far, of CPUs it has left.
    pub parts: Vec<Part>,
    /// Since when the CPU has been idle although the task was on its queue.
    pub passed_over: OptTime,
    /// How long that has been in all.
    pub passed_over_total: Nanos,
    /// What a limit on its class has cost it; only for real-time and deadline tasks.
    pub stopped: Option<Box<Stopped>>,
    pub preemptor: Option<Preemptor>,
    pub owed: f64,
    pub idle_before: Option<(IdleGroup, Nanos)>,
    /// Idle time that was known only afterwards.
    pub idle_carried: Nanos,
    pub migrations: u32,
    /// Whether only the host's state when the trace began speaks for it.
    pub assumed: bool,
    /// Where it is among the waits that may have to be held back.
    pub hold: Option<HoldId>,
}

/// Who pushed the waiting task off its CPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Preemptor {
    pub task: TaskKey,
    pub actor: ActorId,
    /// What it turned out to be in that stay, or in a part of it; the same if nothing else.
    pub became: ActorId,
    /// Whether it had just been woken, see [`crate::Rule::WakeupPreemption`].
    pub by_wakeup: bool,
    /// How long it then stayed, interrupts not counted; `None` while it does.
    pub stayed: Option<Nanos>,
    /// Since when.
    pub since: Time,
}

/// More woken tasks of one kind than this many for each CPU, and never fewer than four, are a crowd.
const CROWD_PER_CPU: u32 = 2;
const CROWD_LEAST: u32 = 4;

/// No CPU needs longer than this to leave idle.
const LEAVES_IDLE_WITHIN: Nanos = Nanos::from_millis(1);

impl Timeline {
    /// The task becomes runnable on `cpu` and waits there.
    pub(crate) fn begin_wait(&mut self, key: TaskKey, kind: WaitKind, cpu: CpuId, start: Time, queued: Option<Time>) {
        let now = self.world.now;
        let here = &mut self.cpus[cpu.index()];
        self.places.push(&mut here.queue, key);
        let task = self.world.tasks.get_mut(key);
        let group = if task.pinned { None } else { task.affinity.or(task.moved.then_some(IdleWatch::ALL)) };
        task.put_on(cpu);
        task.state = State::Waiting;
        self.world.actors.join(task);
        if task.account.weight == 0 {
            let weight = task.weight();
            here.fairness.join(start, &mut task.account, weight);
        }
        task.pending = Some(Pending {
            queued: queued.into(),
            mark: (start == now).then(|| here.occupancy.mark(now)),
            idle_before: group.map(|group| (group, self.idle.total(group, now))),
            ..Pending::new(kind, task.actor, start, cpu)
        });
        if kind != WaitKind::Preemption {
            let threshold = (CROWD_PER_CPU * self.world.cpus).max(CROWD_LEAST);
            let actor = self.world.actors.get_mut(task.actor);
            actor.woken_waiting += 1;
            if actor.woken_waiting > threshold {
                actor.last_crowd = Some(now);
            }
        }
        self.stop_if_its_class_is(key, cpu);
    }

    /// The waiting task is moved to another CPU's queue.
    pub(crate) fn move_wait(&mut self, key: TaskKey, to: CpuId) {
        let now = self.world.now;
        let task = self.world.tasks.get_mut(key);
        let weight = task.weight();
        let Some(pending) = &mut task.pending else { return };
        let from = &mut self.cpus[pending.cpu.index()];
        pending.owed += from.fairness.leave(now, &mut task.account);
        self.places.remove(&mut from.queue, key);
        self.held.note(from, pending, key, now);
        pending.catch_up(from, task.prio.policy());
        pending.close_segment(from, now, &self.world.actors, &mut self.effort);
        pending.stop(false);
        pending.migrations += 1;
        pending.cpu = to;
        let cpu = &mut self.cpus[to.index()];
        pending.mark = Some(cpu.occupancy.mark(now));
        self.places.push(&mut cpu.queue, key);
        cpu.fairness.join(now, &mut task.account, weight);
        task.put_on(to);
    }

    /// The woken task runs, and only that tells on which CPU it waited: nothing tells where it was queued. It is taken to
    /// have waited here, unless this CPU was idle for long and the one on which it ran before was busy: then it was
    /// fetched from there.
    pub(crate) fn follow(&mut self, key: TaskKey, to: CpuId) {
        let now = self.world.now;
        let task = self.world.tasks.get_mut(key);
        let weight = task.weight();
        let Some(pending) = &mut task.pending else { return };
        let (from, here) = (&self.cpus[pending.cpu.index()], &self.cpus[to.index()]);
        let since = pending.start.max(here.occupancy.forgotten());
        let idle_here = here.occupancy.time_of(ActorId::IDLE, since, now);
        let idle_before: Nanos = pending.parts.iter().filter(|part| part.0 == ActorId::IDLE).map(|part| part.1).sum();
        let idle_there = idle_before + from.occupancy.time_of(ActorId::IDLE, pending.segment, now);
        if idle_here > LEAVES_IDLE_WITHIN && idle_there < idle_here {
            return self.move_wait(key, to);
        }
        self.followed += 1;
        let from = &mut self.cpus[pending.cpu.index()];
        from.fairness.leave(now, &mut task.account);
        self.places.remove(&mut from.queue, key);
        if let Some(hold) = pending.hold.take() {
            self.held.forget(hold);
        }
        pending.parts.clear();
        let unknown = since.since(pending.start);
        if unknown > Nanos::ZERO {
            pending.parts.push((ActorId::UNKNOWN, unknown));
        }
        (pending.cpu, pending.segment, pending.mark) = (to, since, None);
        (pending.passed_over, pending.passed_over_total) = (OptTime::NONE, Nanos::ZERO);
        pending.stopped = None;
        let here = &mut self.cpus[to.index()];
        self.places.push(&mut here.queue, key);
        here.fairness.join(now, &mut task.account, weight);
        // What the others weigh here now stands for what they weighed meanwhile.
        let share = f64::from(weight) / here.fairness.weight().max(1) as f64;
        pending.owed = now.since(pending.start).0 as f64 * share;
        task.put_on(to);
    }

    /// Settles all waits of a CPU so that its occupancy can forget the past.
    pub(crate) fn take_stock(&mut self, index: usize) {
        let now = self.world.now;
        let cpu = &mut self.cpus[index];
        // No more waits are settled than there were changes, however many wait.
        if !cpu.occupancy.is_full(cpu.queue.len()) {
            return;
        }
        self.effort.grant(cpu.occupancy.changes());
        if self.effort.is_spent() && cpu.queue.len() > UNCOUNTED_STEPS {
            // Each that waits here finds that this time is not remembered.
            self.effort.cut_short += cpu.queue.len() as u64;
        } else {
            self.settle_waits(index);
        }
        let cpu = &mut self.cpus[index];
        cpu.add_up_whole(now, &self.world.actors, &mut self.effort);
        cpu.occupancy.forget(now);
    }

    fn settle_waits(&mut self, index: usize) {
        let now = self.world.now;
        let cpu = &mut self.cpus[index];
        // Those that have waited here since stock was last taken have all waited for the same.
        let last = cpu.occupancy.forgotten();
        let mut since_last = None;
        count_steps(cpu.queue.len());
        for place in 0..cpu.queue.len() {
            let key = cpu.queue[place];
            let task = self.world.tasks.get_mut(key);
            let class = task.prio.policy();
            let Some(pending) = &mut task.pending else { continue };
            pending.catch_up(cpu, class);
            self.held.note(cpu, pending, key, now);
            let was_passed_over = pending.passed_over.is_some();
            if pending.segment == last && pending.mark.is_none() {
                let span = since_last.get_or_insert_with(|| cpu.span(last, now, &self.world.actors, &mut self.effort));
                pending.add_segment(span, cpu, now, &self.world.actors, &mut self.effort);
            } else {
                pending.close_segment(cpu, now, &self.world.actors, &mut self.effort);
            }
            pending.passed_over = was_passed_over.then_some(now).into();
        }
    }

    /// The task waits no longer, and nobody knows since when: the wait is not reported.
    pub(crate) fn drop_wait(&mut self, key: TaskKey) {
        let now = self.world.now;
        let task = self.world.tasks.get_mut(key);
        let Some(pending) = task.pending.take() else { return };
        let cpu = &mut self.cpus[pending.cpu.index()];
        cpu.fairness.leave(now, &mut task.account);
        self.places.remove(&mut cpu.queue, key);
        uncrowd(&mut self.world.actors, &pending);
        if let Some(hold) = pending.hold {
            self.held.forget(hold);
        }
    }

    /// The task gets the CPU, or the trace ends and leaves it open: reports the wait.
    ///
    /// The pending wait is worked on where it is and then cleared: moving its 200 bytes out was a good part of the cost
    /// of a wait.
    pub(crate) fn end_wait(&mut self, key: TaskKey, open: Option<OpenWait>, sink: &mut impl Sink) {
        let now = self.world.now;
        let ended = if open.is_some() { WaitEnd::TraceEnd } else { WaitEnd::Ran };
        let task = self.world.tasks.get_mut(key);
        let (limited, class) = (task.may_be_throttled(), task.prio.policy());
        let Some(pending) = &mut task.pending else { return };
        let cpu = &mut self.cpus[pending.cpu.index()];
        let queue_length = cpu.queue.len() as u32;
        pending.owed += match ended {
            // It goes on being runnable here.
            WaitEnd::Ran => cpu.fairness.due(now, &mut task.account),
            WaitEnd::TraceEnd => cpu.fairness.leave(now, &mut task.account),
        };
        self.places.remove(&mut cpu.queue, key);
        uncrowd(&mut self.world.actors, pending);
        pending.catch_up(cpu, class);
        let is_plain = pending.is_plain();
        let only;
        let parts = if is_plain {
            match cpu.occupancy.only_part(pending.segment, now) {
                Some(part) => {
                    only = [part];
                    &only[..]
                }
                None => {
                    let parts = &mut self.parts;
                    parts.clear();
                    if self.effort.is_spent() {
                        add_span(parts, &cpu.occupancy, (pending.segment, now), None, &mut self.effort);
                    } else {
                        let add = |actor, length| parts.push((actor, length));
                        let looked_at = cpu.occupancy.parts(pending.segment, now, pending.mark, add);
                        if looked_at > UNCOUNTED_STEPS {
                            self.effort.take(looked_at);
                        }
                    }
                    &parts[..]
                }
            }
        } else {
            pending.close_segment(cpu, now, &self.world.actors, &mut self.effort);
            if class <= Policy::Fair {
                // It was taken out of its class meanwhile.
                pending.forget_stops();
            }
            &pending.parts[..]
        };
        let idle_elsewhere = idle_beside(&self.idle, pending, parts, task.pinned, now);
        let beside_unheard = unheard_beside(&self.idle, self.unheard.as_ref(), pending);
        task.debts.push(pending.actor, pending.start, now);
        if drives_grace_periods(task.kernel_thread, &task.comm) {
            self.grace_periods.push(pending.actor, pending.start, now);
        }
        if pending.hold.is_some() {
            self.hold_back(key, open, (idle_elsewhere, beside_unheard), queue_length);
            return;
        }
        let missing = self.missing_switches > 0;
        let pieces = split(pending, parts, limited, missing, now, &self.world.actors, &mut self.pieces);
        self.effort.take_pieces(pieces.len());
        let mut wait = wait_of(key, pending, (now, ended), pieces, idle_elsewhere, queue_length);
        wait.beside_unheard = beside_unheard;
        wait.open = open;
        task.pending = None;
        sink.wait(&self.world, &wait);
    }

    /// A part of the wait is part of a stay that still lasts: it is reported when that is over.
    #[cold]
    fn hold_back(
        &mut self,
        key: TaskKey,
        open: Option<OpenWait>,
        beside: (Option<Nanos>, Option<CpuId>),
        queue_length: u32,
    ) {
        let end = self.world.now;
        let Some(pending) = self.world.tasks.get_mut(key).pending.take() else { return };
        let Some(hold) = pending.hold else { return };
        self.world.tasks.pin(key);
        let (idle_elsewhere, beside_unheard) = beside;
        self.held.keep(hold, Ended { task: key, pending, end, open, idle_elsewhere, beside_unheard, queue_length });
    }

    /// How long another CPU has been idle that the waiting task may use.
    pub(crate) fn idle_beside(&self, pending: &Pending, pinned: bool) -> Option<Nanos> {
        idle_beside(&self.idle, pending, &pending.parts, pinned, self.world.now)
    }

    /// A CPU that it may use and that has issued no event.
    pub(crate) fn unheard_beside(&self, pending: &Pending) -> Option<CpuId> {
        unheard_beside(&self.idle, self.unheard.as_ref(), pending)
    }
}

#[inline]
fn idle_beside(
    idle: &IdleWatch,
    pending: &Pending,
    parts: &[(ActorId, Nanos)],
    pinned: bool,
    now: Time,
) -> Option<Nanos> {
    let Some((group, before)) = pending.idle_before else { return pinned.then_some(Nanos::ZERO) };
    let since = (idle.total(group, now) + pending.idle_carried).saturating_sub(before);
    if since == Nanos::ZERO {
        return Some(since);
    }
    // Who had it has one part, so at most one is idle.
    let own = parts.iter().find(|part| part.0 == ActorId::IDLE).map_or(Nanos::ZERO, |part| part.1);
    Some(since.saturating_sub(own))
}

#[inline]
fn unheard_beside(idle: &IdleWatch, unheard: Option<&CpuSet>, pending: &Pending) -> Option<CpuId> {
    let unheard = unheard?;
    let (group, _) = pending.idle_before?;
    idle.last_of(group, unheard)
}

/// The wait, as it is reported.
#[inline]
pub(crate) fn wait_of<'a>(
    task: TaskKey,
    pending: &Pending,
    (end, ended): (Time, WaitEnd),
    pieces: &'a [Piece],
    idle_elsewhere: Option<Nanos>,
    queue_length: u32,
) -> Wait<'a> {
    Wait {
        task,
        actor: pending.actor,
        kind: pending.kind,
        cpu: pending.cpu,
        start: pending.start,
        queued: pending.queued.get(),
        end,
        ended,
        pieces,
        idle_elsewhere,
        beside_unheard: None,
        throughout: (pending.assumed && ended == WaitEnd::TraceEnd).then_some(Throughout::Seen),
        migrations: pending.migrations,
        queue_length,
        owed: whole(pending.owed),
        preempted_by: pending.preemptor.map(|preemptor| preemptor.latest()),
        open: None,
    }
}

#[inline]
fn uncrowd(actors: &mut Actors, pending: &Pending) {
    if pending.kind != WaitKind::Preemption {
        let actor = actors.get_mut(pending.actor);
        actor.woken_waiting = actor.woken_waiting.saturating_sub(1);
    }
}

impl Pending {
    pub fn new(kind: WaitKind, actor: ActorId, start: Time, cpu: CpuId) -> Pending {
        Pending {
            kind,
            actor,
            start,
            queued: OptTime::NONE,
            cpu,
            segment: start,
            mark: None,
            parts: Vec::new(),
            passed_over: OptTime::NONE,
            passed_over_total: Nanos::ZERO,
            stopped: None,
            preemptor: None,
            owed: 0.0,
            idle_before: None,
            idle_carried: Nanos::ZERO,
            migrations: 0,
            assumed: false,
            hold: None,
        }
    }

    /// Whether all of it lies in the present segment, in which nothing is to be told apart.
    #[inline(always)]
    fn is_plain(&self) -> bool {
        self.parts.is_empty() && self.stopped.is_none() && self.passed_over.is_none() && self.hold.is_none()
    }

    /// Adds the present CPU's occupants since the segment's start to the parts.
    pub(crate) fn close_segment(&mut self, cpu: &Cpu, now: Time, actors: &Actors, effort: &mut Effort) {
        let (span, mark) = ((self.segment, now), self.mark.take());
        let parts = self.parts_now();
        add_span(parts, &cpu.occupancy, span, mark, effort);
        keep_longest(parts, cpu.queue.len(), actors, effort);
        self.begin_segment(cpu, now);
    }

    /// The same where they are known.
    fn add_segment(&mut self, span: &mut Span, cpu: &Cpu, now: Time, actors: &Actors, effort: &mut Effort) {
        let parts = self.parts_now();
        effort.take(span.len() + parts.len());
        span.add_to(parts);
        keep_longest(parts, cpu.queue.len(), actors, effort);
        self.begin_segment(cpu, now);
    }

    /// Gives the time of which the CPU remembers nothing any more to nobody.
    #[inline(always)]
    pub(crate) fn catch_up(&mut self, cpu: &Cpu, class: Policy) {
        let forgotten = cpu.forgotten(class);
        if self.segment < forgotten {
            self.catch_up_to(forgotten);
        }
    }

    #[cold]
    fn catch_up_to(&mut self, forgotten: Time) {
        let gap = forgotten.since(self.segment);
        // What came before is settled only so far.
        add(self.parts_now(), ActorId::UNKNOWN, gap);
        self.stop(false);
        (self.segment, self.mark) = (forgotten, None);
    }

    /// What the segment's occupants are added to.
    fn parts_now(&mut self) -> &mut Vec<Part> {
        match &mut self.stopped {
            Some(stopped) if stopped.now => &mut stopped.parts,
            _ => &mut self.parts,
        }
    }

    fn begin_segment(&mut self, cpu: &Cpu, now: Time) {
        if let Some(since) = self.passed_over.take() {
            self.passed_over_total += cpu.occupancy.time_of(ActorId::IDLE, since, now);
        }
        self.segment = now;
    }
}

impl Preemptor {
    fn latest(&self) -> ActorId {
        self.became
    }

    pub fn is(&self, occupant: ActorId) -> bool {
        self.actor == occupant || self.became == occupant
    }
}
