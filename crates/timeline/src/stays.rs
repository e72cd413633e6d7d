//! What a task was while it had a CPU.
//!
//! The switch to it names it as it was then. A stay may change that: `chrt`, `nice` and `exec` do, and so does a lock with
//! priority inheritance. The switch away from it names what became of it.

use unstarve_model::{Policy, Prio, Time};

use crate::held::Correction;
use crate::timeline::Timeline;
use crate::{ActorId, Sink, TaskKey};

/// Whether `a` always runs before `b`: a higher class, or a higher real-time priority.
pub(crate) fn goes_before(a: Prio, b: Prio) -> bool {
    let (one, other) = (a.policy(), b.policy());
    one.is_above(other) || one == other && one == Policy::Rt && a < b
}

impl Timeline {
    /// The stay of the task on this CPU ends, and the task is what its state says now: puts the stay right, and with it
    /// the waits that lasted meanwhile. Returns whose stay it was.
    pub(crate) fn close_stay(&mut self, index: usize, key: TaskKey, sink: &mut impl Sink) -> ActorId {
        let was = self.cpus[index].base;
        let correction = if self.world.tasks.get(key).actor == was { None } else { self.correction(key, was) };
        if let Some(Correction { was, is, from }) = correction {
            let now = self.world.now;
            let cpu = &mut self.cpus[index];
            cpu.occupancy.rename(was, is, from, now);
            cpu.base = is;
            self.rename_preemptor(key, is);
        }
        if !self.cpus[index].open.is_empty() {
            self.settle_open(index, correction.as_ref(), sink);
        }
        correction.map_or(was, |correction| correction.is)
    }

    /// What the stay was, where that differs from what it began as.
    ///
    /// Only an exec tells when. Otherwise what the task was at the end holds for the whole stay, for who changes himself
    /// does so before he does his work: `chrt` and `nice` run for a moment, their programs for long. Except for a task that
    /// goes down: it mostly gives a lock back, and with it the CPU.
    fn correction(&self, key: TaskKey, was: ActorId) -> Option<Correction> {
        let task = self.world.tasks.get(key);
        let before = self.world.actors.get(was).prio();
        if task.run.exec.is_none() && before.is_some_and(|before| goes_before(before, task.prio)) {
            return None;
        }
        let from = task.run.exec.map_or(task.run.start, |exec| exec.max(task.run.start));
        Some(Correction { was, is: task.actor, from })
    }

    fn rename_preemptor(&mut self, key: TaskKey, is: ActorId) {
        let run = &self.world.tasks.get(key).run;
        let (Some(victim), since) = (run.victim, run.start) else { return };
        if let Some(pending) = &mut self.world.tasks.get_mut(victim).pending
            && let Some(preemptor) = &mut pending.preemptor
            && preemptor.task == key
            && preemptor.since == since
        {
            preemptor.became = Some(is);
        }
    }

    /// The task has taken another program; its new name comes with a later event.
    pub(crate) fn exec(&mut self, key: TaskKey, now: Time) {
        let task = self.world.tasks.get_mut(key);
        if matches!(task.state, crate::State::Running(_)) {
            task.run.exec = Some(now);
        }
    }
}
