//! The results of a timeline, and the trait that receives them.

use unstarve_model::{BlockRequest, CpuId, CpuSet, NameId, Names, Nanos, Prio, ProvedBy, Tid, Time};
use unstarve_sched::Rule;

use crate::settings::BoxedSettings;
use crate::{ActorId, ActorKind, Actors, Settings, TaskKey, Tasks};

/// Tables for lookups in callbacks. Task keys are valid during the callback; actors and names stay valid.
#[derive(Debug)]
pub struct World {
    /// Living tasks.
    pub tasks: Tasks,
    /// Occupants.
    pub actors: Actors,
    /// Long names.
    pub names: Names,
    /// Number of CPUs: as the source declares, or the highest seen plus one.
    pub cpus: u32,
    /// CPUs that were idle from the trace's start to their own first event; complete at the end of the trace.
    pub idle_until_heard: CpuSet,
    /// The first event's time.
    pub start: Time,
    /// The last event's time so far.
    pub now: Time,
    pub(crate) settings: BoxedSettings,
}

impl World {
    /// What is known of the machine besides its events.
    pub fn settings(&self) -> &dyn Settings {
        &*self.settings.0
    }

    /// An actor's name for messages: a task's, `idle`, `irq 33 virtio0`, `local_timer interrupt`, `softirq NET_RX`, `unknown`, `others`, `stopped CPU`.
    /// Names of interrupts come from the trace unchanged: escape them for a terminal.
    pub fn name(&self, id: ActorId) -> String {
        match self.actors.get(id).kind {
            ActorKind::Unknown => "unknown".to_owned(),
            ActorKind::Idle => "idle".to_owned(),
            ActorKind::Others => "others".to_owned(),
            ActorKind::Stopped => "stopped CPU".to_owned(),
            ActorKind::Irq { irq, name: Some(name) } => format!("irq {irq} {}", self.names.get(name)),
            ActorKind::Irq { irq, name: None } => format!("irq {irq}"),
            ActorKind::Vector(vector) => format!("{} interrupt", vector.name()),
            ActorKind::Softirq { vec } => match SOFTIRQS.get(usize::from(vec)) {
                Some(name) => format!("softirq {name}"),
                None => format!("softirq {vec}"),
            },
            ActorKind::Tasks { comm, .. } => comm.to_string(),
        }
    }
}

/// Names of the softirq vectors. Source: `softirq_to_name` in `kernel/softirq.c`, the same from 4.12 to 7.2.
const SOFTIRQS: [&str; 10] =
    ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"];

