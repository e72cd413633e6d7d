//! How bad a wait is: one table.
//!
//! Severity is a pure function of who waits, the cause, the longest time at once, the total, and the cost to others. Findings
//! supply these as evidence; `watch` and `top` use the same table with what their counters show. `docs/verdict.md` is generated
//! from the table and explains the values.

mod docs;
mod table;

use unstarve_model::{Nanos, Severity};
use unstarve_sched::Rule;

pub use docs::markdown;
pub use table::{TABLE, VerdictRow};

/// The waiting task, as far as it affects the severity.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Waiter {
    /// A kernel thread that serves requests of others: ksoftirqd, rcu, nfsd, jbd2, kswapd, a kworker whose work is known and is
    /// not housekeeping.
    ServingThread,
    /// A kworker whose work is unknown or housekeeping, and kernel threads that maintain memory and the kernel itself.
    HousekeepingThread,
    /// A real-time or deadline task, including kernel threads of these classes.
    RealTime,
    /// Any other program.
    Program,
    /// A task configured to run after all others: nice 19, SCHED_IDLE, `cpu.idle`, khugepaged.
    AskedToBeLast,
}

impl Waiter {
    /// All of them, in the order of the documentation.
    pub const ALL: [Waiter; 5] =
        [Waiter::ServingThread, Waiter::HousekeepingThread, Waiter::RealTime, Waiter::Program, Waiter::AskedToBeLast];

    /// In words: `kernel thread that serves others`.
    pub fn words(self) -> &'static str {
        match self {
            Waiter::ServingThread => "kernel thread that serves others",
            Waiter::HousekeepingThread => "kworker of unknown work, or housekeeping",
            Waiter::RealTime => "real-time or deadline task",
            Waiter::Program => "program",
            Waiter::AskedToBeLast => "asked to be last",
        }
    }
}

/// Why the task waits, as far as it affects the severity.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Cause {
    /// A higher scheduling class had the CPU.
    Class,
    /// A higher real-time priority had it.
    Priority,
    /// Equals of the real-time class alternate.
    RealTimeOrder,
    /// A lower class or priority had it and was not preempted.
    NotPreempted,
    /// The limit on real-time tasks, used up by another task.
    ClassLimit,
    /// The same limit, used up by the task itself.
    OwnClassLimit,
    /// A heavier task or cgroup had it.
    Weight,
    /// A quota of its cgroup.
    GroupLimit,
    /// An equal had it for longer than any slice.
    StuckEqual,
    /// Very many equals ran their slices.
    Turns,
    /// Its own CPU was idle.
    OwnCpuIdle,
    /// Another CPU that it may use was idle.
    OtherCpuIdle,
    /// Interrupts and softirqs had it. Shares are of the time in which the task wanted to run.
    Interrupts,
    /// Softirqs had it that deliver packets without a device, sent by this host's own programs. Measured like interrupts.
    HostPackets,
    /// A crowd of woken threads to which it does not belong had it.
    Crowd,
    /// The CPU itself did not run: a hypervisor, firmware or a section with interrupts off had it.
    CpuStopped,
    /// The consumer of the items that it completes had it.
    PingPong,
}

impl Cause {
    /// The cause of a wait whose main rule is `rule`, as far as the rule alone decides it; `None` if the rule is unknown.
    pub fn of(waiter: Waiter, rule: Rule) -> Option<Cause> {
        Some(match rule {
            Rule::Class => Cause::Class,
            Rule::Priority => Cause::Priority,
            Rule::Order => Cause::RealTimeOrder,
            Rule::NotPreempted => Cause::NotPreempted,
            Rule::Weight => Cause::Weight,
            Rule::Throttled if waiter == Waiter::RealTime => Cause::ClassLimit,
            Rule::Throttled => Cause::GroupLimit,
            Rule::Idle => Cause::OwnCpuIdle,
            Rule::Irq | Rule::Softirq => Cause::Interrupts,
            // One equal that kept the CPU is `StuckEqual`, decided elsewhere.
            Rule::Fair | Rule::Count | Rule::WakeupPreemption => Cause::Turns,
            // For these, the report says that too little was recorded.
            Rule::Unknown | Rule::Unranked => return None,
        })
    }

    /// All of them, in the order of the documentation.
    pub const ALL: [Cause; 17] = [
        Cause::Class,
        Cause::Priority,
        Cause::RealTimeOrder,
        Cause::NotPreempted,
        Cause::ClassLimit,
        Cause::OwnClassLimit,
        Cause::Weight,
        Cause::GroupLimit,
        Cause::StuckEqual,
        Cause::Turns,
        Cause::OwnCpuIdle,
        Cause::OtherCpuIdle,
        Cause::Interrupts,
        Cause::HostPackets,
        Cause::Crowd,
        Cause::CpuStopped,
        Cause::PingPong,
    ];

