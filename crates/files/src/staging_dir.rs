//! A private directory next to a result, for results that take long to make.
//!
//! The parent directory may belong to another user, who can rename this one, replace it, or create similar ones. So it
//! has an unguessable name, is opened without following links, is used only if it belongs to this process's user and
//! nobody else has access, and everything in it goes by its descriptor. It is locked (flock) while its process lives,
//! so leftovers of killed processes can be recognised without process ids.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use rustix::fs::{
    AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, Stat, fchmod, flock, fstat, mkdirat, openat, renameat,
    statat, unlinkat,
};
use rustix::io::Errno;

use crate::target::{Place, UNFINISHED_PREFIX, random_name};

/// A hidden directory that only this process's user can access.
#[derive(Debug)]
pub struct Hidden {
    parent: OwnedFd,
    name: OsString,
    directory: OwnedFd,
    path: PathBuf,
}

/// Name of the file in it that contains the directory's identity.
const SIGNATURE_FILE: &str = "made-by-unstarve";

const OPEN_FLAGS: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC).union(OFlags::NONBLOCK);

impl Hidden {
    /// Creates one in the directory of `place`.
    ///
    /// # Errors If a system call fails, or if another user keeps replacing it.
    pub fn make(place: &Place) -> io::Result<Hidden> {
        for _ in 0..100 {
            let name = random_name();
            match mkdirat(place.directory(), &name, Mode::RWXU) {
                Err(Errno::EXIST) => continue,
                made => made?,
            }
            match Hidden::opened(place, &name) {
                // Before it was locked, another process may have removed it as a leftover.
                Ok(Some(hidden)) if fstat(&hidden.directory)?.st_nlink > 0 => {
                    hidden.sign()?;
                    return Ok(hidden);
                }
                _ => continue,
            }
        }
        Err(io::Error::other("somebody replaces the temporary directories in it"))
    }

    /// The leftovers of killed processes, now locked by us.
    pub fn leftovers(place: &Place) -> Vec<Hidden> {
        let names = list(place.directory()).unwrap_or_default();
        let alike = names.into_iter().filter(|name| name.as_bytes().starts_with(UNFINISHED_PREFIX.as_bytes()));
        let opened = alike.filter_map(|name| Hidden::opened(place, &name).ok().flatten());
        let (signed, others): (Vec<Hidden>, Vec<Hidden>) = opened.partition(Hidden::is_signed);
        // Without a signature: its process was killed before signing it, or after emptying it. It contains nothing.
        others.into_iter().filter(Hidden::is_unfinished).for_each(|hidden| hidden.remove(|_| false));
        signed
    }

    /// Whether it contains nothing but perhaps an incomplete signature.
    fn is_unfinished(&self) -> bool {
        let begins = || {
            let mut text = String::new();
            let read = self.read(SIGNATURE_FILE).and_then(|file| file.take(64).read_to_string(&mut text));
            read.is_ok() && self.identity().is_ok_and(|identity| identity.starts_with(&text))
        };
        let names = self.names();
        names.is_empty() || names == [SIGNATURE_FILE] && begins()
    }

    /// Opens the directory of this name, if it is one of ours and not in use.
    ///
    /// # Errors If it cannot be opened.
    pub fn open(place: &Place, name: &OsStr) -> io::Result<Option<Hidden>> {
        Ok(Hidden::opened(place, name)?.filter(Hidden::is_signed))
    }

    /// Stores the directory's identity in it. The owner of the parent directory may give another directory of ours such
    /// a name; only one created here contains its own identity.
    fn sign(&self) -> io::Result<()> {
        self.create(SIGNATURE_FILE)?.write_all(self.identity()?.as_bytes())
    }

    fn is_signed(&self) -> bool {
        let mut text = String::new();
        let read = self.read(SIGNATURE_FILE).and_then(|file| file.take(64).read_to_string(&mut text));
        read.is_ok() && self.identity().is_ok_and(|identity| identity == text)
    }

    fn identity(&self) -> io::Result<String> {
        let stat = fstat(&self.directory)?;
        Ok(format!("unstarve {} {}\n", stat.st_dev, stat.st_ino))
    }

    fn opened(place: &Place, name: &OsStr) -> io::Result<Option<Hidden>> {
        let directory = openat(place.directory(), name, OPEN_FLAGS, Mode::empty())?;
        let (stat, around) = (fstat(&directory)?, fstat(place.directory())?);
        // A different device means that something is mounted there.
        if !only_ours(&stat) || stat.st_dev != around.st_dev {
            return Ok(None);
        }
        if flock(&directory, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Ok(None);
        }
        // The umask may have removed permissions.
        fchmod(&directory, Mode::RWXU)?;
        let path = place.directory_path().join(name);
        Ok(Some(Hidden {
            parent: place.directory().as_fd().try_clone_to_owned()?,
            name: name.to_owned(),
            directory,
            path,
        }))
    }

    /// Creates a file in it that only its owner can read.
    ///
    /// # Errors If it exists, or a system call fails.
    pub fn create(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(File::from(openat(&self.directory, name, flags, Mode::RUSR | Mode::WUSR)?))
    }

