//! Infers what a CPU did before its first event.
//!
//! It issued no switch, so it did the same all the time as at that event, unless events of other CPUs contradict that
//! (overwritten ring buffers begin at different times, and only some formats mark that).

use unstarve_model::{CpuId, CpuSet, Nanos, Policy, Prio};
use unstarve_sched::precedes;

use crate::cpus::{Cpu, Cpus};
use crate::effort::{Effort, UNCOUNTED_STEPS, count_steps};
use crate::run_queues::{RunQueue, RunQueues};
use crate::{ActorId, Settings, World};

/// An idle CPU runs a task from its run queue within the time that it needs to leave idle, also a vCPU.
const LEAVES_IDLE_WITHIN: Nanos = Nanos::from_millis(5);

/// Real-time throttling gives the fair class 50 ms of each second, the fair server (6.12) runs it after a second without a run.
/// If the budget is used at the end of one period and at the start of the next, at most 1.9 s pass.
pub(crate) const REAL_TIME_YIELDS_WITHIN: Nanos = Nanos::from_millis(2000);

/// Number of softirqs in a trace from which on softirqs were recorded and needed.
const TICKS_WOULD_SHOW: u64 = 16;
/// A busy CPU serves RCU at each grace period, several times within this time, and the load balancer.
const LONG_ENOUGH: Nanos = Nanos::from_millis(250);

impl Cpus {
    /// The first event of the CPU shows it idle.
    pub fn was_idle_before(&mut self, index: usize, world: &mut World, effort: &mut Effort) {
        self.no_longer_unheard(index);
        let (start, now) = (world.start, world.now);
        let cpu = &mut self.list[index];
        let id = cpu.id;
        // If the recording has the first event of each CPU, it was idle while a task was on its queue: something kept the task
        // off.
        let came_long_ago = cpu.presence.first_arrival().is_some_and(|arrival| now.since(arrival) > LEAVES_IDLE_WITHIN);
        if now == start || came_long_ago && (may_lack_first_events(world.settings()) || cpu.presence.was_left()) {
            return;
        }
        cpu.occupancy.rename(ActorId::UNKNOWN, ActorId::IDLE, start, now);
        world.idle_until_heard.insert(id);
        // Waits that are skipped lack a part of the idle time elsewhere.
        if world.tasks.len() > UNCOUNTED_STEPS && effort.is_spent() {
            effort.skip_look();
            return;
        }
        effort.take(world.tasks.len());
        count_steps(world.tasks.len());
        for pending in world.tasks.pending_mut() {
            pending.add_idle_before(&self.idle, id, (start, now));
        }
    }

    /// The first event of the CPU shows it running a task, with this priority if the event has one. If that task is new, too,
    /// it ran all the time, unless others could not have waited next to it that long: then events are missing.
    pub fn ran_before(&mut self, index: usize, is_new: bool, prio: Option<Prio>, queue: &RunQueue, world: &World) {
        self.no_longer_unheard(index);
        let cpu = &mut self.list[index];
        if is_new && !cpu.presence.was_left() && !would_have_yielded(queue, prio, world) {
            cpu.occupancy.rename(ActorId::UNKNOWN, cpu.holder.actor, world.start, world.now);
        }
    }

    /// The CPU has issued an event that shows what it does.
    pub fn no_longer_unheard(&mut self, index: usize) {
        if let Some(unheard) = &mut self.unheard {
            unheard.remove(CpuId(index as u32));
            self.unheard = self.unheard.take().filter(|left: &CpuSet| !left.is_empty());
        }
    }

    /// The trace is over: infers from its number of softirqs which CPUs without any event were idle.
    pub fn judge_unheard(&mut self, softirqs: u64, queues: &RunQueues, world: &mut World) {
        let Some(unheard) = self.unheard.take() else { return };
        if softirqs < TICKS_WOULD_SHOW || world.now.since(world.start) < LONG_ENOUGH {
            return;
        }
        let nothing_came = |known: &Cpu| known.presence.first_arrival().is_none() && queues[known.index()].is_empty();
        for cpu in (0..world.cpus).map(CpuId).filter(|cpu| unheard.contains(*cpu) && !self.is_unrecorded(*cpu)) {
            if world.settings.0.is_idle_if_silent(cpu) && self.get(cpu).is_none_or(nothing_came) {
                world.idle_until_heard.insert(cpu);
            }
        }
    }
}

/// Whether a CPU's first events may be missing without a mark in the recording.
fn may_lack_first_events(settings: &dyn Settings) -> bool {
    !settings.marks_overwritten() && !settings.nothing_overwritten()
}

/// Whether a task waiting here would have run before now if a task of this priority had been running all the time.
fn would_have_yielded(queue: &RunQueue, prio: Option<Prio>, world: &World) -> bool {
    let Some(prio) = prio else { return false };
    let limits_tell = prio.policy() == Policy::Rt && may_lack_first_events(world.settings());
    queue.waiting().iter().any(|key| {
        let task = world.tasks.get(*key);
        let Some((since, _)) = task.waiting_since() else { return false };
        let waited = world.now.since(since);
        precedes(task.prio, prio) && waited > LEAVES_IDLE_WITHIN
            || limits_tell && task.prio.policy() == Policy::Fair && waited > REAL_TIME_YIELDS_WITHIN
    })
}
