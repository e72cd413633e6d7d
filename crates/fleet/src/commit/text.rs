//! The text of a commit: a line of JSON with the merged files, then a line for each host's file whose rows are in them.
//!
//! Commits of an hour are never changed and never replace each other: the hour has the rows of all of them.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::name::Name;
use super::sum::Sum;

/// The format that this version writes and reads.
const FORMAT: u32 = 2;

/// Maximum size of a commit, some 300,000 hosts' files; what does not fit goes into the next one.
pub const COMMIT_BYTES: u64 = 64 << 20;

/// What one run merged in an hour.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Commit {
    /// The first line.
    pub head: Head,
    /// The hosts' files whose rows are in the outputs. A name stays after its file is removed, so that a file that is copied
    /// again does not count twice.
    pub inputs: Vec<Input>,
}

/// The first line.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Head {
    /// The format of the rest.
    pub format: u32,
    /// Counts from 1 in each hour.
    pub number: u64,
    /// When it was made, by its compactor's clock: ns since 1970.
    pub at_ns: u64,
    /// The version of unstarve that made it.
    pub unstarve: String,
    /// Its hour: `table=…/date=…/hour=…`.
    pub hour: String,
    /// The hour is dropped: none of its files counts, however late it arrives.
    pub dropped: bool,
    /// The files that hold the rows of the inputs.
    pub outputs: Vec<Output>,
    /// Number of lines that follow.
    pub inputs: u64,
}

/// A file of merged rows.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Output {
    /// Its name in the hour's directory.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// Its rows.
    pub rows: u64,
    /// Their sum.
    pub sum: Sum,
    /// Its rows by the hour, in a file of the same name, if that is far fewer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hourly: Option<HourlyFile>,
}

/// A file of folded rows: each stands for rows of an hour that differ only in time and numbers ([`unstarve_tables::Hourly`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HourlyFile {
    /// Its size.
    pub bytes: u64,
    /// Its rows.
    pub rows: u64,
    /// Their sum.
    pub sum: Sum,
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
    /// Another version made it.
    #[error("its format is {found}, this version reads {FORMAT}; use the unstarve that compacts this store")]
    Format {
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
    pub fn new(number: u64, hour: &str, at_ns: u64, outputs: Vec<Output>, inputs: Vec<Input>) -> Commit {
        let head = Head {
            format: FORMAT,
            number,
            at_ns,
            unstarve: env!("CARGO_PKG_VERSION").to_owned(),
            hour: hour.to_owned(),
            dropped: false,
            outputs,
            inputs: inputs.len() as u64,
        };
        Commit { head, inputs }
    }

    /// One that drops the hour.
    pub fn dropped(number: u64, hour: &str, at_ns: u64) -> Commit {
        let mut commit = Commit::new(number, hour, at_ns, Vec::new(), Vec::new());
        commit.head.dropped = true;
        commit
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
        let head = head(number, hour, lines.next().map_or(&[][..], |(_, line)| line))?;
        let inputs: Vec<Input> = lines.map(|(at, line)| input(at + 1, line)).collect::<Result<_, _>>()?;
        if inputs.len() as u64 != head.inputs {
            return Err(BadCommit::Count { expected: head.inputs, found: inputs.len() as u64 });
        }
        let commit = Commit { head, inputs };
        commit.check_sums()?;
        Ok(commit)
    }

    /// Decodes the first line alone: it is enough where no hosts' files are left.
    ///
    /// # Errors
    /// As [`Commit::decode`].
    pub fn decode_head(number: u64, hour: &str, text: &[u8]) -> Result<Commit, BadCommit> {
        let line = text.split_inclusive(|byte| *byte == b'\n').next().unwrap_or_default();
        Ok(Commit { head: head(number, hour, line)?, inputs: Vec::new() })
    }

    /// Checks that no row is lost or doubled, as far as the commit shows.
    fn check_sums(&self) -> Result<(), BadCommit> {
        let outputs = self.head.outputs.iter().fold(0_u64, |rows, output| rows.saturating_add(output.rows));
        let inputs = self.inputs.iter().fold(0_u64, |rows, input| rows.saturating_add(input.rows));
        let sums: (Sum, Sum) =
            (self.head.outputs.iter().map(|output| output.sum).sum(), self.inputs.iter().map(|input| input.sum).sum());
        if outputs == inputs && sums.0 == sums.1 { Ok(()) } else { Err(BadCommit::Unequal { outputs, inputs }) }
    }
}

/// Decodes the first line, including its newline, of the file with this number in this hour.
fn head(number: u64, hour: &str, line: &[u8]) -> Result<Head, BadCommit> {
    #[derive(Deserialize)]
    struct Format {
        format: u32,
    }
    let bad = |why: &str| BadCommit::Line { line: 1, why: why.to_owned() };
    let text = line.strip_suffix(b"\n").ok_or_else(|| bad("it has no end"))?;
    let format: Format = serde_json::from_slice(text).map_err(|error| bad(&error.to_string()))?;
    if format.format != FORMAT {
        return Err(BadCommit::Format { found: format.format });
    }
    let head: Head = serde_json::from_slice(text).map_err(|error| bad(&error.to_string()))?;
    if head.hour != hour {
        return Err(BadCommit::Elsewhere { found: head.hour });
    }
    if head.number != number {
        return Err(bad("its number is not that of its name"));
    }
    if head.outputs.iter().any(|output| Name::of(&output.name) != Name::Merged) {
        return Err(bad("a file in it has not the name of merged rows"));
    }
    if head.outputs.iter().map(|output| &output.name).collect::<BTreeSet<_>>().len() != head.outputs.len() {
        return Err(bad("a file is in it twice"));
    }
    Ok(head)
}

impl Input {
    /// Maximum length of the line for a file with this name, before the file is read.
    pub fn most_line_bytes(name: &str) -> u64 {
        let (most, sum, digest) = (u64::MAX, Sum(u64::MAX), "0".repeat(32));
        let most = Input { name: name.to_owned(), bytes: most, rows: most, sum, digest };
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
    // The name is used to remove the file, so it must be in the hour's directory.
    if Name::of(&input.name) != Name::Part {
        return Err(bad("an input has not the name of a host's file"));
    }
    Ok(input)
}

#[cfg(test)]
#[path = "text_tests.rs"]
mod tests;
