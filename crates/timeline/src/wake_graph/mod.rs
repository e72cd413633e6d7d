//! Which task woke which, and what the waker's waits cost the sleeper.

mod block_requests;
mod rcu_grace_periods;
pub(crate) mod wake_chain;
mod waker_inference;
mod workqueue;

use unstarve_model::{BlockRequest, Context, Event, EventKind, NameId, Nanos, Time};
use unstarve_sched::KernelThread;

use crate::interrupts::Raise;
use crate::machine::Machine;
use crate::wake_graph::block_requests::Requests;
pub(crate) use crate::wake_graph::block_requests::Stage;
use crate::wake_graph::rcu_grace_periods::{drives_grace_periods, is_callback, may_sleep_for_grace_period};
use crate::wake_graph::wake_chain::{Basis, Debt, Debts, latest_first};
use crate::wake_graph::waker_inference::WakerInference;
use crate::wake_graph::workqueue::{SleepLoss, WorkTable};
use crate::{ActorId, Price, Sink, TaskKey, Wake, Waker, World};

/// What is known of wakers, besides each task's debts.
#[derive(Debug, Default)]
pub(crate) struct WakeGraph {
    inference: WakerInference,
    work: WorkTable,
    requests: Requests,
    /// Waits of the threads that drive RCU grace periods.
    grace_periods: Debts,
    /// Kept to save allocations.
    open_debts: Vec<Debt>,
    prices: Vec<Price>,
}

impl WakeGraph {
    /// An event came, whose context may be unknown.
    #[inline(always)]
    pub fn note_context(&mut self, index: usize, now: Time, event: &Event) {
        if event.issuer.context() == Context::Unknown {
            self.inference.begin(index, now);
        }
    }

    /// The actor has had the CPU for this long.
    #[inline(always)]
    pub fn add_stay(&mut self, index: usize, actor: ActorId, stay: Nanos) {
        self.inference.add_stay(index, actor, stay);
    }

    /// Events of this CPU are missing.
    pub fn lose(&mut self, index: usize) {
        self.requests.lose(index);
    }

    /// The task's wait is about to end: tasks that it wakes may have slept until then.
    #[inline(always)]
    pub fn note_wait(&mut self, world: &mut World, key: TaskKey) {
        let now = world.now;
        let task = world.tasks.get_mut(key);
        let Some(pending) = &task.pending else { return };
        task.debts.push(pending.actor(), pending.start(), now);
        if drives_grace_periods(task.kernel_thread, &task.comm) {
            self.grace_periods.push(pending.actor(), pending.start(), now);
        }
    }

    /// A wakeup: finds the waker, and the cost of its waits for the wakee.
    #[inline(always)]
    pub fn report_wake(
        &mut self,
        machine: &mut Machine,
        index: usize,
        event: &Event,
        key: TaskKey,
        waking_recorded: bool,
        sink: &mut impl Sink,
    ) {
        let now = machine.world.now;
        // For remote wakeups the target CPU issues sched_wakeup from an interrupt; the waker issued sched_waking.
        let is_remote = matches!(event.kind, EventKind::Wakeup { .. }) && waking_recorded;
        let origin = if is_remote { Origin::UNKNOWN } else { self.origin(machine, index, event, key) };
        let Origin { waker, debtor, basis, suspect } = origin;
        self.prices.clear();
        let sleep_start = machine.world.tasks.get(key).sleep_start.get();
        let loss = self.work.loss_of_sleeper(machine.world.tasks.get(key));
        let completes = self.requests.are_recorded() && !is_remote && self.hand_on_to_idler(machine, index, event, key);
        if let SleepLoss::Since(since) | SleepLoss::OfOthers(since) = loss {
            if let Some(debtor) = debtor.filter(|debtor| *debtor != key) {
                machine.world.tasks.get(debtor).debts.open_since(since, basis, &mut self.open_debts);
            }
            if !self.grace_periods.is_settled(since) && is_callback(machine, index, waker) {
                self.add_grace_period(&machine.world, key, (since, basis));
            }
            if completes {
                self.add_completed(machine, index, event, since);
            }
            if !self.open_debts.is_empty() {
                let task = machine.world.tasks.get_mut(key);
                task.debts.take_over(&mut self.open_debts, since, task.actor, &mut self.prices);
            }
        }
        if matches!(loss, SleepLoss::OfOthers(_)) {
            self.prices.clear();
        }
        let slept = sleep_start.map(|start| now.since(start));
        let current = event.issuer.current();
        let wake = Wake { wakee: key, waker, suspect, current, time: now, cpu: event.cpu, slept, prices: &self.prices };
        sink.wake(&machine.world, &wake);
    }

