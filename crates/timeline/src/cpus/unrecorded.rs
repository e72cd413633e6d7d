//! CPUs that ran tasks and were not recorded (`perf record -C 1`, `trace-cmd report --cpu 1`).
//!
//! A task that leaves for such a CPU seems to wait until it turns up again. So only waits of tasks that cannot run there are
//! reported.

use std::cell::Cell;

use unstarve_model::{CpuId, Loss, LossKind, counted};

use crate::cpus::Cpus;
use crate::cpus::idle::{IdleGroup, IdleWatch};
use crate::effort::count_steps;
use crate::{State, Task, TaskKey, World};

/// What is known of CPUs that were not recorded.
#[derive(Debug, Default)]
pub(crate) struct UnrecordedCpus {
    /// Whether there are any: those that have issued no event so far.
    some: bool,
    /// Waits dropped for this reason.
    dropped: u64,
    /// For each watched set of CPUs: all its CPUs below this one have issued an event. A cache, because many waits ask this,
    /// and there may be thousands of CPUs.
    issued_below: [Cell<u32>; IdleWatch::LIMIT],
}

impl Cpus {
    /// The source recorded fewer CPUs than the machine has: those without events are the others.
    pub fn lacks_some(&mut self) {
        self.unrecorded.some = true;
    }

    /// Whether this CPU was not recorded.
    pub fn is_unrecorded(&self, cpu: CpuId) -> bool {
        self.unrecorded.some && !self.has_issued(cpu)
    }

    fn has_issued(&self, cpu: CpuId) -> bool {
        self.get(cpu).is_some_and(|known| known.presence().has_issued())
    }

    /// The task is being woken, and last ran on `previous`. If that CPU is silent, and the task was last seen elsewhere, or
    /// waited there and so must have run since, then it ran there unseen.
    #[inline]
    pub fn ran_last_on(&mut self, world: &World, key: TaskKey, previous: CpuId, places_recorded: bool) {
        if !self.unrecorded.some && !self.has_issued(previous) {
            self.ran_on_silent(world, key, previous, places_recorded);
        }
    }

    #[cold]
    fn ran_on_silent(&mut self, world: &World, key: TaskKey, previous: CpuId, places_recorded: bool) {
        let task = world.tasks.get(key);
        let went_there = task.last_cpu().is_some_and(|last| last != previous) && places_recorded;
        let was_queued_there =
            task.pending.as_ref().is_some_and(|pending| pending.cpu() == previous && pending.is_woken(world.now));
        self.unrecorded.some |= went_there || was_queued_there;
    }

    /// An event puts a waiting task on a queue although it only occurs for tasks that do not wait: it has been away.
    #[inline]
    pub fn has_been_away(&self, world: &World, key: TaskKey) -> bool {
        self.unrecorded.some && self.may_have_been_away(world, key)
    }

    #[cold]
    fn may_have_been_away(&self, world: &World, key: TaskKey) -> bool {
        let task = world.tasks.get(key);
        let Some(pending) = task.pending.as_ref().filter(|_| task.state == State::Waiting) else { return false };
        self.is_unrecorded(pending.cpu()) || pending.is_queued() && self.may_run_unseen(task, world.cpus)
    }

    /// Whether the task may run on a CPU that was not recorded, of this many CPUs.
    fn may_run_unseen(&self, task: &Task, cpus: u32) -> bool {
        !task.pinned && self.has_unrecorded(task.affinity.unwrap_or(IdleWatch::ALL), cpus)
    }

    /// Whether a CPU of this set was not recorded.
    fn has_unrecorded(&self, group: IdleGroup, cpus: u32) -> bool {
        let issued_below = &self.unrecorded.issued_below[group.place()];
        while issued_below.get() < cpus {
            let cpu = CpuId(issued_below.get());
            if self.is_unrecorded(cpu) && self.idle.has(group, cpu) {
                return true;
            }
            count_steps(1);
            issued_below.set(cpu.0 + 1);
        }
        false
    }

    /// Whether the wait that is about to end was real. A CPU that pulls or wakes a task issues the event itself: a task that
    /// may run on an unrecorded CPU can have been pulled there, slept, and been sent back unseen.
    #[inline]
    pub fn is_seen_waiting(&self, world: &World, key: TaskKey) -> bool {
        !self.unrecorded.some || self.cannot_have_left(world, key)
    }

    #[cold]
    fn cannot_have_left(&self, world: &World, key: TaskKey) -> bool {
        let task = world.tasks.get(key);
        let Some(pending) = &task.pending else { return true };
        !self.is_unrecorded(pending.cpu()) && !self.may_run_unseen(task, world.cpus)
    }

    /// Counts a wait that is dropped because its task may have run unseen.
    pub fn note_doubted_wait(&mut self) {
        self.unrecorded.dropped += 1;
    }

    /// Reports the CPUs that were not recorded, of this many.
    pub fn unrecorded_loss(&self, cpus: u32) -> Option<Loss> {
        let silent: Vec<u32> = (0..cpus).filter(|cpu| self.is_unrecorded(CpuId(*cpu))).collect();
        let names = ranges(&silent);
        let detail = match self.unrecorded.dropped {
            0 => names,
            dropped => format!("{names}; {} of tasks that may have run there are left out", counted(dropped, "wait")),
        };
        (!silent.is_empty()).then(|| Loss::new(LossKind::UnrecordedCpus, silent.len() as u64).with_detail(detail))
    }
}

/// `0, 2-3`.
fn ranges(sorted: &[u32]) -> String {
    let parts = sorted.chunk_by(|a, b| a + 1 == *b).filter_map(|run| {
        let (first, last) = (run.first()?, run.last()?);
        Some(if first == last { first.to_string() } else { format!("{first}-{last}") })
    });
    parts.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    #[test]
    fn neighbours_are_a_range() {
        assert_eq!(super::ranges(&[0, 2, 3, 4, 7]), "0, 2-4, 7");
    }
}
