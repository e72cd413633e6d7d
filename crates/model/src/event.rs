use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Comm, CpuId, NameId, Prio, Tid, Time};

/// One scheduler event. One line of the cache, where lines have 64 bytes: events go from the core that reads to the one that
/// analyses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(align(64))]
pub struct Event {
    /// When, on the trace's clock.
    pub time: Time,
    /// The CPU that issued it.
    pub cpu: CpuId,
    /// Who was current there, and in what context.
    pub issuer: Issuer,
    /// What happened.
    pub kind: EventKind,
}

const _: () = assert!(size_of::<Event>() == 64);
// The last of them.
const _: () = assert!((Context::Unknown as u32) < 1 << Issuer::CONTEXT);

/// The task that was current where an event was issued, and what the CPU was doing for whom: a word.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Issuer(u32);

impl Issuer {
    /// Bits of the context.
    const CONTEXT: u32 = 3;
    /// No task has this id or a larger one: `PID_MAX_LIMIT` of a 64-bit kernel.
    const TID_LIMIT: u32 = 1 << 22;

    /// `current` is what the format says (`common_pid`). An id that no task can have counts as not said.
    #[inline(always)]
    pub const fn new(current: Option<Tid>, context: Context) -> Issuer {
        let tid = match current {
            Some(Tid(tid)) if tid < Issuer::TID_LIMIT => tid + 1,
            _ => 0,
        };
        Issuer(tid << Issuer::CONTEXT | context as u32)
    }

    /// The task that was current on the CPU, where the format says so. In interrupt context it is *not* the one who acts.
    #[inline(always)]
    pub fn current(self) -> Option<Tid> {
        (self.0 >> Issuer::CONTEXT).checked_sub(1).map(Tid)
    }

    /// What the CPU was doing for whom.
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

/// The context in which an event was issued.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Context {
    /// On behalf of the current task.
    Task,
    /// Serving a softirq on top of (or as) the current task.
    Softirq,
    /// In a hard interrupt handler.
    Hardirq,
    /// In a non-maskable interrupt.
    Nmi,
    /// The format does not say (text without the flags column).
    Unknown,
}

/// A task as a switch event names it, without padding: a switch has two.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(C, packed(2))]
pub struct TaskRef {
    tid: Tid,
    comm: Comm,
    prio: i16,
}

impl TaskRef {
    /// Stands for a priority that the format leaves out.
    const NO_PRIO: i16 = i16::MIN;

    /// A task with this id, with what name and priority it had then: a name may be unknown, and a priority left out. (No
    /// kernel's priority is beyond 140; what a damaged file says beyond 16 bits is taken for the nearest that they can say.)
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

    /// Its name then; may be unknown.
    #[inline(always)]
    pub const fn comm(&self) -> &Comm {
        &self.comm
    }

    /// Its priority then; `None` where the format leaves it out.
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

/// The state in which the previous task left the CPU, decoded by the file's own table of bits.
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
    /// Something else, or not recorded.
    Unknown,
}

impl PrevState {
    /// Whether the task stayed runnable: an involuntary switch.
    pub fn is_runnable(self) -> bool {
        matches!(self, PrevState::Runnable | PrevState::Preempted)
    }
}

/// A request to a block device, as its events name it: by where it begins.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct BlockRequest {
    /// The device, as the recorder writes its number: comparable within one recording.
    pub device: u64,
    /// Its first sector, of 512 bytes. 0 for what has none: flushes, and commands that are passed through.
    pub sector: u64,
    /// How many sectors; 0 for the same.
    pub sectors: u32,
}

