//! The kernel's record of inheritance, maintained by BPF programs at each fork: complete also for tasks that no process has
//! seen yet.

#[cfg(feature = "bpf")]
use std::ffi::CString;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use unstarve_files::trust::Directory;

use unstarve_model::Tid;

/// The map of managed tasks and the links that maintain it: while any process has these open, forks are recorded.
#[derive(Debug)]
pub struct Registry {
    kept: OwnedFd,
    /// Links of the BPF programs. The last process to close them waits for the kernel, a quarter of a second in all. A dead-man
    /// process that also has them open notices the guard's death without that delay.
    links: Vec<OwnedFd>,
}

/// Where it is pinned: the mount point of the BPF file system on every host with systemd, and a directory in it.
const PINS_ROOT: &str = "/sys/fs/bpf";
/// As above.
const PINS: &str = "/sys/fs/bpf/unstarve";
/// The map, and the first links: the programs that record forks and exits.
const NAMES: [&str; 3] = ["kept", "born", "ended"];
/// `BPF_FS_MAGIC`, include/uapi/linux/magic.h.
const BPF_FS_MAGIC: u64 = 0xcafe_4a11;

/// More steps than the map has entries, because it changes while it is read.
#[cfg(feature = "bpf")]
const MAX_MAP_STEPS: usize = 4 * 65_536;

/// A managed task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kept {
    /// The task.
    pub tid: Tid,
    /// The changed task that it inherited from: itself, or a task that may have exited.
    pub from: Tid,
}

impl Registry {
    /// Wraps these descriptors.
    pub fn new(kept: OwnedFd, links: Vec<OwnedFd>) -> Registry {
        Registry { kept, links }
    }

