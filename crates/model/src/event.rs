use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Comm, CpuId, NameId, Prio, Tid, Time};

/// One scheduler event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event {
    /// When, on the trace's clock.
    pub time: Time,
    /// The CPU that issued it.
    pub cpu: CpuId,
    /// The task that was current on that CPU (`common_pid`), where the format says so. In interrupt context it is *not*
    /// the one who acts.
    pub current: Option<Tid>,
    /// What the CPU was doing for whom.
    pub context: Context,
    /// What happened.
    pub kind: EventKind,
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

/// A task as a switch event names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TaskRef {
    /// Its id.
    pub tid: Tid,
    /// Its name then; may be unknown.
    pub comm: Comm,
    /// Its priority then; `None` where the format leaves it out.
    pub prio: Option<Prio>,
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
    /// A call stack shows a worker inside `process_one_work`: the function it called. For recordings without
    /// workqueue events.
    WorkOnStack {
        /// The worker.
        tid: Tid,
        /// The work function.
        function: NameId,
    },
    /// Before this moment events of this CPU are missing; nothing known about the CPU's current task holds any longer.
    Lost {
        /// How many, where the recorder counted them.
        count: Option<u64>,
    },
}

impl EventKind {
    /// Which type of event this is; `None` for [`EventKind::Lost`] and [`EventKind::WorkOnStack`], which no kernel
    /// issues.
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
}

impl EventType {
    /// Whether it only says at once what the next switch says: where it was not recorded, little is missing.
    pub fn only_refines(self) -> bool {
        matches!(self, EventType::Rename | EventType::SetPrio)
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
