//! Limits: the oldest episodes go first, those of programs before those of kernel threads.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::{Limits, Store, StoreError};
use crate::engine::reading::RoleKind;
use crate::episode::Episode;

/// What a store holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Kept {
    /// How many episodes.
    pub episodes: usize,
    /// Bytes of their files.
    pub bytes: u64,
    /// Of these, how many wait to be explained.
    pub unexplained: usize,
}

/// An episode that is whole.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub id: String,
    pub sequence: Option<u64>,
    rank: Rank,
}

/// Who was starved: what any user can bring about takes no room from what the kernel's threads suffered.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Rank {
    /// Programs.
    Programs,
    /// The kernel's threads.
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

    /// Of one whose victim is of this kind.
    pub fn of_role(kind: RoleKind) -> Rank {
        if kind.is_kernel() { Rank::Kernel } else { Rank::Programs }
    }

    /// Of one that is new: what root asks for by hand may take any place.
    pub fn of_new(episode: &Episode) -> Rank {
        if episode.trigger.is_none() { Rank::Kernel } else { Rank::of(episode) }
    }

    /// Of a new trace: the highest of all that it is about.
    pub fn of_all(episode: &Episode, along: &[Episode]) -> Rank {
        std::iter::once(episode).chain(along).map(Rank::of_new).max().unwrap_or(Rank::Programs)
    }
}

impl Entry {
    /// One whose trace these share: it keeps its room as long as the one that counts most.
    pub fn of(episode: Option<Episode>, along: &[Episode], id: String) -> Entry {
        let sequence = episode.as_ref().and_then(|episode| episode.sequence);
        let rank = episode.iter().chain(along).map(Rank::of).max().unwrap_or(Rank::Programs);
        Entry { id, sequence, rank }
    }
}

/// What the next trace is expected to take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Expected {
    /// Bytes of it, for the limits of the store.
    pub trace: u64,
    /// Bytes that must be free on the disk: more, where so many were not enough.
    pub on_disk: u64,
}

impl From<u64> for Expected {
    fn from(bytes: u64) -> Expected {
        Expected { trace: bytes, on_disk: bytes }
    }
}

/// The same by rank: how large traces of programs are, which any user can bring about, says nothing of those of the kernel's threads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ExpectedByRank {
    programs: Expected,
    kernel: Expected,
}

impl ExpectedByRank {
    /// The same for both.
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

/// What is left free on the disk for others: this part of it, at least so much.
const RESERVE_PART: u64 = 50;
const LEAST_RESERVE: u64 = 16 << 20;

impl Limits {
    /// What is left of them beside these.
    fn without(self, held: &[Size]) -> Limits {
        let bytes = held.iter().map(|size| size.bytes).sum();
        Limits { bytes: self.bytes.saturating_sub(bytes), episodes: self.episodes.saturating_sub(held.len()) }
    }
}

impl Store {
    /// What is there now.
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

    /// Removes the oldest episodes until one more of `expected` bytes is within the limits and leaves others room on the disk;
    /// gives their ids. Where others have filled the disk so far that all of them were not enough, none is removed, and one of programs
    /// removes none of the kernel's threads.
    ///
    /// # Errors
    /// If the system refuses, or if there is no room.
    pub(super) fn make_room(&self, expected: Expected, rank: Rank) -> Result<Vec<String>, StoreError> {
        let ids = self.room(expected, rank)?;
        for id in &ids {
            let path = self.directory_of(id);
            fs::remove_dir_all(&path).map_err(StoreError::io(&path))?;
        }
        Ok(ids)
    }

    /// The episodes that have to go for one of `expected` bytes.
    ///
    /// # Errors
    /// If the system refuses, or if there is no room.
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

    /// What has to become free before `expected` bytes can be written beside the reserve.
    fn lacking(&self, expected: u64) -> u64 {
        // Where the system does not say, writing will.
        let Ok(disk) = rustix::fs::statvfs(self.path()) else { return 0 };
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        let whole = disk.f_blocks.saturating_mul(disk.f_frsize);
        // Of a disk that is smaller than the reserve a half.
        let reserve = (whole / RESERVE_PART).max(LEAST_RESERVE).min(whole / 2);
        expected.saturating_add(reserve).saturating_sub(free)
    }
}

/// An episode's files.
#[derive(Clone, Copy, Debug)]
struct Size {
    bytes: u64,
    /// What becomes free when they are removed.
    on_disk: u64,
}

impl Size {
    fn of(directory: &Path) -> Size {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        let files = entries.filter_map(|entry| entry.metadata().ok());
        files.fold(Size { bytes: 0, on_disk: 0 }, |sum, file| Size {
            bytes: sum.bytes + file.len(),
            // stat(2) counts blocks of 512 bytes, whatever those of the file system are.
            on_disk: sum.on_disk + file.blocks() * 512,
        })
    }
}

/// What episodes take, oldest first.
struct SizesByRank {
    programs: Vec<Size>,
    kernel: Vec<Size>,
}

impl SizesByRank {
    fn all(&self) -> Vec<Size> {
        [&self.programs[..], &self.kernel[..]].concat()
    }

    /// How many have to go for one of `rank`, those of programs first; `None` if all of them are not enough for the disk. Beside them are
    /// `held` ones: those go next time, for they are few, and what is known of them is not written yet. But they take their part of what
    /// may be kept.
    fn to_go(&self, held: &SizesByRank, limits: Limits, expected: u64, lacking: u64, rank: Rank) -> Option<usize> {
        let sizes = self.all();
        let beside = |held: &[Size]| oldest_to_go(&sizes, expected, limits.without(held), lacking);
        let all = beside(&held.all())?;
        match rank {
            Rank::Programs => Some(all),
            // Any user can bring about episodes of programs: what they hold takes no room from what the kernel's threads suffered.
            Rank::Kernel => Some(all.min(beside(&held.kernel)?.max(self.programs.len()))),
        }
    }
}

/// How many of the oldest have to go, at least; `None` if all of them are not enough for the disk.
fn oldest_to_go(sizes: &[Size], expected: u64, limits: Limits, lacking: u64) -> Option<usize> {
    let mut bytes: u64 = sizes.iter().map(|size| size.bytes).sum();
    let mut freed = 0;
    for gone in 0..=sizes.len() {
        let left = sizes.len() - gone;
        // One alone is kept even where it is larger than the limit.
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
