//! Whether the machine stood still: a virtual machine that its host paused, or whose host slept, goes on with a clock that has jumped.
//!
//! Then all that waited has waited for as long, and nobody is to blame. Who is late because others had the CPU was runnable meanwhile, and
//! the kernel says for how long; who slept, and whose timer came late, lived through no such time.

use std::time::Duration;

/// A timer is never so late while the machine runs.
const LATE: Duration = Duration::from_secs(2);

/// How long this thread has waited for a CPU, as the kernel counts it.
#[derive(Debug)]
pub(crate) struct OwnWait {
    before: Option<Duration>,
    /// Where timers of programs are the work of a thread that may be starved itself, a late one says nothing.
    is_telling: bool,
}

impl OwnWait {
    pub fn new() -> OwnWait {
        let is_real_time = rustix::system::uname().version().to_bytes().windows(10).any(|part| part == b"PREEMPT_RT");
        OwnWait { before: own_wait(), is_telling: !is_real_time }
    }

    /// Whether the machine stood still, where this thread has slept for so much longer than it wanted.
    pub fn stood_still(&mut self, late: Duration) -> bool {
        let now = own_wait();
        let waited = now.zip(std::mem::replace(&mut self.before, now)).map(|(now, before)| now.saturating_sub(before));
        self.is_telling && waited.is_some_and(|waited| is_nobodys(late, waited))
    }
}

fn is_nobodys(late: Duration, waited: Duration) -> bool {
    late.saturating_sub(waited) > LATE && waited < late / 2
}

fn own_wait() -> Option<Duration> {
    wait_of(&std::fs::read_to_string("/proc/thread-self/schedstat").ok()?)
}

/// Time on a CPU, time runnable without one, and slices, in ns (Documentation/scheduler/sched-stats.rst).
fn wait_of(schedstat: &str) -> Option<Duration> {
    schedstat.split_ascii_whitespace().nth(1)?.parse().ok().map(Duration::from_nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_kept_from_the_cpu_saw_no_machine_stand_still() {
        let seconds = Duration::from_secs;
        assert!(is_nobodys(seconds(10), Duration::from_millis(20)));
        assert!(!is_nobodys(seconds(10), seconds(9)), "somebody had the CPU");
        assert!(!is_nobodys(seconds(10), seconds(6)), "for the greater part of it");
        assert!(!is_nobodys(Duration::from_millis(1500), Duration::ZERO), "timers are late now and then");
        assert_eq!(wait_of("123 4567 8\n"), Some(Duration::from_nanos(4567)));
        assert_eq!(wait_of(""), None);
    }

    #[test]
    fn a_thread_that_sleeps_as_long_as_it_wanted_saw_nothing() {
        let mut own = OwnWait::new();
        std::thread::sleep(Duration::from_millis(5));
        assert!(!own.stood_still(Duration::ZERO));
    }
}
