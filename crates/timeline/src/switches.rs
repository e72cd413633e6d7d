//! Who runs where: switches, and what else tells who is current.

use unstarve_model::{Comm, CpuId, Nanos, PrevState, TaskRef, Tid, Time};
use unstarve_sched::KernelThread;
use unstarve_sched::counted::WAKEUP_PREEMPTION_WITHIN;

use crate::cpu::{Cpu, Current};
use crate::opt_time::OptTime;
use crate::task::RunState;
use crate::timeline::Timeline;
use crate::waits::Preemptor;
use crate::{ActorId, Run, RunEnd, Sink, State, TaskKey, WaitKind};
use unstarve_sched::fairness::whole;

impl Timeline {
    /// The event names another task as current than the one that is believed to be running.
    #[cold]
    pub(crate) fn correct_current(&mut self, index: usize, tid: Tid, sink: &mut impl Sink) {
        let believed = self.cpus[index].tid;
        if believed.is_some() {
            self.miss_switch(believed);
            self.forget_handlers(index);
        }
        self.adopt(index, TaskRef::new(tid, Comm::default(), None), sink);
    }

    /// The task turns out to be running on the CPU, nobody knows since when.
    #[cold]
    fn adopt(&mut self, index: usize, task: TaskRef, sink: &mut impl Sink) {
        let first = !std::mem::replace(&mut self.cpus[index].heard, true);
        self.end_run(index, RunEnd::Cut, sink);
        let now = self.world.now;
        if task.tid().is_idle() {
            self.enter_idle(index);
            self.cpus[index].settle(now);
            if first {
                self.was_idle_before(index);
            }
            return;
        }
        let is_new = self.world.tasks.find(task.tid()).is_none_or(|key| self.world.tasks.get(key).is_unseen());
        let key = self.task(&task);
        match self.world.tasks.get(key).state {
            State::Waiting => self.drop_wait(key),
            State::Running(elsewhere) if elsewhere.index() != index => self.lose_track(elsewhere.index(), sink),
            _ => {}
        }
        self.begin_run(index, key, false);
        self.cpus[index].settle(now);
        if first {
            self.ran_before(index, is_new, task.prio());
        }
    }

    /// The task has the CPU. The log of who had it is left to the caller.
    #[inline(always)]
    pub(crate) fn begin_run(&mut self, index: usize, key: TaskKey, start_seen: bool) {
        let now = self.world.now;
        let cpu = &mut self.cpus[index];
        let task = self.world.tasks.get_mut(key);
        task.put_on(cpu.id);
        task.state = State::Running(cpu.id);
        self.world.actors.join(task);
        task.early_wake = OptTime::NONE;
        task.sleep_start = OptTime::NONE;
        task.run = RunState { start: now, since: now, start_seen, ..Default::default() };
        if task.account.weight == 0 {
            let weight = task.weight();
            cpu.fairness.join(now, &mut task.account, weight);
        }
        cpu.run_start = now;
        cpu.current = Current::Task(key);
        cpu.tid = Some(task.tid);
        cpu.base = task.actor;
        cpu.serves_softirqs = task.kernel_thread.is_some_and(KernelThread::serves_softirqs);
    }

    /// The CPU is idle. The log of who had it is left to the caller.
    fn enter_idle(&mut self, index: usize) {
        let now = self.world.now;
        let cpu = &mut self.cpus[index];
        cpu.current = Current::Idle;
        cpu.tid = Some(Tid::IDLE);
        cpu.base = ActorId::IDLE;
        cpu.serves_softirqs = false;
        self.idle.enter(cpu.id, now);
        if !self.cpus[index].queue.is_empty() {
            self.pass_over(index);
        }
    }

    /// The current task leaves the CPU, which then is nobody's until the next one is set. The task's state is
    /// `Unknown`; the caller knows better.
    #[inline(never)]
    pub(crate) fn end_run(&mut self, index: usize, ended: RunEnd, sink: &mut impl Sink) {
        let current = self.cpus[index].current;
        self.close_run(index, current, ended, sink);
        self.cpus[index].settle(self.world.now);
    }

