//! CPUs whose events end before the trace does.
//!
//! One task may hold a CPU for long, or it is idle: silence is no end. What the source knows besides its events proves how far
//! a CPU was recorded ([`Coverage`]); as far as that goes, it did what it was last seen doing. Beyond, recorders stop CPUs one
//! after another, and buffers that do not overwrite fill up: events of other CPUs may show that it did something else.

use unstarve_model::{Coverage, CpuId, Loss, LossKind, Nanos, Policy, ProvedBy, Time, Until, counted};
use unstarve_sched::{Rule, precedes};

use crate::attribution::split;
use crate::cpu::Current;
use crate::effort::count_steps;
use crate::pre_first_event::REAL_TIME_YIELDS_WITHIN;
use crate::timeline::Timeline;
use crate::{CpuEnd, OpenWait, RunEnd, SilentCpu, Sink, Task, TaskKey, Unproved};

/// A CPU answers within this time: it leaves idle, or lets go first who goes first, a vCPU included. A shorter tail invents
/// nothing that counts.
const ANSWERS_WITHIN: Nanos = Nanos::from_millis(5);
/// A limit keeps a task off for one period at most; the longest that `cpu.max` takes, and the default of
/// `sched_rt_period_us`.
const LONGEST_PERIOD: Nanos = Nanos::from_millis(1000);

/// Between sched_switch and the switch itself the kernel issues events in which the one that leaves is still current.
const SWITCHES_WITHIN: Nanos = Nanos::from_millis(1);

/// What is known of the ends of the CPUs' events.
#[derive(Debug, Default)]
pub(crate) struct Tails {
    /// What the source proves.
    coverage: Coverage,
    /// When the recording ended.
    end: Time,
    /// By CPU, once the trace is over.
    ends: Vec<SilentCpu>,
    /// CPUs that have no events from this time on although they did something, the earliest first.
    missing: Vec<(CpuId, Time)>,
    /// Waits of which nobody knows whether they were any.
    dropped: u64,
}

impl Tails {
    fn add(&mut self, cpu: CpuId, since: Time) {
        let place = self.missing.partition_point(|(_, known)| *known <= since);
        self.missing.insert(place, (cpu, since));
    }
}

impl Timeline {
    /// Tells how far the recording is proved to go on; before [`Timeline::finish`].
    pub fn covered_by(&mut self, coverage: Coverage) {
        self.tails.coverage = coverage;
    }

    /// The CPUs that are silent at the end of the recording for longer than a CPU needs to answer; complete when the trace is
    /// over.
    pub fn silent_cpus(&self) -> impl Iterator<Item = &SilentCpu> {
        let end = self.tails.end;
        self.tails.ends.iter().filter(move |silent| end.since(silent.last_event) > ANSWERS_WITHIN)
    }

    /// The task that was last seen running on this CPU is seen elsewhere, and no switch away from it came: what the CPU did
    /// since its last event is unknown.
    #[cold]
    pub(crate) fn lose_track(&mut self, index: usize, sink: &mut impl Sink) {
        let since = self.cpus[index].last_event.max(self.world.start);
        self.missing_switches += 1;
        self.cpus[index].lost_track = Some(since);
        self.end_run_at(index, since, sink);
    }

    /// The waiting task has run, as is known now, and its CPU has issued no event since it was put there.
    #[cold]
    pub(crate) fn lose_track_of_its_cpu(&mut self, key: TaskKey, sink: &mut impl Sink) {
        let pending = self.world.tasks.get(key).pending.as_ref();
        let silent = |&(cpu, since): &(CpuId, Time)| self.cpus[cpu.index()].last_event < since;
        match pending.map(|pending| (pending.cpu, pending.segment)).filter(silent) {
            Some((cpu, _)) if self.places_recorded && self.cpus[cpu.index()].issued => {
                self.lose_track(cpu.index(), sink);
            }
            _ => self.missing_switches += 1,
        }
    }

