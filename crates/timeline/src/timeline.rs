use unstarve_model::{
    Comm, Context, CpuId, Event, EventKind, EventSet, EventType, KernelThread, Loss, LossKind, Names, Nanos, PrevState,
    Prio, TaskRef, Tid, Time,
};

use crate::cpu::{Cpu, Current};
use crate::fairness::whole;
use crate::idle::IdleWatch;
use crate::places::Places;
use crate::waits::Preemptor;
use crate::work::WorkTable;
use crate::{
    ActorId, ActorKind, Actors, Migration, Piece, Price, Run, RunEnd, Settings, Sink, State, Task, TaskKey, Tasks,
    WaitEnd, WaitKind, Wake, Waker, World,
};

/// A wakeup preemption takes effect at the next preemption point: at once, or where the kernel is not preemptible within
/// the running system call. A switch to a task that was woken longer ago than this is the end of a slice.
const WAKEUP_PREEMPTION_WITHIN: Nanos = Nanos::from_millis(1);

/// Clocks of CPUs differ, and so events of two CPUs may change places within this time.
const WAKINGS_OVERTAKE_WITHIN: Nanos = Nanos::from_micros(100);

/// Turns events into waits, runs, wake edges, interrupts and work items.
#[derive(Debug)]
pub struct Timeline {
    pub(crate) world: World,
    pub(crate) cpus: Vec<Cpu>,
    pub(crate) places: Places,
    pub(crate) idle: IdleWatch,
    pub(crate) work: WorkTable,
    /// Kept to save allocations.
    pub(crate) pieces: Vec<Piece>,
    pub(crate) parts: Vec<(ActorId, Nanos)>,
    prices: Vec<Price>,
    settings: BoxedSettings,
    pub(crate) migrations_recorded: bool,
    waking_recorded: bool,
    wakeup_recorded: bool,
    started: bool,
    pub(crate) missing_switches: u64,
    impossible_cpus: u64,
    late: u64,
}

struct BoxedSettings(Box<dyn Settings>);

impl std::fmt::Debug for BoxedSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Settings")
    }
}

impl Timeline {
    /// A timeline of a machine with `cpus` CPUs (as many as appear, if not known) of a trace that has the events in
    /// `recorded` (not known: assumed to have all).
    pub fn new(cpus: Option<u32>, recorded: Option<EventSet>, settings: Box<dyn Settings>) -> Timeline {
        let has = |event| recorded.is_none_or(|set| set.contains(event));
        let world = World {
            tasks: Tasks::default(),
            actors: Actors::new(),
            names: Names::default(),
            cpus: cpus.unwrap_or(0).min(CpuId::LIMIT),
            start: Time(0),
            now: Time(0),
        };
        Timeline {
            world,
            cpus: Vec::new(),
            places: Places::default(),
            idle: IdleWatch::new(),
            work: WorkTable::default(),
            pieces: Vec::new(),
            parts: Vec::new(),
            prices: Vec::new(),
            settings: BoxedSettings(settings),
            migrations_recorded: has(EventType::Migrate),
            waking_recorded: has(EventType::Waking),
            wakeup_recorded: has(EventType::Wakeup),
            started: false,
            missing_switches: 0,
            impossible_cpus: 0,
            late: 0,
        }
    }

    /// Names that the next events use (a batch's).
    pub fn names(&mut self, new: impl IntoIterator<Item = Box<str>>) {
        self.world.names.extend(new);
    }

    /// Names of tasks that the source keeps besides its events.
    pub fn name_task(&mut self, tid: Tid, comm: Comm) {
        if !tid.is_idle() && !comm.is_unknown() && self.world.tasks.find(tid).is_none() {
            self.new_task(tid, comm, None);
        }
    }