/// Receives the timeline's results, in the order in which they become known.
#[allow(unused_variables, reason = "defaults ignore everything")]
pub trait Sink {
    /// A wait has ended, or the trace has. Mostly at once, so that `wait.end` is `world.now`. A wait that contains a part of a
    /// run still in progress is reported at the end of that run: after its task ran, and perhaps after later waits of the task.
    /// A sink that needs time order must sort.
    fn wait(&mut self, world: &World, wait: &Wait<'_>) {}
    /// At the end of the trace: a wait of which nothing is proved. It is not passed to [`Sink::wait`].
    fn unproved(&mut self, world: &World, wait: &Unproved) {}
    /// A task left a CPU, or the trace ended.
    fn run(&mut self, world: &World, run: &Run) {}
    /// A task was woken (without spurious wakeups).
    fn wake(&mut self, world: &World, wake: &Wake<'_>) {}
    /// A task was moved to another CPU.
    fn migration(&mut self, world: &World, migration: &Migration) {}
    /// An interrupt handler or a softirq ended.
    fn interrupt(&mut self, world: &World, interrupt: &Interrupt) {}
    /// A work item ended.
    fn work_item(&mut self, world: &World, item: &WorkItem) {}
    /// Work passed on, other than by a wakeup.
    fn step(&mut self, world: &World, step: &Step) {}
}

/// Two sinks in one pass: each receives everything, the first one first.
#[derive(Debug)]
pub struct Both<'a, A, B>(pub &'a mut A, pub &'a mut B);

impl<A: Sink, B: Sink> Sink for Both<'_, A, B> {
    fn wait(&mut self, world: &World, wait: &Wait<'_>) {
        self.0.wait(world, wait);
        self.1.wait(world, wait);
    }
    fn unproved(&mut self, world: &World, wait: &Unproved) {
        self.0.unproved(world, wait);
        self.1.unproved(world, wait);
    }
    fn run(&mut self, world: &World, run: &Run) {
        self.0.run(world, run);
        self.1.run(world, run);
    }
    fn wake(&mut self, world: &World, wake: &Wake<'_>) {
        self.0.wake(world, wake);
        self.1.wake(world, wake);
    }
    fn migration(&mut self, world: &World, migration: &Migration) {
        self.0.migration(world, migration);
        self.1.migration(world, migration);
    }
    fn interrupt(&mut self, world: &World, interrupt: &Interrupt) {
        self.0.interrupt(world, interrupt);
        self.1.interrupt(world, interrupt);
    }
    fn work_item(&mut self, world: &World, item: &WorkItem) {
        self.0.work_item(world, item);
        self.1.work_item(world, item);
    }
    fn step(&mut self, world: &World, step: &Step) {
        self.0.step(world, step);
        self.1.step(world, step);
    }
}

/// The time from becoming runnable to running. Never includes sleeping.
#[derive(Clone, Copy, Debug)]
pub struct Wait<'a> {
    /// The waiting task.
    pub task: TaskKey,
    /// Its actor during the wait.
    pub actor: ActorId,
    /// How the task became runnable.
    pub kind: WaitKind,
    /// The CPU on which the wait ended.
    pub cpu: CpuId,
    /// When the task became runnable.
    pub start: Time,
    /// For a wakeup wait, when the task was put on a run queue (`sched_wakeup`), if that was recorded. The kernel's `run_delay`
    /// counts from here.
    pub queued: Option<Time>,
    /// When the task got the CPU.
    pub end: Time,
    /// How it ended.
    pub ended: WaitEnd,
    /// What had the CPU that the task waited for: one piece for each pair of occupant and rule, longest first. They add up
    /// exactly to `end - start`.
    pub pieces: &'a [Piece],
    /// How long during the wait another CPU that the task may use was idle; `None` if its affinity is unknown.
    pub idle_elsewhere: Option<Nanos>,
    /// A CPU that the task may use and that had issued no event when the wait ended. If it was idle
    /// ([`World::idle_until_heard`] shows that at the end), an idle CPU was available during the whole wait.
    pub beside_unheard: Option<CpuId>,
    /// Whether it lasted from before the trace's start to beyond its end, and how that is known.
    pub throughout: Option<Throughout>,
    /// How often the task was migrated while waiting.
    pub migrations: u32,
    /// Tasks waiting on the same CPU at its end, including this one.
    pub queue_length: u32,
    /// The CPU time that an ideal fair share would have given the task during the wait.
    pub owed: Nanos,
    /// For preemption waits: the preempting actor.
    pub preempted_by: Option<ActorId>,
    /// How much is proved of a wait that still lasted when the recording ended. `None` while recording.
    pub open: Option<OpenWait>,
}

/// The length of a wait without an end in the recording. `proved <= length <= possible`; the length is the sum of
/// [`Wait::pieces`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpenWait {
    /// From its start to where its CPU is proved to have been recorded.
    pub proved: Nanos,
    /// From its start to the end of the recording, the most that can be shown.
    pub possible: Nanos,
    /// Whether its CPU stayed with the holder until then.
    pub end: CpuEnd,
    /// The last known occupant of its CPU.
    pub holder: ActorId,
    /// The rule by which the holder has the CPU.
    pub rule: Rule,
}

impl OpenWait {
    /// The whole wait, with its main occupant as the holder.
    pub(crate) fn whole(wait: &Wait<'_>, end: CpuEnd) -> OpenWait {
        let length = wait.length();
        let (holder, rule) =
            wait.pieces.first().map_or((ActorId::UNKNOWN, Rule::Unknown), |piece| (piece.occupant, piece.rule));
        OpenWait { proved: length, possible: length, end, holder, rule }
    }
}

/// What is known of a CPU from its last event to the end of the recording.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum CpuEnd {
    /// It continued what it did at its last event: a switch would be in the recording.
    Proved(ProvedBy),
    /// It is not proved that a switch would have been recorded, but nothing contradicts that it continued: waits count in full.
    Believed,
    /// It is not proved, and other tasks would have run (real-time throttling, the fair server, a higher priority): waits count
    /// up to its last event.
    Doubted,
    /// Its buffer was full, so its silence proves nothing: waits count up to its last event.
    BufferFull,
    /// It did something else: its last task turned up elsewhere, or another task was seen there.
    Refuted,
}