    /// Finds the waker: the current task, unless the CPU is serving an interrupt that the task did not cause. Also finds the task
    /// whose waits delayed the wakee: it may have sent a message that a softirq delivers.
    #[inline(always)]
    fn origin(&mut self, machine: &Machine, index: usize, event: &Event, wakee: TaskKey) -> Origin {
        let (cpu, handlers) = machine.at(index);
        let tasks = &machine.world.tasks;
        let by_interrupt = tasks.get(wakee).kernel_thread.is_some_and(KernelThread::is_woken_by_interrupts);
        if by_interrupt {
            return Origin { waker: Waker::Interrupt(None), ..Origin::UNKNOWN };
        }
        if event.issuer.context() == Context::Task {
            return match cpu.task() {
                Some(key) => Origin { waker: Waker::Task(key), debtor: Some(key), ..Origin::UNKNOWN },
                None => Origin::UNKNOWN,
            };
        }
        let interrupt = match event.issuer.context() {
            Context::Hardirq | Context::Nmi => true,
            Context::Softirq => !cpu.serves_softirqs(),
            Context::Task => false,
            Context::Unknown => handlers.in_hardirq() || handlers.in_softirq() && !cpu.serves_softirqs(),
        };
        let current = cpu.task();
        let handler = handlers.innermost();
        let raised = handlers.raised_by_task();
        let delivers = raised.is_some() && matches!(event.issuer.context(), Context::Softirq | Context::Unknown);
        // A task that exits wakes its parent.
        let ends = current.is_some_and(|key| tasks.get(key).exited);
        let certain = event.issuer.context() != Context::Unknown || cpu.serves_softirqs() || ends;
        let actor = tasks.get(wakee).actor;
        if interrupt && !delivers {
            self.inference.note_interrupt(event, actor);
            return Origin { waker: Waker::Interrupt(handler), ..Origin::UNKNOWN };
        }
        let believed = certain || self.inference.is_waker(cpu, actor, machine.world.now);
        let debtor = current.filter(|_| believed);
        let inferred = !certain || delivers && raised == Some(Raise::Inferred);
        let basis = if inferred { Basis::Inferred } else { Basis::Seen };
        match (interrupt, debtor) {
            (true, _) => Origin { waker: Waker::Interrupt(handler), debtor, basis, suspect: None },
            (false, Some(key)) => Origin { waker: Waker::Task(key), debtor, basis, suspect: None },
            (false, None) => Origin { suspect: current, ..Origin::UNKNOWN },
        }
    }

    /// Adds the debts of the thread that drives grace periods, if the wakee slept for one.
    #[inline(never)]
    fn add_grace_period(&mut self, world: &World, wakee: TaskKey, (sleep_start, basis): (Time, Basis)) {
        if may_sleep_for_grace_period(world.tasks.get(wakee)) {
            self.grace_periods.open_since(sleep_start, basis, &mut self.open_debts);
            latest_first(&mut self.open_debts);
        }
    }

    /// Whether the wakeup belongs to a completion that the wakee may have waited for. A thread that slept for lack of work did
    /// not wait for it, but tasks that wait for its next work did: it gets the debts to pass them on.
    #[inline(never)]
    fn hand_on_to_idler(&mut self, machine: &mut Machine, index: usize, event: &Event, wakee: TaskKey) -> bool {
        let Some((debts, _)) = self.requests.completed_by(machine, index, event) else { return false };
        if debts.is_empty() {
            return false;
        }
        let task = machine.world.tasks.get(wakee);
        if task.kernel_thread.is_some_and(KernelThread::is_woken_by_interrupts) {
            return false;
        }
        let (Some(start), true) = (task.sleep_start.get(), task.slept_without_work) else { return true };
        self.add_completed(machine, index, event, start);
        let mut unpaid = Vec::new();
        let task = machine.world.tasks.get_mut(wakee);
        task.debts.take_over(&mut self.open_debts, start, task.actor, &mut unpaid);
        false
    }

    /// Adds the debts of the request that is being completed.
    #[inline(never)]
    fn add_completed(&mut self, machine: &Machine, index: usize, event: &Event, since: Time) {
        let Some((debts, basis)) = self.requests.completed_by(machine, index, event) else { return };
        self.open_debts.extend(debts.iter().filter_map(|debt| debt.through_device(since, basis)));
        latest_first(&mut self.open_debts);
    }

    /// A request is put into a queue, or passed to a driver: its submitter's debts are attached to it.
    pub fn submit(&mut self, machine: &Machine, index: usize, event: &Event, request: &BlockRequest, stage: Stage) {
        self.requests.submit(machine, index, event, request, stage);
    }

    /// A request is completed. What the same handler or task wakes now has waited for it.
    pub fn complete(&mut self, machine: &Machine, index: usize, event: &Event, done: &BlockRequest) {
        self.requests.complete(machine, index, event, done);
    }

    /// A work item is queued, perhaps by the driver of the request that the task has just submitted.
    pub fn work_queued(
        &mut self,
        machine: &Machine,
        index: usize,
        event: &Event,
        work: u64,
        (function, workqueue): (Option<NameId>, Option<NameId>),
    ) {
        self.work.queue(work, function, workqueue, machine.world.now);
        if self.requests.are_recorded() {
            self.requests.note_handler(machine, index, event, work);
        }
    }

    /// A worker starts a work item. Completions of its previous item are over.
    pub fn work_started(&mut self, machine: &mut Machine, index: usize, work: u64, function: Option<NameId>) {
        let now = machine.world.now;
        let worker = machine.cpus[index].task();
        if let Some(worker) = worker {
            self.work.start(machine.world.tasks.get_mut(worker), work, function, now);
        }
        if self.requests.are_recorded() {
            let worker = worker.map(|key| (key, machine.world.tasks.get(key).life));
            self.requests.begin_handler(index, work, worker, now);
        }
    }

    /// A worker finished a work item.
    pub fn work_ended(
        &mut self,
        machine: &mut Machine,
        index: usize,
        work: u64,
        function: Option<NameId>,
        sink: &mut impl Sink,
    ) {
        if let Some(worker) = machine.cpus[index].task() {
            workqueue::end(worker, &mut machine.world, work, function, sink);
        }
        if self.requests.are_recorded() {
            self.requests.end_handler(index, work, machine.world.now);
        }
    }
}

/// The origin of a wakeup.
#[derive(Clone, Copy, Debug)]
struct Origin {
    waker: Waker,
    /// The task whose waits delayed the wakeup.
    debtor: Option<TaskKey>,
    /// How that is known.
    basis: Basis,
    /// The current task, if it may be the waker or have been interrupted.
    suspect: Option<TaskKey>,
}

impl Origin {
    const UNKNOWN: Origin = Origin { waker: Waker::Unknown, debtor: None, basis: Basis::Seen, suspect: None };
}
