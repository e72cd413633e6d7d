//! Verifies a store: compares its commits with the files that exist.

use std::path::PathBuf;

use serde::Serialize;
use unstarve_tables::{Partition, Schema};

use crate::commit::{Input, Sum};
use crate::decode::DecodeLimits;
use crate::error::{FleetError, chain};
use crate::problem::{Kind, Problem};
use crate::store::{Depth, DroppedHours, Hour, MAX_INPUT_BYTES, MAX_OUTPUT_BYTES, Place, Store, digest_of};

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

/// Reads every file that counts. The merged files of a commit must have the rows of its inputs, by number and by sum; every file
/// must exist and match its commit, and no other may be among merged ones.
///
/// # Errors
/// If the directory is no store or cannot be read, or another process changes it.
pub fn verify(store: &Store) -> Result<Verified, FleetError> {
    let mut verified = Verified::default();
    store.holds()?;
    let _locked = store.lock_shared()?;
    verified.beside = store.beside()?;
    for partition in store.kept_hours(&DroppedHours::read(store)?, &mut verified.problems)? {
        if let Err(error) = hour(store, &partition, &mut verified) {
            Problem::of(Kind::Place, partition.path(), &chain(&error)).add(&mut verified.problems);
        }
    }
    Ok(verified)
}

/// A directory whose files are compared with what a commit says of them.
struct Compared<'a> {
    store: &'a Store,
    table: &'static Schema,
    place: Option<&'a Place<'a>>,
}

impl Compared<'_> {
    fn say(&self, name: &str, problem: Option<String>, verified: &mut Verified) {
        if let Some(why) = problem {
            let path = self.place.map_or_else(|| PathBuf::from(name), |place| place.shown(name));
            Problem::new(path, &why).add(&mut verified.problems);
        }
    }
}

fn hour(store: &Store, partition: &Partition, verified: &mut Verified) -> Result<(), FleetError> {
    let Some(table) = unstarve_tables::named(&partition.table) else {
        let why = "no table of this version; not looked at";
        Problem::of(Kind::Place, format!("table={}", partition.table), why).add(&mut verified.problems);
        return Ok(());
    };
    // Reading a commit compares its sums.
    let hour = Hour::read(store, partition, Depth::Whole, &mut verified.problems)?;
    verified.hours += u64::from(!hour.commits.is_empty());
    let [merged, hourly, hosts] =
        [&hour.merged, &hour.hourly, &hour.hosts].map(|tied| Compared { store, table, place: tied.place.as_ref() });
    for made in hour.commits.iter().filter(|made| !made.commit.head.dropped && !hour.is_dropped()) {
        for output in &made.commit.head.outputs {
            verified.outputs += 1;
            verified.rows += output.rows;
            merged.say(&output.name, merged.check(&output.name, (output.bytes, output.rows, output.sum)), verified);
            if let Some(said) = output.hourly {
                hourly.say(&output.name, hourly.check(&output.name, (said.bytes, said.rows, said.sum)), verified);
            }
        }
        for input in &made.commit.inputs {
            let problem = hosts.check_input(input, verified);
            hosts.say(&input.name, problem, verified);
        }
    }
    for entry in hour.unmerged() {
        verified.loose += 1;
        hosts.say(&entry.name, hosts.rows_of(&entry.name, INPUT).err(), verified);
    }
    Ok(())
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

impl Compared<'_> {
    /// What is wrong with a file that lacks the bytes, rows and sum in its commit; `None` if it matches.
    fn check(&self, name: &str, said: (u64, u64, Sum)) -> Option<String> {
        match self.rows_of(name, OUTPUT) {
            Err(why) => Some(why),
            Ok(None) => Some("the commit lists it, and it is not there".to_owned()),
            Ok(Some(found)) if (found.bytes, found.rows, found.sum) != said => Some(format!(
                "it has {} rows in {} bytes with the sum {}; the commit says {} in {} with {}",
                found.rows, found.bytes, found.sum, said.1, said.0, said.2
            )),
            Ok(Some(_)) => None,
        }
    }

    fn check_input(&self, input: &Input, verified: &mut Verified) -> Option<String> {
        match self.rows_of(&input.name, MERGED) {
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
        }
    }

    /// The content of a file; `None` if it does not exist.
    fn rows_of(&self, name: &str, (limit, most): (u64, DecodeLimits)) -> Result<Option<FileContent>, String> {
        let content = self.place.map(|place| place.read(name, limit)).transpose().map_err(|error| chain(&error))?;
        let Some(content) = content.flatten() else { return Ok(None) };
        let (bytes, digest) = (content.bytes.len() as u64, digest_of(&content.bytes));
        let found = self.store.examiner().examine(self.table, &content.bytes, most)?;
        Ok(Some(FileContent { bytes, rows: found.rows, sum: found.sum, digest }))
    }
}
