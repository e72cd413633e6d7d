//! Which task runs where: switches, and other events that show the current task.

use unstarve_model::{Comm, CpuId, Nanos, PrevState, TaskRef, Tid, Time};
use unstarve_sched::counted::WAKEUP_PREEMPTION_WITHIN;
use unstarve_sched::fairness::whole;

use crate::cpus::Current;
use crate::machine::Machine;
use crate::opt_time::OptTime;
use crate::tasks::RunState;
use crate::timeline::Timeline;
use crate::waits::{Pending, begin};
use crate::{ActorId, OpenWait, Run, RunEnd, Sink, State, TaskKey, Tasks, WaitKind, World};

impl Timeline {
    /// The event shows another current task than the known one.
    #[cold]
    pub(super) fn correct_current(&mut self, index: usize, tid: Tid, sink: &mut impl Sink) {
        let believed = self.machine.cpus[index].tid();
        if believed.is_some() {
            self.losses.note_missing_switch(believed);
            self.machine.interrupts.forget(index);
        }
        self.adopt(index, TaskRef::new(tid, Comm::default(), None), sink);
    }

    /// The task turns out to be running on the CPU, since an unknown time.
    #[cold]
    fn adopt(&mut self, index: usize, task: TaskRef, sink: &mut impl Sink) {
        let first = self.machine.cpus[index].presence_mut().note_heard();
        self.end_run(index, RunEnd::Cut, sink);
        if task.tid().is_idle() {
            self.enter_idle(index);
            self.machine.settle(index);
            if first {
                let Machine { world, cpus, .. } = &mut self.machine;
                cpus.was_idle_before(index, world, self.waits.effort());
            }
            return;
        }
        let tasks = &self.machine.world.tasks;
        let is_new = tasks.find(task.tid()).is_none_or(|key| tasks.get(key).is_unseen());
        let key = self.machine.task(&task);
        match self.machine.world.tasks.get(key).state {
            State::Waiting => self.waits.drop_wait(&mut self.machine, key),
            State::Running(elsewhere) if elsewhere.index() != index => self.lose_track(elsewhere.index(), sink),
            _ => {}
        }
        self.begin_run(index, key, false);
        self.machine.settle(index);
        if first {
            let Machine { world, cpus, queues, .. } = &mut self.machine;
            cpus.ran_before(index, is_new, task.prio(), &queues[index], world);
        }
    }

    /// The task gets the CPU. The caller updates the occupancy log.
    #[inline(always)]
    pub(super) fn begin_run(&mut self, index: usize, key: TaskKey, start_seen: bool) {
        let Machine { world, cpus, queues, .. } = &mut self.machine;
        let now = world.now;
        let cpu = &mut cpus[index];
        let task = world.tasks.get_mut(key);
        task.put_on(cpu.id());
        task.state = State::Running(cpu.id());
        world.actors.join(task);
        task.early_wake = OptTime::NONE;
        task.sleep_start = OptTime::NONE;
        task.run = RunState { start: now, since: now, start_seen, ..Default::default() };
        if task.account.weight == 0 {
            let weight = task.weight();
            queues[index].fairness().join(now, &mut task.account, weight);
        }
        cpu.give_to(key, task, now);
    }

    /// The CPU becomes idle. The caller updates the occupancy log.
    fn enter_idle(&mut self, index: usize) {
        let Machine { world, cpus, queues, .. } = &mut self.machine;
        cpus.enter_idle(index, world.now);
        if !queues[index].is_empty() {
            self.waits.pass_over(world, &queues[index], self.recorded.has_migrations());
        }
    }

    /// The current task leaves the CPU, whose occupant is unknown until the next one is set. The task's state becomes
    /// `Unknown`, and the caller corrects it.
    #[inline(never)]
    pub(super) fn end_run(&mut self, index: usize, ended: RunEnd, sink: &mut impl Sink) {
        let current = self.machine.cpus[index].current();
        self.close_run(index, current, ended, sink);
        self.machine.settle(index);
    }

    /// The same if the caller sets the next occupant at the same time, and with it the occupancy log.
    #[inline(always)]
    fn close_run(&mut self, index: usize, current: Current, ended: RunEnd, sink: &mut impl Sink) {
        match current {
            Current::Task(key) => self.close_run_of(index, key, ended, None, sink),
            Current::Idle | Current::Unknown => self.close_idle(index, current),
        }
    }

    /// No known task leaves the CPU.
    #[inline(always)]
    fn close_idle(&mut self, index: usize, current: Current) {
        let now = self.machine.world.now;
        let cpu = &mut self.machine.cpus[index];
        self.wake_graph.add_stay(index, ActorId::UNKNOWN, now.since(cpu.run_start()));
        cpu.let_go();
        if current == Current::Idle {
            self.machine.cpus.leave_idle(index, now);
            if !self.machine.queues[index].is_empty() {
                self.waits.stop_passing_over(&mut self.machine, index);
            }
        }
    }

