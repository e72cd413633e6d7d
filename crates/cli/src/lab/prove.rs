//! `unstarve lab prove`: whether a remedy helps, and what it costs.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::SystemTime;

use anyhow::Context;
use clap::Args;
use unstarve_diagnose::proofs::{Answer as Proved, Proof};
use unstarve_lab::bench::Bench;
use unstarve_lab::cells::{CellOrigin, Cells};
use unstarve_lab::proofs::{Proving, prove_all};
use unstarve_lab::prove::Answer;
use unstarve_lab::store::{Cache, Kernel};
use unstarve_lab::trial::explain_outcome;
use unstarve_lab::{catalogue, prove};
use unstarve_model::WallTime;

use super::experiment::{Experiment, print_progress};
use super::proofs::{self, OtherRows};

/// Run a scenario without a remedy, with it, and without it again: did it help, and what did it cost
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  unstarve lab prove raise-worker --scenario kubepods --kernel 6.1
  unstarve lab prove kubepods --all --kernel 6.1 --kernel 6.12

A remedy of `explain` is what `explain` offers for the faulty guest. Its changes are made in a second guest, as `fix` makes them on a host. --all tries each remedy.

Exit code: 0 if it helped (with --all: if one did), 1 if not, or if that is unclear, 2 if a run failed.")]
pub(crate) struct ProveArgs {
    /// A remedy of `explain` or of the scenario; with --all a scenario
    #[arg(value_name = "REMEDY|SCENARIO")]
    what: String,
    /// A scenario that comes with unstarve, or a TOML file
    #[arg(long, required_unless_present = "all", conflicts_with = "all")]
    scenario: Option<String>,
    /// Try each remedy that `explain` offers for the scenario
    #[arg(long)]
    all: bool,
    /// The kernel, as `unstarve lab kernel list` calls it; with --all it may be repeated
    #[arg(long, required = true)]
    kernel: Vec<String>,
    /// Put what --all proves into this table, row by row, for the lines of the same scenario and kernel
    #[arg(long, value_name = "FILE", requires = "all")]
    table: Option<PathBuf>,
    /// Keep the outcomes behind each row in this directory; rows that are there already are not proved again
    #[arg(long, value_name = "DIR", requires = "all")]
    cells: Option<PathBuf>,
    /// The program's commit, for the table
    #[arg(long, value_name = "ID", requires = "all")]
    commit: Option<String>,
    #[command(flatten)]
    experiment: Experiment,
}

pub(crate) fn run(args: ProveArgs) -> anyhow::Result<ExitCode> {
    match (&args.scenario, &args.kernel[..]) {
        (None, _) => all(&args),
        (Some(scenario), [kernel]) => one(&args, scenario, kernel),
        (Some(_), _) => anyhow::bail!("one remedy is proved on one kernel; give one --kernel, or a scenario and --all"),
    }
}

fn one(args: &ProveArgs, scenario: &str, kernel: &str) -> anyhow::Result<ExitCode> {
    let scenario = catalogue::find(scenario)?;
    let mut runner = args.experiment.guests.runner()?;
    let mut tell = print_progress;
    let mut bench = Bench::new(&mut runner, &mut tell);
    let proof = prove::prove(&mut bench, &scenario, kernel, &args.what, args.experiment.plan())?;
    args.experiment.guests.show(&proof)?;
    Ok(if proof.answer == Answer::Helped { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn all(args: &ProveArgs) -> anyhow::Result<ExitCode> {
    let scenario = catalogue::find(&args.what)?;
    let mut runner = args.experiment.guests.runner()?;
    let mut tell = print_progress;
    let mut bench = Bench::new(&mut runner, &mut tell);
    let cells = args.cells.as_deref().map(Cells::in_directory);
    let mut has_helped = false;
    for kernel in &args.kernel {
        let mut explain = explain_outcome;
        // Saved row by row: an interruption loses only the current one.
        let mut enter = |rows: &[Proof]| match &args.table {
            Some(table) => proofs::enter(table, rows, OtherRows::Keep).map_err(io::Error::other),
            None => Ok(()),
        };
        let proofs = prove_all(
            &mut bench,
            &scenario,
            kernel,
            &mut Proving {
                plan: args.experiment.plan(),
                explain: &mut explain,
                cells: cells.as_ref(),
                made: made(kernel, args.commit.as_deref())?,
                enter: &mut enter,
            },
        )?;
        has_helped |= proofs.proofs.iter().any(|proof| proof.answer == Proved::Helped);
        if let Some(table) = &args.table {
            proofs::enter(table, &proofs.proofs, OtherRows::Remove)?;
        }
        args.experiment.guests.show(&proofs)?;
    }
    Ok(if has_helped { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn made(kernel: &str, commit: Option<&str>) -> anyhow::Result<CellOrigin> {
    origin(Kernel::open(&Cache::of_user()?, kernel)?.info.package(), commit)
}

/// What a cell is made with: this kernel's package, this program, today.
pub(super) fn origin(package: String, commit: Option<&str>) -> anyhow::Result<CellOrigin> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).context("the clock is before 1970")?;
    let date = WallTime(u64::try_from(now.as_nanos()).context("the clock is after 2500")?).date();
    let unstarve = [Some(env!("CARGO_PKG_VERSION")), commit].into_iter().flatten().collect::<Vec<_>>().join(" ");
    Ok(CellOrigin { package, unstarve, date })
}
