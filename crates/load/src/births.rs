//! A load that creates many short-lived threads.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::getpriority_process;
use rustix::thread::set_name;

/// The mark that each thread should get from outside.
#[derive(Clone, Copy)]
pub(crate) enum Mark {
    Nice(i32),
    Batch,
}

impl Mark {
    /// Removes the mark. Children inherit the policy of the creating thread, which may have been marked itself.
    fn put_off(self) {
        if matches!(self, Mark::Batch) && self.is_here() {
            // SAFETY: the kernel reads a `sched_param` that exists.
            unsafe { libc::sched_setscheduler(0, libc::SCHED_OTHER, &libc::sched_param { sched_priority: 0 }) };
        }
    }

    fn is_here(self) -> bool {
        match self {
            // 0 and `None` mean the calling thread.
            Mark::Nice(nice) => getpriority_process(None) == Ok(nice),
            Mark::Batch => {
                // SAFETY: takes no pointer.
                let policy = unsafe { libc::sched_getscheduler(0) };
                policy == libc::SCHED_BATCH
            }
        }
    }
}

/// The parameters of a storm of threads.
#[derive(Clone, Copy)]
pub(crate) struct Storm {
    pub lasts: Duration,
    pub rate: u32,
    pub lives: Duration,
    pub mark: Mark,
    /// Whether threads look for the mark all the time, and not only at their end.
    pub watch: bool,
}

/// The result of a storm.
#[derive(Default)]
pub(crate) struct Made {
    /// Threads created.
    pub made: u64,
    /// Threads without the mark at their end.
    pub wrong: u64,
    /// Threads that were created late for the rate.
    pub late: u64,
    /// In a watched storm: the time from just before a thread's creation until it saw its mark, in ns, ascending.
    pub seen_ns: Vec<u64>,
}

impl Made {
    /// The time within which this many thousandths of the marked threads had it.
    pub fn quantile_ns(&self, thousandths: usize) -> Option<u64> {
        let last = self.seen_ns.len().checked_sub(1)?;
        self.seen_ns.get(last * thousandths / 1000).copied()
    }
}

/// Creates `rate` threads a second. Each inherits this thread's name, `storm`, sleeps, and looks for its mark.
pub(crate) fn blow(storm: Storm) -> Made {
    // If the name cannot be set, the threads count as wrong.
    let _ = set_name(c"storm");
    let seen = Arc::new(Mutex::new((0_u64, Vec::new())));
    let (began, gap) = (Instant::now(), Duration::from_secs(1) / storm.rate);
    let mut result = Made::default();
    let mut next = began;
    while began.elapsed() < storm.lasts {
        let now = Instant::now();
        while next <= now {
            next += gap;
            let seen = seen.clone();
            storm.mark.put_off();
            let born = Instant::now();
            let thread = thread::Builder::new().stack_size(32 << 10).spawn(move || {
                let marked = live(&storm, born);
                let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
                match marked {
                    Some(after) if storm.watch => seen.1.push(after.as_nanos() as u64),
                    Some(_) => {}
                    None => seen.0 += 1,
                }
            });
            match thread {
                Ok(_) => result.made += 1,
                Err(_) => result.late += 1,
            }
        }
        thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    thread::sleep(storm.lives + Duration::from_millis(300));
    let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    (result.wrong, result.seen_ns) = (seen.0, std::mem::take(&mut seen.1));
    result.seen_ns.sort_unstable();
    result
}

/// The age at which the mark was seen.
fn live(storm: &Storm, born: Instant) -> Option<Duration> {
    let mut pause = Duration::from_micros(50);
    while storm.watch && born.elapsed() < storm.lives {
        if storm.mark.is_here() {
            let age = born.elapsed();
            thread::sleep(storm.lives.saturating_sub(age));
            return Some(age);
        }
        // Longer each time, so that the checks of hundreds of threads are not a load themselves.
        thread::sleep(pause);
        pause = (pause * 5 / 4).min(Duration::from_millis(10));
    }
    thread::sleep(storm.lives.saturating_sub(born.elapsed()));
    storm.mark.is_here().then(|| born.elapsed())
}
