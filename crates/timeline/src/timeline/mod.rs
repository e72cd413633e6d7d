//! Routes each event, and the end of the trace, to the components that it concerns.

mod forks;
mod recording_end;
mod run_interval;
mod so_far;
mod switches;
mod wakes;

use unstarve_model::{
    Comm, Context, Coverage, CpuId, Event, EventKind, EventSet, EventType, Loss, LossKind, TaskRef, Tid, Time,
    TraceInfo,
};

use crate::cpus::OnCpu;
use crate::cpus::occupancy::Occupancy;
use crate::losses::Losses;
use crate::machine::Machine;
use crate::recorded::Recorded;
use crate::timeline::recording_end::RecordingEnd;
use crate::waits::Waits;
use crate::wake_graph::{Stage, WakeGraph};
use crate::{Actors, RunEnd, Settings, Sink, Step, StepKind, TaskKey, TimerStart, World};

/// The maximum time; later ones, five centuries after the clock's zero, become this one (see [`crate::opt_time::OptTime`]).
const LAST: Time = Time(u64::MAX - 1);

/// Turns events into waits, runs, wake edges, interrupts and work items.
#[derive(Debug)]
pub struct Timeline {
    machine: Machine,
    waits: Waits,
    wake_graph: WakeGraph,
    recorded: Recorded,
    losses: Losses,
    end: RecordingEnd,
}

impl Timeline {
    /// A timeline for a machine with `cpus` CPUs (if unknown, as many as events name) and a trace with the events in `recorded`
    /// (if unknown, all).
    pub fn new(cpus: Option<u32>, recorded: Option<EventSet>, settings: Box<dyn Settings>) -> Timeline {
        Timeline {
            machine: Machine::new(cpus, settings),
            waits: Waits::default(),
            wake_graph: WakeGraph::default(),
            recorded: Recorded::new(recorded),
            losses: Losses::default(),
            end: RecordingEnd::default(),
        }
    }

    /// A timeline for a recording with this description.
    pub fn of_recording(info: &TraceInfo, settings: Box<dyn Settings>) -> Timeline {
        let mut timeline = Timeline::new(info.cpus, info.recorded, settings);
        if info.cpus_recorded.zip(info.cpus).is_some_and(|(recorded, all)| recorded < all) {
            timeline.lacks_cpus();
        }
        for task in &info.tasks {
            timeline.name_task(task.tid, task.comm);
        }
        timeline
    }

    /// Names used by the next events (of a batch).
    pub fn names(&mut self, new: impl IntoIterator<Item = Box<str>>) {
        self.machine.world.names.extend(new);
    }

    /// A task name that the source has besides its events.
    pub fn name_task(&mut self, tid: Tid, comm: Comm) {
        if !tid.is_idle() && !comm.is_unknown() && self.machine.world.tasks.find(tid).is_none() {
            self.machine.new_task(tid, comm, None);
        }
    }

    /// The task was runnable when the trace began, and this was its CPU: it ran or waited there. Its first event shows which.
    pub fn runnable_before(&mut self, task: TaskRef, cpu: CpuId) {
        self.waits.add_runnable_before(task, cpu);
    }

    /// The task existed when the trace began, may only use this CPU, and has hardly run in its life. If no event names it, it
    /// slept, or waited all the time. If the CPU's other tasks weigh so much that it could not have run yet, it is taken to
    /// have waited.
    pub fn quiet_before(&mut self, task: TaskRef, cpu: CpuId) {
        self.waits.add_quiet_before(task, cpu);
    }

    /// The source recorded fewer CPUs than the machine has: those without events are the others.
    pub fn lacks_cpus(&mut self) {
        self.machine.cpus.lacks_some();
    }

    /// How far the recording is proved to reach; call it before [`Timeline::finish`].
    pub fn covered_by(&mut self, coverage: Coverage) {
        self.end.covered_by(coverage);
    }

    /// Tasks, actors, names and the time.
    pub fn world(&self) -> &World {
        &self.machine.world
    }

    /// What each CPU does now, from CPU 0 to the last one named by an event.
    pub fn on_cpus(&self) -> impl Iterator<Item = (CpuId, OnCpu)> {
        self.machine.cpus.iter().map(|cpu| (cpu.id(), cpu.now(&self.machine.world.tasks)))
    }

    /// Number of switches so far.
    pub fn switches(&self) -> u64 {
        self.recorded.switches()
    }

    /// The types of events so far.
    pub fn seen(&self) -> EventSet {
        self.recorded.seen()
    }

    /// What could not be followed.
    pub fn losses(&self) -> Vec<Loss> {
        let Machine { world, cpus, .. } = &self.machine;
        let mut losses = self.losses.report(cpus.all_silent());
        let unnamed = world.actors.unnamed();
        if unnamed > 0 {
            let detail = format!("of tasks, beyond {} kinds", Actors::NAMED);
            losses.push(Loss::new(LossKind::TooManyNames, unnamed).with_detail(detail));
        }
        losses.extend(cpus.unrecorded_loss(world.cpus));
        losses.extend(self.end.loss(world.now));
        losses.extend(self.waits.effort_so_far().loss());
        losses
    }

