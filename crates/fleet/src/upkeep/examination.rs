//! Which of hosts' files a reader may take before a compactor has merged them: those that it would merge.
//!
//! Each file is examined as [`super::compact`] does it, by the same children with the same limits, but for less time. What is found is
//! remembered as long as the file is the same, so that a question over thousands of files reads only those that are new. What a
//! compactor has refused is not read at all.
//!
//! | a host's file | is taken |
//! |---|---|
//! | examined before and good, and the same since | yes |
//! | refused by a compactor, or by an earlier question, less than a day ago, and the same since | no |
//! | new, or changed since | if it is good |
//! | gone, larger than a host's file may be, not to be opened by this user, no regular file | no |
//! | left when the time is over | no: the next question goes on there |

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::time::Instant;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use unstarve_model::WallTime;

use crate::decode::{DecodeLimits, NOT_EXAMINED, Needed, Run, Wants, parallel_read};
use crate::error::{FleetError, chain};
use crate::merge::{MAX_REASON_CHARS, READ_AGAIN_AFTER_NS, Refusals, is_settled};
use crate::store::{Content, CountingFile, MAX_INPUT_BYTES, Place, Stamp, Store, digest_of};

/// What a question examines of a file: as a compactor, but nobody waits so long.
const LIMITS: DecodeLimits = DecodeLimits { seconds: 10, needed: Needed::Asked, ..DecodeLimits::INPUT };
/// Maximum size of a group of files that is decoded at once.
const MAX_GROUP_FILES: usize = 128;
const MAX_GROUP_BYTES: usize = 2 << 20;
/// Verdicts beyond this number are not kept: the files are read again.
const MAX_VERDICTS: usize = 1 << 20;

/// A host's file that is not taken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeftOut {
    /// Its place among the files that were asked about.
    pub at: usize,
    /// Why.
    pub why: WhyLeftOut,
}

/// Why a host's file is not taken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WhyLeftOut {
    /// A compactor would not merge it, for this reason.
    Refused(String),
    /// There was no time, or no process, to examine it.
    NotExamined(String),
}

/// What earlier questions found, by table and file.
#[derive(Default, Debug)]
pub struct Verdicts {
    tables: BTreeMap<String, BTreeMap<Stamp, Verdict>>,
    has_changed: bool,
}

/// Good, or why not and when that was found.
type Verdict = Option<(u64, String)>;

/// The text of verdicts.
#[derive(Serialize, Deserialize)]
struct VerdictsFile {
    /// Another version may read what this one refuses.
    version: String,
    tables: BTreeMap<String, Vec<(StampNumbers, Verdict)>>,
}

/// Inode, size, mtime, ctime: in so few characters as there are many files.
type StampNumbers = (u64, u64, u64, u64);

impl Verdicts {
    /// A name for a file with those about a place.
    pub fn name(place: &Path) -> String {
        digest_of(place.as_os_str().as_encoded_bytes())
    }

    /// From the text of an earlier question; none from one that is damaged or another version's.
    pub fn decode(text: &[u8]) -> Verdicts {
        let kept = serde_json::from_slice::<VerdictsFile>(text).ok();
        let kept = kept.filter(|kept| kept.version == env!("CARGO_PKG_VERSION"));
        let stamp =
            |(inode, bytes, written_ns, changed_ns): StampNumbers| Stamp { inode, bytes, written_ns, changed_ns };
        let of_table = |files: Vec<(StampNumbers, Verdict)>| {
            files.into_iter().map(|(numbers, verdict)| (stamp(numbers), verdict)).collect()
        };
        let tables = kept.map(|kept| kept.tables).unwrap_or_default();
        Verdicts {
            tables: tables.into_iter().map(|(table, files)| (table, of_table(files))).collect(),
            has_changed: false,
        }
    }

