//! The store of episodes: a directory for each, and a log of all of them.
//!
//! ```text
//! /var/lib/unstarve/watch/
//!   episodes.jsonl              append-only log: the last line of an episode counts
//!   20261123-012345-678/        complete: renamed from .new-… when its trace was on the disk
//!     trace.dat  episode.json   and, once explained, report.json, report.html; along.json if others share the trace
//!     logged                    exists once the episode is in the log
//!   unsent.json                 what outputs had not delivered when the watch ended
//!   store.lock                  locked by the watch that uses the store
//! ```
//!
//! A killed process, or a crash, leaves at most: a directory `.new-…`, which the next watch removes; an episode with a trace that is not in the log
//! yet, which the next watch explains; and a partial last line of the log, which readers skip. So the contents of a directory are on the disk
//! (fsync) before it is renamed, and the rename is on the disk before the episode is logged.

mod crash_leftovers;
mod keep;
mod log;
mod outbox;
mod partial_write;
mod store_dir;
mod unfinished;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use unstarve_files::trust::{Directory, TrustError};

pub use crash_leftovers::Left;
pub use keep::{Expected, Kept};
pub(crate) use keep::{ExpectedByRank, Rank};
pub use log::{LogRead, Logbook};
pub use outbox::{Outbox, Unsent};
pub use store_dir::is_held;
pub use unfinished::Unfinished;

use self::keep::Entry;
use self::store_dir::StoreDir;
use crate::episode::{Episode, is_id};

/// The file of the trace.
pub const TRACE: &str = "trace.dat";
/// The file with the episode's record, as in the log.
pub const EPISODE: &str = "episode.json";
/// The file with the output of `explain --json`.
pub const REPORT: &str = "report.json";
/// The file with the output of `report`.
pub const PAGE: &str = "report.html";

/// The file with the episodes that share the trace.
const ALONG: &str = "along.json";
/// Empty file: the episode has been logged, even if the log was rotated since.
const LOGGED: &str = "logged";

const UNFINISHED: &str = ".new-";

/// Bytes written to test whether writing is possible.
const PROBE: usize = 4096;

/// The end of [`EPISODE`] if it is complete.
const END_OF_EPISODE: &[u8] = b"}\n";

/// Maximum size to read; an episode's JSON has a few KiB.
const LARGEST_EPISODE: u64 = 1 << 20;

/// Errors of the store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The directory could be changed by other users.
    #[error("the directory for episodes cannot be used")]
    Untrusted(#[from] TrustError),
    /// Writing failed.
    #[error("cannot write {}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the system call.
        source: io::Error,
    },
    /// Reading failed.
    #[error("cannot read {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of the system call.
        source: io::Error,
    },
    /// Another watch uses the store.
    #[error("another watch keeps its episodes in {}; stop it first, or give this one another store.directory", .0.display())]
    Busy(PathBuf),
    /// Only episodes could be removed that the new one must not displace: of kernel threads by one of programs, any by a dump.
    #[error(
        "{} is full of episodes that this one does not push out; remove some, or raise store.episodes or store.mib", .0.display()
    )]
    Reserved(PathBuf),
}

impl StoreError {
    fn io(path: &Path) -> impl FnOnce(io::Error) -> StoreError {
        let path = path.to_owned();
        move |source| StoreError::Io { path, source }
    }

    fn unreadable(path: &Path) -> impl FnOnce(io::Error) -> StoreError {
        let path = path.to_owned();
        move |source| StoreError::Unreadable { path, source }
    }
}

/// The limits of the store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Bytes of all episodes.
    pub bytes: u64,
    /// Number of episodes.
    pub episodes: usize,
}

/// The store, open for writing: by one thread that keeps episodes, and one that explains them.
#[derive(Debug)]
pub struct Store {
    home: Arc<StoreDir>,
    logbook: Logbook,
    state: Mutex<State>,
    /// Lines for people about episodes that a crash left incomplete.
    torn: Vec<String>,
}

#[derive(Debug)]
struct State {
    limits: Limits,
    /// The greatest sequence number so far, as far as the log goes back.
    last: Option<u64>,
    /// Complete episodes that are not explained yet: they are not removed to make room.
    unexplained: BTreeMap<String, Rank>,
    /// The same for episodes left by an earlier watch.
    left: BTreeSet<String>,
}

impl State {
    /// Whether an episode must not be removed now.
    fn is_held(&self, id: &str) -> bool {
        self.unexplained.contains_key(id) || self.left.contains(id)
    }
}

