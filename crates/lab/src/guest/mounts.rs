//! The guest's mounts, and its loopback device.

use std::ffi::CStr;
use std::fs;
use std::io;
use std::os::fd::AsRawFd;

use rustix::mount::{MountFlags, mount};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use super::{GuestError, write};

/// The source is the type; the last field says whether it is required: most scenarios run without some of them.
const GUEST_MOUNTS: [(&str, &str, &CStr, bool); 10] = [
    ("proc", "/proc", c"", true),
    ("sysfs", "/sys", c"", true),
    ("devtmpfs", "/dev", c"", true),
    ("tmpfs", "/dev/shm", c"", true),
    // Mode 755 as on a host: the guard keeps no journal where others can create files.
    ("tmpfs", "/run", c"size=75%,mode=755", true),
    ("tmpfs", "/tmp", c"", true),
    ("cgroup2", "/sys/fs/cgroup", c"", true),
    ("debugfs", "/sys/kernel/debug", c"", false),
    ("tracefs", "/sys/kernel/tracing", c"", true),
    ("configfs", "/sys/kernel/config", c"", false),
];

pub(super) fn mount_all() -> Result<(), GuestError> {
    for (kind, at, options, needed) in GUEST_MOUNTS {
        if let Err(error) = mount_one(kind, at, options)
            && needed
        {
            return Err(GuestError(format!("cannot mount {kind} on {at}: {error}")));
        }
    }
    // Group weights have an effect only if the parent delegates the controller.
    write("/sys/fs/cgroup/cgroup.subtree_control", "+cpu")
}

fn mount_one(kind: &str, at: &str, options: &CStr) -> io::Result<()> {
    if at.starts_with("/dev/") {
        fs::create_dir_all(at)?;
    }
    mount(kind, at, kind, MountFlags::empty(), options)?;
    Ok(())
}

/// `configfs` may be a module, which is loaded after the first mounts.
pub(super) fn mount_configfs() -> Result<(), GuestError> {
    let at = "/sys/kernel/config";
    match mount_one("configfs", at, c"") {
        Err(error) if error.raw_os_error() != Some(libc::EBUSY) => {
            Err(GuestError(format!("cannot mount configfs on {at}: {error}")))
        }
        _ => Ok(()),
    }
}

/// Sets the loopback device up.
pub(super) fn loopback_up() -> Result<(), GuestError> {
    set_up(b"lo\0").map_err(GuestError::doing("cannot bring the loopback device up"))
}

fn set_up(name: &[u8]) -> io::Result<()> {
    // SAFETY: all zeros is a valid ifreq: it holds integers and a union of plain data.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, &from) in request.ifr_name.iter_mut().zip(name) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    // SAFETY: the request lives across the call and is what SIOCSIFFLAGS reads.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &request) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
