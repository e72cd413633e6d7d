//! Access to tracefs.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

use crate::RecordError;

/// An accessible tracefs.
pub(crate) struct TraceFs {
    directory: PathBuf,
    /// Our own mount, if there is one; unmounted when this is dropped.
    _mount: Option<OwnedFd>,
}

impl TraceFs {
    /// Uses tracefs where it is mounted. Otherwise mounts it for this process alone: a mount that is not attached to
    /// any directory is invisible to other processes and ends with its file descriptor, even after SIGKILL.
    pub(crate) fn open() -> Result<TraceFs, RecordError> {
        if let Some(directory) = mounted() {
            return TraceFs { directory, _mount: None }.checked();
        }
        let mount = detached_mount().map_err(|errno| match errno {
            Errno::NODEV => RecordError::NoTracefs,
            Errno::PERM | Errno::ACCESS => denied(),
            errno => RecordError::Tracefs { path: "mount".into(), source: errno.into() },
        })?;
        TraceFs { directory: format!("/proc/self/fd/{}", mount.as_raw_fd()).into(), _mount: Some(mount) }.checked()
    }

    fn checked(self) -> Result<TraceFs, RecordError> {
        match File::open(self.path("trace_clock")) {
            Ok(_) => Ok(self),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Err(denied()),
            Err(error) => Err(RecordError::Tracefs { path: "trace_clock".into(), source: error }),
        }
    }

    /// Whether any event is enabled, in the top-level buffer or in an instance.
    pub(crate) fn anybody_traces(&self) -> bool {
        let instances = fs::read_dir(self.path("instances")).into_iter().flatten().flatten();
        let events = instances.map(|instance| instance.path().join("events/enable"));
        // `0`: none, `1`: all, `X`: some.
        let enabled = |path: PathBuf| fs::read_to_string(path).is_ok_and(|state| state.trim() != "0");
        events.chain([self.path("events/enable")]).any(enabled)
    }

    pub(crate) fn path(&self, relative: &str) -> PathBuf {
        self.directory.join(relative)
    }
}

/// Where tracefs is mounted: its own mount point, or below debugfs (as before 4.1, and still usual).
fn mounted() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    mounts.lines().find_map(|line| {
        let mut words = line.split(' ').skip(1);
        let target = words.next()?;
        (words.next()? == "tracefs" && !target.contains('\\')).then(|| PathBuf::from(target))
    })
}

fn detached_mount() -> rustix::io::Result<OwnedFd> {
    let context = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&context)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)
}

/// Which of the two reasons "permission denied" has.
fn denied() -> RecordError {
    let lockdown = fs::read_to_string("/sys/kernel/security/lockdown").unwrap_or_default();
    if lockdown.contains("[confidentiality]") { RecordError::LockedDown } else { RecordError::NotRoot }
}

/// Writes to a control file. Never truncates, which some control files treat as a command.
pub(crate) fn control(path: &Path, value: &str) -> io::Result<()> {
    OpenOptions::new().write(true).open(path)?.write_all(value.as_bytes())
}
