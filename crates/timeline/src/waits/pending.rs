//! A wait in progress: its start, its CPU, and the occupants so far.

use unstarve_model::{CpuId, Nanos, Policy, Time};

use crate::cpus::Cpu;
use crate::cpus::idle::{IdleGroup, IdleWatch};
use crate::cpus::occupancy::Mark;
use crate::effort::Effort;
use crate::opt_time::OptTime;
use crate::run_queues::RunQueue;
use crate::waits::deferred_waits::HoldId;
use crate::waits::parts::{Part, Span, add, add_span, keep_longest};
use crate::waits::throttle_detection::Stopped;
use crate::{ActorId, Actors, TaskKey, WaitKind};

/// Clocks of CPUs differ, so events of two CPUs may be out of order within this time.
const WAKINGS_OVERTAKE_WITHIN: Nanos = Nanos::from_micros(100);

/// A wait in progress.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    pub(super) kind: WaitKind,
    pub(super) actor: ActorId,
    pub(super) start: Time,
    pub(super) queued: OptTime,
    /// The CPU that it waits for now.
    pub(super) cpu: CpuId,
    /// From when on the occupants of the current CPU are not yet in `parts`.
    pub(super) segment: Time,
    /// The mark in that CPU's occupancy log, if it was made at that moment.
    pub(super) mark: Option<Mark>,
    /// Occupants so far, on CPUs that it has left.
    pub(super) parts: Vec<Part>,
    /// Since when the CPU has been idle although the task was on its queue.
    pub(super) passed_over: OptTime,
    /// The total of such times.
    pub(super) passed_over_total: Nanos,
    /// What throttling of its class has cost it; only for real-time and deadline tasks.
    pub(super) stopped: Option<Box<Stopped>>,
    pub(super) preemptor: Option<Preemptor>,
    pub(super) owed: f64,
    pub(super) idle_before: Option<(IdleGroup, Nanos)>,
    /// Idle time that became known only afterwards.
    pub(super) idle_carried: Nanos,
    pub(super) migrations: u32,
    /// Whether only the host's state at the trace's start indicates it.
    pub(super) assumed: bool,
    /// Its index among the waits that may have to be deferred.
    pub(super) hold: Option<HoldId>,
}

/// The task that preempted the waiting one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Preemptor {
    pub(super) task: TaskKey,
    pub(super) actor: ActorId,
    /// What it turned out to be in that run, or in a part of it; the same if nothing else.
    pub(super) became: ActorId,
    /// Whether it had just been woken, see [`crate::Rule::WakeupPreemption`].
    pub(super) by_wakeup: bool,
    /// The length of its run, without interrupts; `None` while it lasts.
    pub(super) stayed: Option<Nanos>,
    /// When it got the CPU.
    pub(super) since: Time,
}

impl Pending {
    pub(super) fn new(kind: WaitKind, actor: ActorId, start: Time, cpu: CpuId) -> Pending {
        Pending {
            kind,
            actor,
            start,
            queued: OptTime::NONE,
            cpu,
            segment: start,
            mark: None,
            parts: Vec::new(),
            passed_over: OptTime::NONE,
            passed_over_total: Nanos::ZERO,
            stopped: None,
            preemptor: None,
            owed: 0.0,
            idle_before: None,
            idle_carried: Nanos::ZERO,
            migrations: 0,
            assumed: false,
            hold: None,
        }
    }

    /// The task's actor when the wait began.
    pub fn actor(&self) -> ActorId {
        self.actor
    }

    /// How it began.
    #[inline(always)]
    pub fn kind(&self) -> WaitKind {
        self.kind
    }

    /// When it began.
    #[inline(always)]
    pub fn start(&self) -> Time {
        self.start
    }

    /// The CPU that the task waits for.
    #[inline(always)]
    pub fn cpu(&self) -> CpuId {
        self.cpu
    }

    /// From when on the occupants of the current CPU are not added up; since then, at the latest, the task is on its queue.
    pub fn segment(&self) -> Time {
        self.segment
    }

    /// Whether only the host's state at the trace's start indicates it.
    #[inline]
    pub fn is_assumed(&self) -> bool {
        self.assumed
    }

    /// Whether the task is on the run queue: between sched_waking and sched_wakeup it is not.
    pub fn is_queued(&self) -> bool {
        self.kind == WaitKind::Preemption || self.queued.is_some()
    }

    /// A woken task is put on the run queue, if that has not been seen yet.
    pub fn note_queued(&mut self, now: Time) {
        if self.kind != WaitKind::Preemption {
            self.queued = OptTime::some(self.queued.get().unwrap_or(now));
        }
    }

