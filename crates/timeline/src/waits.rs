use unstarve_model::{CpuId, Nanos, Policy, Prio, Time};

use crate::fairness::whole;
use crate::timeline::Timeline;
use crate::{ActorId, ActorKind, Actors, Piece, Rule, Sink, State, TaskKey, Wait, WaitEnd, WaitKind};

/// A wait in progress.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    pub kind: WaitKind,
    pub actor: ActorId,
    pub start: Time,
    pub queued: Option<Time>,
    /// Where it waits now, and its place in that CPU's queue.
    pub cpu: CpuId,
    pub place: usize,
    /// From when on the present CPU's occupants are not yet in `parts`.
    pub segment: Time,
    /// Occupants so far, of CPUs it has left.
    pub parts: Vec<(ActorId, Nanos)>,
    /// Since when the CPU has been idle although the task was on its queue.
    pub passed_over: Option<Time>,
    /// How long that has been in all.
    pub passed_over_total: Nanos,
    pub preemptor: Option<Preemptor>,
    pub owed: f64,
    pub idle_before: Option<(usize, Nanos)>,
    pub migrations: u32,
}

/// Who pushed the waiting task off its CPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Preemptor {
    pub task: TaskKey,
    pub actor: ActorId,
    /// Whether it had just been woken, see [`Rule::WakeupPreemption`].
    pub by_wakeup: bool,
    /// How long it then stayed, interrupts not counted; `None` while it does.
    pub stayed: Option<Nanos>,
    /// Since when.
    pub since: Time,
}

/// More woken tasks of one kind than this many for each CPU, and never fewer than four, are a crowd.
const CROWD_PER_CPU: u32 = 2;
const CROWD_LEAST: u32 = 4;

impl Timeline {
    /// The task becomes runnable on `cpu` and waits there.
    pub(crate) fn begin_wait(&mut self, key: TaskKey, kind: WaitKind, cpu: CpuId, start: Time, queued: Option<Time>) {
        let now = self.world.now;
        let place = self.cpus[cpu.index()].queue.len();
        self.cpus[cpu.index()].queue.push(key);
        let task = self.world.tasks.get_mut(key);
        let group =
            if task.pinned { None } else { task.affinity.or(task.moved.then_some(crate::idle::IdleWatch::ALL)) };
        task.moved |= task.last_cpu.is_some_and(|last| last != cpu);
        task.last_cpu = Some(cpu);
        task.state = State::Waiting;
        if task.account.weight == 0 {
            self.cpus[cpu.index()].fairness.join(start, &mut task.account, task.prio);
        }
        task.pending = Some(Pending {
            kind,
            actor: task.actor,
            start,
            queued,
            cpu,
            place,
            segment: start,
            parts: Vec::new(),
            passed_over: None,
            passed_over_total: Nanos::ZERO,
            preemptor: None,
            owed: 0.0,
            idle_before: group.map(|group| (group, self.idle.total(group, now))),
            migrations: 0,
        });
        if kind != WaitKind::Preemption {
            let threshold = (CROWD_PER_CPU * self.world.cpus).max(CROWD_LEAST);
            let actor = self.world.actors.get_mut(task.actor);
            actor.woken_waiting += 1;
            if actor.woken_waiting > threshold {
                actor.last_crowd = Some(now);
            }
        }
    }

    /// Takes the task out of the queue it waits in. What it was due there goes to the wait's `owed`.
    fn unqueue(&mut self, key: TaskKey, stays_runnable_here: Stays) -> Option<Pending> {
        let now = self.world.now;
        let task = self.world.tasks.get_mut(key);
        let mut pending = task.pending.take()?;
        let cpu = &mut self.cpus[pending.cpu.index()];
        pending.owed += match stays_runnable_here {
            Stays::Here => cpu.fairness.due(now, &mut task.account),
            Stays::Elsewhere => cpu.fairness.leave(now, &mut task.account),
        };
        cpu.queue.swap_remove(pending.place);
        if let Some(moved) = cpu.queue.get(pending.place).copied()
            && let Some(other) = &mut self.world.tasks.get_mut(moved).pending
        {
            other.place = pending.place;
        }
        Some(pending)
    }

