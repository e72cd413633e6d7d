//! Where a command's result goes.
//!
//! A file gets its name only when it is whole. Until then it has an unguessable one in the same directory, which was opened once:
//! somebody who swaps a directory for a symbolic link meanwhile gains nothing. What is there and no regular file (`/dev/null`, a
//! terminal, a FIFO) is written to and never replaced.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, OFlags, Uid, fchown, fstat, fstatfs, openat, readlinkat, renameat, statat,
    unlinkat,
};
use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};

use crate::trust;

/// A result has no place to go to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TargetError {
    /// The system refused.
    #[error("cannot write {}", path.display())]
    Io {
        /// The file, or the directory that it is in.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Somebody else decides where it leads.
    #[error("cannot write {}: it is a {what} of user {owner}, who would decide where the result goes; name a regular file", path.display())]
    Lure {
        /// The component that is at fault.
        path: PathBuf,
        /// What it is.
        what: &'static str,
        /// Whose.
        owner: u32,
    },
    /// Nothing that a result can go to.
    #[error("cannot write {}: it is a {what}; expected a file", path.display())]
    NoFile {
        /// Which.
        path: PathBuf,
        /// What it is.
        what: &'static str,
    },
}

impl TargetError {
    fn io(path: &Path) -> impl FnOnce(Errno) -> TargetError {
        move |errno| TargetError::Io { path: path.to_owned(), source: errno.into() }
    }
}

/// Who may read a result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Readers {
    /// Its owner alone: it has names of others' processes. Under sudo that is the user who called, who would need root
    /// again to read it.
    Owner,
    /// Everybody on the machine.
    Everybody,
}

/// Where a result goes.
#[derive(Debug)]
pub enum Target {
    /// Standard output, for `-`.
    Stdout,
    /// Something that is there and no regular file: a device, a FIFO, a descriptor of this process.
    Open {
        /// It.
        file: File,
        /// What it was called.
        path: PathBuf,
    },
    /// A file that gets its name when it is whole.
    File(Part),
}

impl Target {
    /// Makes sure that it can be written, before any work.
    ///
    /// # Errors
    /// If it cannot, or if somebody else decides where it leads.
    pub fn open(path: &Path, readers: Readers) -> Result<Target, TargetError> {
        if path == Path::new("-") {
            return Ok(Target::Stdout);
        }
        match find(path)? {
            Found::Open(file) => Ok(Target::Open { file, path: path.to_owned() }),
            Found::Place(place) => Ok(Target::File(place.part(readers).map_err(TargetError::io(path))?)),
        }
    }

    /// What messages call it.
    pub fn name(&self) -> String {
        match self {
            Target::Stdout => "standard output".to_owned(),
            Target::Open { path, .. } => path.display().to_string(),
            Target::File(part) => part.place.path.display().to_string(),
        }
    }

    /// Gives a finished file its name.
    ///
    /// # Errors
    /// If the system refuses; then nothing is left of it.
    pub fn deliver(self) -> Result<(), TargetError> {
        match self {
            Target::File(part) => part.deliver(),
            Target::Stdout | Target::Open { .. } => Ok(()),
        }
    }
}

/// What a path leads to.
#[derive(Debug)]
pub enum Found {
    /// Something to write to as it is.
    Open(File),
    /// A name for a regular file, which may be there already.
    Place(Place),
}

/// A name in a directory that stays open.
#[derive(Debug)]
pub struct Place {
    directory: OwnedFd,
    name: OsString,
    path: PathBuf,
}

/// Follows a path to where a result would go.
///
/// # Errors
/// If there is no such directory, or if somebody else decides where the path leads.
pub fn find(path: &Path) -> Result<Found, TargetError> {
    match follow(path)? {
        Spot::Place(place) => Ok(Found::Place(place)),
        Spot::Node(node) => node.open().map(Found::Open),
    }
}

/// What a path leads to, with nothing opened yet but the directory.
enum Spot {
    Place(Place),
    Node(Node),
}

