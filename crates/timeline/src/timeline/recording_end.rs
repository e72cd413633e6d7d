//! Handles CPUs whose events end before the trace does.
//!
//! One task may have a CPU for long, or the CPU is idle, so silence does not mean that its recording ended. Other data of the
//! source proves how far a CPU was recorded ([`Coverage`]): up to there it continued what it did at its last event. Beyond,
//! recorders stop CPUs one after another, and buffers without overwrite fill up: events of other CPUs may show that it did
//! something else.

use unstarve_model::{Coverage, CpuId, Loss, LossKind, Nanos, Policy, ProvedBy, Time, Until, counted};
use unstarve_sched::precedes;

use crate::cpus::Current;
use crate::cpus::pre_first_event::REAL_TIME_YIELDS_WITHIN;
use crate::effort::{Effort, count_steps};
use crate::machine::Machine;
use crate::recorded::Recorded;
use crate::timeline::Timeline;
use crate::waits::initial_runnable::is_believed;
use crate::{CpuEnd, OpenWait, RunEnd, SilentCpu, Sink, Task, TaskKey, Unproved};

/// A CPU reacts within this time, also a vCPU: it leaves idle, or lets a task with precedence run. A shorter tail adds nothing
/// significant.
const ANSWERS_WITHIN: Nanos = Nanos::from_millis(5);
/// Throttling lasts one period at most: the maximum of `cpu.max`, and the default of `sched_rt_period_us`.
const LONGEST_PERIOD: Nanos = Nanos::from_millis(1000);

/// Between sched_switch and the actual context switch, the kernel issues events in which the previous task is still current.
const SWITCHES_WITHIN: Nanos = Nanos::from_millis(1);

/// How the events of each CPU end.
#[derive(Debug, Default)]
pub(super) struct RecordingEnd {
    /// What the source proves.
    coverage: Coverage,
    /// When the recording ended.
    end: Time,
    /// By CPU, at the end of the trace.
    ends: Vec<SilentCpu>,
    /// CPUs without events from this time on although they did something, the earliest first.
    missing: Vec<(CpuId, Time)>,
    /// Waits that may not have been any.
    dropped: u64,
}

impl RecordingEnd {
    /// How far the recording is proved to reach.
    pub fn covered_by(&mut self, coverage: Coverage) {
        self.coverage = coverage;
    }

    fn add(&mut self, cpu: CpuId, since: Time) {
        let place = self.missing.partition_point(|(_, known)| *known <= since);
        self.missing.insert(place, (cpu, since));
    }

    /// Ends the trace: determines what is known of each CPU since its last event.
    fn judge(&mut self, machine: &Machine, recorded: &Recorded) {
        self.end = machine.world.now;
        self.ends = (0..machine.cpus.len()).map(|index| self.end_of(machine, recorded, index)).collect();
    }

    /// What is known of the CPU since its last event.
    fn end_of(&self, machine: &Machine, recorded: &Recorded, index: usize) -> SilentCpu {
        let cpu = &machine.cpus[index];
        let (start, now) = (machine.world.start, machine.world.now);
        let presence = cpu.presence();
        let last_event = presence.last_event().max(start);
        let holder = cpu.holder();
        let of = |proved, end| SilentCpu { cpu: cpu.id(), last_event, proved, end, holder };
        if !presence.has_issued() {
            return of(start, CpuEnd::Believed);
        }
        if now.since(last_event) <= ANSWERS_WITHIN {
            return of(now, CpuEnd::Proved(ProvedBy::OwnEvent));
        }
        if presence.has_lost_track(last_event) || self.is_refuted(machine, recorded, index, last_event) {
            return of(last_event, CpuEnd::Refuted);
        }
        let (proved, by) = self.proved_until(machine, recorded, index, last_event);
        let end = if now.since(proved) <= ANSWERS_WITHIN {
            CpuEnd::Proved(by)
        } else if self.coverage.of(cpu.id()).dropped {
            CpuEnd::BufferFull
        } else if must_have_acted(machine, index, proved) {
            CpuEnd::Doubted
        } else {
            CpuEnd::Believed
        };
        of(if matches!(end, CpuEnd::Proved(_)) { now } else { proved }, end)
    }

