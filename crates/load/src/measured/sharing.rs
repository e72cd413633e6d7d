//! Loads whose threads wait for each other: for a lock, and in turns.

use std::io::{self, Write};
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};

use super::arguments::Arguments;
use super::latency::Latencies;
use super::pacing::{compute_for, in_thread, sleep_until};
use super::{Doing, LoadError};

/// Takes a lock on a file, computes for `hold_us`, gives it back and sleeps for `gap_us`. Two such loads, in groups of their own, are
/// a lock whose holder may be kept from running. Measures how long it waited for the lock.
pub(super) fn lock(arguments: &mut Arguments, out: &mut dyn Write) -> Result<(), LoadError> {
    let (path, name) = (arguments.text("file", "/run/unstarve-lab.lock"), arguments.text("name", "keeper"));
    let (hold, gap) = (arguments.micros("hold_us", 3_000)?, arguments.micros("gap_us", 1_000)?);
    let (length, seed) = arguments.done()?;
    // No link that somebody else put there.
    let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = open(path, flags, Mode::RUSR | Mode::WUSR).map_err(io::Error::from).doing("open the lock's file")?;
    let rounds = (length.as_micros() / gap.as_micros().max(1)) as usize + 1024;
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
            let is_answered = asks.send(()).is_ok() && answered.recv().is_ok();
            if !is_answered {
                return Err(io::Error::other("it ended early")).doing("wait for the other thread");
            }
            turns.record(began.elapsed());
        }
        drop(asks);
        Ok::<(), LoadError>(())
    })?;
    turns.write(out).doing("write")
}