    /// The text for later questions; `None` if nothing is new, or there is too much.
    pub fn encode(&self) -> Option<Vec<u8>> {
        let count = self.tables.values().map(BTreeMap::len).sum::<usize>();
        if !self.has_changed || count > MAX_VERDICTS {
            return None;
        }
        let numbers = |stamp: &Stamp| (stamp.inode, stamp.bytes, stamp.written_ns, stamp.changed_ns);
        let of_table = |files: &BTreeMap<Stamp, Verdict>| {
            files.iter().map(|(stamp, verdict)| (numbers(stamp), verdict.clone())).collect()
        };
        let tables = self.tables.iter().map(|(table, files)| (table.clone(), of_table(files))).collect();
        serde_json::to_vec(&VerdictsFile { version: env!("CARGO_PKG_VERSION").to_owned(), tables }).ok()
    }

    fn of(&self, table: &str, stamp: Stamp, now: WallTime) -> Option<&Verdict> {
        let verdict = self.tables.get(table)?.get(&stamp)?;
        // As with a compactor's notes: the child may have lacked memory that is there now.
        let is_old =
            |(at_ns, _): &(u64, String)| now.0.checked_sub(*at_ns).is_none_or(|age| age >= READ_AGAIN_AFTER_NS);
        (!verdict.as_ref().is_some_and(is_old)).then_some(verdict)
    }
}

/// Examines hosts' files that nobody has merged; what is not said may be taken. `known` gets what is found of these files in the place of
/// what it has of their tables.
///
/// # Errors
/// If the store cannot be read.
pub fn examine_unmerged(
    store: &Store,
    files: &[CountingFile],
    known: &mut Verdicts,
    (now, until): (WallTime, Instant),
) -> Result<Vec<LeftOut>, FleetError> {
    let refusals = Refusals::read(store, now, &mut Vec::new());
    let mut left_out = Vec::new();
    let mut by_table: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (at, file) in files.iter().enumerate() {
        by_table.entry(&file.table).or_default().push(at);
    }
    for (name, places) in by_table {
        let Some(table) = unstarve_tables::named(name) else { continue };
        let (mut verdicts, mut new) = (BTreeMap::new(), Vec::new());
        for at in places {
            let file = &files[at];
            let stamp = match Stamp::of(&file.path) {
                Ok(stamp) => stamp,
                Err(error) => {
                    left_out.push(LeftOut { at, why: WhyLeftOut::Refused(error.to_string()) });
                    continue;
                }
            };
            let (hour, part) = (file.partition.path(), file.path.file_name().and_then(|name| name.to_str()));
            if let Some(why) = refusals.why(&hour.to_string_lossy(), part.unwrap_or_default(), stamp) {
                left_out.push(LeftOut { at, why: WhyLeftOut::Refused(why.to_owned()) });
                continue;
            }
            let Some(verdict) = known.of(name, stamp, now) else {
                new.push(at);
                continue;
            };
            verdicts.insert(stamp, verdict.clone());
            if let Some((_, why)) = verdict {
                left_out.push(LeftOut { at, why: WhyLeftOut::Refused(why.clone()) });
            }
        }
        if !new.is_empty() {
            let mut reading = Reading {
                files,
                new: new.into_iter(),
                until,
                now,
                asked: VecDeque::new(),
                next: None,
                directory: None,
                verdicts: &mut verdicts,
                left_out: &mut left_out,
            };
            let read = parallel_read::run(store.examiner(), table, LIMITS, Wants::Sums, &mut reading);
            reading.leave_out_rest();
            if matches!(read, Err(Stop::Lost)) {
                return Err(FleetError::Rows {
                    path: store.path().to_owned(),
                    why: "files were read by nobody".to_owned(),
                });
            }
            known.has_changed = true;
        }
        known.tables.insert(name.to_owned(), verdicts);
    }
    left_out.sort_by_key(|left| left.at);
    Ok(left_out)
}

/// Files that are new, in groups.
struct Reading<'a> {
    files: &'a [CountingFile],
    new: std::vec::IntoIter<usize>,
    until: Instant,
    now: WallTime,
    /// Those that are being decoded.
    asked: VecDeque<Loaded>,
    /// One that was read and begins the next group.
    next: Option<(Loaded, Bytes)>,
    /// The directory of the last file.
    directory: Option<(PathBuf, Store)>,
    verdicts: &'a mut BTreeMap<Stamp, Verdict>,
    left_out: &'a mut Vec<LeftOut>,
}

