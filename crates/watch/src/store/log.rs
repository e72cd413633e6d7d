//! `episodes.jsonl`: one line for each episode, only ever added to.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use unstarve_files::trust::{Directory, How};
use unstarve_files::{Limit, ReadError, read_regular};

use super::StoreError;
use crate::episode::Episode;

const NAME: &str = "episodes.jsonl";
/// What the log is called when it has become long, until the next one has.
const BEFORE: &str = "episodes.1.jsonl";
/// Some ten thousand lines.
const LONGEST: u64 = 16 << 20;

/// Begun anew when it is longer than [`LONGEST`]: one more line fits.
const LIMIT: Limit = Limit { bytes: LONGEST + (16 << 20), expected: "a log of episodes" };

/// The log, for adding.
#[derive(Debug)]
pub struct Log {
    file: File,
    path: PathBuf,
}

/// What the log of a store says.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct LogRead {
    /// Its episodes, oldest first.
    pub episodes: Vec<Episode>,
    /// Lines that are no episodes: torn by a kill in the middle of one.
    pub torn: u64,
}

impl Log {
    pub(super) fn open(directory: &Directory) -> Result<Log, StoreError> {
        let mut file = directory.file(OsStr::new(NAME), How::Append)?;
        let path = directory.path().join(NAME);
        if file.metadata().is_ok_and(|metadata| metadata.len() > LONGEST) {
            directory.rename(OsStr::new(NAME), OsStr::new(BEFORE)).map_err(StoreError::io(&path))?;
            file = directory.file(OsStr::new(NAME), How::Append)?;
        }
        Ok(Log { file, path })
    }

    /// Adds an episode, and waits until it is on the disk.
    ///
    /// # Errors
    /// If the system refuses. A part of a line that was written all the same is left out by readers.
    pub fn add(&mut self, episode: &Episode) -> Result<(), StoreError> {
        let appended = self.append(episode);
        appended.map_err(StoreError::io(&self.path))
    }

    fn append(&mut self, episode: &Episode) -> io::Result<()> {
        let mut line = Vec::with_capacity(1024);
        if !self.is_at_line_start()? {
            // Somebody was killed in the middle of a line.
            line.push(b'\n');
        }
        serde_json::to_writer(&mut line, episode)?;
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
    Ok(read)
}
