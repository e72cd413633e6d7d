//! Where an executor keeps what it hands to others: a directory of its own, removed at its end. What one leaves that was killed, the next one removes.

use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use tempfile::TempDir;

const PREFIX: &str = "unstarve-executor-";

/// A directory that is there as long as this value is.
pub struct Work {
    // Before the lock: nobody else takes it for one that was left.
    place: TempDir,
    _lock: OwnedFd,
}

impl Work {
    /// Makes one below a directory that only this user can write; if there is none, below the user's cache.
    ///
    /// # Errors
    /// If it cannot be made, or others can write there.
    pub fn new(parent: &Path) -> Result<Work> {
        let cannot = || format!("cannot use {}", parent.display());
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(parent).with_context(cannot)?;
        let parent = parent.canonicalize().with_context(cannot)?;
        let found = parent.metadata().with_context(cannot)?;
        if found.uid() != rustix::process::geteuid().as_raw() || found.mode() & 0o022 != 0 {
            bail!("{}: others can write there; expected a directory of this user, mode 755 or less", parent.display());
        }
        // While one is made, none is removed.
        let making = open(&parent).with_context(cannot)?;
        flock(&making, FlockOperation::LockExclusive).with_context(cannot)?;
        remove_left(&parent);
        let mut builder = tempfile::Builder::new();
        builder.prefix(PREFIX).permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
        let place = builder.tempdir_in(&parent).with_context(cannot)?;
        let lock = open(place.path()).with_context(cannot)?;
        flock(&lock, FlockOperation::LockExclusive).with_context(cannot)?;
        Ok(Work { place, _lock: lock })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.place.path()
    }
}

/// Where executors work if nothing else is said.
///
/// # Errors
/// If the user has no home.
pub fn default_parent() -> Result<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || std::env::home_dir().filter(|home| home.is_absolute()).map(|home| home.join(".cache"));
    let cache = cache.or_else(home).context("there is no home directory; expected --work DIR")?;
    Ok(cache.join("unstarve/executors"))
}

fn open(path: &Path) -> Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

/// Those that nobody holds any more.
fn remove_left(parent: &Path) {
    let entries = std::fs::read_dir(parent).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX)) {
        let Ok(directory) = open(&entry.path()) else { continue };
        let found = rustix::fs::fstat(&directory);
        let is_ours = found.is_ok_and(|found| found.st_uid == rustix::process::geteuid().as_raw());
        if is_ours && flock(&directory, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// The bytes of all files below a directory. What goes away meanwhile is not counted.
pub fn size(directory: &Path) -> u64 {
    let (mut bytes, mut open) = (0, vec![directory.to_owned()]);
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            match entry.metadata() {
                Ok(found) if found.is_dir() => open.push(entry.path()),
                Ok(found) => bytes += found.len(),
                Err(_) => {}
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_private_and_goes_with_its_owner() {
        let parent = tempfile::tempdir().expect("a place for files");
        let parent = parent.path().join("deep/er");
        let left = parent.join(format!("{PREFIX}left"));
        std::fs::create_dir_all(left.join("job")).expect("it can be made");
        std::fs::write(parent.join("other"), "mine").expect("it can be written");
        let one = Work::new(&parent).expect("it can be made");
        assert!(!left.exists(), "nobody held it");
        assert_eq!(one.path().metadata().expect("it is there").mode() & 0o777, 0o700);
        let other = Work::new(&parent).expect("it can be made");
        assert!(one.path().exists(), "it is held");
        std::fs::write(one.path().join("data"), [0; 10]).expect("it can be written");
        std::fs::create_dir(one.path().join("job")).expect("it can be made");
        std::fs::write(one.path().join("job/data"), [0; 5]).expect("it can be written");
        assert_eq!(size(one.path()), 15);
        drop((one, other));
        let rest: Vec<_> = std::fs::read_dir(&parent).expect("it is there").flatten().map(|e| e.file_name()).collect();
        assert_eq!(rest, ["other"]);
    }

    #[test]
    fn where_others_can_write_nothing_is_made() {
        let parent = tempfile::tempdir().expect("a place for files");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(parent.path(), mode).expect("it is ours");
        assert!(Work::new(parent.path()).err().expect("refused").to_string().contains("others can write"));
    }
}