    /// In words: `a higher class`.
    pub fn words(self) -> &'static str {
        match self {
            Cause::Class => "a higher class",
            Cause::Priority => "a higher real-time priority",
            Cause::RealTimeOrder => "an equal real-time priority",
            Cause::NotPreempted => "a lower class or priority that is not preempted",
            Cause::ClassLimit => "the real-time limit, used up by another task",
            Cause::OwnClassLimit => "the real-time limit, used up by itself",
            Cause::Weight => "a larger weight",
            Cause::GroupLimit => "its cgroup's CPU limit",
            Cause::StuckEqual => "an equal that does not leave",
            Cause::Turns => "turns of many equals",
            Cause::OwnCpuIdle => "its own CPU idle",
            Cause::OtherCpuIdle => "another CPU idle that it may use",
            Cause::Interrupts => "interrupts",
            Cause::HostPackets => "softirqs for packets that no device brought",
            Cause::Crowd => "a crowd of woken threads",
            Cause::CpuStopped => "a CPU that did not run itself",
            Cause::PingPong => "the consumer of each of its items",
        }
    }
}

/// What a wait cost other tasks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub enum Cost {
    /// No cost shows in the recording.
    #[default]
    NotSeen,
    /// A program slept until the waiting thread was done, or the thread had much work of its own: counts like a program's wait.
    Felt,
    /// The total cost would be an alarm as one wait, or the waiting task makes hardly any progress.
    Heavy,
}

/// The waits of one thread (or kind of thread) with one cause.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Plight {
    /// The waiting task.
    pub waiter: Waiter,
    /// The cause.
    pub cause: Cause,
    /// The longest time at once, including a wait that was not over at the end of the recording.
    pub longest: Nanos,
    /// The total time.
    pub lost: Nanos,
    /// The total as a share of the recording; for interrupts, of the time in which the task wanted to run.
    pub share: f64,
    /// The cost to others.
    pub cost: Cost,
    /// The period of a real-time program, if known: a delay of a period is a missed activation.
    pub period: Option<Nanos>,
}

impl Plight {
    /// In a recording, or a part of one, of length `span`.
    pub fn new(waiter: Waiter, cause: Cause, longest: Nanos, lost: Nanos, span: Nanos) -> Plight {
        Plight { waiter, cause, longest, lost, share: lost.share_of(span), cost: Cost::NotSeen, period: None }
    }

    /// The same with this cost to others.
    pub fn at_cost(self, cost: Cost) -> Plight {
        Plight { cost, ..self }
    }

    /// The same with this period.
    pub fn every(self, period: Option<Nanos>) -> Plight {
        Plight { period, ..self }
    }
}

/// The conditions for a severity; zero means no condition.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Threshold {
    /// At least this long at once…
    pub longest: Nanos,
    /// …and this share of the recording…
    pub share: f64,
    /// …and this much in total.
    pub lost: Nanos,
}

impl Threshold {
    fn is_met(&self, plight: &Plight) -> bool {
        plight.longest >= self.longest && plight.share >= self.share && plight.lost >= self.lost
    }
}

/// The severity; `None` if the wait is not worth reporting.
///
/// Cost to others can only raise it: a wait with an effect is at least as bad as the same wait of a program.
pub fn severity(plight: &Plight) -> Option<Severity> {
    let own = table::row(plight.waiter, plight.cause).and_then(|row| row.severity(plight));
    let felt = (plight.cost >= Cost::Felt).then(|| table::row(Waiter::Program, plight.cause)).flatten();
    let worst = own.max(felt.and_then(|row| row.severity(plight)));
    match (worst, plight.cost) {
        (Some(Severity::Info), Cost::Heavy) => Some(Severity::Warning),
        (worst, _) => worst,
    }
}

impl VerdictRow {
    fn severity(&self, plight: &Plight) -> Option<Severity> {
        let severity = self.severity_of(plight);
        #[cfg(test)]
        asked::note(self, severity);
        severity
    }

    fn severity_of(&self, plight: &Plight) -> Option<Severity> {
        let any = |thresholds: &[Threshold]| thresholds.iter().any(|threshold| threshold.is_met(plight));
        let periods = |count: Option<u64>| {
            let late = count.zip(plight.period).map(|(count, period)| Nanos(period.0.saturating_mul(count)));
            late.is_some_and(|late| late > Nanos::ZERO && plight.longest >= late)
        };
        if any(self.critical) || periods(self.critical_periods) {
            Some(Severity::Critical)
        } else if any(self.warning) || periods(self.warning_periods) {
            Some(Severity::Warning)
        } else {
            any(self.info).then_some(Severity::Info)
        }
    }
}

/// From this part on, a rule or an occupant is the main reason of a wait, or of all waits.
pub const MAIN_REASON: f64 = 0.5;
/// From this part on, interrupts are a reason of a wait.
pub const INTERRUPTED_PART: f64 = 1.0 / 3.0;

/// The part of a wait from which on its tasks waited for this rule: with less, what else ran made the wait long. Whoever always goes before
/// keeps the task waiting for as long as it has the CPU, whatever the wait is else.
pub fn least_part(rule: Rule) -> f64 {
    match rule {
        Rule::Class | Rule::Priority | Rule::Order | Rule::NotPreempted | Rule::Throttled => 0.0,
        Rule::Irq | Rule::Softirq => INTERRUPTED_PART,
        Rule::Weight
        | Rule::Count
        | Rule::WakeupPreemption
        | Rule::Fair
        | Rule::Idle
        | Rule::Unknown
        | Rule::Unranked => MAIN_REASON,
    }
}

/// A wait of this length is never healthy, unless the task is configured to run last.
pub const NEVER_HEALTHY: Nanos = Nanos::from_millis(1000);

#[cfg(test)]
mod asked;
#[cfg(test)]
mod tests;
