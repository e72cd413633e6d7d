use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde::Deserialize;
use serde_json::Value;
use unstarve_term::clean;
use unstarve_watch::control::{ControlError, Request, ask};
use unstarve_watch::episode::{Episode, line};

use super::{StateArgs, print};
use crate::output::{self, Out};

/// Show whether a watch is running, and how it is
#[derive(Args)]
#[command(
    after_help = "Exit code: 0 if a watch is running, 1 if none is, 2 if this cannot be determined. With --json: null if none is
running."
)]
pub struct StatusArgs {
    #[command(flatten)]
    state: StateArgs,
    /// Print JSON (schema unstarve.watch-status/1)
    #[arg(long)]
    json: bool,
}

/// Keep what the flight recorder of the running watch holds, as an episode
#[derive(Args)]
#[command(after_help = "Exit code: 0 if it was kept, 2 if not.")]
pub struct DumpArgs {
    #[command(flatten)]
    state: StateArgs,
    /// Print JSON (schema unstarve.watch-episode/1)
    #[arg(long)]
    json: bool,
}

pub fn run(args: &StatusArgs) -> Result<ExitCode> {
    let answer = match ask(args.state.path(), Request::Status) {
        Ok(answer) => answer,
        Err(ControlError::Nobody(_)) => {
            Out::new().text(if args.json {
                "null\n"
            } else {
                "No watch is running. Start one: sudo unstarve watch, or systemctl start unstarve-watch\n"
            })?;
            return Ok(ExitCode::from(1));
        }
        Err(error) => return Err(output::hint_at_root(error.into())),
    };
    let status: Value = serde_json::from_str(&answer).context("the watch's answer")?;
    if args.json {
        return print(&(serde_json::to_string_pretty(&status)? + "\n"));
    }
    print(&text(&status))
}

fn text(status: &Value) -> String {
    let word = |key: &str| match &status[key] {
        Value::String(text) => clean(text).into_owned(),
        Value::Null => "unknown".to_owned(),
        other => other.to_string(),
    };
    let episodes: u64 =
        status["episodes"].as_object().into_iter().flatten().filter_map(|(_, count)| count.as_u64()).sum();
    let mut text = format!(
        "watch {} counts by {} since {}\nflight recorder: {}; metrics and page: {}\n{episodes} episodes since, {} not kept; {} in {}\n",
        word("pid"),
        word("engine"),
        word("since"),
        word("recorder"),
        word("listen"),
        word("not_kept"),
        word("kept"),
        word("store"),
    );
    let suppressed = status["suppressed"].as_object().into_iter().flatten();
    let suppressed: Vec<String> = suppressed.map(|(role, count)| format!("{} {count}", clean(role))).collect();
    if !suppressed.is_empty() {
        text += &format!("starved without an episode of their own: {}\n", suppressed.join(", "));
    }
    for problem in status["problems"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        text += &format!("  note: {}\n", clean(problem));
    }
    text
}

pub fn dump(args: &DumpArgs) -> Result<ExitCode> {
    #[derive(Deserialize)]
    struct Refused {
        error: String,
    }
    let answer = ask(args.state.path(), Request::Dump).map_err(|error| output::hint_at_root(error.into()))?;
    if let Ok(refused) = serde_json::from_str::<Refused>(&answer) {
        bail!("nothing was kept: {}", refused.error);
    }
    if args.json {
        return print(&answer);
    }
    let episode: Episode = serde_json::from_str(&answer).context("the watch's answer")?;
    if episode.trace_bytes.is_none() {
        bail!("nothing was kept: {}", episode.problem.as_deref().unwrap_or("there is no trace"));
    }
    print(&format!("{}\n", line(&episode)))
}