    fn end_run_at(&mut self, index: usize, time: Time, sink: &mut impl Sink) {
        let now = std::mem::replace(&mut self.world.now, time);
        self.end_run(index, RunEnd::Cut, sink);
        self.world.now = now;
    }

    /// The recording ended no earlier than its last event, read or not.
    pub(crate) fn reach_end(&mut self) {
        let last = self.tails.coverage.last_presence().filter(|_| self.switches() > 0);
        self.world.now = last.map_or(self.world.now, |last| last.max(self.world.now));
    }

    /// The trace is over: finds out what is known of each CPU since its last event. Where it did something else, what was known
    /// by then is reported.
    pub(crate) fn end_tails(&mut self, sink: &mut impl Sink) {
        self.tails.end = self.world.now;
        self.tails.ends = (0..self.cpus.len()).map(|index| self.end_of(index)).collect();
        for index in 0..self.cpus.len() {
            let SilentCpu { cpu, proved, end, .. } = self.tails.ends[index];
            if matches!(end, CpuEnd::Doubted | CpuEnd::BufferFull | CpuEnd::Refuted) {
                self.tails.add(cpu, proved);
                self.end_tail(index, sink);
            }
        }
    }

    /// What is known of the CPU since its last event.
    fn end_of(&self, index: usize) -> SilentCpu {
        let cpu = &self.cpus[index];
        let (start, now) = (self.world.start, self.world.now);
        let last_event = cpu.last_event.max(start);
        let holder = cpu.base;
        let of = |proved, end| SilentCpu { cpu: cpu.id, last_event, proved, end, holder };
        if !cpu.issued {
            return of(start, CpuEnd::Believed);
        }
        if now.since(last_event) <= ANSWERS_WITHIN {
            return of(now, CpuEnd::Proved(ProvedBy::OwnEvent));
        }
        if cpu.lost_track == Some(last_event) || self.is_refuted(index, last_event) {
            return of(last_event, CpuEnd::Refuted);
        }
        let (proved, by) = self.proved_until(index, last_event);
        let end = if now.since(proved) <= ANSWERS_WITHIN {
            CpuEnd::Proved(by)
        } else if self.tails.coverage.of(cpu.id).dropped {
            CpuEnd::BufferFull
        } else if self.must_have_acted(index, proved) {
            CpuEnd::Doubted
        } else {
            CpuEnd::Believed
        };
        of(if matches!(end, CpuEnd::Proved(_)) { now } else { proved }, end)
    }

    /// Whether the task that was last seen there was not there all the time: another one was current at an event that is not read,
    /// or it is woken. (One that runs is woken no more; one that is about to sleep is told at once that it need not.)
    fn is_refuted(&self, index: usize, last_event: Time) -> bool {
        let cpu = &self.cpus[index];
        let presence = self.tails.coverage.of(cpu.id).presence;
        let later = presence.filter(|presence| presence.time.since(last_event) > SWITCHES_WITHIN);
        let another = later.and_then(|presence| presence.current).zip(cpu.tid).is_some_and(|(is, was)| is != was);
        let Current::Task(holder) = cpu.current else { return another };
        let woken = self.world.tasks.get(holder).early_wake.get().filter(|_| self.wakeup_recorded);
        another || woken.is_some_and(|woken| self.world.now.since(woken.max(last_event)) > ANSWERS_WITHIN)
    }

    /// Up to when it is proved that the CPU would have been recorded, and by what.
    fn proved_until(&self, index: usize, last_event: Time) -> (Time, ProvedBy) {
        let cpu = &self.cpus[index];
        let known = self.tails.coverage.of(cpu.id);
        let seen = known.presence.map(|presence| (presence.time, ProvedBy::LaterEvent));
        let proof =
            known.proof.filter(|_| cpu.current != Current::Idle || cpu.queue.iter().all(|key| self.is_placed(*key)));
        let proof = proof.map(|proof| match proof.until {
            Until::At(time) => (time.min(self.world.now), proof.by),
            Until::End => (self.world.now, proof.by),
        });
        let own = (last_event, ProvedBy::OwnEvent);
        [seen, proof].into_iter().flatten().fold(own, |best, one| if one.0 > best.0 { one } else { best })
    }

