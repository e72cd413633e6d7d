//! What a CPU spent its time on.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Times of a CPU since boot, in clock ticks (1/100 s): a line of `/proc/stat`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CpuTimes {
    /// Running tasks, interrupts and softirqs: user, nice, system, irq, softirq.
    pub busy: u64,
    /// Idle, also while I/O was waited for.
    pub idle: u64,
    /// Taken by the hypervisor while the CPU had something to run (steal).
    pub steal: u64,
}

impl CpuTimes {
    /// Parses `/proc/stat`: each line `cpuN user nice system idle iowait irq softirq steal guest guest_nice`. The time of
    /// guests is part of user.
    pub fn parse(text: &str) -> BTreeMap<u32, CpuTimes> {
        let of_line = |line: &str| {
            let mut words = line.split_ascii_whitespace();
            let cpu: u32 = words.next()?.strip_prefix("cpu")?.parse().ok()?;
            let ticks: Vec<u64> = words.map(|word| word.parse().ok()).collect::<Option<_>>()?;
            let [user, nice, system, idle, iowait, irq, softirq, steal, ..] = ticks[..] else { return None };
            let sum = |parts: &[u64]| parts.iter().fold(0, |sum: u64, part| sum.saturating_add(*part));
            let busy = sum(&[user, nice, system, irq, softirq]);
            Some((cpu, CpuTimes { busy, idle: sum(&[idle, iowait]), steal }))
        };
        text.lines().filter_map(of_line).collect()
    }

    /// All of it.
    pub fn all(self) -> u64 {
        self.busy.saturating_add(self.idle).saturating_add(self.steal)
    }

    /// The part of its time that the hypervisor took; `None` if it is too young to say.
    pub fn stolen(self) -> Option<f64> {
        self.part(self.steal)
    }

    /// The part of its time in which it ran something; `None` if it is too young to say.
    pub fn used(self) -> Option<f64> {
        self.part(self.busy)
    }

    fn part(self, of: u64) -> Option<f64> {
        let all = self.all();
        (all >= 100).then(|| of as f64 / all as f64)
    }
}

/// How much the times of each CPU grew; a CPU that was taken out and put back counts from 0.
pub(super) fn grown(
    before: Option<&BTreeMap<u32, CpuTimes>>,
    after: Option<&BTreeMap<u32, CpuTimes>>,
) -> Option<BTreeMap<u32, CpuTimes>> {
    let before = before?;
    let grown = |(cpu, now): (&u32, &CpuTimes)| {
        let was = before.get(cpu)?;
        let since = |now: u64, was: u64| now.checked_sub(was).unwrap_or(now);
        let times = CpuTimes {
            busy: since(now.busy, was.busy),
            idle: since(now.idle, was.idle),
            steal: since(now.steal, was.steal),
        };
        Some((*cpu, times))
    };
    Some(after?.iter().filter_map(grown).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_for_each_cpu() {
        let text = "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 700 20 200 50 10 5 15 0 300 0\ncpu3 100 0 100 100 0 0 0 700 0 0\n\
                    cpu4 1 2 3\nintr 5 6\nctxt 7\n";
        let times = CpuTimes::parse(text);
        assert_eq!(times.keys().copied().collect::<Vec<_>>(), [0, 3], "the sum and a short line are left out");
        assert_eq!(times[&0], CpuTimes { busy: 940, idle: 60, steal: 0 });
        assert_eq!((times[&0].used(), times[&0].stolen()), (Some(0.94), Some(0.0)));
        assert_eq!(times[&3].stolen(), Some(0.7));
        assert_eq!(CpuTimes { busy: 9, ..CpuTimes::default() }.used(), None);
        assert!(CpuTimes::parse("").is_empty());
    }

    #[test]
    fn what_a_recording_adds_is_the_difference() {
        let times = |busy, steal| CpuTimes { busy, idle: 50, steal };
        let before = BTreeMap::from([(0, times(100, 7)), (1, times(500, 9))]);
        let after = BTreeMap::from([(0, times(150, 27)), (1, times(20, 9)), (2, times(3, 0))]);
        let grown = grown(Some(&before), Some(&after)).expect("both were read");
        assert_eq!((grown[&0].busy, grown[&0].steal, grown[&0].idle), (50, 20, 0));
        assert_eq!(grown[&1].busy, 20, "it was off meanwhile");
        assert!(!grown.contains_key(&2), "nobody knows what it had before");
        assert_eq!(super::grown(None, Some(&after)), None);
    }
}
