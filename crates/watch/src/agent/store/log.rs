//! `episodes.jsonl`: an append-only log with a line for each record of an episode. Readers take the last record.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use unstarve_files::trust::{Directory, How};
use unstarve_files::{Limit, ReadError, read_regular};

use super::store_dir::StoreDir;
use super::{LOGGED, StoreError};
use crate::episode::{Episode, Stage};

const NAME: &str = "episodes.jsonl";
/// The name of the previous log after rotation.
const BEFORE: &str = "episodes.1.jsonl";
/// Size at which the log is rotated, about ten thousand lines.
const LONGEST: u64 = 16 << 20;

/// Maximum size to read. The log is rotated when longer than [`LONGEST`], with room for one more line.
const LIMIT: Limit = Limit { bytes: LONGEST + (16 << 20), expected: "a log of episodes" };

/// Maximum lines kept in memory while the disk cannot be written. Beyond that the oldest are lost.
const MOST_WAITING: usize = 256;

/// The log, for several threads that append to it one after another; it can be rotated meanwhile.
#[derive(Clone, Debug)]
pub struct Logbook {
    lines: Arc<Mutex<Lines>>,
    /// Number of waiting lines, readable without waiting for the disk.
    count: Arc<AtomicUsize>,
    path: Arc<Path>,
}

#[derive(Debug)]
struct Lines {
    home: Arc<StoreDir>,
    /// Lines not on the disk yet, oldest first.
    waiting: VecDeque<Line>,
    count: Arc<AtomicUsize>,
}

#[derive(Debug)]
struct Line {
    text: Vec<u8>,
    /// The episode to mark as logged, if it has a directory.
    id: Option<String>,
}

impl Logbook {
    pub(super) fn of(home: &Arc<StoreDir>) -> Logbook {
        let count = Arc::new(AtomicUsize::new(0));
        let lines = Lines { home: Arc::clone(home), waiting: VecDeque::new(), count: Arc::clone(&count) };
        Logbook { lines: Arc::new(Mutex::new(lines)), count, path: home.path().join(NAME).into() }
    }

    /// Appends an episode behind the lines that could not be written before, and waits until it is on the disk; then marks its directory, if it has
    /// one, as logged. A line that cannot be written now waits for the next call.
    ///
    /// # Errors
    /// If a system call fails, if the directory can be changed by other users now, or if another watch has taken it.
    pub fn add(&self, episode: &Episode) -> Result<(), StoreError> {
        let text = serde_json::to_vec(episode).map_err(io::Error::from).map_err(StoreError::io(&self.path))?;
        let id = episode.trace_bytes.map(|_| episode.id.clone());
        let mut lines = self.lines();
        if lines.waiting.len() >= MOST_WAITING {
            lines.waiting.pop_front();
        }
        lines.waiting.push_back(Line { text, id });
        lines.write()
    }

    /// Appends the lines that could not be written before.
    ///
    /// # Errors
    /// As [`Logbook::add`].
    pub fn add_waiting(&self) -> Result<(), StoreError> {
        let mut lines = self.lines();
        if lines.waiting.is_empty() { Ok(()) } else { lines.write() }
    }

    /// Number of lines that are not on the disk, including one that is being written.
    pub fn waiting(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// The path of the log.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lines {
    fn write(&mut self) -> Result<(), StoreError> {
        self.count.store(self.waiting.len(), Ordering::Relaxed);
        let directory = self.home.directory()?;
        let mut log = Log::open(&directory)?;
        let mut noted = Ok(());
        while let Some(Line { text, id }) = self.waiting.front() {
            log.add(text)?;
            // The line is written, even if marking fails.
            noted = noted.and(id.as_deref().map_or(Ok(()), |id| note_logged(&directory.path().join(id))));
            self.waiting.pop_front();
            self.count.store(self.waiting.len(), Ordering::Relaxed);
        }
        noted
    }
}

/// Marks an episode as logged. Not needed if it has been removed since.
fn note_logged(path: &Path) -> Result<(), StoreError> {
    if path.symlink_metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
        return Ok(());
    }
    // If a crash loses the mark, nothing is lost: the line is in the log, which will not be rotated soon.
    Directory::open(path)?.replace(OsStr::new(LOGGED), b"", 0o600).map_err(StoreError::io(path))
}

/// The log, open for appending.
#[derive(Debug)]
struct Log {
    file: File,
    path: PathBuf,
}