    /// The task leaves the CPU, and sleeps from now on if `sleeps` has a state.
    #[inline(always)]
    fn close_run_of(
        &mut self,
        index: usize,
        key: TaskKey,
        ended: RunEnd,
        sleeps: Option<PrevState>,
        sink: &mut impl Sink,
    ) {
        let actor = self.close_stay(index, key, sink);
        let Machine { world, cpus, queues, .. } = &mut self.machine;
        let now = world.now;
        let cpu = &mut cpus[index];
        self.wake_graph.add_stay(index, actor, now.since(cpu.run_start()));
        cpu.let_go();
        let task = world.tasks.get_mut(key);
        // Its name may have changed since it got the CPU.
        world.actors.join(task);
        let fairness = queues[index].fairness();
        let ideal = match ended {
            RunEnd::Preempted { .. } => fairness.due(now, &mut task.account),
            RunEnd::Slept | RunEnd::Died | RunEnd::Cut => fairness.leave(now, &mut task.account),
        };
        let run = Run {
            task: key,
            actor,
            cpu: cpu.id(),
            start: task.run.start,
            end: now,
            irq: task.run.irq,
            softirq: task.run.softirq,
            ideal: whole(ideal),
            ended,
            start_seen: task.run.start_seen,
        };
        match sleeps {
            Some(state) => task.fall_asleep(now, state),
            None => task.state = State::Unknown,
        }
        if let (RunEnd::Preempted { .. }, Some(begun)) = (ended, &mut task.work_start) {
            begun.preemptions += 1;
        }
        if let Some(victim) = task.run.victim.take() {
            let (since, stayed) = (task.run.since, task.run.stayed(now));
            let_victim_go(&mut world.tasks, victim, (key, since), stayed);
        }
        sink.run(world, &run);
    }

    #[inline(always)]
    pub(super) fn switch(
        &mut self,
        index: usize,
        prev: &TaskRef,
        prev_state: PrevState,
        next: &TaskRef,
        sink: &mut impl Sink,
    ) {
        let cpu = &self.machine.cpus[index];
        let (cpu_id, was_expected) = (cpu.id(), cpu.tid() == Some(prev.tid()));
        let current = if was_expected { cpu.current() } else { self.believe(index, prev, sink) };
        self.machine.interrupts.forget(index);
        let now = self.machine.world.now;
        let next_key = (!next.tid().is_idle()).then(|| self.machine.task(next));
        let mut pushed_off = None;
        match current {
            Current::Task(key) if Some(key) != next_key => {
                self.machine.update(key, prev.comm(), prev.prio());
                let (ended, sleeps) = match prev_state {
                    PrevState::Runnable | PrevState::Preempted if self.is_caught_falling_asleep(key) => {
                        (RunEnd::Slept, None)
                    }
                    PrevState::Runnable | PrevState::Preempted => (self.preempted_by(index, next_key), None),
                    PrevState::Dead => (RunEnd::Died, None),
                    PrevState::Unknown => (RunEnd::Cut, None),
                    state => (RunEnd::Slept, Some(state)),
                };
                self.close_run_of(index, key, ended, sleeps, sink);
                match ended {
                    RunEnd::Preempted { by_wakeup, .. } => {
                        begin(&mut self.machine, key, WaitKind::Preemption, cpu_id, (now, None));
                        pushed_off = Some((key, by_wakeup));
                    }
                    RunEnd::Slept if sleeps.is_none() => {
                        begin(&mut self.machine, key, WaitKind::Wakeup, cpu_id, (now, None));
                    }
                    RunEnd::Died => self.machine.bury(key),
                    RunEnd::Slept | RunEnd::Cut => {}
                }
            }
            Current::Task(key) => self.close_run_of(index, key, RunEnd::Cut, None, sink),
            Current::Idle | Current::Unknown => self.close_idle(index, current),
        }
        match next_key {
            None => self.enter_idle(index),
            Some(next_key) => self.take_cpu(index, next_key, cpu_id, sink),
        }
        self.machine.cpus[index].settle_switch(now);
        if let (Some((prev, by_wakeup)), Some(next)) = (pushed_off, next_key) {
            name_preemptor(&mut self.machine.world, prev, next, by_wakeup);
        }
    }

    /// How a run ends whose task stays runnable.
    #[inline(always)]
    fn preempted_by(&self, index: usize, next: Option<TaskKey>) -> RunEnd {
        let Some(next) = next else { return RunEnd::Preempted { by: ActorId::IDLE, by_wakeup: false } };
        let world = &self.machine.world;
        let by_wakeup = is_wakeup_preemption(world, self.machine.cpus[index].run_start(), next);
        RunEnd::Preempted { by: world.tasks.get(next).actor, by_wakeup }
    }

