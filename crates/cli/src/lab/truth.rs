//! `unstarve lab truth`: judges `explain` on all scenarios and kernels.

use std::process::ExitCode;

use clap::Args;
use unstarve_lab::bench::Bench;
use unstarve_lab::truth::{self, Judgement};
use unstarve_lab::{catalogue, scenario::Scenario};

use super::experiment::{Guests, explain, print_progress};

/// Run all scenarios on all kernels, with and without their fault, and judge the verdicts of `explain`
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  unstarve lab truth
  unstarve lab truth --scenario spike --kernel 5.10 --kernel 6.12

Exit code: 0 if every verdict is right, 1 if not, 2 if nothing could be run.")]
pub(crate) struct TruthArgs {
    /// Only this scenario; may be repeated
    #[arg(long, value_name = "SCENARIO")]
    scenario: Vec<String>,
    /// This kernel; may be repeated
    #[arg(long, default_values = ["5.10", "6.1", "6.12", "7"])]
    kernel: Vec<String>,
    /// The seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    guests: Guests,
}

pub(crate) fn run(args: TruthArgs) -> anyhow::Result<ExitCode> {
    let named: Vec<&str> = args.scenario.iter().map(String::as_str).collect();
    let names = if named.is_empty() { catalogue::names().collect() } else { named };
    let scenarios = names.into_iter().map(catalogue::find).collect::<Result<Vec<Scenario>, _>>()?;
    let mut runner = args.guests.runner()?;
    let mut tell = print_progress;
    let mut bench = Bench::new(&mut runner, &mut tell);
    let mut explain = |outcome: &_| explain(outcome).map_err(Into::into);
    let truth = truth::truth(&mut bench, &scenarios, &args.kernel, args.seed, &mut explain);
    args.guests.show(&truth)?;
    let wrong = |judgement: &Judgement| judgement.counts() && !judgement.is_right();
    let all_right = !truth.rows.iter().any(|row| wrong(&row.judgement));
    Ok(if all_right { ExitCode::SUCCESS } else { ExitCode::from(1) })
}