/// What can be written to and has to stay as it is.
struct Node {
    directory: OwnedFd,
    name: OsString,
    path: PathBuf,
    what: &'static str,
    owner: u32,
}

impl Node {
    fn open(&self) -> Result<File, TargetError> {
        if self.what == FIFO {
            lure(&self.path, self.owner, FIFO)?;
        }
        write_to(&self.directory, &self.name, &self.path)
    }
}

const FIFO: &str = "FIFO";

fn follow(path: &Path) -> Result<Spot, TargetError> {
    let mut at = path.to_owned();
    for _ in 0..=trust::MOST_LINKS {
        let name =
            at.file_name().ok_or_else(|| TargetError::NoFile { path: at.clone(), what: "directory" })?.to_owned();
        let above = at.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new(".")).to_owned();
        let directory = trust::directory_for_results(&above)?;
        let stat = match statat(&directory, &name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => None,
            stat => Some(stat.map_err(TargetError::io(&at))?),
        };
        let place = |directory| Spot::Place(Place { directory, name: name.clone(), path: path.to_owned() });
        let Some(stat) = stat else { return Ok(place(directory)) };
        let refused = |what| TargetError::NoFile { path: at.clone(), what };
        let what = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => return Ok(place(directory)),
            FileType::Directory => return Err(refused("directory")),
            FileType::Socket => return Err(refused("socket")),
            // A report over a disk is no report.
            FileType::BlockDevice => return Err(refused("block device")),
            FileType::Symlink if fstatfs(&directory).is_ok_and(|fs| fs.f_type == rustix::fs::PROC_SUPER_MAGIC) => {
                // A descriptor of a process (/dev/stdout), which has no path.
                "descriptor of a process"
            }
            FileType::Symlink => {
                lure(&at, stat.st_uid, "symbolic link")?;
                let to = readlinkat(&directory, &name, Vec::new()).map_err(TargetError::io(&at))?;
                at = above.join(OsStr::from_bytes(to.as_bytes()));
                continue;
            }
            FileType::Fifo => FIFO,
            _ => "character device",
        };
        return Ok(Spot::Node(Node { directory, name, path: at, what, owner: stat.st_uid }));
    }
    Err(TargetError::io(path)(Errno::LOOP))
}

/// Root must not be led by others. For everybody else the kernel's own rules are enough.
pub(crate) fn lure(path: &Path, owner: u32, what: &'static str) -> Result<(), TargetError> {
    if rustix::process::geteuid().is_root() && owner != 0 {
        return Err(TargetError::Lure { path: path.to_owned(), what, owner });
    }
    Ok(())
}

fn write_to(directory: &OwnedFd, name: &OsStr, path: &Path) -> Result<File, TargetError> {
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(File::from(openat(directory, name, flags, Mode::empty()).map_err(TargetError::io(path))?))
}

impl Place {
    /// Where a result goes that has to be a regular file, because it is not written from beginning to end. What is there
    /// and is none is not even opened: a FIFO would wait for its reader.
    ///
    /// # Errors
    /// As [`find`], and if there is something else than a regular file.
    pub fn find(path: &Path) -> Result<Place, TargetError> {
        match follow(path)? {
            Spot::Place(place) => Ok(place),
            Spot::Node(Node { path, what, .. }) => Err(TargetError::NoFile { path, what }),
        }
    }

    /// The directory that a path names, and what is in it: the place of no file.
    ///
    /// # Errors
    /// If it cannot be opened, or if somebody else decides where the path leads.
    pub fn within(directory: &Path) -> Result<Place, TargetError> {
        let opened = trust::directory_for_results(directory)?;
        Ok(Place { directory: opened, name: OsString::new(), path: directory.to_owned() })
    }

