//! Scheduler events.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Comm, CpuId, NameId, Prio, Tid, Time};

/// One scheduler event. It fills one cache line of 64 bytes, because events move from the core that reads to the core
/// that analyses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(align(64))]
pub struct Event {
    /// Its time, on the trace clock.
    pub time: Time,
    /// The CPU that recorded it.
    pub cpu: CpuId,
    /// The current task and the context.
    pub issuer: Issuer,
    /// What happened.
    pub kind: EventKind,
}

const _: () = assert!(size_of::<Event>() == 64);
// `Unknown` has the largest value.
const _: () = assert!((Context::Unknown as u32) < 1 << Issuer::CONTEXT);

/// The task that was current when an event was recorded, and the context, packed into a word.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Issuer(u32);

impl Issuer {
    /// Number of bits for the context.
    const CONTEXT: u32 = 3;
    /// Task ids are below this: `PID_MAX_LIMIT` of a 64-bit kernel.
    const TID_LIMIT: u32 = 1 << 22;

    /// `current` is the id in the record (`common_pid`). An id that no task can have is treated as unknown.
    #[inline(always)]
    pub const fn new(current: Option<Tid>, context: Context) -> Issuer {
        let tid = match current {
            Some(Tid(tid)) if tid < Issuer::TID_LIMIT => tid + 1,
            _ => 0,
        };
        Issuer(tid << Issuer::CONTEXT | context as u32)
    }

    /// The task that was current on the CPU, if the format says so. In interrupt context it is *not* the task that
    /// acts.
    #[inline(always)]
    pub fn current(self) -> Option<Tid> {
        (self.0 >> Issuer::CONTEXT).checked_sub(1).map(Tid)
    }

    /// The context.
    #[inline(always)]
    pub fn context(self) -> Context {
        const ALL: [Context; 1 << Issuer::CONTEXT] = {
            let mut all = [Context::Unknown; 1 << Issuer::CONTEXT];
            all[Context::Task as usize] = Context::Task;
            all[Context::Softirq as usize] = Context::Softirq;
            all[Context::Hardirq as usize] = Context::Hardirq;
            all[Context::Nmi as usize] = Context::Nmi;
            all
        };
        ALL[(self.0 & ((1 << Issuer::CONTEXT) - 1)) as usize]
    }
}

impl fmt::Debug for Issuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Issuer").field(&self.current()).field(&self.context()).finish()
    }
}

/// The context in which an event was recorded.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Context {
    /// Task context: the current task acts.
    Task,
    /// A softirq, on top of the current task or in ksoftirqd.
    Softirq,
    /// In a hard interrupt handler.
    Hardirq,
    /// In a non-maskable interrupt.
    Nmi,
    /// Unknown (text without the flags column).
    Unknown,
}

/// A task as a switch event names it. Packed, because a switch has two.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(C, packed(2))]
pub struct TaskRef {
    tid: Tid,
    comm: Comm,
    prio: i16,
}

impl TaskRef {
    /// Stands for a missing priority.
    const NO_PRIO: i16 = i16::MIN;

    /// A task with its name and priority at that moment; a name may be unknown and a priority missing. (The kernel's
    /// priorities end at 140; a value in a damaged file that exceeds 16 bits becomes the nearest that fits.)
    #[inline(always)]
    pub const fn new(tid: Tid, comm: Comm, prio: Option<Prio>) -> TaskRef {
        let prio = match prio {
            Some(Prio(prio)) if prio > i16::MAX as i32 => i16::MAX,
            Some(Prio(prio)) if prio <= TaskRef::NO_PRIO as i32 => TaskRef::NO_PRIO + 1,
            Some(Prio(prio)) => prio as i16,
            None => TaskRef::NO_PRIO,
        };
        TaskRef { tid, comm, prio }
    }

    /// Its id.
    #[inline(always)]
    pub const fn tid(&self) -> Tid {
        self.tid
    }

    /// Its name at that moment; may be unknown.
    #[inline(always)]
    pub const fn comm(&self) -> &Comm {
        &self.comm
    }

    /// Its priority at that moment; `None` if the format does not contain it.
    #[inline(always)]
    pub fn prio(&self) -> Option<Prio> {
        (self.prio != TaskRef::NO_PRIO).then_some(Prio(i32::from(self.prio)))
    }
}

