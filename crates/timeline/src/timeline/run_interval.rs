//! Runs in which the task changes.
//!
//! The switch to a task shows its name and priority at that time. `chrt`, `nice`, `exec` and priority inheritance change them
//! during the run. The switch away shows the new ones.

use unstarve_model::{Comm, Prio, Tid};
use unstarve_sched::precedes;

use crate::machine::Machine;
use crate::opt_time::OptTime;
use crate::tasks::RunState;
use crate::timeline::Timeline;
use crate::waits::Correction;
use crate::{ActorId, Nature, RunEnd, Sink, State, TaskKey, Tasks, World};

impl Timeline {
    /// The task's run on this CPU ends, and its current state shows what it was: corrects the run, and the waits during it.
    /// Returns the run's actor.
    #[inline(always)]
    pub(super) fn close_stay(&mut self, index: usize, key: TaskKey, sink: &mut impl Sink) -> ActorId {
        let holder = self.machine.cpus[index].holder();
        // Almost all tasks leave unchanged.
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

    /// The task executed another program. If the event lacks its new name, a later event has it.
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

    /// The task is renamed.
    pub(super) fn rename(&mut self, tid: Option<Tid>, comm: Comm, sink: &mut impl Sink) {
        if let Some(key) = tid.and_then(|tid| self.machine.world.tasks.find(tid)) {
            self.change(key, comm, None, sink);
        }
    }

    /// The task's priority changes.
    pub(super) fn set_prio(&mut self, tid: Tid, prio: Prio, sink: &mut impl Sink) {
        if let Some(key) = self.machine.world.tasks.find(tid) {
            self.change(key, Comm::default(), Some(prio), sink);
        }
    }

    /// At the end of the trace, tasks that have a CPU may have raised themselves since their last event. The host shows that if
    /// it was read after they got the CPU; what was read before is older than the event. A lower priority than by events is not
    /// believed: the host does not show the one that a lock's owner inherits.
    pub(super) fn read_prios(&mut self, sink: &mut impl Sink) {
        for index in 0..self.machine.cpus.len() {
            let Machine { world, cpus, .. } = &self.machine;
            let Some(key) = cpus[index].task() else { continue };
            let task = world.tasks.get(key);
            let Some((time, prio)) = world.settings().read_prio(task.tid) else { continue };
            if time >= task.run.start && (prio < task.prio || !task.ranked) {
                self.machine.update(key, &Comm::default(), Some(prio));
                self.put_right(index, key, sink);
            }
        }
    }

    /// The task has this name and priority, if given, from now on. The earlier part of its run keeps the old ones.
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
        // The preempted task is still preempted by the same run.
        rename_preemptor(&mut self.machine.world.tasks, key, actor);
    }
}

/// The correction of a run that differs from what it started as. Only separate events, including exec, show when the change
/// happened (see `change`). Otherwise the final state counts for the whole run: a task that changes itself does so before its
/// main work, and `chrt` and `nice` run for a moment, but their programs for long. The exception is a task whose priority
/// drops: it usually releases a lock, and with it the CPU.
fn correction(world: &World, key: TaskKey, was: ActorId) -> Option<Correction> {
    let task = world.tasks.get(key);
    let before = world.actors.get(was).prio();
    if task.run.exec.is_none() && before.is_some_and(|before| precedes(before, task.prio)) {
        return None;
    }
    let from = task.run.exec.get().map_or(task.run.start, |exec| exec.max(task.run.start));
    Some(Correction { was, is: task.actor, from })
}

/// The task that preempted another one turns out to be this actor.
fn rename_preemptor(tasks: &mut Tasks, key: TaskKey, is: ActorId) {
    let run = &tasks.get(key).run;
    let (Some(victim), since) = (run.victim, run.since) else { return };
    if let Some(pending) = &mut tasks.get_mut(victim).pending
        && let Some(preemptor) = pending.stay_of_preemptor(key, since)
    {
        preemptor.become_actor(is);
    }
}