impl Store {
    /// Opens the directory, creating it if necessary. Removes what killed processes or a crash left unfinished.
    ///
    /// # Errors
    /// If it cannot be created, if users other than root and this one can change it, or if another process has it open.
    pub fn open(path: &Path, limits: Limits) -> Result<Store, StoreError> {
        let home = Arc::new(StoreDir::open(path)?);
        // From the log, because the episode with the greatest number may have been removed.
        let logged = log::read(home.path())?.episodes;
        let last = logged.iter().filter_map(|episode| episode.sequence).max();
        let logbook = Logbook::of(&home);
        let state = Mutex::new(State { limits, last, unexplained: BTreeMap::new(), left: BTreeSet::new() });
        let mut store = Store { home, logbook, state, torn: Vec::new() };
        for name in store.names()? {
            if name.starts_with(UNFINISHED) {
                let _ = fs::remove_dir_all(store.path().join(name));
            }
        }
        store.torn = store.remove_torn(&logged)?;
        Ok(store)
    }

    /// Lines for people: what was incomplete when the store was opened, and what was done about it.
    pub fn torn(&self) -> &[String] {
        &self.torn
    }

    /// The path of the store.
    pub fn path(&self) -> &Path {
        self.home.path()
    }

    /// Whether the directory has been replaced by another one since the last call.
    pub(crate) fn was_replaced(&self) -> bool {
        self.home.was_replaced()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets new limits.
    pub fn limit(&self, limits: Limits) {
        self.state().limits = limits;
    }

    /// Makes room for `expected` bytes, and creates a directory for an episode; it gets another id if its own is taken.
    ///
    /// # Errors
    /// If a system call fails, or if the episode may not displace those that would have to be removed.
    pub fn begin(&self, episode: &Episode, expected: impl Into<Expected>) -> Result<Unfinished, StoreError> {
        self.begin_with(episode, &[], expected)
    }

    /// The same for an episode whose trace others share: it can displace what any of them can.
    pub(crate) fn begin_with(
        &self,
        episode: &Episode,
        along: &[Episode],
        expected: impl Into<Expected>,
    ) -> Result<Unfinished, StoreError> {
        self.home.directory()?;
        // Before episodes are removed.
        let last = self.entries()?.iter().filter_map(|entry| entry.sequence).max().max(self.state().last);
        let removed = self.make_room(expected.into(), Rank::of_all(episode, along))?;
        let taken = |id: &str| self.path().join(id).exists();
        let own = std::iter::once(episode.id.clone());
        let names = own.chain((2..).map(|number| format!("{}-{number}", episode.id)));
        let id = names.take(999).find(|id| !taken(id)).unwrap_or_else(|| episode.id.clone());
        let path = self.path().join(format!("{UNFINISHED}{id}"));
        // Remains of a failed attempt.
        let _ = fs::remove_dir_all(&path);
        // By path: only we can change the parent directory.
        Directory::make(&path)?;
        let sequence = last.map_or(0, |last| last.saturating_add(1));
        self.state().last = Some(sequence);
        Ok(Unfinished { path, id, sequence, removed })
    }

    /// Whether there is room for an episode of programs, which can displace the fewest others.
    pub(crate) fn has_room_for_programs(&self, expected: impl Into<Expected>) -> bool {
        self.room(expected.into(), Rank::Programs).is_ok()
    }

    /// Whether an episode of `expected` bytes could be written now. Also writes the waiting lines of the log.
    ///
    /// # Errors
    /// Why it could not.
    pub(crate) fn try_again(&self, expected: impl Into<Expected>) -> Result<(), StoreError> {
        self.home.directory()?;
        self.room(expected.into(), Rank::Kernel)?;
        let path = self.path().join(format!("{UNFINISHED}probe"));
        let _ = fs::remove_dir_all(&path);
        let tried = Directory::make(&path).map_err(StoreError::from).and_then(|directory| {
            directory.replace_durably(OsStr::new(EPISODE), &[b' '; PROBE], 0o600).map_err(StoreError::io(&path))
        });
        let _ = fs::remove_dir_all(&path);
        tried.and_then(|()| self.logbook.add_waiting())
    }

    /// The ids of all complete episodes, oldest first.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn ids(&self) -> Result<Vec<String>, StoreError> {
        Ok(self.entries()?.into_iter().map(|entry| entry.id).collect())
    }

