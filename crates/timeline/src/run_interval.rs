//! What a task was while it had a CPU.
//!
//! The switch to it names it as it was then. A stay may change that: `chrt`, `nice` and `exec` do, and so does a lock with
//! priority inheritance. The switch away from it names what became of it.

use unstarve_model::{Comm, Prio, Tid};
use unstarve_sched::precedes;

use crate::deferred_waits::Correction;
use crate::opt_time::OptTime;
use crate::task::RunState;
use crate::timeline::Timeline;
use crate::{ActorId, Nature, RunEnd, Sink, State, TaskKey};

impl Timeline {
    /// The stay of the task on this CPU ends, and the task is what its state says now: puts the stay right, and with it
    /// the waits that lasted meanwhile. Returns whose stay it was.
    #[inline(always)]
    pub(crate) fn close_stay(&mut self, index: usize, key: TaskKey, sink: &mut impl Sink) -> ActorId {
        let cpu = &self.cpus[index];
        // Nearly all tasks leave as they came.
        if cpu.open.is_empty() && self.world.tasks.get(key).actor == cpu.base {
            return cpu.base;
        }
        self.put_right(index, key, sink)
    }

    #[inline(never)]
    fn put_right(&mut self, index: usize, key: TaskKey, sink: &mut impl Sink) -> ActorId {
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
    /// Only events of their own tell when (see `change`), an exec among them. Otherwise what the task was at the end holds for the whole stay, for who changes himself
    /// does so before he does his work: `chrt` and `nice` run for a moment, their programs for long. Except for a task that
    /// goes down: it mostly gives a lock back, and with it the CPU.
    fn correction(&self, key: TaskKey, was: ActorId) -> Option<Correction> {
        let task = self.world.tasks.get(key);
        let before = self.world.actors.get(was).prio();
        if task.run.exec.is_none() && before.is_some_and(|before| precedes(before, task.prio)) {
            return None;
        }
        let from = task.run.exec.get().map_or(task.run.start, |exec| exec.max(task.run.start));
        Some(Correction { was, is: task.actor, from })
    }

    fn rename_preemptor(&mut self, key: TaskKey, is: ActorId) {
        let run = &self.world.tasks.get(key).run;
        let (Some(victim), since) = (run.victim, run.since) else { return };
        if let Some(pending) = &mut self.world.tasks.get_mut(victim).pending
            && let Some(preemptor) = &mut pending.preemptor
            && preemptor.task == key
            && preemptor.since == since
        {
            preemptor.became = is;
        }
    }

    /// The task has taken another program. If the event does not give its new name, a later one will.
    pub(crate) fn exec(&mut self, tid: Tid, comm: Comm, sink: &mut impl Sink) {
        let Some(key) = self.world.tasks.find(tid) else { return };
        self.change(key, comm, None, sink);
        let now = self.world.now;
        let task = self.world.tasks.get_mut(key);
        if matches!(task.state, State::Running(_)) {
            task.run.exec = OptTime::some(now);
        }
        self.set_nature(key, Nature::Program);
    }

    /// The task has another name from now on.
    pub(crate) fn rename(&mut self, tid: Option<Tid>, comm: Comm, sink: &mut impl Sink) {
        if let Some(key) = tid.and_then(|tid| self.world.tasks.find(tid)) {
            self.change(key, comm, None, sink);
        }
    }

    /// The task has another priority from now on.
    pub(crate) fn set_prio(&mut self, tid: Tid, prio: Prio, sink: &mut impl Sink) {
        if let Some(key) = self.world.tasks.find(tid) {
            self.change(key, Comm::default(), Some(prio), sink);
        }
    }

    /// The task has this name and priority, as far as they are known, from now on. Of a stay what came before remains what
    /// it was.
    fn change(&mut self, key: TaskKey, comm: Comm, prio: Option<Prio>, sink: &mut impl Sink) {
        let task = self.world.tasks.get_mut(key);
        let is_new = !comm.is_unknown() && comm != task.comm || prio.is_some_and(|prio| prio != task.prio);
        let State::Running(cpu) = task.state else { return self.update(key, &comm, prio) };
        if !is_new {
            return;
        }
        let victim = task.run.victim.take();
        let RunState { since, start_seen, .. } = task.run;
        let before = task.run.stayed(self.world.now);
        self.end_run(cpu.index(), RunEnd::Cut, sink);
        self.update(key, &comm, prio);
        self.begin_run(cpu.index(), key, start_seen);
        self.cpus[cpu.index()].settle(self.world.now);
        let task = self.world.tasks.get_mut(key);
        task.run = RunState { since, before, victim, ..task.run };
        let actor = task.actor;
        // Whom it pushed off is still pushed off by the same stay.
        self.rename_preemptor(key, actor);
    }
}
