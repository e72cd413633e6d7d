//! A directory of the store, opened: what is in it.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, fstat, openat, statat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::commit::Name;
use crate::error::FleetError;

/// Prefix of an unfinished file's name.
pub(crate) const HIDDEN_PREFIX: &str = ".fleet-";
/// Mode bits that let users other than the owner write.
pub(crate) const OTHERS_WRITE: u32 = 0o022;

/// A change that is about to be made to the directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect<'a> {
    /// Writes this hidden file.
    Write(&'a str),
    /// Renames a finished file to this name, in its directory.
    Name(&'a str),
    /// Moves this file, or a dropped hour's directory, to its place.
    Place(&'a str),
    /// Removes this file.
    Remove(&'a str),
}

/// Called before each effect. An error is handled like a failed system call: tests stop a compactor at each point this way.
pub type Before = Box<dyn Fn(Effect<'_>) -> io::Result<()>>;

/// What is read at once of a file of which one line is wanted.
const LINE_BYTES: usize = 16 << 10;

pub(super) const OPEN_DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC).union(OFlags::NONBLOCK);

/// What the directories of a store have in common.
pub(super) struct Ground {
    /// The store's path.
    pub path: PathBuf,
    /// Called before each effect.
    pub before: Before,
}

/// A directory.
pub(crate) struct Place<'a> {
    pub(super) ground: &'a Ground,
    directory: OwnedFd,
    path: PathBuf,
}

/// An entry of a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    pub name: String,
    pub kind: Name,
    pub bytes: u64,
    /// Users who may read it.
    pub readers: Readers,
    pub is_regular: bool,
    pub is_directory: bool,
    /// Identifies it and its state.
    pub stamp: Stamp,
}

/// Identifies a file and its state.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, Debug)]
pub(crate) struct Stamp {
    pub inode: u64,
    pub bytes: u64,
    /// When it was last written, ns since 1970.
    pub written_ns: u64,
    /// When its inode last changed (ctime), ns since 1970.
    pub changed_ns: u64,
}

/// The bytes of a file, and the users who may read it.
pub(crate) struct Content {
    pub bytes: Bytes,
    pub readers: Readers,
    pub owner: u32,
    pub mode: u32,
    /// Of the file that was read.
    pub stamp: Stamp,
}

/// The users who may read a file besides its owner. Rows go only into files with the same readers: no user can read more than
/// before, or less.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub(crate) struct Readers {
    /// The read bits of group and others.
    bits: u32,
    /// The group, unless all users may read it.
    group: Option<u32>,
}

impl Readers {
    /// From a file's mode and group.
    pub fn of(mode: u32, group: u32) -> Readers {
        let bits = mode & 0o044;
        Readers { bits, group: (bits == 0o040).then_some(group) }
    }

    /// The mode of a file for these readers.
    pub fn mode(self) -> u32 {
        0o600 | self.bits
    }

    /// The group that a file for these readers must have, if it matters.
    pub fn group(self) -> Option<u32> {
        self.group
    }
}

impl<'a> Place<'a> {
    pub(super) fn of(ground: &'a Ground, directory: OwnedFd, path: PathBuf) -> Place<'a> {
        Place { ground, directory, path }
    }

    /// Its path, including the store's.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn directory(&self) -> &OwnedFd {
        &self.directory
    }

    /// The path of a file in it, relative to the store, for messages.
    pub fn shown(&self, name: &str) -> PathBuf {
        let path = self.path.strip_prefix(&self.ground.path).unwrap_or(&self.path);
        if name.is_empty() { path.to_owned() } else { path.join(name) }
    }

    pub fn io(&self, action: &'static str, name: &str, source: io::Error) -> FleetError {
        FleetError::Io { action, path: if name.is_empty() { self.path.clone() } else { self.path.join(name) }, source }
    }

