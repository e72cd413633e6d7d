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
    AtFlags, CWD, FileType, Gid, Mode, OFlags, PROC_SUPER_MAGIC, Stat, Uid, fchown, fstat, fstatfs, openat, readlinkat,
    renameat, stat, unlinkat,
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
    /// There is no such directory to write to.
    #[error("cannot write {}: the directory {} does not exist", path.display(), directory.display())]
    NoDirectory {
        /// The file.
        path: PathBuf,
        /// Its directory.
        directory: PathBuf,
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
    /// A symbolic link that leads who knows where.
    #[error("cannot write {}: {why}", path.display())]
    Led {
        /// The component that is at fault.
        path: PathBuf,
        /// Why it is not followed.
        why: trust::Distrust,
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

    /// Gives a finished file its name, once it is on disk: some file systems say only then that they are full.
    ///
    /// # Errors
    /// If the system refuses; then nothing is left of it.
    pub fn deliver(self) -> Result<(), TargetError> {
        match self {
            Target::File(part) => {
                let path = part.place.path.clone();
                part.file.sync_all().map_err(|source| TargetError::Io { path, source })?;
                part.deliver()
            }
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
    find_with(path, WRITE)
}

/// The same for who must not wait: a FIFO that nobody reads is an error (`ENXIO`), and what is there and no regular file does not
/// block. A descriptor that was given to this process ([`Found::Open`] for `/dev/stdout`) may still.
///
/// # Errors
/// As [`find`].
pub fn find_at_once(path: &Path) -> Result<Found, TargetError> {
    find_with(path, WRITE | OFlags::NONBLOCK)
}

fn find_with(path: &Path, flags: OFlags) -> Result<Found, TargetError> {
    match follow(path)? {
        Spot::Place(place) => Ok(Found::Place(place)),
        Spot::Node(node) => node.open(flags).map(Found::Open),
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
    stat: Stat,
}

const FIFO: &str = "FIFO";
const DESCRIPTOR: &str = "descriptor of a process";

impl Node {
    fn open(&self, flags: OFlags) -> Result<File, TargetError> {
        if self.what == DESCRIPTOR {
            let own = own_descriptor(&self.directory, &self.name, flags).map_err(TargetError::io(&self.path))?;
            return own.ok_or_else(|| TargetError::NoFile { path: self.path.clone(), what: self.what });
        }
        if self.what == FIFO {
            lure(&self.path, self.stat.st_uid, FIFO)?;
        }
        write_to(&self.directory, &self.name, flags, &self.stat, &self.path)
    }
}

fn follow(path: &Path) -> Result<Spot, TargetError> {
    if path.as_os_str().is_empty() {
        return Err(TargetError::io(path)(Errno::NOENT));
    }
    let mut at = path.to_owned();
    for _ in 0..=trust::MOST_LINKS {
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
        // Looked at by descriptor: whoever owns the directory can put something else there at any time.
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
            // A report over a disk is no report.
            FileType::BlockDevice => return Err(refused("block device")),
            FileType::Symlink if fstatfs(&directory).is_ok_and(|fs| fs.f_type == PROC_SUPER_MAGIC) => DESCRIPTOR,
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
            FileType::Fifo => FIFO,
            _ => "character device",
        };
        return Ok(Spot::Node(Node { directory, name, path: at, what, stat }));
    }
    Err(TargetError::io(path)(Errno::LOOP))
}

/// The last component, unless the path says that it is a directory (`a/`, `a/.`), which [`Path::file_name`] leaves out.
fn file_name(path: &Path) -> Option<&OsStr> {
    let name = path.file_name()?;
    path.as_os_str().as_bytes().ends_with(name.as_bytes()).then_some(name)
}

/// A descriptor that this process has, if that is what the entry of procfs is: `/dev/stdout`, `/dev/fd/3`. It has no path,
/// and may be a socket, or a file that only whoever started us may open.
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
        // Somebody who gave us more than the usual three, as a shell does for `>(…)`: a pipe, which can be opened anew.
        _ => openat(directory, name, flags, Mode::empty())?,
    };
    Ok(Some(File::from(file)))
}

/// Root must not be led by others. For everybody else the kernel's own rules are enough.
pub(crate) fn lure(path: &Path, owner: u32, what: &'static str) -> Result<(), TargetError> {
    if rustix::process::geteuid().is_root() && owner != 0 {
        return Err(TargetError::Lure { path: path.to_owned(), what, owner });
    }
    Ok(())
}

/// Root must not be led by links that others can have put there.
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

const WRITE: OFlags = OFlags::WRONLY.union(OFlags::APPEND).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// Opens what was looked at, and nothing that has come there since.
fn write_to(directory: &OwnedFd, name: &OsStr, flags: OFlags, seen: &Stat, path: &Path) -> Result<File, TargetError> {
    let file = openat(directory, name, flags | OFlags::NOFOLLOW, Mode::empty()).map_err(TargetError::io(path))?;
    let opened = fstat(&file).map_err(TargetError::io(path))?;
    if (opened.st_dev, opened.st_ino) != (seen.st_dev, seen.st_ino) {
        return Err(TargetError::io(path)(Errno::STALE));
    }
    Ok(File::from(file))
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

    /// Under sudo a result belongs to the user who called, if that user could have made it here: who may run this program
    /// as root, and nothing else, shall not get a file of their own in `/etc/profile.d`.
    pub fn give_to_caller(&self, file: impl AsFd) {
        let Some((user, group)) = caller() else { return };
        let could = |directory: Stat| {
            let by = |owner: bool, bits: u32| owner && directory.st_mode & bits != 0;
            let is_theirs = directory.st_uid == user.as_raw();
            is_theirs || by(directory.st_gid == group.as_raw(), 0o020) || by(true, 0o002)
        };
        if fstat(&self.directory).is_ok_and(could) {
            give_to_caller(file);
        }
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
            self.place.give_to_caller(&self.file);
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
///
/// Where a user chose the directory, [`Place::give_to_caller`] is the one to use.
fn give_to_caller(file: impl AsFd) {
    if let Some((user, group)) = caller()
        && fstat(&file).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile)
    {
        let _ = fchown(&file, Some(user), Some(group));
    }
}

/// Who ran sudo.
fn caller() -> Option<(Uid, Gid)> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    // −1 would mean: as it is.
    let id = |variable| std::env::var(variable).ok()?.parse::<u32>().ok().filter(|id| *id != u32::MAX);
    Some((Uid::from_raw(id("SUDO_UID")?), Gid::from_raw(id("SUDO_GID")?)))
}

/// How all names of unfinished files and directories begin.
pub const PREFIX: &str = ".unstarve-part-";

/// A name that nobody can guess, and so nobody can have made before.
pub fn random_name() -> OsString {
    let mut bytes = [0_u8; 8];
    // Without waiting for the machine's first randomness, which an early guest has not: O_EXCL is what keeps us safe.
    let _ = getrandom(&mut bytes, GetRandomFlags::INSECURE).or_else(|_| getrandom(&mut bytes, GetRandomFlags::empty()));
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
        assert!(matches!(write(Path::new("/nonexistent/x"), ""), Err(TargetError::NoDirectory { .. })));
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
        let made = place.path().join("made/here");
        trust::make_for_results(&made).expect("made");
        assert!(made.is_dir());
        let below = place.path().join("below");
        symlink(place.path(), &below).expect("a link");
        std::os::unix::fs::lchown(&below, Some(65534), None).expect("given away");
        assert!(matches!(write(&below.join("x"), "stolen"), Err(TargetError::Lure { owner: 65534, .. })));
        let elsewhere = trust::make_for_results(&below.join("x"));
        assert!(matches!(elsewhere, Err(TargetError::Lure { owner: 65534, .. })) && !place.path().join("x").exists());
        let fifo = place.path().join("fifo");
        rustix::fs::mknodat(CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o600), 0).expect("a FIFO");
        std::os::unix::fs::chown(&fifo, Some(65534), None).expect("given away");
        assert!(matches!(write(&fifo, "stolen"), Err(TargetError::Lure { owner: 65534, .. })));
        assert_eq!(fs::read_to_string(&victim).expect("read"), "by our own link");
    }

    #[test]
    fn a_path_that_says_directory_is_none_for_a_result() {
        let place = tempfile::tempdir().expect("a temporary directory");
        for path in ["r/", "r/.", "r//", "..", "."] {
            let error = write(&place.path().join(path), "x");
            assert!(matches!(error, Err(TargetError::NoFile { .. })), "{path}: {error:?}");
        }
        assert!(write(Path::new(""), "x").is_err());
        assert!(names(place.path()).is_empty());
    }

    #[test]
    fn only_our_own_descriptors_are_written_to_through_procfs() {
        let mut child = std::process::Command::new("sleep").arg("9").stdout(std::process::Stdio::piped()).spawn();
        let child = child.as_mut().expect("a child");
        let error = write(Path::new(&format!("/proc/{}/fd/1", child.id())), "x");
        let within = write(Path::new(&format!("/proc/{}/cwd/x", child.id())), "x");
        let _ = child.kill();
        let _ = child.wait();
        assert!(matches!(error, Err(TargetError::NoFile { .. })), "{error:?}");
        if rustix::process::geteuid().is_root() {
            assert!(matches!(within, Err(TargetError::Led { why: trust::Distrust::MagicLink, .. })), "{within:?}");
        }
    }

    #[test]
    fn root_follows_no_link_of_roots_that_others_can_move() {
        if !rustix::process::geteuid().is_root() {
            return; // For others the kernel's own rules are enough.
        }
        let place = tempfile::tempdir().expect("a temporary directory");
        let theirs = place.path().join("theirs");
        fs::create_dir(&theirs).expect("a directory");
        symlink(place.path(), theirs.join("link")).expect("a link of root's");
        symlink(place.path().join("r"), theirs.join("file")).expect("a link of root's");
        for path in ["link/r", "file"] {
            write(&theirs.join(path), "x").unwrap_or_else(|error| panic!("{path}: {error}"));
        }
        std::os::unix::fs::chown(&theirs, Some(65534), None).expect("given away");
        for path in ["link/r", "file"] {
            let error = write(&theirs.join(path), "x");
            let Err(TargetError::Led { why, .. }) = error else { panic!("{path}: {error:?}") };
            assert_eq!(why, trust::Distrust::PlantedLink, "{path}");
        }
        write(&theirs.join("r"), "a plain file of root's").expect("written");
    }

    #[test]
    fn what_comes_there_after_the_look_is_not_opened() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let null = rustix::fs::stat("/dev/null").expect("there");
        let directory = plain_directory(place.path()).expect("a directory");
        symlink("/dev/null", place.path().join("link")).expect("a link");
        fs::write(place.path().join("file"), "").expect("written");
        for name in ["link", "file"] {
            let error = write_to(&directory, OsStr::new(name), WRITE, &null, Path::new(name));
            assert!(matches!(error, Err(TargetError::Io { .. })), "{name}: {error:?}");
        }
    }
}
