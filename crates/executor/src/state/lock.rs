//! The locks of this machine, and the processes that hold them.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{Read, Seek};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use unstarve_files::trust::{Directory, How};

use super::StateError;

/// The lock's directory does not depend on the journal's: two guards with two journals would fight, each taking the other's
/// values for drift.
const LOCK_DIRECTORY: &str = "/run/unstarve";
pub(super) const LONGEST_LOCK: u64 = 1 << 16;

/// The kind of changes: each has its own lock and journal, because a guard holds its lock as long as it runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// A guard's, which reverts them when it ends.
    Guard,
    /// Manual changes by `fix` or `knobs`, which stay until they are undone.
    ByHand,
    /// A fix being tried, which is always reverted.
    Trial,
}

impl Role {
    fn lock(self) -> &'static OsStr {
        OsStr::new(match self {
            Role::Guard => "guard.lock",
            Role::ByHand => "changes.lock",
            Role::Trial => "trial.lock",
        })
    }

    /// The message to another process that wants the lock, with what its user can do.
    pub(super) fn busy(self) -> (&'static str, &'static str) {
        match self {
            Role::Guard => ("another guard is at work on this machine", "stop it first"),
            Role::ByHand => ("another unstarve is changing settings of this machine", "try again when it is done"),
            Role::Trial => (
                "a fix is on trial on this machine",
                "it takes its change back itself: wait for its end, or stop it (kill -INT)",
            ),
        }
    }

    pub(super) fn journal(self) -> &'static OsStr {
        OsStr::new(match self {
            Role::Guard => "guard.journal",
            Role::ByHand => "changes.journal",
            Role::Trial => "trial.journal",
        })
    }
}

/// The process that holds the lock, as recorded in the lock file.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Holder {
    /// Its process.
    pub pid: u32,
    /// What it does: `guard run`.
    pub doing: String,
    /// Its dead-man process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dead_man: Option<u32>,
    /// Its journal's directory.
    pub state: PathBuf,
    /// Directories where earlier holders may have left changes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<PathBuf>,
}

impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.pid == 0 {
            return f.write_str("its lock does not say which");
        }
        write!(f, "process {} (`unstarve {}`, journal in {})", self.pid, self.doing, self.state.display())
    }
}

/// The lock of this machine.
#[derive(Debug)]
pub(super) struct Lock {
    pub(super) file: File,
}

fn holder_in(file: &File) -> Holder {
    let mut text = String::new();
    let _ = (&*file).rewind().and_then(|()| file.take(LONGEST_LOCK).read_to_string(&mut text));
    serde_json::from_str(&text).unwrap_or_default()
}

/// Resumes a stopped dead-man process: while stopped, it reverts nothing and keeps the lock. Without effect on a running one.
fn continue_dead_man(holder: &Holder) {
    let Some(pid) = holder.dead_man else { return };
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    if name.trim_end().as_bytes() == crate::deadman::NAME.to_bytes()
        && let Some(pid) = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw)
    {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::CONT);
    }
}

fn is_alive(pid: u32) -> bool {
    Path::new("/proc").join(pid.to_string()).exists()
}

impl Lock {
    /// Takes the lock. Also returns what the last holder recorded in it.
    pub(super) fn take(role: Role, patience: Duration) -> Result<(Lock, Holder), StateError> {
        let began = Instant::now();
        loop {
            let file = Directory::make(Path::new(LOCK_DIRECTORY))?.file(role.lock(), How::Update)?;
            if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
                let holder = holder_in(&file);
                // The dead-man process of a dead guard holds it until everything is reverted.
                if (role != Role::ByHand && is_alive(holder.pid)) || began.elapsed() >= patience {
                    return Err(StateError::Busy { role, holder });
                }
                if began.elapsed() >= patience / 5 {
                    continue_dead_man(&holder);
                }
                thread::sleep(Duration::from_millis(20));
                continue;
            }
            // A lock file that was unlinked meanwhile excludes nobody.
            if file.metadata().is_ok_and(|meta| meta.nlink() > 0) {
                let last = holder_in(&file);
                return Ok((Lock { file }, last));
            }
        }
    }

    /// The process that holds it, if any.
    pub(super) fn holder(role: Role) -> Result<Option<Holder>, StateError> {
        let file = Directory::open(Path::new(LOCK_DIRECTORY)).and_then(|at| at.file(role.lock(), How::Read));
        let file = match file {
            Err(error) if error.is_absent() => return Ok(None),
            file => file?,
        };
        match flock(&file, FlockOperation::NonBlockingLockShared) {
            Ok(()) => Ok(None),
            Err(_) => Ok(Some(holder_in(&file))),
        }
    }

    /// Records the holder. Only messages and the next holder use it, so it may fail.
    pub(super) fn sign(&self, holder: &Holder) {
        let Ok(text) = serde_json::to_string(holder) else { return };
        let _ = self.file.write_all_at(text.as_bytes(), 0).and_then(|()| self.file.set_len(text.len() as u64));
    }
}
