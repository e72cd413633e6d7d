//! `unstarve lab prove`.

use std::process::ExitCode;

use clap::Args;
use unstarve_lab::bench::Bench;
use unstarve_lab::prove::Answer;
use unstarve_lab::{catalogue, prove};

use super::experiment::{Experiment, tell};

/// Run a scenario without a remedy, with it, and without it again: did it help, and what did it cost
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  unstarve lab prove raise-worker --scenario kubepods --kernel 6.1

Exit code: 0 if it helped, 1 if not, or if that is unclear, 2 if a run failed.")]
pub(crate) struct ProveArgs {
    /// One of the scenario's remedies
    remedy: String,
    /// A scenario that comes with unstarve, or a TOML file
    #[arg(long)]
    scenario: String,
    /// The kernel, as `unstarve lab kernel list` calls it
    #[arg(long)]
    kernel: String,
    #[command(flatten)]
    experiment: Experiment,
}

pub(crate) fn run(args: ProveArgs) -> anyhow::Result<ExitCode> {
    let scenario = catalogue::find(&args.scenario)?;
    let mut runner = args.experiment.guests.runner()?;
    let mut tell = tell;
    let mut bench = Bench::new(&mut runner, &mut tell);
    let proof = prove::prove(&mut bench, &scenario, &args.kernel, &args.remedy, args.experiment.plan())?;
    args.experiment.guests.show(&proof)?;
    Ok(if proof.answer == Answer::Helped { ExitCode::SUCCESS } else { ExitCode::from(1) })
}