impl fmt::Debug for TaskRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TaskRef { tid, comm, .. } = *self;
        f.debug_struct("TaskRef").field("tid", &tid).field("comm", &comm).field("prio", &self.prio()).finish()
    }
}

/// The state of a task that left the CPU, decoded by the file's own table of bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PrevState {
    /// `R`: still runnable. Text output drops the `+`, so this may be a preemption or a yield.
    Runnable,
    /// `R+`: still runnable, preempted.
    Preempted,
    /// `S`: interruptible sleep.
    Sleeping,
    /// `D`: uninterruptible sleep.
    Uninterruptible,
    /// `I`: an idle kernel thread (uninterruptible, not counted as load).
    Idle,
    /// `T` or `t`: stopped or traced.
    Stopped,
    /// `P`: parked kernel thread.
    Parked,
    /// `X`, `Z`: dead.
    Dead,
    /// Another state, or not recorded.
    Unknown,
}

impl PrevState {
    /// Whether the task stayed runnable: an involuntary switch, or a yield.
    pub fn is_runnable(self) -> bool {
        matches!(self, PrevState::Runnable | PrevState::Preempted)
    }
}

/// A request to a block device, identified by its device and first sector.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct BlockRequest {
    /// The device number as recorded; comparable within one recording.
    pub device: u64,
    /// Its first 512-byte sector; 0 for requests without one (flushes, passthrough commands).
    pub sector: u64,
    /// The number of sectors; 0 for requests without any.
    pub sectors: u32,
}

/// An interrupt of a CPU's own, by its name in `irq_vectors` (`arch/x86/include/asm/trace/irq_vectors.h`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Vector {
    /// The timer of the CPU: ticks, and the timers of threads.
    LocalTimer,
    /// Another CPU asks for a scheduling decision.
    Reschedule,
    /// Another CPU has functions called here.
    CallFunction,
    /// Another CPU has one function called here.
    CallFunctionSingle,
}

impl Vector {
    /// All of them.
    pub const ALL: [Vector; 4] =
        [Vector::LocalTimer, Vector::Reschedule, Vector::CallFunction, Vector::CallFunctionSingle];

    /// Its name in `irq_vectors`, without `_entry` and `_exit`.
    pub fn name(self) -> &'static str {
        match self {
            Vector::LocalTimer => "local_timer",
            Vector::Reschedule => "reschedule",
            Vector::CallFunction => "call_function",
            Vector::CallFunctionSingle => "call_function_single",
        }
    }

    /// That of this name.
    pub fn from_name(name: &[u8]) -> Option<Vector> {
        Vector::ALL.into_iter().find(|vector| vector.name().as_bytes() == name)
    }
}