    /// Opens a file in it for reading.
    ///
    /// # Errors If it does not exist, or is not a regular file.
    pub fn read(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = openat(&self.directory, name, flags, Mode::empty())?;
        match FileType::from_raw_mode(fstat(&file)?.st_mode) {
            FileType::RegularFile => Ok(File::from(file)),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// Renames a file within it.
    ///
    /// # Errors If a system call fails.
    pub fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(renameat(&self.directory, from, &self.directory, to)?)
    }

    /// Moves a file to `place`, which must be in the same parent directory.
    ///
    /// # Errors If a system call fails.
    pub fn deliver(&self, name: &str, place: &Place) -> io::Result<()> {
        Ok(renameat(&self.directory, name, place.directory(), place.name())?)
    }

    /// The names of everything in it.
    pub fn names(&self) -> Vec<OsString> {
        list(&self.directory).unwrap_or_default()
    }

    /// Its path, for messages.
    pub fn path(&self) -> &std::path::Path {
        &self.path
    }

    /// How long ago something was last created or removed in it; `None` if the clock was set back.
    pub fn age(&self) -> Option<Duration> {
        let stat = fstat(&self.directory).ok()?;
        let changed = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(u64::try_from(stat.st_mtime).ok()?))?;
        SystemTime::now().duration_since(changed).ok()
    }

    /// Removes its files whose names `ours` accepts, then the directory if it is empty. Follows no links and does not
    /// descend into directories.
    pub fn remove(&self, ours: impl Fn(&OsStr) -> bool) {
        // The signature is removed last, so that after a kill the rest is still recognised as ours.
        for name in self.names().into_iter().filter(|name| name != SIGNATURE_FILE && ours(name)) {
            let _ = unlinkat(&self.directory, &name, AtFlags::empty());
        }
        if self.names() == [SIGNATURE_FILE] {
            let _ = unlinkat(&self.directory, SIGNATURE_FILE, AtFlags::empty());
        }
        // The owner of the parent directory may have replaced it. Only an empty directory can be removed by this.
        let here = fstat(&self.directory).map(|stat| (stat.st_dev, stat.st_ino));
        let there = statat(&self.parent, &self.name, AtFlags::SYMLINK_NOFOLLOW).map(|stat| (stat.st_dev, stat.st_ino));
        if here.is_ok() && here == there {
            let _ = unlinkat(&self.parent, &self.name, AtFlags::REMOVEDIR);
        }
    }
}

impl AsFd for Hidden {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.directory.as_fd()
    }
}

/// Whether it is a directory that only this process's user can change or read.
fn only_ours(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Directory
        && stat.st_uid == rustix::process::geteuid().as_raw()
        && stat.st_mode & 0o077 == 0
}

/// Opened again: the descriptor may be `O_PATH`, and reading a directory needs a position of its own.
fn list(directory: impl AsFd) -> io::Result<Vec<OsString>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = openat(directory, ".", flags, Mode::empty())?;
    let mut names = Vec::new();
    for entry in Dir::read_from(opened)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.push(OsStr::from_bytes(name).to_owned());
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{DirBuilderExt, PermissionsExt, symlink};

    use super::*;

    fn any(_: &OsStr) -> bool {
        true
    }

    #[test]
    fn it_is_ours_alone_and_leaves_nothing() {
        let around = tempfile::tempdir().expect("a temporary directory");
        let place = Place::find(&around.path().join("result")).expect("a place");
        let hidden = Hidden::make(&place).expect("made");
        assert_eq!(fs::metadata(hidden.path()).expect("there").permissions().mode() & 0o7777, 0o700);
        hidden.create("a").expect("a file");
        assert!(hidden.create("a").is_err(), "never over something that is there");
        assert!(Hidden::leftovers(&place).is_empty(), "it is locked");
        hidden.deliver("a", &place).expect("delivered");
        hidden.create("b").expect("a file");
        hidden.remove(any);
        assert_eq!(fs::read_dir(around.path()).expect("listed").count(), 1);
    }

    #[test]
    fn leftovers_are_removed_without_following_anything() {
        let around = tempfile::tempdir().expect("a temporary directory");
        let victim = tempfile::tempdir().expect("a temporary directory");
        fs::write(victim.path().join("precious"), "1").expect("written");
        let place = Place::find(&around.path().join("result")).expect("a place");
        let path = |name: &str| around.path().join(format!("{UNFINISHED_PREFIX}{name}"));
        let mut builder = fs::DirBuilder::new();
        builder.mode(0o700);
        // The owner of the parent directory can give such a name to any directory in it.
        builder.create(path("precious")).expect("a directory of ours that is no leftover");
        fs::write(path("precious").join("file"), "1").expect("written");
        let made = Hidden::make(&place).expect("made");
        let left_at = made.path().to_owned();
        drop(made);
        symlink(victim.path(), left_at.join("link")).expect("a link in it");
        fs::create_dir(left_at.join("deep")).expect("a directory in it");
        symlink(victim.path(), path("link")).expect("a link named alike");
        fs::write(path("file"), "").expect("a file named alike");
        builder.mode(0o755).create(path("open")).expect("one that others could look into");
        let left = Hidden::leftovers(&place);
        assert_eq!(left.iter().map(|hidden| hidden.path()).collect::<Vec<_>>(), [left_at.as_path()]);
        left[0].remove(any);
        assert!(left_at.join("deep").exists() && !left_at.join("link").is_symlink());
        assert!(victim.path().join("precious").exists() && path("link").is_symlink());
        drop(left);
        fs::remove_dir(left_at.join("deep")).expect("removed");
        Hidden::leftovers(&place).iter().for_each(|hidden| hidden.remove(any));
        assert!(!left_at.exists() && path("precious").join("file").exists());
    }

    #[test]
    fn another_users_directory_is_left_alone() {
        if !rustix::process::geteuid().is_root() {
            return; // Only root can give files away.
        }
        let around = tempfile::tempdir().expect("a temporary directory");
        let place = Place::find(&around.path().join("result")).expect("a place");
        let theirs = around.path().join(format!("{UNFINISHED_PREFIX}theirs"));
        fs::DirBuilder::new().mode(0o700).create(&theirs).expect("a directory");
        std::os::unix::fs::chown(&theirs, Some(65534), None).expect("given away");
        assert!(Hidden::leftovers(&place).is_empty());
    }
}