    /// Whether the task is on the queue where it seems to be. Where no event tells that, one that seems to wait beside an idle CPU may be
    /// on another's, unless it may use no other CPU.
    fn is_placed(&self, key: TaskKey) -> bool {
        self.places_recorded || self.world.tasks.get(key).pinned
    }

    /// Whether a task that seems to wait while its CPU is idle does wait there. Some kernels do not report every switch away from idle, and a
    /// task may then have run unseen: so the CPU has to be heard, still idle, since the task was put there.
    pub fn waits_beside_idle(&self, task: &Task) -> bool {
        let is_heard = task.pending.as_ref().is_some_and(|pending| {
            self.cpus.get(pending.cpu.index()).is_some_and(|cpu| cpu.last_event >= pending.start)
        });
        is_heard && self.missing_switches == 0 && (self.places_recorded || task.pinned)
    }

    /// What is known of the CPU ends here.
    fn end_tail(&mut self, index: usize, sink: &mut impl Sink) {
        let (since, end) = (self.tails.ends[index].proved, self.tails.ends[index].end);
        let queue = self.cpus[index].queue.clone();
        let open: Vec<Option<OpenWait>> = queue.iter().map(|key| self.open_wait(*key)).collect();
        self.end_run_at(index, since, sink);
        for (key, open) in queue.into_iter().zip(open) {
            let pending = self.world.tasks.get(key).pending.as_ref();
            if pending.is_some_and(|pending| pending.start < since && pending.segment <= since) {
                let now = std::mem::replace(&mut self.world.now, since);
                self.end_last_as(key, open, sink);
                self.world.now = now;
            } else {
                if let (CpuEnd::Doubted, Some(open)) = (end, open) {
                    self.leave_unproved(key, open, sink);
                }
                self.tails.dropped += 1;
                self.drop_wait(key);
            }
        }
    }

    /// Tells of a wait of which nothing is proved, if it is one that would be counted.
    fn leave_unproved(&mut self, key: TaskKey, open: OpenWait, sink: &mut impl Sink) {
        let task = self.world.tasks.get(key);
        let Some(pending) = &task.pending else { return };
        if self.switches() > 0 && self.is_seen_waiting(key) && self.is_believed(key) {
            let wait = Unproved { task: key, actor: pending.actor, cpu: pending.cpu, start: pending.start, open };
            sink.unproved(&self.world, &wait);
        }
    }

    /// The wait goes on when the trace, or what is known of it, ends.
    pub(crate) fn end_last(&mut self, key: TaskKey, sink: &mut impl Sink) {
        let open = self.open_wait(key);
        self.end_last_as(key, open, sink);
    }

    fn end_last_as(&mut self, key: TaskKey, open: Option<OpenWait>, sink: &mut impl Sink) {
        if self.switches() == 0 {
            self.drop_wait(key);
        } else if !self.is_seen_waiting(key) {
            self.doubt_wait(key);
        } else if self.may_have_left_unseen(key) {
            self.tails.dropped += 1;
            self.drop_wait(key);
        } else if open.is_some() && self.is_believed(key) {
            self.end_wait(key, open, sink);
        } else {
            self.drop_wait(key);
        }
    }

    /// How much of the waiting task's wait is proved, and how long it may be.
    fn open_wait(&mut self, key: TaskKey) -> Option<OpenWait> {
        let task = self.world.tasks.get(key);
        let pending = task.pending.as_ref()?;
        let SilentCpu { proved, end, holder, .. } = *self.tails.ends.get(pending.cpu.index())?;
        let known = proved.since(pending.start);
        let possible = if end == CpuEnd::Refuted { known } else { self.tails.end.since(pending.start) };
        let (limited, missing, parts) = (task.may_be_throttled(), self.missing_switches > 0, [(holder, possible)]);
        let pieces = split(pending, &parts, limited, missing, self.tails.end, &self.world.actors, &mut self.pieces);
        let rule = pieces.first().map_or(Rule::Unknown, |piece| piece.rule);
        Some(OpenWait { proved: known, possible, end, holder, rule })
    }

