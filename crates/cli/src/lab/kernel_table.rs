//! `unstarve lab table`: which threads each kernel starves.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use unstarve_lab::bench::Bench;
use unstarve_lab::catalogue;
use unstarve_lab::kernel_table::{AskedScenario, CellState, Filling, KernelCells, KernelColumn, KernelTable, fill};
use unstarve_lab::store::{self, Cache, Kernel};

use super::experiment::{Experiment, explain, print_progress};
use super::prove::origin;
use crate::tables;
use crate::target::Target;

/// Run scenarios on several kernels, with and without their fault, and show which kernels starve threads
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  unstarve lab table                                    all scenarios that come with unstarve, all kernels in the lab
  unstarve lab table --scenario spike --kernel 6.12.43 --kernel 6.12.107
  unstarve lab table --kernel mine --markdown kernels.md --lines kernels.tsv
  unstarve lab table --known                            what was run so far; boots no guest

Cells are kept: an interrupted table goes on where it was. A cell is run again if its scenario or its kernel changed, with more seeds, another --matters, or
with --fresh.

Exit code: 0 if all cells are known, 1 if some failed or are missing, 2 if nothing could be run.")]
pub(crate) struct TableArgs {
    /// Only this scenario, by name or as a TOML file; may be repeated
    #[arg(long, value_name = "SCENARIO")]
    scenario: Vec<String>,
    /// Only this kernel, as `unstarve lab kernel list` calls it; may be repeated
    #[arg(long, value_name = "KERNEL")]
    kernel: Vec<String>,
    /// Show what is known, with whatever seeds, and boot no guest
    #[arg(long)]
    known: bool,
    /// The directory of the cells [default: in the lab's cache]
    #[arg(long, value_name = "DIR")]
    cells: Option<PathBuf>,
    /// Write a page with a picture of each scenario
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Write a tab-separated line for each cell: verdict, effect, SHA-256 of the recordings, command
    #[arg(long, value_name = "FILE")]
    lines: Option<PathBuf>,
    /// Write the same as a Parquet file, the table kernel_cells of docs/tables.md
    #[arg(long, value_name = "FILE")]
    parquet: Option<PathBuf>,
    #[command(flatten)]
    experiment: Experiment,
}

pub(crate) fn run(args: TableArgs) -> anyhow::Result<ExitCode> {
    let cache = Cache::of_user()?;
    let kernels = columns(&cache, &args.kernel)?;
    let named: Vec<&str> = args.scenario.iter().map(String::as_str).collect();
    let names = if named.is_empty() { catalogue::names().collect() } else { named.clone() };
    let mut scenarios = Vec::new();
    for name in names {
        let asked = AskedScenario { asked: name.to_owned(), scenario: catalogue::find(name)? };
        if asked.is_judged() {
            scenarios.push(asked);
        } else if !named.is_empty() {
            anyhow::bail!("{name} does not say whom its fault starves: it has no `finding` in [expect]");
        }
    }
    let opened = |path: &Option<PathBuf>| path.as_deref().map(Target::open).transpose();
    let (markdown, lines, parquet) = (opened(&args.markdown)?, opened(&args.lines)?, opened(&args.parquet)?);
    let mut runner = args.experiment.guests.runner()?;
    let program_digest = runner.program_digest().with_context(|| runner.program.display().to_string())?;
    let mut tell = print_progress;
    let mut bench = Bench::new(&mut runner, &mut tell);
    let mut explain = |outcome: &_| explain(outcome).map_err(Into::into);
    let directory = args.cells.unwrap_or_else(|| cache.kernel_cells());
    let cells = KernelCells::in_directory(&directory);
    if !args.known {
        cells.prepare().with_context(|| format!("{}: cells cannot be kept there", directory.display()))?;
    }
    let mut filling = Filling {
        plan: args.experiment.plan(),
        program_digest,
        init: args.experiment.guests.init_name(),
        made: origin(String::new(), None)?,
        explain: &mut explain,
        cells: &cells,
        fresh: args.experiment.guests.fresh() && !args.known,
        runs_guests: !args.known,
    };
    let table = fill(&mut bench, &scenarios, kernels, &mut filling);
    for (target, text) in [(markdown, KernelTable::markdown as fn(&KernelTable) -> String), (lines, KernelTable::lines)]
    {
        let Some(target) = target else { continue };
        target.text(&text(&table))?;
        target.deliver()?;
    }
    if let Some(target) = parquet {
        tables::write_kernel_cells(target, &table)?;
    }
    args.experiment.guests.show(&table)?;
    let is_whole = |state: &CellState| matches!(state, CellState::Known(_) | CellState::NotHere);
    let all = table.rows.iter().flat_map(|row| &row.cells).all(is_whole);
    Ok(if all { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// The named kernels, or all of the store, oldest first.
fn columns(cache: &Cache, names: &[String]) -> anyhow::Result<Vec<KernelColumn>> {
    let infos = if names.is_empty() {
        store::list(cache)?
    } else {
        names.iter().map(|name| Ok(Kernel::open(cache, name)?.info)).collect::<Result<_, store::StoreError>>()?
    };
    anyhow::ensure!(!infos.is_empty(), "the lab has no kernel: add some with `unstarve lab kernel add 6.1 6.12`");
    let mut columns: Vec<KernelColumn> = infos.into_iter().map(KernelColumn::from).collect();
    columns.sort_by(|a, b| store::dpkg_order(&a.name, &b.name));
    columns.dedup_by(|a, b| a.name == b.name);
    Ok(columns)
}
