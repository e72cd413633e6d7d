//! Opening what is to be believed: policies, journals, locks.
//!
//! The rule is that of sudo and cron, for each component: it belongs to root or to the user that this process is, and neither its
//! group nor others can write it. A directory that others can write is passed only if it is sticky (`/tmp`), and then only
//! into something that is ours or root's, because nobody else can rename or remove that.
//!
//! Symbolic links are followed one component at a time, and only where the link itself is ours or root's and nobody else can have
//! put it there: the owner of a directory can rename root's links in it, and a hard link to one can be made in `/tmp`. Magic links
//! (`/proc/PID/root`) are not followed: their text leads elsewhere than they do.
//!
//! What a file system says of owners is believed, because root mounted it. FUSE is the exception, if it is mounted in a
//! directory that others can write: there a user can have mounted it. ACLs that let others write show in the mode of the group, which is their
//! mask; NFSv4's do not.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, PROC_SUPER_MAGIC, Stat, fstat, fstatfs, mkdirat, openat, readlinkat,
    renameat, unlinkat,
};
use rustix::io::Errno;

use crate::target::{self, TargetError, random_name};

/// A path that cannot be used, or not believed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrustError {
    /// The system refused.
    #[error("{}", path.display())]
    Io {
        /// The component.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Somebody else could have written it.
    #[error("{}: not trusted: {why}{}", path.display(), why.advice(path))]
    Untrusted {
        /// The component that is at fault.
        path: PathBuf,
        /// Why.
        why: Distrust,
    },
    /// Larger than anything that is expected there.
    #[error("{}: more than {limit} bytes; expected a smaller file", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// What is read at most.
        limit: u64,
    },
}

/// Why somebody else could have written a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Distrust {
    /// It belongs to somebody else.
    #[error("it belongs to user {owner}; expected root{}",
        if *us == 0 { String::new() } else { format!(" or user {us}") })]
    Owner {
        /// Its owner.
        owner: u32,
        /// The user that this process is.
        us: u32,
    },
    /// Others may write it.
    #[error("mode {mode:04o} lets {} write it", writers(*mode))]
    Writable {
        /// Its permissions.
        mode: u32,
    },
    /// A directory like `/tmp`, where others may make files.
    #[error("others can make files in it. Use a directory that only root or you can write")]
    Shared,
    /// Neither a file nor a directory.
    #[error("it is no regular file")]
    NoFile,
    /// Links lead to links.
    #[error("more than {MOST_LINKS} symbolic links")]
    Links,
    /// A link of ours or root's, but whoever owns the directory decides that it is there.
    #[error("the symbolic link is in a directory where others can have put it; name what it leads to")]
    PlantedLink,
    /// A link to what a process has open, which is not where its text leads.
    #[error("it is a link of procfs to what a process has; name the file itself")]
    MagicLink,
    /// The file has another name somewhere, where it may be something else.
    #[error("it has {0} names (hard links); expected one. Copy it")]
    Names(u64),
    /// A user can have mounted it.
    #[error(
        "it is a FUSE mount in a directory that others can write: the user who mounted it decides what it contains"
    )]
    UserMount,
}

