//! The directory. Other hosts write into it, so nothing in it is believed: directories and files are opened by the descriptor of what they are
//! in, no symbolic link is followed, and a commit counts only if root, this user or the owner of the whole directory wrote it.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, fchmod, fstat, fsync, linkat, openat, renameat, statat, unlinkat,
};
use rustix::io::Errno;
use unstarve_tables::Partition;

use crate::{BadCommit, Commit, FleetError, HEAD_BYTES, Head, Name, Problem};

/// What is about to be done to the directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect<'a> {
    /// Writes this hidden file.
    Write(&'a str),
    /// Gives a file this name, for what it is.
    Name(&'a str),
    /// Makes this commit, if it is not there.
    Commit(&'a str),
    /// Removes this file.
    Remove(&'a str),
}

/// Asked before each effect; an error is as if the system had refused it. Tests stop a compactor at each point so.
pub type Before = Box<dyn Fn(Effect<'_>) -> io::Result<()>>;

/// The directory.
pub struct Store {
    path: PathBuf,
    directory: OwnedFd,
    owner: u32,
    before: Before,
}

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC).union(OFlags::NONBLOCK);

/// What hides a file until it has its name; the rest is random.
/// Mode bits by which others than the owner may write.
const OTHERS_WRITE: u32 = 0o022;
const HIDDEN: &str = ".fleet-";

impl Store {
    /// Opens a directory that is there.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn open(path: &Path) -> Result<Store, FleetError> {
        Store::watched(path, Box::new(|_| Ok(())))
    }

    /// The same; `before` is asked before each effect.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn watched(path: &Path, before: Before) -> Result<Store, FleetError> {
        let io = |source: Errno| FleetError::Io { action: "open", path: path.to_owned(), source: source.into() };
        // The directory itself is named by who calls this, by a link if he likes.
        let directory = openat(CWD, path, DIRECTORY.difference(OFlags::NOFOLLOW), Mode::empty()).map_err(io)?;
        let owner = fstat(&directory).map_err(io)?.st_uid;
        Ok(Store { path: path.to_owned(), directory, owner, before })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All hours, in the order of their names. What looks like one and is none is a problem.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn hours(&self, problems: &mut Vec<Problem>) -> Result<Vec<Partition>, FleetError> {
        let mut hours = Vec::new();
        for (table, at) in self.keyed(&self.directory, Path::new(""), "table", problems)? {
            let below = PathBuf::from(format!("table={table}"));
            for (date, at) in self.keyed(&at, &below, "date", problems)? {
                let below = below.join(format!("date={date}"));
                for (hour, _) in self.keyed(&at, &below, "hour", problems)? {
                    let hour = Partition { date: date.clone(), hour, table: table.clone() };
                    match hour.begin() {
                        Some(begin) if Partition::of(&hour.table, begin) == hour => hours.push(hour),
                        _ => problems.push(Problem::new(hour.path(), "not an hour; expected date=YYYY-MM-DD/hour=HH")),
                    }
                }
            }
        }
        hours.sort();
        Ok(hours)
    }

    /// The directories `KEY=VALUE` in one.
    fn keyed(
        &self,
        directory: &OwnedFd,
        below: &Path,
        key: &str,
        problems: &mut Vec<Problem>,
    ) -> Result<Vec<(String, OwnedFd)>, FleetError> {
        let path = self.path.join(below);
        let mut found = Vec::new();
        for name in names(directory).map_err(|source| FleetError::Io { action: "read", path, source })? {
            let Some(value) = name.strip_prefix(key).and_then(|rest| rest.strip_prefix('=')) else { continue };
            match openat(directory, name.as_str(), DIRECTORY, Mode::empty()) {
                Ok(opened) => found.push((value.to_owned(), opened)),
                Err(Errno::LOOP | Errno::NOTDIR) => {
                    problems.push(Problem::new(below.join(&name), "not a directory; links are not followed"));
                }
                Err(error) => problems.push(Problem::new(below.join(&name), &io::Error::from(error).to_string())),
            }
        }
        Ok(found)
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
                at = openat(&at, step, DIRECTORY, Mode::empty())?;
            }
            Ok(at)
        };
        let directory =
            open().map_err(|error| FleetError::Io { action: "open", path: path.clone(), source: error.into() })?;
        Ok(Hour { store: self, directory, path })
    }

    /// Puts a file into the directory itself, in the place of an older one.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn put(&self, name: &str, bytes: &[u8]) -> Result<(), FleetError> {
        let mode = fstat(&self.directory).map_or(0o600, |found| 0o600 | found.st_mode & 0o044);
        let top = Hour {
            store: self,
            directory: self.directory.try_clone().map_err(|source| self.io("open", name, source))?,
            path: self.path.clone(),
        };
        top.write(name, mode, |file| file.write_all(bytes))
    }

    fn io(&self, action: &'static str, name: &str, source: io::Error) -> FleetError {
        FleetError::Io { action, path: self.path.join(name), source }
    }
}

