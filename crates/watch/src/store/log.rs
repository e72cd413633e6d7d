//! `episodes.jsonl`: a line for each word on an episode, only ever added to. Readers take the last word.

use std::collections::{BTreeSet, VecDeque};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use unstarve_files::trust::{Directory, How};
use unstarve_files::{Limit, ReadError, read_regular};

use super::StoreError;
use super::home::Home;
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
pub struct Logbook(Arc<Mutex<Lines>>);

#[derive(Debug)]
struct Lines {
    home: Arc<Home>,
    /// Not on the disk yet, oldest first.
    waiting: VecDeque<Vec<u8>>,
}

impl Logbook {
    pub(super) fn of(home: &Arc<Home>) -> Logbook {
        Logbook(Arc::new(Mutex::new(Lines { home: Arc::clone(home), waiting: VecDeque::new() })))
    }

    /// Adds an episode, and waits until it is on the disk, behind those that could not be written before. If it cannot be written now it
    /// waits for the next time.
    ///
    /// # Errors
    /// If the system refuses, or if the directory can be changed by others now, or has become another watch's.
    pub fn add(&self, episode: &Episode) -> Result<(), StoreError> {
        let mut lines = self.lines();
        let line = serde_json::to_vec(episode).map_err(io::Error::from);
        let line = line.map_err(StoreError::io(&lines.home.path().join(NAME)))?;
        if lines.waiting.len() >= MOST_WAITING {
            lines.waiting.pop_front();
        }
        lines.waiting.push_back(line);
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

    /// How many lines are not on the disk.
    pub fn waiting(&self) -> usize {
        self.lines().waiting.len()
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lines {
    fn write(&mut self) -> Result<(), StoreError> {
        let mut log = Log::open(&self.home.directory()?)?;
        while let Some(line) = self.waiting.front() {
            log.add(line)?;
            self.waiting.pop_front();
        }
        Ok(())
    }
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