/// A file that was read.
struct Loaded {
    at: usize,
    stamp: Stamp,
}

/// Why files are not examined any more.
enum Stop {
    /// The time is over.
    Over,
    /// A thread ended unexpectedly.
    Lost,
}

impl parallel_read::Work for Reading<'_> {
    type Error = Stop;

    fn next(&mut self) -> Option<Vec<Bytes>> {
        let (first, bytes) = self.load()?;
        let (mut size, mut group) = (bytes.len(), vec![bytes]);
        self.asked.push_back(first);
        while group.len() < MAX_GROUP_FILES && size < MAX_GROUP_BYTES {
            let Some((file, bytes)) = self.load() else { break };
            if size + bytes.len() > MAX_GROUP_BYTES {
                self.next = Some((file, bytes));
                break;
            }
            size += bytes.len();
            group.push(bytes);
            self.asked.push_back(file);
        }
        Some(group)
    }

    fn take(&mut self, answer: Result<Run, String>) -> Result<(), Stop> {
        match answer {
            Ok(run) => {
                for _ in run.files {
                    let file = self.asked.pop_front().ok_or_else(|| self.lost())?;
                    self.note(&file, None);
                }
            }
            Err(why) => {
                let file = self.asked.pop_front().ok_or_else(|| self.lost())?;
                if why.starts_with(NOT_EXAMINED) {
                    self.left_out.push(LeftOut { at: file.at, why: WhyLeftOut::NotExamined(why) });
                } else {
                    self.note(&file, Some(why));
                }
            }
        }
        // One that takes long is the last one.
        if self.is_over() { Err(Stop::Over) } else { Ok(()) }
    }

    fn lost(&self) -> Stop {
        Stop::Lost
    }
}

impl Reading<'_> {
    fn is_over(&self) -> bool {
        Instant::now() >= self.until
    }

    /// What there was no time for.
    fn leave_out_rest(&mut self) {
        let asked = self.asked.drain(..).chain(self.next.take().map(|(file, _)| file)).map(|file| file.at);
        let why = || WhyLeftOut::NotExamined("there are too many new ones for one question; ask again".to_owned());
        self.left_out.extend(asked.chain(self.new.by_ref()).map(|at| LeftOut { at, why: why() }));
    }

    fn note(&mut self, file: &Loaded, why: Option<String>) {
        if let Some(why) = &why {
            self.left_out.push(LeftOut { at: file.at, why: WhyLeftOut::Refused(why.clone()) });
        }
        if is_settled(file.stamp) {
            let why = why.map(|why| (self.now.0, why.chars().take(MAX_REASON_CHARS).collect()));
            self.verdicts.insert(file.stamp, why);
        }
    }

    /// Reads the next file that can be read.
    fn load(&mut self) -> Option<(Loaded, Bytes)> {
        if let Some(next) = self.next.take() {
            return Some(next);
        }
        while !self.is_over() {
            let at = self.new.next()?;
            let why = match self.read(at) {
                Ok(Some(Content { bytes, stamp, .. })) => return Some((Loaded { at, stamp }, bytes)),
                Ok(None) => "it has gone".to_owned(),
                Err(error) => chain(&error),
            };
            self.left_out.push(LeftOut { at, why: WhyLeftOut::Refused(why) });
        }
        None
    }

    fn read(&mut self, at: usize) -> Result<Option<Content>, FleetError> {
        let path = &self.files[at].path;
        let Some((parent, name)) = path.parent().zip(path.file_name().and_then(|name| name.to_str())) else {
            return Ok(None);
        };
        let directory = match self.directory.take() {
            Some((path, directory)) if path == parent => directory,
            _ => Store::open(parent)?,
        };
        let content = directory.top().and_then(|top: Place<'_>| top.read(name, MAX_INPUT_BYTES));
        self.directory = Some((parent.to_owned(), directory));
        content
    }
}
