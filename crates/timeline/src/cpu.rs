use unstarve_model::{CpuId, Nanos, Policy, Tid, Time};

use crate::deferred_waits::OpenPart;
use crate::effort::Effort;
use crate::occupancy::Occupancy;
use crate::parts::{Part, Span, add_span, keep_longest};
use crate::ticks::{Rhythm, Silence};
use crate::wake_chain::Basis;
use crate::waker_inference::Shares;
use crate::{ActorId, Actors, TaskKey};
use unstarve_sched::fairness::Fairness;

/// Who is current on a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Current {
    Unknown,
    Idle,
    Task(TaskKey),
}

/// What is known of one CPU.
#[derive(Debug)]
pub(crate) struct Cpu {
    pub id: CpuId,
    pub current: Current,
    /// The id of `current`, if that is known.
    pub tid: Option<Tid>,
    /// The actor of `current`, as the switch to it named it.
    pub base: ActorId,
    /// Since when `current` has the CPU, if it is a task.
    pub run_start: Time,
    /// Parts of waits that are parts of the run in progress, for the case that `current` turns out to be something else.
    pub open: Vec<OpenPart>,
    /// Hard interrupt handlers in progress, the innermost last.
    pub hardirqs: Vec<Handler>,
    /// The softirq vector in progress.
    pub softirq: Option<Handler>,
    /// Whether `current` is ksoftirqd, ktimers or the thread of an interrupt, whose softirqs are its own work.
    pub serves_softirqs: bool,
    pub occupancy: Occupancy,
    pub fairness: Fairness,
    /// Tasks that wait here, in no order; each knows its place.
    pub queue: Vec<TaskKey>,
    /// Whether an event has told what it does.
    pub heard: bool,
    /// When something was first put on its runqueue by another CPU, before it was heard itself.
    pub arrival: Option<Time>,
    /// Whether a task left it before it was heard itself: its first events are missing.
    pub was_left: bool,
    /// Who had it since when, up to the time when that was last added up; kept where somebody may have waited all the time.
    pub whole: Option<(Time, Vec<Part>)>,
    /// Whether a limit stops tasks of a higher class that wait here.
    pub stops: bool,
    /// Up to when nobody looked whether a limit stops those that wait here, as that took too many steps.
    pub not_looked: Time,
    /// Whether it has issued any event.
    pub issued: bool,
    /// From when on nobody knows what it did, by its last event then: its task turned up elsewhere.
    pub lost_track: Option<Time>,
    /// The last event that this CPU issued.
    pub last_event: Time,
    /// Its last long silence.
    pub silence: Silence,
    /// The ticks in the run in progress.
    pub rhythm: Option<Rhythm>,
    /// How long each task had it, where events do not say in which context they were issued.
    pub shares: Shares,
    /// The softirqs that the current task raised itself, for what it sends: bits by vector.
    pub raised: u32,
    /// Whether the current task has woken this CPU's ksoftirqd, and so raised a softirq.
    pub woke_ksoftirqd: bool,
    /// When the last handler of a hard interrupt ended, or a softirq that followed one.
    pub handler_ended: Option<Time>,
}

/// An interrupt handler or softirq in progress.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Handler {
    pub actor: ActorId,
    /// Interrupt number or softirq vector.
    pub number: u32,
    pub start: Time,
    /// Time inside that belongs to handlers on top of it.
    pub inner: Nanos,
    /// How it is known that the current task raised the softirq itself, if it did.
    pub raised_by_task: Option<Basis>,
    /// Whether the handler of a hard interrupt had just ended.
    pub follows_handler: bool,
}

impl Cpu {
    pub fn new(id: CpuId) -> Cpu {
        Cpu {
            id,
            current: Current::Unknown,
            tid: None,
            base: ActorId::UNKNOWN,
            run_start: Time(0),
            open: Vec::new(),
            hardirqs: Vec::new(),
            softirq: None,
            serves_softirqs: false,
            occupancy: Occupancy::new(),
            fairness: Fairness::default(),
            queue: Vec::new(),
            heard: false,
            arrival: None,
            was_left: false,
            whole: None,
            stops: false,
            not_looked: Time(0),
            issued: false,
            lost_track: None,
            last_event: Time(0),
            silence: Silence::default(),
            rhythm: None,
            shares: Shares::default(),
            raised: 0,
            woke_ksoftirqd: false,
            handler_ended: None,
        }
    }

    /// Notes a change of `base` or of the handlers in progress.
    pub fn settle(&mut self, time: Time) {
        let occupant = match (self.hardirqs.last(), self.softirq) {
            (Some(handler), _) => handler.actor,
            (None, Some(handler)) if !self.serves_softirqs => handler.actor,
            _ => self.base,
        };
        self.occupancy.set(time, occupant);
    }

    /// Who had it between these times, for waits that it is a part of.
    pub fn span(&self, from: Time, to: Time, actors: &Actors, effort: &mut Effort) -> Span {
        let mut parts = Vec::new();
        add_span(&mut parts, &self.occupancy, (from, to), None, effort);
        keep_longest(&mut parts, self.queue.len(), actors, effort);
        Span::new(parts)
    }

    /// Up to when nobody knows who had it, or for the higher classes why.
    #[inline(always)]
    pub fn forgotten(&self, class: Policy) -> Time {
        let forgotten = self.occupancy.forgotten();
        if class > Policy::Fair { forgotten.max(self.not_looked) } else { forgotten }
    }

    /// Adds up who has had it all the time, where that is kept.
    pub fn add_up_whole(&mut self, now: Time, actors: &Actors, effort: &mut Effort) {
        if let Some((since, parts)) = &mut self.whole {
            add_span(parts, &self.occupancy, (*since, now), None, effort);
            keep_longest(parts, 1, actors, effort);
            *since = now;
        }
    }

    /// Nobody is known to be current.
    #[inline(always)]
    pub fn let_go(&mut self) {
        self.current = Current::Unknown;
        self.tid = None;
        self.base = ActorId::UNKNOWN;
        self.serves_softirqs = false;
    }

    /// No handler is in progress.
    #[inline]
    pub fn forget_handlers(&mut self) {
        self.hardirqs.clear();
        self.softirq = None;
        self.raised = 0;
        self.woke_ksoftirqd = false;
    }

    /// Notes that `base` is what a switch gave the CPU to: no handler is in progress then.
    #[inline(always)]
    pub fn settle_switch(&mut self, time: Time) {
        self.occupancy.switch(time, self.base);
    }
}
