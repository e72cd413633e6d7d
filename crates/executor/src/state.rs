//! The directory with a guard's journal, and the lock that allows only one guard on a machine.
//!
//! Both are trusted only if nobody but root can have written them: a planted journal could have any value set.

mod lock;

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use unstarve_files::trust::{Directory, How, TrustError};

use crate::act::{self, Undone};
use crate::audit::Audit;
use crate::host::{Host, Watched};
use crate::journal::{self, Contents, Journal, JournalError, JournalFile};
use crate::registry::Registry;
use unstarve_change::Place;

pub use lock::{Holder, Role};
use lock::{LONGEST_LOCK, Lock};

/// Where a guard keeps its journal. It is in memory because task attributes do not survive a reboot either, and a line is safe
/// from a crash of the guard as soon as it is written; a fork waits for that (docs/decisions/0070).
pub const DEFAULT_DIRECTORY: &str = "/run/unstarve";
/// The running guard's status.
pub const STATUS: &str = "guard.status";

/// Guards rewrite their journals long before this length, so a longer one is not a guard's.
const LONGEST_JOURNAL: u64 = 1 << 30;
/// How long to wait for the dead-man process of a dead guard.
const DEAD_MAN_TIMEOUT: Duration = Duration::from_secs(5);

/// The state directory cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// It cannot be created or opened.
    #[error("{}", path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// It is not trusted.
    #[error("the directory for journals cannot be used")]
    Trust(#[from] TrustError),
    /// Another process holds the lock.
    #[error("{}: {holder}; {}", role.busy().0, role.busy().1)]
    Busy {
        /// The kind of changes that the lock is for.
        role: Role,
        /// The process that holds it.
        holder: Holder,
    },
    /// The pids in /proc are of another PID namespace.
    #[error(
        "/proc shows the processes of another PID namespace, so a change could hit a wrong task; mount the proc of this \
             one (`mount -t proc proc /proc`), or run in the host's PID namespace. Nothing was changed"
    )]
    ForeignProc,
    /// The journal failed.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// A locked state directory; unlocked when dropped.
#[derive(Debug)]
pub struct State {
    role: Role,
    directory: Directory,
    path: PathBuf,
    /// The journal's file name.
    name: OsString,
    boot: String,
    lock: Lock,
    holder: Holder,
}

/// The process that holds this machine's lock; `None` if none does.
///
/// # Errors
/// If the lock cannot be read, or is not trusted.
pub fn holder() -> Result<Option<Holder>, StateError> {
    Lock::holder(Role::Guard)
}

/// Reads the journal in a directory without the lock.
///
/// # Errors
/// If it cannot be read, or is not trusted.
pub fn look_into(directory: &Path, role: Role) -> Result<Contents, StateError> {
    match Directory::open(directory) {
        Err(error) if error.is_absent() => Ok(Contents::default()),
        directory => contents_in(&directory?, role.journal(), &boot()?),
    }
}

fn boot() -> Result<String, StateError> {
    let path = || PathBuf::from("/proc/sys/kernel/random/boot_id");
    journal::boot_id().map_err(|source| StateError::Io { path: path(), source })
}

fn contents_in(directory: &Directory, name: &OsStr, boot: &str) -> Result<Contents, StateError> {
    let bytes = directory.read(name, LONGEST_JOURNAL)?.unwrap_or_default();
    let later = |found| JournalError::Version { path: directory.path().join(name), found };
    Ok(Contents::parse(&bytes, boot).map_err(later)?)
}

/// Reverts a journal's open changes, and removes it if nothing is left. The reverts need no disk space.
fn undo_in<H: Host>(
    directory: &Directory,
    name: &OsStr,
    boot: &str,
    host: &mut H,
    audit: &mut Audit,
) -> Result<(Undone, Contents), StateError> {
    let mut contents = contents_in(directory, name, boot)?;
    // No guard and no trial changes files below another root.
    contents.open.retain(|step| step.target.root().is_none());
    let (undone, settled) = act::restore(host, audit, &contents.open);
    let gone = if undone.is_complete() { directory.remove(name) } else { Ok(()) };
    if (!undone.is_complete() || gone.is_err())
        && !settled.is_empty()
        && let Ok(mut journal) = journal_in(directory, name, boot)
    {
        journal.settle(settled);
    }
    Ok((undone, contents))
}

