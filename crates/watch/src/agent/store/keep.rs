//! Enforces the store's limits. What is removed for a new trace, in this order, the oldest of each kind first:
//!
//! | for a new trace of | dumps | programs beyond their share | kernel threads beyond theirs | other kernel threads | other programs |
//! |---|---|---|---|---|---|
//! | a dump | 1 | – | – | – | – |
//! | programs | 1 | 2 | 3 | – | 4 |
//! | kernel threads | 1 | 2 | 3 | 4 | 5 |
//!
//! The share of programs is a quarter of the limits, that of kernel threads the rest: any user can cause episodes of programs, and episodes of kernel
//! threads keep out those of programs only from what is theirs.

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

/// What a trace is of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Rank {
    /// Nothing that was seen to starve: it was asked for by hand.
    Dump,
    /// Programs.
    Programs,
    /// Kernel threads.
    Kernel,
}

impl Rank {
    /// By what the counters saw.
    pub fn of(episode: &Episode) -> Rank {
        let Some(seen) = &episode.trigger else { return Rank::Dump };
        let role = seen.victim.as_ref().and_then(|victim| victim.role.as_deref());
        let kind = role.and_then(|role| RoleKind::FIXED.iter().find(|kind| kind.word() == role));
        kind.map_or(Rank::Programs, |kind| Rank::of_role(*kind))
    }

    /// The rank of an episode with a victim of this kind.
    pub fn of_role(kind: RoleKind) -> Rank {
        if kind.is_kernel() { Rank::Kernel } else { Rank::Programs }
    }

