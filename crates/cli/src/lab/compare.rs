//! `unstarve lab compare`: runs two sides of a scenario with the same seeds.

use std::process::ExitCode;

use clap::Args;
use unstarve_lab::bench::Bench;
use unstarve_lab::compare::PerSeed;
use unstarve_lab::side::Side;
use unstarve_lab::{catalogue, compare};

use super::experiment::{Experiment, print_progress};

/// Run two sides of a scenario with the same seeds, and show what differs and by how much
#[derive(Args, Debug)]
#[command(after_help = "\
A side is kernel=NAME, fault=on|off, remedy=ID, set:KNOB=VALUE, with commas between.

Examples:
  unstarve lab compare kubepods --a kernel=6.1 --b kernel=6.12
  unstarve lab compare kubepods --a kernel=6.1,fault=off --b fault=on --seeds 5
  unstarve lab compare randio --a kernel=6.1 --b set:sched_feature.UTIL_EST=off

Exit code: 0 no significant difference, 1 there is one, 2 a run failed.")]
pub(crate) struct CompareArgs {
    /// A scenario that comes with unstarve, or a TOML file
    scenario: String,
    /// Side A; it has to name a kernel
    #[arg(long, value_name = "SIDE")]
    a: Side,
    /// Side B; without a kernel it has A's
    #[arg(long, value_name = "SIDE", default_value = "")]
    b: Side,
    /// Print the values of every seed, too
    #[arg(long, conflicts_with = "json")]
    per_seed: bool,
    #[command(flatten)]
    experiment: Experiment,
}

pub(crate) fn run(args: CompareArgs) -> anyhow::Result<ExitCode> {
    let scenario = catalogue::find(&args.scenario)?;
    let mut runner = args.experiment.guests.runner()?;
    let mut tell = print_progress;
    let mut bench = Bench::new(&mut runner, &mut tell);
    let result = compare::compare(&mut bench, &scenario, (&args.a, &args.b), args.experiment.plan())?;
    args.experiment.guests.show(&result)?;
    if args.per_seed {
        crate::output::print(format_args!("\n{}", PerSeed(&result)));
    }
    Ok(if result.claims_a_difference() { ExitCode::from(1) } else { ExitCode::SUCCESS })
}
