//! What one thread of a recording did, in order.

use std::collections::BTreeMap;

use unstarve_model::{Comm, CpuId, CpuSet, NameId, Nanos, Prio, Tid, Time, clean_bytes};
use unstarve_timeline::{Nature, Task};

use super::ThreadId;
use super::felt_log::Part;
use super::timers::Asked;
use super::tokens::{RequestId, TokenId};

/// A thread while it is collected.
#[derive(Clone, Debug)]
pub(super) struct Thread {
    pub tid: Tid,
    comm: Comm,
    /// Its priority, without one that it inherits.
    pub prio: Prio,
    /// How often that changed.
    prio_changes: u32,
    /// Whether it has a priority that it inherits.
    inherits: bool,
    /// Its CPU time with one.
    pub ran_inherited: Nanos,
    /// The cgroups into which it was moved, each with its CPU time there; the first entry is where it was before. (A move within a run
    /// counts for the whole run.)
    pub groups: Vec<(Option<NameId>, Nanos)>,
    pub is_kernel_thread: bool,
    /// The thread whose settings it has in the snapshot, if not its own.
    pub settings_of: Option<Tid>,
    /// The CPUs on which it was seen.
    pub seen_on: CpuSet,
    pub seen_first: Option<CpuId>,
    /// Whether it was created while recorded.
    pub is_born: bool,
    /// Its time on each of them.
    had: BTreeMap<CpuId, Nanos>,
    /// What it did, each with when it began.
    pub ops: Vec<(Time, RawOp)>,
    /// What it did for others, and which work it began, in the run that has not been reported yet.
    pub deeds: Vec<(Time, Deed)>,
    /// Interrupts that came in that run.
    lost: Vec<(Time, Time)>,
    state: State,
    /// CPU time since the last operation, with when it began.
    since_op: Option<(Time, Nanos)>,
    /// Up to where the run is counted.
    counted: Time,
    burst: Burst,
    pub ran: Nanos,
    pub waited: Nanos,
    /// Whether it runs, or waits for a CPU, when the recording ends.
    pub is_runnable_at_end: bool,
    pub died: Option<Time>,
    /// Whether it is a worker that executes an item.
    pub in_item: bool,
    pub last_wait: Option<Nanos>,
    /// The wait before each run from a wakeup to the next sleep, and the run's CPU time.
    pub after_waits: Vec<(Nanos, Nanos)>,
}

fn is_weaker(one: Prio, than: Prio) -> bool {
    one.0 > than.0
}

/// A thread that lives for less than this part of the recording is short-lived.
const SHORT_LIFE: f64 = 0.2;
/// The first time is when the recording learns its priority, the second when the program begins.
const AGAIN_AND_AGAIN: u32 = 3;
/// A thread with more of its time elsewhere moves.
const MOVES: f64 = 0.1;
/// A thread with less of a CPU than this may stay there by chance.
const MUCH: f64 = 0.2;
/// Groups that are kept of a thread.
const MAX_GROUPS: usize = 64;
/// What it may have been elsewhere.
const NEARLY_ALL: f64 = 0.98;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Nothing is known of it yet.
    Unheard,
    Awake,
    /// Its last operation is a sleep that has not ended.
    Asleep,
}

/// The time from getting the CPU after a sleep to the next sleep.
#[derive(Clone, Copy, Debug, Default)]
struct Burst {
    began: Option<Time>,
    was_preempted: bool,
    has_woken: bool,
}

/// An operation of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RawOp {
    Run(RawRun),
    Sleep(Sleep),
    Deed(Deed),
}

/// What a thread does within a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Deed {
    /// Wakes a thread.
    Wake(ThreadId),
    /// Queues a work item.
    Queue(TokenId),
    /// Passes a request to a device.
    Issue(RequestId),
    /// Begins a work item.
    Take(Queued),
}