    /// The rank of a trace: the highest of all episodes that it shows.
    pub fn of_all(episode: &Episode, along: &[Episode]) -> Rank {
        std::iter::once(episode).chain(along).map(Rank::of).max().unwrap_or(Rank::Dump)
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

/// Expected sizes by rank, a dump's as of kernel threads: any user can cause traces of programs, so that their size must not affect those of kernel threads.
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
            Rank::Dump | Rank::Kernel => self.kernel,
        }
    }

    pub fn of_mut(&mut self, rank: Rank) -> &mut Expected {
        match rank {
            Rank::Programs => &mut self.programs,
            Rank::Dump | Rank::Kernel => &mut self.kernel,
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
    /// If removing all of them would not free enough space, none is removed.
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
        let (limits, (held, entries)) = {
            let state = self.state();
            let parts: (Vec<Entry>, Vec<Entry>) = entries.into_iter().partition(|entry| state.is_held(&entry.id));
            (state.limits, parts)
        };
        let lacking = self.lacking(expected.on_disk);
        let sized =
            |entries: Vec<Entry>| -> Vec<Sized> { entries.into_iter().map(|entry| self.sized(entry)).collect() };
        let (held, queue) = (sized(held), Queue::of(sized(entries), limits, rank));
        match queue.to_go(&held, limits, expected.trace, lacking, rank) {
            Some(count) if count <= queue.may_go => {
                Ok(queue.all.into_iter().take(count).map(|entry| entry.id).collect())
            }
            Some(_) => Err(StoreError::Reserved(self.path().to_owned())),
            None => Err(StoreError::io(self.path())(std::io::ErrorKind::StorageFull.into())),
        }
    }

    fn sized(&self, entry: Entry) -> Sized {
        Sized { size: Size::of(&self.directory_of(&entry.id)), id: entry.id, rank: entry.rank }
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

/// An episode with the size of its files.
#[derive(Clone, Debug)]
struct Sized {
    id: String,
    rank: Rank,
    size: Size,
}

/// Programs have this part of the limits: one quarter.
const PROGRAMS_PART: u64 = 4;

impl Limits {
    /// The part of a rank that others do not displace.
    fn share(self, rank: Rank) -> Limits {
        let programs = Limits {
            bytes: self.bytes / PROGRAMS_PART,
            episodes: self.episodes / usize::try_from(PROGRAMS_PART).unwrap_or(usize::MAX),
        };
        match rank {
            Rank::Dump => Limits { bytes: 0, episodes: 0 },
            Rank::Programs => programs,
            Rank::Kernel => Limits { bytes: self.bytes - programs.bytes, episodes: self.episodes - programs.episodes },
        }
    }
}

/// The episodes that are not held, in the order in which they are removed for a new one.
struct Queue {
    all: Vec<Sized>,
    /// The number of them that may be removed for it.
    may_go: usize,
    /// The number of them before those that only others' episodes of the same rank may displace.
    before_kernel: usize,
}

impl Queue {
    /// `entries` are sorted, the oldest first.
    fn of(entries: Vec<Sized>, limits: Limits, rank: Rank) -> Queue {
        let (dumps, others): (Vec<Sized>, Vec<Sized>) = entries.into_iter().partition(|entry| entry.rank == Rank::Dump);
        let (programs, kernel) = others.into_iter().partition(|entry| entry.rank == Rank::Programs);
        let [programs, kernel] =
            [(programs, Rank::Programs), (kernel, Rank::Kernel)].map(|(all, of)| beyond(all, limits.share(of)));
        let before_kernel = dumps.len() + programs.0.len();
        let may_go = match rank {
            Rank::Dump => dumps.len(),
            Rank::Programs => before_kernel + kernel.0.len() + programs.1.len(),
            Rank::Kernel => before_kernel + kernel.0.len() + programs.1.len() + kernel.1.len(),
        };
        let last = match rank {
            Rank::Kernel => [kernel.1, programs.1],
            Rank::Dump | Rank::Programs => [programs.1, kernel.1],
        };
        let all = [dumps, programs.0, kernel.0].into_iter().chain(last).flatten().collect();
        Queue { all, may_go, before_kernel }
    }

    /// Number of episodes to remove for one of `rank`; `None` if removing all of them does not free enough space. The `held` episodes are not removed
    /// now: they are few, and are still to be explained. But they count towards the limits.
    fn to_go(&self, held: &[Sized], limits: Limits, expected: u64, lacking: u64, rank: Rank) -> Option<usize> {
        let sizes: Vec<Size> = self.all.iter().map(|entry| entry.size).collect();
        let beside = |held: &[Size]| oldest_to_go(&sizes, expected, limits.without(held), lacking);
        let all = beside(&held.iter().map(|entry| entry.size).collect::<Vec<_>>())?;
        if rank != Rank::Kernel {
            return Some(all);
        }
        // Any user can cause episodes of programs: held ones do not displace those of kernel threads.
        let of_kernel = held.iter().filter(|entry| entry.rank == Rank::Kernel);
        let needed = beside(&of_kernel.map(|entry| entry.size).collect::<Vec<_>>())?;
        Some(all.min(needed.max(self.before_kernel)))
    }
}

/// Divides episodes into those beyond a share and the newest ones within it, both with the oldest first.
fn beyond(mut entries: Vec<Sized>, share: Limits) -> (Vec<Sized>, Vec<Sized>) {
    let mut left = share;
    let fits = |entry: &&Sized| {
        let fits = left.episodes > 0 && left.bytes >= entry.size.bytes;
        if fits {
            left = Limits { bytes: left.bytes - entry.size.bytes, episodes: left.episodes - 1 };
        }
        fits
    };
    let within = entries.iter().rev().take_while(fits).count();
    let rest = entries.split_off(entries.len() - within);
    (entries, rest)
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

    /// Episodes with a letter for each: a dump, of programs, of kernel threads; each of ten bytes, the oldest first.
    fn entries(letters: &str) -> Vec<Sized> {
        let rank = |letter| match letter {
            'd' => Rank::Dump,
            'p' => Rank::Programs,
            _ => Rank::Kernel,
        };
        let size = Size { bytes: 10, on_disk: 10 };
        let sized = |(at, letter)| Sized { id: format!("{letter}{at}"), rank: rank(letter), size };
        letters.chars().enumerate().map(sized).collect()
    }

    /// Each kind of new trace beside each mix of what a full store of eight has: programs have two of them, kernel threads six.
    #[test]
    fn what_goes_for_whom_is_decided_by_the_table() {
        let limits = Limits { bytes: 1000, episodes: 8 };
        let goes = |kept: &str, rank: Rank| {
            let queue = Queue::of(entries(kept), limits, rank);
            let count = queue.to_go(&[], limits, 10, 0, rank).expect("there is room");
            match count <= queue.may_go {
                true => queue.all.iter().take(count).map(|entry| entry.id.as_str()).collect::<Vec<_>>().join(" "),
                false => "refused".to_owned(),
            }
        };
        for (kept, dump, programs, kernel) in [
            // A dump takes the place of a dump, and of nothing else; all others take it first.
            ("kkkkppd", "", "", ""),
            ("kkkkpppd", "d7", "d7", "d7"),
            ("kkkkpppp", "refused", "p4", "p4"),
            ("kkkkkkkk", "refused", "k0", "k0"),
            ("pppppppp", "refused", "p0", "p0"),
            // Programs get their share of what kernel threads have filled, one after the other.
            ("kkkkkkkp", "refused", "k0", "k0"),
            ("kkkkkkpp", "refused", "p6", "k0"),
            // Kernel threads leave programs their share.
            ("pkkkkkpp", "refused", "p0", "p0"),
            ("ppkkkkkk", "refused", "p0", "k2"),
        ] {
            let found = [Rank::Dump, Rank::Programs, Rank::Kernel].map(|rank| goes(kept, rank));
            assert_eq!(found, [dump, programs, kernel], "{kept}");
        }
    }

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
