//! `unstarve lab runs`: the results that are kept.

use std::process::ExitCode;
use std::time::SystemTime;

use anyhow::Context;
use clap::{Args, Subcommand};
use unstarve_lab::store::{Cache, KeptRun, RUNS_LIMIT, clean_runs, kept_runs};

use crate::output::Out;

/// List the results that are kept, or remove them
#[derive(Args, Debug)]
#[command(after_help = "\
Results are kept: an identical run is not repeated. Together they take 256 MiB at most; the least recently
used go first, but none that was used within the hour.

Examples:
  unstarve lab runs list
  unstarve lab runs clean
  unstarve lab runs clean --keep 50")]
pub(crate) struct RunsArgs {
    #[command(subcommand)]
    command: RunsCommand,
}

#[derive(Subcommand, Debug)]
enum RunsCommand {
    /// Show the results that are kept, the most recently used first
    List {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove results, the least recently used first
    Clean {
        /// Keep those used last, up to so many MiB
        #[arg(long, value_name = "MIB", default_value_t = 0)]
        keep: u32,
    },
}

pub(crate) fn run(args: RunsArgs) -> anyhow::Result<ExitCode> {
    let cache = Cache::of_user()?;
    let place = || cache.runs().display().to_string();
    match args.command {
        RunsCommand::List { json } => {
            let runs = kept_runs(&cache).with_context(place)?;
            let text = if json { serde_json::to_string_pretty(&runs)? + "\n" } else { table(&runs) };
            Out::new().text(&text)?;
        }
        RunsCommand::Clean { keep } => {
            let removed = clean_runs(&cache, u64::from(keep) << 20).with_context(place)?;
            say!("removed {} results, {}", removed.runs, size(removed.bytes));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn table(runs: &[KeptRun]) -> String {
    let mut text = String::new();
    for run in runs {
        let age = SystemTime::now().duration_since(run.used).map_or(0, |age| age.as_secs());
        let (scenario, kernel) = (format!("{:<20}", run.scenario), format!("{:<8}", run.kernel));
        text += &format!("{scenario} {kernel} {:>9} {:>7}  {}\n", size(run.bytes), since(age), run.directory.display());
    }
    let bytes = runs.iter().map(|run| run.bytes).sum();
    text + &format!("{} results, {} of {}\n", runs.len(), size(bytes), size(RUNS_LIMIT))
}

fn size(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

/// `5 min` ago.
fn since(seconds: u64) -> String {
    match seconds {
        0..3_600 => format!("{} min", seconds / 60),
        3_600..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}
