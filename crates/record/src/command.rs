//! Runs the command that is being recorded.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

use crate::{CommandEnd, RecordError};

/// How long a command may take to end after a signal. After that the recording is finished without it.
const END_TIMEOUT: Duration = Duration::from_secs(5);

/// Ctrl-C in a terminal reaches the command directly. Wait this long before sending another signal: many programs abort
/// at the second one.
const HEAD_START: Duration = Duration::from_millis(200);

/// The recorded command.
pub(crate) struct Running {
    child: Child,
    /// Becomes readable when the command has ended.
    pub(crate) descriptor: OwnedFd,
    /// It did not end after the signal, and is left running.
    given_up: bool,
}

impl Running {
    pub(crate) fn start(words: &[OsString]) -> Result<Running, RecordError> {
        let (program, arguments) = words.split_first().ok_or_else(|| RecordError::Command {
            program: "command".into(),
            source: io::Error::new(io::ErrorKind::InvalidInput, "it is empty"),
        })?;
        let failed = |source| RecordError::Command { program: program.to_string_lossy().into_owned(), source };
        let mut child = Command::new(program).args(arguments).spawn().map_err(failed)?;
        match pidfd_open(pid(&child), PidfdFlags::empty()) {
            Ok(descriptor) => Ok(Running { child, descriptor, given_up: false }),
            Err(errno) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(failed(errno.into()))
            }
        }
    }

    /// How the command ended, if it has.
    pub(crate) fn ended(&mut self) -> Option<CommandEnd> {
        self.child.try_wait().ok().flatten().map(how)
    }

    /// Forwards the signal that ended the recording, and waits a limited time for the command.
    pub(crate) fn end_after(&mut self, signal: i32) -> CommandEnd {
        if !self.ends_within(HEAD_START) {
            self.send(signal);
            self.ends_within(END_TIMEOUT);
        }
        self.ended().unwrap_or_else(|| {
            self.given_up = true;
            CommandEnd::StillRunning
        })
    }

    fn send(&self, signal: i32) {
        if let Some(signal) = Signal::from_named_raw(signal) {
            let _ = kill_process(pid(&self.child), signal);
        }
    }

    fn ends_within(&self, limit: Duration) -> bool {
        let mut ended = [PollFd::new(&self.descriptor, PollFlags::IN)];
        poll(&mut ended, Timespec::try_from(limit).ok().as_ref()).is_ok_and(|ready| ready > 0)
    }
}

impl Drop for Running {
    /// Kills the command if the recording fails, because nobody else knows about it.
    fn drop(&mut self) {
        if !self.given_up && self.ended().is_none() {
            self.send(signal_hook::consts::SIGTERM);
            self.ends_within(END_TIMEOUT);
            let _ = self.child.try_wait();
        }
    }
}

fn pid(child: &Child) -> Pid {
    Pid::from_child(child)
}

fn how(status: ExitStatus) -> CommandEnd {
    match (status.code(), status.signal()) {
        (Some(code), _) => CommandEnd::Exited(code),
        (None, Some(signal)) => CommandEnd::Killed(signal),
        (None, None) => CommandEnd::StillRunning,
    }
}
