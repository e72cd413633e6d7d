//! Writes results of commands to files.
//!
//! A file gets its name only when it is complete. Until then it has an unguessable name in the same directory, which
//! was opened once, so replacing that directory by a symbolic link meanwhile has no effect. What exists and is not a
//! regular file (`/dev/null`, a terminal, a FIFO) is written to and never replaced.

mod resolve;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, OFlags, Stat, Uid, fchown, fstat, openat, renameat, statat, unlinkat,
};
use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};

use crate::trust;
use resolve::{ResolvedPath, SpecialFile, WRITE_FLAGS, follow};

/// Why a result cannot be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TargetError {
    /// A system call failed.
    #[error("cannot write {}", path.display())]
    Io {
        /// The file, or its directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The directory does not exist.
    #[error("cannot write {}: the directory {} does not exist", path.display(), directory.display())]
    NoDirectory {
        /// The file.
        path: PathBuf,
        /// Its directory.
        directory: PathBuf,
    },
    /// It belongs to another user, who could redirect the result.
    #[error("cannot write {}: it is a {what} of user {owner}, who could redirect the result; name a regular file", path.display())]
    Lure {
        /// The component at fault.
        path: PathBuf,
        /// What it is.
        what: &'static str,
        /// Its owner.
        owner: u32,
    },
    /// A symbolic link that another user may have created.
    #[error("cannot write {}: {why}", path.display())]
    Led {
        /// The component at fault.
        path: PathBuf,
        /// Why it is not followed.
        why: trust::Distrust,
    },
    /// Nothing that a result can be written to.
    #[error("cannot write {}: it is a {what}; expected a file", path.display())]
    NoFile {
        /// The path.
        path: PathBuf,
        /// What it is.
        what: &'static str,
    },
}

impl TargetError {
    fn io(path: &Path) -> impl FnOnce(Errno) -> TargetError {
        move |errno| TargetError::Io { path: path.to_owned(), source: errno.into() }
    }
}

/// Who may read a result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Readers {
    /// Only its owner, because it contains names of other users' processes. Under sudo the owner is the invoking user,
    /// who otherwise would need root to read it.
    Owner,
    /// Every user of the machine.
    Everybody,
}

/// Where a result goes.
#[derive(Debug)]
pub enum Target {
    /// Standard output, for `-`.
    Stdout,
    /// An existing device, FIFO or descriptor of this process.
    Open {
        /// The open file.
        file: File,
        /// The path as given.
        path: PathBuf,
    },
    /// A file that gets its name when it is complete.
    File(Part),
}

impl Target {
    /// Checks that the result can be written, before any work.
    ///
    /// # Errors If it cannot, or if another user could redirect it.
    pub fn open(path: &Path, readers: Readers) -> Result<Target, TargetError> {
        if path == Path::new("-") {
            return Ok(Target::Stdout);
        }
        match find(path)? {
            Found::Open(file) => Ok(Target::Open { file, path: path.to_owned() }),
            Found::Place(place) => Ok(Target::File(place.part(readers).map_err(TargetError::io(path))?)),
        }
    }

    /// The name to use in messages.
    pub fn name(&self) -> String {
        match self {
            Target::Stdout => "standard output".to_owned(),
            Target::Open { path, .. } => path.display().to_string(),
            Target::File(part) => part.place.path.display().to_string(),
        }
    }

    /// Syncs a complete file and gives it its name: some file systems report only on sync that they are full.
    ///
    /// # Errors If a system call fails; then nothing is left of the file.
    pub fn deliver(self) -> Result<(), TargetError> {
        match self {
            Target::File(part) => {
                let path = part.place.path.clone();
                part.file.sync_all().map_err(|source| TargetError::Io { path, source })?;
                part.deliver()
            }
            Target::Stdout | Target::Open { .. } => Ok(()),
        }
    }
}

/// What is at a path.
#[derive(Debug)]
pub enum Found {
    /// Something to write to directly.
    Open(File),
    /// The name of a regular file, which may exist.
    Place(Place),
}

/// A name in a directory that stays open.
#[derive(Debug)]
pub struct Place {
    directory: OwnedFd,
    name: OsString,
    path: PathBuf,
}

/// Resolves the path of a result.
///
/// # Errors If the directory does not exist, or if another user could redirect the path.
pub fn find(path: &Path) -> Result<Found, TargetError> {
    find_with(path, WRITE_FLAGS)
}

/// The same without blocking: a FIFO without a reader is an error (`ENXIO`), and what exists and is not a regular file
/// is opened non-blocking. A descriptor passed to this process ([`Found::Open`] for `/dev/stdout`) may still block.
///
/// # Errors As [`find`].
pub fn find_at_once(path: &Path) -> Result<Found, TargetError> {
    find_with(path, WRITE_FLAGS | OFlags::NONBLOCK)
}

fn find_with(path: &Path, flags: OFlags) -> Result<Found, TargetError> {
    match follow(path)? {
        ResolvedPath::Place(place) => Ok(Found::Place(place)),
        ResolvedPath::SpecialFile(node) => node.open(flags).map(Found::Open),
    }
}

impl Place {
    /// The place of a result that must be a regular file, because it is not written sequentially. Anything else is not
    /// even opened: a FIFO would block.
    ///
    /// # Errors As [`find`], and if something other than a regular file exists there.
    pub fn find(path: &Path) -> Result<Place, TargetError> {
        match follow(path)? {
            ResolvedPath::Place(place) => Ok(place),
            ResolvedPath::SpecialFile(SpecialFile { path, what, .. }) => Err(TargetError::NoFile { path, what }),
        }
    }

