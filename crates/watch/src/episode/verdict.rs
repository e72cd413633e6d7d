//! How bad what the counters saw is: by the table that `explain` asks.
//!
//! Counters know who waits (a role, mostly a task), by which rule, for how long at a time and how much of a second. They see no cost, and
//! no period. Thresholds decide when an episode begins; how bad it is the table decides.

use unstarve_diagnose::verdict::{Cause, Cost, NEVER_HEALTHY, Plight, Waiter, severity};
use unstarve_model::{Comm, Nanos, Severity};
use unstarve_sched::{KernelThread, Rule};

use super::begun::Begun;
use super::trigger::Trigger;
use crate::engine::reading::RoleKind;

/// A wait of this length behind one that has not left the CPU meanwhile is no turn.
pub const STUCK: Nanos = Nanos::from_millis(200);

/// So large a part of a second is felt, as the table says of interrupts.
const FELT_FROM: f64 = 1.0 / 3.0;

/// Waits of a role, or of one of its tasks, as counters know them.
#[derive(Clone, Copy, Debug)]
pub struct Suffering {
    /// What waits.
    pub kind: RoleKind,
    /// The task's name, where it is known.
    pub task: Option<Comm>,
    /// Why.
    pub rule: Option<Rule>,
    /// The longest at a time.
    pub longest: Nanos,
    /// In all.
    pub lost: Nanos,
    /// The time that was looked at; nothing where one wait is judged.
    pub span: Option<Nanos>,
    /// For how long the task that has the CPU has had it without a break.
    pub occupied: Nanos,
}

impl Suffering {
    /// How bad it is; nothing if it is not worth a line.
    pub fn severity(&self) -> Option<Severity> {
        severity(&self.plight(waiter(self.kind, self.task.as_ref()))?)
    }

    /// The same of a role of kernel threads that is kept off for much of a second: others feel it, or it has much to do itself. What that costs
    /// whom counters do not know, so that it makes a warning of it at most.
    fn severity_if_felt(&self) -> Option<Severity> {
        let waiter = waiter(self.kind, self.task.as_ref());
        // Of the role of all other kernel threads nobody knows what they do.
        let is_kernel =
            self.kind != RoleKind::Kernel && matches!(waiter, Waiter::ServingThread | Waiter::HousekeepingThread);
        let is_felt = is_kernel && self.plight(waiter).is_some_and(|plight| plight.share >= FELT_FROM);
        let felt =
            is_felt.then(|| self.plight(waiter).and_then(|plight| severity(&plight.at_cost(Cost::Felt)))).flatten();
        self.severity().max(felt.map(|felt| felt.min(Severity::Warning)))
    }

    fn plight(&self, waiter: Waiter) -> Option<Plight> {
        let span = self.span.unwrap_or_default();
        Some(Plight::new(waiter, self.cause(waiter)?, self.longest, self.lost, span))
    }

    fn cause(&self, waiter: Waiter) -> Option<Cause> {
        let is_real_time = waiter == Waiter::RealTime;
        Some(match self.rule? {
            // Whose the class' limit is used up by, counters do not know: it may be its own doing.
            Rule::Throttled if is_real_time => Cause::OwnClassLimit,
            Rule::Throttled => Cause::GroupLimit,
            // Deadline tasks are in the same role.
            Rule::Class | Rule::Priority if is_real_time => Cause::Priority,
            Rule::Class | Rule::Priority => Cause::Class,
            Rule::NotPreempted => Cause::NotPreempted,
            Rule::Order => Cause::RealTimeOrder,
            // Of one priority SCHED_RR leaves after its slice.
            Rule::Fair if is_real_time && self.occupied > Nanos::ZERO => Cause::StuckEqual,
            Rule::Fair if is_real_time => Cause::RealTimeOrder,
            Rule::Fair if self.occupied >= STUCK => Cause::StuckEqual,
            Rule::Fair => Cause::Turns,
            // Of a worker, the consumer of what it completes is woken by each item and takes its CPU.
            Rule::WakeupPreemption if self.span.is_some() && is_worker(self.kind) => Cause::PingPong,
            // One that was just woken goes first, and stays.
            Rule::WakeupPreemption if self.span.is_none() => Cause::StuckEqual,
            Rule::Weight | Rule::Count | Rule::WakeupPreemption => Cause::Weight,
            Rule::Idle => Cause::OwnCpuIdle,
            // Counted in the kernel these are a part of who has the CPU. Of all that goes before a kernel thread no single wait is healthy.
            Rule::Irq | Rule::Softirq if self.span.is_none() && self.kind.is_kernel() => Cause::Class,
            Rule::Irq | Rule::Softirq => Cause::Interrupts,
            Rule::Unknown | Rule::Unranked => return None,
        })
    }
}

