//! The store's directory, and the lock that says whose it is: looked at anew before something is written.

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

/// Held by the watch whose store it is.
const LOCK: &str = "store.lock";

/// Where a store is.
#[derive(Debug)]
pub(super) struct Home {
    /// Without symbolic links.
    path: PathBuf,
    held: Mutex<Held>,
    /// Another directory has taken the place of the one that was there, since somebody asked.
    was_replaced: AtomicBool,
}

#[derive(Debug)]
struct Held {
    directory: Directory,
    /// Nobody else's while this is open; `None` where nothing can be written or locked.
    lock: Option<File>,
}

impl Held {
    fn open(path: &Path) -> Result<Held, StoreError> {
        let directory = Directory::make(path)?;
        let lock = lock(&directory)?;
        Ok(Held { directory, lock })
    }

    /// Whether what has the path now is what is held.
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

impl Home {
    /// Makes the directory if it is not there, and locks it.
    pub fn open(path: &Path) -> Result<Home, StoreError> {
        let held = Held::open(path)?;
        let path = held.directory.path().to_owned();
        Ok(Home { path, held: Mutex::new(held), was_replaced: AtomicBool::new(false) })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The directory that has the path now, for writing. Where somebody has moved ours away, or removed our lock, what is there is locked
    /// as at the start: another watch may have begun to keep its episodes there.
    pub fn directory(&self) -> Result<Directory, StoreError> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if !held.is_at(&self.path) {
            *held = Held::open(&self.path)?;
            self.was_replaced.store(true, Ordering::Relaxed);
        } else if held.lock.is_none() {
            // What could not be written may be writable by now.
            held.lock = lock(&held.directory)?;
        }
        Ok(Directory::open(&self.path)?)
    }

    /// Whether it has become another directory since this was asked last.
    pub fn was_replaced(&self) -> bool {
        self.was_replaced.swap(false, Ordering::Relaxed)
    }
}

/// Whether a watch has the store of this directory now; `None` where nobody can say: there is no lock that may be read, or the file
/// system has none.
pub fn is_held(directory: &Path) -> Option<bool> {
    let file = unstarve_files::open_regular(&directory.join(LOCK)).ok()?;
    match flock(&file, FlockOperation::NonBlockingLockShared) {
        // It is let go of at once. A watch that begins meanwhile tries again.
        Ok(()) => Some(false),
        Err(Errno::WOULDBLOCK) => Some(true),
        Err(_) => None,
    }
}

/// For so long a lock may be a reader's that only looks.
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

/// Keeps other watches from a store. Where nothing can be written there is none to be kept from writing.
fn lock(directory: &Directory) -> Result<Option<File>, StoreError> {
    // Made here, but not kept open for writing: the disk must be able to become read-only.
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
