//! All writes to the store and removals from it.

use std::fs::File;
use std::io;

use rustix::fs::{AtFlags, Mode, OFlags, fchmod, fchown, fsync, openat, renameat, unlinkat};
use rustix::process::Gid;

use super::place::{Effect, HIDDEN_PREFIX, OTHERS_WRITE, Place, Readers};
use crate::error::FleetError;

impl Place<'_> {
    /// Writes a file, and syncs it to disk before it gets its name.
    pub fn write<T>(
        &self,
        name: &str,
        readers: Readers,
        fill: impl FnOnce(&mut File) -> io::Result<T>,
    ) -> Result<T, FleetError> {
        let hidden = format!("{HIDDEN_PREFIX}{:016x}", random().map_err(|error| self.io("write", name, error))?);
        let named = self.write_hidden(&hidden, readers, fill).and_then(|filled| {
            (self.ground.before)(Effect::Name(name))?;
            renameat(self.directory(), hidden.as_str(), self.directory(), name)?;
            fsync(self.directory())?;
            Ok(filled)
        });
        if named.is_err() && (self.ground.before)(Effect::Remove(&hidden)).is_ok() {
            // If that fails, the next run does it.
            let _ = unlinkat(self.directory(), hidden.as_str(), AtFlags::empty());
        }
        named.map_err(|error| self.io("write", name, error))
    }

    fn write_hidden<T>(
        &self,
        hidden: &str,
        readers: Readers,
        fill: impl FnOnce(&mut File) -> io::Result<T>,
    ) -> io::Result<T> {
        (self.ground.before)(Effect::Write(hidden))?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = File::from(openat(self.directory(), hidden, flags, Mode::from_raw_mode(0o600))?);
        let filled = fill(&mut file)?;
        // Readers trust this file, so only its owner may write it, whatever the mode of hosts' files.
        let mut mode = readers.mode() & !OTHERS_WRITE;
        // Without the right group, no group may read it: its group is then the directory's or this process's.
        if let Some(group) = readers.group()
            && fchown(&file, None, Some(Gid::from_raw(group))).is_err()
        {
            mode &= !0o040;
        }
        fchmod(&file, Mode::from_raw_mode(mode))?;
        file.sync_all()?;
        Ok(filled)
    }

    /// Moves a file or a directory to another directory of the store, where nobody sees a part of it.
    pub fn move_to(&self, name: &str, to: &Place<'_>, new: &str) -> Result<(), FleetError> {
        let before = (self.ground.before)(Effect::Place(new));
        before
            .and_then(|()| Ok(renameat(self.directory(), name, to.directory(), new)?))
            .map_err(|error| to.io("make", new, error))
    }

    /// Removes a file; a missing file is not an error.
    pub fn remove(&self, name: &str) -> Result<(), FleetError> {
        self.unlink(name, AtFlags::empty())
    }

    /// Removes an empty directory; one that is missing or not empty is no error.
    pub fn remove_empty(&self, name: &str) -> Result<(), FleetError> {
        match self.unlink(name, AtFlags::REMOVEDIR) {
            Err(FleetError::Io { source, .. }) if source.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
            removed => removed,
        }
    }

    fn unlink(&self, name: &str, flags: AtFlags) -> Result<(), FleetError> {
        let removed = (self.ground.before)(Effect::Remove(name));
        match removed.and_then(|()| Ok(unlinkat(self.directory(), name, flags)?)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(self.io("remove", name, error)),
            _ => Ok(()),
        }
    }

    /// Syncs the directory, so that renames and removals survive a crash.
    pub fn sync(&self) -> Result<(), FleetError> {
        fsync(self.directory()).map_err(|error| self.io("write", "", error.into()))
    }
}

/// 64 random bits.
pub(crate) fn random() -> io::Result<u64> {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty())?;
    Ok(u64::from_ne_bytes(bytes))
}
