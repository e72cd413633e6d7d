//! The kernel's tick: what a number of jiffies is in seconds.

use unstarve_model::Nanos;

/// Ticks a second.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hertz(pub u32);

/// The values that a kernel can be built with (`kernel/Kconfig.hz`).
const KNOWN: [u32; 5] = [100, 250, 300, 1000, 1024];

/// Seconds after which RCU reports a stall: 21 by default (`CONFIG_RCU_CPU_STALL_TIMEOUT` in kernel/rcu/Kconfig.debug), 60 as
/// distributions set it.
const STALL_TIMEOUTS: [u32; 2] = [21, 60];

impl Hertz {
    /// The tick from the length of a stall that RCU has just noticed. Its first report comes when the timeout is over, at the next
    /// tick or a few later, and each product of timeout and tick is a number of its own. `timeout`: where the command line sets one.
    /// No stall is older than the boot.
    pub fn of_first_stall(jiffies: u64, timeout: Option<u32>, uptime: Option<Nanos>) -> Option<Hertz> {
        let is_near = |seconds: u32, ticks: u32| {
            let due = u64::from(seconds) * u64::from(ticks);
            (due..=due + due / 50).contains(&jiffies)
        };
        let timeouts: &[u32] = timeout.as_ref().map_or(&STALL_TIMEOUTS, std::slice::from_ref);
        let is_possible = |ticks: u32| uptime.is_none_or(|uptime| Hertz(ticks).length(jiffies) <= uptime);
        let fits: Vec<u32> = KNOWN
            .into_iter()
            .filter(|ticks| is_possible(*ticks) && timeouts.iter().any(|seconds| is_near(*seconds, *ticks)))
            .collect();
        match fits.as_slice() {
            [only] => Some(Hertz(*only)),
            _ => None,
        }
    }

    /// The tick from two reports of the same stall.
    pub fn of_progress(jiffies: u64, passed: Nanos) -> Option<Hertz> {
        let ticks = jiffies as f64 / passed.as_secs_f64();
        KNOWN.into_iter().find(|known| (ticks / f64::from(*known) - 1.0).abs() < 0.02).map(Hertz)
    }

    /// How long so many ticks are.
    pub fn length(self, jiffies: u64) -> Nanos {
        Nanos(u64::try_from(u128::from(jiffies) * 1_000_000_000 / u128::from(self.0.max(1))).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_stall_tells_the_tick() {
        let table = [
            (2_102, Some(100)),
            (5_252, Some(250)),
            (6_003, Some(100)),
            (6_302, Some(300)),
            (15_002, Some(250)),
            (18_001, Some(300)),
            (21_003, Some(1000)),
            (60_009, Some(1000)),
            // A second report, or a timeout of somebody's own.
            (254_302, None),
            (8_407, None),
        ];
        for (jiffies, ticks) in table {
            assert_eq!(Hertz::of_first_stall(jiffies, None, None), ticks.map(Hertz), "{jiffies}");
        }
        assert_eq!(Hertz::of_first_stall(15_003, Some(15), None), Some(Hertz(1000)));
        assert_eq!(Hertz::of_first_stall(15_002, None, Some(Nanos(20_000_000_000))), None, "the boot was 20 s ago");
        assert_eq!(Hertz::of_progress(15_750, Nanos(63_010_000_000)), Some(Hertz(250)));
        assert_eq!(Hertz(250).length(15_000), Nanos(60_000_000_000));
    }
}
