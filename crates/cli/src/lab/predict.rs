//! `unstarve lab predict`: predictions held against what came.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use unstarve_facts::Snapshot;
use unstarve_lab::bench::Bench;
use unstarve_lab::catalogue;
use unstarve_lab::predictions::{PredictionRow, hold_against};
use unstarve_lab::run::{Outcome, Request};
use unstarve_sim::predict::Model;

use super::experiment::{Guests, print_progress};

/// Predict every remedy from a faulty guest's recording, then make it in a second guest: how right was the prediction
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  unstarve lab predict kubepods --kernel 6.1
  unstarve lab predict spike reactor --kernel 6.1 --kernel 6.12 --table predictions.tsv

Exit code: 0, or 2 if a guest failed.")]
pub(crate) struct PredictArgs {
    /// Scenarios that come with unstarve, or TOML files
    #[arg(required = true, value_name = "SCENARIO")]
    scenarios: Vec<String>,
    /// The kernel, as `unstarve lab kernel list` calls it; may be repeated
    #[arg(long, required = true)]
    kernel: Vec<String>,
    /// Run the seeds 1 to this
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=100))]
    seeds: u64,
    /// Record block I/O too, as `unstarve record --io` does
    #[arg(long)]
    io: bool,
    /// Record what predictions would have to guess, as `unstarve record --predictable` does
    #[arg(long)]
    predictable: bool,
    /// Add the rows to this table
    #[arg(long, value_name = "FILE")]
    table: Option<PathBuf>,
    #[command(flatten)]
    guests: Guests,
}

pub(crate) fn run(args: &PredictArgs) -> anyhow::Result<ExitCode> {
    let mut runner = args.guests.runner()?;
    let mut tell = print_progress;
    let mut bench = Bench::new(&mut runner, &mut tell);
    say!("{}", PredictionRow::COLUMNS);
    let mut save = |rows: &[PredictionRow]| -> io::Result<()> {
        for row in rows {
            say!("{}", row.line());
        }
        let Some(path) = &args.table else { return Ok(()) };
        let is_new = !path.exists();
        let mut table = OpenOptions::new().create(true).append(true).open(path)?;
        let header = if is_new { format!("{}\n", PredictionRow::COLUMNS) } else { String::new() };
        let lines: String = rows.iter().map(|row| row.line() + "\n").collect();
        table.write_all((header + &lines).as_bytes())
    };
    for name in &args.scenarios {
        let scenario = catalogue::find(name)?;
        for kernel in &args.kernel {
            for seed in 1..=args.seeds {
                let mut engine = |outcome: &Outcome, snapshot: Option<&Snapshot>| Model {
                    release: outcome.kernel_release.clone(),
                    snapshot: snapshot.cloned(),
                };
                let (io, predictable) = (args.io, args.predictable);
                let request = Request { io, predictable, ..Request::faulty(scenario.clone(), kernel, seed) };
                hold_against(&mut bench, &request, &mut engine, &mut save)
                    .with_context(|| format!("{name} on {kernel}, seed {seed}"))?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}
