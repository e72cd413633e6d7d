//! A task's scheduling attributes as sched_getattr(2) has them: the one call of it.

use std::io;

use unstarve_model::Tid;

/// `struct sched_attr` of `include/uapi/linux/sched/types.h`, as of 5.3 (with utilisation clamps). Older kernels leave the end at 0.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct SchedAttr {
    /// Of this structure; the kernel's answer has what it filled.
    pub size: u32,
    /// `SCHED_*`.
    pub policy: u32,
    /// `SCHED_FLAG_*`.
    pub flags: u64,
    /// Not of real-time tasks.
    pub nice: i32,
    /// Of FIFO and RR.
    pub priority: u32,
    /// In ns; of fair tasks the slice.
    pub runtime: u64,
    /// In ns.
    pub deadline: u64,
    /// In ns.
    pub period: u64,
    /// Of 1024.
    pub util_min: u32,
    /// Of 1024.
    pub util_max: u32,
}

impl SchedAttr {
    /// `SCHED_FLAG_RESET_ON_FORK`.
    pub const RESET_ON_FORK: u64 = 0x01;

    /// Those of a task; of the calling thread for 0.
    ///
    /// # Errors
    /// If there is no such task, or the kernel refuses.
    pub fn of(tid: Tid) -> io::Result<SchedAttr> {
        let mut attr = SchedAttr::default();
        let size = size_of::<SchedAttr>() as libc::c_ulong;
        // A tid is at most 2^22 (PID_MAX_LIMIT); one that is no pid_t names no task, and −1 gives EINVAL.
        let tid = libc::pid_t::try_from(tid.0).unwrap_or(-1);
        // SAFETY: the kernel writes at most `size` bytes into `attr`, all of whose bit patterns are valid.
        match unsafe { libc::syscall(libc::SYS_sched_getattr, tid, &raw mut attr, size, 0) } {
            0 => Ok(attr),
            _ => Err(io::Error::last_os_error()),
        }
    }
}