    /// Whether the last task seen on the CPU did not stay there: an event that is not read shows another one as current, or the
    /// task is woken. (A running task is not woken again; one that is about to sleep notices the wakeup at once.)
    fn is_refuted(&self, machine: &Machine, recorded: &Recorded, index: usize, last_event: Time) -> bool {
        let cpu = &machine.cpus[index];
        let presence = self.coverage.of(cpu.id()).presence;
        let later = presence.filter(|presence| presence.time.since(last_event) > SWITCHES_WITHIN);
        let another = later.and_then(|presence| presence.current).zip(cpu.tid()).is_some_and(|(is, was)| is != was);
        let Some(holder) = cpu.task() else { return another };
        let woken = machine.world.tasks.get(holder).early_wake.get().filter(|_| recorded.has_wakeup());
        another || woken.is_some_and(|woken| machine.world.now.since(woken.max(last_event)) > ANSWERS_WITHIN)
    }

    /// The time up to which the CPU is proved to have been recorded, and by what.
    fn proved_until(&self, machine: &Machine, recorded: &Recorded, index: usize, last_event: Time) -> (Time, ProvedBy) {
        let cpu = &machine.cpus[index];
        let is_placed = |key: &TaskKey| is_placed(machine.world.tasks.get(*key), recorded);
        let known = self.coverage.of(cpu.id());
        let seen = known.presence.map(|presence| (presence.time, ProvedBy::LaterEvent));
        let proof = known
            .proof
            .filter(|_| cpu.current() != Current::Idle || machine.queues[index].waiting().iter().all(is_placed));
        let proof = proof.map(|proof| match proof.until {
            Until::At(time) => (time.min(machine.world.now), proof.by),
            Until::End => (machine.world.now, proof.by),
        });
        let own = (last_event, ProvedBy::OwnEvent);
        [seen, proof].into_iter().flatten().fold(own, |best, one| if one.0 > best.0 { one } else { best })
    }

    /// Whether the task, last seen waiting on a recorded CPU, may have been pulled by a CPU whose events had ended, so that
    /// most of its wait is a guess.
    fn may_have_left_unseen(&self, machine: &Machine, key: TaskKey, effort: &mut Effort) -> bool {
        let task = machine.world.tasks.get(key);
        let Some(pending) = &task.pending else { return false };
        let may_use = |cpu: CpuId| match task.affinity {
            _ if task.pinned || cpu == pending.cpu() => false,
            Some(group) => machine.cpus.is_in(group, cpu),
            None => true,
        };
        let missing = &self.missing;
        // If that takes too many steps, use the earliest end of all CPUs instead of those that the task may use.
        let first = if effort.is_spent() { Some(0) } else { missing.iter().position(|(cpu, _)| may_use(*cpu)) };
        count_steps(first.unwrap_or(missing.len()));
        let has_left = first
            .and_then(|first| missing.get(first))
            .is_some_and(|(_, first)| machine.world.now.since(*first) > first.since(pending.start()));
        effort.take(first.unwrap_or(missing.len()));
        has_left
    }

    /// Reports the CPUs whose events end early.
    pub fn loss(&self, now: Time) -> Option<Loss> {
        let missing = &self.missing;
        let &(cpu, since) = missing.iter().min_by_key(|(_, since)| *since)?;
        let first = format!("CPU {cpu} {} before the end", now.since(since));
        let detail = match self.dropped {
            0 => first,
            dropped => format!("{first}; {} that may be none are left out", counted(dropped, "wait")),
        };
        Some(Loss::new(LossKind::EndsEarly, missing.len() as u64).with_detail(detail))
    }
}

impl Timeline {
    /// CPUs that are silent at the end of the recording for longer than a CPU needs to react; complete at the end of the trace.
    pub fn silent_cpus(&self) -> impl Iterator<Item = &SilentCpu> {
        let end = self.end.end;
        self.end.ends.iter().filter(move |silent| end.since(silent.last_event) > ANSWERS_WITHIN)
    }