impl Distrust {
    /// What to do about it. Never to take a directory away from its owner.
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

/// A path as one word for a shell.
#[must_use]
pub fn for_a_shell(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@:,".contains(c);
    if text.chars().all(is_plain) { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

impl TrustError {
    fn io(path: &Path) -> impl FnOnce(Errno) -> TrustError {
        move |errno| TrustError::Io { path: path.to_owned(), source: errno.into() }
    }

    /// Whether the path does not exist.
    pub fn is_absent(&self) -> bool {
        matches!(self, TrustError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

/// As the kernel (`MAXSYMLINKS`).
pub(crate) const MOST_LINKS: usize = 40;

fn us() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Why a symbolic link must not be followed: it is somebody else's, or somebody else can have put it where it is.
pub(crate) fn distrust_link(directory: &Stat, link: &Stat) -> Option<Distrust> {
    let us = us();
    if link.st_uid != 0 && link.st_uid != us {
        return Some(Distrust::Owner { owner: link.st_uid, us });
    }
    match distrust(directory) {
        Some(_) => Some(Distrust::PlantedLink),
        // Sticky: nobody else can move it, but without fs.protected_hardlinks anybody can link to it.
        None if directory.st_mode & 0o022 != 0 && link.st_nlink > 1 => Some(Distrust::PlantedLink),
        None => None,
    }
}

/// What statfs(2) calls FUSE (include/uapi/linux/magic.h has it as FUSE_SUPER_MAGIC).
const FUSE_MAGIC: u64 = 0x6573_5546;

/// Whether a user can have mounted `below`, which then says of its owners what it likes.
fn is_user_mount(directory: &Stat, below: &Stat, opened: &OwnedFd) -> bool {
    directory.st_mode & 0o022 != 0 && directory.st_dev != below.st_dev && is_on_fuse(opened)
}

/// Whether a directory is on a file system whose server may be any user, and says of owners what it likes. Root follows no
/// links there, whosever they seem to be.
pub(crate) fn is_on_fuse(directory: impl AsFd) -> bool {
    fstatfs(directory).is_ok_and(|fs| fs.f_type as u64 & 0xffff_ffff == FUSE_MAGIC)
}

/// Whether a link with this text, in this directory, leads to what a process has open, whatever the text says.
fn is_magic(directory: &impl AsFd, to: &Path) -> bool {
    // procfs's ordinary ones (self, thread-self, mounts, net) are relative.
    let plain = to.is_relative() && !to.as_os_str().as_bytes().contains(&b':');
    !plain && fstatfs(directory).is_ok_and(|fs| fs.f_type == PROC_SUPER_MAGIC)
}

/// Whether nobody but root and us can have written it; for a directory, whether nobody else can change what is in it.
fn distrust(stat: &Stat) -> Option<Distrust> {
    let us = us();
    if stat.st_uid != 0 && stat.st_uid != us {
        return Some(Distrust::Owner { owner: stat.st_uid, us });
    }
    let mode = stat.st_mode & 0o7777;
    let is_sticky_directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory && mode & 0o1000 != 0;
    (mode & 0o022 != 0 && !is_sticky_directory).then_some(Distrust::Writable { mode })
}

/// A directory that only root and we can change, open. Everything goes by its descriptor.
#[derive(Debug)]
pub struct Directory {
    descriptor: OwnedFd,
    path: PathBuf,
}

/// Where a walk has come to: the directories on the way, so that `..` goes back to one that was checked.
struct Walk {
    stack: Vec<Directory>,
    pending: VecDeque<OsString>,
    links: usize,
    make: Option<Mode>,
    purpose: Purpose,
}

/// What the directory at the end is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// What is in it will be believed.
    Belief,
    /// Something of ours will be made in it and used by its path: others must not be able to swap it.
    Work,
    /// A result goes there: others may own it, but not lead us elsewhere.
    Result,
}

impl Walk {
    fn to(path: &Path, make: Option<Mode>, purpose: Purpose) -> Result<Walk, TrustError> {
        let root = openat(CWD, "/", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            .map_err(TrustError::io(Path::new("/")))?;
        let stat = fstat(&root).map_err(TrustError::io(Path::new("/")))?;
        if purpose != Purpose::Result
            && let Some(why) = distrust(&stat)
        {
            return Err(TrustError::Untrusted { path: PathBuf::from("/"), why });
        }
        let root = Directory { descriptor: root, path: PathBuf::from("/") };
        let mut walk = Walk { stack: vec![root], pending: VecDeque::new(), links: 0, make, purpose };
        if !path.is_absolute() {
            let here = std::env::current_dir().map_err(|source| TrustError::Io { path: path.to_owned(), source })?;
            walk.pending.extend(components(&here));
        }
        walk.pending.extend(components(path));
        Ok(walk)
    }

    fn here(&self) -> &Directory {
        // The root stays: `..` there is there.
        &self.stack[self.stack.len() - 1]
    }

    /// Goes through everything that is pending as directories.
    fn finish(mut self) -> Result<Directory, TrustError> {
        while let Some(name) = self.pending.pop_front() {
            self.step(name)?;
        }
        let last = self.stack.len() - 1;
        let directory = self.stack.swap_remove(last);
        if self.purpose != Purpose::Belief {
            return Ok(directory);
        }
        let stat = fstat(&directory.descriptor).map_err(TrustError::io(&directory.path))?;
        // The last one must be ours alone: in a sticky one others could make what we look for.
        if stat.st_mode & 0o022 != 0 {
            return Err(TrustError::Untrusted { path: directory.path, why: Distrust::Shared });
        }
        Ok(directory)
    }

    fn step(&mut self, name: OsString) -> Result<(), TrustError> {
        if name == ".." {
            if self.stack.len() > 1 {
                self.stack.pop();
            }
            return Ok(());
        }
        let path = self.here().path.join(&name);
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = match (openat(&self.here().descriptor, &name, flags, Mode::empty()), self.make) {
            (Err(Errno::NOENT), Some(mode)) => {
                match mkdirat(&self.here().descriptor, &name, mode) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(errno) => return Err(TrustError::io(&path)(errno)),
                }
                openat(&self.here().descriptor, &name, flags, Mode::empty())
            }
            (opened, _) => opened,
        };
        let opened = opened.map_err(TrustError::io(&path))?;
        let stat = fstat(&opened).map_err(TrustError::io(&path))?;
        let above = fstat(&self.here().descriptor).map_err(TrustError::io(&path))?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Symlink => {
                if let Some(why) = distrust_link(&above, &stat) {
                    return Err(TrustError::Untrusted { path, why });
                }
                if us() == 0 && is_on_fuse(self.here()) {
                    return Err(TrustError::Untrusted { path, why: Distrust::UserMount });
                }
                self.links += 1;
                if self.links > MOST_LINKS {
                    return Err(TrustError::Untrusted { path, why: Distrust::Links });
                }
                let to = readlinkat(&opened, "", Vec::new()).map_err(TrustError::io(&path))?;
                let to = PathBuf::from(OsString::from_vec(to.into_bytes()));
                if is_magic(self.here(), &to) {
                    return Err(TrustError::Untrusted { path, why: Distrust::MagicLink });
                }
                if to.is_absolute() {
                    self.stack.truncate(1);
                }
                for component in components(&to).into_iter().rev() {
                    self.pending.push_front(component);
                }
                Ok(())
            }
            FileType::Directory => {
                let why = match self.purpose {
                    Purpose::Result => None,
                    _ if is_user_mount(&above, &stat, &opened) => Some(Distrust::UserMount),
                    _ => distrust(&stat),
                };
                if let Some(why) = why {
                    return Err(TrustError::Untrusted { path, why });
                }
                self.stack.push(Directory { descriptor: opened, path });
                Ok(())
            }
            _ => Err(TrustError::io(&path)(Errno::NOTDIR)),
        }
    }
}

fn components(path: &Path) -> Vec<OsString> {
    let kept = path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    });
    kept.collect()
}

/// How a file of a [`Directory`] is opened. Never through a symbolic link; what is there and not ours is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum How {
    /// For reading.
    Read,
    /// For reading and writing, made with mode 0600 if it is not there.
    Update,
    /// For adding at its end, made with mode 0600 if it is not there.
    Append,
}

impl How {
    fn flags(self) -> OFlags {
        match self {
            How::Read => OFlags::RDONLY,
            How::Update => OFlags::RDWR | OFlags::CREATE,
            How::Append => OFlags::RDWR | OFlags::APPEND | OFlags::CREATE,
        }
    }
}

impl Directory {
    /// Opens a directory that has to be there, and that nobody but root and we can have changed.
    ///
    /// # Errors
    /// If it cannot be opened or trusted; says which component is at fault.
    pub fn open(path: &Path) -> Result<Directory, TrustError> {
        Walk::to(path, None, Purpose::Belief)?.finish()
    }

