//! CPUs whose events end before the trace does.
//!
//! Recorders stop CPUs one after another, and buffers that do not overwrite fill up. What the CPU was last seen doing would
//! then seem to go on to the end, and everything that others put on its queue would seem to wait behind it. Silence alone
//! proves nothing, for one task may hold a CPU for long; but events of other CPUs may show that it did something else.

use unstarve_model::{CpuId, Loss, LossKind, Nanos, Policy, Time, counted};

use crate::cpu::Current;
use crate::effort::count_steps;
use crate::first::REAL_TIME_YIELDS_WITHIN;
use crate::stays::goes_before;
use crate::timeline::Timeline;
use crate::{RunEnd, Sink, TaskKey, WaitEnd};

/// A CPU answers within this time: it leaves idle, or lets go first who goes first, a vCPU included. A shorter tail invents
/// nothing that counts.
const ANSWERS_WITHIN: Nanos = Nanos::from_millis(5);
/// A limit keeps a task off for one period at most; the longest that `cpu.max` takes, and the default of
/// `sched_rt_period_us`.
const LONGEST_PERIOD: Nanos = Nanos::from_millis(1000);

/// What is known of the ends of the CPUs' events.
#[derive(Debug, Default)]
pub(crate) struct Tails {
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

    /// The trace is over: finds the CPUs whose events ended earlier, and reports what was known by then.
    pub(crate) fn end_tails(&mut self, sink: &mut impl Sink) {
        for index in 0..self.cpus.len() {
            let since = self.cpus[index].last_event.max(self.world.start);
            let is_silent = self.cpus[index].issued && self.world.now.since(since) > ANSWERS_WITHIN;
            if is_silent && (self.cpus[index].lost_track == Some(since) || self.must_have_acted(index)) {
                self.tails.add(self.cpus[index].id, since);
                self.end_tail(index, since, sink);
            }
        }
    }

    fn end_tail(&mut self, index: usize, since: Time, sink: &mut impl Sink) {
        self.end_run_at(index, since, sink);
        for key in self.cpus[index].queue.clone() {
            let pending = self.world.tasks.get(key).pending.as_ref();
            if pending.is_some_and(|pending| pending.start < since && pending.segment <= since) {
                let now = std::mem::replace(&mut self.world.now, since);
                self.end_last(key, sink);
                self.world.now = now;
            } else {
                self.tails.dropped += 1;
                self.drop_wait(key);
            }
        }
    }

    /// The wait goes on when the trace, or what is known of it, ends.
    pub(crate) fn end_last(&mut self, key: TaskKey, sink: &mut impl Sink) {
        if self.switches() == 0 {
            self.drop_wait(key);
        } else if !self.is_seen_waiting(key) {
            self.doubt_wait(key);
        } else if self.may_have_left_unseen(key) {
            self.tails.dropped += 1;
            self.drop_wait(key);
        } else if self.is_believed(key) {
            self.end_wait(key, WaitEnd::TraceEnd, sink);
        } else {
            self.drop_wait(key);
        }
    }

    /// Whether the CPU, silent since its last event, must have done something by now if it was recorded.
    fn must_have_acted(&self, index: usize) -> bool {
        let cpu = &self.cpus[index];
        let now = self.world.now;
        let silent = |since: Time| now.since(since.max(cpu.last_event));
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
            Current::Task(holder) => {
                let holder = self.world.tasks.get(holder);
                // One that runs is woken no more; one that is about to sleep is told at once that it need not.
                let woken = holder.early_wake.get().filter(|_| self.wakeup_recorded);
                woken.is_some_and(|woken| silent(woken) > ANSWERS_WITHIN)
                    || waits(&|key| {
                        let (mine, its) = (self.world.tasks.get(key).prio, holder.prio);
                        match (mine.policy(), its.policy()) {
                            (Policy::Rt, Policy::Rt) if goes_before(mine, its) => Some(ANSWERS_WITHIN),
                            _ if goes_before(mine, its) => Some(LONGEST_PERIOD),
                            (Policy::Fair, Policy::Rt) if !self.world.settings.0.marks_overwritten() => {
                                Some(REAL_TIME_YIELDS_WITHIN)
                            }
                            _ => None,
                        }
                    })
            }
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
