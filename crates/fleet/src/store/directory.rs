//! Access to the store. Other hosts write into `hosts/`, so nothing there is trusted; what a compactor writes is believed if only
//! root, this user or the owner of the store can have written it. Directories and files are opened relative to their parent's
//! descriptor, and no symbolic link is followed.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, FlockOperation, Mode, OFlags, RenameFlags, fchmod, fchown, flock, fstat, mkdirat, openat, renameat,
    renameat_with, unlinkat,
};
use rustix::io::Errno;
use unstarve_tables::Partition;

use super::effects::random;
use super::place::{Before, Effect, Ground, HIDDEN_PREFIX, Names, OPEN_DIRECTORY, OTHERS_WRITE, Place, Readers, names};
use super::trees::Tree;
#[cfg(feature = "columnar")]
use crate::decode::{Examine, InProcessDecode};
use crate::error::FleetError;
use crate::problem::{Kind, Problem};

/// The store.
pub struct Store {
    ground: Ground,
    directory: OwnedFd,
    pub(super) owner: u32,
    pub(super) mode: u32,
    pub(super) group: u32,
    #[cfg(feature = "columnar")]
    examine: Box<dyn Examine>,
}

/// Takes the value of a directory `KEY=VALUE` and the open directory.
type Each<'a> = &'a mut dyn FnMut(&str, &OwnedFd, &mut Vec<Problem>) -> Result<(), FleetError>;

/// Maximum size of a host's file. It is read into memory.
pub(crate) const MAX_INPUT_BYTES: u64 = 64 << 20;
/// Maximum size of a merged file.
pub(crate) const MAX_OUTPUT_BYTES: u64 = 1 << 30;
/// How often a run makes a directory that others sweep.
const MOST_TRIES: usize = 8;
/// In `state/`: who has its lock may change the store.
const LOCK_NAME: &str = "lock";
/// Whoever can open it can hold up the compactor for ever.
const LOCK_MODE: Mode = Mode::RUSR.union(Mode::WUSR);

const STICKY: u32 = 0o1000;

/// The store's lock, until it is dropped or the process ends.
#[must_use]
pub(crate) struct Locked(File);

impl Drop for Locked {
    fn drop(&mut self) {
        // A child that another thread is starting has the file open until it runs its program: closing alone would not unlock.
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}

impl Store {
    /// Opens an existing directory.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn open(path: &Path) -> Result<Store, FleetError> {
        Store::watched(path, Box::new(|_| Ok(())))
    }