    /// The task that last ran on this CPU is seen elsewhere, without a switch away from it: since the CPU's last event it is
    /// unknown what it did.
    #[cold]
    pub(super) fn lose_track(&mut self, index: usize, sink: &mut impl Sink) {
        let presence = self.machine.cpus[index].presence_mut();
        let since = presence.last_event().max(self.machine.world.start);
        presence.lose_track(since);
        self.losses.note_missing_switch(None);
        self.end_run_at(index, since, sink);
    }

    /// The waiting task is now known to have run, and its CPU has issued no event since it was queued there.
    #[cold]
    pub(super) fn lose_track_of_its_cpu(&mut self, key: TaskKey, sink: &mut impl Sink) {
        let Machine { world, cpus, .. } = &self.machine;
        let pending = world.tasks.get(key).pending.as_ref();
        let put_there = pending.map(|pending| (cpus[pending.cpu().index()].presence(), pending));
        match put_there.filter(|(presence, pending)| presence.last_event() < pending.segment()) {
            Some((presence, pending)) if self.recorded.has_places() && presence.has_issued() => {
                self.lose_track(pending.cpu().index(), sink);
            }
            _ => self.losses.note_missing_switch(None),
        }
    }

    pub(super) fn end_run_at(&mut self, index: usize, time: Time, sink: &mut impl Sink) {
        let now = std::mem::replace(&mut self.machine.world.now, time);
        self.end_run(index, RunEnd::Cut, sink);
        self.machine.world.now = now;
    }

    /// The recording ended no earlier than its last event, read or not.
    pub(super) fn reach_end(&mut self) {
        let last = self.end.coverage.last_presence().filter(|_| self.switches() > 0);
        self.machine.world.now = last.map_or(self.machine.world.now, |last| last.max(self.machine.world.now));
    }

    /// Ends the trace: determines what is known of each CPU since its last event. For a CPU that did something else, reports
    /// what was known by then.
    pub(super) fn end_tails(&mut self, sink: &mut impl Sink) {
        self.end.judge(&self.machine, &self.recorded);
        for index in 0..self.machine.cpus.len() {
            let SilentCpu { cpu, proved, end, .. } = self.end.ends[index];
            if matches!(end, CpuEnd::Doubted | CpuEnd::BufferFull | CpuEnd::Refuted) {
                self.end.add(cpu, proved);
                self.end_tail(index, sink);
            }
        }
    }

    /// Whether a task that seems to wait on an idle CPU does wait there. Some kernels do not report every switch away from
    /// idle, so the task may have run unseen. An event must show the CPU still idle after the task was queued.
    pub fn waits_beside_idle(&self, task: &Task) -> bool {
        let is_heard = task.pending.as_ref().is_some_and(|pending| {
            self.machine.cpus.get(pending.cpu()).is_some_and(|cpu| cpu.presence().last_event() >= pending.start())
        });
        is_heard && !self.losses.switches_are_missing() && is_placed(task, &self.recorded)
    }

    /// What is known of the CPU ends here.
    fn end_tail(&mut self, index: usize, sink: &mut impl Sink) {
        let (since, end) = (self.end.ends[index].proved, self.end.ends[index].end);
        let queue = self.machine.queues[index].waiting().to_vec();
        let open: Vec<Option<OpenWait>> = queue.iter().map(|key| self.open_wait(*key)).collect();
        self.end_run_at(index, since, sink);
        for (key, open) in queue.into_iter().zip(open) {
            let pending = self.machine.world.tasks.get(key).pending.as_ref();
            if pending.is_some_and(|pending| pending.start() < since && pending.segment() <= since) {
                let now = std::mem::replace(&mut self.machine.world.now, since);
                self.end_last_as(key, open, sink);
                self.machine.world.now = now;
            } else {
                if let (CpuEnd::Doubted, Some(open)) = (end, open) {
                    self.leave_unproved(key, open, sink);
                }
                self.end.dropped += 1;
                self.waits.drop_wait(&mut self.machine, key);
            }
        }
    }

