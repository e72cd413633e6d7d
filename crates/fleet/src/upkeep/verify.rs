//! Verifies a store: compares its commits with the files that exist.

use std::path::PathBuf;

use serde::Serialize;
use unstarve_tables::{Partition, Schema};

use crate::commit::{Input, Sum};
use crate::decode::DecodeLimits;
use crate::error::{FleetError, chain};
use crate::problem::{Kind, Problem};
use crate::store::{Depth, Hour, MAX_INPUT_BYTES, MAX_OUTPUT_BYTES, State, Store, digest_of};

/// What was compared.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Debug)]
pub struct Verified {
    /// Hours with a commit.
    pub hours: u64,
    /// Merged files that were read.
    pub outputs: u64,
    /// Rows in them.
    pub rows: u64,
    /// Hosts' files that were merged, still exist, and were read.
    pub inputs: u64,
    /// Those that were removed: only their sums in the commits are left.
    pub inputs_gone: u64,
    /// Hosts' files that are not merged yet, and were read.
    pub loose: u64,
    /// Misplaced files and directories, which are not read.
    pub beside: Vec<PathBuf>,
    /// Problems found.
    pub problems: Vec<Problem>,
}

/// Reads every file that counts, and every merged one that still exists. The outputs of a commit must have the rows of its
/// inputs, by number and by sum; every file must exist and match its commit.
///
/// # Errors
/// If the directory cannot be read, or has files and no table.
pub fn verify(store: &Store) -> Result<Verified, FleetError> {
    let mut verified = Verified::default();
    store.holds()?;
    verified.beside = store.beside()?;
    for partition in store.hours(&mut verified.problems)? {
        if let Err(error) = hour(store, &partition, &mut verified) {
            Problem::of(Kind::Place, partition.path(), &chain(&error)).add(&mut verified.problems);
        }
    }
    Ok(verified)
}

impl Verified {
    fn say(&mut self, hour: &Hour<'_>, name: &str, problem: Option<String>) {
        if let Some(why) = problem {
            Problem::new(hour.shown(name), &why).add(&mut self.problems);
        }
    }
}

fn hour(store: &Store, partition: &Partition, verified: &mut Verified) -> Result<(), FleetError> {
    let Some(table) = unstarve_tables::named(&partition.table) else {
        let why = "no table of this version; not looked at";
        Problem::of(Kind::Place, format!("table={}", partition.table), why).add(&mut verified.problems);
        return Ok(());
    };
    let hour = store.hour(partition)?;
    // Reading a commit compares its sums.
    let state = State::of(&hour, Depth::Whole, &mut verified.problems)?;
    verified.hours += u64::from(state.commit.is_some());
    if state.lacks_commit() {
        let why = "merged rows, and no commit that lists them: they do not count; copy its _commit-*.json files, too";
        Problem::of(Kind::Place, partition.path(), why).add(&mut verified.problems);
    }
    for output in &state.files.outputs {
        verified.outputs += 1;
        verified.rows += output.rows;
        let problem = check(&hour, table, &output.name, (output.bytes, output.rows, output.sum));
        verified.say(&hour, &output.name, problem);
        if let Some(hourly) = &output.hourly {
            let problem = check(&hour, table, &hourly.name, (hourly.bytes, hourly.rows, hourly.sum));
            verified.say(&hour, &hourly.name, problem);
        }
    }
    if let Some(commit) = state.commit.as_ref().filter(|commit| !commit.head.dropped) {
        for input in &commit.inputs {
            let problem = check_input(&hour, table, input, verified)?;
            verified.say(&hour, &input.name, problem);
        }
    }
    for name in &state.files.loose {
        verified.loose += 1;
        let problem = rows_of(&hour, table, name, INPUT).err();
        verified.say(&hour, name, problem);
    }
    Ok(())
}

/// What is wrong with a file that lacks the bytes, rows and sum in its commit; `None` if it matches.
fn check(hour: &Hour<'_>, table: &'static Schema, name: &str, said: (u64, u64, Sum)) -> Option<String> {
    match rows_of(hour, table, name, OUTPUT) {
        Err(why) => Some(why),
        Ok(None) => Some("the commit lists it, and it is not there".to_owned()),
        Ok(Some(found)) if (found.bytes, found.rows, found.sum) != said => Some(format!(
            "it has {} rows in {} bytes with the sum {}; the commit says {} in {} with {}",
            found.rows, found.bytes, found.sum, said.1, said.0, said.2
        )),
        Ok(Some(_)) => None,
    }
}

fn check_input(
    hour: &Hour<'_>,
    table: &'static Schema,
    input: &Input,
    verified: &mut Verified,
) -> Result<Option<String>, FleetError> {
    Ok(match rows_of(hour, table, &input.name, MERGED) {
        Err(why) => Some(why),
        Ok(None) => {
            verified.inputs_gone += 1;
            None
        }
        Ok(Some(found)) => {
            verified.inputs += 1;
            let is_same = (found.rows, found.sum) == (input.rows, input.sum) && found.digest == input.digest;
            (!is_same).then(|| "it was merged, and is another file now: its rows do not count".to_owned())
        }
    })
}

/// Limits of a host's file: bytes, and rows.
const INPUT: (u64, DecodeLimits) = (MAX_INPUT_BYTES, DecodeLimits::INPUT);
const MERGED: (u64, DecodeLimits) = (MAX_INPUT_BYTES, DecodeLimits::MERGED);
const OUTPUT: (u64, DecodeLimits) = (MAX_OUTPUT_BYTES, DecodeLimits::OUTPUT);

struct FileContent {
    bytes: u64,
    rows: u64,
    sum: Sum,
    digest: String,
}

/// The content of a file; `None` if it does not exist.
fn rows_of(
    hour: &Hour<'_>,
    table: &'static Schema,
    name: &str,
    (limit, most): (u64, DecodeLimits),
) -> Result<Option<FileContent>, String> {
    let Some(content) = hour.read(name, limit).map_err(|error| chain(&error))? else { return Ok(None) };
    let (bytes, digest) = (content.bytes.len() as u64, digest_of(&content.bytes));
    let found = hour.examine(table, &content.bytes, most)?;
    Ok(Some(FileContent { bytes, rows: found.rows, sum: found.sum, digest }))
}