    /// Tasks, actors, names and the time.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// What could not be followed.
    pub fn losses(&self) -> Vec<Loss> {
        let mut losses = Vec::new();
        let mut tell = |kind, count, detail: &str| {
            if count > 0 {
                losses.push(Loss::new(kind, count).with_detail(detail));
            }
        };
        tell(LossKind::MissingSwitch, self.missing_switches, "the waits they touch are left out");
        tell(LossKind::Undecodable, self.impossible_cpus, "events of CPUs that cannot exist");
        tell(LossKind::OutOfOrder, self.late, "");
        losses
    }

    /// Takes the next event.
    pub fn push(&mut self, event: &Event, sink: &mut impl Sink) {
        if event.cpu.0 >= CpuId::LIMIT {
            self.impossible_cpus += 1;
            return;
        }
        self.clock(event.time);
        let index = self.cpu(event.cpu);
        if let EventKind::Lost { .. } = event.kind {
            self.lose(index, sink);
            return;
        }
        if !matches!(event.kind, EventKind::Switch { .. }) {
            self.check_current(index, event, sink);
        }
        self.cpus[index].last_event = self.world.now;
        match event.kind {
            EventKind::Switch { prev, prev_state, next } => self.switch(index, prev, prev_state, next, sink),
            EventKind::Waking { task, target_cpu } => self.waking(index, event, task, target_cpu, sink),
            EventKind::Wakeup { task, target_cpu } => self.wakeup(index, event, task, target_cpu, sink),
            EventKind::WakeupNew { task, target_cpu } => self.wakeup_new(task, target_cpu),
            EventKind::Migrate { task, orig_cpu, dest_cpu } => self.migrate(task, orig_cpu, dest_cpu, sink),
            EventKind::Fork { child, child_comm, .. } => self.fork(child, child_comm),
            EventKind::Exit { tid, .. } => {
                if let Some(key) = self.world.tasks.find(tid) {
                    self.world.tasks.get_mut(key).exited = true;
                }
            }
            EventKind::IrqEntry { irq, name } => self.irq_entry(index, irq, name),
            EventKind::IrqExit { irq } => self.irq_exit(index, irq, sink),
            EventKind::SoftirqEntry { vec } => self.softirq_entry(index, vec),
            EventKind::SoftirqExit { vec } => self.softirq_exit(index, vec, sink),
            EventKind::WorkQueued { work, function, workqueue } => self.work_queued(work, function, workqueue),
            EventKind::WorkStart { work, function } => self.work_start(index, work, function),
            EventKind::WorkEnd { work, function } => self.work_end(index, work, function, sink),
            EventKind::WorkOnStack { tid, function } => {
                let key = self.task(TaskRef { tid, comm: Comm::default(), prio: None });
                self.work_on_stack(key, function);
            }
            EventKind::Exec { .. }
            | EventKind::SoftirqRaise { .. }
            | EventKind::BlockIssue { .. }
            | EventKind::BlockComplete { .. }
            | EventKind::Lost { .. } => {}
        }
        if self.cpus[index].occupancy.is_full() {
            self.take_stock(index);
        }
    }

    /// The trace is over: reports runs and waits in progress.
    pub fn finish(&mut self, sink: &mut impl Sink) {
        for index in 0..self.cpus.len() {
            self.end_run(index, RunEnd::Cut, sink);
        }
        let waiting: Vec<TaskKey> =
            self.world.tasks.iter().filter(|(_, task)| task.pending.is_some()).map(|(key, _)| key).collect();
        for key in waiting {
            self.end_wait(key, WaitEnd::TraceEnd, sink);
        }
    }

    fn clock(&mut self, time: Time) {
        if !self.started {
            self.started = true;
            self.world.start = time;
            self.world.now = time;
        }
        if time < self.world.now {
            self.late += 1;
        }
        self.world.now = self.world.now.max(time);
    }

    /// The index of the CPU, which begins to exist when it is first heard of.
    #[inline]
    pub(crate) fn cpu(&mut self, id: CpuId) -> usize {
        if self.cpus.len() <= id.index() {
            self.new_cpu(id);
        }
        id.index()
    }

