//! Wakeups and moves.

use unstarve_model::{Context, CpuId, Event, EventKind, Nanos, TaskRef, Time};
use unstarve_sched::KernelThread;

use crate::cpus::Current;
use crate::opt_time::OptTime;
use crate::timeline::Timeline;
use crate::wake_graph::wake_chain::Basis;
use crate::wake_graph::workqueue::SleepLoss;
use crate::{Migration, Sink, State, TaskKey, WaitKind, Wake, Waker};

/// Clocks of CPUs differ, and so events of two CPUs may change places within this time.
const WAKINGS_OVERTAKE_WITHIN: Nanos = Nanos::from_micros(100);

impl Timeline {
    pub(crate) fn waking(&mut self, index: usize, event: &Event, task: &TaskRef, target: CpuId, sink: &mut impl Sink) {
        if task.tid().is_idle() || target.0 >= CpuId::LIMIT {
            return;
        }
        let now = self.world.now;
        let key = self.task(task);
        let known = self.world.tasks.get(key);
        if let Some(KernelThread::Ksoftirqd { cpu }) = known.kernel_thread
            && self.cpus[index].id == CpuId(cpu)
        {
            self.wakes_own_ksoftirqd(index, event);
        }
        let known = self.world.tasks.get(key);
        if known.state == State::Sleeping && known.pending.is_none() {
            // As nearly always: nothing has to be doubted.
            self.ran_last_on(key, target);
            return self.wake_up(index, event, key, target, (now, None), sink);
        }
        self.disprove(key);
        if self.is_woken(key)
            && let Some((_, cpu)) = self.world.tasks.get(key).waiting_since()
        {
            self.note_left(cpu);
        }
        self.ran_last_on(key, target);
        if self.has_been_away(key) {
            self.doubt_wait(key);
            self.world.tasks.get_mut(key).state = State::Unknown;
        }
        match self.world.tasks.get(key).state {
            State::Running(_) => self.world.tasks.get_mut(key).early_wake = OptTime::some(now),
            State::Dead => {}
            // One that lost the CPU on its way to sleep may be woken while it is still queued.
            State::Waiting if !self.is_woken(key) => {}
            State::Waiting => {
                self.lose_track_of_its_cpu(key, sink);
                self.drop_wait(key);
                self.world.tasks.get_mut(key).sleep_start = OptTime::NONE;
                self.wake_up(index, event, key, target, (now, None), sink);
            }
            State::Sleeping | State::Unknown => self.wake_up(index, event, key, target, (now, None), sink),
        }
    }