    /// The map, then the links.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        std::iter::once(self.kept.as_fd()).chain(self.links.iter().map(AsFd::as_fd))
    }

    /// Duplicates the descriptors.
    ///
    /// # Errors
    /// If too many files are open.
    pub fn share(&self) -> io::Result<Registry> {
        let links = self.links.iter().map(OwnedFd::try_clone).collect::<io::Result<_>>()?;
        Ok(Registry { kept: self.kept.try_clone()?, links })
    }

    /// Whether it can be pinned on this host.
    ///
    /// # Errors
    /// If there is no BPF file system at its usual place.
    pub fn has_a_place() -> io::Result<()> {
        match rustix::fs::statfs(PINS_ROOT)?.f_type as u64 == BPF_FS_MAGIC {
            true => Ok(()),
            false => Err(io::Error::new(io::ErrorKind::NotFound, format!("no BPF file system at {PINS_ROOT}"))),
        }
    }

    /// Pins it, so that `guard undo` finds inherited values even if guard and dead-man process were killed. Replaces an earlier
    /// one.
    ///
    /// # Errors
    /// If there is no BPF file system at its usual place, or it is not trusted.
    #[cfg(feature = "bpf")]
    pub fn pin(&self) -> io::Result<()> {
        use std::os::fd::AsRawFd;
        Registry::has_a_place()?;
        Directory::make(Path::new(PINS)).map_err(io::Error::other)?;
        Registry::unpin();
        for (name, descriptor) in NAMES.iter().zip(self.descriptors()) {
            let path = CString::new(format!("{PINS}/{name}"))?;
            // SAFETY: the path is NUL-terminated, and the descriptor is open.
            if unsafe { libbpf_sys::bpf_obj_pin(descriptor.as_raw_fd(), path.as_ptr()) } != 0 {
                let error = io::Error::last_os_error();
                Registry::unpin();
                return Err(error);
            }
        }
        Ok(())
    }

    /// Without eBPF: fails as without a BPF file system.
    ///
    /// # Errors
    /// Always.
    #[cfg(not(feature = "bpf"))]
    pub fn pin(&self) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Records the children of one more task.
    ///
    /// # Errors
    /// If the map is full.
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

    /// Without eBPF.
    ///
    /// # Errors
    /// Always.
    #[cfg(not(feature = "bpf"))]
    pub fn follow(&self, _tid: Tid) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// The registry that an earlier guard or `apply` pinned, if any.
    pub fn pinned() -> Option<Registry> {
        #[cfg(feature = "bpf")]
        {
            use std::os::fd::FromRawFd;
            Directory::open(Path::new(PINS)).ok()?;
            let open = |name: &str| {
                let path = CString::new(format!("{PINS}/{name}")).ok()?;
                // SAFETY: the path is NUL-terminated.
                let descriptor = unsafe { libbpf_sys::bpf_obj_get(path.as_ptr()) };
                // SAFETY: it was just opened, and nothing else owns it.
                (descriptor >= 0).then(|| unsafe { OwnedFd::from_raw_fd(descriptor) })
            };
            // A partly pinned registry records nothing.
            let kept = open(NAMES[0])?;
            Some(Registry { kept, links: NAMES[1..].iter().map(|name| open(name)).collect::<Option<_>>()? })
        }
        #[cfg(not(feature = "bpf"))]
        None
    }

    /// Nothing is left to revert, so forks need no longer be recorded.
    pub fn unpin() {
        // Opened as a directory that only root owns: if all users can write /sys/fs/bpf, this name may be a symbolic link.
        let Ok(directory) = Directory::open(Path::new(PINS)) else { return };
        for name in NAMES {
            let _ = directory.remove(OsStr::new(name));
        }
    }

    /// Stops recording the children of a task.
    #[cfg(feature = "bpf")]
    pub fn forget(&self, tid: Tid) {
        use std::os::fd::AsRawFd;
        // SAFETY: keys of the map are 4 bytes, and so is this.
        unsafe { libbpf_sys::bpf_map_delete_elem(self.kept.as_raw_fd(), (&raw const tid.0).cast()) };
    }

    /// Without eBPF.
    #[cfg(not(feature = "bpf"))]
    pub fn forget(&self, _tid: Tid) {}

    /// Removes exited tasks. The kernel does so at their exit, but not for a task that was added after it.
    #[cfg(feature = "bpf")]
    pub fn forget_ended(&self) {
        use std::os::fd::AsRawFd;
        for kept in self.tasks().into_iter().filter(|kept| crate::proc::start_of(kept.tid).is_none()) {
            // SAFETY: keys of the map are 4 bytes, and so is this.
            unsafe { libbpf_sys::bpf_map_delete_elem(self.kept.as_raw_fd(), (&raw const kept.tid.0).cast()) };
        }
    }

    /// Without eBPF.
    #[cfg(not(feature = "bpf"))]
    pub fn forget_ended(&self) {}

    /// The changed task that this one inherited from, if it is recorded.
    #[cfg(feature = "bpf")]
    pub fn origin(&self, tid: Tid) -> Option<Tid> {
        use std::os::fd::AsRawFd;
        let mut from = 0_u32;
        let (map, key, value) = (self.kept.as_raw_fd(), &raw const tid.0, &raw mut from);
        // SAFETY: keys and values of the map are 4 bytes, and so are these.
        let is_there = unsafe { libbpf_sys::bpf_map_lookup_elem(map, key.cast(), value.cast()) } == 0;
        is_there.then_some(Tid(from))
    }

    /// Without eBPF.
    #[cfg(not(feature = "bpf"))]
    pub fn origin(&self, _tid: Tid) -> Option<Tid> {
        None
    }

    /// All recorded tasks.
    #[cfg(feature = "bpf")]
    pub fn tasks(&self) -> Vec<Kept> {
        use std::os::fd::AsRawFd;
        let map = self.kept.as_raw_fd();
        let mut found = Vec::new();
        let (mut tid, mut from) = (0_u32, 0_u32);
        let mut before: *const u32 = std::ptr::null();
        // After a concurrent removal the kernel starts from the beginning again, and added entries may be returned several
        // times.
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

    /// Without eBPF.
    #[cfg(not(feature = "bpf"))]
    pub fn tasks(&self) -> Vec<Kept> {
        Vec::new()
    }
}
