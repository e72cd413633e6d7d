//! `episodes.jsonl`: a line for each word on an episode, only ever added to. Readers take the last word.

use std::collections::{BTreeSet, VecDeque};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use unstarve_files::trust::{Directory, How};
use unstarve_files::{Limit, ReadError, read_regular};

use super::store_dir::Home;
use super::{LOGGED, StoreError};
use crate::episode::{Episode, Stage};

const NAME: &str = "episodes.jsonl";
/// What the log is called when it has become long, until the next one has.
const BEFORE: &str = "episodes.1.jsonl";
/// Some ten thousand lines.
const LONGEST: u64 = 16 << 20;

/// Begun anew when it is longer than [`LONGEST`]: one more line fits.
const LIMIT: Limit = Limit { bytes: LONGEST + (16 << 20), expected: "a log of episodes" };

/// Lines that wait for a disk that cannot be written. Of more the oldest are lost.
const MOST_WAITING: usize = 256;

/// The log, for threads that add to it, one after another: it may be begun anew meanwhile.
#[derive(Clone, Debug)]
pub struct Logbook {
    lines: Arc<Mutex<Lines>>,
    /// How many lines wait. Who asks waits for no disk.
    count: Arc<AtomicUsize>,
    path: Arc<Path>,
}

#[derive(Debug)]
struct Lines {
    home: Arc<Home>,
    /// Not on the disk yet, oldest first.
    waiting: VecDeque<Line>,
    count: Arc<AtomicUsize>,
}

#[derive(Debug)]
struct Line {
    text: Vec<u8>,
    /// The episode, if it has a directory, where it is noted that the log has it.
    id: Option<String>,
}

impl Logbook {
    pub(super) fn of(home: &Arc<Home>) -> Logbook {
        let count = Arc::new(AtomicUsize::new(0));
        let lines = Lines { home: Arc::clone(home), waiting: VecDeque::new(), count: Arc::clone(&count) };
        Logbook { lines: Arc::new(Mutex::new(lines)), count, path: home.path().join(NAME).into() }
    }

    /// Adds an episode, and waits until it is on the disk, behind those that could not be written before; notes in its directory, if it has
    /// one, that the log has it. If it cannot be written now it waits for the next time.
    ///
    /// # Errors
    /// If the system refuses, or if the directory can be changed by others now, or has become another watch's.
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

    /// Adds what could not be written before.
    ///
    /// # Errors
    /// As [`Logbook::add`].
    pub fn add_waiting(&self) -> Result<(), StoreError> {
        let mut lines = self.lines();
        if lines.waiting.is_empty() { Ok(()) } else { lines.write() }
    }

    /// How many lines are not on the disk, one that is being written included.
    pub fn waiting(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Where it is.
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
            // The line is out, whatever becomes of the note.
            noted = noted.and(id.as_deref().map_or(Ok(()), |id| note_logged(&directory.path().join(id))));
            self.waiting.pop_front();
            self.count.store(self.waiting.len(), Ordering::Relaxed);
        }
        noted
    }
}

/// Notes that the log has an episode. One that has been removed since needs no note.
fn note_logged(path: &Path) -> Result<(), StoreError> {
    if path.symlink_metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
        return Ok(());
    }
    // Lost with a machine that stops it costs nothing: the log itself has the line, and is not begun anew so soon.
    Directory::open(path)?.replace(OsStr::new(LOGGED), b"", 0o600).map_err(StoreError::io(path))
}

/// The log, for adding.
#[derive(Debug)]
struct Log {
    file: File,
    path: PathBuf,
}

/// What the log of a store says.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct LogRead {
    /// Its episodes, oldest first; of each the last word.
    pub episodes: Vec<Episode>,
    /// Lines that are no episodes: torn by a kill in the middle of one.
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
            // What is written to it is lost without its name.
            directory.sync().map_err(StoreError::io(&path))?;
        }
        Ok(Log { file, path })
    }

    /// Adds a line, and waits until it is on the disk. A part of it that was written before the system refused is left out by readers.
    fn add(&mut self, line: &[u8]) -> Result<(), StoreError> {
        let appended = self.append(line);
        appended.map_err(StoreError::io(&self.path))
    }

    fn append(&mut self, text: &[u8]) -> io::Result<()> {
        let mut line = Vec::with_capacity(text.len() + 2);
        if !self.is_at_line_start()? {
            // Somebody was killed in the middle of a line.
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
        // Anybody's store may be looked at.
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
    leave_out_first_words(&mut read.episodes);
    Ok(read)
}

/// Of an episode about which all is known the first word says nothing more.
fn leave_out_first_words(episodes: &mut Vec<Episode>) {
    let complete = episodes.iter().filter(|episode| episode.stage == Stage::Complete);
    let said: BTreeSet<String> =
        complete.flat_map(|episode| [Some(&episode.id), episode.announced_as.as_ref()]).flatten().cloned().collect();
    episodes.retain(|episode| episode.stage == Stage::Complete || !said.contains(&episode.id));
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use crate::agent::store::{Limits, Store};

    /// fsync(2) takes as long as the disk stands still, and the lock is held meanwhile.
    #[test]
    fn who_asks_how_many_lines_wait_waits_for_no_disk() {
        let mode = std::fs::Permissions::from_mode(0o700);
        let place = tempfile::Builder::new().permissions(mode).tempdir().expect("a directory");
        let store = Store::open(&place.path().join("store"), Limits { bytes: 1, episodes: 1 }).expect("a store");
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
