//! Why a path is not trusted: checks owner and mode of its components, and says what to do.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, PROC_SUPER_MAGIC, Stat, fstatfs};
use rustix::io::Errno;

/// As in the kernel (`MAXSYMLINKS`).
pub(crate) const MAX_SYMLINKS: usize = 40;

/// A path that cannot be used, or not be trusted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrustError {
    /// A system call failed.
    #[error("{}", path.display())]
    Io {
        /// The component.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Another user could have written it.
    #[error("{}: not trusted: {why}{}", path.display(), why.advice(path))]
    Untrusted {
        /// The component at fault.
        path: PathBuf,
        /// Why.
        why: Distrust,
    },
    /// Larger than any file expected there.
    #[error("{}: more than {limit} bytes; expected a smaller file", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The limit.
        limit: u64,
    },
}

/// Why another user could have written a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Distrust {
    /// It belongs to another user.
    #[error("it belongs to user {owner}; expected root{}",
        if *us == 0 { String::new() } else { format!(" or user {us}") })]
    Owner {
        /// Its owner.
        owner: u32,
        /// The user of this process.
        us: u32,
    },
    /// Group or others may write it.
    #[error("mode {mode:04o} lets {} write it", writers(*mode))]
    Writable {
        /// Its permissions.
        mode: u32,
    },
    /// A directory like `/tmp`, where others can create files.
    #[error("other users can create files in it. Use a directory that only root or you can write")]
    Shared,
    /// Neither a file nor a directory.
    #[error("it is not a regular file")]
    NoFile,
    /// It is not executable.
    #[error("mode {mode:04o} does not let anyone execute it")]
    NoProgram {
        /// Its permissions.
        mode: u32,
    },
    /// Too many symbolic links in a row.
    #[error("more than {MAX_SYMLINKS} symbolic links")]
    Links,
    /// A link of ours or root's, in a directory whose owner can have put it there.
    #[error("the symbolic link is in a directory that other users can write; name its target")]
    PlantedLink,
    /// A magic link of procfs, which does not lead where its text says.
    #[error("it is a procfs link to an open file of a process; name the file itself")]
    MagicLink,
    /// The file has several hard links.
    #[error("it has {0} hard links; expected 1. Copy it")]
    Names(u64),
    /// The name now belongs to another file.
    #[error("it has been replaced by another file")]
    Swapped,
    /// A user may have mounted it.
    #[error(
        "it is a FUSE mount in a directory that others can write: the user who mounted it decides what it contains"
    )]
    UserMount,
}

impl Distrust {
    /// What to do about it. Never suggests to take a directory away from its owner.
    fn advice(self, path: &Path) -> String {
        match self {
            Distrust::Owner { us: 0, .. } => {
                ". Keep the file in a directory that only root can write, such as /etc/unstarve".to_owned()
            }
            Distrust::Owner { .. } => ". Keep the file in a directory that only you or root can write".to_owned(),
            Distrust::Writable { mode } => {
                let who = match (mode & 0o020 != 0, mode & 0o002 != 0) {
                    (true, false) => "g-w",
                    (false, true) => "o-w",
                    _ => "go-w",
                };
                format!(". Run: chmod {who} {}", for_a_shell(path))
            }
            _ => String::new(),
        }
    }
}

fn writers(mode: u32) -> &'static str {
    match (mode & 0o020 != 0, mode & 0o002 != 0) {
        (true, false) => "its group",
        (false, true) => "others",
        _ => "its group and others",
    }
}

/// A path quoted as one word for a shell, and never taken for an option.
#[must_use]
pub fn for_a_shell(path: &Path) -> String {
    let text = path.display().to_string();
    // Such a name cannot be shown as it is, nor typed.
    if text.chars().any(char::is_control) || path.to_str().is_none() {
        return "FILE".to_owned();
    }
    let text = if text.starts_with('-') { format!("./{text}") } else { text };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@:,".contains(c);
    if text.chars().all(is_plain) { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

impl TrustError {
    pub(super) fn io(path: &Path) -> impl FnOnce(Errno) -> TrustError {
        move |errno| TrustError::Io { path: path.to_owned(), source: errno.into() }
    }

    /// Whether the path does not exist.
    pub fn is_absent(&self) -> bool {
        matches!(self, TrustError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

pub(super) fn us() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Why a symbolic link must not be followed: it belongs to another user, or another user can have put it there.
pub(crate) fn distrust_link(directory: &Stat, link: &Stat) -> Option<Distrust> {
    let us = us();
    if link.st_uid != 0 && link.st_uid != us {
        return Some(Distrust::Owner { owner: link.st_uid, us });
    }
    match distrust(directory) {
        Some(_) => Some(Distrust::PlantedLink),
        // In a sticky directory nobody else can move it, but without fs.protected_hardlinks anybody can make a hard
        // link to it.
        None if directory.st_mode & 0o022 != 0 && link.st_nlink > 1 => Some(Distrust::PlantedLink),
        None => None,
    }
}

/// The type of FUSE in statfs(2) (FUSE_SUPER_MAGIC in include/uapi/linux/magic.h).
const FUSE_MAGIC: u64 = 0x6573_5546;

/// Whether `below` is a mount that a user may have made, so that its owners cannot be trusted.
pub(super) fn is_user_mount(directory: &Stat, below: &Stat, opened: &OwnedFd) -> bool {
    directory.st_mode & 0o022 != 0 && directory.st_dev != below.st_dev && is_on_fuse(opened)
}

/// Whether a directory is on FUSE, whose server may belong to any user and report any owners. Root follows no links
/// there.
pub(crate) fn is_on_fuse(directory: impl AsFd) -> bool {
    fstatfs(directory).is_ok_and(|fs| fs.f_type as u64 & 0xffff_ffff == FUSE_MAGIC)
}

/// Whether a link with this text, in this directory, is a magic link to what a process has open.
pub(super) fn is_magic(directory: &impl AsFd, to: &Path) -> bool {
    // Ordinary links of procfs (self, thread-self, mounts, net) are relative.
    let plain = to.is_relative() && !to.as_os_str().as_bytes().contains(&b':');
    !plain && fstatfs(directory).is_ok_and(|fs| fs.f_type == PROC_SUPER_MAGIC)
}

/// Why others can have written it; for a directory, why others can change its content. `None` if they cannot.
pub(super) fn distrust(stat: &Stat) -> Option<Distrust> {
    let us = us();
    if stat.st_uid != 0 && stat.st_uid != us {
        return Some(Distrust::Owner { owner: stat.st_uid, us });
    }
    let mode = stat.st_mode & 0o7777;
    let is_sticky_directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory && mode & 0o1000 != 0;
    (mode & 0o022 != 0 && !is_sticky_directory).then_some(Distrust::Writable { mode })
}
