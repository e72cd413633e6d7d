use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::getpriority_process;
use rustix::thread::set_name;

/// What became of a storm of births.
pub(crate) struct Made {
    /// Threads made.
    pub made: u64,
    /// Of these, without the expected nice at their end.
    pub wrong: u64,
    /// Threads that could not be made in time for the rate.
    pub late: u64,
}

/// Makes `rate` threads a second. Each inherits this thread's name, `storm`, sleeps, and looks at its own nice.
pub(crate) fn storm(lasts: Duration, rate: u32, lives: Duration, nice: i32) -> Made {
    // A name that cannot be set shows as wrong threads.
    let _ = set_name(c"storm");
    let wrong = Arc::new(AtomicU64::new(0));
    let (began, gap) = (Instant::now(), Duration::from_secs(1) / rate);
    let (mut made, mut late) = (0_u64, 0_u64);
    let mut next = began;
    while began.elapsed() < lasts {
        let now = Instant::now();
        while next <= now {
            next += gap;
            let wrong = wrong.clone();
            let thread = thread::Builder::new().stack_size(32 << 10).spawn(move || {
                thread::sleep(lives);
                // 0 is the calling thread itself.
                if getpriority_process(None) != Ok(nice) {
                    wrong.fetch_add(1, Ordering::Relaxed);
                }
            });
            match thread {
                Ok(_) => made += 1,
                Err(_) => late += 1,
            }
        }
        thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    thread::sleep(lives + Duration::from_millis(300));
    Made { made, wrong: wrong.load(Ordering::Relaxed), late }
}
