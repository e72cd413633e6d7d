use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use unstarve_files::trust::{Directory, How, TrustError};

use super::live::Step;
use crate::Root;

/// What was changed and can be taken back: lines with a checksum, each on disk before the change that it tells of.
///
/// A last line that is torn (the machine lost power while it was written) is dropped: its change was not begun.
///
/// What it says is written into files of the kernel's, so nobody but root and we may have written it ([`Directory`]).
pub struct Journal {
    file: File,
    path: PathBuf,
    contents: Contents,
}

/// What a journal tells.
#[derive(Debug)]
pub struct Contents {
    entries: Vec<Entry>,
    next: u64,
    whole: usize,
}

/// One change.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Entry {
    /// Its number.
    pub id: u64,
    /// The file that was written.
    pub path: String,
    /// The directory below which that path is (`--root`); `/` if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<String>,
    /// The feature, of the features file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feature: Option<String>,
    /// What it held.
    pub old: String,
    /// What was written.
    pub new: String,
    /// What the kernel then said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<String>,
    /// When, in seconds since 1970.
    pub at: u64,
    /// The boot in which that was: after another, nothing of it is in force any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot: Option<String>,
}

/// Why the journal cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// It cannot be opened, read or written.
    #[error("the journal {path}: {error}{hint}")]
    Io {
        /// Which.
        path: String,
        /// Why.
        error: io::Error,
        /// What could help.
        hint: &'static str,
    },
    /// Somebody else could have written it.
    #[error("the journal {0}")]
    Untrusted(TrustError),
    /// Larger than any journal.
    #[error("the journal {path}: more than {MOST_BYTES} bytes; expected a smaller file. Move it away")]
    TooLarge {
        /// Which.
        path: String,
    },
    /// A line before the last is not as it was written.
    #[error("the journal {path}, line {line}: {what}; move the file away if what it tells of is not to be undone")]
    Damaged {
        /// Which.
        path: String,
        /// From 1.
        line: usize,
        /// How.
        what: String,
    },
    /// Another run of unstarve has it.
    #[error("the journal {0} is in use by another unstarve")]
    InUse(String),
}

/// A line.
#[derive(Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "lowercase")]
enum Line {
    Set(Entry),
    Done { id: u64, seen: String },
    Undone { id: u64 },
}

/// What is done about a journal that is not there.
#[derive(Clone, Copy)]
enum Absent {
    Make,
    Leave,
}

/// A change takes some 250 bytes: a quarter of a million changes.
const MOST_BYTES: u64 = 64 << 20;

impl Journal {
    /// Where root keeps it.
    pub const DEFAULT: &str = "/var/lib/unstarve/knobs.journal";

    /// Opens or makes it, and locks it for as long as it is open.
    pub fn open(path: &Path) -> Result<Journal, JournalError> {
        Journal::open_or(path, Absent::Make)
    }

    /// The same, of one that is there; `None` if it is not.
    pub fn open_if_there(path: &Path) -> Result<Option<Journal>, JournalError> {
        match Journal::open_or(path, Absent::Leave) {
            Err(JournalError::Io { error, .. }) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            journal => journal.map(Some),
        }
    }

