mod recording_end;
pub(crate) mod run_interval;
mod so_far;
mod switches;
mod wakes;

use unstarve_model::{
    Comm, CpuId, CpuSet, Event, EventKind, EventSet, EventType, Loss, LossKind, Names, Nanos, Prio, TaskRef, Tid, Time,
    counted,
};

use crate::cpus::Cpu;
use crate::cpus::idle::IdleWatch;
use crate::cpus::occupancy::Occupancy;
use crate::cpus::ticks::AllSilent;
use crate::cpus::unrecorded::Unrecorded;
use crate::run_queues::Places;
use crate::settings::BoxedSettings;
use crate::timeline::recording_end::Tails;
use crate::waits::attribution::PieceRoom;
use crate::waits::deferred_waits::Held;
use crate::waits::effort::Effort;
use crate::waits::initial_runnable::Before;
use crate::wake_graph::block_requests::{Requests, Stage};
use crate::wake_graph::wake_chain::{Debt, Debts};
use crate::wake_graph::waker_inference::Suspects;
use crate::wake_graph::workqueue::WorkTable;
use crate::{ActorId, ActorKind, Actors, Nature, Price, RunEnd, Settings, Sink, State, Task, TaskKey, Tasks, World};

/// What comes later, five centuries after the clock's zero, comes at this moment (see [`crate::opt_time::OptTime`]).
const LAST: Time = Time(u64::MAX - 1);

/// Turns events into waits, runs, wake edges, interrupts and work items.
#[derive(Debug)]
pub struct Timeline {
    pub(crate) world: World,
    pub(crate) cpus: Vec<Cpu>,
    pub(crate) places: Places,
    pub(crate) idle: IdleWatch,
    pub(crate) work: WorkTable,
    pub(crate) held: Held,
    pub(crate) before: Before,
    /// Waits of tasks that no event names.
    pub(crate) guessed: u64,
    /// CPUs that exist and have issued no event; `None` when there are none left.
    pub(crate) unheard: Option<CpuSet>,
    /// Softirqs so far: without them a CPU that runs one task all the time is as silent as an idle one.
    pub(crate) softirqs: u64,
    /// The steps that it may take beside those of each event.
    pub(crate) effort: Effort,
    /// Kept to save allocations.
    pub(crate) pieces: PieceRoom,
    pub(crate) parts: Vec<(ActorId, Nanos)>,
    pub(crate) prices: Vec<Price>,
    pub(crate) open_debts: Vec<Debt>,
    /// Waits of the threads that drive RCU's grace periods.
    pub(crate) grace_periods: Debts,
    /// Requests to block devices.
    pub(crate) requests: Requests,
    /// Whether moves are known to be recorded: the source says so, or one was seen.
    pub(crate) migrations_recorded: bool,
    pub(crate) waking_recorded: bool,
    /// Whether work items are seen when they are queued.
    pub(crate) queues_recorded: bool,
    pub(crate) wakeup_recorded: bool,
    /// Whether events tell where a woken task is queued.
    pub(crate) places_recorded: bool,
    /// Waits that were put on the CPU where the task ran next.
    pub(crate) followed: u64,
    started: bool,
    /// Without any, no wait has an end.
    switches: u64,
    /// The types of events so far, but for switches.
    seen: EventSet,
    pub(crate) missing_switches: u64,
    /// Of which away from an idle CPU.
    pub(crate) missing_idle_exits: u64,
    pub(crate) unrecorded: Unrecorded,
    pub(crate) tails: Tails,
    pub(crate) suspects: Suspects,
    /// When no CPU issued an event though a tick was due on one.
    pub(crate) all_silent: AllSilent,
    impossible_cpus: u64,
    late: u64,
}