/// The content of an event. Field names follow the kernel's trace events.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EventKind {
    /// `sched_switch`.
    Switch {
        /// The task that leaves the CPU.
        prev: TaskRef,
        /// The state in which it leaves.
        prev_state: PrevState,
        /// The task that gets the CPU.
        next: TaskRef,
    },
    /// `sched_waking`: recorded by the waker. `target_cpu` is the wakee's *previous* CPU.
    Waking {
        /// The wakee.
        task: TaskRef,
        /// Its previous CPU.
        target_cpu: CpuId,
    },
    /// `sched_wakeup`: the wakee is on the run queue of `target_cpu`. May be recorded by that CPU in an interrupt.
    Wakeup {
        /// The wakee.
        task: TaskRef,
        /// The CPU of its run queue.
        target_cpu: CpuId,
    },
    /// `sched_wakeup_new`: a new task is on the run queue of `target_cpu`.
    WakeupNew {
        /// The new task.
        task: TaskRef,
        /// The CPU of its run queue.
        target_cpu: CpuId,
    },
    /// `sched_migrate_task`.
    Migrate {
        /// The task that moves.
        task: TaskRef,
        /// Its old CPU.
        orig_cpu: CpuId,
        /// Its new CPU.
        dest_cpu: CpuId,
    },
    /// `sched_process_fork`.
    Fork {
        /// The parent thread.
        parent: Tid,
        /// The new thread.
        child: Tid,
        /// The new thread's name (its parent's).
        child_comm: Comm,
    },
    /// `sched_process_exec`: `tid` runs a new program.
    Exec {
        /// The thread after the exec.
        tid: Tid,
        /// Its new name: the last component of the program's path. Unknown if the kernel names it in another way.
        comm: Comm,
    },
    /// `task_rename`: a task changes its name.
    Rename {
        /// The task; the current one if the format does not say (6.16 and later).
        tid: Option<Tid>,
        /// The new name.
        comm: Comm,
    },
    /// `sched_pi_setprio`: priority inheritance raises a lock owner's priority for a waiter, or restores it.
    SetPrio {
        /// The lock owner.
        tid: Tid,
        /// Its new priority.
        prio: Prio,
    },
    /// `sched_process_exit`.
    Exit {
        /// The task that exits.
        tid: Tid,
        /// Its name.
        comm: Comm,
    },
    /// `irq_handler_entry`.
    IrqEntry {
        /// The interrupt's number.
        irq: u32,
        /// The handler's name (`virtio0-input.0`), if known.
        name: Option<NameId>,
    },
    /// `irq_handler_exit`.
    IrqExit {
        /// The interrupt's number.
        irq: u32,
    },
    /// `softirq_entry`.
    SoftirqEntry {
        /// The vector, 0 (HI) to 9 (RCU).
        vec: u8,
    },
    /// `softirq_exit`.
    SoftirqExit {
        /// The vector.
        vec: u8,
    },
    /// `softirq_raise`.
    SoftirqRaise {
        /// The vector.
        vec: u8,
    },
    /// `workqueue_queue_work`.
    WorkQueued {
        /// The work item's address.
        work: u64,
        /// Its function, if the format or the file's symbols name it.
        function: Option<NameId>,
        /// Its workqueue (named by 5.12 and later).
        workqueue: Option<NameId>,
    },
    /// `workqueue_execute_start`, issued by the worker.
    WorkStart {
        /// The work item's address.
        work: u64,
        /// Its function.
        function: Option<NameId>,
    },
    /// `workqueue_execute_end`, issued by the worker.
    WorkEnd {
        /// The work item's address.
        work: u64,
        /// Its function (5.8 and later).
        function: Option<NameId>,
    },
    /// `block_rq_insert`: a request is put into its device's queue.
    BlockInsert(BlockRequest),
    /// `block_rq_issue`: a request is passed to the device driver.
    BlockIssue(BlockRequest),
    /// `block_rq_complete`: a request is done, or its part that begins with this sector.
    BlockComplete(BlockRequest),
    /// A call stack that shows a worker inside `process_one_work`: the function it called. For recordings without
    /// workqueue events.
    WorkOnStack {
        /// The worker.
        tid: Tid,
        /// The work function.
        function: NameId,
    },
    /// The tick's timer expired (`hrtimer_expire_entry` of a tick function, `local_timer_entry`, or the interrupt of
    /// ARM's timer).
    Tick {
        /// The CPU's last undecoded event, other than those in the millisecond before the tick.
        heard: Option<Time>,
    },
    /// The CPU stopped its tick (`tick_stop` with success), so no tick is expected.
    TickStop,
    /// A CPU's own interrupt begins (`irq_vectors` of x86). No handler event shows it.
    VectorEntry {
        /// Which.
        vector: Vector,
    },
    /// It ends.
    VectorExit {
        /// Which.
        vector: Vector,
    },
    /// `hrtimer_start`: the issuer arms a timer. Those of ticks are left out.
    TimerStart {
        /// The timer's address.
        timer: u64,
        /// When it is due at the earliest, in ns on the timer's own clock.
        due: i64,
        /// Whether the issuer asked for a length, and not for a time.
        is_relative: bool,
    },
    /// `hrtimer_expire_entry`: a timer's function is called. Those of ticks are [`EventKind::Tick`].
    TimerExpire {
        /// The timer's address.
        timer: u64,
        /// The time on the timer's own clock.
        now: i64,
    },
    /// `timer_expire_entry` of `process_timeout`: the sleep of a thread ends that asked for a number of jiffies
    /// (`schedule_timeout` in `kernel/time/`).
    TimeoutExpire,
    /// `cgroup_attach_task`: a task is moved to another cgroup.
    Attach {
        /// The task.
        tid: Tid,
        /// The id of the hierarchy in which it is moved; 0 for that of cgroup v2.
        hierarchy: u32,
        /// The path of its new group below the hierarchy's root, if the recording has it.
        group: Option<NameId>,
    },
    /// Events of this CPU before this moment are missing. Nothing known about its current task remains valid.
    Lost {
        /// How many, if the recorder counted them.
        count: Option<u64>,
    },
}

