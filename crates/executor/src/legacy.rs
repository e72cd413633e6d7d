//! The old journal of `knobs set`, from before all changes shared one. It is read so that its changes can still be undone.

use std::path::Path;

use serde::{Deserialize, Serialize};
use unstarve_change::{Place, Value};

use crate::host::place_of;
use crate::journal::Step;

/// The path of root's journal.
pub const DEFAULT: &str = "/var/lib/unstarve/knobs.journal";

/// The content of a journal.
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
    /// The directory that the path is below (`--root`); `/` if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<String>,
    /// The feature, for the features file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feature: Option<String>,
    /// The content before.
    pub old: String,
    /// What was written.
    pub new: String,
    /// The content read back afterwards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<String>,
    /// Seconds since 1970.
    pub at: u64,
    /// The boot id: after another boot, nothing of it is in force any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot: Option<String>,
}

/// A line before the last is damaged.
#[derive(Debug, thiserror::Error)]
#[error("the journal {path}, line {line}: {what}; move the file away if its changes are not to be undone")]
pub struct Damaged {
    /// The journal's path.
    pub path: String,
    /// Line number, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub what: String,
}

/// A line.
#[derive(Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "lowercase")]
enum Line {
    Set(Entry),
    Done { id: u64, seen: String },
    Undone { id: u64 },
}

impl Contents {
    /// Parses a journal; errors name it `path`. An incomplete last line is skipped.
    ///
    /// # Errors
    /// If a line before the last is damaged.
    pub fn parse(bytes: &[u8], path: &Path) -> Result<Contents, Damaged> {
        let mut contents = Contents { entries: Vec::new(), next: 1, whole: 0 };
        for (index, line) in bytes.split_inclusive(|&byte| byte == b'\n').enumerate() {
            let is_last = contents.whole + line.len() == bytes.len();
            match parse(line) {
                Ok(parsed) => contents.take(parsed),
                Err(_) if is_last => break,
                Err(what) => {
                    let path = unstarve_model::clean(&path.display().to_string()).into_owned();
                    return Err(Damaged { path, line: index + 1, what });
                }
            }
            contents.whole += line.len();
        }
        Ok(contents)
    }

    /// The changes that were not undone, oldest first.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// How many of the bytes belong to complete lines.
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

/// Whether these are the bytes of such a journal.
pub(crate) fn is_one(bytes: &[u8]) -> bool {
    bytes.split_inclusive(|&byte| byte == b'\n').next().is_some_and(|line| parse(line).is_ok())
}

/// Converts its changes of this boot. Changes that `knobs set` cannot have written are skipped.
pub(crate) fn steps(contents: &Contents, boot: &str) -> Vec<Step> {
    let of_now = |entry: &&Entry| entry.boot.as_deref().is_none_or(|of| of == boot);
    contents.entries.iter().filter(of_now).filter_map(step).collect()
}

fn step(entry: &Entry) -> Option<Step> {
    let place = match &entry.feature {
        Some(name) => Place::Feature { path: entry.path.clone(), name: name.clone(), root: entry.root.clone() },
        None => place_of(&entry.path, entry.root.as_deref())?,
    };
    let seen = entry.seen.as_ref().unwrap_or(&entry.new);
    Some(Step::new(place, "", crate::manual_changes::KNOBS, Value::content(&entry.old), Value::content(seen)))
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
    crc32fast::hash(bytes)
}
