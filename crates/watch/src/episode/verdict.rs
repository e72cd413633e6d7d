//! Judges the severity of what the counters saw, with the same table as `explain`.
//!
//! Counters show the waiting role (often the task), the rule, the longest wait and the share of a second. They show neither cost nor period.
//! Thresholds decide when an episode begins; the table decides its severity.

use unstarve_diagnose::verdict::{Cause, Cost, NEVER_HEALTHY, Plight, Waiter, severity};
use unstarve_model::{Comm, Nanos, Severity};
use unstarve_sched::{KernelThread, Rule};

use super::begun::Begun;
use super::trigger::Trigger;
use crate::engine::reading::RoleKind;

/// A wait of this length behind a task that has not left the CPU meanwhile is not a fair turn.
pub const STUCK: Nanos = Nanos::from_millis(200);

/// From this share of a second on, other tasks notice: the table's limit for interrupts.
const FELT_FROM: f64 = 1.0 / 3.0;

/// Waits of a role or of one of its tasks, as the counters show them.
#[derive(Clone, Copy, Debug)]
pub struct Suffering {
    /// The waiting role.
    pub kind: RoleKind,
    /// The task's name, if known.
    pub task: Option<Comm>,
    /// The rule by which the occupants had the CPU.
    pub rule: Option<Rule>,
    /// The longest single wait.
    pub longest: Nanos,
    /// Total waiting time.
    pub lost: Nanos,
    /// The time observed; `None` if a single wait is judged.
    pub span: Option<Nanos>,
    /// For how long the occupant has had the CPU without a break.
    pub occupied: Nanos,
}

impl Suffering {
    /// The severity; `None` if it is not worth a line.
    pub fn severity(&self) -> Option<Severity> {
        severity(&self.plight(waiter(self.kind, self.task.as_ref()))?)
    }

    /// The same for a role of kernel threads that is kept off the CPU for much of a second: other tasks notice, or the threads have much work. The
    /// counters do not show the cost, so this is a warning at most.
    fn severity_if_felt(&self) -> Option<Severity> {
        let waiter = waiter(self.kind, self.task.as_ref());
        // The purpose of the threads in the role of all other kernel threads is unknown.
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
            // It is unknown which tasks used up the class's limit: possibly the waiting task itself.
            Rule::Throttled if is_real_time => Cause::OwnClassLimit,
            // Deadline tasks are in the same role; otherwise the difference is a priority among real-time tasks.
            Rule::Class if is_real_time => Cause::Priority,
            Rule::Priority if !is_real_time => Cause::Class,
            // With equal priority, SCHED_RR leaves after its slice.
            Rule::Fair if is_real_time && self.occupied > Nanos::ZERO => Cause::StuckEqual,
            Rule::Fair if is_real_time => Cause::RealTimeOrder,
            Rule::Fair if self.occupied >= STUCK => Cause::StuckEqual,
            // For a worker: the consumer of what it completes is woken by each item and preempts it.
            Rule::WakeupPreemption if self.span.is_some() && is_worker(self.kind) => Cause::PingPong,
            // A task that was just woken goes first and stays.
            Rule::WakeupPreemption if self.span.is_none() => Cause::StuckEqual,
            Rule::Count | Rule::WakeupPreemption => Cause::Weight,
            // Counted in the kernel, interrupts are part of the occupant's time. For a kernel thread, no long single wait behind them is healthy.
            Rule::Irq | Rule::Softirq if self.span.is_none() && self.kind.is_kernel() => Cause::Class,
            rule => return Cause::of(waiter, rule),
        })
    }
}

impl Begun {
    /// The severity, as far as the counters show. Above a configured threshold, but not in the table, it is a remark.
    pub fn severity(&self) -> Severity {
        let second = Nanos::from_millis(1000);
        let (longest, lost, span) = match self.trigger {
            Trigger::Wait { .. } | Trigger::Oldest { .. } => (self.longest, self.longest, None),
            Trigger::Stuck { ns, .. } | Trigger::NotPreempted { ns, .. } | Trigger::Idle { ns, .. } => {
                (Nanos(ns), Nanos(ns), None)
            }
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

/// The kind of waiting task in terms of the table.
pub(super) fn waiter(kind: RoleKind, task: Option<&Comm>) -> Waiter {
    let name = || task.map(Comm::to_string).unwrap_or_default();
    match kind {
        RoleKind::RealTime => Waiter::RealTime,
        RoleKind::Kworker => Waiter::HousekeepingThread,
        RoleKind::DirectIo | RoleKind::Storage | RoleKind::Ksoftirqd | RoleKind::Rcu | RoleKind::Nfsd => {
            Waiter::ServingThread
        }
        RoleKind::Kernel => match task.map(KernelThread::of) {
            // It is unknown which threads waited: some do housekeeping, others serve interrupts.
            None => Waiter::HousekeepingThread,
            // SCHED_FIFO by default (kernel/irq/manage.c).
            Some(Some(KernelThread::IrqThread)) => Waiter::RealTime,
            Some(thread) => Waiter::of_kernel_thread(&name(), thread, None),
        },
        RoleKind::Group | RoleKind::Other | RoleKind::Unknown | RoleKind::Idle | RoleKind::Gone => Waiter::Program,
    }
}

/// Whether all tasks of a role have nice 0 or less: none of them asked for long waits among equals.
pub(super) fn never_asks_to_be_last(kind: RoleKind) -> bool {
    kind.is_kernel() && kind != RoleKind::Kernel
}

/// Whether a wait of this role is so long that it counts by any known rule.
pub(super) fn is_never_healthy(kind: RoleKind, ns: u64) -> bool {
    never_asks_to_be_last(kind) && ns >= NEVER_HEALTHY.0
}

fn is_worker(kind: RoleKind) -> bool {
    matches!(kind, RoleKind::DirectIo | RoleKind::Kworker)
}