    /// Takes the next event.
    #[inline(always)]
    pub fn push(&mut self, event: &Event, sink: &mut impl Sink) {
        let index = event.cpu.index();
        if index >= self.machine.cpus.len() && !self.meet(event) {
            return;
        }
        let time = event.time.min(LAST);
        let now = time.max(self.machine.world.now);
        self.losses.note_order(time < now);
        self.machine.world.now = now;
        let cpu = &mut self.machine.cpus[index];
        cpu.note_event(now);
        self.wake_graph.note_context(index, now, event);
        match event.kind {
            // A switch names the task that was current; for other events it must be the known current task.
            EventKind::Switch { ref prev, prev_state, ref next } => {
                cpu.presence_mut().set_last_event(now);
                self.recorded.note_switch();
                self.switch(index, prev, prev_state, next, sink);
                self.waits.note_stops(&mut self.machine, index, prev, next);
            }
            EventKind::Lost { .. } => {
                self.lose(index, sink);
                return;
            }
            _ => {
                match event.issuer.current() {
                    Some(tid) if cpu.tid() != Some(tid) => {
                        self.correct_current(index, tid, sink);
                        self.machine.cpus[index].presence_mut().set_last_event(now);
                    }
                    _ => cpu.presence_mut().set_last_event(now),
                }
                self.act(index, event, sink);
            }
        }
        // Any event can show that a different task is running.
        let occupancy = self.machine.cpus[index].occupancy();
        if occupancy.is_full(Occupancy::CAPACITY)
            && (self.recorded.has_places() || occupancy.is_full(Occupancy::LONG_CAPACITY))
        {
            self.waits.take_stock(&mut self.machine, index);
        }
    }

    /// The first event of a CPU, or of the trace; returns whether the CPU can exist.
    #[cold]
    fn meet(&mut self, event: &Event) -> bool {
        if event.cpu.0 >= CpuId::LIMIT {
            self.losses.note_impossible_cpu();
            return false;
        }
        if self.machine.cpus.len() == 0 {
            self.machine.world.start = event.time;
            self.machine.world.now = event.time;
            self.waits.begin_initial(&mut self.machine);
        }
        self.machine.cpu(event.cpu);
        true
    }

    /// Handles events about what the current task of a CPU, or an interrupt, does there.
    #[inline(always)]
    fn act(&mut self, index: usize, event: &Event, sink: &mut impl Sink) {
        match event.kind {
            EventKind::Waking { ref task, target_cpu } => {
                self.recorded.note(EventType::Waking);
                self.waking(index, event, task, target_cpu, sink);
            }
            EventKind::Wakeup { ref task, target_cpu } => {
                self.recorded.note(EventType::Wakeup);
                self.wakeup(index, event, task, target_cpu, sink);
            }
            _ => self.act_otherwise(index, event, sink),
        }
    }

    fn report_step(&self, index: usize, event: &Event, kind: StepKind, sink: &mut impl Sink) {
        let (cpu, handlers) = self.machine.at(index);
        let in_interrupt = match event.issuer.context() {
            Context::Task => false,
            Context::Unknown => handlers.in_hardirq() || handlers.in_softirq() && !cpu.serves_softirqs(),
            Context::Softirq => !cpu.serves_softirqs(),
            Context::Hardirq | Context::Nmi => true,
        };
        let by = cpu.task().filter(|_| !in_interrupt);
        sink.step(&self.machine.world, &Step { time: self.machine.world.now, cpu: event.cpu, by, kind });
    }

