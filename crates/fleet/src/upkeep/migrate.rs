//! Copies the tables of a directory of the layout before `v1` into a store, with the types of today.
//!
//! Which files count is decided once and written down, so that a run that is killed goes on with the same ones. Each becomes files of hosts,
//! which the next compaction merges; their names follow from the old one, so a file that is there, or was merged already, does not
//! count twice. The old directory stays as it is.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::RecordBatch;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use serde::{Deserialize, Serialize};
use unstarve_tables::{Partition, Schema};

use super::early;
use crate::commit::Name;
use crate::decode::{Asked, DecodeLimits, Examine, Needed, Run, Wants};
use crate::error::{FleetError, chain};
use crate::problem::{Kind, Problem};
use crate::store::{MAX_INPUT_BYTES, MAX_OUTPUT_BYTES, Place, Store, StoreKind, Tree, walk};

/// What a run did.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Debug)]
pub struct Migrated {
    /// Files that were copied.
    pub files: u64,
    /// Those that an earlier run had copied.
    pub done_before: u64,
    /// Rows that were copied.
    pub rows: u64,
    /// Problems found: files that were not copied.
    pub problems: Vec<Problem>,
}

/// In `state/`.
const PLAN_NAME: &str = "migration.json";
const MAX_PLAN_BYTES: u64 = 1 << 30;

/// Rows and memory of a file that is written: less than a host's file may have.
const PIECE_ROWS: usize = 1 << 17;
const PIECE_MEMORY: usize = 64 << 20;

/// Which files are copied.
#[derive(Serialize, Deserialize)]
struct Plan {
    from: PathBuf,
    hours: Vec<PlannedHour>,
    /// What is not copied, with the reason: each run says it.
    #[serde(default)]
    left_out: Vec<(PathBuf, String)>,
}

#[derive(Serialize, Deserialize)]
struct PlannedHour {
    table: String,
    date: String,
    hour: String,
    files: Vec<String>,
}

/// Copies what counts in `old` into `new`. Nothing may change `old` meanwhile: a compactor of the old version is stopped before.
///
/// # Errors
/// If `old` is not of the layout before, `new` is no store and not empty, or one of them cannot be used.
pub fn migrate(old: &Store, new: &Store) -> Result<Migrated, FleetError> {
    // A host that was upgraded has both: what its new watch wrote below `v1/` is copied as that of others.
    let has_early = match old.kind()? {
        StoreKind::Early => true,
        StoreKind::OfHost => old.top()?.names()?.texts.iter().any(|name| name.starts_with("table=")),
        _ => false,
    };
    if !has_early {
        let why = "has no tables of the layout before v1; expected a directory with table=… in it".to_owned();
        return Err(FleetError::Rows { path: old.path().to_owned(), why });
    }
    new.holds()?;
    let _locked = new.lock()?;
    let mut migrated = Migrated::default();
    let plan = plan(old, new, &mut migrated.problems)?;
    for (path, why) in &plan.left_out {
        Problem::new(path, why).add(&mut migrated.problems);
    }
    let top = old.top()?;
    for hour in plan.hours {
        let partition = Partition { table: hour.table, date: hour.date, hour: hour.hour };
        let Some(table) = unstarve_tables::named(&partition.table) else {
            let why = "no table of this version; not copied";
            Problem::of(Kind::Place, format!("table={}", partition.table), why).add(&mut migrated.problems);
            continue;
        };
        let from = walk(&top, &partition)?;
        let to = new.make(Tree::Hosts, &partition)?;
        let there = to.names()?.texts;
        for name in hour.files {
            if there.contains(&piece_name(&name, 0)) {
                migrated.done_before += 1;
                continue;
            }
            let copied = match &from {
                Some(from) => copy(old.examiner(), from, &to, table, &name),
                None => Err("it has gone since the migration began".to_owned()),
            };
            match copied {
                Ok(rows) => {
                    migrated.files += 1;
                    migrated.rows += rows;
                }
                Err(why) => Problem::new(partition.path().join(&name), &why).add(&mut migrated.problems),
            }
        }
    }
    migrated.problems.sort();
    Ok(migrated)
}

/// The plan of an earlier run, or a new one.
fn plan(old: &Store, new: &Store, problems: &mut Vec<Problem>) -> Result<Plan, FleetError> {
    let io = |source| FleetError::Io { action: "open", path: old.path().to_owned(), source };
    let from = std::fs::canonicalize(old.path()).map_err(io)?;
    let bad = |why: String| FleetError::Rows { path: new.path().join("state").join(PLAN_NAME), why };
    if let Some(text) = new.note(PLAN_NAME, MAX_PLAN_BYTES)? {
        let plan: Plan = serde_json::from_slice(&text).map_err(|error| bad(error.to_string()))?;
        if plan.from != from {
            return Err(bad(format!("{} was copied here; expected another new store", plan.from.display())));
        }
        plan.note_later(&hours(old, problems, &mut Vec::new())?, problems);
        return Ok(plan);
    }
    let mut left_out = Vec::new();
    let plan = Plan { from, hours: hours(old, problems, &mut left_out)?, left_out };
    let text = serde_json::to_vec(&plan).map_err(|error| bad(error.to_string()))?;
    new.put_note(PLAN_NAME, &text)?;
    Ok(plan)
}