    /// The waiting task is moved to another CPU's queue.
    pub(crate) fn move_wait(&mut self, key: TaskKey, to: CpuId) {
        let now = self.world.now;
        let Some(mut pending) = self.unqueue(key, Stays::Elsewhere) else { return };
        self.close_segment(&mut pending);
        pending.migrations += 1;
        pending.cpu = to;
        let cpu = &mut self.cpus[to.index()];
        pending.place = cpu.queue.len();
        cpu.queue.push(key);
        let task = self.world.tasks.get_mut(key);
        cpu.fairness.join(now, &mut task.account, task.prio);
        task.moved |= task.last_cpu.is_some_and(|last| last != to);
        task.last_cpu = Some(to);
        task.pending = Some(pending);
    }

    /// Adds the present CPU's occupants since the segment's start to the parts.
    fn close_segment(&mut self, pending: &mut Pending) {
        let now = self.world.now;
        let log = &self.cpus[pending.cpu.index()].occupancy;
        log.parts(pending.segment, now, |actor, length| add(&mut pending.parts, actor, length));
        if let Some(since) = pending.passed_over.take() {
            pending.passed_over_total += log.time_of(ActorId::IDLE, since, now);
        }
        pending.segment = now;
    }

    /// Settles all waits of a CPU so that its occupancy can forget the past.
    pub(crate) fn take_stock(&mut self, index: usize) {
        let now = self.world.now;
        for place in 0..self.cpus[index].queue.len() {
            let key = self.cpus[index].queue[place];
            let Some(mut pending) = self.world.tasks.get_mut(key).pending.take() else { continue };
            let was_passed_over = pending.passed_over.is_some();
            self.close_segment(&mut pending);
            pending.passed_over = was_passed_over.then_some(now);
            self.world.tasks.get_mut(key).pending = Some(pending);
        }
        self.cpus[index].occupancy.forget(now);
    }

    /// The CPU goes idle although tasks are on its queue.
    pub(crate) fn pass_over(&mut self, index: usize) {
        let now = self.world.now;
        for place in 0..self.cpus[index].queue.len() {
            let key = self.cpus[index].queue[place];
            let task = self.world.tasks.get_mut(key);
            let limit_possible = task.limited.unwrap_or(self.migrations_recorded);
            let Some(pending) = &mut task.pending else { continue };
            // Between sched_waking and sched_wakeup a task is not on the queue yet, so the CPU may well go idle.
            if limit_possible && (pending.kind == WaitKind::Preemption || pending.queued.is_some()) {
                pending.passed_over = Some(now);
            }
        }
    }

    /// The CPU is no longer idle.
    pub(crate) fn stop_passing_over(&mut self, index: usize) {
        let now = self.world.now;
        for place in 0..self.cpus[index].queue.len() {
            let key = self.cpus[index].queue[place];
            if let Some(pending) = &mut self.world.tasks.get_mut(key).pending
                && let Some(since) = pending.passed_over.take()
            {
                pending.passed_over_total += self.cpus[index].occupancy.time_of(ActorId::IDLE, since, now);
            }
        }
    }

    /// The task waits no longer, and nobody knows since when: the wait is not reported.
    pub(crate) fn drop_wait(&mut self, key: TaskKey) {
        if let Some(pending) = self.unqueue(key, Stays::Elsewhere) {
            self.uncrowd(&pending);
        }
    }

    fn uncrowd(&mut self, pending: &Pending) {
        if pending.kind != WaitKind::Preemption {
            let actor = self.world.actors.get_mut(pending.actor);
            actor.woken_waiting = actor.woken_waiting.saturating_sub(1);
        }
    }

    /// The task gets the CPU, or the trace ends: reports the wait.
    pub(crate) fn end_wait(&mut self, key: TaskKey, ended: WaitEnd, sink: &mut impl Sink) {
        let now = self.world.now;
        let queue_of = self.world.tasks.get(key).pending.as_ref().map(|pending| pending.cpu);
        let Some(queue_length) = queue_of.map(|cpu| self.cpus[cpu.index()].queue.len() as u32) else { return };
        let stays = if ended == WaitEnd::Ran { Stays::Here } else { Stays::Elsewhere };
        let Some(mut pending) = self.unqueue(key, stays) else { return };
        self.uncrowd(&pending);
        if pending.parts.is_empty() {
            pending.parts = std::mem::take(&mut self.parts);
        }
        self.close_segment(&mut pending);
        let mut pieces = std::mem::take(&mut self.pieces);
        self.split(&pending, key, &mut pieces);
        let own_idle: Nanos =
            pieces.iter().filter(|piece| piece.occupant == ActorId::IDLE).map(|piece| piece.length).sum();
        let task = self.world.tasks.get_mut(key);
        let idle_elsewhere = match pending.idle_before {
            Some((group, before)) => Some(self.idle.total(group, now).saturating_sub(before).saturating_sub(own_idle)),
            None => task.pinned.then_some(Nanos::ZERO),
        };
        task.debts.push(pending.actor, pending.start, now);
        let wait = Wait {
            task: key,
            actor: pending.actor,
            kind: pending.kind,
            cpu: pending.cpu,
            start: pending.start,
            queued: pending.queued,
            end: now,
            ended,
            pieces: &pieces,
            idle_elsewhere,
            migrations: pending.migrations,
            queue_length,
            owed: whole(pending.owed),
            preempted_by: pending.preemptor.map(|preemptor| preemptor.actor),
        };
        sink.wait(&self.world, &wait);
        self.pieces = pieces;
        self.parts = pending.parts;
        self.parts.clear();
    }