/// The contents of a store's log.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct LogRead {
    /// The episodes, oldest first; of each the last record.
    pub episodes: Vec<Episode>,
    /// Number of lines that are not episodes: partial writes of a killed process.
    pub torn: u64,
}

impl Log {
    fn open(directory: &Directory) -> Result<Log, StoreError> {
        let mut file = directory.file(OsStr::new(NAME), How::Append)?;
        let path = directory.path().join(NAME);
        if file.metadata().is_ok_and(|metadata| metadata.len() > LONGEST) {
            directory.rename(OsStr::new(NAME), OsStr::new(BEFORE)).map_err(StoreError::io(&path))?;
            file = directory.file(OsStr::new(NAME), How::Append)?;
        }
        if file.metadata().is_ok_and(|metadata| metadata.len() == 0) {
            // Without its name on the disk, the file's contents would be lost.
            directory.sync().map_err(StoreError::io(&path))?;
        }
        Ok(Log { file, path })
    }

    /// Appends a line, and waits until it is on the disk. Readers skip a line that was written partially before the system call failed.
    fn add(&mut self, line: &[u8]) -> Result<(), StoreError> {
        let appended = self.append(line);
        appended.map_err(StoreError::io(&self.path))
    }

    fn append(&mut self, text: &[u8]) -> io::Result<()> {
        let mut line = Vec::with_capacity(text.len() + 2);
        if !self.is_at_line_start()? {
            // A process was killed in the middle of a line.
            line.push(b'\n');
        }
        line.extend_from_slice(text);
        line.push(b'\n');
        self.file.write_all(&line)?;
        self.file.sync_data()
    }

    fn is_at_line_start(&mut self) -> io::Result<bool> {
        if self.file.seek(SeekFrom::End(0))? == 0 {
            return Ok(true);
        }
        self.file.seek(SeekFrom::End(-1))?;
        let mut last = [0];
        self.file.read_exact(&mut last)?;
        Ok(last == *b"\n")
    }
}

pub(super) fn read(directory: &Path) -> Result<LogRead, StoreError> {
    let mut read = LogRead::default();
    for name in [BEFORE, NAME] {
        let path = directory.join(name);
        // The store may belong to another user.
        let text = match read_regular(&path, LIMIT) {
            Ok(text) => text,
            Err(error) if error.is_absent() => continue,
            Err(ReadError::Io { source, .. }) => return Err(StoreError::unreadable(&path)(source)),
            Err(error) => return Err(StoreError::unreadable(&path)(io::Error::other(error))),
        };
        for line in text.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
            match serde_json::from_slice(line) {
                Ok(episode) => read.episodes.push(episode),
                Err(_) => read.torn += 1,
            }
        }
    }
    leave_out_earlier_words(&mut read.episodes);
    Ok(read)
}

/// Keeps of each episode the record of the latest stage, and of several of one stage the last. Threads may have added them in another order.
fn leave_out_earlier_words(episodes: &mut Vec<Episode>) {
    let mut last: BTreeMap<String, (Stage, usize)> = BTreeMap::new();
    for (at, episode) in episodes.iter().enumerate() {
        let known = last.entry(episode.id.clone()).or_insert((episode.stage, at));
        *known = (*known).max((episode.stage, at));
    }
    let later = episodes.iter().filter(|episode| episode.stage > Stage::Begun);
    let announced: BTreeSet<String> = later.filter_map(|episode| episode.announced_as.clone()).collect();
    let mut at = 0..;
    episodes.retain(|episode| {
        let is_last = last.get(&episode.id).map(|(_, at)| *at) == at.next();
        is_last && (episode.stage > Stage::Begun || !announced.contains(&episode.id))
    });
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use crate::agent::store::Limits;

    /// fsync(2) takes as long as the disk is stalled, and the lock is held meanwhile.
    #[test]
    fn who_asks_how_many_lines_wait_waits_for_no_disk() {
        let (_place, store) = crate::testing::store(Limits { bytes: 1, episodes: 1 });
        let (book, asked) = (store.logbook(), store.logbook());
        let (sender, receiver) = channel();
        let held = book.lines();
        let asking = std::thread::spawn(move || sender.send(asked.waiting()));
        let count = receiver.recv_timeout(Duration::from_secs(20));
        drop(held);
        assert_eq!(count, Ok(0));
        asking.join().expect("ended").expect("somebody listens");
    }
}
