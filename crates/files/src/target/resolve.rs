//! Resolves the path of a result. Opens only directories on the way, and does not let other users redirect root.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, PROC_SUPER_MAGIC, Stat, fstat, fstatfs, openat, readlinkat, stat};
use rustix::io::Errno;

use super::{Place, TargetError};
use crate::trust;

/// What a path leads to; only the directory has been opened.
pub(super) enum Spot {
    Place(Place),
    Node(Node),
}

/// Something that is written to and not replaced.
pub(super) struct Node {
    directory: OwnedFd,
    name: OsString,
    pub(super) path: PathBuf,
    pub(super) what: &'static str,
    stat: Stat,
}

const FIFO_KIND: &str = "FIFO";
const DESCRIPTOR_KIND: &str = "descriptor of a process";

impl Node {
    pub(super) fn open(&self, flags: OFlags) -> Result<File, TargetError> {
        if self.what == DESCRIPTOR_KIND {
            let own = own_descriptor(&self.directory, &self.name, flags).map_err(TargetError::io(&self.path))?;
            return own.ok_or_else(|| TargetError::NoFile { path: self.path.clone(), what: self.what });
        }
        if self.what == FIFO_KIND {
            lure(&self.path, self.stat.st_uid, FIFO_KIND)?;
        }
        write_to(&self.directory, &self.name, flags, &self.stat, &self.path)
    }
}

pub(super) fn follow(path: &Path) -> Result<Spot, TargetError> {
    if path.as_os_str().is_empty() {
        return Err(TargetError::io(path)(Errno::NOENT));
    }
    let mut at = path.to_owned();
    for _ in 0..=trust::MAX_SYMLINKS {
        let name =
            file_name(&at).ok_or_else(|| TargetError::NoFile { path: at.clone(), what: "directory" })?.to_owned();
        let above = at.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new(".")).to_owned();
        let directory = trust::directory_for_results(&above).map_err(|error| match error {
            TargetError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                TargetError::NoDirectory { path: path.to_owned(), directory: above.clone() }
            }
            other => other,
        })?;
        let place = |directory| Spot::Place(Place { directory, name: name.clone(), path: path.to_owned() });
        // Opened with O_PATH: the owner of the directory can replace it at any time.
        let there = match openat(&directory, &name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(place(directory)),
            there => there.map_err(TargetError::io(&at))?,
        };
        let stat = fstat(&there).map_err(TargetError::io(&at))?;
        let refused = |what| TargetError::NoFile { path: at.clone(), what };
        let what = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => return Ok(place(directory)),
            FileType::Directory => return Err(refused("directory")),
            FileType::Socket => return Err(refused("socket")),
            // Nobody wants a report written over a disk.
            FileType::BlockDevice => return Err(refused("block device")),
            FileType::Symlink if fstatfs(&directory).is_ok_and(|fs| fs.f_type == PROC_SUPER_MAGIC) => DESCRIPTOR_KIND,
            FileType::Symlink | FileType::Fifo
                if rustix::process::geteuid().is_root() && trust::is_on_fuse(&directory) =>
            {
                return Err(TargetError::Led { path: at, why: trust::Distrust::UserMount });
            }
            FileType::Symlink => {
                may_lead(&at, &fstat(&directory).map_err(TargetError::io(&at))?, &stat)?;
                let to = readlinkat(&there, "", Vec::new()).map_err(TargetError::io(&at))?;
                at = above.join(OsStr::from_bytes(to.as_bytes()));
                continue;
            }
            FileType::Fifo => FIFO_KIND,
            _ => "character device",
        };
        return Ok(Spot::Node(Node { directory, name, path: at, what, stat }));
    }
    Err(TargetError::io(path)(Errno::LOOP))
}

/// The last component, unless the path marks it as a directory (`a/`, `a/.`), which [`Path::file_name`] ignores.
fn file_name(path: &Path) -> Option<&OsStr> {
    let name = path.file_name()?;
    path.as_os_str().as_bytes().ends_with(name.as_bytes()).then_some(name)
}

/// A descriptor of this process, if the entry of procfs is one: `/dev/stdout`, `/dev/fd/3`. It has no path, and may be
/// a socket or a file that only the user who started this process can open.
fn own_descriptor(directory: &OwnedFd, name: &OsStr, flags: OFlags) -> Result<Option<File>, Errno> {
    let here = fstat(directory)?;
    let same = |path: &str| stat(path).is_ok_and(|own| (own.st_dev, own.st_ino) == (here.st_dev, here.st_ino));
    let number = name.to_str().and_then(|text| text.parse::<u32>().ok());
    let Some(number) = number.filter(|_| ["/proc/self/fd", "/proc/thread-self/fd"].into_iter().any(same)) else {
        return Ok(None);
    };
    let file = match number {
        1 => rustix::io::fcntl_dupfd_cloexec(io::stdout(), 3)?,
        2 => rustix::io::fcntl_dupfd_cloexec(io::stderr(), 3)?,
        // A fourth or later descriptor is a pipe from a shell's `>(…)`, and can be opened again.
        _ => openat(directory, name, flags, Mode::empty())?,
    };
    Ok(Some(File::from(file)))
}

/// Refuses components of other users if this process is root. For other users the kernel's own rules are enough.
fn lure(path: &Path, owner: u32, what: &'static str) -> Result<(), TargetError> {
    if rustix::process::geteuid().is_root() && owner != 0 {
        return Err(TargetError::Lure { path: path.to_owned(), what, owner });
    }
    Ok(())
}

/// Refuses links that other users can have created if this process is root.
fn may_lead(path: &Path, directory: &Stat, link: &Stat) -> Result<(), TargetError> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    match trust::distrust_link(directory, link) {
        Some(trust::Distrust::Owner { owner, .. }) => {
            Err(TargetError::Lure { path: path.to_owned(), what: "symbolic link", owner })
        }
        Some(why) => Err(TargetError::Led { path: path.to_owned(), why }),
        None => Ok(()),
    }
}

pub(super) const WRITE_FLAGS: OFlags =
    OFlags::WRONLY.union(OFlags::APPEND).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// Opens what was checked, and nothing that has replaced it since.
pub(super) fn write_to(
    directory: &OwnedFd,
    name: &OsStr,
    flags: OFlags,
    seen: &Stat,
    path: &Path,
) -> Result<File, TargetError> {
    let file = openat(directory, name, flags | OFlags::NOFOLLOW, Mode::empty()).map_err(TargetError::io(path))?;
    let opened = fstat(&file).map_err(TargetError::io(path))?;
    if (opened.st_dev, opened.st_ino) != (seen.st_dev, seen.st_ino) {
        return Err(TargetError::io(path)(Errno::STALE));
    }
    Ok(File::from(file))
}