impl Timeline {
    /// A timeline of a machine with `cpus` CPUs (as many as appear, if not known) of a trace that has the events in
    /// `recorded` (not known: assumed to have all).
    pub fn new(cpus: Option<u32>, recorded: Option<EventSet>, settings: Box<dyn Settings>) -> Timeline {
        let has = |event| recorded.is_none_or(|set| set.contains(event));
        let world = World {
            tasks: Tasks::default(),
            actors: Actors::new(settings.groups()),
            names: Names::default(),
            cpus: cpus.unwrap_or(0).min(CpuId::LIMIT),
            idle_until_heard: CpuSet::default(),
            start: Time(0),
            now: Time(0),
            settings: BoxedSettings(settings),
        };
        Timeline {
            world,
            cpus: Vec::new(),
            places: Places::default(),
            idle: IdleWatch::new(),
            work: WorkTable::default(),
            held: Held::default(),
            before: Before::default(),
            guessed: 0,
            unheard: cpus
                .map(|cpus| (0..cpus.min(CpuId::LIMIT)).map(CpuId).collect())
                .filter(|set: &CpuSet| !set.is_empty()),
            softirqs: 0,
            effort: Effort::default(),
            pieces: PieceRoom::default(),
            parts: Vec::new(),
            prices: Vec::new(),
            open_debts: Vec::new(),
            grace_periods: Debts::default(),
            requests: Requests::default(),
            migrations_recorded: recorded.is_some_and(|set| set.contains(EventType::Migrate)),
            waking_recorded: has(EventType::Waking),
            queues_recorded: false,
            wakeup_recorded: has(EventType::Wakeup),
            // Where nothing tells what was recorded, the first such event will.
            places_recorded: recorded.is_some() && (has(EventType::Wakeup) || has(EventType::Migrate)),
            followed: 0,
            started: false,
            switches: 0,
            seen: EventSet::default(),
            missing_switches: 0,
            missing_idle_exits: 0,
            unrecorded: Unrecorded::default(),
            tails: Tails::default(),
            suspects: Suspects::default(),
            all_silent: AllSilent::default(),
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
        // Lost events are not like that, but there are kernels that issue none of these on some CPUs.
        let touched = if self.missing_idle_exits > self.missing_switches / 2 {
            "mostly when a CPU left idle, which some kernels do not report; the waits they touch are left out"
        } else {
            "the waits they touch are left out"
        };
        let next = format!(
            "nor sched_migrate_task: for {}, the CPU where the task ran next is taken to be where it waited",
            counted(self.followed, "wait")
        );
        tell(LossKind::NotRecorded(EventType::Wakeup), u64::from(self.followed > 0), &next);
        tell(LossKind::SilentTasks, self.guessed, "`unstarve record` of this version keeps what they did");
        tell(LossKind::MissingSwitch, self.missing_switches, touched);
        tell(LossKind::Undecodable, self.impossible_cpus, "events of CPUs that cannot exist");
        tell(LossKind::OutOfOrder, self.late, "");
        let stood_still =
            format!("up to {}: the whole machine stood still, or nothing was recorded", self.all_silent.longest);
        tell(LossKind::AllCpusSilent, self.all_silent.count, &stood_still);
        let named = format!("of tasks, beyond {} kinds", Actors::NAMED);
        tell(LossKind::TooManyNames, self.world.actors.unnamed(), &named);
        losses.extend(self.unrecorded_loss());
        losses.extend(self.tail_loss());
        losses.extend(self.effort.loss());
        losses
    }

    /// Takes the next event.
    #[inline(always)]
    pub fn push(&mut self, event: &Event, sink: &mut impl Sink) {
        let index = event.cpu.index();
        if index >= self.cpus.len() && !self.meet(event) {
            return;
        }
        let time = event.time.min(LAST);
        let now = time.max(self.world.now);
        self.late += u64::from(time < now);
        self.world.now = now;
        let cpu = &mut self.cpus[index];
        cpu.issued = true;
        cpu.note_silence(now);
        cpu.note_context(now, event);
        match event.kind {
            // It names the task that was current itself; others must name the one that is believed to be.
            EventKind::Switch { ref prev, prev_state, ref next } => {
                cpu.last_event = now;
                self.switches += 1;
                self.switch(index, prev, prev_state, next, sink);
                self.note_stops(index, prev, next);
            }
            EventKind::Lost { .. } => {
                self.lose(index, sink);
                return;
            }
            _ => {
                match event.issuer.current() {
                    Some(tid) if cpu.tid != Some(tid) => {
                        self.correct_current(index, tid, sink);
                        self.cpus[index].last_event = now;
                    }
                    _ => cpu.last_event = now,
                }
                self.act(index, event, sink);
            }
        }
        // Any event can reveal that a different task is running.
        let occupancy = &self.cpus[index].occupancy;
        if occupancy.is_full(Occupancy::CAPACITY)
            && (self.places_recorded || occupancy.is_full(Occupancy::LONG_CAPACITY))
        {
            self.take_stock(index);
        }
    }

    /// Switches so far.
    pub fn switches(&self) -> u64 {
        self.switches
    }

    /// The types of events so far.
    pub fn seen(&self) -> EventSet {
        if self.switches > 0 { self.seen.with(EventType::Switch) } else { self.seen }
    }

    /// The first event of a CPU, perhaps of all; whether there can be such a CPU.
    #[cold]
    fn meet(&mut self, event: &Event) -> bool {
        if event.cpu.0 >= CpuId::LIMIT {
            self.impossible_cpus += 1;
            return false;
        }
        if !self.started {
            self.start(event.time);
        }
        self.cpu(event.cpu);
        true
    }

    /// What the current task of a CPU, or an interrupt, does there.
    #[inline(always)]
    fn act(&mut self, index: usize, event: &Event, sink: &mut impl Sink) {
        match event.kind {
            EventKind::Waking { ref task, target_cpu } => {
                self.seen.insert(EventType::Waking);
                self.waking(index, event, task, target_cpu, sink);
            }
            EventKind::Wakeup { ref task, target_cpu } => {
                self.seen.insert(EventType::Wakeup);
                self.wakeup(index, event, task, target_cpu, sink);
            }
            _ => self.act_otherwise(index, event, sink),
        }
    }

    /// The same of all that are rarer than wakeups.
    #[inline(never)]
    fn act_otherwise(&mut self, index: usize, event: &Event, sink: &mut impl Sink) {
        if let Some(event_type) = event.kind.event_type() {
            self.seen.insert(event_type);
        }
        match event.kind {
            EventKind::WakeupNew { ref task, target_cpu } => self.wakeup_new(index, task, target_cpu),
            EventKind::Migrate { ref task, orig_cpu, dest_cpu } => {
                self.migrate(index, task, (orig_cpu, dest_cpu), sink)
            }
            EventKind::Fork { parent, child, child_comm } => self.fork(parent, child, child_comm),
            EventKind::Exit { tid, .. } => {
                if let Some(key) = self.world.tasks.find(tid) {
                    self.world.tasks.get_mut(key).exited = true;
                }
            }
            EventKind::IrqEntry { irq, name } => self.irq_entry(index, irq, name),
            EventKind::IrqExit { irq } => self.irq_exit(index, irq, sink),
            EventKind::SoftirqEntry { vec } => {
                self.softirqs += 1;
                self.softirq_entry(index, vec);
            }
            EventKind::SoftirqExit { vec } => self.softirq_exit(index, vec, sink),
            EventKind::WorkQueued { work, function, workqueue } => {
                self.work_queued(work, function, workqueue);
                self.work_queued_for_request(index, event, work);
            }
            EventKind::WorkStart { work, function } => {
                self.work_start(index, work, function);
                self.request_work_starts(index, work);
            }
            EventKind::WorkEnd { work, function } => {
                self.work_end(index, work, function, sink);
                self.request_work_ends(index, work);
            }
            EventKind::BlockInsert(ref request) => self.submit(index, event, request, Stage::Inserted),
            EventKind::BlockIssue(ref request) => self.submit(index, event, request, Stage::Issued),
            EventKind::BlockComplete(ref request) => self.complete(index, event, request),
            EventKind::WorkOnStack { tid, function } => {
                let key = self.task(&TaskRef::new(tid, Comm::default(), None));
                self.work_on_stack(key, function);
            }
            EventKind::Exec { tid, comm } => self.exec(tid, comm, sink),
            EventKind::Rename { tid, comm } => self.rename(tid.or(event.issuer.current()), comm, sink),
            EventKind::SetPrio { tid, prio } => self.set_prio(tid, prio, sink),
            EventKind::SoftirqRaise { vec } => self.softirq_raise(index, event, vec),
            EventKind::Tick { heard } => self.tick(index, heard),
            EventKind::TickStop => self.cpus[index].rhythm = None,
            EventKind::Switch { .. } | EventKind::Waking { .. } | EventKind::Wakeup { .. } | EventKind::Lost { .. } => {
            }
        }
    }

    /// The trace is over: reports runs and waits in progress.
    pub fn finish(&mut self, sink: &mut impl Sink) {
        self.reach_end();
        self.report_quiet(sink);
        self.judge_unheard();
        self.end_tails(sink);
        for index in 0..self.cpus.len() {
            self.end_run(index, RunEnd::Cut, sink);
        }
        let waiting: Vec<TaskKey> =
            self.world.tasks.iter().filter(|(_, task)| task.pending.is_some()).map(|(key, _)| key).collect();
        for key in waiting {
            self.end_last(key, sink);
        }
    }

    #[cold]
    fn start(&mut self, time: Time) {
        self.started = true;
        self.world.start = time;
        self.world.now = time;
        self.begin_before();
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
    #[inline(always)]
    pub(crate) fn task(&mut self, task: &TaskRef) -> TaskKey {
        match self.world.tasks.find(task.tid()) {
            Some(key) => {
                self.update(key, task.comm(), task.prio());
                key
            }
            None => self.new_task(task.tid(), *task.comm(), task.prio()),
        }
    }

    /// The task has this name and priority, as far as they are known.
    #[inline(always)]
    pub(crate) fn update(&mut self, key: TaskKey, comm: &Comm, prio: Option<Prio>) {
        // Nearly all events name a task as the one before did.
        if !self.world.tasks.get(key).is_named(comm, prio) {
            self.learn(key, *comm, prio);
        }
    }

    #[inline(never)]
    fn learn(&mut self, key: TaskKey, comm: Comm, prio: Option<Prio>) {
        let task = self.world.tasks.get_mut(key);
        if prio.is_some() && !task.ranked {
            task.ranked = true;
            self.world.actors.get_mut(task.actor).ranked |= prio == Some(task.prio);
        }
        let prio = prio.unwrap_or(task.prio);
        if prio == task.prio && (comm == task.comm || comm.is_unknown()) {
            return;
        }
        if !comm.is_unknown() {
            // A name that the recording lists beside its events may be a later one, so it proves no change.
            if task.joined != ActorId::UNKNOWN {
                task.nature = task.nature.renamed(&task.comm, &comm);
            }
            task.comm = comm;
        }
        task.prio = prio;
        self.renew_actor(key);
        self.reweigh(key);
    }

    /// The task's priority has changed, and with it what it is due.
    fn reweigh(&mut self, key: TaskKey) {
        let now = self.world.now;
        let task = self.world.tasks.get_mut(key);
        let weight = task.weight();
        let cpu = match (task.state, &task.pending) {
            (State::Running(cpu), _) => cpu,
            (State::Waiting, Some(pending)) => pending.cpu,
            _ => return,
        };
        if task.account.weight != 0 && task.account.weight != weight {
            self.cpus[cpu.index()].fairness.reweigh(now, &mut task.account, weight);
        }
    }

    /// Gives the task the actor of what is now known of it.
    pub(crate) fn renew_actor(&mut self, key: TaskKey) {
        let task = self.world.tasks.get_mut(key);
        task.kernel_thread = task.nature.kernel_thread(&task.comm);
        let settings_of = task.settings_of();
        task.actor = self.world.actors.of(ActorKind::Tasks {
            comm: task.comm,
            prio: task.prio,
            group: self.world.settings.0.group(settings_of),
            own_weight: task.own_weight,
            claim: task.nature.claim(&task.comm),
        });
        if task.ranked {
            self.world.actors.get_mut(task.actor).ranked = true;
        }
    }

    #[cold]
    pub(crate) fn new_task(&mut self, tid: Tid, comm: Comm, prio: Option<Prio>) -> TaskKey {
        let nature = Nature::told(self.world.settings.0.is_kernel_thread(tid), tid);
        self.new_task_of(nature, (tid, tid), comm, prio)
    }

    /// Takes the task's id, and that of the one whose settings it has.
    #[cold]
    pub(crate) fn new_task_of(
        &mut self,
        nature: Nature,
        (tid, settings_of): (Tid, Tid),
        comm: Comm,
        prio: Option<Prio>,
    ) -> TaskKey {
        let ranked = prio.is_some();
        let prio = prio.unwrap_or(Prio::NORMAL);
        let settings = &*self.world.settings.0;
        let own_weight = settings.own_weight(settings_of);
        let kind =
            ActorKind::Tasks { comm, prio, group: settings.group(settings_of), own_weight, claim: nature.claim(&comm) };
        let actor = self.world.actors.of(kind);
        self.world.actors.get_mut(actor).ranked |= ranked;
        let mut task = Task::new(tid, comm, prio, actor, nature);
        task.ranked = ranked;
        task.own_weight = own_weight;
        task.limited = settings.has_bandwidth_limit(settings_of);
        task.pinned = task.kernel_thread.is_some_and(|thread| thread.bound_cpu().is_some());
        if let Some(allowed) = settings.allowed_cpus(settings_of) {
            task.pinned = allowed.len() == 1;
            task.affinity = if allowed.len() as u32 >= self.world.cpus {
                Some(IdleWatch::ALL)
            } else {
                self.idle.group_of(allowed, self.world.now)
            };
        }
        self.world.tasks.insert(task)
    }
}