    /// The task is woken, and waits since then, if it is known from when on it is queued.
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
        self.cpu(target);
        self.report_wake(index, event, key, sink);
        self.begin_wait(key, WaitKind::Wakeup, target, start, queued);
    }

    /// Whether the task waits after a wakeup. The kernel then wakes it no more until it has run and gone to sleep
    /// (`ttwu_state_match` comes before the trace event): if it is woken, switches are missing.
    #[inline]
    pub(crate) fn is_woken(&self, key: TaskKey) -> bool {
        let task = self.world.tasks.get(key);
        task.pending.as_ref().is_some_and(|pending| {
            pending.kind == WaitKind::Wakeup && self.world.now.since(pending.start) > WAKINGS_OVERTAKE_WITHIN
        })
    }

    pub(crate) fn wakeup(&mut self, index: usize, event: &Event, task: &TaskRef, target: CpuId, sink: &mut impl Sink) {
        if task.tid().is_idle() || target.0 >= CpuId::LIMIT {
            return;
        }
        let now = self.world.now;
        self.cpu(target);
        self.arrive(index, target);
        self.places_recorded = true;
        let key = self.task(task);
        self.disprove(key);
        if self.has_been_away(key) {
            self.doubt_wait(key);
            self.world.tasks.get_mut(key).state = State::Unknown;
        }
        match self.world.tasks.get(key).state {
            State::Running(_) => self.world.tasks.get_mut(key).early_wake = OptTime::NONE,
            State::Dead => {}
            State::Waiting => {
                if self.world.tasks.get(key).pending.as_ref().is_some_and(|pending| pending.cpu != target) {
                    self.move_wait(key, target);
                }
                if let Some(pending) = &mut self.world.tasks.get_mut(key).pending
                    && pending.kind != WaitKind::Preemption
                {
                    pending.queued = OptTime::some(pending.queued.get().unwrap_or(now));
                }
            }
            State::Sleeping | State::Unknown => {
                let task = self.world.tasks.get_mut(key);
                let early = task.early_wake.take();
                let start = match (early, task.sleep_start.get()) {
                    (Some(early), Some(sleep)) => early.max(sleep),
                    _ => now,
                };
                self.wake_up(index, event, key, target, (start, Some(now)), sink);
            }
        }
    }

    pub(crate) fn wakeup_new(&mut self, index: usize, task: &TaskRef, target: CpuId) {
        if task.tid().is_idle() || target.0 >= CpuId::LIMIT {
            return;
        }
        let now = self.world.now;
        self.cpu(target);
        self.arrive(index, target);
        let key = self.task(task);
        self.disprove(key);
        if matches!(self.world.tasks.get(key).state, State::Unknown | State::Sleeping) {
            self.begin_wait(key, WaitKind::New, target, now, Some(now));
        }
    }

    pub(crate) fn migrate(&mut self, index: usize, task: &TaskRef, (from, to): (CpuId, CpuId), sink: &mut impl Sink) {
        if task.tid().is_idle() || to.0 >= CpuId::LIMIT {
            return;
        }
        let now = self.world.now;
        self.migrations_recorded = true;
        self.cpu(to);
        self.arrive(index, to);
        self.places_recorded = true;
        let key = self.task(task);
        let known = self.world.tasks.get_mut(key);
        known.moved |= from != to;
        if let Some(kind) = known.pending.as_ref().filter(|pending| pending.cpu != to).map(|pending| pending.kind) {
            if self.is_unrecorded(from) && !self.is_unrecorded(to) {
                // It comes back from where nobody saw what it did.
                self.doubt_wait(key);
                self.begin_wait(key, kind, to, now, Some(now));
            } else {
                self.move_wait(key, to);
            }
        } else if !matches!(known.state, State::Running(_)) {
            known.note_cpu(to);
        }
        sink.migration(&self.world, &Migration { task: key, time: now, from, to });
    }

    #[inline(always)]
    fn report_wake(&mut self, index: usize, event: &Event, key: TaskKey, sink: &mut impl Sink) {
        let now = self.world.now;
        let Origin { waker, debtor, basis, suspect } = self.waker(index, event, key);
        self.prices.clear();
        let sleep_start = self.world.tasks.get(key).sleep_start.get();
        let loss = self.loss_of_sleeper(key);
        let completes = self.requests.are_recorded() && self.hand_on_to_idler(index, event, key);
        if let SleepLoss::Since(since) | SleepLoss::OfOthers(since) = loss {
            if let Some(debtor) = debtor.filter(|debtor| *debtor != key) {
                self.world.tasks.get(debtor).debts.open_since(since, basis, &mut self.open_debts);
            }
            self.add_grace_period(index, waker, key, (since, basis));
            if completes {
                self.add_completed(index, event, since);
            }
            if !self.open_debts.is_empty() {
                let task = self.world.tasks.get_mut(key);
                task.debts.take_over(&mut self.open_debts, since, task.actor, &mut self.prices);
            }
        }
        if matches!(loss, SleepLoss::OfOthers(_)) {
            self.prices.clear();
        }
        let slept = sleep_start.map(|start| now.since(start));
        let cpu = self.cpus[index].id;
        let wake = Wake { wakee: key, waker, suspect, time: now, cpu, slept, prices: &self.prices };
        sink.wake(&self.world, &wake);
    }

    /// Who issues a wakeup: the current task, unless the CPU is serving an interrupt for somebody else. And whose waits
    /// the wakee has paid for: also those of a task whose message is delivered to it by a softirq.
    #[inline(always)]
    fn waker(&mut self, index: usize, event: &Event, wakee: TaskKey) -> Origin {
        let cpu = &self.cpus[index];
        // With remote wakeups the target CPU issues sched_wakeup from an interrupt; the waker issued sched_waking.
        if matches!(event.kind, EventKind::Wakeup { .. }) && self.waking_recorded {
            return Origin::UNKNOWN;
        }
        let by_interrupt = self.world.tasks.get(wakee).kernel_thread.is_some_and(KernelThread::is_woken_by_interrupts);
        if by_interrupt {
            return Origin { waker: Waker::Interrupt(None), ..Origin::UNKNOWN };
        }
        if event.issuer.context() == Context::Task {
            return match cpu.current {
                Current::Task(key) => Origin { waker: Waker::Task(key), debtor: Some(key), ..Origin::UNKNOWN },
                Current::Idle | Current::Unknown => Origin::UNKNOWN,
            };
        }
        let interrupt = match event.issuer.context() {
            Context::Hardirq | Context::Nmi => true,
            Context::Softirq => !cpu.serves_softirqs,
            Context::Task => false,
            Context::Unknown => !cpu.hardirqs.is_empty() || cpu.softirq.is_some() && !cpu.serves_softirqs,
        };
        let current = match cpu.current {
            Current::Task(key) => Some(key),
            Current::Idle | Current::Unknown => None,
        };
        let handler = cpu.hardirqs.last().copied().or(cpu.softirq).map(|handler| handler.actor);
        let raised = cpu.softirq.and_then(|softirq| softirq.raised_by_task).filter(|_| cpu.hardirqs.is_empty());
        let delivers = raised.is_some() && matches!(event.issuer.context(), Context::Softirq | Context::Unknown);
        // One that ends wakes its parent.
        let ends = current.is_some_and(|key| self.world.tasks.get(key).exited);
        let certain = event.issuer.context() != Context::Unknown || cpu.serves_softirqs || ends;
        if interrupt && !delivers {
            self.suspects.note_interrupt(event, self.world.tasks.get(wakee).actor);
            return Origin { waker: Waker::Interrupt(handler), ..Origin::UNKNOWN };
        }
        let believed = certain || self.is_waker(index, current, wakee);
        let debtor = current.filter(|_| believed);
        let inferred = !certain || delivers && raised == Some(Basis::Inferred);
        let basis = if inferred { Basis::Inferred } else { Basis::Seen };
        match (interrupt, debtor) {
            (true, _) => Origin { waker: Waker::Interrupt(handler), debtor, basis, suspect: None },
            (false, Some(key)) => Origin { waker: Waker::Task(key), debtor, basis, suspect: None },
            (false, None) => Origin { suspect: current, ..Origin::UNKNOWN },
        }
    }
}

/// Where a wakeup comes from.
#[derive(Clone, Copy, Debug)]
struct Origin {
    waker: Waker,
    /// Whose waits the wakee has paid for.
    debtor: Option<TaskKey>,
    /// How that is known.
    basis: Basis,
    /// Who was current, where that may be the waker or have been interrupted.
    suspect: Option<TaskKey>,
}

impl Origin {
    const UNKNOWN: Origin = Origin { waker: Waker::Unknown, debtor: None, basis: Basis::Seen, suspect: None };
}
