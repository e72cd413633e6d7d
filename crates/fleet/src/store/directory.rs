//! Access to the store's directory. Other hosts write into it, so nothing in it is trusted: directories and files are opened
//! relative to their parent's descriptor, no symbolic link is followed, and a commit counts only if root, this user or the
//! owner of the store's directory wrote it.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, fstat, openat, statat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use unstarve_tables::{Partition, Schema};

use crate::commit::{Name, Trusted, Writer};
use crate::decode::{DecodeLimits, Examine, Examined, InProcessDecode};
use crate::error::FleetError;
use crate::problem::{Kind, Problem};

/// A change that is about to be made to the directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect<'a> {
    /// Writes this hidden file.
    Write(&'a str),
    /// Renames a finished file to this name.
    Name(&'a str),
    /// Creates this commit, unless it exists.
    Commit(&'a str),
    /// Removes this file.
    Remove(&'a str),
}

/// Called before each effect. An error is handled like a failed system call: tests stop a compactor at each point this way.
pub type Before = Box<dyn Fn(Effect<'_>) -> io::Result<()>>;

/// The store.
pub struct Store {
    path: PathBuf,
    directory: OwnedFd,
    owner: u32,
    before: Before,
    examine: Box<dyn Examine>,
}

/// Takes the value of a directory `KEY=VALUE` and the open directory.
type Each<'a> = &'a mut dyn FnMut(&str, &OwnedFd, &mut Vec<Problem>) -> Result<(), FleetError>;

/// Maximum size of a host's file. It is read into memory.
pub(crate) const MAX_INPUT_BYTES: u64 = 64 << 20;
/// Maximum size of a merged file.
pub(crate) const MAX_OUTPUT_BYTES: u64 = 1 << 30;

/// `manifest.parquet`, in the store itself.
pub(crate) const MANIFEST_NAME: &str = "manifest.parquet";

const OPEN_DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC).union(OFlags::NONBLOCK);

impl Store {
    /// Opens an existing directory.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn open(path: &Path) -> Result<Store, FleetError> {
        Store::watched(path, Box::new(|_| Ok(())))
    }

    /// As [`Store::open`]; `before` is called before each effect.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn watched(path: &Path, before: Before) -> Result<Store, FleetError> {
        let io = |source: Errno| FleetError::Io { action: "open", path: path.to_owned(), source: source.into() };
        // The caller names the directory itself, which may be a link.
        let directory = openat(CWD, path, OPEN_DIRECTORY.difference(OFlags::NOFOLLOW), Mode::empty()).map_err(io)?;
        let owner = fstat(&directory).map_err(io)?.st_uid;
        Ok(Store { path: path.to_owned(), directory, owner, before, examine: Box::new(InProcessDecode) })
    }

    /// The path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Decodes hosts' files by `examine`, which checks them before their rows are used.
    #[must_use]
    pub fn examined_by(self, examine: Box<dyn Examine>) -> Store {
        Store { examine, ..self }
    }

    /// All hours, sorted. A directory that looks like an hour and is not one is a problem.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn hours(&self, problems: &mut Vec<Problem>) -> Result<Vec<Partition>, FleetError> {
        let mut hours = Vec::new();
        let mut found = Vec::new();
        // At most one directory is open at each level.
        self.keyed(&self.directory, Path::new(""), "table", problems, &mut |table, at, problems| {
            let below = PathBuf::from(format!("table={table}"));
            self.keyed(at, &below, "date", problems, &mut |date, at, problems| {
                let below = below.join(format!("date={date}"));
                self.keyed(at, &below, "hour", problems, &mut |hour, _, _| {
                    found.push(Partition { date: date.to_owned(), hour: hour.to_owned(), table: table.to_owned() });
                    Ok(())
                })
            })
        })?;
        for hour in found {
            match hour.begin() {
                Some(begin) if Partition::of(&hour.table, begin) == hour => hours.push(hour),
                _ => {
                    let why = "not an hour; expected date=YYYY-MM-DD/hour=HH";
                    Problem::of(Kind::Place, hour.path(), why).add(problems);
                }
            }
        }
        hours.sort();
        Ok(hours)
    }

    /// Calls `each` for every directory `KEY=VALUE` in `directory`.
    fn keyed(
        &self,
        directory: &OwnedFd,
        below: &Path,
        key: &str,
        problems: &mut Vec<Problem>,
        each: Each<'_>,
    ) -> Result<(), FleetError> {
        let path = self.path.join(below);
        let mut strays = Vec::new();
        let Names { texts, strange } =
            names(directory).map_err(|source| FleetError::Io { action: "read", path, source })?;
        for name in texts {
            let Some(value) = name.strip_prefix(key).and_then(|rest| rest.strip_prefix('=')) else {
                strays.push(name);
                continue;
            };
            match openat(directory, name.as_str(), OPEN_DIRECTORY, Mode::empty()) {
                Ok(opened) => each(value, &opened, problems)?,
                Err(Errno::LOOP | Errno::NOTDIR) => {
                    let why = "not a directory; links are not followed";
                    Problem::of(Kind::Place, below.join(&name), why).add(problems);
                }
                Err(error) => {
                    Problem::of(Kind::Place, below.join(&name), &io::Error::from(error).to_string()).add(problems);
                }
            }
        }
        // Misplaced files are reported elsewhere.
        let is_beside = below.as_os_str().is_empty();
        if !is_beside {
            Problem::stray(below, strays).into_iter().for_each(|problem| problem.add(problems));
        }
        let ours = strange.into_iter().filter(|name| !is_beside || name.starts_with(key)).collect();
        Problem::strange_name(below, ours).into_iter().for_each(|problem| problem.add(problems));
        Ok(())
    }

    /// Opens a subdirectory of the store's own directory; `None` for a link or anything else.
    pub(crate) fn inner(&self, name: &str) -> Option<OwnedFd> {
        openat(&self.directory, name, OPEN_DIRECTORY, Mode::empty()).ok()
    }

    /// Opens an hour.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub(crate) fn hour(&self, partition: &Partition) -> Result<Hour<'_>, FleetError> {
        let path = self.path.join(partition.path());
        let open = || -> rustix::io::Result<OwnedFd> {
            let mut at = self.directory.try_clone().map_err(|_| Errno::MFILE)?;
            for step in partition.path().iter() {
                at = openat(&at, step, OPEN_DIRECTORY, Mode::empty())?;
            }
            Ok(at)
        };
        let directory =
            open().map_err(|error| FleetError::Io { action: "open", path: path.clone(), source: error.into() })?;
        let key = partition.path().display().to_string();
        Ok(Hour { store: self, directory, path, key })
    }

    /// Reads a file of the store's own directory; `None` if there is none.
    ///
    /// # Errors
    /// If it cannot be read, or if untrusted users may have written it.
    pub(crate) fn get(&self, name: &str, limit: u64) -> Result<Option<Vec<u8>>, FleetError> {
        let top = self.top(name)?;
        let Some((file, found)) = top.open(name)? else { return Ok(None) };
        top.check_writer(name, &found).map_err(|(_, why)| why)?;
        let mut bytes = Vec::new();
        file.take(limit).read_to_end(&mut bytes).map_err(|source| self.io("read", name, source))?;
        Ok(Some(bytes))
    }

    /// The names in the store's own directory.
    pub(crate) fn names(&self) -> Result<Names, FleetError> {
        names(&self.directory).map_err(|error| self.io("read", "", error))
    }

    pub(super) fn top(&self, name: &str) -> Result<Hour<'_>, FleetError> {
        let directory = self.directory.try_clone().map_err(|source| self.io("open", name, source))?;
        Ok(Hour { store: self, directory, path: self.path.clone(), key: String::new() })
    }

    /// Users whose commits are trusted.
    pub(crate) fn trusted(&self) -> Trusted {
        let found = statat(&self.directory, MANIFEST_NAME, AtFlags::SYMLINK_NOFOLLOW).ok();
        let us = rustix::process::geteuid().as_raw();
        Trusted { us, owner: Some(self.owner), keeper: found.map(|found| found.st_uid) }
    }

    /// Decodes hosts' files.
    pub(crate) fn examiner(&self) -> &dyn Examine {
        self.examine.as_ref()
    }

    /// Users who may read the store's directory.
    pub(super) fn readers(&self) -> Readers {
        fstat(&self.directory).map_or_else(|_| Readers::default(), |found| Readers::of(found.st_mode, found.st_gid))
    }

    /// Calls `before` of [`Store::watched`].
    pub(crate) fn before_effect(&self, effect: Effect<'_>) -> io::Result<()> {
        (self.before)(effect)
    }

    fn io(&self, action: &'static str, name: &str, source: io::Error) -> FleetError {
        FleetError::Io { action, path: self.path.join(name), source }
    }
}