    /// A new file that will get this name.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn part(self, readers: Readers) -> Result<Part, Errno> {
        let name = random_name();
        let mode = match readers {
            Readers::Owner => 0o600,
            Readers::Everybody => 0o644,
        };
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&self.directory, &name, flags, Mode::from_raw_mode(mode))?;
        Ok(Part { place: self, name: Some(name), file: File::from(file), readers })
    }

    /// The directory, for others' temporary files beside the result.
    pub fn directory(&self) -> impl AsFd + '_ {
        &self.directory
    }

    /// The name in it.
    pub fn name(&self) -> &OsStr {
        &self.name
    }

    /// What it was called.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What its directory is called.
    pub fn directory_path(&self) -> &Path {
        match self.path.parent() {
            _ if self.name.is_empty() => &self.path,
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        }
    }

    /// The same place again, for a result that is written anew now and then.
    ///
    /// # Errors
    /// If there are too many open files.
    pub fn again(&self) -> io::Result<Place> {
        Ok(Place { directory: self.directory.try_clone()?, name: self.name.clone(), path: self.path.clone() })
    }
}

/// A file that has not got its name yet; removed on drop.
#[derive(Debug)]
pub struct Part {
    place: Place,
    name: Option<OsString>,
    file: File,
    readers: Readers,
}

impl Part {
    /// The file, for reading and writing.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Gives it its name.
    ///
    /// # Errors
    /// If the system refuses; then nothing is left of it.
    pub fn deliver(mut self) -> Result<(), TargetError> {
        if self.readers == Readers::Owner {
            give_to_caller(&self.file);
        }
        let Some(name) = &self.name else { return Ok(()) };
        let Place { directory, name: wanted, path } = &self.place;
        renameat(directory, name, directory, wanted).map_err(TargetError::io(path))?;
        self.name = None;
        Ok(())
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            let _ = unlinkat(&self.place.directory, name, AtFlags::empty());
        }
    }
}

/// Under sudo a result belongs to the user who called. By descriptor, and only what this process has just made.
pub fn give_to_caller(file: impl AsFd) {
    let id = |variable| std::env::var(variable).ok()?.parse::<u32>().ok();
    if !rustix::process::geteuid().is_root() {
        return;
    }
    if let (Some(user), Some(group)) = (id("SUDO_UID"), id("SUDO_GID"))
        // −1 would mean: as it is.
        && user != u32::MAX
        && group != u32::MAX
        && fstat(&file).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile)
    {
        let _ = fchown(&file, Some(Uid::from_raw(user)), Some(Gid::from_raw(group)));
    }
}

/// How all names of unfinished files and directories begin.
pub const PREFIX: &str = ".unstarve-part-";

/// A name that nobody can guess, and so nobody can have made before.
pub fn random_name() -> OsString {
    let mut bytes = [0_u8; 8];
    // Never fails for so few bytes once the machine has started; O_EXCL keeps us safe without.
    let _ = getrandom(&mut bytes, GetRandomFlags::empty());
    format!("{PREFIX}{:016x}", u64::from_ne_bytes(bytes)).into()
}

