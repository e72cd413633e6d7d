//! What was changed, written down before it is changed.
//!
//! A file of lines, each `CRC32 JSON`. Lines are only ever added. A line that is torn (the machine lost power, the disk
//! filled) has a wrong sum and is left out; since its change had to wait for the line to be on disk, nothing is lost
//! with it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::aspect::{Target, Value};

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
pub enum Record {
    /// The first line of each run that writes.
    Begin {
        /// The format's version.
        version: u32,
        /// `/proc/sys/kernel/random/boot_id`: task ids and start times mean something only within a boot.
        boot: String,
    },
    /// A change about to be made.
    Change(Change),
    /// A change taken back, or found to be somebody else's by now: there is nothing left to do for it.
    Settled {
        /// The change's number.
        seq: u64,
    },
}

/// A change about to be made.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Change {
    /// Counts up through the file.
    pub seq: u64,
    /// Whose.
    pub target: Target,
    /// The name of a task, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub comm: String,
    /// Why: the rule's name.
    pub rule: String,
    /// What it was.
    pub old: Value,
    /// What we set.
    pub new: Value,
}

/// What a journal holds.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Contents {
    /// The changes of this boot that are not settled, oldest first.
    pub open: Vec<Change>,
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

/// Where lines go. A trait so that tests can tear any write and kill between any two.
pub trait Store {
    /// Adds bytes and returns when they are safe.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;
}

impl Store for File {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes)?;
        self.sync_data()
    }
}

/// A journal that is being written.
pub struct Journal<S = File> {
    path: PathBuf,
    store: S,
    last_seq: u64,
    buffer: Vec<u8>,
}

/// The id of this boot.
pub fn boot_id() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

/// Reads a journal; one that does not exist is empty.
pub fn read(path: &Path, boot: &str) -> Result<Contents, JournalError> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Contents::default()),
        Err(source) => return Err(JournalError::Io { path: path.to_owned(), source }),
    };
    Contents::parse(&bytes, boot).map_err(|found| JournalError::Version { path: path.to_owned(), found })
}

impl Journal<File> {
    /// Opens for adding, and makes it if there is none. Only root may read it: it holds names of others' tasks.
    pub fn open(path: &Path, boot: &str) -> Result<Journal, JournalError> {
        let fail = |source| JournalError::Io { path: path.to_owned(), source };
        let before = read(path, boot)?;
        let store = OpenOptions::new().append(true).create(true).mode(0o600).open(path).map_err(fail)?;
        // The name must be as safe as what is in it.
        if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            File::open(parent).and_then(|directory| directory.sync_all()).map_err(fail)?;
        }
        Journal::over(store, path, boot, before.last_seq)
    }
}

impl<S: Store> Journal<S> {
    /// A journal over a store whose highest number so far is `last_seq`.
    pub fn over(store: S, path: &Path, boot: &str, last_seq: u64) -> Result<Journal<S>, JournalError> {
        let mut journal = Journal { path: path.to_owned(), store, last_seq, buffer: Vec::new() };
        // A torn line before ours must not swallow it.
        journal.buffer.push(b'\n');
        encode(&Record::Begin { version: VERSION, boot: boot.to_owned() }, &mut journal.buffer);
        journal.flush()?;
        Ok(journal)
    }

    /// Writes changes down; they may be made when this returns. Gives them their numbers.
    pub fn promise(&mut self, changes: &mut [Change]) -> Result<(), JournalError> {
        if changes.is_empty() {
            return Ok(());
        }
        for change in changes {
            self.last_seq += 1;
            change.seq = self.last_seq;
            encode(&Record::Change(change.clone()), &mut self.buffer);
        }
        self.flush()
    }

    /// Writes down changes of an earlier journal, with the numbers that they have.
    pub fn carry_over(&mut self, changes: &[Change]) -> Result<(), JournalError> {
        for change in changes {
            self.last_seq = self.last_seq.max(change.seq);
            encode(&Record::Change(change.clone()), &mut self.buffer);
        }
        self.flush()
    }

    /// Writes down that nothing is left to do for these.
    pub fn settle(&mut self, changes: impl IntoIterator<Item = u64>) -> Result<(), JournalError> {
        for seq in changes {
            encode(&Record::Settled { seq }, &mut self.buffer);
        }
        self.flush()
    }

    fn flush(&mut self) -> Result<(), JournalError> {
        let result = self.store.append(&self.buffer);
        self.buffer.clear();
        result.map_err(|source| JournalError::Io { path: self.path.clone(), source })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use unstarve_model::Tid;

    use super::*;
    use crate::task::TaskKey;

    fn change(seq: u64, tid: u32) -> Change {
        Change {
            seq,
            target: Target::Task(TaskKey { tid: Tid(tid), start: 7 }),
            comm: "kworker/0:1\n\u{1b}[31m".to_owned(),
            rule: "dio".to_owned(),
            old: Value::Nice(0),
            new: Value::Nice(-5),
        }
    }

    fn written(records: &[Record]) -> Vec<u8> {
        let mut bytes = Vec::new();
        records.iter().for_each(|record| encode(record, &mut bytes));
        bytes
    }

    fn begin(boot: &str) -> Record {
        Record::Begin { version: 1, boot: boot.to_owned() }
    }

    #[test]
    fn what_is_settled_or_of_another_boot_is_not_open() {
        let records = [
            begin("old"),
            Record::Change(change(1, 1)),
            begin("now"),
            Record::Change(change(2, 2)),
            Record::Change(change(3, 3)),
            Record::Settled { seq: 2 },
        ];
        let contents = Contents::parse(&written(&records), "now").unwrap();
        assert_eq!(contents, Contents { open: vec![change(3, 3)], stale: 1, damaged: 0, last_seq: 3 });
    }

    #[test]
    fn a_journal_cut_anywhere_holds_what_was_whole() {
        let records = [begin("now"), Record::Change(change(1, 1)), Record::Change(change(2, 2))];
        let bytes = written(&records);
        let mut seen = Vec::new();
        for length in 0..=bytes.len() {
            let contents = Contents::parse(&bytes[..length], "now").unwrap();
            // The last line without its newline is as whole as with it.
            seen.push(contents.open.len());
            assert!(contents.damaged <= 1);
        }
        assert!(seen.is_sorted());
        assert_eq!(seen.last(), Some(&2));
    }

    #[test]
    fn a_flipped_byte_costs_its_line_alone() {
        let bytes = written(&[begin("now"), Record::Change(change(1, 1)), Record::Change(change(2, 2))]);
        let at = bytes.iter().position(|&byte| byte == b'\n').unwrap() + 20;
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        let contents = Contents::parse(&damaged, "now").unwrap();
        assert_eq!((contents.open, contents.damaged), (vec![change(2, 2)], 1));
    }

    #[test]
    fn a_later_version_is_not_guessed_at() {
        let bytes = written(&[Record::Begin { version: 9, boot: "now".to_owned() }]);
        assert_eq!(Contents::parse(&bytes, "now"), Err(9));
    }

    #[test]
    fn writing_goes_on_after_a_torn_line() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal");
        let mut journal = Journal::open(&path, "now").unwrap();
        journal.promise(&mut [change(0, 1)]).unwrap();
        drop(journal);
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"0123abcd {\"rec").unwrap();
        let mut journal = Journal::open(&path, "now").unwrap();
        let mut more = [change(0, 2)];
        journal.promise(&mut more).unwrap();
        assert_eq!(more[0].seq, 2);
        let contents = read(&path, "now").unwrap();
        assert_eq!((contents.open.len(), contents.damaged), (2, 1));
    }
}