    #[cold]
    fn new_cpu(&mut self, id: CpuId) {
        while self.cpus.len() <= id.index() {
            self.cpus.push(Cpu::new(CpuId(self.cpus.len() as u32)));
        }
        self.world.cpus = self.world.cpus.max(id.0 + 1);
    }

    /// The task that an event speaks of, brought up to date; not for the idle task.
    fn task(&mut self, task: TaskRef) -> TaskKey {
        match self.world.tasks.find(task.tid) {
            Some(key) => {
                self.update(key, task.comm, task.prio);
                key
            }
            None => self.new_task(task.tid, task.comm, task.prio),
        }
    }

    fn update(&mut self, key: TaskKey, comm: Comm, prio: Option<Prio>) {
        let task = self.world.tasks.get_mut(key);
        let prio = prio.unwrap_or(task.prio);
        if prio == task.prio && (comm == task.comm || comm.is_unknown()) {
            return;
        }
        if !comm.is_unknown() {
            task.comm = comm;
            task.kernel_thread = KernelThread::of(&comm);
        }
        task.prio = prio;
        let (tid, comm) = (task.tid, task.comm);
        let group_weight = self.settings.0.group_weight(tid);
        let actor = self.world.actors.of(ActorKind::Tasks { comm, prio, group_weight });
        self.world.actors.join(actor, tid);
        self.world.tasks.get_mut(key).actor = actor;
    }

    fn new_task(&mut self, tid: Tid, comm: Comm, prio: Option<Prio>) -> TaskKey {
        let prio = prio.unwrap_or(Prio::NORMAL);
        let settings = &self.settings.0;
        let kind = ActorKind::Tasks { comm, prio, group_weight: settings.group_weight(tid) };
        let actor = self.world.actors.of(kind);
        self.world.actors.join(actor, tid);
        let mut task = Task::new(tid, comm, prio, actor);
        task.limited = settings.has_bandwidth_limit(tid);
        task.pinned = task.kernel_thread.is_some_and(|thread| thread.bound_cpu().is_some());
        if let Some(allowed) = settings.allowed_cpus(tid) {
            task.pinned = allowed.len() == 1;
            task.affinity = if allowed.len() as u32 >= self.world.cpus {
                Some(IdleWatch::ALL)
            } else {
                self.idle.group_of(allowed, self.world.now)
            };
        }
        self.world.tasks.insert(task)
    }

    /// The event names the task that was current when it was issued: it must be the one that we believe to be running.
    fn check_current(&mut self, index: usize, event: &Event, sink: &mut impl Sink) {
        let Some(tid) = event.current else { return };
        let believed = match self.cpus[index].current {
            Current::Unknown => None,
            Current::Idle => Some(Tid::IDLE),
            Current::Task(key) => Some(self.world.tasks.get(key).tid),
        };
        if believed == Some(tid) {
            return;
        }
        if believed.is_some() {
            self.missing_switches += 1;
            self.forget_handlers(index);
        }
        self.adopt(index, TaskRef { tid, comm: Comm::default(), prio: None }, sink);
    }

    /// The task turns out to be running on the CPU, nobody knows since when.
    fn adopt(&mut self, index: usize, task: TaskRef, sink: &mut impl Sink) {
        self.end_run(index, RunEnd::Cut, sink);
        if task.tid.is_idle() {
            self.enter_idle(index);
            return;
        }
        let key = self.task(task);
        match self.world.tasks.get(key).state {
            State::Waiting => self.drop_wait(key),
            State::Running(elsewhere) if elsewhere.index() != index => {
                self.missing_switches += 1;
                self.end_run(elsewhere.index(), RunEnd::Cut, sink);
            }
            _ => {}
        }
        self.begin_run(index, key, false);
    }

