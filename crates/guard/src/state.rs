//! The directory in which a guard keeps its journal, and the lock that makes it the only one.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::act::{self, Undone};
use crate::audit::Audit;
use crate::host::Host;
use crate::journal::{self, Contents, Journal, JournalError};

/// Where a guard keeps its journal. In memory on purpose: task attributes do not outlive the boot either, and a line is
/// safe from a crash of the guard as soon as it is written, which a birth must wait for (docs/decisions/0070).
pub const DEFAULT_DIRECTORY: &str = "/run/unstarve";

/// The state directory cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// It cannot be made or opened.
    #[error("{}", path.display())]
    Io {
        /// What.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Another guard has it.
    #[error("another guard{} is at work here ({}); stop that one first, or choose another --state directory",
        holder.as_ref().map(|pid| format!(" (process {pid})")).unwrap_or_default(), path.display())]
    Busy {
        /// The lock.
        path: PathBuf,
        /// The other's process id, if it could be read.
        holder: Option<u32>,
    },
    /// The journal.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// A state directory that is ours until this is dropped.
pub struct State {
    directory: PathBuf,
    boot: String,
    _lock: File,
}

impl State {
    /// Makes the directory if there is none, and locks it.
    pub fn lock(directory: &Path) -> Result<State, StateError> {
        let fail = |path: &Path| {
            let path = path.to_owned();
            move |source| StateError::Io { path, source }
        };
        DirBuilder::new().recursive(true).mode(0o755).create(directory).map_err(fail(directory))?;
        let path = directory.join("guard.lock");
        let mut lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(fail(&path))?;
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            let mut text = String::new();
            let _ = (&mut lock).take(16).read_to_string(&mut text);
            return Err(StateError::Busy { path, holder: text.trim().parse().ok() });
        }
        // Only for the message above.
        let _ = lock.set_len(0).and_then(|()| lock.rewind()).and_then(|()| writeln!(lock, "{}", std::process::id()));
        let boot = journal::boot_id().map_err(fail(Path::new("/proc/sys/kernel/random/boot_id")))?;
        Ok(State { directory: directory.to_owned(), boot, _lock: lock })
    }

    /// The journal's file.
    pub fn journal_path(&self) -> PathBuf {
        self.directory.join("guard.journal")
    }

    /// What the journal holds.
    pub fn contents(&self) -> Result<Contents, JournalError> {
        journal::read(&self.journal_path(), &self.boot)
    }

    /// The journal, for writing.
    pub fn journal(&self) -> Result<Journal, JournalError> {
        Journal::open(&self.journal_path(), &self.boot)
    }

    /// Takes back everything that the journal has open, and removes the journal if nothing is left.
    pub fn undo<H: Host>(&self, host: &mut H, audit: &mut Audit) -> Result<(Undone, Contents), StateError> {
        let contents = self.contents()?;
        let path = self.journal_path();
        let mut undone = Undone::default();
        if !contents.open.is_empty() {
            undone = act::undo(host, &mut self.journal()?, audit, &contents.open)?;
        }
        if undone.failed.is_empty()
            && let Err(source) = fs::remove_file(&path)
            && source.kind() != io::ErrorKind::NotFound
        {
            return Err(StateError::Io { path, source });
        }
        Ok((undone, contents))
    }

    /// Begins the journal anew with what is still open and alive. The old one stays until the new one is complete.
    pub fn shorten<H: Host>(&self, host: &H) -> Result<Journal, StateError> {
        let path = self.journal_path();
        let beside = self.directory.join("guard.journal.new");
        let fail = |source| StateError::Io { path: beside.clone(), source };
        let mut open = self.contents()?.open;
        // What cannot be asked about now is kept.
        open.retain(|change| !matches!(host.read(&change.target, change.new.aspect()), Ok(None)));
        match fs::remove_file(&beside) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(fail(error)),
            _ => {}
        }
        let mut journal = Journal::open(&beside, &self.boot)?;
        journal.carry_over(&open)?;
        fs::rename(&beside, &path).map_err(fail)?;
        Ok(self.journal()?)
    }

    /// The directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }
}