    fn open_or(path: &Path, absent: Absent) -> Result<Journal, JournalError> {
        let shown = unstarve_model::clean(&path.display().to_string()).into_owned();
        let io = |error: io::Error| {
            let hint = match error.kind() {
                io::ErrorKind::PermissionDenied => "; run it as root",
                _ => "",
            };
            JournalError::Io { path: shown.clone(), error, hint }
        };
        let name = path.file_name().ok_or_else(|| io(io::ErrorKind::IsADirectory.into()))?;
        let above = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let distrust = |error| match error {
            TrustError::Io { source, .. } => io(source),
            error => JournalError::Untrusted(error),
        };
        let directory = match absent {
            Absent::Make => Directory::make(above),
            Absent::Leave => Directory::open(above).and_then(|directory| {
                directory.file(name, How::Read)?;
                Ok(directory)
            }),
        };
        let directory = directory.map_err(distrust)?;
        let file = directory.file(name, How::Append).map_err(distrust)?;
        if rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive).is_err() {
            return Err(JournalError::InUse(shown));
        }
        let mut bytes = Vec::new();
        (&file).take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(io)?;
        if bytes.len() as u64 > MOST_BYTES {
            return Err(JournalError::TooLarge { path: shown });
        }
        let contents = Contents::parse(&bytes, path)?;
        if contents.whole < bytes.len() {
            file.set_len(contents.whole as u64).map_err(io)?;
        }
        Ok(Journal { file, path: path.to_owned(), contents })
    }

    /// Changes of this boot that were not taken back, oldest first.
    pub fn pending(&self) -> Vec<Entry> {
        let now = boot();
        let is_of_now = |entry: &&Entry| entry.boot.is_none() || now.is_none() || entry.boot == now;
        self.contents.entries.iter().filter(is_of_now).cloned().collect()
    }

    pub(super) fn set(&mut self, step: &Step, root: &Root) -> Result<u64, JournalError> {
        let at = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |age| age.as_secs());
        let entry = Entry {
            id: self.contents.next,
            path: step.path.clone(),
            root: root.name(),
            feature: step.feature.clone(),
            old: step.old.clone(),
            new: step.new.clone(),
            seen: None,
            at,
            boot: boot(),
        };
        let id = entry.id;
        self.append(Line::Set(entry))?;
        Ok(id)
    }

    pub(super) fn done(&mut self, id: u64, seen: &str) -> Result<(), JournalError> {
        self.append(Line::Done { id, seen: seen.to_owned() })
    }

    pub(super) fn undone(&mut self, id: u64) -> Result<(), JournalError> {
        self.append(Line::Undone { id })
    }

    fn append(&mut self, line: Line) -> Result<(), JournalError> {
        let path = || unstarve_model::clean(&self.path.display().to_string()).into_owned();
        // Numbers and texts under text keys: nothing in it can fail.
        let json = serde_json::to_string(&line).unwrap_or_default();
        let text = format!("{:08x} {json}\n", checksum(json.as_bytes()));
        let whole = self.file.metadata().map(|metadata| metadata.len());
        let written = self.file.write_all(text.as_bytes()).and_then(|()| self.file.sync_all());
        if let (Err(_), Ok(whole)) = (&written, whole) {
            // The disk is full: half a line would spoil the next one.
            let _ = self.file.set_len(whole);
        }
        written.map_err(|error| JournalError::Io { path: path(), error, hint: "" })?;
        self.contents.take(line);
        Ok(())
    }
}

impl Contents {
    /// Reads a journal's lines; errors call it `path`. A torn last line is left out.
    ///
    /// # Errors
    /// If a line before the last is not as it was written.
    pub fn parse(bytes: &[u8], path: &Path) -> Result<Contents, JournalError> {
        let mut contents = Contents { entries: Vec::new(), next: 1, whole: 0 };
        for (index, line) in bytes.split_inclusive(|&byte| byte == b'\n').enumerate() {
            let is_last = contents.whole + line.len() == bytes.len();
            match parse(line) {
                Ok(parsed) => contents.take(parsed),
                Err(_) if is_last => break,
                Err(what) => {
                    let path = unstarve_model::clean(&path.display().to_string()).into_owned();
                    return Err(JournalError::Damaged { path, line: index + 1, what });
                }
            }
            contents.whole += line.len();
        }
        Ok(contents)
    }

    /// The changes that were not taken back, oldest first.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// How many of the bytes belong to whole lines.
    pub fn whole(&self) -> usize {
        self.whole
    }

    fn take(&mut self, line: Line) {
        match line {
            Line::Set(entry) => {
                self.next = self.next.max(entry.id.saturating_add(1));
                self.entries.push(entry);
            }
            Line::Done { id, seen } => {
                if let Some(entry) = self.entries.iter_mut().find(|entry| entry.id == id) {
                    entry.seen = Some(seen);
                }
            }
            Line::Undone { id } => self.entries.retain(|entry| entry.id != id),
        }
    }
}

fn parse(line: &[u8]) -> Result<Line, String> {
    let text = std::str::from_utf8(line).map_err(|error| error.to_string())?;
    let text = text.strip_suffix('\n').ok_or("the line has no end")?;
    let (sum, json) = text.split_once(' ').ok_or("expected a checksum and JSON")?;
    if u32::from_str_radix(sum, 16).ok() != Some(checksum(json.as_bytes())) {
        return Err("its checksum is wrong".to_owned());
    }
    serde_json::from_str(json).map_err(|error| error.to_string())
}

fn checksum(bytes: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(bytes);
    crc.sum()
}

fn boot() -> Option<String> {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(text.trim().to_owned())
}
