//! Loads that wait without sleeping: by yielding, and in one long system call.

use std::io::{self, Write, pipe};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::arguments::Arguments;
use super::latency::Latencies;
use super::pacing::{in_thread, sleep_until};
use super::{Doing, LoadError};
use crate::metric::{self, Better};

/// Yields in a loop, as a program that waits for a spinlock of its own does, and measures the longest time without the CPU in each
/// `turn_us`. With `yields=0` it only spins.
pub(super) fn yields(arguments: &mut Arguments, out: &mut dyn Write) -> Result<(), LoadError> {
    let turn = arguments.micros("turn_us", 2_000)?;
    let (yields, name) = (arguments.number("yields", 1, 0..=1)? == 1, arguments.text("name", "yielder"));
    let (length, seed) = arguments.done()?;
    let turn = turn.max(Duration::from_micros(1));
    let rounds = (length.as_micros() / turn.as_micros()) as usize + 1;
    let away = in_thread(&name, || {
        let mut away = Latencies::with_room(rounds);
        let end = Instant::now() + length;
        thread::sleep(Duration::from_micros(crate::seed::mix(seed) % 1_000));
        let mut now = Instant::now();
        while now < end {
            let (until, mut longest) = (now + turn, Duration::ZERO);
            while now < until {
                if yields {
                    thread::yield_now();
                }
                let back = Instant::now();
                longest = longest.max(back - now);
                now = back;
            }
            away.record(longest);
        }
        away
    })?;
    away.write(out).doing("write")
}

/// Sleeps for `sleep_us` again and again, and counts how often: each time its CPU has nothing left to run, and something again.
pub(super) fn nap(arguments: &mut Arguments, out: &mut dyn Write) -> Result<(), LoadError> {
    let (sleep, name) = (arguments.micros("sleep_us", 2)?, arguments.text("name", "nap"));
    let (length, _) = arguments.done()?;
    let naps = in_thread(&name, || {
        let end = Instant::now() + length;
        let mut naps = 0u64;
        while Instant::now() < end {
            thread::sleep(sleep);
            naps += 1;
        }
        naps
    })?;
    let rate = naps as f64 / length.as_secs_f64();
    writeln!(out, "{}", metric::line("naps", format_args!("{rate:.1}"), "1/s", Better::Higher)).doing("write")
}

/// Asks the kernel about `descriptors` open files at once, every `gap_us`, and measures how long a call takes: `do_poll()` of
/// fs/select.c goes through them without a place where it may be preempted.
pub(super) fn poll(arguments: &mut Arguments, out: &mut dyn Write) -> Result<(), LoadError> {
    let (count, gap) = (arguments.number("descriptors", 300_000, 1..=1_000_000)?, arguments.micros("gap_us", 20_000)?);
    let name = arguments.text("name", "sweeper");
    let (length, _) = arguments.done()?;
    let (quiet, _writer) = pipe().doing("make a pipe")?;
    raise_descriptors(count)?;
    let took = in_thread(&name, || {
        let mut all = vec![PollFd::new(&quiet, PollFlags::IN); count as usize];
        let mut took = Latencies::with_room((length.as_micros() / gap.as_micros().max(1)) as usize + 1024);
        let end = Instant::now() + length;
        while Instant::now() < end {
            let began = Instant::now();
            rustix::event::poll(&mut all, Some(&Timespec::default())).map_err(io::Error::from).doing("poll")?;
            took.record(began.elapsed());
            sleep_until(Instant::now() + gap);
        }
        Ok::<Latencies, LoadError>(took)
    })??;
    took.write(out).doing("write")
}

/// poll(2) refuses more descriptors than a process may have open.
fn raise_descriptors(count: u64) -> Result<(), LoadError> {
    let limit = getrlimit(Resource::Nofile);
    let suffices = |most: Option<u64>| most.is_none_or(|most| most >= count);
    if suffices(limit.current) {
        return Ok(());
    }
    let maximum = if suffices(limit.maximum) { limit.maximum } else { Some(count) };
    setrlimit(Resource::Nofile, Rlimit { current: Some(count), maximum })
        .map_err(io::Error::from)
        .doing("raise RLIMIT_NOFILE")
}
