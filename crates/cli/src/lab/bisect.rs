//! `unstarve lab bisect`: finds the settings that make the difference between two sides.

use std::process::ExitCode;

use clap::Args;
use unstarve_facts::Snapshot;
use unstarve_files::{Limit, read_text};
use unstarve_lab::bench::Bench;
use unstarve_lab::bisect::{self, Search, Settings, settings_of};
use unstarve_lab::catalogue;
use unstarve_lab::run::Outcome;
use unstarve_lab::side::Side;

use super::experiment::{Guests, print_progress};

/// Find the smallest set of settings that makes the difference between two sides
#[derive(Args, Debug)]
#[command(after_help = "\
Between two kernels the candidates are the scheduler features and settings that both have and that differ. A cause is only
named if `lab compare` would claim the difference between the sides, and that between side A and A with the cause, the
latter on seeds that the search has not seen.

Examples:
  unstarve lab bisect kubepods --a kernel=6.1 --b kernel=6.12
  unstarve lab bisect granularity-stream --a kernel=6.1,fault=off --b fault=on --metric stream.packets

Exit code: 0 if a cause was found, 1 if none was, 2 if a run failed.")]
pub(crate) struct BisectArgs {
    /// A scenario that comes with unstarve, or a TOML file
    scenario: String,
    /// Side A, with its kernel: kernel=NAME, fault=on|off, remedy=ID, set:KNOB=VALUE, with commas between
    #[arg(long, value_name = "SIDE")]
    a: Side,
    /// Side B; without a kernel it has A's
    #[arg(long, value_name = "SIDE")]
    b: Side,
    /// The metric to explain; else the scenario's main one
    #[arg(long)]
    metric: Option<String>,
    /// Compare the sides over so many seeds, and confirm over as many further ones
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(3..=100))]
    seeds: u64,
    #[command(flatten)]
    guests: Guests,
}

pub(crate) fn run(args: BisectArgs) -> anyhow::Result<ExitCode> {
    let scenario = catalogue::find(&args.scenario)?;
    let mut runner = args.guests.runner()?;
    let mut tell = print_progress;
    let mut bench = Bench::new(&mut runner, &mut tell);
    let search = Search { seeds: args.seeds, metric: args.metric, ..Search::default() };
    let found = bisect::bisect(&mut bench, &scenario, (&args.a, &args.b), &settings, &search)?;
    args.guests.show(&found)?;
    Ok(if found.cause.is_empty() { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

/// The settings in the guest's own snapshot.
fn settings(outcome: &Outcome) -> Result<Settings, String> {
    let limit = Limit { bytes: 64 << 20, expected: "the guest's snapshot" };
    let text = read_text(&outcome.directory.join("snapshot.json"), limit).map_err(|error| error.to_string())?;
    let snapshot = Snapshot::from_json(&text);
    snapshot.map(|snapshot| settings_of(&snapshot)).map_err(|error| format!("{}: {error}", outcome.directory.display()))
}