    /// Whether the CPU, of which nothing is known from this time on, must have done something by now if it was recorded.
    fn must_have_acted(&self, index: usize, known: Time) -> bool {
        let cpu = &self.cpus[index];
        let now = self.world.now;
        let silent = |since: Time| now.since(since.max(known));
        let waits = |within: &dyn Fn(TaskKey) -> Option<Nanos>| {
            cpu.queue.iter().any(|&key| {
                let pending = self.world.tasks.get(key).pending.as_ref();
                pending.is_some_and(|pending| within(key).is_some_and(|within| silent(pending.segment) > within))
            })
        };
        match cpu.current {
            Current::Unknown => false,
            Current::Idle => waits(&|key| {
                let task = self.world.tasks.get(key);
                let never_limited = task.may_be_throttled() == Some(false) && task.prio.policy() <= Policy::Fair;
                Some(if never_limited { ANSWERS_WITHIN } else { LONGEST_PERIOD })
            }),
            Current::Task(holder) => waits(&|key| {
                let (mine, its) = (self.world.tasks.get(key).prio, self.world.tasks.get(holder).prio);
                match (mine.policy(), its.policy()) {
                    (Policy::Rt, Policy::Rt) if precedes(mine, its) => Some(ANSWERS_WITHIN),
                    _ if precedes(mine, its) => Some(LONGEST_PERIOD),
                    (Policy::Fair, Policy::Rt) if !self.world.settings.0.marks_overwritten() => {
                        Some(REAL_TIME_YIELDS_WITHIN)
                    }
                    _ => None,
                }
            }),
        }
    }

    /// Whether the task, last seen waiting on a recorded CPU, may have been taken from there by one whose events had ended, so
    /// that more of its wait is guessed than seen.
    fn may_have_left_unseen(&mut self, key: TaskKey) -> bool {
        let task = self.world.tasks.get(key);
        let Some(pending) = &task.pending else { return false };
        let may_use = |cpu: CpuId| match task.affinity {
            _ if task.pinned || cpu == pending.cpu => false,
            Some(group) => self.idle.has(group, cpu),
            None => true,
        };
        let missing = &self.tails.missing;
        // Where that takes too many steps the first end of all stands for the first of those that it may use.
        let first = if self.effort.is_spent() { Some(0) } else { missing.iter().position(|(cpu, _)| may_use(*cpu)) };
        count_steps(first.unwrap_or(missing.len()));
        let has_left = first
            .and_then(|first| missing.get(first))
            .is_some_and(|(_, first)| self.world.now.since(*first) > first.since(pending.start));
        self.effort.take(first.unwrap_or(missing.len()));
        has_left
    }

    /// The longest time at the trace's end of which a CPU's events are missing.
    pub fn missing_tail(&self) -> Nanos {
        let tails = self.tails.missing.iter().map(|(_, since)| self.world.now.since(*since));
        tails.max().unwrap_or(Nanos::ZERO)
    }

    /// The CPUs whose events end early.
    pub(crate) fn tail_loss(&self) -> Option<Loss> {
        let missing = &self.tails.missing;
        let &(cpu, since) = missing.iter().min_by_key(|(_, since)| *since)?;
        let first = format!("CPU {cpu} {} before the end", self.world.now.since(since));
        let detail = match self.tails.dropped {
            0 => first,
            dropped => format!("{first}; {} that may be none are left out", counted(dropped, "wait")),
        };
        Some(Loss::new(LossKind::EndsEarly, missing.len() as u64).with_detail(detail))
    }
}