    /// The same, and makes what is missing of it, for us alone: who can look into it could give a file of it another name.
    ///
    /// # Errors
    /// As [`Directory::open`].
    pub fn make(path: &Path) -> Result<Directory, TrustError> {
        Walk::to(path, Some(Mode::from_raw_mode(0o700)), Purpose::Belief)?.finish()
    }

    /// Whether what we make in a directory stays what it is: nobody else can rename or remove it, nor any directory above. Others
    /// may make things beside it, as in `/tmp`.
    ///
    /// # Errors
    /// As [`Directory::open`].
    pub fn check_way(path: &Path) -> Result<(), TrustError> {
        Walk::to(path, None, Purpose::Work)?.finish().map(drop)
    }

    /// Opens a regular file in it.
    ///
    /// # Errors
    /// If it cannot be opened or trusted.
    pub fn file(&self, name: &OsStr, how: How) -> Result<File, TrustError> {
        let path = self.path.join(name);
        // A FIFO that somebody put there must not stop us; a regular file does not know the flag.
        let flags = how.flags() | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let opened = match openat(&self.descriptor, name, flags, Mode::from_raw_mode(0o600)) {
            Err(Errno::LOOP | Errno::NXIO | Errno::ISDIR) => {
                return Err(TrustError::Untrusted { path, why: Distrust::NoFile });
            }
            opened => opened.map_err(TrustError::io(&path))?,
        };
        check_file(&opened, &path, how)?;
        Ok(File::from(opened))
    }

