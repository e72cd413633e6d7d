//! Per-CPU state: the current task, past occupants, event times and idle time.

pub(crate) mod idle;
pub(crate) mod occupancy;
mod on_cpu;
pub(crate) mod pre_first_event;
mod presence;
pub(crate) mod ticks;
mod unrecorded;

use std::ops::{Index, IndexMut};

use unstarve_model::{CpuId, CpuSet, Nanos, Tid, Time};
use unstarve_sched::KernelThread;

use crate::cpus::idle::{IdleGroup, IdleWatch};
use crate::cpus::occupancy::{Mark, Occupancy};
pub use crate::cpus::on_cpu::OnCpu;
use crate::cpus::presence::Presence;
use crate::cpus::ticks::{AllSilent, TickWatch};
use crate::cpus::unrecorded::UnrecordedCpus;
use crate::{ActorId, Task, TaskKey};

/// All CPUs named by events, and what is known of the others.
#[derive(Debug)]
pub(crate) struct Cpus {
    list: Vec<Cpu>,
    idle: IdleWatch,
    /// CPUs that exist and have issued no event; `None` if there are none left.
    unheard: Option<CpuSet>,
    unrecorded: UnrecordedCpus,
    /// Silences of all CPUs at once although a tick was due on one.
    all_silent: AllSilent,
}

/// The state of one CPU.
#[derive(Debug)]
pub(crate) struct Cpu {
    id: CpuId,
    holder: Holder,
    occupancy: Occupancy,
    presence: Presence,
    ticks: TickWatch,
}

/// The current task of a CPU, if known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Current {
    Unknown,
    Idle,
    Task(TaskKey),
}

/// The current task, and since when it runs.
#[derive(Debug)]
struct Holder {
    current: Current,
    /// The tid of `current`, if known.
    tid: Option<Tid>,
    /// The actor of `current`, as of the switch to it.
    actor: ActorId,
    /// The start of the run of `current`, if it is a task.
    run_start: Time,
    /// Whether `current` is ksoftirqd, ktimers or an interrupt thread, which serve softirqs as their own work.
    serves_softirqs: bool,
}

impl Cpus {
    /// No CPUs yet; `existing` is their number, if known.
    pub fn new(existing: Option<u32>) -> Cpus {
        Cpus {
            list: Vec::new(),
            idle: IdleWatch::new(),
            unheard: existing.map(|cpus| (0..cpus).map(CpuId).collect()).filter(|set: &CpuSet| !set.is_empty()),
            unrecorded: UnrecordedCpus::default(),
            all_silent: AllSilent::default(),
        }
    }

    /// Adds the next CPU.
    pub fn add(&mut self) {
        self.list.push(Cpu::new(CpuId(self.list.len() as u32)));
    }

    /// Number of CPUs named by events.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// The CPU, if an event has named it.
    #[inline]
    pub fn get(&self, cpu: CpuId) -> Option<&Cpu> {
        self.list.get(cpu.index())
    }

    /// All CPUs named by events.
    pub fn iter(&self) -> impl Iterator<Item = &Cpu> {
        self.list.iter()
    }

    /// The CPU becomes idle. The caller updates its occupancy log.
    #[inline]
    pub fn enter_idle(&mut self, index: usize, now: Time) {
        let cpu = &mut self.list[index];
        let holder = &mut cpu.holder;
        (holder.current, holder.tid) = (Current::Idle, Some(Tid::IDLE));
        (holder.actor, holder.serves_softirqs) = (ActorId::IDLE, false);
        self.idle.enter(cpu.id, now);
    }

    /// The CPU is no longer idle.
    #[inline]
    pub fn leave_idle(&mut self, index: usize, now: Time) {
        self.idle.leave(self.list[index].id, now);
    }

    /// Watches the idle time of these CPUs, if there is room.
    pub fn watch_idle(&mut self, cpus: CpuSet, now: Time) -> Option<IdleGroup> {
        self.idle.group_of(cpus, now)
    }

    /// How long some CPU of the set has been idle, up to now.
    #[inline]
    pub fn idle_total(&self, group: IdleGroup, now: Time) -> Nanos {
        self.idle.total(group, now)
    }

    /// Whether the CPU is in the set.
    pub fn is_in(&self, group: IdleGroup, cpu: CpuId) -> bool {
        self.idle.has(group, cpu)
    }

    /// The highest CPU of the set that has issued no event.
    #[inline]
    pub fn unheard_in(&self, group: IdleGroup) -> Option<CpuId> {
        self.idle.last_of(group, self.unheard.as_ref()?)
    }

    /// Whether any CPU has issued no event.
    #[inline]
    pub fn has_unheard(&self) -> bool {
        self.unheard.is_some()
    }