    fn begin_run(&mut self, index: usize, key: TaskKey, start_seen: bool) {
        let now = self.world.now;
        let cpu = &mut self.cpus[index];
        let task = self.world.tasks.get_mut(key);
        task.moved |= task.last_cpu.is_some_and(|last| last != cpu.id);
        task.last_cpu = Some(cpu.id);
        task.state = State::Running(cpu.id);
        task.early_wake = None;
        task.sleep_start = None;
        task.run = crate::task::RunState { start: now, start_seen, ..Default::default() };
        if task.account.weight == 0 {
            cpu.fairness.join(now, &mut task.account, task.prio);
        }
        cpu.current = Current::Task(key);
        cpu.base = task.actor;
        cpu.is_ksoftirqd = matches!(task.kernel_thread, Some(KernelThread::Ksoftirqd { .. }));
        cpu.settle(now);
    }

    fn enter_idle(&mut self, index: usize) {
        let now = self.world.now;
        let cpu = &mut self.cpus[index];
        cpu.current = Current::Idle;
        cpu.base = ActorId::IDLE;
        cpu.is_ksoftirqd = false;
        cpu.settle(now);
        self.idle.enter(cpu.id, now);
        if !self.cpus[index].queue.is_empty() {
            self.pass_over(index);
        }
    }

    /// The current task leaves the CPU, which then is nobody's until the next one is set. The task's state is
    /// `Unknown`; the caller knows better.
    fn end_run(&mut self, index: usize, ended: RunEnd, sink: &mut impl Sink) {
        let now = self.world.now;
        let cpu = &mut self.cpus[index];
        let current = std::mem::replace(&mut cpu.current, Current::Unknown);
        cpu.base = ActorId::UNKNOWN;
        cpu.is_ksoftirqd = false;
        cpu.settle(now);
        let key = match current {
            Current::Unknown => return,
            Current::Idle => {
                self.idle.leave(cpu.id, now);
                self.stop_passing_over(index);
                return;
            }
            Current::Task(key) => key,
        };
        let task = self.world.tasks.get_mut(key);
        let ideal = match ended {
            RunEnd::Preempted { .. } => cpu.fairness.due(now, &mut task.account),
            RunEnd::Slept | RunEnd::Died | RunEnd::Cut => cpu.fairness.leave(now, &mut task.account),
        };
        let run = Run {
            task: key,
            actor: task.actor,
            cpu: cpu.id,
            start: task.run.start,
            end: now,
            irq: task.run.irq,
            softirq: task.run.softirq,
            ideal: whole(ideal),
            ended,
            start_seen: task.run.start_seen,
        };
        task.state = State::Unknown;
        if let (RunEnd::Preempted { .. }, Some(begun)) = (ended, &mut task.work_start) {
            begun.preemptions += 1;
        }
        if let Some(victim) = task.run.victim.take() {
            let stayed = run.length().saturating_sub(run.irq + run.softirq);
            if let Some(pending) = &mut self.world.tasks.get_mut(victim).pending
                && let Some(preemptor) = &mut pending.preemptor
                && preemptor.task == key
                && preemptor.since == run.start
            {
                preemptor.stayed = Some(stayed);
            }
        }
        sink.run(&self.world, &run);
    }

