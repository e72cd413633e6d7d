//! Reads the kernel's clocks: monotonic, wall clock, CPU time of the process and of the thread.

use rustix::time::{ClockId, clock_gettime};
use unstarve_model::{ClockPair, Nanos, Time, WallTime};

/// `CLOCK_MONOTONIC` and the wall clock now.
pub(crate) fn now() -> ClockPair {
    let before = nanos(ClockId::Monotonic);
    let wall = nanos(ClockId::Realtime);
    let after = nanos(ClockId::Monotonic);
    ClockPair { trace: Time(before + after.saturating_sub(before) / 2), wall: WallTime(wall) }
}

/// Both clocks at a moment shortly before now, given on the monotonic clock.
#[cfg(feature = "bpf")]
pub(crate) fn now_was(moment: Time) -> ClockPair {
    let now = now();
    let passed = now.trace.since(moment);
    ClockPair { trace: now.trace - passed, wall: WallTime(now.wall.0.saturating_sub(passed.0)) }
}

/// CPU time of this process.
pub(crate) fn process() -> Nanos {
    Nanos(nanos(ClockId::ProcessCPUTime))
}

/// CPU time of this thread.
#[cfg(feature = "bpf")]
pub(crate) fn thread() -> Nanos {
    Nanos(nanos(ClockId::ThreadCPUTime))
}

/// Nanoseconds since the zero of the clock; none of these clocks is negative.
fn nanos(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    now.tv_sec.unsigned_abs().saturating_mul(1_000_000_000).saturating_add(now.tv_nsec.unsigned_abs())
}
