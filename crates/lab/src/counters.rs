//! Kernel counters of the guest, before and after the main load.

use serde::{Deserialize, Serialize};

use crate::metric::{Better, KernelCounters, Metric};

/// The file among the results.
pub const FILE: &str = "counters.json";

/// Counters at two times.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Before the first load.
    pub before: Moment,
    /// When the main load ended.
    pub after: Moment,
}

/// The kernel's counters at one time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moment {
    /// CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// The text of `/proc/stat`.
    pub stat: String,
    /// The text of `/proc/softirqs`.
    pub softirqs: String,
}

impl Counters {
    /// Rates per second of virtual time; without counters that the kernel lacks.
    pub fn metrics(&self) -> Vec<Metric> {
        let seconds = self.after.at_ns.saturating_sub(self.before.at_ns) as f64 / 1e9;
        if seconds <= 0.0 {
            return Vec::new();
        }
        let (before, after) = (KernelCounters::read(&self.before.stat), KernelCounters::read(&self.after.stat));
        let mut metrics = match (before, after) {
            (Some(before), Some(after)) => before.rates_until(&after, seconds),
            _ => Vec::new(),
        };
        let before = softirqs(&self.before.softirqs);
        for (name, count) in softirqs(&self.after.softirqs) {
            let earlier = before.iter().find(|(other, _)| *other == name).map(|(_, count)| *count);
            if let Some(more) = earlier.map(|earlier| count.saturating_sub(earlier)).filter(|more| *more > 0) {
                let rate = more as f64 / seconds;
                metrics.push(Metric::of("kernel.softirq", &name, rate, "1/s", Better::Neither));
            }
        }
        metrics
    }
}

/// `net_rx` → count over all CPUs, from lines `NET_RX:  1  2`.
fn softirqs(text: &str) -> Vec<(String, u64)> {
    let row = |line: &str| {
        let (name, counts) = line.split_once(':')?;
        let counts: Option<Vec<u64>> = counts.split_whitespace().map(|count| count.parse().ok()).collect();
        Some((name.trim().to_lowercase(), counts?.iter().sum()))
    };
    text.lines().filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_become_rates() {
        let moment = |at_ns, switches, received| Moment {
            at_ns,
            stat: format!("intr 5 1\nctxt {switches}\nprocesses 9\n"),
            softirqs: format!("          CPU0  CPU1\n HI: 0 0\n NET_RX: {received} 1\n"),
        };
        let counters = Counters { before: moment(0, 100, 0), after: moment(2_000_000_000, 300, 40) };
        let shown: Vec<String> =
            counters.metrics().iter().map(|metric| format!("{} {}", metric.name, metric.value)).collect();
        let expected = ["kernel.switches 100", "kernel.forks 0", "kernel.interrupts 0", "kernel.softirq.net_rx 20"];
        assert_eq!(shown, expected);
        let still = Counters { after: counters.before.clone(), ..counters };
        assert_eq!(still.metrics(), []);
    }
}