    fn switch(&mut self, index: usize, prev: TaskRef, prev_state: PrevState, next: TaskRef, sink: &mut impl Sink) {
        self.believe(index, prev, sink);
        self.forget_handlers(index);
        let cpu_id = self.cpus[index].id;
        let next_key = (!next.tid.is_idle()).then(|| self.task(next));
        let by_wakeup = self.is_wakeup_preemption(index, next_key);
        let mut preempted = None;
        match self.cpus[index].current {
            Current::Task(prev_key) if Some(prev_key) != next_key => {
                self.update(prev_key, prev.comm, prev.prio);
                let by = next_key.map_or(ActorId::IDLE, |key| self.world.tasks.get(key).actor);
                let caught = self.is_caught_falling_asleep(prev_key);
                let ended = match prev_state {
                    PrevState::Runnable | PrevState::Preempted if caught => RunEnd::Slept,
                    PrevState::Runnable | PrevState::Preempted => {
                        preempted = Some(prev_key);
                        RunEnd::Preempted { by, by_wakeup }
                    }
                    PrevState::Dead => RunEnd::Died,
                    PrevState::Unknown => RunEnd::Cut,
                    _ => RunEnd::Slept,
                };
                self.end_run(index, ended, sink);
                self.leave_cpu(prev_key, prev_state, caught, cpu_id);
            }
            _ => self.end_run(index, RunEnd::Cut, sink),
        }
        let Some(next_key) = next_key else {
            self.enter_idle(index);
            return;
        };
        self.take_cpu(index, next_key, sink);
        if let Some(prev) = preempted {
            self.name_preemptor(prev, next_key, by_wakeup);
        }
    }

    /// Makes sure that `prev` is what we believe to be running.
    fn believe(&mut self, index: usize, prev: TaskRef, sink: &mut impl Sink) {
        let believed = match self.cpus[index].current {
            Current::Unknown => None,
            Current::Idle => Some(Tid::IDLE),
            Current::Task(key) => Some(self.world.tasks.get(key).tid),
        };
        if believed != Some(prev.tid) {
            if believed.is_some() {
                self.missing_switches += 1;
            }
            self.adopt(index, prev, sink);
        }
    }

    /// Whether `next`, about to get the CPU, was woken while the current task ran, and only just.
    fn is_wakeup_preemption(&self, index: usize, next: Option<TaskKey>) -> bool {
        let (Current::Task(current), Some(next)) = (self.cpus[index].current, next) else { return false };
        let Some(pending) = &self.world.tasks.get(next).pending else { return false };
        pending.kind != WaitKind::Preemption
            && pending.start >= self.world.tasks.get(current).run.start
            && self.world.now.since(pending.start) <= WAKEUP_PREEMPTION_WITHIN
    }

    /// Writes into the preempted task's wait who has its CPU now.
    fn name_preemptor(&mut self, prev: TaskKey, next: TaskKey, by_wakeup: bool) {
        let now = self.world.now;
        let actor = self.world.tasks.get(next).actor;
        if let Some(pending) = &mut self.world.tasks.get_mut(prev).pending {
            pending.preemptor = Some(Preemptor { task: next, actor, by_wakeup, stayed: None, since: now });
            self.world.tasks.get_mut(next).run.victim = Some(prev);
        }
    }

    /// Whether the running task, about to leave its CPU, is being woken by another one: `sched_waking` has come,
    /// `sched_wakeup` has not. It has left the runqueue, but the waker has already changed its state, so the switch shows
    /// it as runnable.
    fn is_caught_falling_asleep(&self, key: TaskKey) -> bool {
        self.wakeup_recorded && self.world.tasks.get(key).early_wake.is_some()
    }

    /// What becomes of the task that has just left the CPU.
    fn leave_cpu(&mut self, key: TaskKey, state: PrevState, caught: bool, cpu: CpuId) {
        let now = self.world.now;
        let task = self.world.tasks.get_mut(key);
        match state {
            PrevState::Runnable | PrevState::Preempted if caught => {
                self.begin_wait(key, WaitKind::Wakeup, cpu, now, None);
            }
            PrevState::Runnable | PrevState::Preempted => self.begin_wait(key, WaitKind::Preemption, cpu, now, None),
            PrevState::Dead => self.world.tasks.remove(key),
            PrevState::Unknown => task.state = State::Unknown,
            _ => {
                task.state = State::Sleeping;
                task.sleep_start = Some(now);
            }
        }
    }

