//! Limits: the oldest episodes go first.

use std::fs;
use std::path::Path;

use super::{Store, StoreError};

/// What a store holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Kept {
    /// How many episodes.
    pub episodes: usize,
    /// Bytes of their files.
    pub bytes: u64,
}

/// What is left free on the disk for others: this part of it, at least so much.
const RESERVE_PART: u64 = 50;
const LEAST_RESERVE: u64 = 16 << 20;

impl Store {
    /// What is there now.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn kept(&self) -> Result<Kept, StoreError> {
        let ids = self.ids()?;
        let bytes = ids.iter().map(|id| size_of(&self.directory_of(id))).sum();
        Ok(Kept { episodes: ids.len(), bytes })
    }

    /// Removes the oldest episodes until one more of `expected` bytes is within the limits and leaves others room on the disk.
    ///
    /// # Errors
    /// If the system refuses, or if the disk is too full even then.
    pub(super) fn make_room(&self, expected: u64) -> Result<(), StoreError> {
        let sizes = self.ids()?.into_iter().map(|id| {
            let bytes = size_of(&self.directory_of(&id));
            (id, bytes)
        });
        let mut left: std::collections::VecDeque<(String, u64)> = sizes.collect();
        let mut bytes: u64 = left.iter().map(|(_, bytes)| bytes).sum();
        loop {
            let fits = left.len() < self.limits.episodes.max(1)
                && bytes.saturating_add(expected) <= self.limits.bytes.max(expected);
            let room = self.has_room(expected);
            if fits && room {
                return Ok(());
            }
            let Some((id, size)) = left.pop_front() else {
                let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
                return if room { Ok(()) } else { Err(StoreError::io(self.path())(full)) };
            };
            let path = self.directory_of(&id);
            fs::remove_dir_all(&path).map_err(StoreError::io(&path))?;
            bytes = bytes.saturating_sub(size);
        }
    }

    fn has_room(&self, expected: u64) -> bool {
        // Where the system does not say, writing will.
        let Ok(disk) = rustix::fs::fstatvfs(&self.directory) else { return true };
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        let whole = disk.f_blocks.saturating_mul(disk.f_frsize);
        // Of a disk that is smaller than the reserve a half.
        let reserve = (whole / RESERVE_PART).max(LEAST_RESERVE).min(whole / 2);
        free >= expected.saturating_add(reserve)
    }
}

fn size_of(directory: &Path) -> u64 {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.len()).sum()
}
