//! The store's directory and its lock; both are verified before each write.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, FlockOperation, Stat, flock, fstat, statat};
use rustix::io::Errno;
use unstarve_files::trust::{Directory, How, TrustError};

use super::StoreError;

/// Locked by the watch that uses the store.
const LOCK: &str = "store.lock";

/// The directory of a store.
#[derive(Debug)]
pub(super) struct StoreDir {
    /// Without symbolic links.
    path: PathBuf,
    held: Mutex<Held>,
    /// Another directory has replaced the original one since the last query.
    was_replaced: AtomicBool,
}

#[derive(Debug)]
struct Held {
    directory: Directory,
    /// The lock while this is open; `None` if nothing can be written or locked.
    lock: Option<File>,
}

impl Held {
    fn open(path: &Path) -> Result<Held, StoreError> {
        let directory = Directory::make(path)?;
        let lock = lock(&directory)?;
        Ok(Held { directory, lock })
    }

    /// Whether the path still leads to the directory and the lock that are open.
    fn is_at(&self, path: &Path) -> bool {
        let (Ok(there), Ok(ours)) = (path.symlink_metadata(), fstat(&self.directory)) else { return false };
        (there.dev(), there.ino()) == of(&ours) && self.lock.as_ref().is_none_or(|lock| self.is_lock(lock))
    }

    fn is_lock(&self, lock: &File) -> bool {
        let there = statat(&self.directory, LOCK, AtFlags::SYMLINK_NOFOLLOW);
        there.ok().map(|there| of(&there)) == fstat(lock).ok().map(|ours| of(&ours))
    }
}

fn of(stat: &Stat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}

impl StoreDir {
    /// Creates the directory if necessary, and locks it.
    pub fn open(path: &Path) -> Result<StoreDir, StoreError> {
        let held = Held::open(path)?;
        let path = held.directory.path().to_owned();
        Ok(StoreDir { path, held: Mutex::new(held), was_replaced: AtomicBool::new(false) })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The directory now at the path, for writing. If ours was moved away or our lock was removed, the new one is locked as at the start: another
    /// watch may have started to use it.
    pub fn directory(&self) -> Result<Directory, StoreError> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if !held.is_at(&self.path) {
            *held = Held::open(&self.path)?;
            self.was_replaced.store(true, Ordering::Relaxed);
        } else if held.lock.is_none() {
            // If it could not be written before, it may be writable by now.
            held.lock = lock(&held.directory)?;
        }
        Ok(Directory::open(&self.path)?)
    }

    /// Whether the directory has been replaced since the last call.
    pub fn was_replaced(&self) -> bool {
        self.was_replaced.swap(false, Ordering::Relaxed)
    }
}

/// Whether a watch uses the store in this directory; `None` if unknown: there is no readable lock, or the file system has no locks.
pub fn is_held(directory: &Path) -> Option<bool> {
    let file = unstarve_files::open_regular(&directory.join(LOCK)).ok()?;
    match flock(&file, FlockOperation::NonBlockingLockShared) {
        // The shared lock is released at once. A watch that starts meanwhile retries.
        Ok(()) => Some(false),
        Err(Errno::WOULDBLOCK) => Some(true),
        Err(_) => None,
    }
}

/// A lock that is held for less than this can be that of a reader in `is_held`.
const A_LOOK: Duration = Duration::from_millis(200);

/// Takes the lock unless another watch has it.
fn lock_file(file: &File) -> Result<(), Errno> {
    let began = Instant::now();
    loop {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) if began.elapsed() < A_LOOK => std::thread::sleep(A_LOOK / 20),
            result => return result,
        }
    }
}

/// Locks a store against other watches. Without write access no lock is needed, because no watch can write.
fn lock(directory: &Directory) -> Result<Option<File>, StoreError> {
    // Created here, but not kept open for writing: the disk must be able to become read-only.
    let made = directory.file(OsStr::new(LOCK), How::Update).map(drop);
    let file = match made.and_then(|()| directory.file(OsStr::new(LOCK), How::Read)) {
        Ok(file) => file,
        Err(TrustError::Io { source, .. }) if source.kind() != io::ErrorKind::PermissionDenied => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    match lock_file(&file) {
        Ok(()) => Ok(Some(file)),
        Err(Errno::WOULDBLOCK) => Err(StoreError::Busy(directory.path().to_owned())),
        // A file system without locks.
        Err(_) => Ok(None),
    }
}