    /// Whether the task waits after a wakeup. The kernel then does not wake it again until it has run and slept
    /// (`ttwu_state_match` comes before the trace event): if it is woken, switches are missing.
    #[inline]
    pub fn is_woken(&self, now: Time) -> bool {
        self.kind == WaitKind::Wakeup && now.since(self.start) > WAKINGS_OVERTAKE_WITHIN
    }

    /// The task was preempted by this one.
    pub fn name_preemptor(&mut self, task: TaskKey, actor: ActorId, by_wakeup: bool, now: Time) {
        self.preemptor = Some(Preemptor { task, actor, became: actor, by_wakeup, stayed: None, since: now });
    }

    /// Its preemptor's run since then, if it is this task's.
    #[inline]
    pub fn stay_of_preemptor(&mut self, task: TaskKey, since: Time) -> Option<&mut Preemptor> {
        self.preemptor.as_mut().filter(|preemptor| preemptor.task == task && preemptor.since == since)
    }

    /// The CPU turns out to have been idle from the trace's start until now.
    pub fn add_idle_before(&mut self, idle: &IdleWatch, cpu: CpuId, (trace_start, now): (Time, Time)) {
        if let Some((group, before)) = &mut self.idle_before
            && idle.has(*group, cpu)
        {
            self.idle_carried = now.since(self.start.max(trace_start));
            *before = idle.total(*group, now);
        }
    }

    /// Whether all of it is in the current segment, and all its time is of one kind.
    #[inline(always)]
    pub(super) fn is_plain(&self) -> bool {
        self.parts.is_empty() && self.stopped.is_none() && self.passed_over.is_none() && self.hold.is_none()
    }

    /// Adds the current CPU's occupants since the segment's start to the parts.
    pub(super) fn close_segment(
        &mut self,
        cpu: &Cpu,
        queue: &RunQueue,
        now: Time,
        actors: &Actors,
        effort: &mut Effort,
    ) {
        let (span, mark) = ((self.segment, now), self.mark.take());
        let parts = self.parts_now();
        add_span(parts, cpu.occupancy(), span, mark, effort);
        keep_longest(parts, queue.len(), actors, effort);
        self.begin_segment(cpu, now);
    }

    /// The same with known occupants.
    pub(super) fn add_segment(
        &mut self,
        span: &mut Span,
        (cpu, waits): (&Cpu, usize),
        now: Time,
        actors: &Actors,
        effort: &mut Effort,
    ) {
        let parts = self.parts_now();
        effort.take(span.len() + parts.len());
        span.add_to(parts);
        keep_longest(parts, waits, actors, effort);
        self.begin_segment(cpu, now);
    }

    /// Makes the time that the CPU's log no longer covers unknown.
    #[inline(always)]
    pub(super) fn catch_up(&mut self, cpu: &Cpu, queue: &RunQueue, class: Policy) {
        let forgotten = cpu.occupancy().forgotten().max(queue.unknown_until(class));
        if self.segment < forgotten {
            self.catch_up_to(forgotten);
        }
    }

    #[cold]
    fn catch_up_to(&mut self, forgotten: Time) {
        let gap = forgotten.since(self.segment);
        // Earlier time is settled only up to here.
        add(self.parts_now(), ActorId::UNKNOWN, gap);
        self.stop(false);
        (self.segment, self.mark) = (forgotten, None);
    }

    /// The list that the segment's occupants are added to.
    fn parts_now(&mut self) -> &mut Vec<Part> {
        match &mut self.stopped {
            Some(stopped) if stopped.now => &mut stopped.parts,
            _ => &mut self.parts,
        }
    }

    fn begin_segment(&mut self, cpu: &Cpu, now: Time) {
        if let Some(since) = self.passed_over.take() {
            self.passed_over_total += cpu.occupancy().time_of(ActorId::IDLE, since, now);
        }
        self.segment = now;
    }
}

impl Preemptor {
    /// It leaves the CPU after a run of this length.
    #[inline]
    pub fn leave(&mut self, stayed: Nanos) {
        self.stayed = Some(stayed);
    }

    /// It turned out to be this actor.
    pub fn become_actor(&mut self, is: ActorId) {
        self.became = is;
    }

    /// What it turned out to be in the end.
    pub(super) fn latest(&self) -> ActorId {
        self.became
    }

    /// Whether it is this occupant.
    pub(super) fn is(&self, occupant: ActorId) -> bool {
        self.actor == occupant || self.became == occupant
    }
}
