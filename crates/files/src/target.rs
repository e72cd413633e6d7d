//! Where a command's result goes.
//!
//! A file gets its name only when it is whole. Until then it has an unguessable one in the same directory, which was opened once:
//! somebody who swaps a directory for a symbolic link meanwhile gains nothing. What is there and no regular file (`/dev/null`, a
//! terminal, a FIFO) is written to and never replaced.

mod resolve;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, OFlags, Stat, Uid, fchown, fstat, openat, renameat, unlinkat};
use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};

use crate::trust;
use resolve::{Node, Spot, WRITE, follow};

/// A result has no place to go to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TargetError {
    /// The system refused.
    #[error("cannot write {}", path.display())]
    Io {
        /// The file, or the directory that it is in.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// There is no such directory to write to.
    #[error("cannot write {}: the directory {} does not exist", path.display(), directory.display())]
    NoDirectory {
        /// The file.
        path: PathBuf,
        /// Its directory.
        directory: PathBuf,
    },
    /// Somebody else decides where it leads.
    #[error("cannot write {}: it is a {what} of user {owner}, who would decide where the result goes; name a regular file", path.display())]
    Lure {
        /// The component that is at fault.
        path: PathBuf,
        /// What it is.
        what: &'static str,
        /// Whose.
        owner: u32,
    },
    /// A symbolic link that leads who knows where.
    #[error("cannot write {}: {why}", path.display())]
    Led {
        /// The component that is at fault.
        path: PathBuf,
        /// Why it is not followed.
        why: trust::Distrust,
    },
    /// Nothing that a result can go to.
    #[error("cannot write {}: it is a {what}; expected a file", path.display())]
    NoFile {
        /// Which.
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
    /// Its owner alone: it has names of others' processes. Under sudo that is the user who called, who would need root
    /// again to read it.
    Owner,
    /// Everybody on the machine.
    Everybody,
}

/// Where a result goes.
#[derive(Debug)]
pub enum Target {
    /// Standard output, for `-`.
    Stdout,
    /// Something that is there and no regular file: a device, a FIFO, a descriptor of this process.
    Open {
        /// It.
        file: File,
        /// What it was called.
        path: PathBuf,
    },
    /// A file that gets its name when it is whole.
    File(Part),
}

impl Target {
    /// Makes sure that it can be written, before any work.
    ///
    /// # Errors
    /// If it cannot, or if somebody else decides where it leads.
    pub fn open(path: &Path, readers: Readers) -> Result<Target, TargetError> {
        if path == Path::new("-") {
            return Ok(Target::Stdout);
        }
        match find(path)? {
            Found::Open(file) => Ok(Target::Open { file, path: path.to_owned() }),
            Found::Place(place) => Ok(Target::File(place.part(readers).map_err(TargetError::io(path))?)),
        }
    }

    /// What messages call it.
    pub fn name(&self) -> String {
        match self {
            Target::Stdout => "standard output".to_owned(),
            Target::Open { path, .. } => path.display().to_string(),
            Target::File(part) => part.place.path.display().to_string(),
        }
    }

    /// Gives a finished file its name, once it is on disk: some file systems say only then that they are full.
    ///
    /// # Errors
    /// If the system refuses; then nothing is left of it.
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

/// What a path leads to.
#[derive(Debug)]
pub enum Found {
    /// Something to write to as it is.
    Open(File),
    /// A name for a regular file, which may be there already.
    Place(Place),
}

/// A name in a directory that stays open.
#[derive(Debug)]
pub struct Place {
    directory: OwnedFd,
    name: OsString,
    path: PathBuf,
}

/// Follows a path to where a result would go.
///
/// # Errors
/// If there is no such directory, or if somebody else decides where the path leads.
pub fn find(path: &Path) -> Result<Found, TargetError> {
    find_with(path, WRITE)
}

/// The same for who must not wait: a FIFO that nobody reads is an error (`ENXIO`), and what is there and no regular file does not
/// block. A descriptor that was given to this process ([`Found::Open`] for `/dev/stdout`) may still.
///
/// # Errors
/// As [`find`].
pub fn find_at_once(path: &Path) -> Result<Found, TargetError> {
    find_with(path, WRITE | OFlags::NONBLOCK)
}

fn find_with(path: &Path, flags: OFlags) -> Result<Found, TargetError> {
    match follow(path)? {
        Spot::Place(place) => Ok(Found::Place(place)),
        Spot::Node(node) => node.open(flags).map(Found::Open),
    }
}

impl Place {
    /// Where a result goes that has to be a regular file, because it is not written from beginning to end. What is there
    /// and is none is not even opened: a FIFO would wait for its reader.
    ///
    /// # Errors
    /// As [`find`], and if there is something else than a regular file.
    pub fn find(path: &Path) -> Result<Place, TargetError> {
        match follow(path)? {
            Spot::Place(place) => Ok(place),
            Spot::Node(Node { path, what, .. }) => Err(TargetError::NoFile { path, what }),
        }
    }

    /// The directory that a path names, and what is in it: the place of no file.
    ///
    /// # Errors
    /// If it cannot be opened, or if somebody else decides where the path leads.
    pub fn within(directory: &Path) -> Result<Place, TargetError> {
        let opened = trust::directory_for_results(directory)?;
        Ok(Place { directory: opened, name: OsString::new(), path: directory.to_owned() })
    }

    /// A new file that will get this name.
    ///
    /// # Errors
    /// If it cannot be made.
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

    /// The directory, for others' temporary files beside the result.
    pub fn directory(&self) -> impl AsFd + '_ {
        &self.directory
    }

    /// Waits until the names in the directory are on the disk.
    ///
    /// # Errors
    /// If the system refuses, as where files may be made in the directory and not listed.
    pub fn sync(&self) -> io::Result<()> {
        trust::sync(&self.directory)
    }

    /// The name in it.
    pub fn name(&self) -> &OsStr {
        &self.name
    }

    /// What it was called.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Under sudo a result belongs to the user who called, if that user could have made it here: who may run this program
    /// as root, and nothing else, shall not get a file of their own in `/etc/profile.d`.
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

    /// What its directory is called.
    pub fn directory_path(&self) -> &Path {
        match self.path.parent() {
            _ if self.name.is_empty() => &self.path,
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        }
    }

    /// The same place again, for a result that is written anew now and then.
    ///
    /// # Errors
    /// If there are too many open files.
    pub fn again(&self) -> io::Result<Place> {
        Ok(Place { directory: self.directory.try_clone()?, name: self.name.clone(), path: self.path.clone() })
    }
}

/// A file that has not got its name yet; removed on drop.
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

    /// Gives it its name.
    ///
    /// # Errors
    /// If the system refuses; then nothing is left of it.
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

/// Under sudo a result belongs to the user who called. By descriptor, and only what this process has just made.
///
/// Where a user chose the directory, [`Place::give_to_caller`] is the one to use.
fn give_to_caller(file: impl AsFd) {
    if let Some((user, group)) = caller()
        && fstat(&file).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile)
    {
        let _ = fchown(&file, Some(user), Some(group));
    }
}

/// Who ran sudo.
fn caller() -> Option<(Uid, Gid)> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    // −1 would mean: as it is.
    let id = |variable| std::env::var(variable).ok()?.parse::<u32>().ok().filter(|id| *id != u32::MAX);
    Some((Uid::from_raw(id("SUDO_UID")?), Gid::from_raw(id("SUDO_GID")?)))
}

/// How all names of unfinished files and directories begin.
pub const PREFIX: &str = ".unstarve-part-";

/// A name that nobody can guess, and so nobody can have made before.
pub fn random_name() -> OsString {
    let mut bytes = [0_u8; 8];
    // Without waiting for the machine's first randomness, which an early guest has not: O_EXCL is what keeps us safe.
    let _ = getrandom(&mut bytes, GetRandomFlags::INSECURE).or_else(|_| getrandom(&mut bytes, GetRandomFlags::empty()));
    format!("{PREFIX}{:016x}", u64::from_ne_bytes(bytes)).into()
}

/// Opens a directory by its path from where this process is.
pub(crate) fn plain_directory(path: &Path) -> Result<OwnedFd, Errno> {
    openat(CWD, path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

#[cfg(test)]
mod tests;
