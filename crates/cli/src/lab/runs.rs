//! `unstarve lab runs`: lists and removes stored results.

use std::process::ExitCode;
use std::time::SystemTime;

use anyhow::Context;
use clap::{Args, Subcommand};
use unstarve_lab::store::{Cache, KeptRun, RUNS_LIMIT, clean_runs, kept_runs};
use unstarve_term::lab::{RunLine, mebibytes, runs_page};

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
            let text =
                if json { serde_json::to_string_pretty(&runs)? + "\n" } else { runs_page(&lines(&runs), RUNS_LIMIT) };
            Out::new().text(&text)?;
        }
        RunsCommand::Clean { keep } => {
            let removed = clean_runs(&cache, u64::from(keep) << 20).with_context(place)?;
            say!("removed {} results, {}", removed.runs, mebibytes(removed.bytes));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn lines(runs: &[KeptRun]) -> Vec<RunLine<'_>> {
    let now = SystemTime::now();
    let lines = runs.iter().map(|run| {
        let KeptRun { scenario, kernel, directory, bytes, used } = run;
        // A result used after `now` was read counts as used now.
        let age = now.duration_since(*used).unwrap_or_default();
        RunLine { scenario, kernel, directory, bytes: *bytes, age }
    });
    lines.collect()
}
