//! Loads whose threads wait for each other: for a lock, and for the last of a batch.

use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read, Write, pipe};
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};

use super::arguments::Arguments;
use super::latency::Latencies;
use super::pacing::{compute_for, in_thread, sleep_until};
use super::{Doing, LoadError};

/// Takes a lock on a file, computes for `hold_us`, gives it back and sleeps for `gap_us`. Two such loads, in groups of their own, are
/// a lock whose holder may be kept from running. Measures how long it waited for the lock.
pub(super) fn lock(arguments: &mut Arguments, out: &mut dyn Write) -> Result<(), LoadError> {
    let (path, name) = (arguments.text("file", "/run/lock"), arguments.text("name", "keeper"));
    let (hold, gap) = (arguments.micros("hold_us", 3_000)?, arguments.micros("gap_us", 1_000)?);
    let (length, seed) = arguments.done()?;
    let file = File::options().create(true).truncate(false).write(true).open(path).doing("open the lock's file")?;
    let rounds = rounds(length, gap);
    let waited = in_thread(&name, || {
        let mut waited = Latencies::with_room(rounds);
        let end = Instant::now() + length;
        thread::sleep(Duration::from_micros(crate::seed::mix(seed) % 1_000));
        while Instant::now() < end {
            let asked = Instant::now();
            flock(&file, FlockOperation::LockExclusive).map_err(io::Error::from).doing("lock the file")?;
            waited.record(asked.elapsed());
            compute_for(hold);
            flock(&file, FlockOperation::Unlock).map_err(io::Error::from).doing("unlock the file")?;
            sleep_until(Instant::now() + gap);
        }
        Ok::<Latencies, LoadError>(waited)
    })??;
    waited.write(out).doing("write")
}

/// Wakes `workers` threads at once, each of which computes for `work_us`, and measures how long it takes until the last is done. They
/// start on the CPU of who wakes them: idle CPUs have to fetch them.
pub(super) fn batch(arguments: &mut Arguments, out: &mut dyn Write) -> Result<(), LoadError> {
    let (workers, name) = (arguments.number("workers", 4, 1..=1024)?, arguments.text("name", "worker"));
    let (work, gap) = (arguments.micros("work_us", 3_000)?, arguments.micros("gap_us", 3_000)?);
    let (length, seed) = arguments.done()?;
    let mut took = Latencies::with_room(rounds(length, gap));
    let (mut done, tells_done) = pipe().doing("make a pipe")?;
    thread::scope(|scope| {
        let mut jobs = Vec::new();
        for _ in 0..workers {
            let (job, gives_job) = pipe().doing("make a pipe")?;
            let tells_done = tells_done.try_clone().doing("share a pipe")?;
            let start = thread::Builder::new().name(name.clone());
            start.spawn_scoped(scope, move || work_for_each(job, tells_done, work)).doing("start a thread")?;
            jobs.push(gives_job);
        }
        let end = Instant::now() + length;
        thread::sleep(Duration::from_micros(crate::seed::mix(seed) % 1_000));
        while Instant::now() < end {
            let began = Instant::now();
            for job in &mut jobs {
                job.write_all(&[1]).doing("wake a worker")?;
            }
            for _ in &jobs {
                done.read_exact(&mut [0]).doing("wait for a worker")?;
            }
            took.record(began.elapsed());
            sleep_until(Instant::now() + gap);
        }
        // Without their writers the workers' pipes end, and so do they.
        Ok::<(), LoadError>(())
    })?;
    took.write(out).doing("write")
}

/// Two threads that wake each other in turns: one computes for `work_us`, the other for `answer_us`. Measures how long a turn of both
/// takes.
pub(super) fn pair(arguments: &mut Arguments, out: &mut dyn Write) -> Result<(), LoadError> {
    let (work, answer_work) = (arguments.micros("work_us", 20)?, arguments.micros("answer_us", 2)?);
    let name = arguments.text("name", "pair");
    let (length, _) = arguments.done()?;
    let mut turns = Latencies::with_room((length.as_micros() / work.as_micros().max(1)) as usize + 1024);
    // Channels sleep and wake by futex: unlike a pipe they do not tell the kernel that who wakes will sleep at once.
    let ((asks, asked), (answers, answered)) = (sync_channel(1), sync_channel(1));
    thread::scope(|scope| {
        let answer = move || {
            for () in asked {
                compute_for(answer_work);
                if answers.send(()).is_err() {
                    return;
                }
            }
        };
        thread::Builder::new().name(name.clone()).spawn_scoped(scope, answer).doing("start a thread")?;
        let end = Instant::now() + length;
        while Instant::now() < end {
            let began = Instant::now();
            compute_for(work);
            if asks.send(()).is_err() || answered.recv().is_err() {
                break;
            }
            turns.record(began.elapsed());
        }
        drop(asks);
        Ok::<(), LoadError>(())
    })?;
    turns.write(out).doing("write")
}

fn work_for_each(mut job: PipeReader, mut tells_done: PipeWriter, work: Duration) {
    while job.read_exact(&mut [0]).is_ok() {
        compute_for(work);
        if tells_done.write_all(&[1]).is_err() {
            return;
        }
    }
}

/// At least as many as there can be.
fn rounds(length: Duration, gap: Duration) -> usize {
    (length.as_micros() / gap.as_micros().max(1)) as usize + 1024
}
