//! `unstarve watch status` and `dump`: the state of the running watch.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde::Deserialize;
use serde_json::Value;
use unstarve_change::quoted_file;
use unstarve_term::clean;
use unstarve_watch::config::STATE_DIRECTORY;
use unstarve_watch::control::{ControlError, Request, ask};
use unstarve_watch::episode::{Episode, line};
use unstarve_watch::first_watch;
use unstarve_watch::run::WatchStatus;

use super::episodes::to_the_second;
use super::{StateArgs, print};
use crate::output::{self, Out, counted};

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
            let text = if args.json { "null\n".to_owned() } else { nobody(args.state.path()) };
            Out::new().text(&text)?;
            return Ok(ExitCode::from(1));
        }
        Err(error) => return Err(output::hint_at_root(error.into())),
    };
    if args.json {
        // As it is: the running watch may be of a later version.
        let status: Value = serde_json::from_str(&answer).context("the watch's answer")?;
        return print(&(serde_json::to_string_pretty(&status)? + "\n"));
    }
    print(&text(&serde_json::from_str(&answer).context("the watch's answer")?))
}

/// The error if no watch uses this state directory, with the directory of the one that runs on this machine.
fn nobody(state: &Path) -> String {
    let Some((process, other)) = elsewhere(state) else {
        return "No watch is running. Start one: sudo unstarve watch, or systemctl start unstarve-watch\n".to_owned();
    };
    format!(
        "No watch uses the state directory {}. With another one there runs process {process}: unstarve watch status --state {other}\n",
        clean(&state.display().to_string())
    )
}

/// The watch with another state directory: its process, and the directory quoted for a shell.
pub(super) fn elsewhere(state: &Path) -> Option<(u32, String)> {
    let (process, other) = first_watch(Path::new(STATE_DIRECTORY)).filter(|(_, other)| other != state)?;
    let shown = || clean(&other.display().to_string()).into_owned();
    ask(&other, Request::Status).is_ok().then(|| (process, quoted_file(&other.to_string_lossy()).unwrap_or_else(shown)))
}

fn text(status: &WatchStatus) -> String {
    fn word<T: ToString>(value: Option<&T>) -> String {
        value.map_or_else(|| "unknown".to_owned(), |value| clean(&value.to_string()).into_owned())
    }
    let mut text = format!(
        "watch {} counts by {} since {}\nflight recorder: {}; metrics and page: {}{}\n{}{} since then, {} without a trace, {} without a line; the store {} has {}\n",
        word(status.pid.as_ref()),
        word(status.engine.as_ref()),
        status.since.as_deref().map_or_else(|| "unknown".to_owned(), to_the_second),
        word(status.recorder.as_ref()),
        word(status.listen.as_ref()),
        if status.cannot_listen() { " (cannot listen there)" } else { "" },
        counted(status.episodes.values().sum::<u64>(), "episode"),
        if status.open == Some(true) { " and one that is open now" } else { "" },
        word(status.without_trace.as_ref()),
        word(status.not_kept.as_ref()),
        word(status.store.as_ref().map(|store| store.display()).as_ref()),
        word(status.kept.as_ref()),
    );
    if let Some(waiting) = status.unexplained.filter(|waiting| *waiting > 0) {
        text += &format!("{} waiting to be explained\n", counted(waiting, "episode"));
    }
    let suppressed: Vec<String> =
        status.suppressed.iter().map(|(role, count)| format!("{} {count}", clean(role))).collect();
    if !suppressed.is_empty() {
        text += &format!("starved without an episode of their own: {}\n", suppressed.join(", "));
    }
    for problem in &status.problems {
        text += &format!("  note: {}\n", clean(problem));
    }
    text
}

pub fn dump(args: &DumpArgs) -> Result<ExitCode> {
    #[derive(Deserialize)]
    struct Refused {
        error: String,
    }
    let answer = match ask(args.state.path(), Request::Dump) {
        Ok(answer) => answer,
        Err(ControlError::Nobody(_)) => bail!("nothing was kept: {}", nobody(args.state.path()).trim_end()),
        Err(error) => return Err(output::hint_at_root(error.into())),
    };
    if let Ok(refused) = serde_json::from_str::<Refused>(&answer) {
        bail!("nothing was kept: {}", clean(&refused.error));
    }
    if args.json {
        return print(&answer);
    }
    let episode: Episode = serde_json::from_str(&answer).context("the watch's answer")?;
    if episode.trace_bytes.is_none() {
        bail!("nothing was kept: {}", clean(episode.problem.as_deref().unwrap_or("there is no trace")));
    }
    let state = args.state.state.as_deref().and_then(|state| quoted_file(&state.to_string_lossy()));
    let state = state.map_or_else(String::new, |state| format!(" --state {state}"));
    print(&format!("{}\nnext: unstarve watch show {}{state}\n", line(&episode), clean(&episode.id)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn text(status: Value) -> String {
        super::text(&serde_json::from_value(status).expect("a status"))
    }

    #[test]
    fn an_address_that_is_not_had_is_not_shown_as_if_it_were() {
        let status = |listen: &str, listening: Value, count: u64| {
            text(json!({
                "pid": 7, "engine": "eBPF", "since": "2026-11-23T01:23:45Z", "recorder": "always", "listen": listen,
                "listening": listening, "episodes": { "rt-starvation": count }, "without_trace": 4, "not_kept": 0, "kept": 3, "store": "/s",
                "problems": ["no metrics and no page: cannot listen at 127.0.0.1:19090"],
            }))
        };
        assert_eq!(
            status("127.0.0.1:19090", json!(false), 1),
            "watch 7 counts by eBPF since 2026-11-23T01:23:45Z\n\
             flight recorder: always; metrics and page: 127.0.0.1:19090 (cannot listen there)\n\
             1 episode since then, 4 without a trace, 0 without a line; the store /s has 3\n  \
             note: no metrics and no page: cannot listen at 127.0.0.1:19090\n"
        );
        let open = text(json!({ "since": "2026-11-23T01:23:45.123456789Z", "episodes": {}, "open": true }));
        assert!(open.contains(" since 2026-11-23T01:23:45Z\n"), "{open}");
        assert!(open.contains("\n0 episodes and one that is open now since then, "), "{open}");
        assert!(text(json!({ "unexplained": 2 })).contains("\n2 episodes waiting to be explained\n"));
        for (listen, listening) in [("127.0.0.1:9", json!(true)), ("off", json!(false)), ("127.0.0.1:9", Value::Null)] {
            let text = status(listen, listening, 2);
            assert!(text.contains(&format!("page: {listen}\n2 episodes since then")), "{text}");
        }
    }
}
