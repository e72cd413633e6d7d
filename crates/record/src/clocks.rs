//! Reads the trace clock and the wall clock at the same moment, so that a recording can be compared with logs.

use rustix::time::{ClockId, clock_gettime};
use unstarve_model::{ClockPair, Time, WallTime};

use crate::instance::Instance;

/// Reads both clocks this often and takes the fastest try: an interruption between the two reads would falsify the
/// pair.
const CLOCK_TRIES: usize = 5;

/// Both clocks now; `None` if the trace clock cannot be read.
pub(crate) fn now(instance: &Instance, clock: &str, cpus: &[u32]) -> Option<ClockPair> {
    let ask: Box<dyn Fn() -> Option<Time>> = match clock {
        "mono" => Box::new(|| nanos(ClockId::Monotonic).map(Time)),
        "boot" => Box::new(|| nanos(ClockId::Boottime).map(Time)),
        // The kernel shows other clocks with microsecond resolution (`tracing_stats_read()` in kernel/trace/trace.c).
        _ => Box::new(|| {
            let cpu = cpus.first()?;
            stats_time(&instance.text(&format!("per_cpu/cpu{cpu}/stats")).ok()?)
        }),
    };
    let tries = (0..CLOCK_TRIES).filter_map(|_| {
        let (before, wall, after) = (ask()?, nanos(ClockId::Realtime)?, ask()?);
        let took = after.since(before);
        Some((took, ClockPair { trace: Time(before.0 + took.0 / 2), wall: WallTime(wall) }))
    });
    tries.min_by_key(|(took, _)| *took).map(|(_, pair)| pair)
}

fn nanos(clock: ClockId) -> Option<u64> {
    let now = clock_gettime(clock);
    u64::try_from(now.tv_sec).ok()?.checked_mul(1_000_000_000)?.checked_add(u64::try_from(now.tv_nsec).ok()?)
}

/// Parses `now ts:  1234.567890` of `per_cpu/cpuN/stats`.
fn stats_time(text: &str) -> Option<Time> {
    let now = text.lines().find_map(|line| line.strip_prefix("now ts:"))?;
    let (seconds, micros) = now.trim().split_once('.').filter(|(_, micros)| micros.len() == 6)?;
    let micros = seconds.parse::<u64>().ok()?.checked_mul(1_000_000)?.checked_add(micros.parse().ok()?)?;
    micros.checked_mul(1_000).map(Time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_s_own_word_for_the_time_is_read() {
        let text = "entries: 7\noldest event ts:  1.000000\nnow ts:  1234.567890\ndropped events: 0\n";
        assert_eq!(stats_time(text), Some(Time(1_234_567_890_000)));
        assert_eq!(stats_time("now ts: 1234\n"), None, "a clock that counts something else");
    }
}
