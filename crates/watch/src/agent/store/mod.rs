//! Where episodes are kept: a directory for each, and a log of all of them.
//!
//! ```text
//! /var/lib/unstarve/watch/
//!   episodes.jsonl              lines about each, only ever added to: the last one counts
//!   20261123-012345-678/        whole: renamed from .new-… when its trace was on the disk
//!     trace.dat  episode.json   and, once explained, report.json, report.html; along.json if others share the trace
//!     logged                    the log has it
//!   unsent.json                 what outputs had not got when the watch ended
//!   store.lock                  held by the watch whose store it is
//! ```
//!
//! A process that is killed, or a machine that stops, leaves at most a directory `.new-…`, which the next one removes; an episode whose
//! trace is there and that is not in the log yet, which the next one explains; and a torn last line of the log, which readers leave out.
//! So what is in a directory is on the disk (fsync) before it has its name, and its name is before the log has it.

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
use self::store_dir::Home;
use crate::episode::{Episode, is_id};

/// A trace.
pub const TRACE: &str = "trace.dat";
/// What the log says of it.
pub const EPISODE: &str = "episode.json";
/// `explain --json` of it.
pub const REPORT: &str = "report.json";
/// `report` of it.
pub const PAGE: &str = "report.html";

/// The episodes that share the trace.
const ALONG: &str = "along.json";
/// Empty: the episode is in the log, though the log may have been begun anew since.
const LOGGED: &str = "logged";

const UNFINISHED: &str = ".new-";

/// Bytes of a try whether anything can be written.
const PROBE: usize = 4096;

/// How [`EPISODE`] ends where it is whole.
const END_OF_EPISODE: &[u8] = b"}\n";

/// An episode's JSON is some KiB.
const LARGEST_EPISODE: u64 = 1 << 20;