    /// The same, where the caller sets the next one at the same moment: the log of who had the CPU is left to that one.
    #[inline(always)]
    fn close_run(&mut self, index: usize, current: Current, ended: RunEnd, sink: &mut impl Sink) {
        match current {
            Current::Task(key) => self.close_run_of(index, key, ended, None, sink),
            Current::Idle | Current::Unknown => self.close_idle(index, current),
        }
    }

    /// No task leaves the CPU.
    #[inline(always)]
    fn close_idle(&mut self, index: usize, current: Current) {
        let now = self.world.now;
        let cpu = &mut self.cpus[index];
        cpu.shares.add(ActorId::UNKNOWN, now.since(cpu.run_start));
        cpu.let_go();
        if current == Current::Idle {
            self.idle.leave(cpu.id, now);
            if !self.cpus[index].queue.is_empty() {
                self.stop_passing_over(index);
            }
        }
    }

    /// The task leaves the CPU, and sleeps from now on if `sleeps` says how.
    #[inline(always)]
    fn close_run_of(
        &mut self,
        index: usize,
        key: TaskKey,
        ended: RunEnd,
        sleeps: Option<PrevState>,
        sink: &mut impl Sink,
    ) {
        let now = self.world.now;
        let actor = self.close_stay(index, key, sink);
        let cpu = &mut self.cpus[index];
        cpu.shares.add(actor, now.since(cpu.run_start));
        cpu.let_go();
        let task = self.world.tasks.get_mut(key);
        // What it is called in the end may not be what it was called when it got the CPU.
        self.world.actors.join(task);
        let ideal = match ended {
            RunEnd::Preempted { .. } => cpu.fairness.due(now, &mut task.account),
            RunEnd::Slept | RunEnd::Died | RunEnd::Cut => cpu.fairness.leave(now, &mut task.account),
        };
        let run = Run {
            task: key,
            actor,
            cpu: cpu.id,
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
            self.let_victim_go(victim, key, since, stayed);
        }
        sink.run(&self.world, &run);
    }

    /// The task that pushed the victim off leaves the CPU, having had it for so long.
    #[inline]
    fn let_victim_go(&mut self, victim: TaskKey, by: TaskKey, since: Time, stayed: Nanos) {
        if let Some(pending) = &mut self.world.tasks.get_mut(victim).pending
            && let Some(preemptor) = &mut pending.preemptor
            && preemptor.task == by
            && preemptor.since == since
        {
            preemptor.stayed = Some(stayed);
        }
    }

