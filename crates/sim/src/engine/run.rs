//! The clock: takes the next event and gives it to its thread or CPU.

use unstarve_model::{Event, Nanos, SchedPolicy};
use unstarve_sched::deadline::{Parameters, Reservation};
use unstarve_sched::fair::task_weight;

use super::events::Log;
use super::fair::{Entity, FairClass};
use super::state::{ActorState, ClassState, Cpu, Doing, TimerKind, Timers, Work};
use super::{CpuPlayed, EngineError, Played, Replica, SchedulerModel};
use crate::{Actor, ActorId, Class, FeltSoFar, Program};

/// A program that is being played.
pub(super) struct Engine<'p> {
    pub(super) program: &'p Program,
    pub(super) model: &'p SchedulerModel,
    pub(super) replica: Replica,
    pub(super) now: u64,
    pub(super) length: u64,
    pub(super) actors: Vec<ActorState<'p>>,
    pub(super) cpus: Vec<Cpu>,
    pub(super) fair: FairClass,
    pub(super) timers: Timers,
    pub(super) felt: FeltSoFar,
    pub(super) events: u64,
    limit: u64,
    tick: u64,
    next_tick: u64,
    /// Whether the periods of the real-time limit have begun.
    pub(super) has_realtime_period: bool,
    /// Whether fair, and real-time, actors may change their CPU.
    pub(super) moves_fair: bool,
    pub(super) moves_realtime: bool,
    /// For lists of waiting actors.
    pub(super) found: Vec<ActorId>,
    /// The events that a recording would have, if they are wanted.
    pub(super) log: Option<Log>,
}

impl<'p> Engine<'p> {
    pub(super) fn new(
        program: &'p Program,
        model: &'p SchedulerModel,
        replica: Replica,
    ) -> Result<Engine<'p>, EngineError> {
        let cpus = program.cpus.len();
        let mut fair = FairClass::new(model.fair, cpus, &program.cgroups, spread_cgroups(program));
        let actors: Vec<ActorState<'p>> =
            program.actors().map(|(id, actor)| actor_state(program, model, replica, id, actor, &mut fair)).collect();
        let is_served = actors.iter().any(|actor| actor.rank() > 0);
        let server = model.fair_server.filter(|_| is_served);
        let tick = model.tick.0.max(1);
        let moves = |is_it: fn(&ActorState<'p>) -> bool| actors.iter().any(|actor| !actor.is_pinned && is_it(actor));
        let (moves_fair, moves_realtime) = (moves(|actor| actor.rank() == 0), moves(|actor| actor.rank() > 0));
        Ok(Engine {
            program,
            model,
            replica,
            now: 0,
            length: program.length.0,
            actors,
            cpus: program
                .cpus
                .iter()
                .map(|cpu| Cpu::new(server.filter(|_| !model.without_server.contains(cpu))))
                .collect(),
            fair,
            timers: Timers::default(),
            felt: FeltSoFar::default(),
            events: 0,
            limit: event_limit(program, tick),
            tick,
            next_tick: replica.first_tick(tick),
            has_realtime_period: false,
            moves_fair,
            moves_realtime,
            found: Vec::new(),
            log: None,
        })
    }

    /// Plays the program to its end.
    pub(super) fn run(mut self) -> Result<(Played, Vec<Event>), EngineError> {
        if self.length > 0 {
            self.note_beginning();
            self.begin();
            self.reschedule()?;
        }
        loop {
            let (cpu, stop_at) = self.next_stop();
            let timer_at = self.timers.next_at();
            let at = stop_at.min(timer_at).min(self.next_tick);
            if at >= self.length {
                break;
            }
            self.now = at;
            self.count()?;
            // Of one time: runs end first, then timers, then the tick.
            if stop_at == at {
                self.stop(cpu)?;
            } else if timer_at == at {
                self.expire();
            } else {
                self.tick();
            }
            self.reschedule()?;
        }
        self.now = self.length;
        let events = self.log.take().map(|log| log.events).unwrap_or_default();
        Ok((self.finish(), events))
    }

    /// Counts an event.
    pub(super) fn count(&mut self) -> Result<(), EngineError> {
        self.events += 1;
        if self.events <= self.limit {
            return Ok(());
        }
        let operations = self.program.operations();
        Err(EngineError::TooManyEvents { events: self.limit, at: Nanos(self.now), operations })
    }

    fn next_stop(&self) -> (usize, u64) {
        let stops = self.cpus.iter().map(|cpu| cpu.stop_at).enumerate();
        stops.min_by_key(|(_, at)| *at).unwrap_or_default()
    }

