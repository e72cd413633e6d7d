//! What a timeline finds, and the trait that receives it.

use unstarve_model::{CpuId, CpuSet, NameId, Names, Nanos, ProvedBy, Time};
use unstarve_sched::Rule;

use crate::settings::BoxedSettings;
use crate::{ActorId, ActorKind, Actors, Settings, TaskKey, Tasks};

/// What every callback may look things up in. Keys of tasks are valid during the callback; actors and names stay.
#[derive(Debug)]
pub struct World {
    /// Living tasks.
    pub tasks: Tasks,
    /// Occupants.
    pub actors: Actors,
    /// Long names.
    pub names: Names,
    /// CPUs: as many as the source says, or the highest seen and one.
    pub cpus: u32,
    /// CPUs that were idle from the trace's start to their own first event; complete when the trace is over.
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

    /// An actor's name for people: a task's, `idle`, `irq 33 virtio0`, `softirq NET_RX`, `unknown`, `others`, `stopped CPU`. Names of
    /// interrupts are as the trace has them: escape what goes to a terminal.
    pub fn name(&self, id: ActorId) -> String {
        match self.actors.get(id).kind {
            ActorKind::Unknown => "unknown".to_owned(),
            ActorKind::Idle => "idle".to_owned(),
            ActorKind::Others => "others".to_owned(),
            ActorKind::Stopped => "stopped CPU".to_owned(),
            ActorKind::Irq { irq, name: Some(name) } => format!("irq {irq} {}", self.names.get(name)),
            ActorKind::Irq { irq, name: None } => format!("irq {irq}"),
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

/// Receives what the timeline finds, in the order in which it becomes known.
#[allow(unused_variables, reason = "defaults ignore everything")]
pub trait Sink {
    /// A wait is over, or the trace is.
    ///
    /// Mostly at once, so that `wait.end` is `world.now`. A wait of which a part is a stay that lasts is reported when that stay is
    /// over: after its task ran, and perhaps after later waits of the task. A sink that needs the order of time has to sort.
    fn wait(&mut self, world: &World, wait: &Wait<'_>) {}
    /// The trace is over, and of a wait that may still last nothing is proved: it is not among [`Sink::wait`]'s.
    fn unproved(&mut self, world: &World, wait: &Unproved) {}
    /// A task left a CPU, or the trace is over.
    fn run(&mut self, world: &World, run: &Run) {}
    /// A task was woken (spurious wakeups are left out).
    fn wake(&mut self, world: &World, wake: &Wake<'_>) {}
    /// A task was moved to another CPU.
    fn migration(&mut self, world: &World, migration: &Migration) {}
    /// An interrupt handler or a softirq ended.
    fn interrupt(&mut self, world: &World, interrupt: &Interrupt) {}
    /// A work item ended.
    fn work_item(&mut self, world: &World, item: &WorkItem) {}
}

/// Two sinks in one pass: each gets everything, the first one first.
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
}

/// The time from becoming runnable to running. Never includes blocking.
#[derive(Clone, Copy, Debug)]
pub struct Wait<'a> {
    /// Who waited.
    pub task: TaskKey,
    /// Its actor during the wait.
    pub actor: ActorId,
    /// How it became runnable.
    pub kind: WaitKind,
    /// The CPU on which it ended.
    pub cpu: CpuId,
    /// When it became runnable.
    pub start: Time,
    /// When it was put on a runqueue (`sched_wakeup`), for wakeup waits where that was recorded. The kernel's own
    /// `run_delay` counts from here.
    pub queued: Option<Time>,
    /// When it got the CPU.
    pub end: Time,
    /// How it ended.
    pub ended: WaitEnd,
    /// What had the CPU it waited for, one piece for each pair of occupant and rule, longest first. They add up to
    /// `end - start` exactly.
    pub pieces: &'a [Piece],
    /// How long during the wait another CPU was idle that the task may use; `None` if its affinity is not known.
    pub idle_elsewhere: Option<Nanos>,
    /// A CPU that the task may use and that had issued no event when the wait ended. If it was idle, which
    /// [`World::idle_until_heard`] has at the end, the task waited beside an idle CPU all the time.
    pub beside_unheard: Option<CpuId>,
    /// Whether it lasted from before the trace's start to beyond its end, and how that is known.
    pub throughout: Option<Throughout>,
    /// How often it was moved while waiting.
    pub migrations: u32,
    /// Tasks that waited on the same CPU when it ended, this one included.
    pub queue_length: u32,
    /// What an ideal equal-share processor would have given the task during the wait.
    pub owed: Nanos,
    /// For preemption waits: who took the CPU.
    pub preempted_by: Option<ActorId>,
    /// Of a wait that still lasted when the recording ended: how much of it is proved. `None` while it is being recorded.
    pub open: Option<OpenWait>,
}

/// How long a wait lasted that had no end when the recording ended. `proved <= length <= possible`, where the length is what
/// [`Wait::pieces`] add up to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpenWait {
    /// From its beginning as far as the recording is proved to show its CPU.
    pub proved: Nanos,
    /// From its beginning to the recording's end. Nothing shows more.
    pub possible: Nanos,
    /// Whether its CPU stayed with the holder until then.
    pub end: CpuEnd,
    /// Who or what had the CPU at the last that is known of it.
    pub holder: ActorId,
    /// By which rule the holder has it.
    pub rule: Rule,
}

impl OpenWait {
    /// All of the wait, behind what had most of it.
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
    /// It did what it was last seen doing: had it switched, the switch would be in the recording.
    Proved(ProvedBy),
    /// Nothing proves that it would have been recorded, and nothing contradicts that it did the same all the time: waits are
    /// counted in full.
    Believed,
    /// Nothing proves it, and others would have had a turn (real-time throttling, the fair server, a higher priority): waits are
    /// counted up to its last event.
    Doubted,
    /// Its buffer was full, so that its silence says nothing: the same.
    BufferFull,
    /// It did something else: what it was last seen doing turned up elsewhere, or another task was seen there.
    Refuted,
}

impl CpuEnd {
    /// For programs.
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

/// A wait of a task that was put on the queue of a CPU after the last event that is known of that CPU.
#[derive(Clone, Copy, Debug)]
pub struct Unproved {
    /// Who may have waited.
    pub task: TaskKey,
    /// Its actor.
    pub actor: ActorId,
    /// Where.
    pub cpu: CpuId,
    /// Since when.
    pub start: Time,
    /// How long at the most, and behind whom; nothing of it is proved.
    pub open: OpenWait,
}

/// A CPU that is silent at the end of the recording.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SilentCpu {
    /// Which.
    pub cpu: CpuId,
    /// Its last event.
    pub last_event: Time,
    /// Up to when it is proved that it would have been recorded.
    pub proved: Time,
    /// What is known of it from then on.
    pub end: CpuEnd,
    /// Who or what had it at the last that is known of it.
    pub holder: ActorId,
}

impl Wait<'_> {
    /// How long it lasted.
    pub fn length(&self) -> Nanos {
        self.end.since(self.start)
    }

    /// The rule under which most of it passed, all its pieces of one rule together.
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
    /// No event names the task: it may have slept instead. Rivals that weigh so much had its only CPU that it could not
    /// have had a turn.
    Guessed,
    /// It was seen to be runnable at both ends, and not to have run in between.
    Seen,
}

/// How a wait began.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum WaitKind {
    /// It was woken.
    Wakeup,
    /// It was created.
    New,
    /// It lost the CPU while runnable.
    Preemption,
}

