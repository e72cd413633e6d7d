use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use unstarve_guard::metrics::Status;
use unstarve_guard::state::{self, State, StateError};
use unstarve_guard::{journal, run};
use unstarve_model::Nanos;
use unstarve_report::clean;

use crate::output::Out;

/// Say whether a guard is at work, and what it has done
#[derive(Args)]
#[command(after_help = "Exit code: 0 if a guard is at work, 1 if none is, 2 if that cannot be told.")]
pub struct StatusArgs {
    /// Where its journal is kept
    #[arg(long, value_name = "DIR", default_value = state::DEFAULT_DIRECTORY)]
    state: PathBuf,
    /// For machines
    #[arg(long)]
    json: bool,
}

pub fn run(args: &StatusArgs) -> Result<ExitCode> {
    let status = if is_running(args)? { run::status(&args.state)? } else { None };
    let out = Out::new();
    match (&status, args.json) {
        (Some(status), true) => out.text(&format!("{}\n", serde_json::to_string_pretty(status)?))?,
        (None, true) => out.text("null\n")?,
        (Some(status), false) => out.text(&text(status))?,
        (None, false) => out.text(&format!("no guard is at work in {}\n{}", args.state.display(), left(args)?))?,
    }
    Ok(ExitCode::from(u8::from(status.is_none())))
}

/// A guard that was killed leaves its status file, but not its lock.
fn is_running(args: &StatusArgs) -> Result<bool> {
    if !args.state.exists() {
        return Ok(false);
    }
    match State::lock(&args.state) {
        Err(StateError::Busy { .. }) => Ok(true),
        Err(error) => Err(error.into()),
        Ok(_) => Ok(false),
    }
}

fn left(args: &StatusArgs) -> Result<String> {
    let contents = journal::read(&args.state.join("guard.journal"), &journal::boot_id()?)?;
    Ok(match contents.open.len() {
        0 => String::new(),
        open => format!("{open} changes of one are still in place; `unstarve guard undo` takes them back\n"),
    })
}

fn text(status: &Status) -> String {
    let counts = &status.counts;
    let mut text = format!(
        "guard {} keeps {} tasks as {} says; news by {}\n",
        status.pid,
        counts.managed,
        clean(&status.policy),
        status.source
    );
    for gap in &status.gaps {
        text += &format!("  note: {}\n", clean(gap));
    }
    text += &format!(
        "{} values set, {} refused by the system, {} tasks gone before\n",
        counts.applied, counts.failed, counts.gone
    );
    if status.births > 0 {
        text += &format!(
            "birth to applied: median {}, 99th percentile {}, longest {}, {} births\n",
            Nanos(status.birth_p50_ns),
            Nanos(status.birth_p99_ns),
            Nanos(status.birth_max_ns),
            status.births
        );
    }
    text += &format!(
        "drift: {} times, {} put back; over budget: {} times; events lost: {}, births missed: {}\n",
        counts.drift, counts.corrected, counts.over_budget, counts.events_lost, counts.missed
    );
    text
}