    /// All complete episodes by sequence: ids follow the wall clock, which may have been set back.
    fn entries(&self) -> Result<Vec<Entry>, StoreError> {
        let ids = self.names()?.into_iter().filter(|name| is_id(name));
        let mut entries: Vec<Entry> = ids.map(|id| Entry::of(self.episode(&id), &self.along(&id), id)).collect();
        // Those without a number were written by an earlier version.
        entries.sort_by(|a, b| (a.sequence, &a.id).cmp(&(b.sequence, &b.id)));
        Ok(entries)
    }

    fn names(&self) -> Result<Vec<String>, StoreError> {
        names_in(self.path()).map_err(StoreError::unreadable(self.path()))
    }

    /// The directory of an episode.
    pub fn directory_of(&self, id: &str) -> PathBuf {
        self.path().join(id)
    }

    /// The record of an episode; `None` if it cannot be read.
    pub fn episode(&self, id: &str) -> Option<Episode> {
        let directory = Directory::open(&self.directory_of(id)).ok()?;
        let bytes = directory.read(OsStr::new(EPISODE), LARGEST_EPISODE).ok()??;
        serde_json::from_slice(&bytes).ok()
    }

    /// Rewrites the record of an episode. All names in its directory are on the disk then, including those of its report.
    ///
    /// # Errors
    /// If a system call fails.
    pub fn note(&self, episode: &Episode) -> Result<(), StoreError> {
        let path = self.directory_of(&episode.id);
        let directory = Directory::open(&path)?;
        note_in(&directory, episode).and_then(|()| directory.sync()).map_err(StoreError::io(&path))
    }

    /// Adds a record of an episode to the log, and replaces the one beside its trace, if it has its own and that was not removed.
    ///
    /// # Errors
    /// If a system call fails, see [`Logbook::add`].
    pub(crate) fn add(&self, episode: &Episode) -> Result<(), StoreError> {
        let has_own = episode.trace_bytes.is_some() && self.directory_of(&episode.id).symlink_metadata().is_ok();
        let noted = if has_own { self.note(episode) } else { Ok(()) };
        self.logbook.add(episode).and(noted)
    }

    /// Marks an episode as explained: it can be removed to make room.
    pub(crate) fn is_explained(&self, id: &str) {
        let mut state = self.state();
        state.unexplained.remove(id);
        state.left.remove(id);
    }

    /// Marks an episode of an earlier watch as being explained: it is not removed until then.
    pub(crate) fn is_to_be_explained(&self, id: &str) {
        self.state().left.insert(id.to_owned());
    }

    /// Number of this watch's episodes of a rank that are still to be explained, including the one in progress.
    pub(crate) fn unexplained_now(&self, rank: Rank) -> usize {
        self.state().unexplained.values().filter(|waits| **waits == rank).count()
    }

    /// Records what outputs have not delivered.
    pub fn outbox(&self) -> Outbox {
        Outbox::of(&self.home)
    }

    /// The log, for appending.
    pub fn logbook(&self) -> Logbook {
        self.logbook.clone()
    }
}

/// The directory with an episode's trace: its own, or that of the episode whose trace shows it too. `None` if there is no trace.
///
/// # Errors
/// If the store cannot be read.
pub fn trace_directory(store: &Path, id: &str) -> Result<Option<PathBuf>, StoreError> {
    let has_trace = |id: &str| {
        let directory = store.join(id);
        // The owner of the store may have put anything there.
        let trace = match directory.symlink_metadata() {
            Ok(is) if !is.is_dir() => Err(io::Error::new(io::ErrorKind::InvalidInput, "expected a directory")),
            is => is.and_then(|_| directory.join(TRACE).symlink_metadata()),
        };
        match trace {
            Ok(_) => Ok(Some(directory)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(StoreError::unreadable(&directory)(error)),
        }
    };
    if let Some(directory) = has_trace(id)? {
        return Ok(Some(directory));
    }
    let of = |episode: &Episode| episode.trace_of.clone().filter(|other| episode.id == id && is_id(other));
    match log::read(store)?.episodes.iter().find_map(of) {
        Some(other) => has_trace(&other),
        None => Ok(None),
    }
}

/// Reads the log of a store, for any user who can read the directory.
///
/// # Errors
/// If it cannot be read.
pub fn read_log(directory: &Path) -> Result<LogRead, StoreError> {
    log::read(directory)
}

fn note_in(directory: &Directory, episode: &Episode) -> io::Result<()> {
    let mut bytes = serde_json::to_vec_pretty(episode)?;
    bytes.push(b'\n');
    directory.replace_durably(OsStr::new(EPISODE), &bytes, 0o600)
}

fn names_in(path: &Path) -> io::Result<Vec<String>> {
    fs::read_dir(path)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
}

#[cfg(test)]
mod tests;
