//! `unstarve guard status`: whether a guard runs, and what it has done.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;
use unstarve_executor::state::{self, Holder};
use unstarve_facts::Stat;
use unstarve_guard::metrics::Status;
use unstarve_guard::run;
use unstarve_model::Nanos;
use unstarve_term::clean;

use crate::output::{self, Out, counted};

/// Show whether a guard is running, and what it has done
#[derive(Args)]
#[command(
    after_help = "Exit code: 0 if a guard is running, 1 if none is, 2 if this cannot be determined. With --json: null if nothing
is running; else `condition` is \"running\", \"starting\" (the guard, `apply`, `undo` or `verify` named in `doing`), or \"killed\"
while the dead-man of a killed guard reverts its changes."
)]
pub struct StatusArgs {
    /// Where its journal is kept
    #[arg(long, value_name = "DIR", default_value = state::DEFAULT_DIRECTORY)]
    state: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The state of the process that holds the lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Condition {
    Running,
    /// It has written no status: it has just started, or is `apply`, `undo` or `verify`.
    Starting,
    /// The guard has ended; its dead-man holds the lock.
    Killed,
}

/// The guard's status with additional fields; only these if it has written none.
#[derive(Serialize, JsonSchema)]
pub struct GuardStatus<'a> {
    schema: &'static str,
    pid: u32,
    condition: Condition,
    doing: &'a str,
    journal: &'a Path,
    #[serde(flatten)]
    #[schemars(with = "Option<Status>")]
    status: Option<serde_json::Map<String, serde_json::Value>>,
}

pub fn run(args: &StatusArgs) -> Result<ExitCode> {
    look(args).map_err(output::hint_at_root)
}

fn look(args: &StatusArgs) -> Result<ExitCode> {
    let out = Out::new();
    let Some(holder) = state::holder()? else {
        match args.json {
            true => out.text("null\n")?,
            false => out.text(&format!("No guard is running. {}\n", changes_in_place(args)?))?,
        }
        return Ok(ExitCode::from(1));
    };
    // A killed guard leaves its status file, and another guard may use another state directory.
    let status = run::status(&holder.state)?.filter(|status| status.pid == holder.pid);
    let condition = match &status {
        _ if holder.pid != 0 && !is_alive(holder.pid) => Condition::Killed,
        Some(_) => Condition::Running,
        None => Condition::Starting,
    };
    if args.json {
        out.text(&json(&holder, condition, status.as_ref())?)?;
    } else {
        out.text(&match (condition, &status) {
            (Condition::Running, Some(status)) => text(status),
            (Condition::Killed, _) => {
                format!("guard {} was killed; its dead-man is reverting its changes\n", holder.pid)
            }
            _ if holder.pid == 0 => "a guard is running; its lock does not say which process\n".to_owned(),
            _ => format!("{} is running `unstarve {}`\n", holder.pid, clean(&holder.doing)),
        })?;
    }
    Ok(ExitCode::from(u8::from(condition != Condition::Running)))
}

fn json(holder: &Holder, condition: Condition, status: Option<&Status>) -> Result<String> {
    let status = match status.map(serde_json::to_value).transpose()? {
        Some(serde_json::Value::Object(mut fields)) => {
            fields.retain(|name, _| name != "schema" && name != "pid");
            Some(fields)
        }
        _ => None,
    };
    let (schema, pid) = ("unstarve.guard-status/1", holder.pid);
    let report = GuardStatus { schema, pid, condition, doing: &holder.doing, journal: &holder.state, status };
    Ok(serde_json::to_string_pretty(&report)? + "\n")
}

/// Whether the process still runs; a zombie has an entry in /proc, too.
fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read(format!("/proc/{pid}/stat"));
    // An entry that cannot be parsed counts as running.
    stat.is_ok_and(|stat| Stat::parse(&String::from_utf8_lossy(&stat)).is_none_or(|stat| !stat.has_ended()))
}

fn changes_in_place(args: &StatusArgs) -> Result<String> {
    let contents = state::look_into(&args.state, unstarve_executor::state::Role::Guard)?;
    Ok(match contents.open.len() {
        0 => "No changes are in place.".to_owned(),
        1 => "1 change from an earlier apply or guard is still in place; run `unstarve guard undo`.".to_owned(),
        open => {
            format!("{open} changes from an earlier apply or guard are still in place; run `unstarve guard undo`.")
        }
    })
}

fn text(status: &Status) -> String {
    let counts = &status.counts;
    let mut text = format!(
        "guard {} keeps {} as {} says; news by {}\n",
        status.pid,
        counted(counts.managed, "task"),
        clean(&status.policy),
        status.source
    );
    for gap in &status.gaps {
        text += &format!("  note: {}\n", clean(gap));
    }
    text += &format!(
        "{} set, {} refused by the system, {} gone before\n",
        counted(counts.applied, "value"),
        counts.failed,
        counted(counts.gone, "task")
    );
    text += &match status.dead_man {
        Some(pid) => format!("dead-man: process {pid}"),
        None => "dead-man: none".to_owned(),
    };
    text += &match counts.dead_man_restarts {
        0 => "\n".to_owned(),
        count => format!(", restarted {}\n", counted(count, "time")),
    };
    if counts.inherited > 0 {
        text += &format!("{} inherited by children and threads\n", counted(counts.inherited, "value"));
    }
    if counts.throttled > 0 {
        text += &format!(
            "{} of users with too many at a time not examined one by one\n",
            counted(counts.throttled, "event")
        );
    }
    if status.births > 0 {
        text += &format!(
            "birth to applied: median {}, 99th percentile {}, longest {}, {}\n",
            Nanos(status.birth_p50_ns),
            Nanos(status.birth_p99_ns),
            Nanos(status.birth_max_ns),
            counted(status.births, "birth")
        );
    }
    text += &format!(
        "drift: {}, {} put back; over budget: {}; events lost: {}, births missed: {}\n",
        counted(counts.drift, "time"),
        counts.corrected,
        counted(counts.over_budget, "time"),
        counts.events_lost,
        counts.missed
    );
    text
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::process::Command;

    use super::*;

    #[test]
    fn one_that_was_killed_is_not_alive_also_before_it_is_waited_for() {
        let mut child = Command::new("sleep").arg("30").spawn().expect("a process");
        assert!(is_alive(child.id()) && is_alive(std::process::id()));
        child.kill().expect("killed");
        let begun = std::time::Instant::now();
        while is_alive(child.id()) && begun.elapsed().as_secs() < 10 {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        assert!(!is_alive(child.id()));
        child.wait().expect("its end");
        assert!(!is_alive(child.id()));
    }

    #[test]
    fn a_killed_guard_is_an_object_for_machines_too() {
        let (doing, state) = ("guard run".to_owned(), PathBuf::from("/run/unstarve"));
        let holder = Holder { pid: 7, doing, state, ..Holder::default() };
        let page = json(&holder, Condition::Killed, None).expect("JSON");
        let page: serde_json::Value = serde_json::from_str(&page).expect("JSON");
        let expected = serde_json::json!({
            "schema": "unstarve.guard-status/1", "pid": 7, "condition": "killed", "doing": "guard run", "journal": "/run/unstarve",
        });
        assert_eq!(page, expected);
    }
}
