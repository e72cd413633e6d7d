//! What a CPU did before its first event.
//!
//! No switch came from it, so it did all the time what that event finds it doing, unless events of other CPUs contradict
//! (buffers that were overwritten begin at different times, and only some formats mark that).

use unstarve_model::{CpuId, CpuSet, Nanos, Policy, Prio};

use unstarve_sched::precedes;

use crate::ActorId;
use crate::cpu::Cpu;
use crate::effort::{UNCOUNTED_STEPS, count_steps};
use crate::timeline::Timeline;

/// An idle CPU takes a task that is put on its runqueue within the time that it needs to leave idle, a vCPU included.
const LEAVES_IDLE_WITHIN: Nanos = Nanos::from_millis(5);

/// Real-time throttling lets the fair class in for 50 ms of each second, the fair server (6.12) after a second without a turn.
/// With a budget that is used at the end of one period and at the beginning of the next, 1.9 s pass at most.
pub(crate) const REAL_TIME_YIELDS_WITHIN: Nanos = Nanos::from_millis(2000);

/// Softirqs in a trace that show that softirqs were recorded, and were needed.
const TICKS_WOULD_SHOW: u64 = 16;
/// A busy CPU serves RCU at each grace period, which comes several times in this time, and the balancer.
const LONG_ENOUGH: Nanos = Nanos::from_millis(250);

impl Timeline {
    /// The first event of the CPU finds it idle.
    pub(crate) fn was_idle_before(&mut self, index: usize) {
        self.no_longer_unheard(index);
        let (start, now) = (self.world.start, self.world.now);
        let may_lack_events = self.may_lack_first_events();
        let cpu = &mut self.cpus[index];
        let id = cpu.id;
        // Where the recording has the first event of each CPU, it was idle beside what came: something kept that off.
        let came_long_ago = cpu.arrival.is_some_and(|arrival| now.since(arrival) > LEAVES_IDLE_WITHIN);
        if now == start || came_long_ago && (may_lack_events || cpu.was_left) {
            return;
        }
        cpu.occupancy.rename(ActorId::UNKNOWN, ActorId::IDLE, start, now);
        self.world.idle_until_heard.insert(id);
        // Waits that are not looked at know of less idle time elsewhere than there was.
        if self.world.tasks.len() > UNCOUNTED_STEPS && self.effort.is_spent() {
            self.effort.not_looked += 1;
            return;
        }
        self.effort.take(self.world.tasks.len());
        count_steps(self.world.tasks.len());
        let idle = &self.idle;
        for pending in self.world.tasks.pending_mut() {
            if let Some((group, before)) = &mut pending.idle_before
                && idle.has(*group, id)
            {
                pending.idle_carried = now.since(pending.start.max(start));
                *before = idle.total(*group, now);
            }
        }
    }

    /// The first event of the CPU finds it running a task, of this priority if the event tells. If no event has told of that
    /// task either, it ran all the time, unless others could not have waited beside it: then events are missing.
    pub(crate) fn ran_before(&mut self, index: usize, is_new: bool, prio: Option<Prio>) {
        self.no_longer_unheard(index);
        if is_new && !self.cpus[index].was_left && !self.would_have_yielded(index, prio) {
            let cpu = &mut self.cpus[index];
            cpu.occupancy.rename(ActorId::UNKNOWN, cpu.base, self.world.start, self.world.now);
        }
    }

    /// Whether a CPU's first events may be missing, and nothing in the recording says so.
    fn may_lack_first_events(&self) -> bool {
        let settings = &self.world.settings.0;
        !settings.marks_overwritten() && !settings.nothing_overwritten()
    }

    /// Whether a task that waits here would have had the CPU before now if one of this priority had been running all the time.
    fn would_have_yielded(&self, index: usize, prio: Option<Prio>) -> bool {
        let Some(prio) = prio else { return false };
        let limits_tell = prio.policy() == Policy::Rt && self.may_lack_first_events();
        self.cpus[index].queue.iter().any(|key| {
            let task = self.world.tasks.get(*key);
            let Some((since, _)) = task.waiting_since() else { return false };
            let waited = self.world.now.since(since);
            precedes(task.prio, prio) && waited > LEAVES_IDLE_WITHIN
                || limits_tell && task.prio.policy() == Policy::Fair && waited > REAL_TIME_YIELDS_WITHIN
        })
    }

    /// A task that was put on this CPU's queue is woken again: it has run and gone to sleep, and no event of the CPU says so.
    pub(crate) fn note_left(&mut self, at: CpuId) {
        let cpu = &mut self.cpus[at.index()];
        cpu.was_left |= !cpu.heard;
    }

    pub(crate) fn no_longer_unheard(&mut self, index: usize) {
        if let Some(unheard) = &mut self.unheard {
            unheard.remove(CpuId(index as u32));
            self.unheard = self.unheard.take().filter(|left: &CpuSet| !left.is_empty());
        }
    }

    /// Another CPU puts something on the runqueue of this one.
    #[inline]
    pub(crate) fn arrive(&mut self, from: usize, at: CpuId) {
        let now = self.world.now;
        let cpu = &mut self.cpus[at.index()];
        if !cpu.heard && at.index() != from {
            cpu.arrival.get_or_insert(now);
        }
    }

    /// Whether CPUs that issued no event were idle.
    pub(crate) fn judge_unheard(&mut self) {
        let Some(unheard) = self.unheard.take() else { return };
        if self.softirqs < TICKS_WOULD_SHOW || self.world.now.since(self.world.start) < LONG_ENOUGH {
            return;
        }
        let silent = (0..self.world.cpus).map(CpuId).filter(|cpu| unheard.contains(*cpu) && !self.is_unrecorded(*cpu));
        for cpu in silent.collect::<Vec<_>>() {
            let nothing_came = |known: &Cpu| known.arrival.is_none() && known.queue.is_empty();
            let was_idle = self.world.settings.0.is_idle_if_silent(cpu);
            if was_idle && self.cpus.get(cpu.index()).is_none_or(nothing_came) {
                self.world.idle_until_heard.insert(cpu);
            }
        }
    }
}
