//! Who has inherited from whom, noted in the kernel at each birth: complete also for what nobody has heard of yet.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use unstarve_model::Tid;

/// The map of tasks in the guard's care, and what keeps it up to date: as long as somebody has these open, births are noted.
#[derive(Debug)]
pub struct Registry {
    kept: OwnedFd,
    /// The programs' links. Beside keeping them alive: the last one to close them waits for the kernel, a quarter of a
    /// second for all; a dead-man that has them, too, hears at once that the guard is dead.
    links: Vec<OwnedFd>,
}

/// More steps through the map than it has places: it changes while it is read.
#[cfg(feature = "bpf")]
const MOST: usize = 4 * 131_072;

/// A task in the guard's care.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kept {
    /// The task.
    pub tid: Tid,
    /// The one that was changed, from which it has what it has; itself, or one that may have ended.
    pub from: Tid,
}

impl Registry {
    /// One over these descriptors.
    pub fn new(kept: OwnedFd, links: Vec<OwnedFd>) -> Registry {
        Registry { kept, links }
    }

    /// The map, then the links.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        std::iter::once(self.kept.as_fd()).chain(self.links.iter().map(AsFd::as_fd))
    }

    /// The same once more.
    ///
    /// # Errors
    /// If there are too many open files.
    pub fn share(&self) -> io::Result<Registry> {
        let links = self.links.iter().map(OwnedFd::try_clone).collect::<io::Result<_>>()?;
        Ok(Registry { kept: self.kept.try_clone()?, links })
    }

    /// Everybody in it now.
    #[cfg(feature = "bpf")]
    pub fn tasks(&self) -> Vec<Kept> {
        use std::os::fd::AsRawFd;
        let map = self.kept.as_raw_fd();
        let mut found = Vec::new();
        let (mut tid, mut from) = (0_u32, 0_u32);
        let mut before: *const u32 = std::ptr::null();
        // What is removed meanwhile makes the kernel begin anew, and what is added may come any number of times.
        for _ in 0..MOST {
            // SAFETY: keys and values of the map are 4 bytes, and so are these; a null key asks for the first.
            let has_next = unsafe { libbpf_sys::bpf_map_get_next_key(map, before.cast(), (&raw mut tid).cast()) } == 0;
            if !has_next {
                break;
            }
            // SAFETY: as above.
            if unsafe { libbpf_sys::bpf_map_lookup_elem(map, (&raw const tid).cast(), (&raw mut from).cast()) } == 0 {
                found.push(Kept { tid: Tid(tid), from: Tid(from) });
            }
            before = &raw const tid;
        }
        found
    }

    /// Everybody in it now.
    #[cfg(not(feature = "bpf"))]
    pub fn tasks(&self) -> Vec<Kept> {
        Vec::new()
    }
}
