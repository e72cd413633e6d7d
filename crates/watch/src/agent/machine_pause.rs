//! Detects that the machine was paused: the clock of a virtual machine jumps when its host pauses it or is suspended.
//!
//! Then all waits have grown by that time, and no task is to blame. Three cases of a late timer are distinguished: a thread that is late because
//! other tasks had the CPU was runnable meanwhile, and the kernel counts that; a paused machine has no such time. A thread that was stopped
//! (SIGSTOP, a debugger, a freezer) was woken for that and slept a second time: the kernel counts its sleeps, and the machine ran on.

use std::fs::File;
use std::mem::MaybeUninit;
use std::os::unix::fs::FileExt;
use std::time::Duration;

/// A timer is never this late while the machine runs.
const LATE: Duration = Duration::from_secs(2);

/// The reason of a late timer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lateness {
    /// The timer was not late, or other tasks had the CPU.
    Usual,
    /// Nothing ran for this long.
    MachineStood,
    /// This process was stopped, others ran.
    ProcessStopped,
}

/// How long this thread has waited for a CPU, according to the kernel, and how often it has slept.
#[derive(Debug)]
pub(crate) struct OwnWait {
    /// Always that of the thread that opened it, whichever thread reads it. Read in each round; the kernel generates the contents for each read.
    schedstat: Option<File>,
    before: Option<Duration>,
    /// `false` if timers of programs are run by a kernel thread that can starve itself: then a late timer proves nothing.
    is_telling: bool,
    /// Number of sleeps in the latest call of `around`.
    slept: Option<u64>,
}

impl OwnWait {
    pub fn new() -> OwnWait {
        let is_real_time = rustix::system::uname().version().to_bytes().windows(10).any(|part| part == b"PREEMPT_RT");
        let schedstat = File::open("/proc/thread-self/schedstat").ok();
        let before = schedstat.as_ref().and_then(own_wait);
        OwnWait { schedstat, before, is_telling: !is_real_time, slept: None }
    }

    /// Runs `sleep`, and counts how often the thread slept.
    pub fn around<T>(&mut self, sleep: impl FnOnce() -> T) -> T {
        let before = sleeps();
        let slept = sleep();
        self.slept = before.zip(sleeps()).map(|(before, now)| now.saturating_sub(before));
        slept
    }

    /// Why this thread has slept for so much longer than intended.
    pub fn judge(&mut self, late: Duration) -> Lateness {
        let now = self.schedstat.as_ref().and_then(own_wait);
        let waited = now.zip(std::mem::replace(&mut self.before, now)).map(|(now, before)| now.saturating_sub(before));
        waited.map_or(Lateness::Usual, |waited| judged(late, waited, self.slept.unwrap_or(1), self.is_telling))
    }
}

fn judged(late: Duration, waited: Duration, slept: u64, is_telling: bool) -> Lateness {
    let is_nobodys = late.saturating_sub(waited) > LATE && waited < late / 2;
    match is_nobodys {
        true if slept > 1 => Lateness::ProcessStopped,
        true if is_telling => Lateness::MachineStood,
        _ => Lateness::Usual,
    }
}

/// Enough for three numbers of at most twenty digits.
fn own_wait(schedstat: &File) -> Option<Duration> {
    let mut text = [0; 64];
    let length = schedstat.read_at(&mut text, 0).ok()?;
    wait_of(std::str::from_utf8(&text[..length]).ok()?)
}

/// CPU time, time runnable without a CPU, and number of runs, times in ns (Documentation/scheduler/sched-stats.rst).
fn wait_of(schedstat: &str) -> Option<Duration> {
    schedstat.split_ascii_whitespace().nth(1)?.parse().ok().map(Duration::from_nanos)
}

