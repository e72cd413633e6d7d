//! Limits how much a recording may write.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::fstatvfs;

/// Disk space left for others: a twentieth of the file system, at most a gigabyte.
const PART_LEFT: u64 = 20;
const MAX_LEFT_FREE: u64 = 1 << 30;

/// Size of the file without its pages, mostly symbols: 5 to 10 MB.
const TABLES_BYTES: u64 = 16 << 20;

/// The limit of a recording's size, and whether it is reached.
#[derive(Debug)]
pub(crate) struct DiskLimit {
    directory: OwnedFd,
    max_size: Option<u64>,
}

/// Why a recording ended early.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Full {
    /// The file would exceed the requested size.
    MaxSize,
    /// The disk would become too full for others.
    Disk,
}

/// The size of a file system and its free space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Space {
    size: u64,
    free: u64,
}

impl Space {
    /// `None` for a file system that does not report it (ramfs).
    fn of(directory: impl AsFd) -> Option<Space> {
        let stat = fstatvfs(directory).ok()?;
        let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
        (stat.f_blocks > 0).then_some(Space { size: bytes(stat.f_blocks), free: bytes(stat.f_bavail) })
    }

    /// How much may be written.
    fn usable(self) -> u64 {
        self.free.saturating_sub((self.size / PART_LEFT).min(MAX_LEFT_FREE))
    }
}

impl DiskLimit {
    pub(crate) fn new(directory: impl AsFd, max_size: Option<u64>) -> io::Result<DiskLimit> {
        Ok(DiskLimit { directory: directory.as_fd().try_clone_to_owned()?, max_size })
    }

    /// Bytes free and bytes needed, if there is too little space to begin.
    pub(crate) fn lacks(&self) -> Option<(u64, u64)> {
        let space = Space::of(&self.directory)?;
        let needed = 2 * TABLES_BYTES + space.free - space.usable();
        (space.usable() < 2 * TABLES_BYTES).then_some((space.free, needed))
    }

    /// Whether to stop, after `pages` bytes have been written.
    pub(crate) fn is_full(&self, pages: u64) -> Option<Full> {
        if self.max_size.is_some_and(|max| pages.saturating_add(TABLES_BYTES / 2) >= max) {
            return Some(Full::MaxSize);
        }
        // The pages are written a second time when the file is assembled.
        let usable = Space::of(&self.directory)?.usable();
        (usable < pages.saturating_add(TABLES_BYTES)).then_some(Full::Disk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_part_of_a_disk_is_left_to_others() {
        let gib = 1_u64 << 30;
        assert_eq!(Space { size: 1000 * gib, free: 3 * gib }.usable(), 2 * gib);
        assert_eq!(Space { size: 10 * gib, free: 3 * gib }.usable(), 3 * gib - gib / 2);
        assert_eq!(Space { size: 10 * gib, free: gib / 4 }.usable(), 0);
    }

    #[test]
    fn a_size_that_was_asked_for_is_kept() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let directory = std::fs::File::open(place.path()).expect("open");
        let room = DiskLimit::new(&directory, Some(20 << 20)).expect("room");
        assert_eq!((room.is_full(1 << 20), room.is_full(12 << 20)), (None, Some(Full::MaxSize)));
        assert_eq!(DiskLimit::new(&directory, None).expect("room").is_full(u64::MAX / 2), Some(Full::Disk));
    }
}
