//! A second, tiny process that takes everything back when the guard dies, or no longer shows that ordinary tasks run.
//!
//! The guard writes a byte to a pipe as long as a thread of ordinary priority in it makes progress: a machine whose ordinary
//! tasks all starve is as bad as a dead guard. The dead-man has a real-time priority above the guard and all that it sets,
//! and sleeps in poll(2) otherwise.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::audit::{Audit, Entry, Event};
use crate::host::ThisHost;
use crate::sched;
use crate::state::{State, StateError};

/// A sign of life.
const ALIVE: u8 = b'.';
/// The guard has taken everything back itself.
const DONE: u8 = b'q';
/// A new guard may be starting; it undoes first, so waiting for longer is of no use.
const LOCK_PATIENCE: Duration = Duration::from_secs(3);

/// The guard's end.
pub struct DeadMan {
    child: Child,
    pipe: std::process::ChildStdin,
    canary: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    seen: u64,
}

impl DeadMan {
    /// Starts the process and the thread that has to make progress.
    pub fn start(mut command: Command) -> io::Result<DeadMan> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?;
        let pipe = child.stdin.take().ok_or_else(|| io::Error::other("no pipe to the dead-man"))?;
        // A dead-man that does not listen must not stop the guard.
        rustix::fs::fcntl_setfl(&pipe, rustix::fs::OFlags::NONBLOCK)?;
        let (canary, stop) = (Arc::new(AtomicU64::new(1)), Arc::new(AtomicBool::new(false)));
        let (ticks, ended) = (canary.clone(), stop.clone());
        thread::Builder::new().name("unstarve-canary".to_owned()).stack_size(64 << 10).spawn(move || {
            while !ended.load(Ordering::Relaxed) {
                ticks.fetch_add(1, Ordering::Relaxed);
                thread::sleep(Duration::from_millis(500));
            }
        })?;
        Ok(DeadMan { child, pipe, canary, stop, seen: 0 })
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Shows a sign of life, if ordinary tasks have run since the last.
    pub fn sign(&mut self) {
        let now = self.canary.load(Ordering::Relaxed);
        if now != self.seen {
            self.seen = now;
            let _ = self.pipe.write(&[ALIVE]);
        }
    }

    /// Everything was taken back; it may go.
    pub fn dismiss(mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.pipe.write(&[DONE]);
        drop(self.pipe);
        let _ = self.child.wait();
    }
}

/// How a watch ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Watched {
    /// The guard has taken everything back.
    Dismissed,
    /// The guard died.
    Died,
    /// No sign of life for too long.
    Silent,
}

/// The dead-man's end: waits, and takes back what a dead or silent guard left.
///
/// # Errors
/// If the state directory cannot be used.
pub fn watch(directory: &Path, limit: Duration, priority: u32, guard: u32) -> Result<Watched, StateError> {
    // Above everything the guard sets. Without the right to it, a normal one is better than none.
    let _ = sched::become_realtime(priority);
    // SAFETY: no memory is passed.
    unsafe {
        libc::mlockall(libc::MCL_CURRENT);
        // A Ctrl-C at the terminal is for the guard, which then dismisses us.
        libc::setsid();
        libc::prctl(libc::PR_SET_NAME, c"unstarve-undo".as_ptr());
    }
    // SAFETY: standard input is ours alone in this process.
    let pipe = unsafe { OwnedFd::from_raw_fd(0) };
    let end = listen(pipe, limit);
    if end == Watched::Dismissed {
        return Ok(end);
    }
    if end == Watched::Silent
        && rustix::process::getppid().is_some_and(|parent| parent.as_raw_nonzero().get() as u32 == guard)
    {
        // It must not go on setting what is taken back. Being its child, we know that the id is still its own.
        if let Some(pid) = rustix::process::Pid::from_raw(guard as i32) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }
    let began = Instant::now();
    let state = loop {
        match State::lock(directory) {
            Err(StateError::Busy { .. }) if began.elapsed() < LOCK_PATIENCE => thread::sleep(Duration::from_millis(20)),
            // A new guard has it, and began by taking everything back.
            Err(StateError::Busy { .. }) => return Ok(end),
            other => break other?,
        }
    };
    let mut audit = Audit::to(io::stderr());
    let reason = if end == Watched::Silent { "dead-man: no sign of life" } else { "dead-man: the guard died" };
    audit.log(&Entry { reason: Some(reason), ..Entry::of(Event::Stopped) });
    state.undo(&mut ThisHost, &mut audit)?;
    Ok(end)
}

fn listen(pipe: OwnedFd, limit: Duration) -> Watched {
    let timeout = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: 0 };
    let mut file = std::fs::File::from(pipe);
    let mut last = 0;
    loop {
        let ready = poll(&mut [PollFd::new(&file.as_fd(), PollFlags::IN)], Some(&timeout));
        match ready {
            Ok(0) => return Watched::Silent,
            Err(rustix::io::Errno::INTR) => continue,
            Ok(_) | Err(_) => {}
        }
        let mut bytes = [0; 64];
        match file.read(&mut bytes) {
            Ok(0) => return if last == DONE { Watched::Dismissed } else { Watched::Died },
            Ok(count) => last = bytes[count - 1],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return Watched::Died,
        }
    }
}
