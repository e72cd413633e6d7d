//! A directory of small files of many hosts and hours: `v1/table=blame_rollup/date=2026-11-23/hour=07/PART.parquet`.
//!
//! The layout is Hive partitioning, which query engines understand. A file is written under another name and renamed,
//! so a reader sees a complete file or none. A killed process leaves at most a file whose name begins with a dot, which
//! readers ignore and the next [`Shelf::trim`] removes. If the same rows are written again, the part has the same name.
//!
//! `v1` is the layout: a change of types that readers would notice gets another. Before it, tables were in the directory
//! itself; their parts stay, are removed as those of `v1` are, and nothing is written beside them.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use unstarve_files::trust::{Directory, How, TrustError};
use unstarve_model::WallTime;

/// Why the directory cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShelfError {
    /// Other users could change it.
    #[error("the directory for tables cannot be used")]
    Untrusted(#[from] TrustError),
    /// A system call failed.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// Write, read or remove.
        action: &'static str,
        /// The path.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl ShelfError {
    fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> ShelfError {
        let path = path.to_owned();
        move |source| ShelfError::Io { action, path, source }
    }
}

/// How much is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Total size of all files in bytes.
    pub bytes: u64,
    /// Maximum age of an hour.
    pub age: Duration,
}

/// One hour of one table.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Partition {
    /// `2026-11-23`, in UTC.
    pub date: String,
    /// `07`.
    pub hour: String,
    /// The table's name.
    pub table: String,
}

impl Partition {
    /// The partition of rows at this moment.
    pub fn of(table: &str, at: WallTime) -> Partition {
        Partition { date: at.date(), hour: at.clock()[..2].to_owned(), table: table.to_owned() }
    }

    /// Its path below the layout's directory.
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("table={}/date={}/hour={}", self.table, self.date, self.hour))
    }

    /// The beginning of its hour; `None` if the names are not those of an hour.
    pub fn begin(&self) -> Option<WallTime> {
        let mut date = self.date.splitn(3, '-').map(|number| number.parse::<u64>().ok());
        let (year, month, day) = (date.next()??, date.next()??, date.next()??);
        let hour = self.hour.parse::<u64>().ok()?;
        if !(1970..=2554).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) || hour > 23 {
            return None;
        }
        // Years begin in March here, so the leap day is the last of its year, and month lengths repeat every five
        // months with 153 days.
        let (years, months) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
        let days = years * 365 + years / 4 - years / 100 + years / 400 + (153 * months + 2) / 5 + day - 1;
        Some(WallTime((days.checked_sub(719_468)? * 24 + hour) * 3_600_000_000_000))
    }

    /// Whether it is before the partition of another moment.
    pub fn is_before(&self, at: WallTime) -> bool {
        let other = Partition::of(&self.table, at);
        (&self.date, &self.hour) < (&other.date, &other.hour)
    }
}

/// The directory of the present layout, in that of tables.
pub const LAYOUT_NAME: &str = "v1";

const PART_ENDING: &str = ".parquet";
/// An unfinished file older than this was left by a killed process.
const MAX_WRITE_TIME: Duration = Duration::from_secs(3600);

/// The directory.
#[derive(Debug)]
pub struct Shelf {
    path: PathBuf,
}

/// A stored file.
struct Part {
    partition: Partition,
    path: PathBuf,
    bytes: u64,
}