    /// Gives each part of a wait its rule.
    fn split(&self, pending: &Pending, key: TaskKey, pieces: &mut Vec<Piece>) {
        pieces.clear();
        let victim = Contender::of(&self.world.actors, pending.actor);
        let limited = self.world.tasks.get(key).limited;
        for &(occupant, length) in &pending.parts {
            let actor = self.world.actors.get(occupant);
            let mut rest = length;
            let mut piece = |rule: Rule, length: Nanos| {
                if length > Nanos::ZERO {
                    pieces.push(Piece { occupant, rule, length });
                }
            };
            match actor.kind {
                ActorKind::Unknown => piece(Rule::Unknown, rest),
                ActorKind::Irq { .. } => piece(Rule::Irq, rest),
                ActorKind::Softirq { .. } => piece(Rule::Softirq, rest),
                ActorKind::Others => piece(Rule::Fair, rest),
                ActorKind::Idle => {
                    let off = if limited == Some(false) { Nanos::ZERO } else { pending.passed_over_total.min(rest) };
                    piece(Rule::Throttled, off);
                    piece(Rule::Idle, rest.saturating_sub(off));
                }
                ActorKind::Tasks { .. } => {
                    let contender = Contender::of(&self.world.actors, occupant);
                    if contender.is_above(&victim) {
                        piece(Rule::Class, rest);
                        continue;
                    }
                    if let Some(preemptor) = pending.preemptor
                        && preemptor.by_wakeup
                        && preemptor.actor == occupant
                    {
                        let stayed = preemptor.stayed.unwrap_or_else(|| self.world.now.since(preemptor.since));
                        piece(Rule::WakeupPreemption, stayed.min(rest));
                        rest = rest.saturating_sub(stayed);
                    }
                    let rule = if contender.outweighs(&victim) {
                        Rule::Weight
                    } else if actor.last_crowd.is_some_and(|last| last >= pending.start) {
                        Rule::Count
                    } else {
                        Rule::Fair
                    };
                    piece(rule, rest);
                }
            }
        }
        pieces.sort_unstable_by_key(|piece| std::cmp::Reverse((piece.length, piece.occupant, piece.rule)));
    }
}

/// Whether a task that stops waiting goes on being runnable on the same CPU.
enum Stays {
    Here,
    Elsewhere,
}

fn add(parts: &mut Vec<(ActorId, Nanos)>, actor: ActorId, length: Nanos) {
    match parts.iter_mut().find(|part| part.0 == actor) {
        Some(part) => part.1 += length,
        None => parts.push((actor, length)),
    }
}

/// What decides between two tasks.
struct Contender {
    prio: Prio,
    group_weight: Option<u32>,
}

impl Contender {
    fn of(actors: &Actors, id: ActorId) -> Contender {
        let actor = actors.get(id);
        Contender { prio: actor.prio().unwrap_or(Prio::NORMAL), group_weight: actor.group_weight() }
    }

    fn is_above(&self, other: &Contender) -> bool {
        let (mine, its) = (self.prio.policy(), other.prio.policy());
        mine.is_above(its) || mine == its && mine == Policy::Rt && self.prio < other.prio
    }

    /// Tasks of the root cgroup compete by their own weight with the whole of each top-level cgroup
    /// (`kernel-facts`, "Policy, nice, affinity, cgroup of kernel threads").
    fn outweighs(&self, other: &Contender) -> bool {
        let own = |contender: &Contender| contender.prio.load_weight().unwrap_or(1024);
        if self.group_weight == other.group_weight {
            return own(self) > own(other);
        }
        self.group_weight.unwrap_or_else(|| own(self)) > other.group_weight.unwrap_or_else(|| own(other))
    }
}
