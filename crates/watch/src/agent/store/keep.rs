//! Enforces the store's limits: removes the oldest episodes first, those of programs before those of kernel threads.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::{Limits, Store, StoreError};
use crate::engine::reading::RoleKind;
use crate::episode::Episode;

/// The contents of a store.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Kept {
    /// Number of episodes.
    pub episodes: usize,
    /// Bytes of their files.
    pub bytes: u64,
    /// Number of these episodes that are still to be explained.
    pub unexplained: usize,
}

/// A complete episode.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub id: String,
    pub sequence: Option<u64>,
    rank: Rank,
}

/// The class of an episode's victim: episodes that any user can cause must not displace those of kernel threads.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Rank {
    /// Programs.
    Programs,
    /// Kernel threads.
    Kernel,
}

impl Rank {
    /// By what the counters saw.
    fn of(episode: &Episode) -> Rank {
        let seen = episode.trigger.as_ref();
        let role = seen.and_then(|seen| seen.victim.as_ref()?.role.as_deref());
        let kind = role.and_then(|role| RoleKind::FIXED.iter().find(|kind| kind.word() == role));
        kind.map_or(Rank::Programs, |kind| Rank::of_role(*kind))
    }

    /// The rank of an episode with a victim of this kind.
    pub fn of_role(kind: RoleKind) -> Rank {
        if kind.is_kernel() { Rank::Kernel } else { Rank::Programs }
    }

    /// The rank of a new episode: a dump that root requests can displace any other.
    pub fn of_new(episode: &Episode) -> Rank {
        if episode.trigger.is_none() { Rank::Kernel } else { Rank::of(episode) }
    }

    /// The rank of a new trace: the highest of all episodes that it shows.
    pub fn of_all(episode: &Episode, along: &[Episode]) -> Rank {
        std::iter::once(episode).chain(along).map(Rank::of_new).max().unwrap_or(Rank::Programs)
    }
}

impl Entry {
    /// An episode with those that share its trace: it has the highest of their ranks.
    pub fn of(episode: Option<Episode>, along: &[Episode], id: String) -> Entry {
        let sequence = episode.as_ref().and_then(|episode| episode.sequence);
        let rank = episode.iter().chain(along).map(Rank::of).max().unwrap_or(Rank::Programs);
        Entry { id, sequence, rank }
    }
}

/// The expected size of the next trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Expected {
    /// Size of the trace, for the limits of the store.
    pub trace: u64,
    /// Bytes that must be free on the disk: more, if that many were not enough before.
    pub on_disk: u64,
}

impl From<u64> for Expected {
    fn from(bytes: u64) -> Expected {
        Expected { trace: bytes, on_disk: bytes }
    }
}

/// Expected sizes by rank: any user can cause traces of programs, so that their size must not affect those of kernel threads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ExpectedByRank {
    programs: Expected,
    kernel: Expected,
}

impl ExpectedByRank {
    /// The same for both ranks.
    pub fn both(expected: impl Into<Expected>) -> ExpectedByRank {
        let expected = expected.into();
        ExpectedByRank { programs: expected, kernel: expected }
    }

    pub fn of(&self, rank: Rank) -> Expected {
        match rank {
            Rank::Programs => self.programs,
            Rank::Kernel => self.kernel,
        }
    }

    pub fn of_mut(&mut self, rank: Rank) -> &mut Expected {
        match rank {
            Rank::Programs => &mut self.programs,
            Rank::Kernel => &mut self.kernel,
        }
    }
}

/// Free space left on the disk for other uses: this fraction of it (1/50), and at least this much.
const RESERVE_PART: u64 = 50;
const LEAST_RESERVE: u64 = 16 << 20;

impl Limits {
    /// The limits minus what these take.
    fn without(self, held: &[Size]) -> Limits {
        let bytes = held.iter().map(|size| size.bytes).sum();
        Limits { bytes: self.bytes.saturating_sub(bytes), episodes: self.episodes.saturating_sub(held.len()) }
    }
}

impl Store {
    /// The present contents.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn kept(&self) -> Result<Kept, StoreError> {
        let ids = self.ids()?;
        let bytes = ids.iter().map(|id| Size::of(&self.directory_of(id)).bytes).sum();
        let unexplained = {
            let state = self.state();
            ids.iter().filter(|id| state.is_held(id)).count()
        };
        Ok(Kept { episodes: ids.len(), bytes, unexplained })
    }

    /// Removes the oldest episodes until one more of `expected` bytes is within the limits and leaves the reserve on the disk; returns their ids.
    /// If removing all of them would not free enough space, none is removed. An episode of programs never displaces those of kernel threads.
    ///
    /// # Errors
    /// If a system call fails, or if there is no room.
    pub(super) fn make_room(&self, expected: Expected, rank: Rank) -> Result<Vec<String>, StoreError> {
        let ids = self.room(expected, rank)?;
        for id in &ids {
            let path = self.directory_of(id);
            fs::remove_dir_all(&path).map_err(StoreError::io(&path))?;
        }
        Ok(ids)
    }

    /// The episodes to remove for one of `expected` bytes.
    ///
    /// # Errors
    /// If a system call fails, or if there is no room.
    pub(super) fn room(&self, expected: Expected, rank: Rank) -> Result<Vec<String>, StoreError> {
        let entries = self.entries()?;
        let (limits, (held, mut entries)) = {
            let state = self.state();
            let parts: (Vec<Entry>, Vec<Entry>) = entries.into_iter().partition(|entry| state.is_held(&entry.id));
            (state.limits, parts)
        };
        let lacking = self.lacking(expected.on_disk);
        entries.sort_by_key(|entry| entry.rank);
        let held = self.by_rank(&held);
        let kept = self.by_rank(&entries);
        let may_go = if rank == Rank::Kernel { entries.len() } else { kept.programs.len() };
        match kept.to_go(&held, limits, expected.trace, lacking, rank) {
            Some(count) if count <= may_go => Ok(entries.into_iter().take(count).map(|entry| entry.id).collect()),
            Some(_) => Err(StoreError::Reserved(self.path().to_owned())),
            None => Err(StoreError::io(self.path())(std::io::ErrorKind::StorageFull.into())),
        }
    }

    fn by_rank(&self, entries: &[Entry]) -> SizesByRank {
        let of = |rank: Rank| {
            let entries = entries.iter().filter(|entry| entry.rank == rank);
            entries.map(|entry| Size::of(&self.directory_of(&entry.id))).collect()
        };
        SizesByRank { programs: of(Rank::Programs), kernel: of(Rank::Kernel) }
    }

    /// Bytes to be freed before `expected` bytes can be written without using the reserve.
    fn lacking(&self, expected: u64) -> u64 {
        // If the free space is unknown, writing will show it.
        let Ok(disk) = rustix::fs::statvfs(self.path()) else { return 0 };
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        let whole = disk.f_blocks.saturating_mul(disk.f_frsize);
        // On a disk smaller than the reserve, half of the disk.
        let reserve = (whole / RESERVE_PART).max(LEAST_RESERVE).min(whole / 2);
        expected.saturating_add(reserve).saturating_sub(free)
    }
}

