//! The text of a commit: a line of JSON with the files that count now, then a line for each host's file that was merged.
//!
//! A reader needs only the first line if no hosts' files are left in the hour.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::name::Name;
use super::sum::Sum;

/// The format that this version writes and reads.
const FORMAT: u32 = 1;

/// The first line of a commit is rarely longer, so readers can fetch this much at once.
pub const HEAD_BYTES: u64 = 16 << 10;

/// Maximum size of a commit, some 300,000 hosts' files in one hour; files beyond it are not merged.
pub const COMMIT_BYTES: u64 = 64 << 20;

/// The complete content of an hour, not a difference to the previous commit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Commit {
    /// The first line.
    pub head: Head,
    /// The hosts' files whose rows are in the outputs, or were dropped. A name stays after its file is removed, so that a file
    /// that is copied again does not count twice.
    pub inputs: Vec<Input>,
}

/// The first line.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Head {
    /// The format of the rest.
    pub format: u32,
    /// Counts from 1 in each hour; the highest one counts.
    pub number: u64,
    /// When it was made, by its compactor's clock: ns since 1970.
    pub at_ns: u64,
    /// The version of unstarve that made it.
    pub unstarve: String,
    /// Its hour: `table=…/date=…/hour=…`. Missing in early versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hour: Option<String>,
    /// The hour was dropped: none of its files counts, however late it arrives.
    pub dropped: bool,
    /// The files that hold the rows of the inputs.
    pub outputs: Vec<Output>,
    /// Files that an earlier commit listed and that may still exist.
    pub retired: Vec<Retired>,
    /// The same for files by the hour. Missing in early versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub retired_hourly: Vec<Retired>,
    /// Number of lines that follow.
    pub inputs: u64,
}

/// A file of merged rows.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Output {
    /// Its name, in the commit's directory.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// Its rows.
    pub rows: u64,
    /// Their sum.
    pub sum: Sum,
    /// The first `ts` in it, ns since 1970.
    pub min_ts: Option<i64>,
    /// The last.
    pub max_ts: Option<i64>,
    /// Number of hosts in it.
    pub hosts: u64,
    /// Whether it has at least half of the maximum rows; then it is not merged again.
    pub full: bool,
    /// A hash of the extra columns, which the table does not have: SHA-256, the first half. Empty without any. Missing in early
    /// versions.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub columns: String,
    /// Its rows by the hour, if that is far fewer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hourly: Option<HourlyFile>,
}

/// A file of folded rows: each stands for rows of an hour that differ only in time and numbers ([`unstarve_tables::Hourly`]).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HourlyFile {
    /// Its name, in the commit's directory.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// Its rows.
    pub rows: u64,
    /// Their sum.
    pub sum: Sum,
}

impl Output {
    /// The names of its files.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.name.as_str()).chain(self.hourly.iter().map(|hourly| hourly.name.as_str()))
    }
}

/// A host's file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Input {
    /// Its name.
    pub name: String,
    /// Its size when it was read.
    pub bytes: u64,
    /// Its rows.
    pub rows: u64,
    /// Their sum.
    pub sum: Sum,
    /// SHA-256 of the file, the first half: it is removed only while it is still the file that was read.
    pub digest: String,
    /// When it was committed, ns since 1970.
    pub at_ns: u64,
}

/// An output that is no longer used.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Retired {
    /// Its name.
    pub name: String,
    /// When it was retired, ns since 1970.
    pub at_ns: u64,
}

/// Why a commit cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BadCommit {
    /// Not the format that this program writes.
    #[error("line {line}: {why}")]
    Line {
        /// Line number, from 1.
        line: usize,
        /// The JSON parser's message, or what is wrong.
        why: String,
    },
    /// A newer version made it.
    #[error("its format is {found}, this version reads {FORMAT}; use the unstarve that compacts this store")]
    Newer {
        /// Its format.
        found: u32,
    },
    /// The commit is of another hour.
    #[error("it is of {found}")]
    Elsewhere {
        /// That hour.
        found: String,
    },
    /// Too few or too many lines follow.
    #[error("it has {found} inputs; its first line announces {expected}")]
    Count {
        /// Announced in the first line.
        expected: u64,
        /// Found.
        found: u64,
    },
    /// Outputs and inputs have different rows.
    #[error("its outputs have {outputs} rows, its inputs {inputs}, or their sums differ")]
    Unequal {
        /// Rows of the outputs.
        outputs: u64,
        /// Rows of the inputs.
        inputs: u64,
    },
}

impl Commit {
    /// A commit in the current format, for the hour `table=…/date=…/hour=…`.
    pub fn new(number: u64, hour: &str, at_ns: u64) -> Commit {
        let head = Head {
            format: FORMAT,
            number,
            at_ns,
            unstarve: env!("CARGO_PKG_VERSION").to_owned(),
            hour: Some(hour.to_owned()),
            dropped: false,
            outputs: Vec::new(),
            retired: Vec::new(),
            retired_hourly: Vec::new(),
            inputs: 0,
        };
        Commit { head, inputs: Vec::new() }
    }