    /// Silences of all CPUs in which a tick was due.
    pub fn all_silent(&self) -> &AllSilent {
        &self.all_silent
    }
}

impl Index<usize> for Cpus {
    type Output = Cpu;

    #[inline(always)]
    fn index(&self, index: usize) -> &Cpu {
        &self.list[index]
    }
}

impl IndexMut<usize> for Cpus {
    #[inline(always)]
    fn index_mut(&mut self, index: usize) -> &mut Cpu {
        &mut self.list[index]
    }
}

impl Cpu {
    fn new(id: CpuId) -> Cpu {
        let holder = Holder {
            current: Current::Unknown,
            tid: None,
            actor: ActorId::UNKNOWN,
            run_start: Time(0),
            serves_softirqs: false,
        };
        Cpu { id, holder, occupancy: Occupancy::new(), presence: Presence::default(), ticks: TickWatch::default() }
    }

    #[inline(always)]
    pub fn id(&self) -> CpuId {
        self.id
    }

    /// Its index in all per-CPU tables.
    #[inline(always)]
    pub fn index(&self) -> usize {
        self.id.index()
    }

    /// The current task or idle, if known.
    #[inline(always)]
    pub fn current(&self) -> Current {
        self.holder.current
    }

    /// The current task, if there is one.
    #[inline(always)]
    pub fn task(&self) -> Option<TaskKey> {
        match self.holder.current {
            Current::Task(key) => Some(key),
            Current::Idle | Current::Unknown => None,
        }
    }

    /// The tid of the current task, if known.
    #[inline(always)]
    pub fn tid(&self) -> Option<Tid> {
        self.holder.tid
    }

    /// The actor of the current task, as of the switch to it.
    #[inline(always)]
    pub fn holder(&self) -> ActorId {
        self.holder.actor
    }

    /// The start of the current task's run.
    #[inline(always)]
    pub fn run_start(&self) -> Time {
        self.holder.run_start
    }

    /// Whether the current task serves softirqs as its own work.
    #[inline(always)]
    pub fn serves_softirqs(&self) -> bool {
        self.holder.serves_softirqs
    }

    /// The task becomes current. The caller updates the occupancy log.
    #[inline(always)]
    pub fn give_to(&mut self, key: TaskKey, task: &Task, now: Time) {
        self.holder = Holder {
            current: Current::Task(key),
            tid: Some(task.tid),
            actor: task.actor,
            run_start: now,
            serves_softirqs: task.kernel_thread.is_some_and(KernelThread::serves_softirqs),
        };
    }

    /// The current task becomes unknown.
    #[inline(always)]
    pub fn let_go(&mut self) {
        let holder = &mut self.holder;
        (holder.current, holder.tid) = (Current::Unknown, None);
        (holder.actor, holder.serves_softirqs) = (ActorId::UNKNOWN, false);
    }

    /// Corrects the current task's actor in the occupancy log from a past time on.
    pub fn correct_holder(&mut self, was: ActorId, is: ActorId, from: Time, now: Time) {
        self.occupancy.rename(was, is, from, now);
        self.holder.actor = is;
    }

    /// The occupancy log.
    #[inline(always)]
    pub fn occupancy(&self) -> &Occupancy {
        &self.occupancy
    }

    /// A mark of this moment in the occupancy log.
    #[inline]
    pub fn mark(&mut self, now: Time) -> Mark {
        self.occupancy.mark(now)
    }

    /// Drops the occupancy log up to now.
    pub fn forget_occupants(&mut self, now: Time) {
        self.occupancy.forget(now);
    }

    /// Logs a change of the current task, or of the handler that runs on top of it.
    pub fn settle(&mut self, now: Time, handler: Option<ActorId>) {
        self.occupancy.set(now, handler.unwrap_or(self.holder.actor));
    }

    /// Logs that a switch made the current task run: no handler is in progress then.
    #[inline(always)]
    pub fn settle_switch(&mut self, now: Time) {
        self.occupancy.switch(now, self.holder.actor);
    }

    /// What its events, and those of other CPUs, show of its presence.
    #[inline(always)]
    pub fn presence(&self) -> &Presence {
        &self.presence
    }

    #[inline(always)]
    pub fn presence_mut(&mut self) -> &mut Presence {
        &mut self.presence
    }

    /// The CPU issues an event.
    #[inline(always)]
    pub fn note_event(&mut self, now: Time) {
        self.presence.note_issued();
        self.ticks.note_silence(self.presence.last_event(), now);
    }

    /// The kernel stops its tick.
    pub fn stop_tick(&mut self) {
        self.ticks.stop();
    }
}