impl CpuEnd {
    /// The word in machine-readable output.
    pub fn word(self) -> &'static str {
        match self {
            CpuEnd::Proved(_) => "proved",
            CpuEnd::Believed => "believed",
            CpuEnd::Doubted => "doubted",
            CpuEnd::BufferFull => "buffer-full",
            CpuEnd::Refuted => "refuted",
        }
    }
}

/// A wait of a task that was put on a CPU's queue after the last known event of that CPU.
#[derive(Clone, Copy, Debug)]
pub struct Unproved {
    /// The task that may have waited.
    pub task: TaskKey,
    /// Its actor.
    pub actor: ActorId,
    /// The CPU.
    pub cpu: CpuId,
    /// Its start.
    pub start: Time,
    /// Its maximum length and occupant; nothing of it is proved.
    pub open: OpenWait,
}

/// A CPU that is silent at the end of the recording.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SilentCpu {
    /// The CPU.
    pub cpu: CpuId,
    /// Its last event.
    pub last_event: Time,
    /// The time up to which it is proved to have been recorded.
    pub proved: Time,
    /// What is known of it from then on.
    pub end: CpuEnd,
    /// Its last known occupant.
    pub holder: ActorId,
}

impl Wait<'_> {
    /// The length of the wait.
    pub fn length(&self) -> Nanos {
        self.end.since(self.start)
    }

    /// The rule with the largest sum of pieces.
    pub fn main_rule(&self) -> Rule {
        let mut main = (Nanos::ZERO, Rule::Unknown);
        for piece in self.pieces {
            let same = self.pieces.iter().filter(|other| other.rule == piece.rule);
            let together: Nanos = same.map(|other| other.length).sum();
            if together > main.0 {
                main = (together, piece.rule);
            }
        }
        main.1
    }
}

/// How a wait that fills the whole trace is known.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Throughout {
    /// No event names the task, so it may have slept instead. Its only CPU was used by competitors with so much weight that it
    /// could not have run.
    Guessed,
    /// It was seen runnable at both ends, without having run in between.
    Seen,
}

/// How a wait began.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum WaitKind {
    /// The task was woken.
    Wakeup,
    /// The task was created.
    New,
    /// The task lost the CPU while runnable.
    Preemption,
}

/// How a wait ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum WaitEnd {
    /// The task got the CPU.
    Ran,
    /// The trace ended first.
    TraceEnd,
}

/// A part of a wait: how long one occupant had the CPU under one rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// The occupant.
    pub occupant: ActorId,
    /// Why it had the CPU.
    pub rule: Rule,
    /// The total length.
    pub length: Nanos,
}

/// A run: one uninterrupted time on a CPU.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// The task.
    pub task: TaskKey,
    /// Its actor.
    pub actor: ActorId,
    /// The CPU.
    pub cpu: CpuId,
    /// Start.
    pub start: Time,
    /// End.
    pub end: Time,
    /// Time in hard interrupts during the run.
    pub irq: Nanos,
    /// Time in softirqs during the run (not counted for ksoftirqd).
    pub softirq: Nanos,
    /// The CPU time that an ideal fair share would have given the task during the run; it got `end - start`.
    pub ideal: Nanos,
    /// How it ended.
    pub ended: RunEnd,
    /// Whether the start was seen; `false` for the first run on each CPU and after lost events.
    pub start_seen: bool,
}

impl Run {
    /// The length, including interrupts.
    pub fn length(&self) -> Nanos {
        self.end.since(self.start)
    }
}

/// How a run ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RunEnd {
    /// The task went to sleep: a voluntary switch.
    Slept,
    /// The task exited.
    Died,
    /// The task stayed runnable: an involuntary switch.
    Preempted {
        /// The actor that got the CPU.
        by: ActorId,
        /// Whether that actor had just been woken (see [`Rule::WakeupPreemption`]).
        by_wakeup: bool,
    },
    /// The trace ended, or events are missing.
    Cut,
}

/// The issuer of a wakeup.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waker {
    /// A task.
    Task(TaskKey),
    /// An interrupt or softirq, of this kind if known; the interrupted task is not the waker.
    Interrupt(Option<ActorId>),
    /// Unknown.
    Unknown,
}