fn journal_in(directory: &Directory, name: &OsStr, boot: &str) -> Result<Journal, StateError> {
    let path = directory.path().join(name);
    let before = contents_in(directory, name, boot)?;
    let file = directory.file(name, How::Append)?;
    // The directory entry must be as durable as the file's content.
    let _ = File::open(directory.path()).and_then(|directory| directory.sync_all());
    let file = JournalFile::new(file).map_err(|source| StateError::Io { path: path.clone(), source })?;
    Ok(Journal::over(file, &path, boot, before)?)
}

/// The other directories whose journals [`State::undo`] has to look at.
fn left_behind(role: Role, last: Holder, path: &Path) -> Vec<PathBuf> {
    // What a person has changed stays until that directory is named.
    if role == Role::ByHand {
        return Vec::new();
    }
    let mut others = last.before;
    others.push(last.state);
    let may_have_changes = |other: &PathBuf| {
        let journal = || fs::symlink_metadata(other.join(role.journal()));
        let is_empty = || match journal() {
            Ok(journal) => journal.len() == 0,
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        };
        !other.as_os_str().is_empty() && other != path && !is_empty()
    };
    others.retain(may_have_changes);
    others.sort();
    others.dedup();
    others
}

impl State {
    /// Creates the directory if it is missing, and takes the lock of this machine. `doing` is shown to others who want the
    /// lock.
    ///
    /// # Errors
    /// If another guard runs, or if the directory cannot be created or is not trusted.
    pub fn lock(directory: &Path, doing: &str) -> Result<State, StateError> {
        State::lock_as(Role::Guard, directory, doing)
    }

    /// As [`State::lock`], for this kind of changes.
    ///
    /// # Errors
    /// As for [`State::lock`].
    pub fn lock_as(role: Role, directory: &Path, doing: &str) -> Result<State, StateError> {
        if fs::read_link("/proc/self").ok() != Some(std::process::id().to_string().into()) {
            return Err(StateError::ForeignProc);
        }
        let (lock, last) = Lock::take(role, DEAD_MAN_TIMEOUT)?;
        let opened = Directory::make(directory)?;
        let path = opened.path().to_owned();
        let before = left_behind(role, last, &path);
        let holder =
            Holder { pid: std::process::id(), doing: doing.to_owned(), dead_man: None, state: path.clone(), before };
        lock.sign(&holder);
        let name = role.journal().to_owned();
        Ok(State { role, name, directory: opened, path, boot: boot()?, lock, holder })
    }

    /// Takes the lock for manual changes, with a journal of this name.
    ///
    /// # Errors
    /// As [`State::lock`].
    pub fn lock_file(journal: &Path, doing: &str) -> Result<State, StateError> {
        let no_name = || StateError::Io { path: journal.to_owned(), source: io::ErrorKind::IsADirectory.into() };
        let name = journal.file_name().ok_or_else(no_name)?;
        let above = journal.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut state = State::lock_as(Role::ByHand, above, doing)?;
        state.name = name.to_owned();
        Ok(state)
    }

    /// The journal's path.
    pub fn journal_path(&self) -> PathBuf {
        self.path.join(&self.name)
    }

    /// Reads the journal.
    ///
    /// # Errors
    /// If it cannot be read, or is not trusted.
    pub fn contents(&self) -> Result<Contents, StateError> {
        contents_in(&self.directory, &self.name, &self.boot)
    }

    /// Opens the journal for writing.
    ///
    /// # Errors
    /// If it cannot be opened or written, or is not trusted.
    pub fn journal(&self) -> Result<Journal, StateError> {
        journal_in(&self.directory, &self.name, &self.boot)
    }