    /// `prev` was running on the CPU although another task was known as current. Returns the current occupant.
    #[cold]
    fn believe(&mut self, index: usize, prev: &TaskRef, sink: &mut impl Sink) -> Current {
        let believed = self.machine.cpus[index].tid();
        if believed.is_some() {
            self.losses.note_missing_switch(believed);
        }
        self.adopt(index, *prev, sink);
        self.machine.cpus[index].current()
    }

    /// Whether the running task, about to leave its CPU, is being woken by another one: `sched_waking` has come, `sched_wakeup`
    /// has not. It has left the run queue, but the waker has already changed its state, so the switch shows it as runnable.
    fn is_caught_falling_asleep(&self, key: TaskKey) -> bool {
        self.recorded.has_wakeup() && self.machine.world.tasks.get(key).early_wake.is_some()
    }

    #[inline(always)]
    fn take_cpu(&mut self, index: usize, key: TaskKey, cpu_id: CpuId, sink: &mut impl Sink) {
        let Machine { world, cpus, .. } = &self.machine;
        let task = world.tasks.get(key);
        match task.state {
            State::Waiting if !cpus.is_seen_waiting(world, key) => self.doubt_wait(key),
            State::Waiting => {
                if task.pending.as_ref().is_some_and(|pending| pending.cpu() != cpu_id) {
                    self.fetch_wait(key, cpu_id);
                }
                self.end_wait(key, None, sink);
            }
            State::Running(elsewhere) if elsewhere != cpu_id => self.lose_track(elsewhere.index(), sink),
            _ => {}
        }
        self.begin_run(index, key, true);
    }

    /// The task waited on another CPU, and no event showed its migration to this one.
    #[inline(never)]
    fn fetch_wait(&mut self, key: TaskKey, cpu: CpuId) {
        let kind = self.machine.world.tasks.get(key).pending.as_ref().map(Pending::kind);
        if kind == Some(WaitKind::Wakeup) && !self.recorded.has_places() {
            if self.waits.follow(&mut self.machine, key, cpu) {
                self.losses.note_followed();
            }
        } else {
            self.waits.move_to(&mut self.machine, key, cpu);
        }
        if let Some(pending) = &mut self.machine.world.tasks.get_mut(key).pending {
            pending.disbelieve_limits();
        }
    }

    /// The wait ends: tasks that this one wakes may have slept until then.
    #[inline(always)]
    pub(super) fn end_wait(&mut self, key: TaskKey, open: Option<OpenWait>, sink: &mut impl Sink) {
        self.wake_graph.note_wait(&mut self.machine.world, key);
        self.waits.end(&mut self.machine, key, open, self.losses.switches_are_missing(), sink);
    }

    /// The wait is dropped: the task may have run on a CPU that was not recorded.
    #[cold]
    pub(super) fn doubt_wait(&mut self, key: TaskKey) {
        self.machine.cpus.note_doubted_wait();
        self.waits.drop_wait(&mut self.machine, key);
    }

    /// Events of this CPU before now are missing.
    pub(super) fn lose(&mut self, index: usize, sink: &mut impl Sink) {
        self.machine.interrupts.forget(index);
        self.wake_graph.lose(index);
        // Between its last event and now the CPU may have done anything.
        let since = self.machine.cpus[index].presence().last_event().max(self.machine.world.start);
        self.end_run_at(index, since, sink);
        let presence = self.machine.cpus[index].presence_mut();
        presence.set_last_event(self.machine.world.now);
        presence.note_heard();
        self.machine.cpus.no_longer_unheard(index);
    }
}

/// The task that preempted the victim at that time leaves the CPU after a run of this length.
#[inline]
fn let_victim_go(tasks: &mut Tasks, victim: TaskKey, (by, since): (TaskKey, Time), stayed: Nanos) {
    if let Some(pending) = &mut tasks.get_mut(victim).pending
        && let Some(preemptor) = pending.stay_of_preemptor(by, since)
    {
        preemptor.leave(stayed);
    }
}

/// Whether `next`, about to get a CPU, was woken very recently, and during the current task's run.
#[inline]
fn is_wakeup_preemption(world: &World, run_start: Time, next: TaskKey) -> bool {
    world.tasks.get(next).pending.as_ref().is_some_and(|pending| {
        pending.kind() != WaitKind::Preemption
            && pending.start() >= run_start
            && world.now.since(pending.start()) <= WAKEUP_PREEMPTION_WITHIN
    })
}

/// Records the preempting task in the preempted task's wait.
fn name_preemptor(world: &mut World, prev: TaskKey, next: TaskKey, by_wakeup: bool) {
    let actor = world.tasks.get(next).actor;
    if let Some(pending) = &mut world.tasks.get_mut(prev).pending {
        pending.name_preemptor(next, actor, by_wakeup, world.now);
        world.tasks.get_mut(next).run.victim = Some(prev);
    }
}
