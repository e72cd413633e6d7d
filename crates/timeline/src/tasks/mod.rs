//! Living tasks: the state of each, and the parts of it that run queues, waits and wake chains maintain.

pub(crate) mod actor;
pub(crate) mod nature;
pub(crate) mod tid_map;

use unstarve_model::{Comm, CpuId, NameId, Nanos, PrevState, Prio, Tid, Time};
use unstarve_sched::fairness::Account;
use unstarve_sched::{KernelThread, load_weight_of_prio};

use crate::cpus::idle::IdleGroup;
use crate::opt_time::OptTime;
use crate::tasks::tid_map::TidMap;
use crate::waits::Pending;
use crate::wake_graph::wake_chain::Debts;
use crate::{ActorId, Birth, Nature};

/// The slot of a living task. Slots of exited tasks are reused, and a reused pid is a new task.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TaskKey(pub(crate) u32);

impl TaskKey {
    /// The first slot.
    pub const FIRST: TaskKey = TaskKey(0);

    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// The identity of a task within a trace: a reused tid is another task.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Life(u64);

/// The state of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Unknown, not yet or no longer known.
    Unknown,
    /// Runs on this CPU.
    Running(CpuId),
    /// Runnable and waiting.
    Waiting,
    /// Sleeping, stopped or parked.
    Sleeping,
    /// Exited.
    Dead,
}

/// A living task. Its fields are ordered by cache lines of 64 bytes: first what every event of a task reads, then its run, its
/// sleep and its debts, its wait, and last what few events read.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub struct Task {
    /// Its current name.
    pub comm: Comm,
    /// Its current priority.
    pub prio: Prio,
    /// Its id.
    pub tid: Tid,
    /// Its current actor.
    pub actor: ActorId,
    /// The actor that it was last added to; unknown before that.
    pub(crate) joined: ActorId,
    /// What it is doing.
    pub state: State,
    pub(crate) account: Account,
    last_cpu: u32,
    /// Whether an event showed its priority.
    pub(crate) ranked: bool,
    /// Whether it has been seen on more than one CPU.
    pub moved: bool,
    pub(crate) pinned: bool,
    pub(crate) limited: Option<bool>,
    pub(crate) exited: bool,
    /// Whether it went to sleep in state `D`.
    pub(crate) sleeps_uninterruptibly: bool,
    /// Whether it is a kernel thread that went to sleep for lack of work.
    pub(crate) slept_without_work: bool,
    /// Whether it is known to be a kernel thread or a program, by more than its name.
    pub nature: Nature,

    pub(crate) run: RunState,

    /// When it went to sleep.
    pub(crate) sleep_start: OptTime,
    /// A wakeup that came while it was still running: the switch may still follow.
    pub(crate) early_wake: OptTime,
    /// The kernel thread that it is by name, unless it is known to be a program.
    pub kernel_thread: Option<KernelThread>,
    pub(crate) debts: Debts,

    pub(crate) pending: Option<Pending>,
    /// The set of CPUs that it may use, if known.
    pub(crate) affinity: Option<IdleGroup>,
    /// Number of its deferred waits: its slot is not reused before they are reported.
    pub(crate) pins: u32,

    pub(crate) work_start: Option<WorkStart>,
    /// A worker's current work item: function and workqueue.
    pub work: Option<(Option<NameId>, Option<NameId>)>,
    /// Its own load weight, if it does not follow from its priority.
    pub(crate) own_weight: Option<u32>,
    pub(crate) life: Life,
    /// Its creator, if seen.
    pub birth: Option<Box<Birth>>,
}

/// No CPU has this number.
const NOWHERE: u32 = u32::MAX;

/// The run in progress.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RunState {
    pub start: Time,
    /// When it got the CPU: before `start` if its name or priority changed since…
    pub since: Time,
    /// …and its CPU time before `start`, without interrupts.
    pub before: Nanos,
    pub start_seen: bool,
    pub irq: Nanos,
    pub softirq: Nanos,
    /// The task that it preempted when it got the CPU, if by wakeup preemption.
    pub victim: Option<TaskKey>,
    /// When it last executed another program.
    pub exec: OptTime,
}