    /// Encodes it as text.
    pub fn encode(&self) -> Vec<u8> {
        let head = Head { inputs: self.inputs.len() as u64, ..self.head.clone() };
        let mut text = serde_json::to_vec(&head).expect("numbers and texts are JSON");
        text.push(b'\n');
        for input in &self.inputs {
            serde_json::to_writer(&mut text, input).expect("numbers and texts are JSON");
            text.push(b'\n');
        }
        text
    }

    /// Decodes the text of the file with this number in this hour.
    ///
    /// # Errors
    /// If it is incomplete, of another hour, or not in the format that this program writes.
    pub fn decode(number: u64, hour: &str, text: &[u8]) -> Result<Commit, BadCommit> {
        let mut lines = text.split_inclusive(|byte| *byte == b'\n').enumerate();
        let head = Head::decode(number, hour, lines.next().map_or(&[][..], |(_, line)| line))?;
        let inputs: Vec<Input> = lines.map(|(at, line)| input(at + 1, line)).collect::<Result<_, _>>()?;
        if inputs.len() as u64 != head.inputs {
            return Err(BadCommit::Count { expected: head.inputs, found: inputs.len() as u64 });
        }
        let commit = Commit { head, inputs };
        commit.check_sums()?;
        Ok(commit)
    }

    /// Checks that no row is lost or doubled, as far as the commit shows.
    fn check_sums(&self) -> Result<(), BadCommit> {
        if self.head.dropped {
            return Ok(());
        }
        let outputs = self.head.outputs.iter().fold(0_u64, |rows, output| rows.saturating_add(output.rows));
        let inputs = self.inputs.iter().fold(0_u64, |rows, input| rows.saturating_add(input.rows));
        let sums: (Sum, Sum) =
            (self.head.outputs.iter().map(|output| output.sum).sum(), self.inputs.iter().map(|input| input.sum).sum());
        if outputs == inputs && sums.0 == sums.1 { Ok(()) } else { Err(BadCommit::Unequal { outputs, inputs }) }
    }
}

impl Head {
    /// Decodes the first line, including its newline, of the file with this number in this hour.
    ///
    /// # Errors
    /// If it is incomplete, of another hour, or not in the format that this program writes.
    pub fn decode(number: u64, hour: &str, line: &[u8]) -> Result<Head, BadCommit> {
        #[derive(Deserialize)]
        struct Format {
            format: u32,
        }
        let bad = |why: &str| BadCommit::Line { line: 1, why: why.to_owned() };
        let text = line.strip_suffix(b"\n").ok_or_else(|| bad("it has no end"))?;
        let format: Format = serde_json::from_slice(text).map_err(|error| bad(&error.to_string()))?;
        if format.format != FORMAT {
            return Err(BadCommit::Newer { found: format.format });
        }
        let head: Head = serde_json::from_slice(text).map_err(|error| bad(&error.to_string()))?;
        if let Some(found) = head.hour.as_ref().filter(|found| *found != hour) {
            return Err(BadCommit::Elsewhere { found: found.clone() });
        }
        if head.number != number {
            return Err(bad("its number is not that of its name"));
        }
        let names = head.outputs.iter().map(|output| &output.name).chain(head.retired.iter().map(|old| &old.name));
        let mut names: Vec<&String> = names.collect();
        let hourly = head.outputs.iter().filter_map(|output| Some(&output.hourly.as_ref()?.name));
        let hourly: Vec<&String> = hourly.chain(head.retired_hourly.iter().map(|old| &old.name)).collect();
        if names.iter().any(|name| !matches!(Name::of(name), Name::Merged(_)))
            || hourly.iter().any(|name| !matches!(Name::of(name), Name::Hourly(_)))
        {
            return Err(bad("a file in it has not the name of an output"));
        }
        names.extend(hourly);
        if names.iter().collect::<BTreeSet<_>>().len() != names.len() {
            return Err(bad("a file is in it twice"));
        }
        Ok(head)
    }
}

impl Input {
    /// Maximum length of the line for a file with this name, before the file is read.
    pub fn most_line_bytes(name: &str) -> u64 {
        let (most, sum, digest) = (u64::MAX, Sum(u64::MAX), "0".repeat(32));
        let most = Input { name: name.to_owned(), bytes: most, rows: most, sum, digest, at_ns: most };
        most.line_bytes()
    }

    /// The length of its line in a commit.
    pub fn line_bytes(&self) -> u64 {
        serde_json::to_vec(self).map_or(0, |line| line.len() as u64 + 1)
    }
}

fn input(line: usize, text: &[u8]) -> Result<Input, BadCommit> {
    let bad = |why: &str| BadCommit::Line { line, why: why.to_owned() };
    let text = text.strip_suffix(b"\n").ok_or_else(|| bad("it has no end"))?;
    let input: Input = serde_json::from_slice(text).map_err(|error| bad(&error.to_string()))?;
    // The name is used to remove the file, so it must be in the commit's directory.
    if Name::early(&input.name) != Name::Part || input.name.contains(['/', '\0']) {
        return Err(bad("an input has not the name of a host's file"));
    }
    Ok(input)
}

#[cfg(test)]
#[path = "text_tests.rs"]
mod tests;