impl Begun {
    /// How bad it is, as far as the counters say. What is above a threshold that somebody has set and is nothing in the table is a remark.
    pub fn severity(&self) -> Severity {
        let second = Nanos::from_millis(1000);
        let (longest, lost, span) = match self.trigger {
            Trigger::Wait { ns, .. }
            | Trigger::Oldest { ns, .. }
            | Trigger::Stuck { ns, .. }
            | Trigger::NotPreempted { ns, .. }
            | Trigger::Idle { ns, .. } => (Nanos(ns), Nanos(ns), None),
            Trigger::Verdict { severity, .. } => return severity,
            Trigger::Share { share, .. } | Trigger::Stalled { share, .. } | Trigger::Stopped { share, .. } => {
                (self.longest, Nanos((second.0 as f64 * share) as u64), Some(second))
            }
        };
        let is_stuck = matches!(self.trigger, Trigger::Stuck { .. });
        let suffering = Suffering {
            kind: self.victim.kind,
            task: self.victim_task.map(|task| task.comm),
            rule: self.rule,
            longest,
            lost,
            span,
            occupied: if is_stuck { longest } else { Nanos::ZERO },
        };
        let found = match self.trigger {
            Trigger::Share { .. } => suffering.severity_if_felt(),
            _ => suffering.severity(),
        };
        found.unwrap_or(Severity::Info)
    }
}

/// Who waits, as the table sees it.
pub(super) fn waiter(kind: RoleKind, task: Option<&Comm>) -> Waiter {
    let name = || task.map(Comm::to_string).unwrap_or_default();
    match kind {
        RoleKind::RealTime => Waiter::RealTime,
        RoleKind::Kworker => Waiter::HousekeepingThread,
        RoleKind::DirectIo | RoleKind::Storage | RoleKind::Ksoftirqd | RoleKind::Rcu | RoleKind::Nfsd => {
            Waiter::ServingThread
        }
        RoleKind::Kernel => match task.map(KernelThread::of) {
            // Nobody knows which ones waited: some tidy up, others serve interrupts.
            None => Waiter::HousekeepingThread,
            // SCHED_FIFO, unless somebody has changed it (kernel/irq/manage.c).
            Some(Some(KernelThread::IrqThread)) => Waiter::RealTime,
            Some(thread) => Waiter::of_kernel_thread(&name(), thread, None),
        },
        RoleKind::Group | RoleKind::Other | RoleKind::Unknown | RoleKind::Idle | RoleKind::Gone => Waiter::Program,
    }
}

/// Whether all tasks of a role are of nice 0 or less: a long wait of theirs among equals is nobody's wish.
pub(super) fn never_asks_to_be_last(kind: RoleKind) -> bool {
    kind.is_kernel() && kind != RoleKind::Kernel
}

/// Whether a wait of this role is so long that it counts whatever rule it is by, as long as that is known.
pub(super) fn is_never_healthy(kind: RoleKind, ns: u64) -> bool {
    never_asks_to_be_last(kind) && ns >= NEVER_HEALTHY.0
}

fn is_worker(kind: RoleKind) -> bool {
    matches!(kind, RoleKind::DirectIo | RoleKind::Kworker)
}