    /// As [`Store::open`]; `before` is called before each effect.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn watched(path: &Path, before: Before) -> Result<Store, FleetError> {
        let io = |source: Errno| FleetError::Io { action: "open", path: path.to_owned(), source: source.into() };
        // The caller names the directory itself, which may be a link.
        let directory = openat(CWD, path, OPEN_DIRECTORY.difference(OFlags::NOFOLLOW), Mode::empty()).map_err(io)?;
        let found = fstat(&directory).map_err(io)?;
        Ok(Store {
            ground: Ground { path: path.to_owned(), before },
            directory,
            owner: found.st_uid,
            mode: found.st_mode,
            group: found.st_gid,
            #[cfg(feature = "columnar")]
            examine: Box::new(InProcessDecode),
        })
    }

    /// The path.
    pub fn path(&self) -> &Path {
        &self.ground.path
    }

    /// Decodes hosts' files by `examine`, which checks them before their rows are used.
    #[cfg(feature = "columnar")]
    #[must_use]
    pub fn examined_by(self, examine: Box<dyn Examine>) -> Store {
        Store { examine, ..self }
    }

    /// Decodes hosts' files.
    #[cfg(feature = "columnar")]
    pub(crate) fn examiner(&self) -> &dyn Examine {
        self.examine.as_ref()
    }

    /// All hours of a tree, sorted. A directory that looks like an hour and is not one is a problem.
    ///
    /// # Errors
    /// If the directory cannot be read, or others may have written what only a compactor writes.
    pub(crate) fn hours(&self, tree: Tree, problems: &mut Vec<Problem>) -> Result<Vec<Partition>, FleetError> {
        let Some(top) = self.tree(tree)? else { return Ok(Vec::new()) };
        self.hours_in(&top, problems)
    }

    /// All hours below a directory.
    pub(crate) fn hours_in(&self, top: &Place<'_>, problems: &mut Vec<Problem>) -> Result<Vec<Partition>, FleetError> {
        let mut hours = Vec::new();
        let mut found = Vec::new();
        let at_top = top.shown("");
        // At most one directory is open at each level.
        self.keyed(top.directory(), &at_top, "table", problems, &mut |table, at, problems| {
            let below = at_top.join(format!("table={table}"));
            self.keyed(at, &below, "date", problems, &mut |date, at, problems| {
                let below = below.join(format!("date={date}"));
                self.keyed(at, &below, "hour", problems, &mut |hour, _, _| {
                    found.push(Partition { date: date.to_owned(), hour: hour.to_owned(), table: table.to_owned() });
                    Ok(())
                })
            })
        })?;
        for hour in found {
            match hour.begin() {
                Some(begin) if Partition::of(&hour.table, begin) == hour => hours.push(hour),
                _ => {
                    let why = "not an hour; expected date=YYYY-MM-DD/hour=HH";
                    Problem::of(Kind::Place, at_top.join(hour.path()), why).add(problems);
                }
            }
        }
        hours.sort();
        Ok(hours)
    }

    /// Calls `each` for every directory `KEY=VALUE` in `directory`.
    fn keyed(
        &self,
        directory: &OwnedFd,
        below: &Path,
        key: &str,
        problems: &mut Vec<Problem>,
        each: Each<'_>,
    ) -> Result<(), FleetError> {
        let path = self.path().join(below);
        let mut strays = Vec::new();
        let Names { texts, strange } =
            names(directory).map_err(|source| FleetError::Io { action: "read", path, source })?;
        for name in texts {
            let Some(value) = name.strip_prefix(key).and_then(|rest| rest.strip_prefix('=')) else {
                strays.push(name);
                continue;
            };
            match openat(directory, name.as_str(), OPEN_DIRECTORY, Mode::empty()) {
                Ok(opened) => each(value, &opened, problems)?,
                // Removed meanwhile.
                Err(Errno::NOENT) => {}
                Err(Errno::LOOP | Errno::NOTDIR) => {
                    let why = "not a directory; links are not followed";
                    Problem::of(Kind::Place, below.join(&name), why).add(problems);
                }
                Err(error) => {
                    Problem::of(Kind::Place, below.join(&name), &io::Error::from(error).to_string()).add(problems);
                }
            }
        }
        // What is beside tables of the layout before is nobody's business.
        let is_top = below.as_os_str().is_empty();
        let found = [Problem::stray(below, strays), Problem::strange_name(below, strange)];
        found.into_iter().filter(|_| !is_top).flatten().for_each(|problem| problem.add(problems));
        Ok(())
    }

    /// The store's own directory.
    pub(crate) fn top(&self) -> Result<Place<'_>, FleetError> {
        let directory = self.directory.try_clone();
        let directory =
            directory.map_err(|source| FleetError::Io { action: "open", path: self.path().to_owned(), source })?;
        Ok(Place::of(&self.ground, directory, self.path().to_owned()))
    }

    /// A tree; `None` if there is none yet.
    ///
    /// # Errors
    /// If it cannot be opened, or others may have written what only a compactor writes.
    pub(crate) fn tree(&self, tree: Tree) -> Result<Option<Place<'_>>, FleetError> {
        self.open_steps(tree, tree.steps().into_iter())
    }

    /// The directory of an hour in a tree; `None` if there is none.
    ///
    /// # Errors
    /// As [`Store::tree`].
    pub(crate) fn place(&self, tree: Tree, partition: &Partition) -> Result<Option<Place<'_>>, FleetError> {
        let below = partition.path();
        let steps = below.iter().filter_map(|step| step.to_str());
        self.open_steps(tree, tree.steps().into_iter().chain(steps))
    }

    /// The directory above an hour's in a tree; `None` if there is none.
    ///
    /// # Errors
    /// As [`Store::tree`].
    pub(crate) fn date(&self, tree: Tree, partition: &Partition) -> Result<Option<Place<'_>>, FleetError> {
        self.above(tree, partition, 2)
    }

    /// The directory of an hour's table in a tree; `None` if there is none.
    ///
    /// # Errors
    /// As [`Store::tree`].
    pub(crate) fn table(&self, tree: Tree, partition: &Partition) -> Result<Option<Place<'_>>, FleetError> {
        self.above(tree, partition, 1)
    }

    fn above(&self, tree: Tree, partition: &Partition, depth: usize) -> Result<Option<Place<'_>>, FleetError> {
        let below = partition.path();
        let steps = below.iter().filter_map(|step| step.to_str()).take(depth);
        self.open_steps(tree, tree.steps().into_iter().chain(steps))
    }

    /// The directory of compactors' own files, which belong to no hour.
    ///
    /// # Errors
    /// As [`Store::tree`].
    pub(crate) fn state(&self) -> Result<Option<Place<'_>>, FleetError> {
        self.open_steps(Tree::State, Tree::State.steps().into_iter().take(1))
    }

    fn open_steps<'s>(
        &self,
        tree: Tree,
        steps: impl Iterator<Item = &'s str>,
    ) -> Result<Option<Place<'_>>, FleetError> {
        let mut at = self.top()?;
        if tree.is_ours() {
            self.check_top()?;
        }
        for step in steps {
            let Some(next) = at.inner(step)? else { return Ok(None) };
            if tree.is_ours() {
                self.check_ours(&next)?;
            }
            at = next;
        }
        Ok(Some(at))
    }

    /// Opens the directory of an hour in a tree, and makes what is missing of it.
    ///
    /// # Errors
    /// As [`Store::tree`], or if it cannot be made.
    pub(crate) fn make(&self, tree: Tree, partition: &Partition) -> Result<Place<'_>, FleetError> {
        let below = partition.path();
        let steps = below.iter().filter_map(|step| step.to_str());
        self.make_steps(tree, tree.steps().into_iter().chain(steps))
    }

    /// The directory of [`Store::state`], made if it is missing.
    ///
    /// # Errors
    /// As [`Store::make`].
    pub(crate) fn make_state(&self) -> Result<Place<'_>, FleetError> {
        self.make_steps(Tree::State, Tree::State.steps().into_iter().take(1))
    }

    fn make_steps<'s>(&self, tree: Tree, steps: impl Iterator<Item = &'s str>) -> Result<Place<'_>, FleetError> {
        let mut at = self.top()?;
        if tree.is_ours() {
            self.check_top()?;
        }
        for step in steps {
            let next = match at.inner(step)? {
                Some(next) => next,
                None => self.make_inner(&at, step)?,
            };
            if tree.is_ours() {
                self.check_ours(&next)?;
            }
            at = next;
        }
        Ok(at)
    }

    /// Whoever may read the store may read what is made in it; nobody else may write there.
    fn make_inner<'s>(&'s self, at: &Place<'s>, step: &str) -> Result<Place<'s>, FleetError> {
        for _ in 0..MOST_TRIES {
            if let Some(made) = self.try_to_make(at, step)? {
                return Ok(made);
            }
        }
        Err(at.io("make", step, io::Error::from(io::ErrorKind::NotFound)))
    }

    /// `None`: another run took it for one of a run that was killed.
    fn try_to_make<'s>(&'s self, at: &Place<'s>, step: &str) -> Result<Option<Place<'s>>, FleetError> {
        let failed = |error: io::Error| at.io("make", step, error);
        let hidden = format!("{HIDDEN_PREFIX}{:016x}", random().map_err(failed)?);
        mkdirat(at.directory(), hidden.as_str(), Mode::from_raw_mode(0o700)).map_err(|error| failed(error.into()))?;
        let Some(made) = at.inner(&hidden)? else {
            return at.inner(step);
        };
        let mut mode = 0o700 | (self.mode & 0o055);
        if fchown(made.directory(), None, Some(rustix::process::Gid::from_raw(self.group))).is_err() {
            mode &= !0o050;
        }
        fchmod(made.directory(), Mode::from_raw_mode(mode)).map_err(|error| failed(error.into()))?;
        // It has its name when it has its mode: a run that is killed in between leaves none that readers cannot open.
        (self.ground.before)(Effect::Name(step)).map_err(failed)?;
        let mut renamed = renameat_with(at.directory(), hidden.as_str(), at.directory(), step, RenameFlags::NOREPLACE);
        // File systems without the flag: a directory replaces at most an empty one.
        if let Err(Errno::INVAL | Errno::NOSYS) = renamed
            && at.inner(step)?.is_none()
        {
            renamed = renameat(at.directory(), hidden.as_str(), at.directory(), step);
        }
        match renamed {
            // Another run was faster, or has swept ours.
            Err(Errno::EXIST | Errno::NOTEMPTY | Errno::NOENT | Errno::INVAL | Errno::NOSYS) => {}
            renamed => renamed.map_err(|error| failed(error.into()))?,
        }
        // Those of runs that were killed, and of slower ones, which try again.
        for name in at.names()?.texts.iter().filter(|name| name.starts_with(HIDDEN_PREFIX)) {
            // A hidden file, or a directory with something in it, stays.
            let _ = unlinkat(at.directory(), name.as_str(), AtFlags::REMOVEDIR);
        }
        at.sync()?;
        at.inner(step)
    }

    /// Whether nobody else can have replaced the trees.
    fn check_top(&self) -> Result<(), FleetError> {
        match self.mode & OTHERS_WRITE != 0 && self.mode & STICKY == 0 {
            true => Err(self.untrusted(self.path(), "others than its owner may write it".to_owned())),
            false => Ok(()),
        }
    }

    fn check_ours(&self, place: &Place<'_>) -> Result<(), FleetError> {
        let found = fstat(place.directory()).map_err(|error| place.io("read", "", error.into()))?;
        if !self.believes(found.st_uid) {
            return Err(self.untrusted(place.path(), format!("it belongs to user {}", found.st_uid)));
        }
        match found.st_mode & OTHERS_WRITE {
            0 => Ok(()),
            _ => Err(self.untrusted(place.path(), "others than its owner may write it".to_owned())),
        }
    }

    /// Whether this user is trusted: root, the reader, and the owner of the store's directory.
    pub(crate) fn believes(&self, user: u32) -> bool {
        user == 0 || user == rustix::process::geteuid().as_raw() || user == self.owner
    }

    fn untrusted(&self, path: &Path, why: String) -> FleetError {
        FleetError::Untrusted { path: path.to_owned(), why }
    }

    /// Takes the lock of the store, to change it.
    ///
    /// # Errors
    /// If another process has it, or it cannot be made.
    pub(crate) fn lock(&self) -> Result<Locked, FleetError> {
        let state = self.make_state()?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(state.directory(), LOCK_NAME, flags, LOCK_MODE);
        let file = file.map_err(|error| state.io("open", LOCK_NAME, error.into()))?;
        // Versions before this one made it readable.
        fchmod(&file, LOCK_MODE).map_err(|error| state.io("lock", LOCK_NAME, error.into()))?;
        locked(&state, file, FlockOperation::NonBlockingLockExclusive)
    }

    /// Keeps others from changing the store while it is read; `None` if nobody has ever changed it.
    ///
    /// # Errors
    /// If another process changes it.
    pub(crate) fn lock_shared(&self) -> Result<Option<Locked>, FleetError> {
        let Some(state) = self.state()? else { return Ok(None) };
        let file = match openat(
            state.directory(),
            LOCK_NAME,
            OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            Mode::empty(),
        ) {
            Err(Errno::NOENT) => return Ok(None),
            opened => opened.map_err(|error| state.io("open", LOCK_NAME, error.into()))?,
        };
        locked(&state, file, FlockOperation::NonBlockingLockShared).map(Some)
    }
}

fn locked(state: &Place<'_>, file: OwnedFd, how: FlockOperation) -> Result<Locked, FleetError> {
    match flock(file.as_fd(), how) {
        Ok(()) => Ok(Locked(File::from(file))),
        Err(Errno::WOULDBLOCK) => Err(FleetError::Busy { path: state.path().join(LOCK_NAME) }),
        Err(error) => Err(state.io("lock", LOCK_NAME, error.into())),
    }
}

impl Store {
    /// Reads a compactor's own file that belongs to no hour; `None` if there is none.
    ///
    /// # Errors
    /// If it cannot be read, or others may have written it.
    pub(crate) fn note(&self, name: &str, limit: u64) -> Result<Option<Vec<u8>>, FleetError> {
        let Some(state) = self.state()? else { return Ok(None) };
        Ok(state.read(name, limit)?.map(|content| content.bytes.to_vec()))
    }

    /// Writes such a file, or replaces it.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn put_note(&self, name: &str, bytes: &[u8]) -> Result<(), FleetError> {
        let readers = Readers::of(self.mode, self.group);
        self.make_state()?.write(name, readers, |file| file.write_all(bytes))
    }
}
