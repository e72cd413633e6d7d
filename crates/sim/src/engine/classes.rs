//! The scheduling classes of a CPU: who is queued, who runs next, whose time it was.

use unstarve_model::{Nanos, Time};
use unstarve_sched::DEADLINE_RANK;

use super::fair::Arriving;
use super::run::Engine;
use super::state::{ClassState, Doing, NEVER, RtWaiting, TimerKind, Work};
use crate::ActorId;

impl Engine<'_> {
    /// Accounts the time of a CPU's current actor up to now: `update_curr()` of its class.
    pub(super) fn account(&mut self, cpu: usize) {
        let of_cpu = &mut self.cpus[cpu];
        let Some(id) = of_cpu.current.filter(|_| of_cpu.accounted < self.now) else { return };
        let delta = self.now - of_cpu.accounted;
        of_cpu.accounted = self.now;
        of_cpu.ran += delta;
        let actor = &mut self.actors[id.index()];
        actor.ran += delta;
        if let Work::Cpu(left) = &mut actor.work {
            *left = left.saturating_sub(delta);
        }
        match &mut actor.class {
            ClassState::Fair { entity, .. } => {
                let resched = self.fair.update_curr(*entity, delta as i64);
                let stops = of_cpu.server.as_mut().is_some_and(|server| server.update(Time(self.now), Nanos(delta)));
                of_cpu.needs_resched |= resched || stops;
                self.arm_server(cpu);
            }
            ClassState::Realtime { .. } => {
                let limit = self.model.real_time_limit;
                of_cpu.needs_resched |= limit.is_some_and(|limit| of_cpu.budget.update_curr_rt(Nanos(delta), limit));
            }
            ClassState::Deadline { reservation, .. } => {
                if let Some(limit) = self.model.real_time_limit {
                    of_cpu.budget.update_curr_dl(Nanos(delta), limit);
                }
                if reservation.use_up(Nanos(delta)) {
                    self.throttle_deadline(id, cpu);
                }
            }
        }
    }

    /// A deadline actor has used its runtime: it waits for its next period.
    fn throttle_deadline(&mut self, id: ActorId, cpu: usize) {
        self.cpus[cpu].needs_resched = true;
        let ClassState::Deadline { reservation, is_throttled } = &mut self.actors[id.index()].class else { return };
        let next = reservation.next_period();
        if next <= Time(self.now) {
            reservation.replenish(Time(self.now));
        } else if !*is_throttled {
            *is_throttled = true;
            self.timers.set(next.0, TimerKind::Replenish(id));
        }
    }

    /// The next period of a throttled deadline actor has come: `dl_task_timer()`.
    pub(super) fn replenish(&mut self, id: ActorId) {
        let actor = &mut self.actors[id.index()];
        let ClassState::Deadline { reservation, is_throttled } = &mut actor.class else { return };
        *is_throttled = false;
        reservation.replenish(Time(self.now));
        if actor.doing == Doing::Waits {
            let cpu = actor.cpu;
            self.account(cpu);
            self.cpus[cpu].deadline.push(id);
            self.check_preempt(cpu, id);
        }
    }

    /// Puts a waiting actor on the queue of its CPU, and looks whether it goes first.
    pub(super) fn enqueue(&mut self, id: ActorId) {
        let cpu = self.actors[id.index()].cpu;
        self.account(cpu);
        let actor = &mut self.actors[id.index()];
        let may_run = match &mut actor.class {
            ClassState::Fair { entity, cgroup, .. } => {
                let (entity, queue) = (*entity, self.fair.queue_of(*cgroup, cpu));
                if !self.fair.is_delayed(entity) {
                    self.fair.set_queue(entity, queue);
                }
                let how = if std::mem::take(&mut actor.is_unborn) { Arriving::Born } else { Arriving::Awake };
                self.fair.enqueue_task(entity, how, self.now)
            }
            ClassState::Realtime { priority, .. } => {
                let waiting = RtWaiting { actor: id, priority: *priority };
                self.cpus[cpu].queue_realtime(waiting, false);
                self.begin_realtime_limit();
                true
            }
            ClassState::Deadline { reservation, is_throttled } => {
                if !*is_throttled && reservation.must_wait_for_period(Time(self.now)) {
                    *is_throttled = true;
                    self.timers.set(reservation.next_period().0, TimerKind::Replenish(id));
                }
                if !*is_throttled {
                    reservation.wake(Time(self.now));
                    self.cpus[cpu].deadline.push(id);
                }
                !*is_throttled
            }
        };
        self.update_server(cpu);
        if may_run {
            self.check_preempt(cpu, id);
        }
    }

    /// The periods of the real-time limit begin with the first real-time actor.
    fn begin_realtime_limit(&mut self) {
        if let Some(limit) = self.model.real_time_limit.filter(|_| !self.has_realtime_period) {
            self.has_realtime_period = true;
            // Who was there before the recording began may be anywhere in a period.
            let period = limit.period.0.max(1);
            let first = if self.now == 0 { self.replica.first_realtime_period(period) } else { self.now + period };
            self.timers.set(first, TimerKind::RealtimePeriod);
        }
    }

    /// `wakeup_preempt()`: whether an actor that comes to a CPU takes it from the current one.
    pub(super) fn check_preempt(&mut self, cpu: usize, id: ActorId) {
        let of_cpu = &self.cpus[cpu];
        let Some(curr) = of_cpu.current else {
            self.cpus[cpu].needs_resched = true;
            return;
        };
        let needs_resched = of_cpu.needs_resched;
        let rank = if of_cpu.is_served { DEADLINE_RANK } else { self.actors[curr.index()].rank() };
        let its = self.actors[id.index()].rank();
        let (running, woken) = (&self.actors[curr.index()].class, &self.actors[id.index()].class);
        let preempts = match (running, woken) {
            (ClassState::Fair { entity, .. }, ClassState::Fair { entity: woken, .. }) => {
                self.fair.check_preempt_wakeup(*entity, *woken, needs_resched)
            }
            (_, ClassState::Deadline { reservation, .. }) if rank == DEADLINE_RANK => {
                self.deadline_of_current(cpu).is_some_and(|current| reservation.deadline() < current)
            }
            _ => its > rank,
        };
        self.cpus[cpu].needs_resched |= preempts;
    }

    fn deadline_of_current(&self, cpu: usize) -> Option<Time> {
        let of_cpu = &self.cpus[cpu];
        match &self.actors[of_cpu.current?.index()].class {
            ClassState::Deadline { reservation, .. } => Some(reservation.deadline()),
            _ => Some(of_cpu.server?.deadline()),
        }
    }

    /// The running actor stops to be runnable.
    pub(super) fn go_to_sleep(&mut self, id: ActorId) {
        let actor = &mut self.actors[id.index()];
        let cpu = actor.cpu;
        actor.since = self.now;
        if let Some(entity) = actor.entity() {
            self.fair.sleep_task(entity, self.now);
            self.update_server(cpu);
        }
        self.cpus[cpu].needs_resched = true;
    }

    /// The tick of a CPU's current actor.
    pub(super) fn task_tick(&mut self, cpu: usize) {
        let Some(id) = self.cpus[cpu].current else { return };
        match &mut self.actors[id.index()].class {
            ClassState::Fair { entity, .. } => {
                let resched = self.fair.task_tick(*entity, self.now);
                self.cpus[cpu].needs_resched |= resched;
            }
            ClassState::Realtime { priority, is_rr: true, ticks_left } => {
                *ticks_left = ticks_left.saturating_sub(1);
                let has_equal = self.cpus[cpu].realtime.iter().any(|other| other.priority == *priority);
                if *ticks_left == 0 && has_equal {
                    self.cpus[cpu].needs_resched = true;
                } else if *ticks_left == 0 {
                    *ticks_left = self.model.rr_ticks;
                }
            }
            ClassState::Realtime { .. } | ClassState::Deadline { .. } => {}
        }
    }

    /// `__schedule()`: gives a CPU to who goes first.
    pub(super) fn schedule(&mut self, cpu: usize) {
        self.account(cpu);
        self.cpus[cpu].needs_resched = false;
        let prev = self.cpus[cpu].current;
        let stays = prev.filter(|id| self.actors[id.index()].doing == Doing::Runs);
        if let Some(id) = stays {
            self.put_back(cpu, id);
        }
        let (next, is_served) = self.pick_next(cpu);
        self.cpus[cpu].is_served = is_served;
        if next.is_none() || next != stays {
            let entity = |id: Option<ActorId>| id.and_then(|id| self.actors[id.index()].entity());
            let (from, to) = (entity(prev), entity(next));
            self.fair.switch(from, to);
            self.note_switch(cpu, prev, stays.is_some(), next);
            self.leave(cpu, prev, stays.is_some());
            self.start(cpu, next);
        }
        self.arm(cpu);
        if self.moves_realtime {
            self.push_realtime(cpu);
        }
    }

    /// Puts the current actor, which stays runnable, on the queue of its class. Fair ones are in theirs.
    fn put_back(&mut self, cpu: usize, id: ActorId) {
        let rr_ticks = self.model.rr_ticks;
        match &mut self.actors[id.index()].class {
            ClassState::Fair { .. } | ClassState::Deadline { is_throttled: true, .. } => {}
            ClassState::Realtime { priority, is_rr, ticks_left } => {
                let its_turn_is_over = *is_rr && *ticks_left == 0;
                if its_turn_is_over {
                    *ticks_left = rr_ticks;
                }
                let waiting = RtWaiting { actor: id, priority: *priority };
                self.cpus[cpu].queue_realtime(waiting, !its_turn_is_over);
            }
            ClassState::Deadline { .. } => self.cpus[cpu].deadline.push(id),
        }
    }

    /// `pick_next_task()`: who goes first, taken from the queue of its class, and whether on behalf of the fair server.
    fn pick_next(&mut self, cpu: usize) -> (Option<ActorId>, bool) {
        let first = self.first_deadline(cpu);
        let server = self.cpus[cpu].server.filter(|server| server.is_running());
        if server.is_some_and(|server| first.is_none_or(|(_, deadline)| server.deadline() < deadline))
            && let Some(id) = self.pick_fair(cpu)
        {
            return (Some(id), true);
        }
        if let Some((index, _)) = first {
            return (Some(self.cpus[cpu].deadline.remove(index)), false);
        }
        if self.moves_realtime {
            self.pull_realtime(cpu);
        }
        let of_cpu = &mut self.cpus[cpu];
        if !of_cpu.budget.is_throttled() && !of_cpu.realtime.is_empty() {
            return (Some(of_cpu.realtime.remove(0).actor), false);
        }
        if let Some(id) = self.pick_fair(cpu) {
            return (Some(id), false);
        }
        if self.moves_fair && self.pull_fair(cpu) {
            return (self.pick_fair(cpu), false);
        }
        (None, false)
    }

    fn pick_fair(&mut self, cpu: usize) -> Option<ActorId> {
        let entity = self.fair.pick_task(cpu)?;
        self.fair.actor_of(entity)
    }

    /// The index of the deadline actor with the earliest deadline, and that.
    fn first_deadline(&self, cpu: usize) -> Option<(usize, Time)> {
        let deadline_of = |id: &ActorId| match &self.actors[id.index()].class {
            ClassState::Deadline { reservation, .. } => reservation.deadline(),
            _ => Time(NEVER),
        };
        self.cpus[cpu].deadline.iter().map(deadline_of).enumerate().min_by_key(|(_, deadline)| *deadline)
    }

    /// An actor loses a CPU; it stays runnable, or sleeps.
    fn leave(&mut self, cpu: usize, prev: Option<ActorId>, stays: bool) {
        let Some(id) = prev else {
            self.cpus[cpu].idle += self.now - self.cpus[cpu].idle_since;
            return;
        };
        let actor = &mut self.actors[id.index()];
        self.felt.ran(id, Nanos(std::mem::take(&mut actor.ran)), stays);
        if stays {
            actor.doing = Doing::Waits;
            actor.since = self.now;
            actor.was_woken = false;
            if let Work::Cpu(left) = &mut actor.work {
                *left = left.saturating_add(self.model.costs.preemption.0);
            }
        }
    }

    /// An actor gets a CPU; `None` is idle.
    fn start(&mut self, cpu: usize, next: Option<ActorId>) {
        let of_cpu = &mut self.cpus[cpu];
        of_cpu.current = next;
        let Some(id) = next else {
            of_cpu.idle_since = self.now;
            return;
        };
        let actor = &mut self.actors[id.index()];
        let costs = self.model.costs;
        let cost = if actor.was_woken { costs.switch + costs.wake } else { costs.switch };
        let starts = self.now.saturating_add(cost.0);
        let within = starts.min(self.length);
        self.felt.waited(id, Nanos(within - actor.since));
        actor.doing = Doing::Runs;
        actor.since = within;
        of_cpu.accounted = starts;
        of_cpu.switching += within - self.now;
        of_cpu.switches += 1;
    }

    /// Computes when a CPU has to look at its current actor.
    pub(super) fn arm(&mut self, cpu: usize) {
        let of_cpu = &self.cpus[cpu];
        let from = of_cpu.accounted;
        let Some(actor) = of_cpu.current.map(|id| &self.actors[id.index()]) else {
            self.cpus[cpu].stop_at = NEVER;
            return;
        };
        let mut stop_at = match actor.work {
            _ if of_cpu.needs_resched => from,
            Work::Cpu(left) => from.saturating_add(left),
            Work::Until(end) => end.max(from),
        };
        match &actor.class {
            ClassState::Fair { entity, .. } if self.model.hrtick => {
                let rest = self.fair.until_slice_ends(*entity).unwrap_or(i64::MAX);
                stop_at = stop_at.min(from.saturating_add(rest.max(1) as u64));
            }
            ClassState::Deadline { reservation, .. } if self.model.hrtick_dl => {
                stop_at = stop_at.min(from.saturating_add(reservation.left().0.max(1)));
            }
            _ => {}
        }
        self.cpus[cpu].stop_at = stop_at;
    }

    /// Starts the fair server of a CPU that has fair actors, and stops it where there are none.
    pub(super) fn update_server(&mut self, cpu: usize) {
        let has_fair = self.fair.root(cpu).h_nr_runnable > 0;
        let Some(server) = &mut self.cpus[cpu].server else { return };
        match has_fair {
            true => server.start(Time(self.now)),
            false => server.stop(),
        }
        self.arm_server(cpu);
    }

    fn arm_server(&mut self, cpu: usize) {
        let of_cpu = &mut self.cpus[cpu];
        let Some(at) = of_cpu.server.and_then(|server| server.timer_at()) else { return };
        // An earlier timer looks again.
        if of_cpu.server_timer.is_none_or(|set| at.0 < set) {
            of_cpu.server_timer = Some(at.0);
            self.timers.set(at.0.max(self.now), TimerKind::Server(cpu));
        }
    }

    /// The timer of a CPU's fair server.
    pub(super) fn serve(&mut self, cpu: usize) {
        self.cpus[cpu].server_timer = None;
        self.account(cpu);
        let of_cpu = &mut self.cpus[cpu];
        let is_due = |at: Time| at <= Time(self.now);
        if let Some(server) = of_cpu.server.as_mut().filter(|server| server.timer_at().is_some_and(is_due)) {
            of_cpu.needs_resched |= server.timer(Time(self.now));
        }
        self.arm_server(cpu);
    }
}