impl RunState {
    /// How long it has had the CPU, without interrupts.
    pub fn stayed(&self, now: Time) -> Nanos {
        self.before + now.since(self.start).saturating_sub(self.irq + self.softirq)
    }
}

/// The work item in progress.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WorkStart {
    pub work: u64,
    pub start: Time,
    pub queued: Option<Time>,
    pub preemptions: u32,
}

/// The living tasks.
#[derive(Debug, Default)]
pub struct Tasks {
    slots: Vec<Task>,
    free: Vec<TaskKey>,
    by_tid: TidMap,
    lives: u64,
}

impl Tasks {
    /// Number of tasks on a busy host with some hundred CPUs. Their memory is reserved at the start (16 MiB), because growing a
    /// list copies it. Untouched pages take no memory, but count where reserved memory is limited.
    const ROOM: usize = 1 << 15;

    /// The task; keys are valid as long as the task lives.
    #[inline(always)]
    pub fn get(&self, key: TaskKey) -> &Task {
        &self.slots[key.index()]
    }

    #[inline(always)]
    pub(crate) fn get_mut(&mut self, key: TaskKey) -> &mut Task {
        &mut self.slots[key.index()]
    }

    /// The living task with this tid.
    #[inline]
    pub fn find(&self, tid: Tid) -> Option<TaskKey> {
        self.by_tid.get(tid)
    }

    /// All used slots; slots of exited tasks may be among them until they are reused.
    pub fn iter(&self) -> impl Iterator<Item = (TaskKey, &Task)> {
        self.slots.iter().enumerate().map(|(index, task)| (TaskKey(index as u32), task))
    }

    /// Number of slots.
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn pending_mut(&mut self) -> impl Iterator<Item = &mut Pending> {
        self.slots.iter_mut().filter_map(|task| task.pending.as_mut())
    }

    pub(crate) fn insert(&mut self, mut task: Task) -> TaskKey {
        self.lives += 1;
        task.life = Life(self.lives);
        let tid = task.tid;
        let key = match self.free.pop() {
            Some(key) => {
                self.slots[key.index()] = task;
                key
            }
            None => {
                if self.slots.capacity() == 0 {
                    self.slots.reserve_exact(Tasks::ROOM);
                }
                self.slots.push(task);
                TaskKey((self.slots.len() - 1) as u32)
            }
        };
        self.by_tid.insert(tid, key);
        key
    }

    /// Frees the slot of an exited task.
    pub(crate) fn remove(&mut self, key: TaskKey) {
        let task = &mut self.slots[key.index()];
        task.state = State::Dead;
        let tid = task.tid;
        if self.by_tid.get(tid) == Some(key) {
            self.by_tid.remove(tid);
        }
        if task.pins == 0 {
            self.free.push(key);
        }
    }

    /// Keeps the task's slot, also after its exit, until it is unpinned.
    pub(crate) fn pin(&mut self, key: TaskKey) {
        self.slots[key.index()].pins += 1;
    }

    pub(crate) fn unpin(&mut self, key: TaskKey) {
        let task = &mut self.slots[key.index()];
        task.pins = task.pins.saturating_sub(1);
        if task.pins == 0 && task.state == State::Dead {
            self.free.push(key);
        }
    }
}

/// Nice 0.
const REAL_TIME_COUNTS_AS: u32 = 1024;

impl Task {
    /// The tid of the task whose settings it has.
    pub fn settings_of(&self) -> Tid {
        self.birth.as_ref().map_or(self.tid, |birth| birth.settings_of)
    }

    /// Since when, and for which CPU, it has been waiting, if it is.
    pub fn waiting_since(&self) -> Option<(Time, CpuId)> {
        self.pending.as_ref().map(|pending| (pending.start(), pending.cpu()))
    }

