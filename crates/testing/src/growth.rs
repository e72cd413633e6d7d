//! Tests that work grows linearly with its input, on slow and busy machines.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The least CPU time of three runs in this thread: other programs do not count, and the machine's speed cancels out
/// when two results are compared.
pub fn cpu_time(mut work: impl FnMut()) -> Duration {
    let now = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
    };
    let runs = (0..3).map(|_| {
        let began = now();
        work();
        now().saturating_sub(began)
    });
    runs.min().unwrap_or_default()
}

/// Fails if `times` as much input takes more than three times `times` as long; comparing all pairs would take `times`
/// squared.
///
/// # Panics
/// If it grows faster.
pub fn grows_with_its_input(times: u32, few: impl FnMut(), many: impl FnMut()) {
    let (few, many) = (cpu_time(few), cpu_time(many));
    assert!(many < few * times * 3, "{times} times the input took {many:?} instead of {few:?}");
}