/// How a work item was queued.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Queued {
    ByThread(TokenId),
    ByDevice(RequestId),
    /// By an interrupt that no request explains.
    At(Time),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RawRun {
    /// CPU time, without interrupts.
    pub cpu: Nanos,
    /// Time by the clock.
    pub passed: Nanos,
    /// Whether it is a whole burst: from a sleep to the next, without a wake in it.
    pub is_whole: bool,
    pub was_preempted: bool,
    /// Whether it lasts until a time, and not for an amount of work.
    pub is_by_clock: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Sleep {
    pub began: Time,
    pub ended: Time,
    /// Who ended it; `None`: it lasts to the end of the recording.
    pub by: Option<WokenBy>,
    /// Whether its length, and not its end, is what the thread asked for.
    pub is_length: bool,
    /// Whether it is that of a worker without work.
    pub is_idle: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum WokenBy {
    Thread(ThreadId),
    Device(RequestId),
    Timer(Asked),
    Interrupt,
    Unknown,
}

/// What a wake found.
pub(super) enum Woken {
    Slept,
    First,
    Awake,
}

impl Sleep {
    pub fn begun(at: Time, is_idle: bool) -> Sleep {
        Sleep { began: at, ended: at, by: None, is_length: false, is_idle }
    }

    pub fn ended_by(began: Time, ended: Time, by: WokenBy) -> Sleep {
        Sleep { began, ended, by: Some(by), is_length: false, is_idle: false }
    }

    pub fn length(&self) -> Nanos {
        self.ended.since(self.began)
    }
}

impl Thread {
    pub fn new(tid: Tid) -> Thread {
        Thread {
            tid,
            comm: Comm::default(),
            prio: Prio::NORMAL,
            prio_changes: 0,
            inherits: false,
            ran_inherited: Nanos::ZERO,
            groups: vec![(None, Nanos::ZERO)],
            is_kernel_thread: false,
            settings_of: None,
            seen_on: CpuSet::default(),
            seen_first: None,
            is_born: false,
            had: BTreeMap::new(),
            ops: Vec::new(),
            deeds: Vec::new(),
            in_item: false,
            lost: Vec::new(),
            state: State::Unheard,
            since_op: None,
            counted: Time(0),
            burst: Burst::default(),
            ran: Nanos::ZERO,
            waited: Nanos::ZERO,
            is_runnable_at_end: false,
            died: None,
            last_wait: None,
            after_waits: Vec::new(),
        }
    }

    /// What the timeline knows of it now.
    pub fn is_now(&mut self, task: &Task) {
        self.comm = task.comm;
        if !self.inherits {
            self.prio_changes += u32::from(self.prio != task.prio);
            self.prio = task.prio;
        }
        self.is_kernel_thread =
            task.nature == Nature::Kernel || task.nature == Nature::Unknown && task.kernel_thread.is_some();
        self.settings_of = task.birth.as_ref().map(|birth| birth.settings_of).or(self.settings_of);
    }

    /// A lock's owner has the priority of who waits for it, until it has its own again.
    pub fn changes_inherited(&mut self, from: Prio, to: Prio) {
        if !self.inherits && is_weaker(to, from) {
            // It had inherited a priority before the recording began.
            self.prio = to;
            return;
        }
        if !self.inherits {
            self.prio = from;
        }
        self.inherits = to != self.prio;
    }

    /// It is moved to another cgroup. One that is moved again and again stays in the last of those that are kept.
    pub fn is_moved(&mut self, group: Option<NameId>) {
        if group.is_some() && self.groups.len() < MAX_GROUPS {
            self.groups.push((group, Nanos::ZERO));
        }
    }

    /// It begins in the group in which its parent is.
    pub fn begins_in(&mut self, group: Option<NameId>) {
        if group.is_some() && self.groups.len() == 1 {
            self.groups[0].0 = group;
        }
    }

    /// The group in which it is now, if it was moved.
    pub fn group(&self) -> Option<NameId> {
        self.groups.last().and_then(|(group, _)| *group)
    }

    /// The group in which it had the most CPU time, if it was moved there, and its CPU time in others.
    pub fn main_group(&self) -> (Option<NameId>, Nanos) {
        let all: Nanos = self.groups.iter().map(|(_, ran)| *ran).sum();
        // Of equal ones the last: who is moved before it does anything is there for good.
        let most = self.groups.iter().max_by_key(|(_, ran)| *ran).copied();
        most.map_or((None, Nanos::ZERO), |(group, ran)| (group, all.saturating_sub(ran)))
    }

    /// Its time on CPUs other than these, and on all.
    pub fn outside(&self, cpus: &CpuSet) -> (Nanos, Nanos) {
        let on = |is_it: &dyn Fn(CpuId) -> bool| {
            self.had.iter().filter(|(cpu, _)| is_it(**cpu)).map(|(_, time)| *time).sum()
        };
        (on(&|cpu| !cpus.contains(cpu)), on(&|_| true))
    }

    pub fn comm(&self) -> String {
        clean_bytes(self.comm.as_bytes())
    }

    pub fn kernel_name(&self) -> &Comm {
        &self.comm
    }

    /// Whether it ran for a good part of its time on another CPU than its main one.
    pub fn moves(&self) -> bool {
        let all: Nanos = self.had.values().copied().sum();
        let most = self.had.values().copied().max().unwrap_or_default();
        all.saturating_sub(most).share_of(all) > MOVES
    }

    /// The CPU that it did not leave, although it had much to do: an affinity that was set later than the snapshot, or a scheduler
    /// that leaves it there.
    pub fn stays_on(&self, length: Nanos) -> Option<CpuId> {
        let all: Nanos = self.had.values().copied().sum();
        let (cpu, most) = self.had.iter().max_by_key(|(_, time)| **time)?;
        (all.share_of(length) >= MUCH && most.share_of(all) >= NEARLY_ALL).then_some(*cpu)
    }

    /// Whether it was gone again after a small part of the recording: a change of its number does not last.
    pub fn is_short_lived(&self, length: Nanos) -> bool {
        let first = self.ops.iter().map(|(at, op)| if let RawOp::Sleep(sleep) = op { sleep.ended } else { *at }).next();
        self.died.zip(first).is_some_and(|(died, first)| died.since(first).share_of(length) < SHORT_LIFE)
    }

    /// Whether its priority changed again and again: more often than programs change it when they begin.
    pub fn sets_itself(&self) -> bool {
        self.prio_changes >= AGAIN_AND_AGAIN
    }

    pub fn has_not_run(&self) -> bool {
        self.ran == Nanos::ZERO && self.since_op.is_none()
    }

    pub fn is_awake(&self) -> bool {
        self.state == State::Awake
    }

    pub fn sleeps(&self) -> bool {
        self.state == State::Asleep
    }

    pub fn wake(&mut self, at: Time, by: WokenBy) -> Woken {
        let before = std::mem::replace(&mut self.state, State::Awake);
        match (before, self.ops.last_mut()) {
            (State::Asleep, Some((_, RawOp::Sleep(sleep)))) => {
                (sleep.ended, sleep.by) = (at, Some(by));
                Woken::Slept
            }
            (State::Unheard, _) => Woken::First,
            _ => Woken::Awake,
        }
    }

    /// It had this CPU from `start` to `end`; what it did in between follows.
    pub fn has_cpu(&mut self, cpu: CpuId, start: Time, end: Time) {
        self.state = State::Awake;
        self.seen_on.insert(cpu);
        self.seen_first.get_or_insert(cpu);
        let had = self.had.entry(cpu).or_default();
        *had += end.since(start);
        self.counted = start;
        self.lost.retain(|(began, ended)| *ended > start && *began < end);
        // An interrupt within another one is reported first.
        self.lost.sort_unstable();
        self.burst.began.get_or_insert(start);
    }

    /// What it did up to `end`, in order.
    pub fn deeds_until(&mut self, end: Time) -> Vec<(Time, Deed)> {
        let later = self.deeds.partition_point(|(at, _)| *at <= end);
        self.deeds.drain(..later).collect()
    }

    /// Whether it sleeps for want of work.
    pub fn is_idle(&self) -> bool {
        matches!(self.ops.last(), Some((_, RawOp::Sleep(Sleep { by: None, is_idle: true, .. }))))
    }

    /// An interrupt took this part of its run.
    pub fn loses(&mut self, start: Time, end: Time) {
        self.lost.push((start, end));
    }

    /// It computed until `until`, with interrupts left out.
    pub fn runs_until(&mut self, until: Time) {
        let from = self.counted;
        self.counted = until.max(from);
        let mut lost = Nanos::ZERO;
        let mut after = from;
        for (began, ended) in &self.lost {
            let (began, ended) = ((*began).max(after), (*ended).min(until));
            if ended > began {
                lost += ended.since(began);
                after = ended;
            }
        }
        let used = until.since(from).saturating_sub(lost);
        let (_, time) = self.since_op.get_or_insert((from, Nanos::ZERO));
        *time += used;
        self.ran += used;
        if self.inherits {
            self.ran_inherited += used;
        }
        if let Some((_, ran)) = self.groups.last_mut() {
            *ran += used;
        }
    }

    /// What it computed since its last operation.
    pub fn take_run(&mut self, now: Time) -> Option<(Time, RawRun)> {
        let (began, cpu) = self.since_op.take()?;
        let is_whole = self.burst.began.is_some() && !self.burst.has_woken;
        let passed = now.since(self.burst.began.unwrap_or(began));
        let was_preempted = self.burst.was_preempted;
        self.burst.has_woken = true;
        Some((began, RawRun { cpu, passed, is_whole, was_preempted, is_by_clock: false }))
    }

    pub fn ends_burst(&mut self) {
        self.state = State::Asleep;
        self.burst = Burst::default();
    }

    /// What it did since its last operation, at the end of the recording.
    pub fn ends(&mut self, now: Time) {
        if let Some((began, run)) = self.take_run(now) {
            self.ops.push((began, RawOp::Run(run)));
        }
    }

    /// What it did in a part of the recording: whatever it began there.
    pub fn in_part(&self, part: Part) -> Thread {
        let ops: Vec<(Time, RawOp)> = self.ops.iter().filter(|(at, _)| part.has_begin(*at)).copied().collect();
        let is_at_end = ops.last() == self.ops.last();
        Thread {
            is_runnable_at_end: self.is_runnable_at_end && is_at_end,
            died: self.died.filter(|died| *died <= part.end),
            ops,
            ..self.clone()
        }
    }

    pub fn is_preempted(&mut self) {
        self.burst.was_preempted = true;
    }
}