/// An hour of a table, with its open directory.
pub(crate) struct Hour<'a> {
    store: &'a Store,
    directory: OwnedFd,
    path: PathBuf,
    key: String,
}

/// A file in an hour.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    pub name: String,
    pub kind: Name,
    pub bytes: u64,
    /// When it was last written, seconds since 1970.
    pub written: u64,
    /// Users who may read it.
    pub readers: Readers,
    /// The owner.
    pub owner: u32,
    pub mode: u32,
    pub is_regular: bool,
    pub is_directory: bool,
    /// Identifies it and its state.
    pub stamp: Stamp,
}

/// Identifies a file and its state.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, Debug)]
pub(crate) struct Stamp {
    pub inode: u64,
    pub bytes: u64,
    /// When it was last written, ns since 1970.
    pub written_ns: u64,
    /// When its inode last changed (ctime), ns since 1970.
    pub changed_ns: u64,
}

impl Entry {
    /// The number in the name of a commit.
    pub fn number(&self) -> Option<u64> {
        match self.kind {
            Name::Commit(number) => Some(number),
            _ => None,
        }
    }
}

/// The bytes of a file, and the users who may read it.
pub(crate) struct Content {
    pub bytes: Bytes,
    pub readers: Readers,
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
    /// All users.
    pub const ALL: Readers = Readers { bits: 0o044, group: None };

