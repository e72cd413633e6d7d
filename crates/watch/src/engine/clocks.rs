use rustix::time::{ClockId, clock_gettime};
use unstarve_model::{ClockPair, Nanos, Time, WallTime};

/// `CLOCK_MONOTONIC` and the wall's clock now.
pub(crate) fn now() -> ClockPair {
    let before = nanos(ClockId::Monotonic);
    let wall = nanos(ClockId::Realtime);
    let after = nanos(ClockId::Monotonic);
    ClockPair { trace: Time(before + after.saturating_sub(before) / 2), wall: WallTime(wall) }
}

/// Both clocks at a moment of the first, a little while ago.
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

/// These clocks are never before their zero.
fn nanos(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    now.tv_sec.unsigned_abs().saturating_mul(1_000_000_000).saturating_add(now.tv_nsec.unsigned_abs())
}