/// How a wait ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum WaitEnd {
    /// It got the CPU.
    Ran,
    /// The trace ended first.
    TraceEnd,
}

/// Part of a wait: how long one occupant had the CPU under one rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// Who or what had the CPU.
    pub occupant: ActorId,
    /// Why.
    pub rule: Rule,
    /// How long, in all.
    pub length: Nanos,
}

/// One uninterrupted stay on a CPU.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// Who ran.
    pub task: TaskKey,
    /// Its actor.
    pub actor: ActorId,
    /// Where.
    pub cpu: CpuId,
    /// From.
    pub start: Time,
    /// To.
    pub end: Time,
    /// Hard interrupt time inside.
    pub irq: Nanos,
    /// Softirq time inside (not counted for ksoftirqd).
    pub softirq: Nanos,
    /// What an ideal equal-share processor would have given the task during the run; it got `end - start`.
    pub ideal: Nanos,
    /// How it ended.
    pub ended: RunEnd,
    /// Whether the start was seen; `false` for the first run of each CPU and after lost events.
    pub start_seen: bool,
}

impl Run {
    /// How long it lasted, interrupts included.
    pub fn length(&self) -> Nanos {
        self.end.since(self.start)
    }
}

/// How a run ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RunEnd {
    /// The task went to sleep: a voluntary switch.
    Slept,
    /// It ended.
    Died,
    /// It stayed runnable: an involuntary switch.
    Preempted {
        /// Who got the CPU.
        by: ActorId,
        /// Whether that one had only just been woken (see [`Rule::WakeupPreemption`]).
        by_wakeup: bool,
    },
    /// The trace ended, or events are missing.
    Cut,
}