    /// Reverts all open changes and removes the journal if nothing is left. Does the same for the journals of earlier lock
    /// holders in other directories.
    ///
    /// # Errors
    /// If the journal cannot be read, or is not trusted.
    pub fn undo<H: Host>(&mut self, host: &mut H, audit: &mut Audit) -> Result<(Undone, Contents), StateError> {
        let mut others = Undone::default();
        let (name, boot, mut kept) = (self.role.journal(), &self.boot, Vec::new());
        for other in std::mem::take(&mut self.holder.before) {
            let undone = match Directory::open(&other) {
                // Without a journal there is nothing to revert.
                Err(error) if error.is_absent() => continue,
                directory => directory.map_err(StateError::from).and_then(|at| undo_in(&at, name, boot, host, audit)),
            };
            match undone {
                Ok((undone, _)) if undone.is_complete() => others = others.and(undone),
                Ok((undone, _)) => {
                    others = others.and(undone);
                    kept.push(other);
                }
                // A journal that is not trusted now is not one of ours.
                Err(StateError::Trust(_)) => {}
                Err(error) => return Err(error),
            }
        }
        self.holder.before = kept;
        self.lock.sign(&self.holder);
        let (undone, contents) = undo_in(&self.directory, &self.name, &self.boot, host, audit)?;
        Ok((undone.and(others), contents))
    }

    /// As [`State::undo`] on this machine, including children in the kernel's record of inheritance.
    ///
    /// # Errors
    /// As for [`State::undo`].
    pub fn undo_left(&mut self, audit: &mut Audit) -> Result<(Undone, Contents), StateError> {
        let result = self.undo(&mut Watched { registry: Registry::pinned(), at_work: false }, audit);
        // A guard's record is needed as long as the guard may have left changes.
        if self.role == Role::Guard && matches!(&result, Ok((undone, _)) if undone.is_complete()) {
            Registry::unpin();
        }
        result
    }

    /// Reverts the open changes that a journal has in memory: its file may be lost.
    pub fn undo_known<H: Host>(&self, host: &mut H, journal: &mut Journal, audit: &mut Audit) -> Undone {
        let undone = act::undo(host, journal, audit, &journal.open_changes());
        if undone.is_complete() {
            // An empty journal means the same as none.
            let _ = journal.file().set_len(0);
            let _ = self.directory.remove(&self.name);
        }
        undone
    }

    /// Rewrites the journal with changes that are still open and whose targets exist. The old file stays until the new one is
    /// complete.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn shorten<H: Host>(&self, host: &H, journal: &Journal) -> Result<Journal, StateError> {
        let mut open = journal.open_changes();
        let origins = host.origins();
        // Keeps changes whose targets cannot be checked now, and those needed to find what children of exited tasks inherited.
        open.retain(|change| {
            let is_origin = matches!(&change.target, Place::Task(key) if origins.contains(&key.tid));
            is_origin || !matches!(host.read(&change.target, change.new.aspect()), Ok(None))
        });
        self.begin_anew(open, journal.last_seq())
    }

    /// Replaces the journal by one with these changes only.
    ///
    /// # Errors
    /// If it cannot be written; then the old one still exists.
    pub(crate) fn begin_anew(&self, open: Vec<journal::Step>, last_seq: u64) -> Result<Journal, StateError> {
        let mut new = self.name.clone();
        new.push(".new");
        let fail = |source| StateError::Io { path: self.path.join(&new), source };
        self.directory.remove(&new).map_err(fail)?;
        let file = self.directory.file(&new, How::Append)?;
        let file = JournalFile::new(file).map_err(fail)?;
        let before = Contents { last_seq, ..Contents::default() };
        let mut journal = Journal::over(file, &self.journal_path(), &self.boot, before)?;
        journal.carry_over(&open)?;
        self.directory.rename(&new, &self.name).map_err(fail)?;
        Ok(journal)
    }

    /// Whether the directory, the journal or the lock was removed.
    pub fn is_lost(&self, journal: &Journal) -> bool {
        let has_name = |file: &File| file.metadata().is_ok_and(|meta| meta.nlink() > 0);
        !(self.directory.is_there() && has_name(journal.file()) && has_name(&self.lock.file))
    }

    /// Recreates what was removed, with all open changes.
    ///
    /// # Errors
    /// If that fails; then the unlinked files remain in use.
    pub fn heal(&mut self, journal: &Journal) -> Result<Journal, StateError> {
        if self.lock.file.metadata().is_ok_and(|meta| meta.nlink() == 0) {
            // If another process has locked it already, it is another guard.
            self.lock = Lock::take(self.role, Duration::ZERO)?.0;
            self.lock.sign(&self.holder);
        }
        self.directory = Directory::make(&self.path)?;
        self.begin_anew(journal.open_changes(), journal.last_seq())
    }

    /// Writes the status for `guard status`. Nothing depends on it.
    pub fn write_status(&self, text: &str) {
        let _ = self.directory.replace(OsStr::new(STATUS), text.as_bytes(), 0o644);
    }

    /// Removes the status.
    pub fn remove_status(&self) {
        let _ = self.directory.remove(OsStr::new(STATUS));
    }

    /// Records the dead-man process in the lock.
    pub fn name_dead_man(&mut self, pid: u32) {
        self.holder.dead_man = Some(pid);
        self.lock.sign(&self.holder);
    }

    /// A duplicate of the lock for the dead-man process: while either process has it open, no other guard starts.
    ///
    /// # Errors
    /// If too many files are open.
    pub fn share_lock(&self) -> io::Result<OwnedFd> {
        self.lock.file.as_fd().try_clone_to_owned()
    }

    /// The boot id.
    pub(crate) fn boot(&self) -> &str {
        &self.boot
    }

    /// The journal's bytes, not parsed.
    pub(crate) fn bytes(&self) -> Result<Vec<u8>, StateError> {
        Ok(self.directory.read(&self.name, LONGEST_JOURNAL)?.unwrap_or_default())
    }

    /// The directory.
    pub fn directory(&self) -> &Path {
        &self.path
    }
}

