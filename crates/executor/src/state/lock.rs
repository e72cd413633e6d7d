//! The locks of this machine, and who has them.

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

/// Where the lock is, wherever the journal may be: two guards with two journals would fight, and each call the other's work
/// somebody else's.
const LOCK_DIRECTORY: &str = "/run/unstarve";
pub(super) const LONGEST_LOCK: u64 = 1 << 16;

/// Whose changes: each has a lock and a journal of its own, since a guard holds its lock as long as it runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// A guard, which takes everything back when it ends.
    Guard,
    /// A person, by `fix` or `knobs`: it stays until somebody takes it back.
    ByHand,
    /// A fix that is being tried out, which is taken back whatever comes of it.
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

    /// What others hear who want the lock, and what they can do.
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

/// Who has the lock, as the lock's file says.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Holder {
    /// Its process.
    pub pid: u32,
    /// What it does: `guard run`.
    pub doing: String,
    /// Its dead-man.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dead_man: Option<u32>,
    /// Where its journal is.
    pub state: PathBuf,
    /// Where earlier ones may have left changes.
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

/// A stopped process takes nothing back, and keeps the lock. To continue one that is not stopped does nothing.
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
    /// Gives also what the last holder has left in it.
    pub(super) fn take(role: Role, patience: Duration) -> Result<(Lock, Holder), StateError> {
        let began = Instant::now();
        loop {
            let file = Directory::make(Path::new(LOCK_DIRECTORY))?.file(role.lock(), How::Update)?;
            if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
                let holder = holder_in(&file);
                // A dead guard's dead-man has it until everything is taken back.
                if (role != Role::ByHand && is_alive(holder.pid)) || began.elapsed() >= patience {
                    return Err(StateError::Busy { role, holder });
                }
                if began.elapsed() >= patience / 5 {
                    continue_dead_man(&holder);
                }
                thread::sleep(Duration::from_millis(20));
                continue;
            }
            // One that was removed meanwhile keeps nobody out.
            if file.metadata().is_ok_and(|meta| meta.nlink() > 0) {
                let last = holder_in(&file);
                return Ok((Lock { file }, last));
            }
        }
    }

    /// Who has it now, if anybody.
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

    /// Says who has it. Only for people and for the next one, so it may fail.
    pub(super) fn sign(&self, holder: &Holder) {
        let Ok(text) = serde_json::to_string(holder) else { return };
        let _ = self.file.write_all_at(text.as_bytes(), 0).and_then(|()| self.file.set_len(text.len() as u64));
    }
}
