//! Records latencies.

use std::io::{self, Write};
use std::time::Duration;

use crate::metric::{self, Better};

/// Latencies, in memory that is allocated before the loop.
pub(super) struct Latencies {
    ns: Vec<u64>,
    dropped: u64,
}

impl Latencies {
    /// Room for `count`. Further ones count as dropped and only affect the maximum.
    pub(super) fn with_room(count: usize) -> Latencies {
        const MAX_SAMPLES: usize = 2_000_000;
        let mut ns = vec![0; count.clamp(1, MAX_SAMPLES)];
        // Written once, so that the loop has no page faults.
        ns.fill(1);
        ns.clear();
        Latencies { ns, dropped: 0 }
    }

    pub(super) fn record(&mut self, latency: Duration) {
        let ns = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        if self.ns.len() < self.ns.capacity() {
            self.ns.push(ns);
        } else {
            self.dropped += 1;
            if let Some(last) = self.ns.last_mut() {
                *last = ns.max(*last);
            }
        }
    }

    /// Writes `n` and, if there are any latencies, `mean`, `p50`, `p99` and `max`; exact, nearest rank.
    pub(super) fn write(mut self, out: &mut dyn Write) -> io::Result<()> {
        self.ns.sort_unstable();
        writeln!(out, "{}", metric::line("n", self.ns.len() as u64 + self.dropped, "1", Better::Neither))?;
        let (Some(max), count) = (self.ns.last(), self.ns.len()) else { return Ok(()) };
        let mean = self.ns.iter().map(|&ns| u128::from(ns)).sum::<u128>() / count as u128;
        let rank = |percent: usize| self.ns[(count * percent).div_ceil(100).saturating_sub(1)];
        for (name, ns) in [("mean", mean), ("p50", rank(50).into()), ("p99", rank(99).into()), ("max", (*max).into())] {
            writeln!(out, "{}", metric::line(name, ns, "ns", Better::Lower))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_exact_and_the_maximum_is_never_lost() {
        let mut latencies = Latencies::with_room(100);
        (1..=100).for_each(|us| latencies.record(Duration::from_micros(us)));
        latencies.record(Duration::from_millis(9));
        let mut out = Vec::new();
        latencies.write(&mut out).expect("written");
        insta::assert_snapshot!(String::from_utf8(out).expect("text"), @"
        metric n 101 1 neither
        metric mean 139500 ns lower
        metric p50 50000 ns lower
        metric p99 99000 ns lower
        metric max 9000000 ns lower
        ");
    }
}