    /// From a file's mode and group.
    pub fn of(mode: u32, group: u32) -> Readers {
        let bits = mode & 0o044;
        Readers { bits, group: (bits == 0o040).then_some(group) }
    }

    /// The union: for a file that only lists others, such as a commit. Of two different groups, neither.
    pub fn or(self, others: Readers) -> Readers {
        let bits = self.bits | others.bits;
        let group = match (self.group, others.group) {
            (Some(one), Some(other)) => (one == other).then_some(one),
            (one, other) => one.or(other),
        };
        Readers { bits, group: group.filter(|_| bits == 0o040) }
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

impl Hour<'_> {
    /// Its path, including the store's.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its name in commits: `table=…/date=…/hour=…`.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The directory of its files.
    pub fn directory(&self) -> &OwnedFd {
        &self.directory
    }

    /// Its store.
    pub fn store(&self) -> &Store {
        self.store
    }

    /// Examines a host's file or a merged one.
    pub fn examine(&self, table: &'static Schema, bytes: &Bytes, most: DecodeLimits) -> Result<Examined, String> {
        self.store.examine.examine(table, bytes, most)
    }

    /// Whether nothing has this name; `false` if that cannot be determined.
    pub fn is_absent(&self, name: &str) -> bool {
        matches!(statat(&self.directory, name, AtFlags::SYMLINK_NOFOLLOW), Err(Errno::NOENT))
    }

    /// Whether something other than a regular file has this name.
    pub fn is_no_file(&self, name: &str) -> bool {
        let found = statat(&self.directory, name, AtFlags::SYMLINK_NOFOLLOW);
        found.is_ok_and(|found| FileType::from_raw_mode(found.st_mode) != FileType::RegularFile)
    }

    /// Owners and modes of the directories from the store's to this one.
    pub fn owners(&self) -> io::Result<Vec<(u32, u32)>> {
        let mut at = self.store.directory.try_clone()?;
        let owner = |at: &OwnedFd| fstat(at).map(|found| (found.st_uid, found.st_mode));
        let mut owners = vec![owner(&at)?];
        for step in self.key.split('/') {
            at = openat(&at, step, OPEN_DIRECTORY, Mode::empty())?;
            owners.push(owner(&at)?);
        }
        Ok(owners)
    }

    /// The path of a file in it, relative to the store, for messages.
    pub fn shown(&self, name: &str) -> PathBuf {
        self.path.strip_prefix(&self.store.path).unwrap_or(&self.path).join(name)
    }

    pub fn io(&self, action: &'static str, name: &str, source: io::Error) -> FleetError {
        FleetError::Io { action, path: self.path.join(name), source }
    }

    /// All entries, sorted by name, and the names that no file of a table can have.
    pub fn list(&self) -> Result<(Vec<Entry>, Vec<String>), FleetError> {
        let mut entries = Vec::new();
        let Names { texts, strange } = names(&self.directory).map_err(|error| self.io("read", "", error))?;
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
                written: u64::try_from(found.st_mtime).unwrap_or(u64::MAX),
                readers: Readers::of(found.st_mode, found.st_gid),
                owner: found.st_uid,
                mode: found.st_mode,
                is_regular: FileType::from_raw_mode(found.st_mode) == FileType::RegularFile,
                is_directory: FileType::from_raw_mode(found.st_mode) == FileType::Directory,
                stamp: stamp(&found),
                name,
            });
        }
        entries.sort_by(|one, other| one.name.cmp(&other.name));
        Ok((entries, strange))
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
        Ok(Some(Content { bytes: Bytes::from(bytes), readers: Readers::of(found.st_mode, found.st_gid) }))
    }

    /// Checks that only trusted users can have written a file.
    pub fn check_writer(&self, name: &str, found: &rustix::fs::Stat) -> Result<(), (Writer, FleetError)> {
        let path = || self.path().join(name);
        match self.store().trusted().judge(found.st_uid, found.st_mode) {
            Writer::Believed => Ok(()),
            Writer::Anybody => Err((Writer::Anybody, FleetError::Writable { path: path() })),
            another => Err((another, FleetError::Owner { path: path(), owner: found.st_uid })),
        }
    }

    /// Opens a regular file without following links; `None` if there is none.
    pub fn open(&self, name: &str) -> Result<Option<(File, rustix::fs::Stat)>, FleetError> {
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
pub(crate) fn names(directory: impl AsFd) -> io::Result<Names> {
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