    /// Every actor begins at time 0; one that begins with a sleep sleeps already.
    fn begin(&mut self) {
        for (group, cgroup) in self.program.cgroups.iter().enumerate() {
            if let Some(quota) = cgroup.quota {
                self.timers.set(self.replica.first_refill(group, quota.period.0), TimerKind::Refill(group));
            }
        }
        for (id, actor) in self.program.actors() {
            if !self.begins_asleep(id) {
                if actor.begins_on.is_none() {
                    self.actors[id.index()].cpu = self.least_loaded(id);
                }
                self.enqueue(id);
            }
        }
    }

    /// The time of a CPU has come: its actor has done its operation, or its slice is over.
    fn stop(&mut self, cpu: usize) -> Result<(), EngineError> {
        // While it switched, somebody came who goes first.
        let is_overtaken = self.cpus[cpu].needs_resched;
        self.account(cpu);
        let Some(id) = self.cpus[cpu].current.filter(|_| !is_overtaken) else { return Ok(()) };
        let is_done = match self.actors[id.index()].work {
            Work::Cpu(left) => left == 0,
            Work::Until(end) => end <= self.now,
        };
        if is_done {
            self.advance(id)?;
        }
        self.arm(cpu);
        Ok(())
    }

    fn expire(&mut self) {
        match self.timers.pop() {
            Some(TimerKind::Wake(id)) => self.wake(id),
            Some(TimerKind::Token(id)) => {
                self.give_token(id);
            }
            Some(TimerKind::Refill(group)) => self.refill(group),
            Some(TimerKind::RealtimePeriod) => self.begin_realtime_period(),
            Some(TimerKind::Replenish(id)) => self.replenish(id),
            Some(TimerKind::Server(cpu)) => self.serve(cpu),
            None => {}
        }
    }

    fn tick(&mut self) {
        self.next_tick += self.tick;
        for cpu in 0..self.cpus.len() {
            if self.cpus[cpu].current.is_some() && self.cpus[cpu].accounted <= self.now {
                self.account(cpu);
                self.task_tick(cpu);
                self.arm(cpu);
            }
        }
    }

    /// Lets every CPU that has to look who is next do so.
    fn reschedule(&mut self) -> Result<(), EngineError> {
        while let Some(cpu) = self.cpus.iter().position(|cpu| cpu.needs_resched && cpu.accounted <= self.now) {
            self.count()?;
            self.schedule(cpu);
        }
        Ok(())
    }

    fn begin_realtime_period(&mut self) {
        let Some(limit) = self.model.real_time_limit else { return };
        self.timers.set(self.now + limit.period.0.max(1), TimerKind::RealtimePeriod);
        for cpu in 0..self.cpus.len() {
            self.account(cpu);
            let runs_again = self.cpus[cpu].budget.do_sched_rt_period_timer(limit);
            self.cpus[cpu].needs_resched |= runs_again;
        }
    }

    fn refill(&mut self, group: usize) {
        let Some(quota) = self.program.cgroups[group].quota else { return };
        self.timers.set(self.now + quota.period.0.max(1), TimerKind::Refill(group));
        (0..self.cpus.len()).for_each(|cpu| self.account(cpu));
        let mut runnable = Vec::new();
        self.fair.refill(group, self.now, |cpu| runnable.push(cpu));
        for cpu in runnable {
            self.update_server(cpu);
            // The kernel calls only idle CPUs to order; others see it at their next switch or tick.
            self.cpus[cpu].needs_resched |= self.cpus[cpu].current.is_none();
        }
    }

    fn finish(mut self) -> Played {
        for cpu in 0..self.cpus.len() {
            self.account(cpu);
            if self.cpus[cpu].current.is_none() {
                self.cpus[cpu].idle += self.length - self.cpus[cpu].idle_since;
            }
        }
        for (id, actor) in (0..).map(ActorId).zip(&mut self.actors) {
            let since = Nanos(self.length - actor.since.min(self.length));
            match actor.doing {
                Doing::Runs => self.felt.ran(id, Nanos(actor.ran), false),
                Doing::Waits if since > Nanos::ZERO => self.felt.waited(id, since),
                Doing::Blocks | Doing::Sleeps => actor.slept += since.0,
                Doing::Waits | Doing::Ended => {}
            }
        }
        let cpus = self.cpus.iter().map(|cpu| CpuPlayed {
            ran: Nanos(cpu.ran),
            idle: Nanos(cpu.idle),
            switching: Nanos(cpu.switching),
            switches: cpu.switches,
        });
        Played {
            cpus: cpus.collect(),
            finished: self.actors.iter().map(|actor| actor.finished.map(Nanos)).collect(),
            slept: self.actors.iter().map(|actor| Nanos(actor.slept)).collect(),
            events: self.events,
            felt: self.felt.felt(self.actors.len(), Nanos(self.length)),
        }
    }
}