    /// Whether a cgroup quota may keep it off an idle CPU, if known. Kernel threads are in the root group, which has no quota.
    #[inline]
    pub fn may_be_throttled(&self) -> Option<bool> {
        if self.kernel_thread.is_some() { Some(false) } else { self.limited }
    }

    pub(crate) fn new(tid: Tid, comm: Comm, prio: Prio, actor: ActorId, nature: Nature) -> Task {
        Task {
            comm,
            prio,
            tid,
            actor,
            joined: ActorId::UNKNOWN,
            state: State::Unknown,
            account: Account::default(),
            last_cpu: NOWHERE,
            ranked: false,
            moved: false,
            pinned: false,
            limited: None,
            exited: false,
            sleeps_uninterruptibly: false,
            slept_without_work: false,
            nature,
            run: RunState::default(),
            sleep_start: OptTime::NONE,
            early_wake: OptTime::NONE,
            kernel_thread: nature.kernel_thread(&comm),
            debts: Debts::default(),
            pending: None,
            affinity: None,
            pins: 0,
            work_start: None,
            work: None,
            own_weight: None,
            life: Life::default(),
            birth: None,
        }
    }

    /// The CPU that it last ran on or was queued on.
    #[inline]
    pub fn last_cpu(&self) -> Option<CpuId> {
        (self.last_cpu != NOWHERE).then_some(CpuId(self.last_cpu))
    }

    /// It runs or is queued on this CPU from now on, and has moved if it was on another one before.
    #[inline(always)]
    pub(crate) fn put_on(&mut self, cpu: CpuId) {
        self.moved |= self.last_cpu != NOWHERE && self.last_cpu != cpu.0;
        self.last_cpu = cpu.0;
    }

    /// The CPU that it is moved to, by an event of that move.
    pub(crate) fn note_cpu(&mut self, cpu: CpuId) {
        self.last_cpu = cpu.0;
    }

    /// It sleeps from now on, in this state.
    #[inline(always)]
    pub(crate) fn fall_asleep(&mut self, now: Time, state: PrevState) {
        self.state = State::Sleeping;
        self.sleep_start = OptTime::some(now);
        self.sleeps_uninterruptibly = state == PrevState::Uninterruptible;
        // Workers of a pool and other kernel threads wait for work in TASK_IDLE.
        self.slept_without_work = state == PrevState::Idle && self.work_start.is_none();
    }

    /// Whether it has this name and priority, and an event has shown the priority.
    #[inline(always)]
    pub(crate) fn is_named(&self, comm: &Comm, prio: Option<Prio>) -> bool {
        *comm == self.comm && prio == Some(self.prio) && self.ranked
    }

    /// Whether no event has shown its state.
    pub(crate) fn is_unseen(&self) -> bool {
        let assumed = self.pending.as_ref().is_some_and(Pending::is_assumed);
        assumed || self.state == State::Unknown && self.last_cpu == NOWHERE
    }

    /// The weight with which it competes in its class; real-time tasks count as nice 0.
    #[inline]
    pub(crate) fn weight(&self) -> u32 {
        match load_weight_of_prio(self.prio) {
            Some(weight) => self.own_weight.unwrap_or(weight),
            None => REAL_TIME_COUNTS_AS,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_pointer_width = "64")]
    fn what_every_event_looks_at_is_in_one_line_of_a_cache() {
        let lines = |offset: usize| (offset / LINE, offset % LINE);
        assert_eq!(lines(std::mem::offset_of!(Task, run)), (1, 0));
        assert_eq!(lines(std::mem::offset_of!(Task, sleep_start)), (2, 0));
        assert_eq!(lines(std::mem::offset_of!(Task, pending)), (3, 0));
        assert!(size_of::<Option<Pending>>() <= 3 * LINE, "{}", size_of::<Option<Pending>>());
        assert_eq!(size_of::<Task>(), 8 * LINE);
    }

    #[cfg(target_pointer_width = "64")]
    const LINE: usize = 64;
}
