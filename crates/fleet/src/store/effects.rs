//! All writes to the store and removals from it.

use std::fs::File;
use std::io::{self, Write};

use rustix::fs::{AtFlags, Mode, OFlags, fchmod, fchown, fsync, linkat, openat, renameat, statat, unlinkat};
use rustix::process::Gid;

use super::directory::{Effect, Hour, Readers, Store};
use crate::commit::{Commit, Name, OTHERS_WRITE};
use crate::error::FleetError;

/// Prefix of an unfinished file's name; 16 random digits follow.
const HIDDEN_PREFIX: &str = ".fleet-";

impl Store {
    /// Writes a file of the store's own directory, or replaces it.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn put(&self, name: &str, bytes: &[u8]) -> Result<(), FleetError> {
        self.top(name)?.write(name, self.readers(), |file| file.write_all(bytes))
    }
}

impl Hour<'_> {
    /// Writes a file, and syncs it to disk before it gets its name.
    pub fn write(
        &self,
        name: &str,
        readers: Readers,
        fill: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> Result<(), FleetError> {
        let hidden = self.hidden(name, readers, fill)?;
        let named = self
            .store()
            .before_effect(Effect::Name(name))
            .and_then(|()| Ok(renameat(self.directory(), hidden.as_str(), self.directory(), name)?))
            .and_then(|()| Ok(fsync(self.directory())?));
        if named.is_err() {
            self.remove_hidden(&hidden);
        }
        named.map_err(|error| self.io("write", name, error))
    }

    /// Creates a commit. `false` if one with its number already exists: then nothing has changed.
    pub fn commit(&self, commit: &Commit, readers: Readers) -> Result<bool, FleetError> {
        let name = Name::commit(commit.head.number);
        let hidden = self.hidden(&name, readers, |file| file.write_all(&commit.encode()))?;
        let before = self.store().before_effect(Effect::Commit(&name));
        let linked = before.and_then(|()| {
            // linkat never replaces a file, and is atomic.
            Ok(linkat(self.directory(), hidden.as_str(), self.directory(), name.as_str(), AtFlags::empty())?)
        });
        // On NFS linkat can report EEXIST for a link that it created, if the first answer was lost.
        let is_ours = linked.is_err() && self.is_one_file(&hidden, &name);
        self.remove_hidden(&hidden);
        match linked {
            Err(_) if is_ours => self.sync().map(|()| true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(self.io("make", &name, error)),
            Ok(()) => self.sync().map(|()| true),
        }
    }

    fn is_one_file(&self, one: &str, other: &str) -> bool {
        let of = |name: &str| {
            let found = statat(self.directory(), name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
            Some((found.st_dev, found.st_ino))
        };
        of(one).is_some_and(|file| of(other) == Some(file))
    }

    fn hidden(
        &self,
        name: &str,
        readers: Readers,
        fill: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> Result<String, FleetError> {
        let hidden = format!("{HIDDEN_PREFIX}{:016x}", random().map_err(|error| self.io("write", name, error))?);
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let write = || -> io::Result<()> {
            self.store().before_effect(Effect::Write(&hidden))?;
            let mut file = File::from(openat(self.directory(), hidden.as_str(), flags, Mode::from_raw_mode(0o600))?);
            fill(&mut file)?;
            // Readers trust this file, so only its owner may write it, whatever the mode of hosts' files.
            let mut mode = readers.mode() & !OTHERS_WRITE;
            // Without the right group, no group may read it: its group is then the directory's or this process's.
            if let Some(group) = readers.group()
                && fchown(&file, None, Some(Gid::from_raw(group))).is_err()
            {
                mode &= !0o040;
            }
            fchmod(&file, Mode::from_raw_mode(mode))?;
            file.sync_all()
        };
        match write() {
            Ok(()) => Ok(hidden),
            Err(error) => {
                self.remove_hidden(&hidden);
                Err(self.io("write", name, error))
            }
        }
    }

    /// Removes an unfinished file of this process; if that fails, a later sweep does.
    fn remove_hidden(&self, hidden: &str) {
        if self.store().before_effect(Effect::Remove(hidden)).is_ok() {
            let _ = unlinkat(self.directory(), hidden, AtFlags::empty());
        }
    }

    /// Removes a file; a missing file is not an error.
    pub fn remove(&self, name: &str) -> Result<(), FleetError> {
        let removed = self.store().before_effect(Effect::Remove(name));
        match removed.and_then(|()| Ok(unlinkat(self.directory(), name, AtFlags::empty())?)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(self.io("remove", name, error)),
            _ => Ok(()),
        }
    }

    /// Syncs the directory, so that renames and removals survive a crash.
    pub fn sync(&self) -> Result<(), FleetError> {
        fsync(self.directory()).map_err(|error| self.io("write", "", error.into()))
    }

    /// Whether a name is that of an unfinished file.
    pub fn is_hidden(name: &str) -> bool {
        name.strip_prefix(HIDDEN_PREFIX).is_some_and(|rest| rest.len() == 16)
    }
}

/// 64 random bits.
pub(crate) fn random() -> io::Result<u64> {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty())?;
    Ok(u64::from_ne_bytes(bytes))
}