    /// A directory in it; `None` if nothing has this name. A link is an error.
    pub fn inner(&self, name: &str) -> Result<Option<Place<'a>>, FleetError> {
        match openat(&self.directory, name, OPEN_DIRECTORY, Mode::empty()) {
            Ok(directory) => Ok(Some(Place { ground: self.ground, directory, path: self.path.join(name) })),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(self.io("open", name, error.into())),
        }
    }

    /// All entries, sorted by name, and the names that no file of a table can have.
    pub fn list(&self) -> Result<(Vec<Entry>, Vec<String>), FleetError> {
        let mut entries = Vec::new();
        let Names { texts, strange } = self.names()?;
        for name in texts {
            let found = match statat(&self.directory, name.as_str(), AtFlags::SYMLINK_NOFOLLOW) {
                Ok(found) => found,
                // Removed meanwhile.
                Err(Errno::NOENT) => continue,
                Err(error) => return Err(self.io("read", &name, error.into())),
            };
            entries.push(Entry {
                kind: Name::of(&name),
                bytes: u64::try_from(found.st_size).unwrap_or(u64::MAX),
                readers: Readers::of(found.st_mode, found.st_gid),
                is_regular: FileType::from_raw_mode(found.st_mode) == FileType::RegularFile,
                is_directory: FileType::from_raw_mode(found.st_mode) == FileType::Directory,
                stamp: stamp(&found),
                name,
            });
        }
        entries.sort_by(|one, other| one.name.cmp(&other.name));
        Ok((entries, strange))
    }

    /// All names.
    pub fn names(&self) -> Result<Names, FleetError> {
        names(&self.directory).map_err(|error| self.io("read", "", error))
    }

    /// Reads a whole regular file; `None` if there is none of this name.
    pub fn read(&self, name: &str, limit: u64) -> Result<Option<Content>, FleetError> {
        let Some((file, found)) = self.open(name)? else { return Ok(None) };
        let too_large =
            || self.io("read", name, io::Error::other(format!("larger than {limit} bytes; expected a smaller file")));
        if u64::try_from(found.st_size).is_ok_and(|size| size > limit) {
            return Err(too_large());
        }
        let mut bytes = Vec::with_capacity(usize::try_from(found.st_size).map_or(0, |size| size.min(1 << 26)));
        let read = file.take(limit.saturating_add(1)).read_to_end(&mut bytes);
        read.map_err(|error| self.io("read", name, error))?;
        if bytes.len() as u64 > limit {
            return Err(too_large());
        }
        let readers = Readers::of(found.st_mode, found.st_gid);
        let (owner, mode, stamp) = (found.st_uid, found.st_mode, stamp(&found));
        Ok(Some(Content { bytes: Bytes::from(bytes), readers, owner, mode, stamp }))
    }

    /// Reads the first line of a regular file, with its newline; `None` if there is none of this name.
    pub fn read_line(&self, name: &str, limit: u64) -> Result<Option<Vec<u8>>, FleetError> {
        let Some((file, _)) = self.open(name)? else { return Ok(None) };
        let mut line = Vec::new();
        let read = BufReader::with_capacity(LINE_BYTES, file.take(limit)).read_until(b'\n', &mut line);
        read.map_err(|error| self.io("read", name, error))?;
        Ok(Some(line))
    }

    /// Opens a regular file without following links; `None` if there is none.
    fn open(&self, name: &str) -> Result<Option<(File, rustix::fs::Stat)>, FleetError> {
        // Opening a FIFO must not block.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = match openat(&self.directory, name, flags, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(None),
            opened => File::from(opened.map_err(|error| self.io("read", name, error.into()))?),
        };
        let found = fstat(&file).map_err(|error| self.io("read", name, error.into()))?;
        if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
            return Err(self.io("read", name, io::Error::other("not a regular file")));
        }
        Ok(Some((file, found)))
    }
}

impl Stamp {
    /// Of the file at a path; a link is none.
    pub fn of(path: &Path) -> io::Result<Stamp> {
        let found = statat(rustix::fs::CWD, path, AtFlags::SYMLINK_NOFOLLOW)?;
        match FileType::from_raw_mode(found.st_mode) {
            FileType::RegularFile => Ok(stamp(&found)),
            _ => Err(io::Error::other("not a regular file")),
        }
    }
}

fn stamp(found: &rustix::fs::Stat) -> Stamp {
    let ns = |seconds: i64, rest: u64| {
        u64::try_from(seconds).unwrap_or(0).saturating_mul(1_000_000_000).saturating_add(rest)
    };
    Stamp {
        inode: found.st_ino,
        bytes: u64::try_from(found.st_size).unwrap_or(u64::MAX),
        written_ns: ns(found.st_mtime, found.st_mtime_nsec),
        changed_ns: ns(found.st_ctime, found.st_ctime_nsec),
    }
}

/// The names in a directory.
#[derive(Default)]
pub(crate) struct Names {
    /// Names that a file of a table can have.
    pub texts: Vec<String>,
    /// The others, escaped.
    pub strange: Vec<String>,
}

/// Lists a directory.
pub(super) fn names(directory: impl AsFd) -> io::Result<Names> {
    let mut names = Names::default();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        match entry.file_name().to_bytes() {
            b"." | b".." => {}
            name => match Name::text(name) {
                Some(text) => names.texts.push(text.to_owned()),
                None => names.strange.push(unstarve_model::clean_bytes(name)),
            },
        }
    }
    Ok(names)
}
