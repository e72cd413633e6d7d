//! Handles wakeups and migrations.

use unstarve_model::{CpuId, Event, TaskRef, Time};
use unstarve_sched::KernelThread;

use crate::machine::Machine;
use crate::opt_time::OptTime;
use crate::timeline::Timeline;
use crate::waits::{Pending, begin};
use crate::{Migration, Sink, State, TaskKey, WaitKind};

impl Timeline {
    pub(super) fn waking(&mut self, index: usize, event: &Event, task: &TaskRef, target: CpuId, sink: &mut impl Sink) {
        if task.tid().is_idle() || target.0 >= CpuId::LIMIT {
            return;
        }
        let now = self.machine.world.now;
        let key = self.machine.task(task);
        let Machine { world, cpus, interrupts, .. } = &mut self.machine;
        let known = world.tasks.get(key);
        if let Some(KernelThread::Ksoftirqd { cpu }) = known.kernel_thread
            && cpus[index].id() == CpuId(cpu)
        {
            interrupts.ksoftirqd_woken(&cpus[index], event);
        }
        let places = self.recorded.has_places();
        if known.state == State::Sleeping && known.pending.is_none() {
            // Almost always: nothing is doubtful.
            cpus.ran_last_on(world, key, target, places);
            return self.wake_up(index, event, key, target, (now, None), sink);
        }
        self.waits.disprove(&mut self.machine, key);
        let Machine { world, cpus, .. } = &mut self.machine;
        let is_woken = |pending: &&Pending| pending.is_woken(world.now);
        if let Some(pending) = world.tasks.get(key).pending.as_ref().filter(is_woken) {
            cpus[pending.cpu().index()].presence_mut().note_left();
        }
        cpus.ran_last_on(world, key, target, places);
        self.doubt_if_away(key);
        match self.machine.world.tasks.get(key).state {
            State::Running(_) => self.machine.world.tasks.get_mut(key).early_wake = OptTime::some(now),
            State::Dead => {}
            // A task that lost the CPU on its way to sleep may be woken while it is still queued.
            State::Waiting if !self.is_woken(key) => {}
            State::Waiting => {
                self.lose_track_of_its_cpu(key, sink);
                self.waits.drop_wait(&mut self.machine, key);
                self.machine.world.tasks.get_mut(key).sleep_start = OptTime::NONE;
                self.wake_up(index, event, key, target, (now, None), sink);
            }
            State::Sleeping | State::Unknown => self.wake_up(index, event, key, target, (now, None), sink),
        }
    }

    /// The task is woken and waits from now on, if it is known when it is queued.
    #[inline(never)]
    fn wake_up(
        &mut self,
        index: usize,
        event: &Event,
        key: TaskKey,
        target: CpuId,
        (start, queued): (Time, Option<Time>),
        sink: &mut impl Sink,
    ) {
        self.machine.cpu(target);
        self.wake_graph.report_wake(&mut self.machine, index, event, key, self.recorded.has_waking(), sink);
        begin(&mut self.machine, key, WaitKind::Wakeup, target, (start, queued));
    }

    fn is_woken(&self, key: TaskKey) -> bool {
        let world = &self.machine.world;
        world.tasks.get(key).pending.as_ref().is_some_and(|pending| pending.is_woken(world.now))
    }

    /// The CPU `from` puts a task on the run queue of this one.
    #[inline]
    fn arrive(&mut self, from: usize, at: CpuId) {
        let index = self.machine.cpu(at);
        if index != from {
            self.machine.cpus[index].presence_mut().note_arrival(self.machine.world.now);
        }
    }

    /// The task cannot have waited all the time when an event puts it on a queue: its wait is dropped.
    #[inline]
    fn doubt_if_away(&mut self, key: TaskKey) {
        if self.machine.cpus.has_been_away(&self.machine.world, key) {
            self.doubt_wait(key);
            self.machine.world.tasks.get_mut(key).state = State::Unknown;
        }
    }

    pub(super) fn wakeup(&mut self, index: usize, event: &Event, task: &TaskRef, target: CpuId, sink: &mut impl Sink) {
        if task.tid().is_idle() || target.0 >= CpuId::LIMIT {
            return;
        }
        let now = self.machine.world.now;
        self.arrive(index, target);
        self.recorded.note_place();
        let key = self.machine.task(task);
        self.waits.disprove(&mut self.machine, key);
        self.doubt_if_away(key);
        match self.machine.world.tasks.get(key).state {
            State::Running(_) => self.machine.world.tasks.get_mut(key).early_wake = OptTime::NONE,
            State::Dead => {}
            State::Waiting => {
                let pending = self.machine.world.tasks.get(key).pending.as_ref();
                if pending.is_some_and(|pending| pending.cpu() != target) {
                    self.waits.move_to(&mut self.machine, key, target);
                }
                if let Some(pending) = &mut self.machine.world.tasks.get_mut(key).pending {
                    pending.note_queued(now);
                }
            }
            State::Sleeping | State::Unknown => {
                let task = self.machine.world.tasks.get_mut(key);
                let early = task.early_wake.take();
                let start = match (early, task.sleep_start.get()) {
                    (Some(early), Some(sleep)) => early.max(sleep),
                    _ => now,
                };
                self.wake_up(index, event, key, target, (start, Some(now)), sink);
            }
        }
    }

    pub(super) fn wakeup_new(&mut self, index: usize, task: &TaskRef, target: CpuId) {
        if task.tid().is_idle() || target.0 >= CpuId::LIMIT {
            return;
        }
        let now = self.machine.world.now;
        self.arrive(index, target);
        let key = self.machine.task(task);
        self.waits.disprove(&mut self.machine, key);
        if matches!(self.machine.world.tasks.get(key).state, State::Unknown | State::Sleeping) {
            begin(&mut self.machine, key, WaitKind::New, target, (now, Some(now)));
        }
    }

    pub(super) fn migrate(&mut self, index: usize, task: &TaskRef, (from, to): (CpuId, CpuId), sink: &mut impl Sink) {
        if task.tid().is_idle() || to.0 >= CpuId::LIMIT {
            return;
        }
        let now = self.machine.world.now;
        self.recorded.note_migration();
        self.arrive(index, to);
        let key = self.machine.task(task);
        let Machine { world, cpus, .. } = &mut self.machine;
        let known = world.tasks.get_mut(key);
        known.moved |= from != to;
        if let Some(kind) = known.pending.as_ref().filter(|pending| pending.cpu() != to).map(Pending::kind) {
            if cpus.is_unrecorded(from) && !cpus.is_unrecorded(to) {
                // It returns from a CPU where it was not recorded.
                self.doubt_wait(key);
                begin(&mut self.machine, key, kind, to, (now, Some(now)));
            } else {
                self.waits.move_to(&mut self.machine, key, to);
            }
        } else if !matches!(known.state, State::Running(_)) {
            known.note_cpu(to);
        }
        sink.migration(&self.machine.world, &Migration { task: key, time: now, from, to });
    }
}