impl EventKind {
    /// Whether it is about the CPU's tick.
    pub fn is_of_tick(&self) -> bool {
        matches!(self, EventKind::Tick { .. } | EventKind::TickStop)
    }

    /// The event type; `None` for [`EventKind::Lost`] and [`EventKind::WorkOnStack`], which no kernel records, for
    /// ticks, and for events that only predictions need.
    pub fn event_type(&self) -> Option<EventType> {
        Some(match self {
            EventKind::Switch { .. } => EventType::Switch,
            EventKind::Waking { .. } => EventType::Waking,
            EventKind::Wakeup { .. } => EventType::Wakeup,
            EventKind::WakeupNew { .. } => EventType::WakeupNew,
            EventKind::Migrate { .. } => EventType::Migrate,
            EventKind::Fork { .. } => EventType::Fork,
            EventKind::Exec { .. } => EventType::Exec,
            EventKind::Exit { .. } => EventType::Exit,
            EventKind::Rename { .. } => EventType::Rename,
            EventKind::SetPrio { .. } => EventType::SetPrio,
            EventKind::IrqEntry { .. } => EventType::IrqEntry,
            EventKind::IrqExit { .. } => EventType::IrqExit,
            EventKind::SoftirqEntry { .. } => EventType::SoftirqEntry,
            EventKind::SoftirqExit { .. } => EventType::SoftirqExit,
            EventKind::SoftirqRaise { .. } => EventType::SoftirqRaise,
            EventKind::WorkQueued { .. } => EventType::WorkQueued,
            EventKind::WorkStart { .. } => EventType::WorkStart,
            EventKind::WorkEnd { .. } => EventType::WorkEnd,
            EventKind::BlockInsert(_) => EventType::BlockInsert,
            EventKind::BlockIssue(_) => EventType::BlockIssue,
            EventKind::BlockComplete(_) => EventType::BlockComplete,
            // Several event types show a tick.
            EventKind::Tick { .. } | EventKind::TickStop => return None,
            // They are recorded on request, and their absence is no loss.
            EventKind::VectorEntry { .. }
            | EventKind::VectorExit { .. }
            | EventKind::TimerStart { .. }
            | EventKind::TimerExpire { .. }
            | EventKind::TimeoutExpire
            | EventKind::Attach { .. } => return None,
            EventKind::WorkOnStack { .. } | EventKind::Lost { .. } => return None,
        })
    }
}

macro_rules! event_types {
    ($($variant:ident $system:literal $name:literal)*) => {
        /// The kernel trace events that unstarve reads.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        #[allow(missing_docs, reason = "each variant is the kernel event of the same name")]
        pub enum EventType { $($variant),* }

        impl EventType {
            /// All types.
            pub const ALL: &'static [EventType] = &[$(EventType::$variant),*];

            /// Its directory in tracefs `events/` (`sched`, `irq`, …).
            pub fn system(self) -> &'static str {
                match self { $(EventType::$variant => $system),* }
            }

            /// The event's name (`sched_switch`).
            pub fn name(self) -> &'static str {
                match self { $(EventType::$variant => $name),* }
            }

            /// The type of the event `name`; names are unique across systems.
            pub fn from_name(name: &str) -> Option<EventType> {
                match name { $($name => Some(EventType::$variant),)* _ => None }
            }
        }
    };
}

