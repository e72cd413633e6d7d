//! Loads with a fixed pace: a burner and a daemon.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::thread;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use super::arguments::Arguments;
use super::latency::Latencies;
use super::{Doing, LoadError};
use crate::metric::{self, Better};
use crate::spin::until as compute_until;

/// Computes for `work` of this thread's own CPU time, however long that takes.
pub(super) fn compute_for(work: Duration) {
    let used = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
    };
    let until = used() + work;
    while used() < until {
        std::hint::spin_loop();
    }
}

/// Sleeps until `until`; not at all if it has passed.
pub(super) fn sleep_until(until: Instant) {
    thread::sleep(until.saturating_duration_since(Instant::now()));
}

/// Runs `work` in a thread of this name, with the caller's policy and affinity, and waits for its end.
pub(super) fn in_thread<T: Send>(name: &str, work: impl FnOnce() -> T + Send) -> Result<T, LoadError> {
    thread::scope(|scope| {
        let handle = thread::Builder::new().name(name.to_owned()).spawn_scoped(scope, work).doing("start a thread")?;
        handle
            .join()
            .map_err(|_| LoadError::Io { doing: "wait for a thread", source: std::io::Error::other("it panicked") })
    })
}

/// Computes for `busy_ms` in every `period_ms`. With `helper`, every round is a new short-lived thread of that name,
/// which inherits policy and affinity like a helper process of a monitor.
pub(super) fn burn(arguments: &mut Arguments, out: &mut dyn Write) -> Result<(), LoadError> {
    let (busy, period) = (arguments.millis("busy_ms", 90)?, arguments.millis("period_ms", 1000)?);
    let (name, helper) = (arguments.text("name", "burn"), arguments.text("helper", ""));
    let (length, _) = arguments.done()?;
    let rounds = in_thread(&name, || {
        let begun = Instant::now();
        let end = begun + length;
        let mut rounds = 0u32;
        while Instant::now() < end {
            let until = (Instant::now() + busy).min(end);
            if helper.is_empty() {
                compute_until(until);
            } else {
                in_thread(&helper, || compute_until(until))?;
            }
            rounds += 1;
            sleep_until((begun + period * rounds).min(end));
        }
        Ok::<u32, LoadError>(rounds)
    })??;
    writeln!(out, "{}", metric::line("rounds", rounds, "1", Better::Neither)).doing("write")
}

/// Wakes every `period_us`, computes for `work_us`, and measures how late it is done; also counts the system's runnable
/// tasks at each wakeup. The delay of the wakeup alone says little: a fair scheduler runs a sleeper at once, and makes
/// it wait when it wants to work.
pub(super) fn daemon(arguments: &mut Arguments, out: &mut dyn Write) -> Result<(), LoadError> {
    let (period, name) = (arguments.micros("period_us", 5_000)?, arguments.text("name", "portmap"));
    let work = arguments.micros("work_us", 0)?;
    let (length, seed) = arguments.done()?;
    let period = period.max(Duration::from_micros(100));
    let loadavg = File::open("/proc/loadavg").doing("open /proc/loadavg")?;
    let rounds = (length.as_nanos() / period.as_nanos()) as usize + 1;
    let (late, runnable) = in_thread(&name, || {
        let mut late = Latencies::with_room(rounds);
        let mut runnable = Runnable::default();
        let end = Instant::now() + length;
        thread::sleep(Duration::from_micros(crate::seed::mix(seed) % 1_000));
        loop {
            let due = Instant::now() + period;
            if due >= end {
                return (late, runnable);
            }
            sleep_until(due);
            runnable.look(&loadavg);
            compute_for(work);
            late.record(Instant::now().saturating_duration_since(due + work));
        }
    })?;
    late.write(out).doing("write")?;
    runnable.write(out).doing("write")
}

/// Runnable and running tasks, from `/proc/loadavg`'s fourth field (`3/128`).
///
/// Source: Documentation/filesystems/proc.rst.
#[derive(Default)]
struct Runnable {
    looks: u64,
    sum: u64,
    max: u64,
}

impl Runnable {
    fn look(&mut self, loadavg: &File) {
        let mut text = [0; 64];
        let Ok(length) = loadavg.read_at(&mut text, 0) else { return };
        let field = std::str::from_utf8(&text[..length]).ok().and_then(|text| text.split(' ').nth(3));
        let Some(count) = field.and_then(|field| field.split('/').next()?.parse::<u64>().ok()) else { return };
        self.looks += 1;
        self.sum += count;
        self.max = self.max.max(count);
    }

    fn write(&self, out: &mut dyn Write) -> std::io::Result<()> {
        if self.looks == 0 {
            return Ok(());
        }
        let mean = self.sum as f64 / self.looks as f64;
        writeln!(out, "{}", metric::line("runnable_mean", format_args!("{mean:.2}"), "tasks", Better::Lower))?;
        writeln!(out, "{}", metric::line("runnable_max", self.max, "tasks", Better::Lower))
    }
}