    /// The same for all events that are rarer than wakeups.
    #[inline(never)]
    fn act_otherwise(&mut self, index: usize, event: &Event, sink: &mut impl Sink) {
        if let Some(event_type) = event.kind.event_type() {
            self.recorded.note(event_type);
        }
        let machine = &mut self.machine;
        let Machine { world, cpus, queues, interrupts } = machine;
        let cpu = &mut cpus[index];
        match event.kind {
            EventKind::WakeupNew { ref task, target_cpu } => {
                self.wakeup_new(index, task, target_cpu);
                if let Some(child) = self.machine.world.tasks.find(task.tid()) {
                    self.report_step(index, event, StepKind::Created(child), sink);
                }
            }
            EventKind::Migrate { ref task, orig_cpu, dest_cpu } => {
                self.migrate(index, task, (orig_cpu, dest_cpu), sink)
            }
            EventKind::Fork { parent, child, child_comm } => self.fork(parent, child, child_comm),
            EventKind::Exit { tid, .. } => {
                if let Some(key) = world.tasks.find(tid) {
                    world.tasks.get_mut(key).exited = true;
                }
            }
            EventKind::IrqEntry { irq, name } => interrupts.irq_entry(cpu, world, irq, name),
            EventKind::IrqExit { irq } => interrupts.irq_exit(cpu, world, irq, sink),
            EventKind::SoftirqEntry { vec } => interrupts.softirq_entry(cpu, world, vec),
            EventKind::SoftirqExit { vec } => interrupts.softirq_exit(cpu, world, vec, sink),
            EventKind::SoftirqRaise { vec } => interrupts.softirq_raise(cpu, world, event, vec),
            EventKind::WorkQueued { work, function, workqueue } => {
                self.wake_graph.work_queued(machine, index, event, work, (function, workqueue));
                self.report_step(index, event, StepKind::WorkQueued(work), sink);
            }
            EventKind::WorkStart { work, function } => {
                self.wake_graph.work_started(machine, index, work, function);
                self.report_step(index, event, StepKind::WorkStarted(work), sink);
            }
            EventKind::WorkEnd { work, function } => self.wake_graph.work_ended(machine, index, work, function, sink),
            EventKind::BlockInsert(ref request) => {
                self.wake_graph.submit(machine, index, event, request, Stage::Inserted)
            }
            EventKind::BlockIssue(ref request) => {
                self.wake_graph.submit(machine, index, event, request, Stage::Issued);
                self.report_step(index, event, StepKind::RequestIssued(*request), sink);
            }
            EventKind::BlockComplete(ref request) => {
                self.wake_graph.complete(machine, index, event, request);
                self.report_step(index, event, StepKind::RequestCompleted(*request), sink);
            }
            EventKind::WorkOnStack { tid, function } => {
                let worker = machine.task(&TaskRef::new(tid, Comm::default(), None));
                machine.world.tasks.get_mut(worker).work = Some((Some(function), None));
            }
            EventKind::Exec { tid, comm } => self.exec(tid, comm, sink),
            EventKind::Rename { tid, comm } => self.rename(tid.or(event.issuer.current()), comm, sink),
            EventKind::SetPrio { tid, prio } => {
                let before = world.tasks.find(tid).map(|task| (task, world.tasks.get(task).prio));
                self.set_prio(tid, prio, sink);
                if let Some((task, from)) = before {
                    self.report_step(index, event, StepKind::PrioInherited { task, from, to: prio }, sink);
                }
            }
            EventKind::Tick { heard } => cpus.tick(index, heard, &queues[index], world, self.waits.effort()),
            EventKind::TickStop => cpu.stop_tick(),
            EventKind::VectorEntry { vector } => interrupts.vector_entry(cpu, world, vector),
            EventKind::VectorExit { vector } => interrupts.vector_exit(cpu, world, vector, sink),
            EventKind::TimerStart { timer, due, is_relative } => {
                let start = TimerStart { timer, due, is_relative };
                self.report_step(index, event, StepKind::TimerStarted(start), sink);
            }
            EventKind::TimerExpire { timer, now } => {
                self.report_step(index, event, StepKind::TimerExpired { timer, now }, sink);
            }
            EventKind::TimeoutExpire => self.report_step(index, event, StepKind::TimeoutExpired, sink),
            EventKind::Attach { tid, hierarchy, group } => {
                if let Some(task) = world.tasks.find(tid) {
                    self.report_step(index, event, StepKind::Attached { task, hierarchy, group }, sink);
                }
            }
            EventKind::Switch { .. } | EventKind::Waking { .. } | EventKind::Wakeup { .. } | EventKind::Lost { .. } => {
            }
        }
    }

    /// Ends the trace: reports runs and waits in progress.
    pub fn finish(&mut self, sink: &mut impl Sink) {
        self.reach_end();
        self.read_prios(sink);
        let missing = self.losses.switches_are_missing();
        let guessed = self.waits.report_quiet(&mut self.machine, missing, sink);
        self.losses.note_guessed(guessed);
        let Machine { world, cpus, queues, interrupts } = &mut self.machine;
        cpus.judge_unheard(interrupts.softirqs(), queues, world);
        self.end_tails(sink);
        for index in 0..self.machine.cpus.len() {
            self.end_run(index, RunEnd::Cut, sink);
        }
        let tasks = self.machine.world.tasks.iter();
        let waiting: Vec<TaskKey> = tasks.filter(|(_, task)| task.pending.is_some()).map(|(key, _)| key).collect();
        for key in waiting {
            self.end_last(key, sink);
        }
    }
}

#[cfg(test)]
impl Timeline {
    /// Sets the limit of steps beyond those of each event.
    pub(crate) fn limit_effort(&mut self, effort: crate::effort::Effort) {
        *self.waits.effort() = effort;
    }

    pub(crate) fn assume_places_recorded(&mut self, recorded: bool) {
        self.recorded.assume_places(recorded);
    }

    pub(crate) fn machine(&self) -> &Machine {
        &self.machine
    }
}
