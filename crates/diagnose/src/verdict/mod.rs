//! How bad a wait is: one table, and nothing else.
//!
//! Severity is a pure function of who waits, because of what, how long at a time, how much in all, and what it cost others. Findings
//! give these as evidence; `watch` and `top` ask the same table about what their counters know. `docs/verdict.md` is written from it
//! and says where the values come from.

mod docs;
mod table;

use unstarve_model::{Nanos, Severity};
use unstarve_sched::Rule;

pub use docs::markdown;
pub use table::{TABLE, VerdictRow};

/// Who waits, as far as it decides how bad a wait is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Waiter {
    /// A kernel thread that others' work goes through: ksoftirqd, rcu, nfsd, jbd2, kswapd, a kworker whose work is known and does not
    /// tidy up.
    ServingThread,
    /// A kworker whose work is not known or tidies up, and kernel threads that look after memory and the kernel itself.
    HousekeepingThread,
    /// A real-time or deadline task, a kernel thread of these classes included.
    RealTime,
    /// Any other program.
    Program,
    /// One that asked to run after all others: nice 19, SCHED_IDLE, `cpu.idle`, khugepaged.
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

/// Why it waits, as far as it decides how bad a wait is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Cause {
    /// A higher scheduling class had the CPU.
    Class,
    /// A higher real-time priority had it.
    Priority,
    /// Equals of the real-time class take their turns.
    RealTimeOrder,
    /// A lower class or priority had it and was not preempted.
    NotPreempted,
    /// The limit on real-time tasks, used up by another one.
    ClassLimit,
    /// The same, used up by itself: others need what it does not get.
    OwnClassLimit,
    /// A heavier task or cgroup had it.
    Weight,
    /// A CPU limit of its cgroup.
    GroupLimit,
    /// An equal had it for longer than any turn lasts.
    StuckEqual,
    /// Equals took their turns, very many of them.
    Turns,
    /// Its own CPU was idle.
    OwnCpuIdle,
    /// Another CPU that it may use was idle.
    OtherCpuIdle,
    /// Interrupts and softirqs had it. Times are shares of the time in which the task wanted to run.
    Interrupts,
    /// Softirqs had it that deliver packets without a device: this host's own programs sent them. Measured as interrupts are.
    HostPackets,
    /// A crowd of woken threads that it has no part in had it.
    Crowd,
    /// The CPU itself did not run: a hypervisor, firmware or a section with interrupts off had it.
    CpuStopped,
    /// The consumer of each item that it completes took it.
    PingPong,
}

impl Cause {
    /// The row of the table to which a wait belongs that was mostly by this rule, as far as the rule alone says; `None` if the rule is not known.
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
            // One that kept the CPU to itself is `stuck-equal`.
            Rule::Fair | Rule::Count | Rule::WakeupPreemption => Cause::Turns,
            // Of these it is said that too little was recorded.
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

/// What a wait cost others.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub enum Cost {
    /// Nothing that the recording shows.
    #[default]
    NotSeen,
    /// A program slept until the waiting thread was done, or the thread had much work of its own: its wait is a program's.
    Felt,
    /// Together that is as much as would be an alarm if it had been one wait, or the waiting task hardly gets on.
    Heavy,
}

/// One thread's (or one kind of threads') trouble with one cause.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Plight {
    /// Who waits.
    pub waiter: Waiter,
    /// Because of what.
    pub cause: Cause,
    /// The longest at a time, one that still lasts when the recording ends included.
    pub longest: Nanos,
    /// In all.
    pub lost: Nanos,
    /// The same as a part of the recording, or, for interrupts, of the time in which it wanted to run.
    pub share: f64,
    /// What it cost others.
    pub cost: Cost,
    /// The period of a real-time program, where it is known: what is late by one has missed its turn.
    pub period: Option<Nanos>,
}

impl Plight {
    /// Of a recording, or a part of one, of this length.
    pub fn new(waiter: Waiter, cause: Cause, longest: Nanos, lost: Nanos, span: Nanos) -> Plight {
        Plight { waiter, cause, longest, lost, share: lost.share_of(span), cost: Cost::NotSeen, period: None }
    }

    /// The same at this cost to others.
    pub fn at_cost(self, cost: Cost) -> Plight {
        Plight { cost, ..self }
    }

    /// The same of a task of this period.
    pub fn every(self, period: Option<Nanos>) -> Plight {
        Plight { period, ..self }
    }
}

/// What has to be true for a severity: the thresholds that are not zero.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Threshold {
    /// At least so long at a time…
    pub longest: Nanos,
    /// …and so large a part of the recording…
    pub share: f64,
    /// …and so much in all.
    pub lost: Nanos,
}

impl Threshold {
    fn is_met(&self, plight: &Plight) -> bool {
        plight.longest >= self.longest && plight.share >= self.share && plight.lost >= self.lost
    }
}

/// How bad it is; `None` if it is not worth a line.
///
/// Cost raises and never lowers: a wait that somebody felt is as bad as the same wait of a program, if that is worse.
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

/// A wait of this length is in no recording of which it may be said that nobody is starved, unless the task asked to be last.
pub const NEVER_HEALTHY: Nanos = Nanos::from_millis(1000);

#[cfg(test)]
mod asked;
#[cfg(test)]
mod tests;
