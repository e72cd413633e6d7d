//! The journal: changes are written to it before they are made, so that they can be reverted.
//!
//! Each line is `CRC32 JSON`, and lines are only appended. A partly written line (power loss, full disk) has a wrong checksum
//! and is skipped. Its change had not been made, because changes wait until their lines are on disk, so nothing is lost.

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
        /// The error.
        source: io::Error,
    },
    /// The journal was written by a later version.
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
    /// The first line that each process writes.
    Begin {
        /// The format's version.
        version: u32,
        /// `/proc/sys/kernel/random/boot_id`: tids and start times are valid only within a boot.
        boot: String,
    },
    /// A change that is about to be made.
    Change(Step),
    /// A change that was reverted, or whose value another program has changed: nothing is left to do for it.
    Settled {
        /// The change's number.
        seq: u64,
    },
}

/// A change that is about to be made.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Step {
    /// Ascending within the file.
    pub seq: u64,
    /// The task or file.
    pub target: Place,
    /// A task's name, for messages; for an interrupt its handlers' names, by which undo recognises it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub comm: String,
    /// The name of the rule that made it.
    pub rule: String,
    /// The value before.
    pub old: Value,
    /// The value to set.
    pub new: Value,
    /// The time, in the unit of tasks' start times: a child that started earlier has not inherited the value.
    #[serde(default)]
    pub at: u64,
    /// Set if the task inherited the value: the task that it comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<TaskKey>,
    /// Manual changes that were made together have the number of the first of them, and are reverted together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<u64>,
    /// The process of a thread that is not its leader, if the leader has another value: if the thread calls execve, it becomes
    /// the leader and keeps the value, and its own tid is gone.
    /// first, keeps the value, and its own id is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<TaskKey>,
}

impl Step {
    /// Whether this change explains the target's current value: the value that was set, or a step down from it, which a raised
    /// task can make by itself. The kernel takes only those CPUs that the cpuset allows. What it took is recorded afterwards,
    /// unless the process is killed before.
    pub fn explains(&self, now: &Value) -> bool {
        now.same(&self.new) || now.is_step_down(&self.old, &self.new) || now.is_part_of(&self.new)
    }
}

/// The content of a journal.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Contents {
    /// The changes of this boot that are not settled, oldest first.
    pub open: Vec<Step>,
    /// Number of changes from other boots: their tasks are gone, and files have their defaults again.
    pub stale: usize,
    /// Number of lines with a wrong checksum.
    pub damaged: usize,
    /// The highest change number.
    pub last_seq: u64,
    /// Whether what is appended belongs to this boot and version without another first line.
    pub is_begun: bool,
}

impl Contents {
    /// Parses the bytes of a journal, for the current `boot`. Fails only for a later version, which is returned as `Err`.
    pub fn parse(bytes: &[u8], boot: &str) -> Result<Contents, u32> {
        let mut contents = Contents::default();
        let mut this_boot = false;
        for line in bytes.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
            match decode(line) {
                None => {
                    contents.damaged += 1;
                    // The damaged line may have named the boot. Treating too many changes as open is harmless, because keys and
                    // values are compared before anything is restored.
                    this_boot = true;
                    contents.is_begun = false;
                }
                Some(Record::Begin { version, .. }) if version > VERSION => return Err(version),
                Some(Record::Begin { version, boot: of }) => {
                    this_boot = of == boot;
                    contents.is_begun = this_boot && version == VERSION;
                }
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
    // Serialising a record cannot fail: it has no maps with non-string keys.
    let Ok(json) = serde_json::to_vec(record) else { return };
    sealed(&json, into);
}

/// Appends a line with its checksum.
pub fn sealed(json: &[u8], into: &mut Vec<u8>) {
    let _ = write!(into, "{:08x} ", crc32fast::hash(json));
    into.extend_from_slice(json);
    into.push(b'\n');
}

/// A journal that is being written. Open changes are also kept in memory: the file may be lost or the disk full.
#[derive(Debug)]
pub struct Journal<S = JournalFile> {
    path: PathBuf,
    store: S,
    last_seq: u64,
    buffer: Vec<u8>,
    open: BTreeMap<u64, Step>,
    /// Lines that nothing depends on and that could not be written yet.
    backlog: Vec<u8>,
    /// The last line may lack its newline.
    torn: bool,
}

/// Bytes of unwritten lines beyond which they are dropped.
const MOST_BACKLOG: usize = 1 << 20;

/// The boot id.
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
    /// Continues a journal with the content `before` in a store.
    ///
    /// # Errors
    /// If its first line cannot be written.
    pub fn over(store: S, path: &Path, boot: &str, before: Contents) -> Result<Journal<S>, JournalError> {
        let open = before.open.iter().map(|change| (change.seq, change.clone())).collect();
        let (path, buffer, backlog) = (path.to_owned(), Vec::new(), Vec::new());
        let mut journal = Journal { path, store, last_seq: before.last_seq, buffer, open, backlog, torn: true };
        // A journal that is only opened, for an undo of nothing, does not grow each time.
        if !before.is_begun {
            encode(&Record::Begin { version: VERSION, boot: boot.to_owned() }, &mut journal.buffer);
            journal.flush()?;
        }
        Ok(journal)
    }

    /// Writes changes, and sets their numbers and times. When this returns, they may be made.
    ///
    /// # Errors
    /// If they cannot be written with reserve to spare; then none may be made.
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

    /// Records the values that the kernel actually set. They are kept in memory also if they cannot be written.
    pub fn amend(&mut self, changes: &mut [Step]) {
        for change in changes {
            self.last_seq += 1;
            change.seq = self.last_seq;
            encode(&Record::Change(change.clone()), &mut self.backlog);
            self.open.insert(change.seq, change.clone());
        }
        self.catch_up();
    }

    /// Writes changes of an earlier journal, with their numbers.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn carry_over(&mut self, changes: &[Step]) -> Result<(), JournalError> {
        for change in changes {
            self.last_seq = self.last_seq.max(change.seq);
            encode(&Record::Change(change.clone()), &mut self.buffer);
            self.open.insert(change.seq, change.clone());
        }
        self.flush()
    }

    /// Records that nothing is left to do for these changes. A write error does no harm: another undo finds the old values in
    /// place.
    pub fn settle(&mut self, changes: impl IntoIterator<Item = u64>) {
        for seq in changes {
            self.open.remove(&seq);
            if self.backlog.len() < MOST_BACKLOG {
                encode(&Record::Settled { seq }, &mut self.backlog);
            }
        }
        self.catch_up();
    }

    /// Writes the queued lines; on an error they stay queued.
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
        // A partly written line must not corrupt the next one.
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

    /// The highest change number.
    pub fn last_seq(&self) -> u64 {
        self.last_seq
    }

    /// The path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
#[path = "journal/tests.rs"]
mod tests;
