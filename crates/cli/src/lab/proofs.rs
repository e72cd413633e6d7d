//! The table of proofs, and `unstarve lab proofs`, which rebuilds it from stored guest results.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use unstarve_diagnose::proofs::{Proof, read, shipped, write};
use unstarve_files::{Limit, read_text};
use unstarve_lab::cells::Cells;
use unstarve_lab::compare::Plan;

use crate::output::shown;
use crate::tables;
use crate::target::Target;

/// Make the table of proofs from the results that `lab prove --all --cells` kept; boot no guest
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  unstarve lab proofs --cells ~/.cache/unstarve/proofs/cells --table crates/diagnose/data/proofs.tsv
  unstarve lab proofs --parquet proofs.parquet        what ships with this program, for `unstarve sql`

The table's lines of scenarios and kernels of which there is no cell stay as they are.

Exit code: 0 if the table was written, 2 if not.")]
pub(crate) struct ProofsArgs {
    /// The directory of the cells; without it the rows are those that ship with this program
    #[arg(long, value_name = "DIR")]
    cells: Option<PathBuf>,
    /// The table
    #[arg(long, value_name = "FILE", required_unless_present = "parquet", requires = "cells")]
    table: Option<PathBuf>,
    /// The rows as a Parquet file
    #[arg(long, value_name = "FILE")]
    parquet: Option<PathBuf>,
}

pub(crate) fn run(args: ProofsArgs) -> anyhow::Result<ExitCode> {
    match &args.cells {
        Some(directory) => of_cells(directory, &args)?,
        None => write_parquet(&args, &shipped().iter().collect::<Vec<_>>())?,
    }
    Ok(ExitCode::SUCCESS)
}

fn write_parquet(args: &ProofsArgs, rows: &[&Proof]) -> anyhow::Result<()> {
    let Some(file) = &args.parquet else { return Ok(()) };
    tables::write_proofs(file, rows)?;
    note!("unstarve: {} with {}", shown(file), unstarve_model::counted(rows.len() as u64, "row"));
    Ok(())
}

fn of_cells(directory: &Path, args: &ProofsArgs) -> anyhow::Result<()> {
    let cells = Cells::in_directory(directory).all().with_context(|| directory.display().to_string())?;
    let mut by_guests: BTreeMap<(String, String), Vec<Proof>> = BTreeMap::new();
    anyhow::ensure!(!cells.is_empty(), "{}: no outcome of `lab prove --all --cells` is here", directory.display());
    for proof in cells.iter().flat_map(|cell| cell.proofs(Plan::default().matters)) {
        by_guests.entry((proof.scenario.clone(), proof.kernel.clone())).or_default().push(proof);
    }
    if let Some(table) = &args.table {
        for proofs in by_guests.values() {
            enter(table, proofs, OtherRows::Remove)?;
        }
        note!("unstarve: {} of {} cells", shown(table), cells.len());
    }
    write_parquet(args, &by_guests.values().flatten().collect::<Vec<_>>())
}

/// What happens to the table's other rows of the same scenario and kernel.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum OtherRows {
    /// Keeps them: more rows follow.
    Keep,
    /// Removes them: these rows are complete.
    Remove,
}

/// Replaces rows of the same remedy, finding, victim, scenario and kernel.
pub(super) fn enter(path: &Path, rows: &[Proof], stale: OtherRows) -> anyhow::Result<()> {
    let limit = Limit { bytes: 16 << 20, expected: "a table of proofs" };
    let mut table = if path.exists() {
        read(&read_text(path, limit)?).with_context(|| path.display().to_string())?
    } else {
        Vec::new()
    };
    let replaced = |old: &Proof| {
        rows.iter().any(|new| {
            let same_guests = new.scenario == old.scenario && new.kernel == old.kernel;
            let same_row = new.remedy == old.remedy && new.finding == old.finding && new.victim == old.victim;
            same_guests && (stale == OtherRows::Remove || same_row)
        })
    };
    table.retain(|old| !replaced(old));
    table.extend(rows.iter().cloned());
    let target = Target::open(path).with_context(|| path.display().to_string())?;
    target.text(&write(&table))?;
    target.deliver()
}
