//! Opens files whose content must be trusted: policies, journals, locks.
//!
//! As in sudo and cron, the rule applies to each component of the path: it belongs to root or to this process's user,
//! and is not writable by group or others. A directory writable by others is accepted only if it is sticky (`/tmp`) and
//! the next component is ours or root's, because then nobody else can rename or remove that.
//!
//! Symbolic links are followed one component at a time, and only if the link is ours or root's and nobody else can have
//! put it there: the owner of a directory can rename root's links in it, and hard links to them can be made in `/tmp`.
//! Magic links (`/proc/PID/root`) are not followed, as their text is not where they lead.
//!
//! Owners are trusted as the file system reports them, because root mounted it. The exception is FUSE mounted in a
//! directory writable by others, which a user may have mounted. ACLs that let others write are visible in the group's
//! mode, which is their mask; NFSv4 ACLs are not.

mod ownership_check;
mod walk;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, fstat, fsync, openat, readlinkat, renameat, unlinkat};
use rustix::io::Errno;

use crate::target::{self, TargetError, random_name};
use ownership_check::{distrust, is_magic, us};
use walk::{Purpose, Walk};

pub use ownership_check::{Distrust, TrustError, for_a_shell};
pub(crate) use ownership_check::{MAX_SYMLINKS, distrust_link, is_on_fuse};

/// An open directory that only root and this process's user can change. Everything goes by its descriptor.
#[derive(Debug)]
pub struct Directory {
    descriptor: OwnedFd,
    path: PathBuf,
}

/// How to open a file in a [`Directory`]. Symbolic links are never followed, and files of other users are refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum How {
    /// For reading.
    Read,
    /// For reading and writing; created with mode 0600 if it does not exist.
    Update,
    /// For appending; created with mode 0600 if it does not exist.
    Append,
}

impl How {
    fn flags(self) -> OFlags {
        match self {
            How::Read => OFlags::RDONLY,
            How::Update => OFlags::RDWR | OFlags::CREATE,
            How::Append => OFlags::RDWR | OFlags::APPEND | OFlags::CREATE,
        }
    }
}

impl Directory {
    /// Opens an existing directory that only root and this process's user can have changed.
    ///
    /// # Errors If it cannot be opened or trusted; names the component at fault.
    pub fn open(path: &Path) -> Result<Directory, TrustError> {
        Walk::to(path, None, Purpose::Belief)?.finish()
    }

    /// The same, and creates missing components, accessible only to us: anyone with access could hard-link a file from
    /// it.
    ///
    /// # Errors As [`Directory::open`].
    pub fn make(path: &Path) -> Result<Directory, TrustError> {
        Walk::to(path, Some(Mode::from_raw_mode(0o700)), Purpose::Belief)?.finish()
    }

    /// Whether what we create in a directory stays: nobody else can rename or remove it or any directory above. Others
    /// may create files next to it, as in `/tmp`.
    ///
    /// # Errors As [`Directory::open`].
    pub fn check_way(path: &Path) -> Result<(), TrustError> {
        Walk::to(path, None, Purpose::Work)?.finish().map(drop)
    }

    /// Opens a regular file in it.
    ///
    /// # Errors If it cannot be opened or trusted.
    pub fn file(&self, name: &OsStr, how: How) -> Result<File, TrustError> {
        let path = self.path.join(name);
        // Non-blocking because of FIFOs; it has no effect on regular files.
        let flags = how.flags() | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let opened = match openat(&self.descriptor, name, flags, Mode::from_raw_mode(0o600)) {
            Err(Errno::LOOP | Errno::NXIO | Errno::ISDIR) => {
                return Err(TrustError::Untrusted { path, why: Distrust::NoFile });
            }
            opened => opened.map_err(TrustError::io(&path))?,
        };
        check_file(&opened, &path, how)?;
        Ok(File::from(opened))
    }