/// Opens a directory by its path from where this process is.
pub(crate) fn plain_directory(path: &Path) -> Result<OwnedFd, Errno> {
    openat(CWD, path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::{Read, Write};
    use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};

    use super::*;

    fn write(path: &Path, text: &str) -> Result<(), TargetError> {
        let target = Target::open(path, Readers::Owner)?;
        match &target {
            Target::Open { file, .. } => (&mut &*file).write_all(text.as_bytes()).expect("written"),
            Target::File(part) => part.file().write_all(text.as_bytes()).expect("written"),
            Target::Stdout => panic!("no standard output"),
        }
        target.deliver()
    }

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).expect("a directory");
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn a_result_appears_whole_or_not_at_all() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let path = place.path().join("r.html");
        fs::write(&path, "old").expect("written");
        let target = Target::open(&path, Readers::Owner).expect("a place");
        assert_eq!(names(place.path()).len(), 2);
        drop(target);
        assert_eq!((names(place.path()).len(), fs::read_to_string(&path).expect("old")), (1, "old".to_owned()));
        write(&path, "new").expect("written");
        assert_eq!((names(place.path()).len(), fs::read_to_string(&path).expect("new")), (1, "new".to_owned()));
        assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn devices_are_written_to_and_never_replaced() {
        write(Path::new("/dev/null"), "gone").expect("written");
        assert!(fs::metadata("/dev/null").expect("there").file_type().is_char_device());
        let (mut reader, writer) = std::io::pipe().expect("a pipe");
        let descriptor = std::os::fd::AsRawFd::as_raw_fd(&writer);
        write(Path::new(&format!("/proc/self/fd/{descriptor}")), "piped").expect("written");
        drop(writer);
        let mut text = String::new();
        reader.read_to_string(&mut text).expect("read");
        assert_eq!(text, "piped");
        assert!(matches!(write(Path::new("/tmp"), ""), Err(TargetError::NoFile { .. })));
        assert!(matches!(write(Path::new("/nonexistent/x"), ""), Err(TargetError::Io { .. })));
    }

    #[test]
    fn a_place_for_a_regular_file_is_no_device_and_waits_for_nobody() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let fifo = place.path().join("fifo");
        rustix::fs::mknodat(CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o600), 0).expect("a FIFO");
        let link = place.path().join("link");
        symlink("fifo", &link).expect("a link");
        for (path, found) in [
            (fifo.as_path(), "FIFO"),
            (&link, "FIFO"),
            (Path::new("/dev/null"), "character device"),
            (Path::new("/proc/self/fd/0"), "descriptor of a process"),
            (Path::new("/tmp"), "directory"),
        ] {
            let error = Place::find(path).expect_err("no place");
            assert!(matches!(error, TargetError::NoFile { what, .. } if what == found), "{}: {error}", path.display());
        }
        assert_eq!(Place::find(&place.path().join("new")).expect("a place").name(), "new");
    }

    #[test]
    fn a_directory_that_is_swapped_meanwhile_leads_nowhere() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let (mine, other, moved) = (place.path().join("mine"), place.path().join("other"), place.path().join("moved"));
        fs::create_dir(&mine).expect("a directory");
        fs::create_dir(&other).expect("a directory");
        let target = Target::open(&mine.join("r"), Readers::Owner).expect("a place");
        fs::rename(&mine, &moved).expect("moved");
        symlink(&other, &mine).expect("swapped");
        target.deliver().expect("delivered");
        assert_eq!((names(&moved), names(&other)), (vec!["r".to_owned()], vec![]));
    }

    #[test]
    fn root_follows_no_link_of_others() {
        if !rustix::process::geteuid().is_root() {
            return; // For others the kernel's own rules are enough.
        }
        let place = tempfile::tempdir().expect("a temporary directory");
        let link = place.path().join("link");
        let victim = place.path().join("victim");
        fs::write(&victim, "precious").expect("written");
        symlink(&victim, &link).expect("a link");
        // Root's own leads on, to beside what it names.
        write(&link, "by our own link").expect("written");
        assert!(fs::symlink_metadata(&link).expect("there").is_symlink());
        assert_eq!(fs::read_to_string(&victim).expect("read"), "by our own link");
        std::os::unix::fs::lchown(&link, Some(65534), None).expect("given away");
        assert!(matches!(write(&link, "stolen"), Err(TargetError::Lure { owner: 65534, .. })));
        let below = place.path().join("below");
        symlink(place.path(), &below).expect("a link");
        std::os::unix::fs::lchown(&below, Some(65534), None).expect("given away");
        assert!(matches!(write(&below.join("x"), "stolen"), Err(TargetError::Lure { owner: 65534, .. })));
        let fifo = place.path().join("fifo");
        rustix::fs::mknodat(CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o600), 0).expect("a FIFO");
        std::os::unix::fs::chown(&fifo, Some(65534), None).expect("given away");
        assert!(matches!(write(&fifo, "stolen"), Err(TargetError::Lure { owner: 65534, .. })));
        assert_eq!(fs::read_to_string(&victim).expect("read"), "by our own link");
    }
}