/// Removes the files of a dead guard that has left no changes: its status, and its journal if it has this inode number.
pub(crate) fn remove_left(directory: &Path, role: Role, journal: Option<u64>) {
    let Ok(directory) = Directory::open(directory) else { return };
    if role == Role::Guard {
        let _ = directory.remove(OsStr::new(STATUS));
    }
    let inode = directory.file(role.journal(), How::Read).map(|file| file.metadata().ok().map(|m| m.ino()));
    if journal.is_some() && inode.ok().flatten() == journal {
        let _ = directory.remove(role.journal());
    }
}

/// The status text that a running guard left in a directory; `None` if there is none.
///
/// # Errors
/// If it cannot be read, or is not trusted.
pub fn status_text(directory: &Path) -> Result<Option<String>, StateError> {
    let bytes = match Directory::open(directory) {
        Err(error) if error.is_absent() => return Ok(None),
        directory => directory?.read(OsStr::new(STATUS), LONGEST_LOCK)?,
    };
    Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}

/// Reads a journal by its descriptor, for the dead-man process: the directory may have been removed.
///
/// # Errors
/// If it cannot be read, or is of a later version.
pub fn contents_of(file: &File) -> io::Result<Contents> {
    let boot = journal::boot_id()?;
    let mut bytes = vec![0; usize::try_from(fs::File::metadata(file)?.len().min(LONGEST_JOURNAL)).unwrap_or(0)];
    let mut done = 0;
    while done < bytes.len() {
        match file.read_at(&mut bytes[done..], done as u64)? {
            0 => break,
            count => done += count,
        }
    }
    bytes.truncate(done);
    Contents::parse(&bytes, &boot).map_err(|version| io::Error::other(format!("journal of version {version}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The list is written into the lock at each start.
    #[test]
    fn only_directories_with_a_journal_are_remembered() {
        let place = tempfile::tempdir().expect("a directory");
        let at = |name: &str| place.path().join(name);
        for (name, content) in [("a", Some("x")), ("empty", Some("")), ("none", None), ("own", Some("x"))] {
            fs::create_dir(at(name)).expect("a directory");
            for role in [Role::Guard, Role::ByHand] {
                let _ = content.map(|content| fs::write(at(name).join(role.journal()), content).expect("a journal"));
            }
        }
        let before = ["none", "a", "gone", "a", "own", "empty"].map(at).into();
        let last = Holder { state: at("a"), before, ..Holder::default() };
        assert_eq!(left_behind(Role::Guard, last.clone(), &at("own")), [at("a")]);
        assert!(left_behind(Role::ByHand, last, &at("own")).is_empty());
        assert!(left_behind(Role::Guard, Holder::default(), &at("own")).is_empty());
    }
}
