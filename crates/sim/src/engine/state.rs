//! What the engine keeps of each actor, each CPU and the timers.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use unstarve_model::Nanos;
use unstarve_sched::deadline::{FairServer, Reservation};
use unstarve_sched::rt;

use super::fair::EntityId;
use crate::{ActorId, Op};

/// A time that never comes.
pub(super) const NEVER: u64 = u64::MAX;

/// What an actor does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Doing {
    /// It has the CPU.
    Runs,
    /// It waits for the CPU.
    Waits,
    /// It sleeps until it is given a token.
    Blocks,
    /// It sleeps until a timer wakes it up.
    Sleeps,
    /// It has done all of its operations.
    Ended,
}

/// What is left of the operation that needs the CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Work {
    /// So much CPU time.
    Cpu(u64),
    /// Until this time.
    Until(u64),
}

/// The class of an actor, with its state there.
#[derive(Clone, Debug)]
pub(super) enum ClassState {
    Fair { entity: EntityId, cgroup: Option<usize>, is_idle_policy: bool },
    Realtime { priority: u32, is_rr: bool, ticks_left: u32 },
    Deadline { reservation: Reservation, is_throttled: bool },
}

/// An actor.
#[derive(Clone, Debug)]
pub(super) struct ActorState<'p> {
    pub(super) ops: &'p [Op],
    /// The next operation.
    pub(super) next_op: usize,
    pub(super) work: Work,
    pub(super) tokens: u64,
    /// By how much its next run is shorter, because operations did not switch tasks that did in the recording, less the other way
    /// around.
    pub(super) saved: i64,
    pub(super) doing: Doing,
    /// Since when it does that.
    pub(super) since: u64,
    /// Whether it was woken for its present wait.
    pub(super) was_woken: bool,
    /// Whether its next wakeup is its birth.
    pub(super) is_unborn: bool,
    /// Where it runs, waits, or ran last.
    pub(super) cpu: usize,
    /// Where it may run: one bit for each CPU.
    pub(super) allowed: Vec<bool>,
    pub(super) is_pinned: bool,
    pub(super) class: ClassState,
    /// How much later its absolute sleeps are in this replica.
    pub(super) shift: u64,
    /// Its CPU time since it got the CPU.
    pub(super) ran: u64,
    pub(super) slept: u64,
    pub(super) finished: Option<u64>,
}

impl ActorState<'_> {
    pub(super) fn entity(&self) -> Option<EntityId> {
        match self.class {
            ClassState::Fair { entity, .. } => Some(entity),
            _ => None,
        }
    }

    /// Its precedence, higher first: deadline 200, real-time by priority, fair 0.
    pub(super) fn rank(&self) -> u32 {
        match self.class {
            ClassState::Fair { .. } => 0,
            ClassState::Realtime { priority, .. } => unstarve_sched::FIRST_FAIR_PRIO as u32 + priority,
            ClassState::Deadline { .. } => unstarve_sched::DEADLINE_RANK,
        }
    }
}

/// A real-time actor that waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RtWaiting {
    pub(super) actor: ActorId,
    pub(super) priority: u32,
}

/// A CPU.
#[derive(Clone, Debug)]
pub(super) struct Cpu {
    pub(super) current: Option<ActorId>,
    /// The CPU time of the current actor is accounted up to here; later than now while the CPU switches.
    pub(super) accounted: u64,
    /// When the current actor has done its operation.
    pub(super) stop_at: u64,
    pub(super) needs_resched: bool,
    /// Whether the current actor runs on behalf of the fair server.
    pub(super) is_served: bool,
    /// Real-time actors that wait, of each priority in order.
    pub(super) realtime: Vec<RtWaiting>,
    pub(super) deadline: Vec<ActorId>,
    pub(super) budget: rt::Budget,
    pub(super) server: Option<FairServer>,
    /// The earliest timer that is set for the server.
    pub(super) server_timer: Option<u64>,
    pub(super) idle_since: u64,
    pub(super) ran: u64,
    pub(super) idle: u64,
    pub(super) switching: u64,
    pub(super) switches: u64,
}

impl Cpu {
    pub(super) fn new(server: Option<(Nanos, Nanos)>) -> Cpu {
        Cpu {
            current: None,
            accounted: 0,
            stop_at: NEVER,
            needs_resched: false,
            is_served: false,
            realtime: Vec::new(),
            deadline: Vec::new(),
            budget: rt::Budget::default(),
            server: server.map(|(runtime, period)| FairServer::new(runtime, period)),
            server_timer: None,
            idle_since: 0,
            ran: 0,
            idle: 0,
            switching: 0,
            switches: 0,
        }
    }

    /// Puts a real-time actor behind, or before, all of its priority.
    pub(super) fn queue_realtime(&mut self, waiting: RtWaiting, is_first: bool) {
        let goes_after = |other: &RtWaiting| match is_first {
            true => other.priority > waiting.priority,
            false => other.priority >= waiting.priority,
        };
        let index = self.realtime.iter().take_while(|other| goes_after(other)).count();
        self.realtime.insert(index, waiting);
    }
}

/// What a timer does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum TimerKind {
    /// Ends an actor's sleep.
    Wake(ActorId),
    /// Gives an actor a token.
    Token(ActorId),
    /// Begins a period of a cgroup's limit.
    Refill(usize),
    /// Begins a period of the real-time limit, on all CPUs.
    RealtimePeriod,
    /// Gives a throttled deadline actor its next runtime.
    Replenish(ActorId),
    /// The fair server of a CPU.
    Server(usize),
}

/// Timers in order of time; those of one time in the order in which they were set.
#[derive(Default)]
pub(super) struct Timers {
    heap: BinaryHeap<Reverse<(u64, u64, TimerKind)>>,
    set: u64,
}

impl Timers {
    pub(super) fn set(&mut self, at: u64, kind: TimerKind) {
        self.set += 1;
        self.heap.push(Reverse((at, self.set, kind)));
    }

    pub(super) fn next_at(&self) -> u64 {
        self.heap.peek().map_or(NEVER, |Reverse((at, ..))| *at)
    }

    pub(super) fn pop(&mut self) -> Option<TimerKind> {
        self.heap.pop().map(|Reverse((.., kind))| kind)
    }
}
