//! Rates of the guest kernel's counters over the measured time.

use super::{Better, Metric};

/// Counters of `/proc/stat` at one moment.
///
/// Source: Documentation/filesystems/proc.rst, "Miscellaneous kernel statistics in /proc/stat".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct KernelCounters {
    /// `ctxt`: switches of all CPUs since boot.
    pub switches: u64,
    /// `processes`: forks since boot.
    pub forks: u64,
    /// `intr`'s first number: interrupts since boot.
    pub interrupts: u64,
}

impl KernelCounters {
    /// Reads the text of `/proc/stat`; `None` if a line is missing.
    pub fn read(stat: &str) -> Option<KernelCounters> {
        let number = |key: &str| {
            stat.lines().find_map(|line| line.strip_prefix(key)?.split_ascii_whitespace().next()?.parse().ok())
        };
        Some(KernelCounters { switches: number("ctxt ")?, forks: number("processes ")?, interrupts: number("intr ")? })
    }

    /// Rates over `seconds` until `later`: `kernel.switches`, `kernel.forks`, `kernel.interrupts`, per second. Empty if
    /// no time passed.
    pub fn rates_until(&self, later: &KernelCounters, seconds: f64) -> Vec<Metric> {
        if seconds <= 0.0 {
            return Vec::new();
        }
        let rate = |name, before: u64, after: u64| {
            Metric::of("kernel", name, after.saturating_sub(before) as f64 / seconds, "1/s", Better::Neither)
        };
        vec![
            rate("switches", self.switches, later.switches),
            rate("forks", self.forks, later.forks),
            rate("interrupts", self.interrupts, later.interrupts),
        ]
    }
}

/// `switches.per_io` and the like: the kernel's switches per operation of the main load, whose rate is the metric named
/// `rate`. `None` if either is missing or the rate is zero.
pub fn per_operation(metrics: &[Metric], rate: &str) -> Option<Metric> {
    let value = |name: &str| metrics.iter().find(|metric| metric.name == name).map(|metric| metric.value);
    let (switches, operations) = (value("kernel.switches")?, value(rate)?);
    let noun = if rate.ends_with("iops") { "io" } else { "operation" };
    (operations > 0.0).then(|| Metric {
        name: format!("switches.per_{noun}"),
        value: switches / operations,
        unit: format!("switches/{noun}"),
        better: Better::Lower,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "cpu  1 2 3\nintr 100 7 8\nctxt 1000\nbtime 5\nprocesses 50\n";

    #[test]
    fn switches_are_set_against_operations() {
        let before = KernelCounters::read(BEFORE).expect("counters");
        let after = KernelCounters { switches: 129_000, ..before };
        let mut metrics = before.rates_until(&after, 2.0);
        metrics.push(Metric::of("fio", "iops", 32_000.0, "1/s", Better::Higher));
        let per_io = per_operation(&metrics, "fio.iops").expect("both are there");
        assert_eq!((per_io.name.as_str(), per_io.value), ("switches.per_io", 2.0));
        assert_eq!(per_operation(&metrics, "ping.rate"), None);
    }

    #[test]
    fn a_damaged_stat_gives_nothing() {
        assert_eq!(KernelCounters::read("ctxt x\n"), None);
    }
}