impl Shelf {
    /// Opens the directory, creating it if necessary.
    ///
    /// # Errors If it cannot be created, or if users other than root and ours can change it.
    pub fn open(path: &Path) -> Result<Shelf, ShelfError> {
        Ok(Shelf { path: Directory::make(path)?.path().to_owned() })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether a part exists.
    pub fn has(&self, partition: &Partition, name: &str) -> bool {
        let file = partition.path().join(file_name(name));
        self.layouts().iter().any(|layout| layout.join(&file).exists())
    }

    /// Writes a part, replacing one of the same name.
    ///
    /// # Errors If it cannot be written; then nothing of it exists.
    pub fn put(&self, partition: &Partition, name: &str, bytes: &[u8]) -> Result<(), ShelfError> {
        let directory = Directory::make(&self.path.join(LAYOUT_NAME).join(partition.path()))?;
        let name = file_name(name);
        let beside = format!(".new-{name}");
        let mut file = directory.file(OsStr::new(&beside), How::Update)?;
        // A killed process may have left some of it. Synced before it gets its name, so that a crash leaves no
        // incomplete part.
        let written = file.set_len(0).and_then(|()| file.write_all(bytes)).and_then(|()| file.sync_all());
        let named = written.and_then(|()| directory.rename(OsStr::new(&beside), OsStr::new(&name)));
        if named.is_err() {
            let _ = directory.remove(OsStr::new(&beside));
        }
        named.map_err(ShelfError::io("write", &directory.path().join(name)))
    }

    /// The directories that have tables: of this layout, and of the one before.
    fn layouts(&self) -> [PathBuf; 2] {
        [self.path.join(LAYOUT_NAME), self.path.clone()]
    }

    /// Removes hours older than the limit, then the oldest parts until the rest is within the size limit. Returns the
    /// number of parts removed.
    ///
    /// # Errors If the directory cannot be read or a part cannot be removed.
    pub fn trim(&self, limits: Limits, now: WallTime) -> Result<usize, ShelfError> {
        let mut parts = self.parts()?;
        parts.sort_by(|one, other| (&one.partition, &one.path).cmp(&(&other.partition, &other.path)));
        let age = u64::try_from(limits.age.as_nanos()).unwrap_or(u64::MAX);
        // An hour must also be too old compared with the newest one: a wall clock that jumps ahead does not make
        // everything old.
        let newest = parts.iter().filter_map(|part| part.partition.begin()).max();
        let oldest = WallTime(newest.map_or(now, |newest| newest.min(now)).0.saturating_sub(age));
        let mut total: u64 = parts.iter().map(|part| part.bytes).sum();
        let mut removed = 0;
        for part in &parts {
            if total <= limits.bytes && !part.partition.is_before(oldest) {
                continue;
            }
            remove(&part.path)?;
            total -= part.bytes;
            removed += 1;
            // Removes directories that have become empty; there may be another part by now.
            for above in part.path.ancestors().skip(1).take(2) {
                if fs::remove_dir(above).is_err() {
                    break;
                }
            }
        }
        Ok(removed)
    }

    fn parts(&self) -> Result<Vec<Part>, ShelfError> {
        let mut parts = Vec::new();
        for layout in self.layouts() {
            for (table, path) in keyed(&layout, "table")? {
                for (date, path) in keyed(&path, "date")? {
                    for (hour, path) in keyed(&path, "hour")? {
                        let partition = Partition { date: date.clone(), hour, table: table.clone() };
                        parts.extend(parts_in(&path, &partition)?);
                    }
                }
            }
        }
        Ok(parts)
    }
}

fn file_name(part: &str) -> String {
    format!("{part}{PART_ENDING}")
}

fn remove(path: &Path) -> Result<(), ShelfError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(ShelfError::io("remove", path)(error)),
        _ => Ok(()),
    }
}

/// The subdirectories `KEY=VALUE` of a directory, with their values.
fn keyed(path: &Path, key: &str) -> Result<Vec<(String, PathBuf)>, ShelfError> {
    let entries = entries(path)?;
    let value = |path: PathBuf| {
        let name = path.file_name()?.to_str()?;
        let value = name.strip_prefix(key)?.strip_prefix('=')?.to_owned();
        Some((value, path))
    };
    Ok(entries.into_iter().filter_map(value).collect())
}

fn parts_in(path: &Path, partition: &Partition) -> Result<Vec<Part>, ShelfError> {
    let mut parts = Vec::new();
    for path in entries(path)? {
        let Ok(metadata) = path.symlink_metadata() else { continue };
        if !metadata.is_file() {
            continue;
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with('.') {
            let written =
                SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(metadata.mtime()).unwrap_or(u64::MAX >> 1));
            if written.elapsed().is_ok_and(|age| age > MAX_WRITE_TIME) {
                remove(&path)?;
            }
        } else if name.ends_with(PART_ENDING) {
            parts.push(Part { partition: partition.clone(), path, bytes: metadata.len() });
        }
    }
    Ok(parts)
}

fn entries(path: &Path) -> Result<Vec<PathBuf>, ShelfError> {
    match fs::read_dir(path) {
        Ok(entries) => Ok(entries.filter_map(|entry| Some(entry.ok()?.path())).collect()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(ShelfError::io("read", path)(error)),
    }
}

/// Maximum length of a part's name.
const MAX_PART_NAME: usize = 200;

/// A part's name made of several words, such as a host and a moment, and safe as a file name.
pub fn part_name(words: &[&str]) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._".contains(c);
    let plain = |word: &&str| word.chars().map(|c| if is_plain(c) { c } else { '_' }).collect::<String>();
    let name = words.iter().map(plain).collect::<Vec<_>>().join("-");
    let name = name.trim_start_matches('.');
    name[..name.len().min(MAX_PART_NAME)].to_owned()
}

#[cfg(test)]
#[path = "shelf/tests.rs"]
mod tests;