/// An hour of a table, open.
pub(crate) struct Hour<'a> {
    store: &'a Store,
    directory: OwnedFd,
    path: PathBuf,
}

/// A file in an hour.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    pub name: String,
    pub kind: Name,
    pub bytes: u64,
    /// When it was last written, seconds since 1970.
    pub written: u64,
    pub is_regular: bool,
}

/// What a file holds, and who may read it.
pub(crate) struct Content {
    pub bytes: Vec<u8>,
    pub mode: u32,
}

impl Hour<'_> {
    /// Its path, with that of the store.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A name in it, as messages show it: without the path of the store.
    pub fn shown(&self, name: &str) -> PathBuf {
        self.path.strip_prefix(&self.store.path).unwrap_or(&self.path).join(name)
    }

    fn io(&self, action: &'static str, name: &str, source: io::Error) -> FleetError {
        FleetError::Io { action, path: self.path.join(name), source }
    }

    /// Everything in it whose name is a text; nobody of ours writes others.
    pub fn list(&self) -> Result<Vec<Entry>, FleetError> {
        let mut entries = Vec::new();
        for name in names(&self.directory).map_err(|error| self.io("read", "", error))? {
            let found = match statat(&self.directory, name.as_str(), AtFlags::SYMLINK_NOFOLLOW) {
                Ok(found) => found,
                // Gone meanwhile.
                Err(Errno::NOENT) => continue,
                Err(error) => return Err(self.io("read", &name, error.into())),
            };
            entries.push(Entry {
                kind: Name::of(&name),
                bytes: u64::try_from(found.st_size).unwrap_or(u64::MAX),
                written: u64::try_from(found.st_mtime).unwrap_or(u64::MAX),
                is_regular: FileType::from_raw_mode(found.st_mode) == FileType::RegularFile,
                name,
            });
        }
        entries.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(entries)
    }

    /// The whole of a regular file; `None` if there is none of this name.
    pub fn read(&self, name: &str, limit: u64) -> Result<Option<Content>, FleetError> {
        let Some((file, found)) = self.open(name)? else { return Ok(None) };
        let mut bytes = Vec::with_capacity(usize::try_from(found.st_size).map_or(0, |size| size.min(1 << 26)));
        let read = file.take(limit.saturating_add(1)).read_to_end(&mut bytes);
        read.map_err(|error| self.io("read", name, error))?;
        if bytes.len() as u64 > limit {
            let why = format!("larger than {limit} bytes; expected a smaller file");
            return Err(self.io("read", name, io::Error::other(why)));
        }
        Ok(Some(Content { bytes, mode: found.st_mode & 0o777 }))
    }

    /// A regular file, through no link.
    fn open(&self, name: &str) -> Result<Option<(File, rustix::fs::Stat)>, FleetError> {
        // A FIFO must not stop us.
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

    /// A commit; `None` if it is not there any more.
    pub fn read_commit(&self, number: u64) -> Result<Option<Commit>, FleetError> {
        /// A hundred thousand files of hosts, several times.
        const LIMIT: u64 = 256 << 20;
        let Some(text) = self.text_of(number, LIMIT)? else { return Ok(None) };
        let commit = Commit::decode(number, &text);
        commit.map(Some).map_err(|source| self.bad(number, source))
    }

    /// The first line of one.
    pub fn read_head(&self, number: u64) -> Result<Option<Head>, FleetError> {
        let Some(mut text) = self.text_of(number, HEAD_BYTES)? else { return Ok(None) };
        let Some(end) = text.iter().position(|byte| *byte == b'\n') else {
            return Ok(self.read_commit(number)?.map(|commit| commit.head));
        };
        text.truncate(end + 1);
        Head::decode(number, &text).map(Some).map_err(|source| self.bad(number, source))
    }

    fn bad(&self, number: u64, source: BadCommit) -> FleetError {
        FleetError::Commit { path: self.path.join(Name::commit(number)), source }
    }

    /// What is in the file of a commit, up to a limit.
    fn text_of(&self, number: u64, limit: u64) -> Result<Option<Vec<u8>>, FleetError> {
        let name = Name::commit(number);
        let Some((file, found)) = self.open(&name)? else { return Ok(None) };
        let us = rustix::process::geteuid().as_raw();
        if ![0, us, self.store.owner].contains(&found.st_uid) {
            return Err(FleetError::Owner { path: self.path.join(name), owner: found.st_uid });
        }
        if found.st_mode & OTHERS_WRITE != 0 {
            return Err(FleetError::Writable { path: self.path.join(name) });
        }
        let mut text = Vec::new();
        file.take(limit).read_to_end(&mut text).map_err(|error| self.io("read", &name, error))?;
        Ok(Some(text))
    }

    /// Writes a file: on the disk before it has its name.
    pub fn write(
        &self,
        name: &str,
        mode: u32,
        fill: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> Result<(), FleetError> {
        let hidden = self.hidden(name, mode, fill)?;
        let named = (self.store.before)(Effect::Name(name))
            .and_then(|()| Ok(renameat(&self.directory, hidden.as_str(), &self.directory, name)?))
            .and_then(|()| Ok(fsync(&self.directory)?));
        if named.is_err() {
            self.forget(&hidden);
        }
        named.map_err(|error| self.io("write", name, error))
    }

    /// Makes a commit. `false` if somebody else has made one with its number: then nothing is changed.
    pub fn commit(&self, commit: &Commit, mode: u32) -> Result<bool, FleetError> {
        let name = Name::commit(commit.head.number);
        let hidden = self.hidden(&name, mode, |file| file.write_all(&commit.encode()))?;
        let before = (self.store.before)(Effect::Commit(&name));
        let linked = before.and_then(|()| {
            // A link is made only where there is nothing, whole or not at all.
            Ok(linkat(&self.directory, hidden.as_str(), &self.directory, name.as_str(), AtFlags::empty())?)
        });
        // On NFS a link that was made may be answered so, if the first answer was lost.
        let is_ours = linked.is_err() && self.is_one_file(&hidden, &name);
        self.forget(&hidden);
        match linked {
            Err(_) if is_ours => self.sync().map(|()| true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(self.io("make", &name, error)),
            Ok(()) => self.sync().map(|()| true),
        }
    }

    fn is_one_file(&self, one: &str, other: &str) -> bool {
        let of = |name: &str| {
            let found = statat(&self.directory, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
            Some((found.st_dev, found.st_ino))
        };
        of(one).is_some_and(|file| of(other) == Some(file))
    }

    fn hidden(
        &self,
        name: &str,
        mode: u32,
        fill: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> Result<String, FleetError> {
        let hidden = format!("{HIDDEN}{:016x}", random().map_err(|error| self.io("write", name, error))?);
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let write = || -> io::Result<()> {
            (self.store.before)(Effect::Write(&hidden))?;
            let mut file = File::from(openat(&self.directory, hidden.as_str(), flags, Mode::from_raw_mode(0o600))?);
            fill(&mut file)?;
            // Who reads believes what is written here, so nobody else may write it, whatever the mode of what hosts wrote.
            fchmod(&file, Mode::from_raw_mode(mode & !OTHERS_WRITE | 0o600))?;
            file.sync_all()
        };
        match write() {
            Ok(()) => Ok(hidden),
            Err(error) => {
                self.forget(&hidden);
                Err(self.io("write", name, error))
            }
        }
    }

    /// Removes a hidden file of ours; if that fails, a sweep does.
    fn forget(&self, hidden: &str) {
        if (self.store.before)(Effect::Remove(hidden)).is_ok() {
            let _ = unlinkat(&self.directory, hidden, AtFlags::empty());
        }
    }

    /// Removes a file; one that is not there is no error.
    pub fn remove(&self, name: &str) -> Result<(), FleetError> {
        let removed = (self.store.before)(Effect::Remove(name));
        match removed.and_then(|()| Ok(unlinkat(&self.directory, name, AtFlags::empty())?)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(self.io("remove", name, error)),
            _ => Ok(()),
        }
    }

    /// What has been named or removed stays so if the machine fails.
    pub fn sync(&self) -> Result<(), FleetError> {
        fsync(&self.directory).map_err(|error| self.io("write", "", error.into()))
    }

    /// Whether a name is of a file that a killed compactor left.
    pub fn is_hidden(name: &str) -> bool {
        name.strip_prefix(HIDDEN).is_some_and(|rest| rest.len() == 16)
    }
}

/// A number that nobody else has.
pub(crate) fn random() -> io::Result<u64> {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty())?;
    Ok(u64::from_ne_bytes(bytes))
}

fn names(directory: impl AsFd) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        if let Ok(name) = entry?.file_name().to_str()
            && name != "."
            && name != ".."
        {
            names.push(name.to_owned());
        }
    }
    Ok(names)
}
