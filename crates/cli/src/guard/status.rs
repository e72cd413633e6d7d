use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use unstarve_guard::metrics::Status;
use unstarve_guard::run;
use unstarve_guard::state;
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
    let holder = state::holder()?;
    // A guard that was killed leaves its status file, but not its lock; and another one may have its state elsewhere.
    let status = match &holder {
        Some(holder) => run::status(&holder.state)?,
        None => None,
    };
    let out = Out::new();
    match (&status, args.json) {
        (Some(status), true) => out.text(&format!("{}\n", serde_json::to_string_pretty(status)?))?,
        (None, true) => out.text("null\n")?,
        (Some(status), false) => out.text(&text(status))?,
        (None, false) => {
            let who = holder.map_or("no guard is at work".to_owned(), |holder| format!("at work: {holder}"));
            out.text(&format!("{who}\n{}", left(args)?))?;
        }
    }
    Ok(ExitCode::from(u8::from(status.is_none())))
}

fn left(args: &StatusArgs) -> Result<String> {
    let contents = state::look_into(&args.state)?;
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
    text += &match status.dead_man {
        Some(pid) => format!("dead-man: process {pid}"),
        None => "dead-man: none".to_owned(),
    };
    text += &match counts.dead_man_restarts {
        0 => "\n".to_owned(),
        count => format!(", started anew {count} times\n"),
    };
    if counts.inherited > 0 {
        text += &format!("{} values inherited by children and threads\n", counts.inherited);
    }
    if counts.throttled > 0 {
        text += &format!("{} events of users with too many at a time not looked at one by one\n", counts.throttled);
    }
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
