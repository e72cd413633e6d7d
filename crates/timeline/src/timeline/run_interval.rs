//! What a task was while it had a CPU.
//!
//! The switch to it names it as it was then. A stay may change that: `chrt`, `nice` and `exec` do, and so does a lock with
//! priority inheritance. The switch away from it names what became of it.

use unstarve_model::{Comm, Prio, Tid};
use unstarve_sched::precedes;

use crate::machine::Machine;
use crate::opt_time::OptTime;
use crate::tasks::RunState;
use crate::timeline::Timeline;
use crate::waits::Correction;
use crate::{ActorId, Nature, RunEnd, Sink, State, TaskKey, Tasks, World};

impl Timeline {
    /// The stay of the task on this CPU ends, and the task is what its state says now: puts the stay right, and with it
    /// the waits that lasted meanwhile. Returns whose stay it was.
    #[inline(always)]
    pub(super) fn close_stay(&mut self, index: usize, key: TaskKey, sink: &mut impl Sink) -> ActorId {
        let holder = self.machine.cpus[index].holder();
        // Nearly all tasks leave as they came.
        if !self.waits.depend_on_stay(index) && self.machine.world.tasks.get(key).actor == holder {
            return holder;
        }
        self.put_right(index, key, sink)
    }

    #[inline(never)]
    fn put_right(&mut self, index: usize, key: TaskKey, sink: &mut impl Sink) -> ActorId {
        let Machine { world, cpus, .. } = &mut self.machine;
        let was = cpus[index].holder();
        let correction = if world.tasks.get(key).actor == was { None } else { correction(world, key, was) };
        if let Some(Correction { was, is, from }) = correction {
            cpus[index].correct_holder(was, is, from, world.now);
            rename_preemptor(&mut world.tasks, key, is);
        }
        if self.waits.depend_on_stay(index) {
            let missing = self.losses.switches_are_missing();
            self.waits.settle_stay(index, correction.as_ref(), world, missing, sink);
        }
        correction.map_or(was, |correction| correction.is)
    }

    /// The task has taken another program. If the event does not give its new name, a later one will.
    pub(super) fn exec(&mut self, tid: Tid, comm: Comm, sink: &mut impl Sink) {
        let Some(key) = self.machine.world.tasks.find(tid) else { return };
        self.change(key, comm, None, sink);
        let now = self.machine.world.now;
        let task = self.machine.world.tasks.get_mut(key);
        if matches!(task.state, State::Running(_)) {
            task.run.exec = OptTime::some(now);
        }
        self.machine.set_nature(key, Nature::Program);
    }

    /// The task has another name from now on.
    pub(super) fn rename(&mut self, tid: Option<Tid>, comm: Comm, sink: &mut impl Sink) {
        if let Some(key) = tid.and_then(|tid| self.machine.world.tasks.find(tid)) {
            self.change(key, comm, None, sink);
        }
    }

    /// The task has another priority from now on.
    pub(super) fn set_prio(&mut self, tid: Tid, prio: Prio, sink: &mut impl Sink) {
        if let Some(key) = self.machine.world.tasks.find(tid) {
            self.change(key, Comm::default(), Some(prio), sink);
        }
    }

    /// The task has this name and priority, as far as they are known, from now on. Of a stay what came before remains what
    /// it was.
    fn change(&mut self, key: TaskKey, comm: Comm, prio: Option<Prio>, sink: &mut impl Sink) {
        let task = self.machine.world.tasks.get_mut(key);
        let is_new = !comm.is_unknown() && comm != task.comm || prio.is_some_and(|prio| prio != task.prio);
        let State::Running(cpu) = task.state else { return self.machine.update(key, &comm, prio) };
        if !is_new {
            return;
        }
        let victim = task.run.victim.take();
        let RunState { since, start_seen, .. } = task.run;
        let before = task.run.stayed(self.machine.world.now);
        self.end_run(cpu.index(), RunEnd::Cut, sink);
        self.machine.update(key, &comm, prio);
        self.begin_run(cpu.index(), key, start_seen);
        self.machine.settle(cpu.index());
        let task = self.machine.world.tasks.get_mut(key);
        task.run = RunState { since, before, victim, ..task.run };
        let actor = task.actor;
        // The task that it pushed off is still pushed off by the same stay.
        rename_preemptor(&mut self.machine.world.tasks, key, actor);
    }
}

/// What the stay was, where that differs from what it began as.
///
/// Only events of their own show when (see `change`), an exec among them. Otherwise what the task was at the end holds for the whole stay:
/// a task that changes itself does so before it does its work; `chrt` and `nice` run for a moment, their programs for long. Except for a
/// task that goes down: it mostly gives a lock back, and with it the CPU.
fn correction(world: &World, key: TaskKey, was: ActorId) -> Option<Correction> {
    let task = world.tasks.get(key);
    let before = world.actors.get(was).prio();
    if task.run.exec.is_none() && before.is_some_and(|before| precedes(before, task.prio)) {
        return None;
    }
    let from = task.run.exec.get().map_or(task.run.start, |exec| exec.max(task.run.start));
    Some(Correction { was, is: task.actor, from })
}

/// The task, which pushed another off its CPU, turns out to be this actor.
fn rename_preemptor(tasks: &mut Tasks, key: TaskKey, is: ActorId) {
    let run = &tasks.get(key).run;
    let (Some(victim), since) = (run.victim, run.since) else { return };
    if let Some(pending) = &mut tasks.get_mut(victim).pending
        && let Some(preemptor) = pending.stay_of_preemptor(key, since)
    {
        preemptor.become_actor(is);
    }
}