/// What the store refuses.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The directory could be changed by others.
    #[error("the directory for episodes cannot be used")]
    Untrusted(#[from] TrustError),
    /// The system refuses to write.
    #[error("cannot write {}", path.display())]
    Io {
        /// What.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The system refuses to read.
    #[error("cannot read {}", path.display())]
    Unreadable {
        /// What.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Another watch keeps its episodes there.
    #[error("another watch keeps its episodes in {}; stop it first, or give this one another store.directory", .0.display())]
    Busy(PathBuf),
    /// All that would have to go is of the kernel's threads, and what is new is not.
    #[error(
        "{} is full of episodes of kernel threads, which one of programs does not push out; remove some, or raise store.episodes or \
         store.mib", .0.display()
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

/// How much is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Bytes of all episodes.
    pub bytes: u64,
    /// Their number.
    pub episodes: usize,
}

/// The store, open for writing: by one thread that keeps episodes, and one that explains them.
#[derive(Debug)]
pub struct Store {
    home: Arc<Home>,
    logbook: Logbook,
    state: Mutex<State>,
    /// What the disk had not got of episodes when the machine stopped, for people.
    torn: Vec<String>,
}

#[derive(Debug)]
struct State {
    limits: Limits,
    /// The greatest sequence that any episode of it ever had, as far as its log goes back.
    last: Option<u64>,
    /// Episodes that are whole and not explained yet: they are not removed to make room.
    unexplained: BTreeMap<String, Rank>,
    /// The same of those that a watch before this one left.
    left: BTreeSet<String>,
}

impl State {
    /// Whether an episode must not be removed now.
    fn is_held(&self, id: &str) -> bool {
        self.unexplained.contains_key(id) || self.left.contains(id)
    }
}

impl Store {
    /// Opens the directory, and makes it if it is not there. What killed processes, or a machine that stopped, left unfinished is removed.
    ///
    /// # Errors
    /// If it cannot be made, if others than root and we can change it, or if another process has it open.
    pub fn open(path: &Path, limits: Limits) -> Result<Store, StoreError> {
        let home = Arc::new(Home::open(path)?);
        // The episode with the greatest one may have been removed.
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

    /// What was found half there when it was opened, and what became of it: lines for people.
    pub fn torn(&self) -> &[String] {
        &self.torn
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.home.path()
    }

    /// Whether another directory has taken the place of the one that was there, since this was asked last.
    pub(crate) fn was_replaced(&self) -> bool {
        self.home.was_replaced()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Other limits from now on.
    pub fn limit(&self, limits: Limits) {
        self.state().limits = limits;
    }

    /// Makes room for `expected` bytes, and a directory for an episode, which gets another id if its own is taken.
    ///
    /// # Errors
    /// If the system refuses, or if only episodes could go that this one does not push out.
    pub fn begin(&self, episode: &Episode, expected: impl Into<Expected>) -> Result<Unfinished, StoreError> {
        self.begin_with(episode, &[], expected)
    }

    /// The same of an episode whose trace others share: it may push out what one of them may.
    pub(crate) fn begin_with(
        &self,
        episode: &Episode,
        along: &[Episode],
        expected: impl Into<Expected>,
    ) -> Result<Unfinished, StoreError> {
        self.home.directory()?;
        // Before any goes.
        let last = self.entries()?.iter().filter_map(|entry| entry.sequence).max().max(self.state().last);
        let removed = self.make_room(expected.into(), Rank::of_all(episode, along))?;
        let taken = |id: &str| self.path().join(id).exists();
        let own = std::iter::once(episode.id.clone());
        let names = own.chain((2..).map(|number| format!("{}-{number}", episode.id)));
        let id = names.take(999).find(|id| !taken(id)).unwrap_or_else(|| episode.id.clone());
        let path = self.path().join(format!("{UNFINISHED}{id}"));
        // Left by a try of ours that failed.
        let _ = fs::remove_dir_all(&path);
        // By its path: nobody but us can change the directory that it is in.
        Directory::make(&path)?;
        let sequence = last.map_or(0, |last| last.saturating_add(1));
        self.state().last = Some(sequence);
        Ok(Unfinished { path, id, sequence, removed })
    }

    /// Whether an episode of programs would get its place: the least that may push out others.
    pub(crate) fn has_room_for_programs(&self, expected: impl Into<Expected>) -> bool {
        self.room(expected.into(), Rank::Programs).is_ok()
    }

    /// Whether an episode of `expected` bytes could be written now. What the log waits for is written.
    ///
    /// # Errors
    /// Why not.
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

    /// The ids of all episodes that are whole, oldest first.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn ids(&self) -> Result<Vec<String>, StoreError> {
        Ok(self.entries()?.into_iter().map(|entry| entry.id).collect())
    }

    /// All episodes that are whole, in the order in which they came: ids are in that of the wall's clock, which may have been set back.
    fn entries(&self) -> Result<Vec<Entry>, StoreError> {
        let ids = self.names()?.into_iter().filter(|name| is_id(name));
        let mut entries: Vec<Entry> = ids.map(|id| Entry::of(self.episode(&id), &self.along(&id), id)).collect();
        // Those without a number are of a program before there was one.
        entries.sort_by(|a, b| (a.sequence, &a.id).cmp(&(b.sequence, &b.id)));
        Ok(entries)
    }

    fn names(&self) -> Result<Vec<String>, StoreError> {
        names_in(self.path()).map_err(StoreError::unreadable(self.path()))
    }

    /// Where an episode is.
    pub fn directory_of(&self, id: &str) -> PathBuf {
        self.path().join(id)
    }

    /// What is known of an episode; `None` if nothing can be read.
    pub fn episode(&self, id: &str) -> Option<Episode> {
        let directory = Directory::open(&self.directory_of(id)).ok()?;
        let bytes = directory.read(OsStr::new(EPISODE), LARGEST_EPISODE).ok()??;
        serde_json::from_slice(&bytes).ok()
    }

    /// Writes what is known of an episode anew. All names in its directory are on the disk then: those of its report, too.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn note(&self, episode: &Episode) -> Result<(), StoreError> {
        let path = self.directory_of(&episode.id);
        let directory = Directory::open(&path)?;
        note_in(&directory, episode).and_then(|()| directory.sync()).map_err(StoreError::io(&path))
    }

    /// Nothing more is written of an episode: it may be removed to make room.
    pub(crate) fn is_explained(&self, id: &str) {
        let mut state = self.state();
        state.unexplained.remove(id);
        state.left.remove(id);
    }

    /// An episode that a watch before this one left is going to be explained: it is not removed before.
    pub(crate) fn is_to_be_explained(&self, id: &str) {
        self.state().left.insert(id.to_owned());
    }

    /// How many of this watch's episodes of a rank wait to be explained, that which is being explained included.
    pub(crate) fn unexplained_now(&self, rank: Rank) -> usize {
        self.state().unexplained.values().filter(|waits| **waits == rank).count()
    }

    /// What outputs have not got is noted there.
    pub fn outbox(&self) -> Outbox {
        Outbox::of(&self.home)
    }

    /// The log, for adding lines.
    pub fn logbook(&self) -> Logbook {
        self.logbook.clone()
    }
}

/// Where the trace of an episode is: its own directory, or that of the episode whose trace shows it, too. `None` if there is none.
///
/// # Errors
/// If the store cannot be read.
pub fn trace_directory(store: &Path, id: &str) -> Result<Option<PathBuf>, StoreError> {
    let has_trace = |id: &str| {
        let directory = store.join(id);
        // Whose store it is may have put anything there.
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

/// The log of a store, for anybody who may read the directory.
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