/// How often this thread has left a CPU voluntarily, except for major page faults (getrusage(2)).
fn sleeps() -> Option<u64> {
    let mut usage = MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: the kernel fills in the structure, or returns an error.
    let failed = unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) };
    // SAFETY: it was filled in.
    let usage = (failed == 0).then(|| unsafe { usage.assume_init() })?;
    Some(usage.ru_nvcsw.saturating_sub(usage.ru_majflt).unsigned_abs())
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Read as _};
    use std::process::{Command, Stdio};
    use std::sync::mpsc::channel;

    use rustix::process::{Pid, Signal, kill_process};

    use super::*;

    #[test]
    fn who_was_kept_from_the_cpu_saw_no_machine_stand_still() {
        let seconds = Duration::from_secs;
        let judged = |late, waited, slept| super::judged(late, waited, slept, true);
        assert_eq!(judged(seconds(10), Duration::from_millis(20), 1), Lateness::MachineStood);
        assert_eq!(judged(seconds(10), seconds(9), 1), Lateness::Usual, "somebody had the CPU");
        assert_eq!(judged(seconds(10), seconds(6), 1), Lateness::Usual, "for the greater part of it");
        assert_eq!(
            judged(Duration::from_millis(1500), Duration::ZERO, 1),
            Lateness::Usual,
            "timers are late now and then"
        );
        assert_eq!(judged(seconds(10), Duration::from_millis(20), 2), Lateness::ProcessStopped);
        assert_eq!(super::judged(seconds(10), Duration::ZERO, 1, false), Lateness::Usual, "timers wait for a thread");
        assert_eq!(wait_of("123 4567 8\n"), Some(Duration::from_nanos(4567)));
        assert_eq!(wait_of(""), None);
    }

    #[test]
    fn a_thread_that_sleeps_as_long_as_it_wanted_saw_nothing() {
        let (_events, inbox) = channel::<()>();
        let mut own = OwnWait::new();
        let _ = own.around(|| inbox.recv_timeout(Duration::from_millis(5)));
        assert_eq!(own.judge(Duration::ZERO), Lateness::Usual);
        // A timer that was late by as much as the clock has jumped means one sleep.
        for _ in 0..20 {
            let _ = own.around(|| inbox.recv_timeout(Duration::from_millis(5)));
            let expected = if own.is_telling { Lateness::MachineStood } else { Lateness::Usual };
            assert_eq!(own.judge(Duration::from_secs(100)), expected);
        }
    }

    const CHILD: &str = "UNSTARVE_TEST_SLEEPER";

    /// The child of the next test: sleeps as the watch does, and prints the result.
    #[test]
    fn sleeper() {
        if std::env::var_os(CHILD).is_none() {
            return;
        }
        let (_events, inbox) = channel::<()>();
        let mut own = OwnWait::new();
        println!("\nsleeps");
        let begun = std::time::Instant::now();
        let wanted = Duration::from_millis(1500);
        let _ = own.around(|| inbox.recv_timeout(wanted));
        println!("\n{:?}", own.judge(begun.elapsed().saturating_sub(wanted)));
    }

    #[test]
    fn a_process_that_was_stopped_is_no_machine_that_stood_still() {
        let this = std::env::current_exe().expect("this program");
        let arguments = ["--exact", "agent::machine_pause::tests::sleeper", "--nocapture"];
        let child = Command::new(this).args(arguments).env(CHILD, "1").stdout(Stdio::piped()).spawn();
        let mut child = child.expect("a child");
        let mut said = BufReader::new(child.stdout.take().expect("its words"));
        let mut line = String::new();
        while line.trim() != "sleeps" {
            line.clear();
            assert!(said.read_line(&mut line).expect("a line") > 0, "it ended");
        }
        let pid = Pid::from_child(&child);
        // By then it is asleep, or about to sleep: both are fine.
        std::thread::sleep(Duration::from_millis(300));
        kill_process(pid, Signal::STOP).expect("a stop");
        std::thread::sleep(Duration::from_millis(4500));
        kill_process(pid, Signal::CONT).expect("it goes on");
        let mut rest = String::new();
        said.read_to_string(&mut rest).expect("its words");
        assert!(child.wait().expect("its end").success());
        assert!(rest.contains("ProcessStopped"), "{rest}");
    }
}
