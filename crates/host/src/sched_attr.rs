//! A task's scheduling attributes (sched_getattr(2)).

use std::io;

use unstarve_model::Tid;

/// `struct sched_attr` of `include/uapi/linux/sched/types.h`, as of 5.3 (with utilization clamps). Older kernels leave
/// the end at 0.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct SchedAttr {
    /// Size of this structure; in the kernel's answer, of the part it filled.
    pub size: u32,
    /// `SCHED_*`.
    pub policy: u32,
    /// `SCHED_FLAG_*`.
    pub flags: u64,
    /// For fair tasks.
    pub nice: i32,
    /// Real-time priority, for FIFO and RR.
    pub priority: u32,
    /// In ns; for fair tasks the slice.
    pub runtime: u64,
    /// In ns.
    pub deadline: u64,
    /// In ns.
    pub period: u64,
    /// Out of 1024.
    pub util_min: u32,
    /// Out of 1024.
    pub util_max: u32,
}

impl SchedAttr {
    /// `SCHED_FLAG_RESET_ON_FORK`.
    pub const RESET_ON_FORK: u64 = 0x01;

    /// The attributes of a task; of the calling thread for 0.
    ///
    /// # Errors If there is no such task, or the kernel refuses.
    pub fn of(tid: Tid) -> io::Result<SchedAttr> {
        let mut attr = SchedAttr::default();
        let size = size_of::<SchedAttr>() as libc::c_ulong;
        // A tid is at most 2^22 (PID_MAX_LIMIT). One that does not fit into pid_t is no task, and −1 gives EINVAL.
        let tid = libc::pid_t::try_from(tid.0).unwrap_or(-1);
        // SAFETY: the kernel writes at most `size` bytes into `attr`, all of whose bit patterns are valid.
        match unsafe { libc::syscall(libc::SYS_sched_getattr, tid, &raw mut attr, size, 0) } {
            0 => Ok(attr),
            _ => Err(io::Error::last_os_error()),
        }
    }
}