/// Who issued a wakeup.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waker {
    /// A task.
    Task(TaskKey),
    /// An interrupt or softirq, of this kind where it is known; the task it interrupted has nothing to do with it.
    Interrupt(Option<ActorId>),
    /// Not known.
    Unknown,
}

/// A wakeup.
#[derive(Clone, Copy, Debug)]
pub struct Wake<'a> {
    /// Who was woken.
    pub wakee: TaskKey,
    /// By whom.
    pub waker: Waker,
    /// Who was current, where events do not say whether it is the waker or was interrupted.
    pub suspect: Option<TaskKey>,
    /// When.
    pub time: Time,
    /// The CPU that issued it.
    pub cpu: CpuId,
    /// How long the wakee had slept, where that was seen.
    pub slept: Option<Nanos>,
    /// What others' waits cost the wakee while it slept.
    pub prices: &'a [Price],
}

/// While the wakee slept, the one who would wake it (directly or through others) waited.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Price {
    /// Who waited.
    pub victim: ActorId,
    /// For how long of the wakee's sleep.
    pub length: Nanos,
    /// The part of it in which the events show who woke whom; of the rest it is inferred.
    pub certain: Nanos,
    /// The part of it that came to the wakee through a block device: a request was issued or served late.
    pub through_device: Nanos,
}

/// A move to another CPU.
#[derive(Clone, Copy, Debug)]
pub struct Migration {
    /// Who moved.
    pub task: TaskKey,
    /// When.
    pub time: Time,
    /// From.
    pub from: CpuId,
    /// To.
    pub to: CpuId,
}

/// A hard interrupt handler's or a softirq's stay on a CPU.
#[derive(Clone, Copy, Debug)]
pub struct Interrupt {
    /// Which.
    pub actor: ActorId,
    /// Where.
    pub cpu: CpuId,
    /// From.
    pub start: Time,
    /// To.
    pub end: Time,
    /// The task it was on top of.
    pub task: Option<TaskKey>,
    /// Of a softirq: whether the handler of a hard interrupt had just ended, which serves what it raised.
    pub follows_handler: bool,
}

/// A work item that a worker has done.
#[derive(Clone, Copy, Debug)]
pub struct WorkItem {
    /// The worker.
    pub worker: TaskKey,
    /// What it called.
    pub function: Option<NameId>,
    /// The workqueue, where its queueing was seen and names it.
    pub workqueue: Option<NameId>,
    /// When it was queued, if that was seen.
    pub queued: Option<Time>,
    /// When the worker began.
    pub start: Time,
    /// When it ended.
    pub end: Time,
    /// How often the worker lost the CPU while runnable in between.
    pub preemptions: u32,
}
