//! Loads that keep a CPU busy.

use std::hint::spin_loop;
use std::thread;
use std::time::{Duration, Instant};

/// Keeps a CPU busy until `end`.
pub(crate) fn until(end: Instant) {
    while Instant::now() < end {
        spin_loop();
    }
}

/// Runs for `busy` of each `period` and sleeps for the rest.
pub(crate) fn hog(lasts: Duration, period: Duration, busy: Duration) {
    let began = Instant::now();
    let end = began + lasts;
    let mut next = began;
    while Instant::now() < end {
        until((Instant::now() + busy).min(end));
        next += period;
        // If it was delayed itself, it must not catch up: the rest of each period belongs to others.
        let rest = period - busy;
        thread::sleep(next.saturating_duration_since(Instant::now()).max(rest));
    }
}

/// Runs all the time in `threads` threads.
pub(crate) fn spin(lasts: Duration, threads: usize) {
    let end = Instant::now() + lasts;
    thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(|| until(end));
        }
        until(end);
    });
}
