//! What was changed, written down before it is changed.
//!
//! A file of lines, each `CRC32 JSON`. Lines are only ever added. A line that is torn (the machine lost power, the disk
//! filled) has a wrong sum and is left out; since its change had to wait for the line to be on disk, nothing is lost
//! with it.

mod store;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::sched::{self, TICK_NS};
use unstarve_change::TaskKey;
use unstarve_change::{Place, Value};

pub use store::{JournalFile, RESERVE, Store};

/// The journal cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// The file cannot be read or written.
    #[error("{}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Written by a later version.
    #[error("{}: journal of version {found}; this program knows {VERSION}. Undo with the version that wrote it", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// The version in the file.
        found: u32,
    },
}

/// The format's version.
const VERSION: u32 = 1;

/// One line.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "kebab-case")]
#[expect(
    clippy::large_enum_variant,
    reason = "a record lives until its line is written; a box would cost each birth an allocation"
)]
pub enum Record {
    /// The first line of each run that writes.
    Begin {
        /// The format's version.
        version: u32,
        /// `/proc/sys/kernel/random/boot_id`: task ids and start times mean something only within a boot.
        boot: String,
    },
    /// A change about to be made.
    Change(Step),
    /// A change taken back, or found to be somebody else's by now: there is nothing left to do for it.
    Settled {
        /// The change's number.
        seq: u64,
    },
}

/// A change about to be made.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Step {
    /// Counts up through the file.
    pub seq: u64,
    /// Whose.
    pub target: Place,
    /// The name of a task, for people; of an interrupt those of its handlers, by which undo knows it again.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub comm: String,
    /// Why: the rule's name.
    pub rule: String,
    /// What it was.
    pub old: Value,
    /// What we set.
    pub new: Value,
    /// When, in the unit of tasks' start times: a child that was born before has not inherited it.
    #[serde(default)]
    pub at: u64,
    /// The task was born with it: the one that it has it from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<TaskKey>,
    /// Changes made at once by hand have the number of the first of them, and are taken back at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<u64>,
    /// Its process, if it is another thread of it than the first, and that had another value: if this thread calls execve, it becomes the
    /// first, keeps the value, and its own id is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<TaskKey>,
}

impl Step {
    /// Whether a value that the target has now is this change's doing: what was set, or a step down from it, to which a raised
    /// task can go by itself.
    ///
    /// Of the CPUs that were asked for the kernel takes those that a cpuset allows. What it took is written down afterwards, which
    /// a kill can prevent.
    pub fn explains(&self, now: &Value) -> bool {
        now.same(&self.new) || now.is_step_down(&self.old, &self.new) || now.is_part_of(&self.new)
    }
}

/// What a journal holds.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Contents {
    /// The changes of this boot that are not settled, oldest first.
    pub open: Vec<Step>,
    /// Changes of other boots: the tasks are gone and the files have their defaults again.
    pub stale: usize,
    /// Lines whose sum was wrong.
    pub damaged: usize,
    /// The highest number used.
    pub last_seq: u64,
}

impl Contents {
    /// Reads the bytes of a journal, as seen in `boot`. Never fails but for a later version: `Err` is that version.
    pub fn parse(bytes: &[u8], boot: &str) -> Result<Contents, u32> {
        let mut contents = Contents::default();
        let mut this_boot = false;
        for line in bytes.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
            match decode(line) {
                None => {
                    contents.damaged += 1;
                    // It may have been the line that said which boot. Keys and values are compared before anything is
                    // restored, so to take too many for open is harmless.
                    this_boot = true;
                }
                Some(Record::Begin { version, .. }) if version > VERSION => return Err(version),
                Some(Record::Begin { boot: of, .. }) => this_boot = of == boot,
                Some(Record::Change(change)) => {
                    contents.last_seq = contents.last_seq.max(change.seq);
                    if this_boot { contents.open.push(change) } else { contents.stale += 1 }
                }
                Some(Record::Settled { seq }) => {
                    // Almost always one of the last.
                    if let Some(at) = contents.open.iter().rposition(|change| change.seq == seq) {
                        contents.open.remove(at);
                    }
                }
            }
        }
        Ok(contents)
    }
}

fn decode(line: &[u8]) -> Option<Record> {
    let (sum, json) = line.split_at_checked(9)?;
    let sum = u32::from_str_radix(std::str::from_utf8(sum).ok()?.strip_suffix(' ')?, 16).ok()?;
    (sum == crc32fast::hash(json)).then(|| serde_json::from_slice(json).ok())?
}

fn encode(record: &Record, into: &mut Vec<u8>) {
    // Nothing in a record can fail to serialise: no maps with odd keys, no failing impls.
    let Ok(json) = serde_json::to_vec(record) else { return };
    sealed(&json, into);
}

/// Adds a line with its sum.
pub fn sealed(json: &[u8], into: &mut Vec<u8>) {
    let _ = write!(into, "{:08x} ", crc32fast::hash(json));
    into.extend_from_slice(json);
    into.push(b'\n');
}