    /// The content of a file in it; `None` if it does not exist.
    ///
    /// # Errors If it cannot be read or trusted, or is larger than `limit`.
    pub fn read(&self, name: &OsStr, limit: u64) -> Result<Option<Vec<u8>>, TrustError> {
        match self.file(name, How::Read) {
            Ok(file) => read_at_most(file, &self.path.join(name), limit).map(Some),
            Err(error) if error.is_absent() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Replaces a file atomically: a reader sees either the old or the new content.
    ///
    /// # Errors If it cannot be written; then the old file is still there.
    pub fn replace(&self, name: &OsStr, bytes: &[u8], mode: u32) -> io::Result<()> {
        self.replace_once(name, mode, |mut file| file.write_all(bytes))
    }

    /// The same, and after a crash of the machine one of the two contents is there: the data is on disk before it gets
    /// its name. The new name itself is durable after [`Directory::sync`].
    ///
    /// # Errors If it cannot be written; then the old file is still there.
    pub fn replace_durably(&self, name: &OsStr, bytes: &[u8], mode: u32) -> io::Result<()> {
        self.replace_once(name, mode, |mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
    }

    fn replace_once(&self, name: &OsStr, mode: u32, fill: impl FnOnce(File) -> io::Result<()>) -> io::Result<()> {
        let part = random_name();
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&self.descriptor, &part, flags, Mode::from_raw_mode(mode))?;
        let written = fill(File::from(file));
        let done = written.and_then(|()| Ok(renameat(&self.descriptor, &part, &self.descriptor, name)?));
        if done.is_err() {
            let _ = unlinkat(&self.descriptor, &part, AtFlags::empty());
        }
        done
    }

    /// Syncs the directory, so that names in it are on disk.
    ///
    /// # Errors If a system call fails.
    pub fn sync(&self) -> io::Result<()> {
        sync(&self.descriptor)
    }

    /// Renames a file within it.
    ///
    /// # Errors If a system call fails.
    pub fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        Ok(renameat(&self.descriptor, from, &self.descriptor, to)?)
    }

    /// Removes a file; it is not an error if it does not exist.
    ///
    /// # Errors If a system call fails.
    pub fn remove(&self, name: &OsStr) -> io::Result<()> {
        match unlinkat(&self.descriptor, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// A program in it: a regular file that only root and this process's user can have written, and that is executable
    /// by someone. It need not be readable: the descriptor is `O_PATH`.
    pub(crate) fn program(&self, name: &OsStr) -> Result<OwnedFd, TrustError> {
        let path = self.path.join(name);
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = openat(&self.descriptor, name, flags, Mode::empty()).map_err(TrustError::io(&path))?;
        check_file(&opened, &path, How::Read)?;
        let mode = fstat(&opened).map_err(TrustError::io(&path))?.st_mode;
        match mode & 0o111 {
            0 => Err(TrustError::Untrusted { path, why: Distrust::NoProgram { mode: mode & 0o7777 } }),
            _ => Ok(opened),
        }
    }

    /// Its path without symbolic links, for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it still exists in the file system.
    pub fn is_there(&self) -> bool {
        fstat(&self.descriptor).is_ok_and(|stat| stat.st_nlink > 0)
    }
}

impl AsFd for Directory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl From<Directory> for OwnedFd {
    fn from(directory: Directory) -> OwnedFd {
        directory.descriptor
    }
}

/// Syncs a directory, so that names in it are on disk. The descriptors are `O_PATH`, which fsync(2) refuses.
pub(crate) fn sync(directory: &OwnedFd) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(fsync(&openat(directory, ".", flags, Mode::empty())?)?)
}

#[allow(clippy::useless_conversion, reason = "the number of names has 32 bits on arm64")]
fn check_file(file: &OwnedFd, path: &Path, how: How) -> Result<(), TrustError> {
    let stat = fstat(file).map_err(TrustError::io(path))?;
    let why = if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        Some(Distrust::NoFile)
    } else if how != How::Read && stat.st_nlink > 1 {
        // The other link was made when others could write the directory, and what we write would appear there, too.
        Some(Distrust::Names(stat.st_nlink.into()))
    } else {
        distrust(&stat)
    };
    match why {
        Some(why) => Err(TrustError::Untrusted { path: path.to_owned(), why }),
        None => Ok(()),
    }
}

fn read_at_most(file: File, path: &Path, limit: u64) -> Result<Vec<u8>, TrustError> {
    // Limited while reading: a file can grow, and files in /proc report no size.
    let mut bytes = Vec::new();
    file.take(limit.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(|source| TrustError::Io { path: path.to_owned(), source })?;
    if bytes.len() as u64 > limit {
        return Err(TrustError::TooLarge { path: path.to_owned(), limit });
    }
    Ok(bytes)
}

/// The content of a regular file that only root and this process's user can have written, and its path without symbolic
/// links.
///
/// # Errors If it cannot be read or trusted, or is larger than `limit`.
pub fn read_trusted(path: &Path, limit: u64) -> Result<(PathBuf, Vec<u8>), TrustError> {
    let (directory, name) = parent(path)?;
    let file = directory.file(&name, How::Read)?;
    let found = directory.path.join(&name);
    let bytes = read_at_most(file, &found, limit)?;
    Ok((found, bytes))
}

/// The directory of a file and its name there, after resolving all symbolic links, including that of the last
/// component.
///
/// # Errors If the directory cannot be opened or trusted.
pub fn parent(path: &Path) -> Result<(Directory, OsString), TrustError> {
    parent_for(path, Purpose::Belief)
}

/// Checks that only root and this process's user can have written an open file, and have chosen that this path leads to
/// it. Unlike a trusted file, it may be in a directory where others can create files (`/tmp`).
///
/// # Errors Who else could have; names the component at fault.
pub fn check_author(opened: &File, path: &Path) -> Result<(), TrustError> {
    let (directory, name) = parent_for(path, Purpose::Work)?;
    let found = directory.path.join(&name);
    let file = directory.file(&name, How::Read)?;
    let io = |file: &File| fstat(file).map_err(TrustError::io(&found));
    let (checked, opened, above) = (io(&file)?, io(opened)?, fstat(&directory).map_err(TrustError::io(&found))?);
    let why = if (checked.st_dev, checked.st_ino) != (opened.st_dev, opened.st_ino) {
        // The name has been given to another file since it was opened.
        Some(Distrust::Swapped)
    } else if above.st_mode & 0o022 != 0 && checked.st_nlink > 1 {
        // In a sticky directory without fs.protected_hardlinks anybody can create a hard link to an older file of
        // root's.
        #[allow(clippy::useless_conversion, reason = "it has 32 bits on arm64")]
        let names = checked.st_nlink.into();
        Some(Distrust::Names(names))
    } else {
        None
    };
    why.map_or(Ok(()), |why| Err(TrustError::Untrusted { path: found, why }))
}

fn parent_for(path: &Path, purpose: Purpose) -> Result<(Directory, OsString), TrustError> {
    let mut path = path.to_owned();
    for _ in 0..=MAX_SYMLINKS {
        let name = path.file_name().ok_or_else(|| TrustError::io(&path)(Errno::ISDIR))?.to_owned();
        let above = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let directory = Walk::to(above, None, purpose)?.finish()?;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let is_link = match openat(&directory.descriptor, &name, flags, Mode::empty()) {
            Err(_) => None,
            Ok(opened) => {
                let stat = fstat(&opened).map_err(TrustError::io(&path))?;
                (FileType::from_raw_mode(stat.st_mode) == FileType::Symlink).then_some((opened, stat))
            }
        };
        let Some((link, stat)) = is_link else { return Ok((directory, name)) };
        let above = fstat(&directory.descriptor).map_err(TrustError::io(&path))?;
        if let Some(why) = distrust_link(&above, &stat) {
            return Err(TrustError::Untrusted { path, why });
        }
        let to = readlinkat(&link, "", Vec::new()).map_err(TrustError::io(&path))?;
        let to = Path::new(OsStr::from_bytes(to.as_bytes()));
        if is_magic(&directory, to) {
            return Err(TrustError::Untrusted { path, why: Distrust::MagicLink });
        }
        path = directory.path.join(to);
    }
    Err(TrustError::Untrusted { path, why: Distrust::Links })
}

/// Checks that only root and this process's user can have written anything below a directory: files, targets of links
/// to files, and directories. Links to directories are checked but not followed, and their targets need not exist.
///
/// # Errors Names the first one that others can have written, or that cannot be read.
pub fn check_tree(directory: &Path) -> Result<(), TrustError> {
    let io = |source| TrustError::Io { path: directory.to_owned(), source };
    let directory = Directory::open(directory)?;
    for entry in std::fs::read_dir(&directory.path).map_err(io)? {
        let entry = entry.map_err(io)?;
        if entry.file_type().map_err(io)?.is_dir() {
            check_tree(&entry.path())?;
            continue;
        }
        let checked = parent(&entry.path()).and_then(|(directory, name)| check_any(&directory, &name));
        match checked {
            Err(error) if !error.is_absent() => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

fn check_any(directory: &Directory, name: &OsStr) -> Result<(), TrustError> {
    let path = directory.path.join(name);
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = openat(&directory.descriptor, name, flags, Mode::empty()).map_err(TrustError::io(&path))?;
    match distrust(&fstat(&opened).map_err(TrustError::io(&path))?) {
        Some(why) => Err(TrustError::Untrusted { path, why }),
        None => Ok(()),
    }
}

/// The directory for a result. Root follows only symbolic links of root's.
pub(crate) fn directory_for_results(path: &Path) -> Result<OwnedFd, TargetError> {
    if us() != 0 {
        return target::plain_directory(path)
            .map_err(|errno| TargetError::Io { path: path.to_owned(), source: errno.into() });
    }
    walk_for_results(path, None)
}

/// Creates the missing components of a directory for results.
///
/// # Errors If it cannot be created, or if another user could redirect the path.
pub fn make_for_results(path: &Path) -> Result<(), TargetError> {
    if us() != 0 {
        return std::fs::create_dir_all(path).map_err(|source| TargetError::Io { path: path.to_owned(), source });
    }
    walk_for_results(path, Some(Mode::from_raw_mode(0o755))).map(drop)
}

fn walk_for_results(path: &Path, make: Option<Mode>) -> Result<OwnedFd, TargetError> {
    match Walk::to(path, make, Purpose::Result).and_then(Walk::finish) {
        Ok(directory) => Ok(directory.descriptor),
        Err(TrustError::Untrusted { path, why: Distrust::Owner { owner, .. } }) => {
            Err(TargetError::Lure { path, what: "symbolic link", owner })
        }
        Err(TrustError::Untrusted {
            path,
            why: why @ (Distrust::PlantedLink | Distrust::MagicLink | Distrust::UserMount),
        }) => Err(TargetError::Led { path, why }),
        Err(TrustError::Io { path, source }) => Err(TargetError::Io { path, source }),
        Err(other) => Err(TargetError::Io { path: path.to_owned(), source: io::Error::other(other) }),
    }
}

#[cfg(test)]
mod tests;