    /// A directory itself, without a file name.
    ///
    /// # Errors If it cannot be opened, or if another user could redirect the path.
    pub fn within(directory: &Path) -> Result<Place, TargetError> {
        let opened = trust::directory_for_results(directory)?;
        Ok(Place { directory: opened, name: OsString::new(), path: directory.to_owned() })
    }

    /// A new file that will get this name.
    ///
    /// # Errors If it cannot be created.
    pub fn part(self, readers: Readers) -> Result<Part, Errno> {
        let name = random_name();
        let mode = match readers {
            Readers::Owner => 0o600,
            Readers::Everybody => 0o644,
        };
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&self.directory, &name, flags, Mode::from_raw_mode(mode))?;
        Ok(Part { place: self, name: Some(name), file: File::from(file), readers })
    }

    /// The directory, for temporary files next to the result.
    pub fn directory(&self) -> impl AsFd + '_ {
        &self.directory
    }

    /// Syncs the directory, so that names in it are on disk.
    ///
    /// # Errors If a system call fails, for example without permission to read the directory.
    pub fn sync(&self) -> io::Result<()> {
        trust::sync(&self.directory)
    }

    /// The file name.
    pub fn name(&self) -> &OsStr {
        &self.name
    }

    /// The path as given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Under sudo gives the result to the invoking user, if that user could have created it here. Otherwise a user who
    /// may run only this program as root would get a file of their own in `/etc/profile.d`.
    pub fn give_to_caller(&self, file: impl AsFd) {
        let Some((user, group)) = caller() else { return };
        let could = |directory: Stat| {
            let by = |owner: bool, bits: u32| owner && directory.st_mode & bits != 0;
            let is_theirs = directory.st_uid == user.as_raw();
            is_theirs || by(directory.st_gid == group.as_raw(), 0o020) || by(true, 0o002)
        };
        if fstat(&self.directory).is_ok_and(could) {
            give_to_caller(file);
        }
    }

    /// Whether what has this name now can be kept as `.old`.
    ///
    /// # Errors If that name is too long, or belongs to something that is no file.
    pub fn can_keep_previous(&self) -> io::Result<()> {
        let exists = |name: &OsStr| match statat(&self.directory, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(FileType::from_raw_mode(stat.st_mode))),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(io::Error::from(errno)),
        };
        if exists(&self.name)?.is_none() {
            return Ok(());
        }
        let old = self.old_name();
        match exists(&old)? {
            Some(FileType::Directory) => Err(io::Error::other(format!(
                "the earlier file cannot be kept: {} is a directory",
                old.to_string_lossy()
            ))),
            _ => Ok(()),
        }
    }

    fn old_name(&self) -> OsString {
        let mut old = self.name.clone();
        old.push(".old");
        old
    }

    /// Renames what has this name to the same name with `.old`, as perf does: a result then replaces nothing but an older `.old`.
    ///
    /// # Errors If a system call fails; there need not be such a file.
    pub fn keep_previous(&self) -> io::Result<()> {
        match renameat(&self.directory, &self.name, &self.directory, self.old_name()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// The path of the directory.
    pub fn directory_path(&self) -> &Path {
        match self.path.parent() {
            _ if self.name.is_empty() => &self.path,
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        }
    }

    /// The same place again, for a result that is rewritten from time to time.
    ///
    /// # Errors If there are too many open files.
    pub fn again(&self) -> io::Result<Place> {
        Ok(Place { directory: self.directory.try_clone()?, name: self.name.clone(), path: self.path.clone() })
    }
}

/// A file without its final name; removed on drop.
#[derive(Debug)]
pub struct Part {
    place: Place,
    name: Option<OsString>,
    file: File,
    readers: Readers,
}

impl Part {
    /// The file, for reading and writing.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Gives the file its name.
    ///
    /// # Errors If a system call fails; then nothing is left of the file.
    pub fn deliver(mut self) -> Result<(), TargetError> {
        if self.readers == Readers::Owner {
            self.place.give_to_caller(&self.file);
        }
        let Some(name) = &self.name else { return Ok(()) };
        let Place { directory, name: wanted, path } = &self.place;
        renameat(directory, name, directory, wanted).map_err(TargetError::io(path))?;
        self.name = None;
        Ok(())
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            let _ = unlinkat(&self.place.directory, name, AtFlags::empty());
        }
    }
}

/// Under sudo gives a result to the invoking user: by descriptor, and only what this process has just created.
///
/// If a user chose the directory, use [`Place::give_to_caller`].
fn give_to_caller(file: impl AsFd) {
    if let Some((user, group)) = caller()
        && fstat(&file).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile)
    {
        let _ = fchown(&file, Some(user), Some(group));
    }
}

/// The user who ran sudo.
fn caller() -> Option<(Uid, Gid)> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    // −1 would mean "unchanged".
    let id = |variable| std::env::var(variable).ok()?.parse::<u32>().ok().filter(|id| *id != u32::MAX);
    Some((Uid::from_raw(id("SUDO_UID")?), Gid::from_raw(id("SUDO_GID")?)))
}

/// The prefix of all names of unfinished files and directories.
pub const UNFINISHED_PREFIX: &str = ".unstarve-part-";

/// A name that nobody can guess, and so nobody can have created before.
pub fn random_name() -> OsString {
    let mut bytes = [0_u8; 8];
    // Does not wait for the kernel's random generator, which may not be ready early at boot: O_EXCL is what makes this
    // safe.
    let _ = getrandom(&mut bytes, GetRandomFlags::INSECURE).or_else(|_| getrandom(&mut bytes, GetRandomFlags::empty()));
    format!("{UNFINISHED_PREFIX}{:016x}", u64::from_ne_bytes(bytes)).into()
}

/// Opens a directory by its path.
pub(crate) fn plain_directory(path: &Path) -> Result<OwnedFd, Errno> {
    openat(CWD, path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

#[cfg(test)]
mod tests;