    /// Reports an unproved wait, if it would count.
    fn leave_unproved(&mut self, key: TaskKey, open: OpenWait, sink: &mut impl Sink) {
        let Machine { world, cpus, .. } = &self.machine;
        let Some(pending) = &world.tasks.get(key).pending else { return };
        if self.switches() > 0 && cpus.is_seen_waiting(world, key) && is_believed(world, key) {
            let (actor, cpu, start) = (pending.actor(), pending.cpu(), pending.start());
            sink.unproved(world, &Unproved { task: key, actor, cpu, start, open });
        }
    }

    /// The wait is still in progress when the trace, or what is known of its CPU, ends.
    pub(super) fn end_last(&mut self, key: TaskKey, sink: &mut impl Sink) {
        let open = self.open_wait(key);
        self.end_last_as(key, open, sink);
    }

    fn end_last_as(&mut self, key: TaskKey, open: Option<OpenWait>, sink: &mut impl Sink) {
        let Machine { world, cpus, .. } = &self.machine;
        if self.switches() == 0 {
            self.waits.drop_wait(&mut self.machine, key);
        } else if !cpus.is_seen_waiting(world, key) {
            self.doubt_wait(key);
        } else if self.end.may_have_left_unseen(&self.machine, key, self.waits.effort()) {
            self.end.dropped += 1;
            self.waits.drop_wait(&mut self.machine, key);
        } else if open.is_some() && is_believed(world, key) {
            self.end_wait(key, open, sink);
        } else {
            self.waits.drop_wait(&mut self.machine, key);
        }
    }

    /// How much of the task's wait is proved, and its maximum length.
    fn open_wait(&mut self, key: TaskKey) -> Option<OpenWait> {
        let world = &self.machine.world;
        let pending = world.tasks.get(key).pending.as_ref()?;
        let SilentCpu { proved, end, holder, .. } = *self.end.ends.get(pending.cpu().index())?;
        let known = proved.since(pending.start());
        let possible = if end == CpuEnd::Refuted { known } else { self.end.end.since(pending.start()) };
        let missing = self.losses.switches_are_missing();
        let rule = self.waits.rule_of(world, key, (holder, possible), missing, self.end.end);
        Some(OpenWait { proved: known, possible, end, holder, rule })
    }

    /// The longest time at the trace's end in which a CPU's events are missing.
    pub fn missing_tail(&self) -> Nanos {
        let tails = self.end.missing.iter().map(|(_, since)| self.machine.world.now.since(*since));
        tails.max().unwrap_or(Nanos::ZERO)
    }
}

/// Whether the task's run queue is known. If no event shows it, a task that seems to wait for an idle CPU may be on another
/// one's queue, unless it may use no other CPU.
fn is_placed(task: &Task, recorded: &Recorded) -> bool {
    recorded.has_places() || task.pinned
}

/// Whether the CPU, of which nothing is known from this time on, would have issued an event by now if it was recorded.
fn must_have_acted(machine: &Machine, index: usize, known: Time) -> bool {
    let Machine { world, cpus, queues, .. } = machine;
    let now = world.now;
    let silent = |since: Time| now.since(since.max(known));
    let waits = |within: &dyn Fn(TaskKey) -> Option<Nanos>| {
        queues[index].waiting().iter().any(|&key| {
            let pending = world.tasks.get(key).pending.as_ref();
            pending.is_some_and(|pending| within(key).is_some_and(|within| silent(pending.segment()) > within))
        })
    };
    match cpus[index].current() {
        Current::Unknown => false,
        Current::Idle => waits(&|key| {
            let task = world.tasks.get(key);
            let never_limited = task.may_be_throttled() == Some(false) && task.prio.policy() <= Policy::Fair;
            Some(if never_limited { ANSWERS_WITHIN } else { LONGEST_PERIOD })
        }),
        Current::Task(holder) => waits(&|key| {
            let (mine, its) = (world.tasks.get(key).prio, world.tasks.get(holder).prio);
            match (mine.policy(), its.policy()) {
                (Policy::Rt, Policy::Rt) if precedes(mine, its) => Some(ANSWERS_WITHIN),
                _ if precedes(mine, its) => Some(LONGEST_PERIOD),
                (Policy::Fair, Policy::Rt) if !world.settings.0.marks_overwritten() => Some(REAL_TIME_YIELDS_WITHIN),
                _ => None,
            }
        }),
    }
}