    /// The whole of a file in it; `None` if there is none.
    ///
    /// # Errors
    /// If it cannot be read or trusted, or is larger than `limit`.
    pub fn read(&self, name: &OsStr, limit: u64) -> Result<Option<Vec<u8>>, TrustError> {
        match self.file(name, How::Read) {
            Ok(file) => read_at_most(file, &self.path.join(name), limit).map(Some),
            Err(error) if error.is_absent() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes a file of it anew, so that a reader sees either the old or the new one.
    ///
    /// # Errors
    /// If it cannot be written; then the old one is still there.
    pub fn replace(&self, name: &OsStr, bytes: &[u8], mode: u32) -> io::Result<()> {
        let part = random_name();
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&self.descriptor, &part, flags, Mode::from_raw_mode(mode))?;
        let written = File::from(file).write_all(bytes);
        let done = written.and_then(|()| Ok(renameat(&self.descriptor, &part, &self.descriptor, name)?));
        if done.is_err() {
            let _ = unlinkat(&self.descriptor, &part, AtFlags::empty());
        }
        done
    }

    /// Gives a file of it another name in it.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        Ok(renameat(&self.descriptor, from, &self.descriptor, to)?)
    }

    /// Removes a file of it; one that is not there is no error.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn remove(&self, name: &OsStr) -> io::Result<()> {
        match unlinkat(&self.descriptor, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Its path without symbolic links, for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it still has a name: one that was removed has not.
    pub fn is_there(&self) -> bool {
        fstat(&self.descriptor).is_ok_and(|stat| stat.st_nlink > 0)
    }
}

impl AsFd for Directory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

fn check_file(file: &OwnedFd, path: &Path, how: How) -> Result<(), TrustError> {
    let stat = fstat(file).map_err(TrustError::io(path))?;
    let why = if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        Some(Distrust::NoFile)
    } else if how != How::Read && stat.st_nlink > 1 {
        // Linked here when others could still write the directory: what we write would go to the other name, too.
        Some(Distrust::Names(stat.st_nlink))
    } else {
        distrust(&stat)
    };
    match why {
        Some(why) => Err(TrustError::Untrusted { path: path.to_owned(), why }),
        None => Ok(()),
    }
}

fn read_at_most(file: File, path: &Path, limit: u64) -> Result<Vec<u8>, TrustError> {
    // Counted while reading: a file can grow, and one of /proc says that it has no bytes.
    let mut bytes = Vec::new();
    file.take(limit.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(|source| TrustError::Io { path: path.to_owned(), source })?;
    if bytes.len() as u64 > limit {
        return Err(TrustError::TooLarge { path: path.to_owned(), limit });
    }
    Ok(bytes)
}

/// The whole of a regular file that nobody but root and we can have written, and the path that it has without symbolic
/// links.
///
/// # Errors
/// If it cannot be read or trusted, or is larger than `limit`.
pub fn read_trusted(path: &Path, limit: u64) -> Result<(PathBuf, Vec<u8>), TrustError> {
    let (directory, name) = parent(path)?;
    let file = directory.file(&name, How::Read)?;
    let found = directory.path.join(&name);
    let bytes = read_at_most(file, &found, limit)?;
    Ok((found, bytes))
}

/// The directory that a file is in, and its name there, after all symbolic links: also those of the last component.
///
/// # Errors
/// If the directory cannot be opened or trusted.
pub fn parent(path: &Path) -> Result<(Directory, OsString), TrustError> {
    let mut path = path.to_owned();
    for _ in 0..=MOST_LINKS {
        let name = path.file_name().ok_or_else(|| TrustError::io(&path)(Errno::ISDIR))?.to_owned();
        let above = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let directory = Directory::open(above)?;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let is_link = match openat(&directory.descriptor, &name, flags, Mode::empty()) {
            Err(_) => None,
            Ok(opened) => {
                let stat = fstat(&opened).map_err(TrustError::io(&path))?;
                (FileType::from_raw_mode(stat.st_mode) == FileType::Symlink).then_some((opened, stat))
            }
        };
        let Some((link, stat)) = is_link else { return Ok((directory, name)) };
        let above = fstat(&directory.descriptor).map_err(TrustError::io(&path))?;
        if let Some(why) = distrust_link(&above, &stat) {
            return Err(TrustError::Untrusted { path, why });
        }
        let to = readlinkat(&link, "", Vec::new()).map_err(TrustError::io(&path))?;
        let to = Path::new(OsStr::from_bytes(to.as_bytes()));
        if is_magic(&directory, to) {
            return Err(TrustError::Untrusted { path, why: Distrust::MagicLink });
        }
        path = directory.path.join(to);
    }
    Err(TrustError::Untrusted { path, why: Distrust::Links })
}

/// The directory that a result goes to. Root follows only symbolic links of root's.
pub(crate) fn directory_for_results(path: &Path) -> Result<OwnedFd, TargetError> {
    if us() != 0 {
        return target::plain_directory(path)
            .map_err(|errno| TargetError::Io { path: path.to_owned(), source: errno.into() });
    }
    walk_for_results(path, None)
}

/// Makes what is missing of a directory for results.
///
/// # Errors
/// If it cannot be made, or if somebody else decides where the path leads.
pub fn make_for_results(path: &Path) -> Result<(), TargetError> {
    if us() != 0 {
        return std::fs::create_dir_all(path).map_err(|source| TargetError::Io { path: path.to_owned(), source });
    }
    walk_for_results(path, Some(Mode::from_raw_mode(0o755))).map(drop)
}

fn walk_for_results(path: &Path, make: Option<Mode>) -> Result<OwnedFd, TargetError> {
    match Walk::to(path, make, Purpose::Result).and_then(Walk::finish) {
        Ok(directory) => Ok(directory.descriptor),
        Err(TrustError::Untrusted { path, why: Distrust::Owner { owner, .. } }) => {
            Err(TargetError::Lure { path, what: "symbolic link", owner })
        }
        Err(TrustError::Untrusted {
            path,
            why: why @ (Distrust::PlantedLink | Distrust::MagicLink | Distrust::UserMount),
        }) => Err(TargetError::Led { path, why }),
        Err(TrustError::Io { path, source }) => Err(TargetError::Io { path, source }),
        Err(other) => Err(TargetError::Io { path: path.to_owned(), source: io::Error::other(other) }),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    use super::*;

    fn place() -> tempfile::TempDir {
        let place = tempfile::tempdir().expect("a temporary directory");
        fs::write(place.path().join("policy"), "yes").expect("written");
        fs::set_permissions(place.path().join("policy"), fs::Permissions::from_mode(0o644)).expect("a mode");
        place
    }

    fn why(result: Result<(PathBuf, Vec<u8>), TrustError>) -> String {
        match result {
            Ok((path, _)) => format!("{} was believed", path.display()),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn what_only_we_can_write_is_believed_also_below_a_sticky_directory() {
        let place = place();
        let (path, bytes) = read_trusted(&place.path().join("policy"), 10).expect("believed");
        assert_eq!((path.file_name(), bytes.as_slice()), (Some(OsStr::new("policy")), b"yes".as_slice()));
        let link = place.path().join("link");
        symlink("policy", &link).expect("a link");
        assert_eq!(read_trusted(&link, 10).expect("our own link").1, b"yes");
        let around = place.path().join("../").join(place.path().file_name().expect("a name")).join("./policy");
        assert_eq!(read_trusted(&around, 10).expect("the same").1, b"yes");
        assert!(matches!(read_trusted(&link, 2), Err(TrustError::TooLarge { .. })));
        assert!(read_trusted(&place.path().join("none"), 2).is_err_and(|error| error.is_absent()));
    }

    #[test]
    fn what_others_can_write_is_not_believed() {
        let place = place();
        let policy = place.path().join("policy");
        for (mode, who, chmod) in
            [(0o664, "its group", "g-w"), (0o646, "others", "o-w"), (0o666, "its group and others", "go-w")]
        {
            fs::set_permissions(&policy, fs::Permissions::from_mode(mode)).expect("a mode");
            let text = why(read_trusted(&policy, 10));
            let expected = format!("mode 0{mode:o} lets {who} write it. Run: chmod {chmod} {}", policy.display());
            assert!(text.ends_with(&expected), "{text}");
        }
        fs::set_permissions(&policy, fs::Permissions::from_mode(0o600)).expect("a mode");
        fs::set_permissions(place.path(), fs::Permissions::from_mode(0o770)).expect("a mode");
        let text = why(read_trusted(&policy, 10));
        assert!(text.contains("mode 0770") && !text.contains("policy:"), "the directory is at fault: {text}");
    }

    #[test]
    fn what_belongs_to_others_is_not_believed() {
        if us() != 0 {
            return; // Only root can give files away; the whole program's live tests run as root.
        }
        let place = place();
        let policy = place.path().join("policy");
        let link = place.path().join("link");
        symlink("policy", &link).expect("a link");
        std::os::unix::fs::lchown(&link, Some(65534), None).expect("a link of nobody's");
        assert!(why(read_trusted(&link, 10)).contains("belongs to user 65534"));
        let below = place.path().join("theirs");
        fs::create_dir(&below).expect("a directory");
        fs::write(below.join("policy"), "no").expect("written");
        chown(&below, Some(65534), None).expect("given away");
        assert!(why(read_trusted(&below.join("policy"), 10)).contains("belongs to user 65534"));
        // Back to ours through a directory of theirs: they could lead us elsewhere the next time.
        assert!(why(read_trusted(&below.join("../policy"), 10)).contains("belongs to user 65534"));
        chown(&policy, Some(65534), None).expect("given away");
        let text = why(read_trusted(&policy, 10));
        assert!(text.contains("policy: not trusted: it belongs to user 65534; expected root. Keep the file"), "{text}");
        assert!(!text.contains("chown"), "a command that would take a home away from its user: {text}");
    }

    #[test]
    fn no_link_no_fifo_and_no_directory_is_opened_as_a_file() {
        let place = place();
        let directory = Directory::open(place.path()).expect("ours");
        symlink("/etc/passwd", place.path().join("lock")).expect("a link");
        for how in [How::Read, How::Update, How::Append] {
            assert!(matches!(
                directory.file(OsStr::new("lock"), how),
                Err(TrustError::Untrusted { why: Distrust::NoFile, .. })
            ));
        }
        let fifo = place.path().join("fifo");
        rustix::fs::mknodat(CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o600), 0).expect("a FIFO");
        fs::create_dir(place.path().join("below")).expect("a directory");
        for name in ["fifo", "below"] {
            assert!(directory.file(OsStr::new(name), How::Update).is_err(), "{name}");
        }
    }

    #[test]
    fn a_directory_is_made_for_us_alone_to_write() {
        let place = place();
        let path = place.path().join("a/b");
        let directory = Directory::make(&path).expect("made");
        assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o022, 0);
        directory.replace(OsStr::new("x"), b"1", 0o600).expect("written");
        directory.replace(OsStr::new("x"), b"22", 0o600).expect("written again");
        assert_eq!(directory.read(OsStr::new("x"), 9).expect("read").as_deref(), Some(b"22".as_slice()));
        assert_eq!(fs::read_dir(&path).expect("listed").count(), 1, "nothing is left beside it");
        fs::remove_dir_all(&path).expect("removed");
        assert!(!directory.is_there());
    }

    #[test]
    fn nothing_is_believed_that_is_in_a_shared_directory_itself() {
        let place = place();
        fs::set_permissions(place.path(), fs::Permissions::from_mode(0o1777)).expect("a mode");
        let text = why(read_trusted(&place.path().join("policy"), 10));
        assert!(text.contains("others can make files in it") && !text.contains("chmod"), "{text}");
        Directory::check_way(place.path()).expect("what we make there stays ours");
        fs::set_permissions(place.path(), fs::Permissions::from_mode(0o777)).expect("a mode");
        assert!(Directory::check_way(place.path()).is_err(), "here others can swap it");
    }

    #[test]
    fn a_link_that_others_can_have_put_there_is_not_followed() {
        if us() != 0 {
            return; // Only root can give files away.
        }
        // A place like /tmp.
        let place = place();
        let shared = place.path().join("shared");
        fs::create_dir(&shared).expect("a directory");
        fs::set_permissions(&shared, fs::Permissions::from_mode(0o1777)).expect("a mode");
        symlink(place.path(), shared.join("link")).expect("root's link");
        read_trusted(&shared.join("link/policy"), 10).expect("nobody else can move it");
        fs::hard_link(shared.join("link"), shared.join("planted")).expect("a second name");
        let text = why(read_trusted(&shared.join("planted/policy"), 10));
        assert!(text.contains("others can have put it;"), "{text}");
    }

    #[test]
    fn a_file_with_a_second_name_is_read_and_not_written() {
        let place = place();
        let directory = Directory::open(place.path()).expect("ours");
        fs::hard_link(place.path().join("policy"), place.path().join("lock")).expect("a second name");
        directory.file(OsStr::new("lock"), How::Read).expect("read");
        for how in [How::Update, How::Append] {
            let error = directory.file(OsStr::new("lock"), how);
            assert!(matches!(error, Err(TrustError::Untrusted { why: Distrust::Names(2), .. })), "{error:?}");
        }
    }

    #[test]
    fn magic_links_of_procfs_are_not_followed() {
        for path in ["/proc/self/root/etc/passwd", "/proc/self/cwd/Cargo.toml", "/proc/self/fd/0"] {
            let text = why(read_trusted(Path::new(path), 1 << 20));
            assert!(text.contains("link of procfs") || text.contains("not trusted"), "{path}: {text}");
        }
        assert!(read_trusted(Path::new("/proc/self/status"), 1 << 20).is_ok(), "an ordinary link of procfs");
    }
}