/// A journal that is being written. What is open is known in memory, too: the file may be lost or full.
#[derive(Debug)]
pub struct Journal<S = JournalFile> {
    path: PathBuf,
    store: S,
    last_seq: u64,
    buffer: Vec<u8>,
    open: BTreeMap<u64, Step>,
    /// Lines that nothing depends on and that could not be written yet.
    backlog: Vec<u8>,
    /// The last line may have no end.
    torn: bool,
}

/// More than this of what could not be written is given up.
const MOST_BACKLOG: usize = 1 << 20;

/// The id of this boot.
///
/// # Errors
/// If `/proc` cannot be read.
pub fn boot_id() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

impl Journal<JournalFile> {
    /// The file.
    pub fn file(&self) -> &File {
        self.store.file()
    }

    /// Its length in bytes.
    pub fn length(&self) -> u64 {
        self.store.length
    }
}

impl<S: Store> Journal<S> {
    /// A journal over a store that holds `before`.
    ///
    /// # Errors
    /// If its first line cannot be written.
    pub fn over(store: S, path: &Path, boot: &str, before: Contents) -> Result<Journal<S>, JournalError> {
        let open = before.open.into_iter().map(|change| (change.seq, change)).collect();
        let (path, buffer, backlog) = (path.to_owned(), Vec::new(), Vec::new());
        let mut journal = Journal { path, store, last_seq: before.last_seq, buffer, open, backlog, torn: true };
        encode(&Record::Begin { version: VERSION, boot: boot.to_owned() }, &mut journal.buffer);
        journal.flush()?;
        Ok(journal)
    }

    /// Writes changes down; they may be made when this returns. Gives them their numbers and their time.
    ///
    /// # Errors
    /// If they cannot be written down with room to spare; then none may be made.
    pub fn promise(&mut self, changes: &mut [Step]) -> Result<(), JournalError> {
        if changes.is_empty() {
            return Ok(());
        }
        let now = sched::boot_ns() / TICK_NS;
        for change in changes.iter_mut() {
            self.last_seq += 1;
            change.seq = self.last_seq;
            change.at = now;
            encode(&Record::Change(change.clone()), &mut self.buffer);
        }
        self.flush()?;
        self.open.extend(changes.iter().map(|change| (change.seq, change.clone())));
        Ok(())
    }

    /// Writes down what changes that were made have become. They are known from now on, whether that can be written or not.
    pub fn amend(&mut self, changes: &mut [Step]) {
        for change in changes {
            self.last_seq += 1;
            change.seq = self.last_seq;
            encode(&Record::Change(change.clone()), &mut self.backlog);
            self.open.insert(change.seq, change.clone());
        }
        self.catch_up();
    }

    /// Writes down changes of an earlier journal, with the numbers that they have.
    ///
    /// # Errors
    /// If they cannot be written down.
    pub fn carry_over(&mut self, changes: &[Step]) -> Result<(), JournalError> {
        for change in changes {
            self.last_seq = self.last_seq.max(change.seq);
            encode(&Record::Change(change.clone()), &mut self.buffer);
            self.open.insert(change.seq, change.clone());
        }
        self.flush()
    }

    /// Writes down that nothing is left to do for these. That it cannot be written does no harm: who takes them back once
    /// more finds everything as it was.
    pub fn settle(&mut self, changes: impl IntoIterator<Item = u64>) {
        for seq in changes {
            self.open.remove(&seq);
            if self.backlog.len() < MOST_BACKLOG {
                encode(&Record::Settled { seq }, &mut self.backlog);
            }
        }
        self.catch_up();
    }

    /// Writes what nothing depends on; if it cannot be written, it waits for the next time.
    fn catch_up(&mut self) {
        if self.backlog.is_empty() {
            return;
        }
        let bytes = std::mem::take(&mut self.backlog);
        if self.append(&bytes).is_err() {
            self.backlog = bytes;
        }
    }

    fn flush(&mut self) -> Result<(), JournalError> {
        let bytes = std::mem::take(&mut self.buffer);
        let result = self.store.reserve(bytes.len() as u64).and_then(|()| self.append(&bytes));
        self.buffer = bytes;
        self.buffer.clear();
        result.map_err(|source| JournalError::Io { path: self.path.clone(), source })
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        // A line that was cut off must not swallow the next.
        let result = if self.torn { self.store.append(b"\n") } else { Ok(()) };
        let result = result.and_then(|()| self.store.append(bytes));
        self.torn = result.is_err();
        result
    }

    /// The changes that are not settled, oldest first.
    pub fn open_changes(&self) -> Vec<Step> {
        self.open.values().cloned().collect()
    }

    /// The open changes of one target, oldest first.
    pub fn open_of<'a>(&'a self, target: &'a Place) -> impl Iterator<Item = &'a Step> {
        self.open.values().filter(move |change| change.target == *target)
    }

    /// The highest number used.
    pub fn last_seq(&self) -> u64 {
        self.last_seq
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
#[path = "journal/tests.rs"]
mod tests;
