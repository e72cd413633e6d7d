//! The rates that are compared, and the smallest difference of each that matters.

use serde::{Deserialize, Serialize};
use unstarve_model::Nanos;
use unstarve_sched::Rule;

use super::profile::Sums;

/// What is compared.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, schemars::JsonSchema)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// Time spent waiting for a CPU, under one rule.
    WaitedUnder,
    /// Time spent waiting for a CPU, in all.
    Waited,
    /// From the queueing of a work item to its end, on average.
    ItemLatency,
    /// Time on a CPU, interrupts left out.
    Ran,
    /// Time in softirqs on top of tasks.
    Softirq,
    /// Time in hardware interrupts.
    Irq,
    /// Switches of tasks that stayed runnable.
    InvoluntarySwitches,
    /// Switches of tasks that went to sleep.
    VoluntarySwitches,
    /// Wakeups.
    Wakeups,
    /// Moves to another CPU.
    Migrations,
    /// Work items done.
    Items,
}

/// All metrics except the one with a rule.
pub(super) const METRICS: [Metric; 10] = [
    Metric::Waited,
    Metric::ItemLatency,
    Metric::Ran,
    Metric::Softirq,
    Metric::Irq,
    Metric::InvoluntarySwitches,
    Metric::VoluntarySwitches,
    Metric::Wakeups,
    Metric::Migrations,
    Metric::Items,
];

/// The unit of a metric.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub enum Unit {
    /// Nanoseconds in a second.
    #[serde(rename = "ns/s")]
    NanosPerSecond,
    /// So many in a second.
    #[serde(rename = "/s")]
    PerSecond,
    /// Nanoseconds.
    #[serde(rename = "ns")]
    Nanos,
}

impl Metric {
    /// The unit of its value.
    pub(super) fn unit(self) -> Unit {
        match self {
            Metric::WaitedUnder | Metric::Waited | Metric::Ran | Metric::Softirq | Metric::Irq => Unit::NanosPerSecond,
            Metric::ItemLatency => Unit::Nanos,
            _ => Unit::PerSecond,
        }
    }

    /// The smallest difference that matters: a thousandth of a CPU, ten switches per second, ten microseconds.
    pub(super) fn least(self) -> f64 {
        match self.unit() {
            Unit::NanosPerSecond => 1e6,
            Unit::Nanos => 1e4,
            Unit::PerSecond => 10.0,
        }
    }

    /// Its value in one block of `length`; `None` if the block has no value.
    pub(super) fn of(self, sums: &Sums, rule: Option<Rule>, length: Nanos) -> Option<f64> {
        let amount = match self {
            Metric::WaitedUnder => sums.by_rule[rule? as usize],
            Metric::Waited => sums.waited,
            Metric::ItemLatency => {
                return (sums.timed_items > 0).then(|| sums.turnaround as f64 / sums.timed_items as f64);
            }
            Metric::Ran => sums.ran,
            Metric::Softirq => sums.softirq,
            Metric::Irq => sums.irq,
            Metric::InvoluntarySwitches => sums.involuntary,
            Metric::VoluntarySwitches => sums.voluntary,
            Metric::Wakeups => sums.wakeups,
            Metric::Migrations => sums.migrations,
            Metric::Items => sums.items,
        };
        Some(amount as f64 / length.0 as f64 * 1e9)
    }

    /// For people.
    pub fn words(self) -> &'static str {
        match self {
            Metric::WaitedUnder => "waited",
            Metric::Waited => "waited in all",
            Metric::ItemLatency => "work item latency",
            Metric::Ran => "ran",
            Metric::Softirq => "softirq time",
            Metric::Irq => "interrupt time",
            Metric::InvoluntarySwitches => "involuntary switches",
            Metric::VoluntarySwitches => "voluntary switches",
            Metric::Wakeups => "wakeups",
            Metric::Migrations => "migrations",
            Metric::Items => "work items",
        }
    }
}