/// What counts in the old directory now.
fn hours(
    old: &Store,
    problems: &mut Vec<Problem>,
    left_out: &mut Vec<(PathBuf, String)>,
) -> Result<Vec<PlannedHour>, FleetError> {
    let (top, mut hours) = (old.top()?, Vec::new());
    for partition in old.hours_in(&top, problems)? {
        let Some(hour) = walk(&top, &partition)? else { continue };
        let files = early::counting(old, &hour, &partition.path().display().to_string(), left_out)?;
        let Partition { table, date, hour } = partition;
        hours.push(PlannedHour { table, date, hour, files });
    }
    Ok(hours)
}

impl Plan {
    /// Says which files came after it was made: their rows may be in others that it has, so they are not copied.
    fn note_later(&self, now: &[PlannedHour], problems: &mut Vec<Problem>) {
        for hour in now {
            let is_same = |other: &&PlannedHour| {
                (&other.table, &other.date, &other.hour) == (&hour.table, &hour.date, &hour.hour)
            };
            let planned = self.hours.iter().find(is_same).map_or(&[][..], |planned| &planned.files);
            let partition = Partition { table: hour.table.clone(), date: hour.date.clone(), hour: hour.hour.clone() };
            for name in hour.files.iter().filter(|name| !planned.contains(name)) {
                let why = "it came after the migration began, and is not copied; migrate into another new store";
                Problem::new(partition.path().join(name), why).add(problems);
            }
        }
    }
}

fn piece_name(name: &str, piece: usize) -> String {
    format!("migrated-{}-{piece}.parquet", name.strip_suffix(".parquet").unwrap_or(name))
}

/// Copies a file in pieces, and returns its rows. The first piece is written last: if it is there, all are.
fn copy(
    examine: &dyn Examine,
    from: &Place<'_>,
    to: &Place<'_>,
    table: &'static Schema,
    name: &str,
) -> Result<u64, String> {
    let (bytes, limits) = match Name::of(name) {
        Name::Merged => (MAX_OUTPUT_BYTES, DecodeLimits::OUTPUT),
        _ => (MAX_INPUT_BYTES, DecodeLimits { needed: Needed::Nothing, ..DecodeLimits::INPUT }),
    };
    let content = from.read(name, bytes).map_err(|error| chain(&error))?;
    let content = content.ok_or("it counts, and is not there")?;
    let mut answer = Err("it was not read".to_owned());
    let files = [content.bytes];
    let asked = Asked { table, files: &files, most: limits, wants: Wants::Rows };
    examine.read(&asked, &|| true, &mut |run| {
        answer = run;
        true
    });
    let pieces = pieces(answer?);
    for (number, batches) in pieces.iter().enumerate().rev() {
        let written = to.write(&piece_name(name, number), content.readers, |file| write(file, batches));
        written.map_err(|error| chain(&error))?;
    }
    Ok(pieces.iter().flatten().map(|batch| batch.num_rows() as u64).sum())
}

/// The rows in pieces; none without rows.
fn pieces(run: Run) -> Vec<Vec<RecordBatch>> {
    let mut pieces: Vec<Vec<RecordBatch>> = Vec::new();
    let (mut rows, mut memory) = (0, 0);
    for batch in run.batches.into_iter().filter(|batch| batch.num_rows() > 0) {
        rows += batch.num_rows();
        memory += batch.get_array_memory_size();
        match pieces.last_mut() {
            Some(piece) if rows <= PIECE_ROWS && memory <= PIECE_MEMORY => piece.push(batch),
            _ => {
                (rows, memory) = (batch.num_rows(), batch.get_array_memory_size());
                pieces.push(vec![batch]);
            }
        }
    }
    pieces
}

fn write(file: &mut File, batches: &[RecordBatch]) -> io::Result<()> {
    let Some(first) = batches.first() else { return Ok(()) };
    let properties = WriterProperties::builder().set_compression(Compression::ZSTD(ZstdLevel::default())).build();
    let mut out =
        ArrowWriter::try_new(file, Arc::clone(&first.schema()), Some(properties)).map_err(io::Error::other)?;
    batches.iter().try_for_each(|batch| out.write(batch)).map_err(io::Error::other)?;
    out.close().map(drop).map_err(io::Error::other)
}