/// Sizes of an episode's files.
#[derive(Clone, Copy, Debug)]
struct Size {
    bytes: u64,
    /// Bytes freed on the disk by removing them.
    on_disk: u64,
}

impl Size {
    fn of(directory: &Path) -> Size {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        let files = entries.filter_map(|entry| entry.metadata().ok());
        files.fold(Size { bytes: 0, on_disk: 0 }, |sum, file| Size {
            bytes: sum.bytes + file.len(),
            // stat(2) counts blocks of 512 bytes, whatever the file system's block size is.
            on_disk: sum.on_disk + file.blocks() * 512,
        })
    }
}

/// Sizes of episodes by rank, oldest first.
struct SizesByRank {
    programs: Vec<Size>,
    kernel: Vec<Size>,
}

impl SizesByRank {
    fn all(&self) -> Vec<Size> {
        [&self.programs[..], &self.kernel[..]].concat()
    }

    /// Number of episodes to remove for one of `rank`, those of programs first; `None` if removing all of them does not free enough space. The
    /// `held` episodes are not removed now: they are few, and are still to be explained. But they count towards the limits.
    fn to_go(&self, held: &SizesByRank, limits: Limits, expected: u64, lacking: u64, rank: Rank) -> Option<usize> {
        let sizes = self.all();
        let beside = |held: &[Size]| oldest_to_go(&sizes, expected, limits.without(held), lacking);
        let all = beside(&held.all())?;
        match rank {
            Rank::Programs => Some(all),
            // Any user can cause episodes of programs: held ones do not displace those of kernel threads.
            Rank::Kernel => Some(all.min(beside(&held.kernel)?.max(self.programs.len()))),
        }
    }
}

/// Minimum number of the oldest to remove; `None` if removing all of them does not free enough space.
fn oldest_to_go(sizes: &[Size], expected: u64, limits: Limits, lacking: u64) -> Option<usize> {
    let mut bytes: u64 = sizes.iter().map(|size| size.bytes).sum();
    let mut freed = 0;
    for gone in 0..=sizes.len() {
        let left = sizes.len() - gone;
        // A single episode is kept even if it is larger than the limit.
        let fits = left == 0 || left < limits.episodes && bytes.saturating_add(expected) <= limits.bytes;
        if fits && freed >= lacking {
            return Some(gone);
        }
        if let Some(size) = sizes.get(gone) {
            bytes = bytes.saturating_sub(size.bytes);
            freed += size.on_disk;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sizes(bytes: &[u64]) -> Vec<Size> {
        bytes.iter().map(|bytes| Size { bytes: *bytes, on_disk: *bytes }).collect()
    }

    #[test]
    fn nothing_goes_where_the_disk_stays_too_full() {
        let limits = Limits { bytes: 1000, episodes: 10 };
        let kept = sizes(&[100, 100, 100]);
        assert_eq!(oldest_to_go(&kept, 50, limits, 0), Some(0));
        assert_eq!(oldest_to_go(&kept, 50, limits, 101), Some(2), "no more than is needed");
        assert_eq!(oldest_to_go(&kept, 50, limits, 300), Some(3));
        assert_eq!(oldest_to_go(&kept, 50, limits, 301), None, "all of them are not enough");
        assert_eq!(oldest_to_go(&kept, 5000, limits, 0), Some(3), "one that is larger than the limit is kept alone");
        assert_eq!(oldest_to_go(&[], 5000, limits, 1), None);
    }

    proptest! {
        #[test]
        fn what_goes_is_enough_and_no_more(
            bytes in prop::collection::vec(1..100_u64, 0..20), expected in 0..200_u64, most in 0..1000_u64, episodes in 0..20_usize,
            lacking in 0..2000_u64,
        ) {
            let kept = sizes(&bytes);
            let limits = Limits { bytes: most, episodes };
            let is_enough = |gone: usize| {
                let left = &bytes[gone..];
                let fits = left.is_empty() || left.len() < episodes && left.iter().sum::<u64>() + expected <= most;
                fits && bytes[..gone].iter().sum::<u64>() >= lacking
            };
            prop_assert_eq!(oldest_to_go(&kept, expected, limits, lacking), (0..=bytes.len()).find(|gone| is_enough(*gone)));
        }
    }
}