/// A wakeup.
#[derive(Clone, Copy, Debug)]
pub struct Wake<'a> {
    /// The woken task.
    pub wakee: TaskKey,
    /// The waker.
    pub waker: Waker,
    /// The current task, if events do not show whether it is the waker or was interrupted.
    pub suspect: Option<TaskKey>,
    /// The task that was current on the CPU, as the event itself has it; in an interrupt it is the one that was interrupted.
    pub current: Option<Tid>,
    /// When.
    pub time: Time,
    /// The CPU that issued it.
    pub cpu: CpuId,
    /// How long the wakee had slept, if that was seen.
    pub slept: Option<Nanos>,
    /// What waits of other tasks cost the wakee while it slept.
    pub prices: &'a [Price],
}

/// A wait, during the wakee's sleep, of the task that would wake it (directly or through others).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Price {
    /// The waiting actor.
    pub victim: ActorId,
    /// Its overlap with the wakee's sleep.
    pub length: Nanos,
    /// The part for which events show the wakeups; for the rest they are inferred.
    pub certain: Nanos,
    /// The part that reached the wakee through a block device: a request was issued or served late.
    pub through_device: Nanos,
}

/// A migration to another CPU.
#[derive(Clone, Copy, Debug)]
pub struct Migration {
    /// The task.
    pub task: TaskKey,
    /// When.
    pub time: Time,
    /// The old CPU.
    pub from: CpuId,
    /// The new CPU.
    pub to: CpuId,
}

/// A run of a hard interrupt handler or softirq on a CPU.
#[derive(Clone, Copy, Debug)]
pub struct Interrupt {
    /// The handler's actor.
    pub actor: ActorId,
    /// The CPU.
    pub cpu: CpuId,
    /// Start.
    pub start: Time,
    /// End.
    pub end: Time,
    /// The interrupted task.
    pub task: Option<TaskKey>,
    /// For a softirq: whether a hard interrupt handler, which may have raised it, had just ended.
    pub follows_handler: bool,
    /// For a softirq: whether it is the interrupted task's own work, such as a send over loopback. It is if the task raised it;
    /// where the recording lacks `softirq_raise`, if no handler had just ended.
    pub is_own_work: bool,
    /// Whether that is known by `softirq_raise`.
    pub raise_is_recorded: bool,
}

/// A completed work item.
#[derive(Clone, Copy, Debug)]
pub struct WorkItem {
    /// The worker.
    pub worker: TaskKey,
    /// The function that it called.
    pub function: Option<NameId>,
    /// The workqueue, if its queueing was seen and names it.
    pub workqueue: Option<NameId>,
    /// When it was queued, if that was seen.
    pub queued: Option<Time>,
    /// When the worker began.
    pub start: Time,
    /// When it ended.
    pub end: Time,
    /// How often the worker was preempted in between.
    pub preemptions: u32,
}

/// A step in which work passes on, other than by a wakeup.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// When.
    pub time: Time,
    /// The CPU.
    pub cpu: CpuId,
    /// The task that did it; `None` if an interrupt did, or if that is unknown.
    pub by: Option<TaskKey>,
    /// What.
    pub kind: StepKind,
}

/// A timer that is armed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimerStart {
    /// Its address.
    pub timer: u64,
    /// When it is due at the earliest, in ns on its own clock.
    pub due: i64,
    /// Whether a length was asked for, and not a time.
    pub is_relative: bool,
}

/// What happened in a [`Step`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StepKind {
    /// A work item, by its address, was queued.
    WorkQueued(u64),
    /// A worker began it.
    WorkStarted(u64),
    /// A request was passed to a block device's driver.
    RequestIssued(BlockRequest),
    /// A block device completed a request, or its part that begins with this sector.
    RequestCompleted(BlockRequest),
    /// A task was created, and is runnable from now on.
    Created(TaskKey),
    /// A timer was armed.
    TimerStarted(TimerStart),
    /// A timer's function is called.
    TimerExpired {
        /// Its address.
        timer: u64,
        /// The time on its own clock, in ns.
        now: i64,
    },
    /// The sleep of a thread ends that asked for a number of jiffies.
    TimeoutExpired,
    /// A lock's owner gets the priority of who waits for it, or its own again.
    PrioInherited {
        /// The owner.
        task: TaskKey,
        /// Its priority before.
        from: Prio,
        /// Its priority now.
        to: Prio,
    },
    /// A task was moved to another cgroup.
    Attached {
        /// The task.
        task: TaskKey,
        /// The id of the hierarchy; 0 for that of cgroup v2.
        hierarchy: u32,
        /// The path of its new group, if known.
        group: Option<NameId>,
    },
}
