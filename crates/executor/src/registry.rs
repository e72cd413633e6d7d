//! Who has inherited from whom, noted in the kernel at each birth: complete also for what nobody has heard of yet.

#[cfg(feature = "bpf")]
use std::ffi::CString;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use unstarve_files::trust::Directory;

use unstarve_model::Tid;

/// The map of tasks in the guard's care, and what keeps it up to date: as long as somebody has these open, births are noted.
#[derive(Debug)]
pub struct Registry {
    kept: OwnedFd,
    /// The programs' links. Beside keeping them alive: the last one to close them waits for the kernel, a quarter of a
    /// second for all; a dead-man that has them, too, hears at once that the guard is dead.
    links: Vec<OwnedFd>,
}

/// Where it outlives us: the place of the BPF file system on every host with systemd, and a directory of ours in it.
const PINS_ROOT: &str = "/sys/fs/bpf";
/// As above.
const PINS: &str = "/sys/fs/bpf/unstarve";
/// The map, and the first links: what notes births and ends.
const NAMES: [&str; 3] = ["kept", "born", "ended"];
/// `BPF_FS_MAGIC`, include/uapi/linux/magic.h.
const BPF_FS_MAGIC: u64 = 0xcafe_4a11;

/// More steps through the map than it has places: it changes while it is read.
#[cfg(feature = "bpf")]
const MAX_MAP_STEPS: usize = 4 * 65_536;

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

    /// Whether this host has a place where it can outlive all processes.
    ///
    /// # Errors
    /// If there is no BPF file system where it always is.
    pub fn has_a_place() -> io::Result<()> {
        match rustix::fs::statfs(PINS_ROOT)?.f_type as u64 == BPF_FS_MAGIC {
            true => Ok(()),
            false => Err(io::Error::new(io::ErrorKind::NotFound, format!("no BPF file system at {PINS_ROOT}"))),
        }
    }

    /// Makes it outlive all processes, so that `guard undo` finds who has inherited from whom though guard and dead-man were
    /// killed. Replaces an earlier one.
    ///
    /// # Errors
    /// If there is no BPF file system where it always is, or it cannot be trusted.
    #[cfg(feature = "bpf")]
    pub fn pin(&self) -> io::Result<()> {
        use std::os::fd::AsRawFd;
        Registry::has_a_place()?;
        Directory::make(Path::new(PINS)).map_err(io::Error::other)?;
        Registry::unpin();
        for (name, descriptor) in NAMES.iter().zip(self.descriptors()) {
            let path = CString::new(format!("{PINS}/{name}"))?;
            // SAFETY: the path is a string with an end, and the descriptor is open.
            if unsafe { libbpf_sys::bpf_obj_pin(descriptor.as_raw_fd(), path.as_ptr()) } != 0 {
                let error = io::Error::last_os_error();
                Registry::unpin();
                return Err(error);
            }
        }
        Ok(())
    }

    /// As where there is no BPF file system.
    ///
    /// # Errors
    /// Always.
    #[cfg(not(feature = "bpf"))]
    pub fn pin(&self) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Notes the children of one more task.
    ///
    /// # Errors
    /// If there are too many.
    #[cfg(feature = "bpf")]
    pub fn follow(&self, tid: Tid) -> io::Result<()> {
        use std::os::fd::AsRawFd;
        let (map, tid) = (self.kept.as_raw_fd(), &raw const tid.0);
        // SAFETY: keys and values of the map are 4 bytes, and so is this; 0 is BPF_ANY.
        match unsafe { libbpf_sys::bpf_map_update_elem(map, tid.cast(), tid.cast(), 0) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// As without eBPF.
    ///
    /// # Errors
    /// Always.
    #[cfg(not(feature = "bpf"))]
    pub fn follow(&self, _tid: Tid) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// What an earlier guard or `apply` has pinned, if it did.
    pub fn pinned() -> Option<Registry> {
        #[cfg(feature = "bpf")]
        {
            use std::os::fd::FromRawFd;
            Directory::open(Path::new(PINS)).ok()?;
            let open = |name: &str| {
                let path = CString::new(format!("{PINS}/{name}")).ok()?;
                // SAFETY: the path is a string with an end.
                let descriptor = unsafe { libbpf_sys::bpf_obj_get(path.as_ptr()) };
                // SAFETY: it was just opened, and nobody else has it.
                (descriptor >= 0).then(|| unsafe { OwnedFd::from_raw_fd(descriptor) })
            };
            // One that was pinned in part notes nothing.
            let kept = open(NAMES[0])?;
            Some(Registry { kept, links: NAMES[1..].iter().map(|name| open(name)).collect::<Option<_>>()? })
        }
        #[cfg(not(feature = "bpf"))]
        None
    }

    /// Nothing is left to be taken back: births are of no interest any more.
    pub fn unpin() {
        // By a directory that is root's alone: where /sys/fs/bpf is everybody's, so may be a link of this name.
        let Ok(directory) = Directory::open(Path::new(PINS)) else { return };
        for name in NAMES {
            let _ = directory.remove(OsStr::new(name));
        }
    }

    /// Notes the children of a task no more.
    #[cfg(feature = "bpf")]
    pub fn forget(&self, tid: Tid) {
        use std::os::fd::AsRawFd;
        // SAFETY: keys of the map are 4 bytes, and so is this.
        unsafe { libbpf_sys::bpf_map_delete_elem(self.kept.as_raw_fd(), (&raw const tid.0).cast()) };
    }

    /// As without eBPF.
    #[cfg(not(feature = "bpf"))]
    pub fn forget(&self, _tid: Tid) {}

    /// Forgets tasks that have ended. The kernel does that itself, but not for one that was added after its end.
    #[cfg(feature = "bpf")]
    pub fn forget_ended(&self) {
        use std::os::fd::AsRawFd;
        for kept in self.tasks().into_iter().filter(|kept| crate::proc::start_of(kept.tid).is_none()) {
            // SAFETY: keys of the map are 4 bytes, and so is this.
            unsafe { libbpf_sys::bpf_map_delete_elem(self.kept.as_raw_fd(), (&raw const kept.tid.0).cast()) };
        }
    }

    /// As without eBPF.
    #[cfg(not(feature = "bpf"))]
    pub fn forget_ended(&self) {}

    /// The changed task from which this one has what it has, if it is in it.
    #[cfg(feature = "bpf")]
    pub fn origin(&self, tid: Tid) -> Option<Tid> {
        use std::os::fd::AsRawFd;
        let mut from = 0_u32;
        let (map, key, value) = (self.kept.as_raw_fd(), &raw const tid.0, &raw mut from);
        // SAFETY: keys and values of the map are 4 bytes, and so are these.
        let is_there = unsafe { libbpf_sys::bpf_map_lookup_elem(map, key.cast(), value.cast()) } == 0;
        is_there.then_some(Tid(from))
    }

    /// As without eBPF.
    #[cfg(not(feature = "bpf"))]
    pub fn origin(&self, _tid: Tid) -> Option<Tid> {
        None
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
        for _ in 0..MAX_MAP_STEPS {
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