    fn take_cpu(&mut self, index: usize, key: TaskKey, sink: &mut impl Sink) {
        let cpu_id = self.cpus[index].id;
        match self.world.tasks.get(key).state {
            State::Waiting => {
                if self.world.tasks.get(key).pending.as_ref().is_some_and(|pending| pending.cpu != cpu_id) {
                    self.move_wait(key, cpu_id);
                }
                self.end_wait(key, WaitEnd::Ran, sink);
            }
            State::Running(elsewhere) if elsewhere != cpu_id => {
                self.missing_switches += 1;
                self.end_run(elsewhere.index(), RunEnd::Cut, sink);
            }
            _ => {}
        }
        self.begin_run(index, key, true);
    }

    fn waking(&mut self, index: usize, event: &Event, task: TaskRef, target: CpuId, sink: &mut impl Sink) {
        if task.tid.is_idle() || target.0 >= CpuId::LIMIT {
            return;
        }
        let now = self.world.now;
        let key = self.task(task);
        match self.world.tasks.get(key).state {
            State::Running(_) => self.world.tasks.get_mut(key).early_wake = Some(now),
            State::Dead => {}
            // One that lost the CPU on its way to sleep may be woken while it is still queued.
            State::Waiting if !self.is_woken(key) => {}
            State::Waiting => {
                self.missing_switches += 1;
                self.drop_wait(key);
                self.world.tasks.get_mut(key).sleep_start = None;
                self.cpu(target);
                self.report_wake(index, event, key, sink);
                self.begin_wait(key, WaitKind::Wakeup, target, now, None);
            }
            State::Sleeping | State::Unknown => {
                self.cpu(target);
                self.report_wake(index, event, key, sink);
                self.begin_wait(key, WaitKind::Wakeup, target, now, None);
            }
        }
    }

    /// Whether the task waits after a wakeup. The kernel then wakes it no more until it has run and gone to sleep
    /// (`ttwu_state_match` comes before the trace event): if it is woken, switches are missing.
    fn is_woken(&self, key: TaskKey) -> bool {
        let task = self.world.tasks.get(key);
        task.pending.as_ref().is_some_and(|pending| {
            pending.kind == WaitKind::Wakeup && self.world.now.since(pending.start) > WAKINGS_OVERTAKE_WITHIN
        })
    }

    fn wakeup(&mut self, index: usize, event: &Event, task: TaskRef, target: CpuId, sink: &mut impl Sink) {
        if task.tid.is_idle() || target.0 >= CpuId::LIMIT {
            return;
        }
        let now = self.world.now;
        self.cpu(target);
        let key = self.task(task);
        match self.world.tasks.get(key).state {
            State::Running(_) => self.world.tasks.get_mut(key).early_wake = None,
            State::Dead => {}
            State::Waiting => {
                if self.world.tasks.get(key).pending.as_ref().is_some_and(|pending| pending.cpu != target) {
                    self.move_wait(key, target);
                }
                if let Some(pending) = &mut self.world.tasks.get_mut(key).pending
                    && pending.kind != WaitKind::Preemption
                {
                    pending.queued.get_or_insert(now);
                }
            }
            State::Sleeping | State::Unknown => {
                let task = self.world.tasks.get_mut(key);
                let early = task.early_wake.take();
                let start = match (early, task.sleep_start) {
                    (Some(early), Some(sleep)) => early.max(sleep),
                    _ => now,
                };
                self.report_wake(index, event, key, sink);
                self.begin_wait(key, WaitKind::Wakeup, target, start, Some(now));
            }
        }
    }

    fn wakeup_new(&mut self, task: TaskRef, target: CpuId) {
        if task.tid.is_idle() || target.0 >= CpuId::LIMIT {
            return;
        }
        let now = self.world.now;
        self.cpu(target);
        let key = self.task(task);
        if matches!(self.world.tasks.get(key).state, State::Unknown | State::Sleeping) {
            self.begin_wait(key, WaitKind::New, target, now, Some(now));
        }
    }

