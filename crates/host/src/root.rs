//! Safe access to the files of a host.

use std::ffi::{CStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

/// Where `/proc`, `/sys` and `/boot` are: this machine's own, a host's below `/host` in a container, or a test's.
///
/// Reading below a directory stays below it: symbolic links, even absolute ones, are resolved as if it were the root.
/// So a user who can write there can neither make root read something elsewhere nor make it block: only regular files are
/// opened.
#[derive(Clone, Debug)]
pub struct Root {
    prefix: PathBuf,
    base: Base,
}

/// Where paths start.
#[derive(Clone, Debug)]
enum Base {
    /// The root of this machine.
    Host,
    /// A directory, if it could be opened.
    Tree(Result<Arc<OwnedFd>, Errno>),
}

impl Root {
    /// The machine we run on.
    pub fn host() -> Root {
        Root::at("/")
    }

    /// The tree below `prefix`, which contains `proc` and `sys` (and perhaps `boot`). If it cannot be opened, neither
    /// can anything below it.
    pub fn at(prefix: impl Into<PathBuf>) -> Root {
        let prefix = prefix.into();
        let base = if prefix == Path::new("/") {
            Base::Host
        } else {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            Base::Tree(rustix::fs::open(&prefix, flags, Mode::empty()).map(Arc::new))
        };
        Root { prefix, base }
    }

    /// Whether system calls act on the same machine as this tree.
    pub(crate) fn is_host(&self) -> bool {
        matches!(self.base, Base::Host)
    }

    /// Its name in a journal: its directory without symbolic links; `None` for this machine.
    pub fn name(&self) -> Option<String> {
        let real = fs::canonicalize(&self.prefix).unwrap_or_else(|_| self.prefix.clone());
        (real != Path::new("/")).then(|| real.to_string_lossy().into_owned())
    }

    /// The path of an absolute path in this tree, for messages. To open it directly may follow links out of the tree.
    pub fn path(&self, absolute: &str) -> PathBuf {
        self.prefix.join(absolute.trim_start_matches('/'))
    }

    /// Checks that there is a host.
    ///
    /// # Errors If there is no `/proc`, or the kernel cannot confine a lookup to a directory (before Linux 5.6).
    pub fn check(&self) -> io::Result<()> {
        self.open_as("/proc", OFlags::PATH | OFlags::DIRECTORY).map(drop)
    }

    /// Opens a regular file for reading. Other types are refused: a FIFO would block, and opening a device may have an
    /// effect. `/dev/null` counts as an empty file: a link to it masks a unit.
    pub(crate) fn open(&self, absolute: &str) -> io::Result<Opened> {
        // Check the type first, as somebody else may have created it.
        if !self.is_host() {
            match Found::of(&self.stat(absolute)?) {
                Found::File => {}
                Found::Null => return Ok(Opened::Empty),
                Found::Other(kind) => return Err(no_file(kind)),
            }
        }
        let file = File::from(self.open_as(absolute, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)?);
        match Found::of(&rustix::fs::fstat(&file)?) {
            Found::File => Ok(Opened::File(file)),
            Found::Null => Ok(Opened::Empty),
            Found::Other(kind) => Err(no_file(kind)),
        }
    }

    /// A small text file without its last newline. Invalid UTF-8, which task names may contain, becomes U+FFFD.
    pub(crate) fn text(&self, absolute: &str) -> io::Result<String> {
        let mut bytes = Vec::new();
        self.open(absolute)?.take(MAX_FILE).read_to_end(&mut bytes)?;
        let mut text = match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        };
        text.truncate(text.trim_end_matches('\n').len());
        Ok(text)
    }

    /// The names in a directory, sorted so that snapshots of an unchanged host are equal.
    pub(crate) fn names(&self, absolute: &str) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in self.directory(absolute)? {
            names.extend(text_of(entry?.file_name()));
        }
        names.sort_unstable();
        Ok(names)
    }

    /// Names of up to `most` subdirectories, unsorted; links to directories do not count.
    pub(crate) fn directories(&self, absolute: &str, most: usize) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        let mut directory = self.directory(absolute)?;
        while let Some(entry) = directory.read().filter(|_| names.len() < most) {
            let entry = entry?;
            let Some(name) = text_of(entry.file_name()) else { continue };
            let kind = match entry.file_type() {
                // Some file systems do not report the type.
                FileType::Unknown => rustix::fs::statat(directory.fd()?, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW)
                    .map(|stat| FileType::from_raw_mode(stat.st_mode)),
                kind => Ok(kind),
            };
            if kind == Ok(FileType::Directory) {
                names.push(name);
            }
        }
        Ok(names)
    }

    /// Whether the path exists.
    pub(crate) fn exists(&self, absolute: &str) -> bool {
        self.stat(absolute).is_ok()
    }

    /// Whether it is a directory.
    pub(crate) fn is_dir(&self, absolute: &str) -> bool {
        self.kind(absolute) == Some(FileType::Directory)
    }

    /// Whether it is a regular file.
    pub(crate) fn is_file(&self, absolute: &str) -> bool {
        self.kind(absolute) == Some(FileType::RegularFile)
    }

    /// Device and inode, which are equal if two paths are the same file.
    pub(crate) fn identity(&self, absolute: &str) -> Option<(u64, u64)> {
        self.stat(absolute).ok().map(|stat| (stat.st_dev, stat.st_ino))
    }

    /// The target of a symbolic link.
    pub(crate) fn link(&self, absolute: &str) -> io::Result<PathBuf> {
        let link = self.open_as(absolute, OFlags::PATH | OFlags::NOFOLLOW)?;
        let text = rustix::fs::readlinkat(link, "", Vec::new())?;
        Ok(OsString::from_vec(text.into_bytes()).into())
    }

    fn kind(&self, absolute: &str) -> Option<FileType> {
        self.stat(absolute).ok().map(|stat| FileType::from_raw_mode(stat.st_mode))
    }

    fn stat(&self, absolute: &str) -> io::Result<Stat> {
        match self.base {
            Base::Host => Ok(rustix::fs::stat(self.path(absolute))?),
            Base::Tree(_) => Ok(rustix::fs::fstat(self.open_as(absolute, OFlags::PATH)?)?),
        }
    }

    fn directory(&self, absolute: &str) -> io::Result<Dir> {
        Ok(Dir::new(self.open_as(absolute, OFlags::RDONLY | OFlags::DIRECTORY)?)?)
    }

    fn open_as(&self, absolute: &str, flags: OFlags) -> io::Result<OwnedFd> {
        let flags = flags | OFlags::CLOEXEC;
        match &self.base {
            Base::Host => Ok(rustix::fs::openat(CWD, self.path(absolute), flags, Mode::empty())?),
            Base::Tree(base) => {
                let base = base.as_ref().map_err(|errno| *errno)?;
                open_below(base, absolute.trim_start_matches('/'), flags)
            }
        }
    }
}