    #[inline(always)]
    pub(crate) fn switch(
        &mut self,
        index: usize,
        prev: &TaskRef,
        prev_state: PrevState,
        next: &TaskRef,
        sink: &mut impl Sink,
    ) {
        let cpu = match self.cpus.get_mut(index) {
            Some(cpu) if cpu.tid == Some(prev.tid()) => cpu,
            _ => self.believe(index, prev, sink),
        };
        cpu.forget_handlers();
        let (cpu_id, current) = (cpu.id, cpu.current);
        let now = self.world.now;
        let next_key = (!next.tid().is_idle()).then(|| self.task(next));
        let mut pushed_off = None;
        match current {
            Current::Task(key) if Some(key) != next_key => {
                self.update(key, prev.comm(), prev.prio());
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
                        self.begin_wait(key, WaitKind::Preemption, cpu_id, now, None);
                        pushed_off = Some((key, by_wakeup));
                    }
                    RunEnd::Slept if sleeps.is_none() => self.begin_wait(key, WaitKind::Wakeup, cpu_id, now, None),
                    RunEnd::Died => self.bury(key),
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
        self.cpus[index].settle_switch(now);
        if let (Some((prev, by_wakeup)), Some(next)) = (pushed_off, next_key) {
            self.name_preemptor(prev, next, by_wakeup);
        }
    }

    /// How the run of a task ends that stays runnable.
    #[inline(always)]
    fn preempted_by(&self, index: usize, next: Option<TaskKey>) -> RunEnd {
        let Some(next) = next else { return RunEnd::Preempted { by: ActorId::IDLE, by_wakeup: false } };
        let by_wakeup = self.is_wakeup_preemption(self.cpus[index].run_start, next);
        RunEnd::Preempted { by: self.world.tasks.get(next).actor, by_wakeup }
    }

    /// Makes sure that `prev` is what we believe to be running on the CPU.
    #[cold]
    fn believe(&mut self, index: usize, prev: &TaskRef, sink: &mut impl Sink) -> &mut Cpu {
        let believed = self.cpus[index].tid;
        if believed != Some(prev.tid()) {
            if believed.is_some() {
                self.miss_switch(believed);
            }
            self.adopt(index, *prev, sink);
        }
        &mut self.cpus[index]
    }

    /// The switch from the task that was believed to run did not come.
    #[cold]
    fn miss_switch(&mut self, believed: Option<Tid>) {
        self.missing_switches += 1;
        self.missing_idle_exits += u64::from(believed == Some(Tid::IDLE));
    }

    /// Whether `next`, about to get a CPU, was woken while its current task ran, since then, and only just.
    #[inline]
    fn is_wakeup_preemption(&self, run_start: Time, next: TaskKey) -> bool {
        self.world.tasks.get(next).pending.as_ref().is_some_and(|pending| {
            pending.kind != WaitKind::Preemption
                && pending.start >= run_start
                && self.world.now.since(pending.start) <= WAKEUP_PREEMPTION_WITHIN
        })
    }

    /// Writes into the preempted task's wait who has its CPU now.
    fn name_preemptor(&mut self, prev: TaskKey, next: TaskKey, by_wakeup: bool) {
        let now = self.world.now;
        let actor = self.world.tasks.get(next).actor;
        if let Some(pending) = &mut self.world.tasks.get_mut(prev).pending {
            pending.preemptor =
                Some(Preemptor { task: next, actor, became: actor, by_wakeup, stayed: None, since: now });
            self.world.tasks.get_mut(next).run.victim = Some(prev);
        }
    }

    /// Whether the running task, about to leave its CPU, is being woken by another one: `sched_waking` has come,
    /// `sched_wakeup` has not. It has left the runqueue, but the waker has already changed its state, so the switch shows
    /// it as runnable.
    fn is_caught_falling_asleep(&self, key: TaskKey) -> bool {
        self.wakeup_recorded && self.world.tasks.get(key).early_wake.is_some()
    }

    #[inline(always)]
    fn take_cpu(&mut self, index: usize, key: TaskKey, cpu_id: CpuId, sink: &mut impl Sink) {
        let task = self.world.tasks.get(key);
        match task.state {
            State::Waiting if !self.is_seen_waiting(key) => self.doubt_wait(key),
            State::Waiting => {
                if task.pending.as_ref().is_some_and(|pending| pending.cpu != cpu_id) {
                    self.fetch_wait(key, cpu_id);
                }
                self.end_wait(key, None, sink);
            }
            State::Running(elsewhere) if elsewhere != cpu_id => self.lose_track(elsewhere.index(), sink),
            _ => {}
        }
        self.begin_run(index, key, true);
    }

    /// The task waited on another CPU, and no event told that it was moved to this one.
    #[inline(never)]
    fn fetch_wait(&mut self, key: TaskKey, cpu: CpuId) {
        let kind = self.world.tasks.get(key).pending.as_ref().map(|pending| pending.kind);
        match kind {
            Some(WaitKind::Wakeup) if !self.places_recorded => self.follow(key, cpu),
            _ => self.move_wait(key, cpu),
        }
        self.disbelieve_limits(key);
    }

    /// Events of this CPU are missing before now.
    pub(crate) fn lose(&mut self, index: usize, sink: &mut impl Sink) {
        let now = self.world.now;
        let since = self.cpus[index].last_event;
        self.forget_handlers(index);
        self.requests.lose(index);
        // Between the last event and now the CPU may have done anything.
        self.world.now = since.max(self.world.start);
        self.end_run(index, RunEnd::Cut, sink);
        self.world.now = now;
        self.cpus[index].last_event = now;
        self.cpus[index].heard = true;
        self.no_longer_unheard(index);
    }
}