event_types! {
    Switch "sched" "sched_switch"
    Waking "sched" "sched_waking"
    Wakeup "sched" "sched_wakeup"
    WakeupNew "sched" "sched_wakeup_new"
    Migrate "sched" "sched_migrate_task"
    Fork "sched" "sched_process_fork"
    Exec "sched" "sched_process_exec"
    Exit "sched" "sched_process_exit"
    IrqEntry "irq" "irq_handler_entry"
    IrqExit "irq" "irq_handler_exit"
    SoftirqEntry "irq" "softirq_entry"
    SoftirqExit "irq" "softirq_exit"
    SoftirqRaise "irq" "softirq_raise"
    WorkQueued "workqueue" "workqueue_queue_work"
    WorkStart "workqueue" "workqueue_execute_start"
    WorkEnd "workqueue" "workqueue_execute_end"
    Rename "task" "task_rename"
    SetPrio "sched" "sched_pi_setprio"
    BlockInsert "block" "block_rq_insert"
    BlockIssue "block" "block_rq_issue"
    BlockComplete "block" "block_rq_complete"
}

impl EventType {
    /// Whether a recording without this event is nearly complete: it only announces what the next switch shows, or is
    /// recorded on request only.
    pub fn only_refines(self) -> bool {
        matches!(self, EventType::Rename | EventType::SetPrio) || self.is_of_block_layer()
    }

    /// Whether it is about a request to a block device.
    pub fn is_of_block_layer(self) -> bool {
        matches!(self, EventType::BlockInsert | EventType::BlockIssue | EventType::BlockComplete)
    }
}

impl fmt::Display for EventType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A set of [`EventType`]s.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EventSet(u32);

impl EventSet {
    /// The set with `event` added.
    #[must_use]
    pub fn with(self, event: EventType) -> EventSet {
        EventSet(self.0 | 1 << event as u32)
    }

    /// Adds `event`.
    pub fn insert(&mut self, event: EventType) {
        *self = self.with(event);
    }

    /// Whether the set contains `event`.
    pub fn contains(self, event: EventType) -> bool {
        self.0 & 1 << event as u32 != 0
    }
}

impl FromIterator<EventType> for EventSet {
    fn from_iter<I: IntoIterator<Item = EventType>>(events: I) -> EventSet {
        events.into_iter().fold(EventSet::default(), EventSet::with)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONTEXTS: [Context; 5] = [Context::Task, Context::Softirq, Context::Hardirq, Context::Nmi, Context::Unknown];

    #[test]
    fn an_issuer_keeps_every_id_that_a_task_can_have_and_every_context() {
        for context in CONTEXTS {
            for current in [None, Some(Tid::IDLE), Some(Tid(1)), Some(Tid(4_194_303))] {
                let issuer = Issuer::new(current, context);
                assert_eq!((issuer.current(), issuer.context()), (current, context));
            }
            for impossible in [4_194_304, (1 << 29) - 1, 1 << 29, u32::MAX] {
                let issuer = Issuer::new(Some(Tid(impossible)), context);
                assert_eq!((issuer.current(), issuer.context()), (None, context));
            }
        }
    }

    #[test]
    fn a_task_keeps_every_priority_of_a_kernel_and_that_there_is_none() {
        let prio =
            |prio: Option<i32>| TaskRef::new(Tid(7), Comm::from("fio"), prio.map(Prio)).prio().map(|prio| prio.0);
        assert!((-1..=140).all(|number| prio(Some(number)) == Some(number)));
        assert_eq!(prio(None), None);
        let damaged = [i32::MIN, -32_769, -32_768, -32_767, 32_767, 32_768, i32::MAX].map(|number| prio(Some(number)));
        assert_eq!(damaged, [-32_767, -32_767, -32_767, -32_767, 32_767, 32_767, 32_767].map(Some));
    }

    #[test]
    fn tasks_are_the_same_if_all_of_them_is() {
        let task = TaskRef::new(Tid(7), Comm::from("fio"), Some(Prio::NORMAL));
        assert_eq!((task.tid(), *task.comm(), task.prio()), (Tid(7), Comm::from("fio"), Some(Prio::NORMAL)));
        assert_eq!(task, TaskRef::new(Tid(7), Comm::from("fio"), Some(Prio::NORMAL)));
        for other in [
            TaskRef::new(Tid(8), Comm::from("fio"), Some(Prio::NORMAL)),
            TaskRef::new(Tid(7), Comm::from("fi"), Some(Prio::NORMAL)),
            TaskRef::new(Tid(7), Comm::from("fio"), None),
        ] {
            assert_ne!(task, other);
        }
    }
}