/// More take too long, whatever the program.
const MOST_EVENTS: u64 = 50_000_000;

/// Far more events than a program should take: a model that does not come to an end must not hang its caller.
fn event_limit(program: &Program, tick: u64) -> u64 {
    const PER_OPERATION: u64 = 64;
    let ticks = (program.length.0 / tick).saturating_mul(program.cpus.len() as u64);
    let regular = (program.operations() as u64).saturating_add(ticks).saturating_mul(PER_OPERATION);
    regular.saturating_add(1_000_000).min(MOST_EVENTS)
}

/// By cgroup: whether its actors may be on several CPUs.
fn spread_cgroups(program: &Program) -> Vec<bool> {
    let mut places = vec![None; program.cgroups.len()];
    let mut spreads = vec![false; program.cgroups.len()];
    for actor in &program.actors {
        let cpus = program.places_of(&actor.placement.cpus);
        let mut level = actor.placement.cgroup;
        while let Some(group) = level {
            let known = places[group].get_or_insert_with(|| cpus.clone());
            spreads[group] |= cpus.len() > 1 || *known != cpus;
            level = program.cgroups[group].parent;
        }
    }
    spreads
}

fn actor_state<'p>(
    program: &'p Program,
    model: &SchedulerModel,
    replica: Replica,
    id: ActorId,
    actor: &'p Actor,
    fair: &mut FairClass,
) -> ActorState<'p> {
    let places = program.places_of(&actor.placement.cpus);
    let mut allowed = vec![false; program.cpus.len()];
    places.iter().for_each(|place| allowed[place.index()] = true);
    let first = actor.begins_on.and_then(|cpu| program.place_of(cpu)).map(|place| place as usize);
    let first = first.filter(|place| allowed.get(*place) == Some(&true));
    let cpu = first.or_else(|| allowed.iter().position(|is_allowed| *is_allowed)).unwrap_or_default();
    ActorState {
        ops: &actor.ops,
        next_op: 0,
        work: Work::Cpu(0),
        tokens: 0,
        saved: 0,
        doing: Doing::Waits,
        since: 0,
        was_woken: false,
        is_unborn: actor.is_born,
        cpu,
        is_pinned: places.len() == 1,
        allowed,
        class: class_state(model, id, actor, cpu, fair),
        shift: replica.shift_of(id),
        ran: 0,
        slept: 0,
        finished: None,
    }
}

fn class_state(model: &SchedulerModel, id: ActorId, actor: &Actor, cpu: usize, fair: &mut FairClass) -> ClassState {
    match actor.placement.class {
        Class::Fair { policy, nice } => {
            let is_idle_policy = policy == SchedPolicy::Idle;
            let is_normal = !matches!(policy, SchedPolicy::Batch | SchedPolicy::Idle);
            let cgroup = actor.placement.cgroup;
            let slice = actor.placement.slice.and_then(|slice| own_slice(slice, model));
            let queue = fair.queue_of(cgroup, cpu);
            let weight = task_weight(is_idle_policy, nice);
            let entity = Entity::of_task(queue, id, weight, is_normal, slice, model.fair);
            ClassState::Fair { entity: fair.add_task(entity), cgroup, is_idle_policy }
        }
        Class::Realtime { policy, priority } => {
            ClassState::Realtime { priority, is_rr: policy == SchedPolicy::Rr, ticks_left: model.rr_ticks }
        }
        Class::Deadline(deadline) => {
            let parameters =
                Parameters { runtime: deadline.runtime, deadline: deadline.deadline, period: deadline.period };
            ClassState::Deadline { reservation: Reservation::new(parameters), is_throttled: false }
        }
    }
}

/// A slice of an actor's own, between 0.1 and 100 ms; of no effect before 6.12.
///
/// Source: `__setparam_fair()` in kernel/sched/syscalls.c of 6.12.
fn own_slice(slice: Nanos, model: &SchedulerModel) -> Option<i64> {
    model.fair.has_own_slices().then(|| slice.0.clamp(100_000, 100_000_000) as i64)
}