/// What an event says. Field names follow the kernel's trace events.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EventKind {
    /// `sched_switch`.
    Switch {
        /// Who leaves the CPU.
        prev: TaskRef,
        /// How.
        prev_state: PrevState,
        /// Who gets it.
        next: TaskRef,
    },
    /// `sched_waking`: issued by the waker. `target_cpu` is the wakee's *previous* CPU.
    Waking {
        /// The wakee.
        task: TaskRef,
        /// Its previous CPU.
        target_cpu: CpuId,
    },
    /// `sched_wakeup`: the wakee is on the runqueue of `target_cpu`; may be issued by that CPU in an interrupt.
    Wakeup {
        /// The wakee.
        task: TaskRef,
        /// Where it is queued.
        target_cpu: CpuId,
    },
    /// `sched_wakeup_new`: a new task is on the runqueue of `target_cpu`.
    WakeupNew {
        /// The new task.
        task: TaskRef,
        /// Where it is queued.
        target_cpu: CpuId,
    },
    /// `sched_migrate_task`.
    Migrate {
        /// Who moves.
        task: TaskRef,
        /// From.
        orig_cpu: CpuId,
        /// To.
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
    /// `sched_process_exec`: `tid` has a new program.
    Exec {
        /// The thread after the exec.
        tid: Tid,
        /// Its new name: the last part of the program's path. Unknown if that is none that the kernel gives.
        comm: Comm,
    },
    /// `task_rename`: from now on a task has another name.
    Rename {
        /// Whose; that of the current task if the format does not say it (6.16 and later).
        tid: Option<Tid>,
        /// The new name.
        comm: Comm,
    },
    /// `sched_pi_setprio`: a task is lifted for the sake of one that waits for its lock, or let down again.
    SetPrio {
        /// Whose priority it is.
        tid: Tid,
        /// The new one.
        prio: Prio,
    },
    /// `sched_process_exit`.
    Exit {
        /// Who ends.
        tid: Tid,
        /// Its name.
        comm: Comm,
    },
    /// `irq_handler_entry`.
    IrqEntry {
        /// The interrupt's number.
        irq: u32,
        /// The handler's name (`virtio0-input.0`), where known.
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
        /// Its function, where the format or the file's symbols name it.
        function: Option<NameId>,
        /// Its workqueue (5.12 and later name it).
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
    /// `block_rq_insert`: a request was put into its device's queue.
    BlockInsert(BlockRequest),
    /// `block_rq_issue`: a request was given to the device's driver.
    BlockIssue(BlockRequest),
    /// `block_rq_complete`: a request is done, or the part of it that begins with this sector.
    BlockComplete(BlockRequest),
    /// A call stack shows a worker inside `process_one_work`: the function it called. For recordings without
    /// workqueue events.
    WorkOnStack {
        /// The worker.
        tid: Tid,
        /// The work function.
        function: NameId,
    },
    /// The tick's timer expired (`hrtimer_expire_entry` of a function of the tick, `local_timer_entry`, the interrupt of ARM's timer).
    Tick {
        /// The last event of this CPU that is of a type that is not read, but for those of the millisecond before the tick.
        heard: Option<Time>,
    },
    /// The CPU stopped its tick (`tick_stop` with success): from now on none is expected.
    TickStop,
    /// Before this moment events of this CPU are missing; nothing known about the CPU's current task holds any longer.
    Lost {
        /// How many, where the recorder counted them.
        count: Option<u64>,
    },
}

impl EventKind {
    /// Which type of event this is; `None` for [`EventKind::Lost`] and [`EventKind::WorkOnStack`], which no kernel
    /// issues, and for what is known of ticks.
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
            // What shows a tick is of several types.
            EventKind::Tick { .. } | EventKind::TickStop => return None,
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
            /// All of them.
            pub const ALL: &'static [EventType] = &[$(EventType::$variant),*];

            /// The event's directory below tracefs `events/` (`sched`, `irq`, …).
            pub fn system(self) -> &'static str {
                match self { $(EventType::$variant => $system),* }
            }

            /// The event's name (`sched_switch`).
            pub fn name(self) -> &'static str {
                match self { $(EventType::$variant => $name),* }
            }

            /// The type of the event called `name`; names are unique over the systems listed here.
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
    /// Whether it only says at once what the next switch says, or is recorded on request alone: where it was not recorded, little
    /// is missing.
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
    /// The set with `event` in it.
    #[must_use]
    pub fn with(self, event: EventType) -> EventSet {
        EventSet(self.0 | 1 << event as u32)
    }

    /// Puts `event` in.
    pub fn insert(&mut self, event: EventType) {
        *self = self.with(event);
    }

    /// Whether `event` is in it.
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