/// Number of retries. A lookup with `..`, as in sysfs links, fails with EAGAIN if anything is renamed or mounted at the
/// same time (openat2(2)).
const LOOKUP_TRIES: usize = 64;

fn open_below(base: &OwnedFd, path: &str, flags: OFlags) -> io::Result<OwnedFd> {
    let path = if path.is_empty() { "." } else { path };
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let mut result = Err(Errno::AGAIN);
    for _ in 0..LOOKUP_TRIES {
        result = rustix::fs::openat2(base, path, flags, Mode::empty(), resolve);
        if !matches!(result, Err(Errno::AGAIN)) {
            break;
        }
    }
    result.map_err(|errno| match errno {
        Errno::NOSYS => io::Error::new(
            io::ErrorKind::Unsupported,
            "a host below a directory cannot be read by this kernel: openat2 is missing, which is there since Linux 5.6",
        ),
        errno => errno.into(),
    })
}

/// An opened file.
#[derive(Debug)]
pub(crate) enum Opened {
    /// A regular file.
    File(File),
    /// `/dev/null`.
    Empty,
}

impl Read for Opened {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Opened::File(file) => file.read(buffer),
            Opened::Empty => Ok(0),
        }
    }
}

/// What is at a path.
enum Found {
    File,
    Null,
    Other(FileType),
}

impl Found {
    fn of(stat: &Stat) -> Found {
        /// `Documentation/admin-guide/devices.txt`.
        const NULL: (u32, u32) = (1, 3);
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Found::File,
            FileType::CharacterDevice if (rustix::fs::major(stat.st_rdev), rustix::fs::minor(stat.st_rdev)) == NULL => {
                Found::Null
            }
            kind => Found::Other(kind),
        }
    }
}

fn no_file(kind: FileType) -> io::Error {
    let what = match kind {
        // The error that reading a directory gives.
        FileType::Directory => return Errno::ISDIR.into(),
        FileType::Fifo => "a FIFO",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        _ => "something else",
    };
    io::Error::new(io::ErrorKind::InvalidInput, format!("it is {what}; expected a regular file"))
}

fn text_of(name: &CStr) -> Option<String> {
    let name = name.to_str().ok()?;
    (!matches!(name, "." | "..")).then(|| name.to_owned())
}

/// Files of procfs and sysfs are small. A larger one is not what it should be.
const MAX_FILE: u64 = 16 << 20;