    fn migrate(&mut self, task: TaskRef, from: CpuId, to: CpuId, sink: &mut impl Sink) {
        if task.tid.is_idle() || to.0 >= CpuId::LIMIT {
            return;
        }
        let now = self.world.now;
        self.cpu(to);
        let key = self.task(task);
        let known = self.world.tasks.get_mut(key);
        known.moved |= from != to;
        if known.pending.as_ref().is_some_and(|pending| pending.cpu != to) {
            self.move_wait(key, to);
        } else if !matches!(known.state, State::Running(_)) {
            known.last_cpu = Some(to);
        }
        sink.migration(&self.world, &Migration { task: key, time: now, from, to });
    }

    /// A thread id is given to a new thread: whatever had it before is gone.
    fn fork(&mut self, child: Tid, comm: Comm) {
        if child.is_idle() {
            return;
        }
        if let Some(old) = self.world.tasks.find(child) {
            match self.world.tasks.get(old).state {
                State::Waiting => self.drop_wait(old),
                // Its own CPU will contradict; the new thread cannot have been born while the old one ran.
                State::Running(_) => return,
                _ => {}
            }
            self.world.tasks.remove(old);
        }
        self.new_task(child, comm, None);
    }

    fn report_wake(&mut self, index: usize, event: &Event, key: TaskKey, sink: &mut impl Sink) {
        let now = self.world.now;
        let waker = self.waker(index, event);
        let mut prices = std::mem::take(&mut self.prices);
        prices.clear();
        let task = self.world.tasks.get(key);
        let sleep_start = task.sleep_start;
        if let (Waker::Task(waker), Some(sleep_start)) = (waker, sleep_start)
            && waker != key
            && !self.world.tasks.get(waker).debts.is_settled(sleep_start)
        {
            let actor = task.actor;
            let of_waker = std::mem::take(&mut self.world.tasks.get_mut(waker).debts);
            self.world.tasks.get_mut(key).debts.pass_on(&of_waker, sleep_start, actor, &mut prices);
            self.world.tasks.get_mut(waker).debts = of_waker;
        }
        let slept = sleep_start.map(|start| now.since(start));
        let wake = Wake { wakee: key, waker, time: now, cpu: self.cpus[index].id, slept, prices: &prices };
        sink.wake(&self.world, &wake);
        self.prices = prices;
    }

    /// Who issues a wakeup: the current task, unless the CPU is serving an interrupt for somebody else.
    fn waker(&self, index: usize, event: &Event) -> Waker {
        let cpu = &self.cpus[index];
        // With remote wakeups the target CPU issues sched_wakeup from an interrupt; the waker issued sched_waking.
        if matches!(event.kind, EventKind::Wakeup { .. }) && self.waking_recorded {
            return Waker::Unknown;
        }
        let interrupt = match event.context {
            Context::Hardirq | Context::Nmi => true,
            Context::Softirq => !cpu.is_ksoftirqd,
            Context::Task => false,
            Context::Unknown => !cpu.hardirqs.is_empty() || cpu.softirq.is_some() && !cpu.is_ksoftirqd,
        };
        if interrupt {
            let handler = cpu.hardirqs.last().copied().or(cpu.softirq);
            return Waker::Interrupt(handler.map(|handler| handler.actor));
        }
        match cpu.current {
            Current::Task(key) => Waker::Task(key),
            Current::Idle | Current::Unknown => Waker::Unknown,
        }
    }

    /// Events of this CPU are missing before now.
    fn lose(&mut self, index: usize, sink: &mut impl Sink) {
        let now = self.world.now;
        let since = self.cpus[index].last_event;
        self.forget_handlers(index);
        // Between the last event and now the CPU may have done anything.
        self.world.now = since.max(self.world.start);
        self.end_run(index, RunEnd::Cut, sink);
        self.world.now = now;
        self.cpus[index].last_event = now;
    }
}
