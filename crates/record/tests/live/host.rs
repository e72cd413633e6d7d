//! The machine: what the tests need from it, and what a recorder might have left on it.

use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MountPropagationFlags, UnmountFlags, fsconfig_create,
    fsmount, fsopen, mount, mount_change, unmount,
};
use rustix::thread::UnshareFlags;

static TRACEFS: OnceLock<OwnedFd> = OnceLock::new();

/// Moves this process to its own mount namespace without any tracefs; returns what is missing if that fails.
pub fn prepare() -> Result<(), String> {
    if !rustix::process::geteuid().is_root() {
        return Err("not root".to_owned());
    }
    let tracefs = tracefs().map_err(|errno| format!("no tracefs: {errno}"))?;
    TRACEFS.set(tracefs).map_err(|_| "prepared twice".to_owned())?;
    fs::read_dir(instances()).map_err(|error| format!("no tracefs instances: {error}"))?;
    // SAFETY: there is only one thread so far, and unsharing mounts closes no file descriptor.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS) }
        .map_err(|errno| format!("no mount namespace: {errno}"))?;
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .map_err(|errno| format!("no private mounts: {errno}"))?;
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    for line in mounts.lines().filter(|line| line.split(' ').nth(2) == Some("tracefs")) {
        let _ = unmount(line.split(' ').nth(1).unwrap_or_default(), UnmountFlags::DETACH);
    }
    Ok(())
}

fn tracefs() -> rustix::io::Result<OwnedFd> {
    let context = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&context)?;
    fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())
}

fn instances() -> PathBuf {
    let descriptor = TRACEFS.get().expect("prepared").as_raw_fd();
    format!("/proc/self/fd/{descriptor}/instances").into()
}

/// The instances of the recorder with this pid.
pub fn instances_of(pid: u32) -> Vec<String> {
    let prefix = format!("unstarve-{pid}");
    let entries = fs::read_dir(instances()).expect("instances");
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| *name == prefix || name.starts_with(&format!("{prefix}-"))).collect()
}

/// For each instance of the recorder with this pid, whether events are enabled: `0` is none.
pub fn enabled_of(pid: u32) -> Vec<String> {
    let state = |name: &String| fs::read_to_string(instances().join(name).join("events/enable")).ok();
    instances_of(pid).iter().filter_map(state).map(|state| state.trim_end().to_owned()).collect()
}

/// Children of a process with this name.
pub fn children_of(pid: u32, name: &str) -> Vec<rustix::process::Pid> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let of_thread = |thread: fs::DirEntry| fs::read_to_string(thread.path().join("children")).ok();
    let children: String = threads.filter_map(of_thread).collect();
    let is_called =
        |child: &&str| fs::read_to_string(format!("/proc/{child}/comm")).is_ok_and(|comm| comm.trim_end() == name);
    let pids = children.split_whitespace().filter(is_called).filter_map(|child| child.parse().ok());
    pids.filter_map(rustix::process::Pid::from_raw).collect()
}

/// Whether that recorder is recording. A new instance is on, but has no events enabled.
pub fn is_recording(pid: u32) -> bool {
    let is_on = |path: PathBuf| fs::read_to_string(path).is_ok_and(|state| state.trim_end() == "1");
    let records = |name: &String| {
        let instance = instances().join(name);
        is_on(instance.join("events/sched/sched_switch/enable")) && is_on(instance.join("tracing_on"))
    };
    instances_of(pid).iter().any(records)
}

/// All names in a directory, including hidden ones.
pub fn names_in(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("a directory");
    let mut names: Vec<_> = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// A small file system, unmounted on drop, and in any case when this process ends.
pub struct TinyDisk(pub PathBuf);

impl TinyDisk {
    pub fn on(directory: &Path, size: &std::ffi::CStr) -> TinyDisk {
        mount("tiny", directory, "tmpfs", MountFlags::empty(), Some(size)).expect("a tmpfs");
        TinyDisk(directory.to_owned())
    }
}

impl Drop for TinyDisk {
    fn drop(&mut self) {
        let _ = unmount(&self.0, UnmountFlags::DETACH);
    }
}

/// tracefs mounted on a directory, unmounted in the same way.
pub struct MountedTracefs(PathBuf);

impl MountedTracefs {
    pub fn on(directory: &Path) -> MountedTracefs {
        mount("tracefs", directory, "tracefs", MountFlags::empty(), None).expect("tracefs");
        MountedTracefs(directory.to_owned())
    }
}

impl Drop for MountedTracefs {
    fn drop(&mut self) {
        let _ = unmount(&self.0, UnmountFlags::DETACH);
    }
}
