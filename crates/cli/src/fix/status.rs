//! `unstarve fix --status`: which fixes are in force.

use std::process::ExitCode;

use anyhow::Result;
use schemars::JsonSchema;
use serde::Serialize;
use unstarve_executor::host::{Host, ThisHost};
use unstarve_executor::journal::Step;
use unstarve_executor::manual_changes::{self, Batch};
use unstarve_model::counted;
use unstarve_term::clean;

use super::choose::RULE;
use super::undo::{change_of, heading};
use super::{FIX_SCHEMA, LowArgs, NOT_DONE};
use crate::output::{self, Out};

/// The state of a change.
pub enum State {
    InForce,
    /// The thread has ended, or the file is gone.
    Ended,
    /// Another program has set the value since.
    Is(String),
    Unreadable(String),
}

impl State {
    fn of(step: &Step) -> State {
        match ThisHost.read(&step.target, step.new.aspect()) {
            Ok(Some(now)) if step.explains(&now) => State::InForce,
            Ok(Some(now)) => State::Is(clean(&now.to_string()).into_owned()),
            Ok(None) => State::Ended,
            Err(error) => State::Unreadable(error.to_string()),
        }
    }

    fn is_in_force(&self) -> bool {
        matches!(self, State::InForce)
    }

    fn word(&self) -> &'static str {
        match self {
            State::InForce => "in-force",
            State::Ended => "ended",
            State::Is(_) => "changed",
            State::Unreadable(_) => "unreadable",
        }
    }

    fn text(&self) -> String {
        match self {
            State::InForce => String::new(),
            State::Ended => " (ended)".to_owned(),
            State::Is(now) => format!(" (somebody has set it to {now} since)"),
            State::Unreadable(error) => format!(" (cannot be read: {error})"),
        }
    }
}

#[derive(Serialize, JsonSchema)]
pub struct InForce<'a> {
    schema: &'static str,
    in_force: Vec<FixInForce<'a>>,
    /// Lines of the journal that could not be read; a fix that they name is missing above.
    unreadable_lines: usize,
}

#[derive(Serialize, JsonSchema)]
struct FixInForce<'a> {
    /// The remedy and its finding.
    rule: Option<&'a str>,
    steps: &'a [Step],
    /// The state of each step: `in-force`, `ended`, `changed`, `unreadable`.
    states: Vec<&'static str>,
}

/// Lists the fixes. With `--check` the exit code says whether every change is still in force.
pub fn run(args: &LowArgs) -> Result<ExitCode> {
    let journalled = manual_changes::look_into(&args.state)?;
    let fixes: Vec<(&Batch, Vec<State>)> = journalled
        .batches
        .iter()
        .filter(|batch| batch.rule.starts_with(RULE))
        .map(|batch| (batch, batch.steps.iter().map(State::of).collect()))
        .collect();
    let all = !fixes.is_empty() && fixes.iter().all(|(_, states)| states.iter().all(State::is_in_force));
    let lines = journalled.unreadable_lines;
    let code = if args.check && !(all && lines == 0) { NOT_DONE } else { 0 };
    output::will_end_with(code);
    let text = if args.json { json(&fixes, lines)? } else { text(&fixes, lines) };
    Out::new().text(&text)?;
    remark_unreadable(args, lines);
    Ok(ExitCode::from(code))
}

/// Says how many lines of the journal could not be read.
pub fn remark_unreadable(args: &LowArgs, lines: usize) {
    if lines > 0 {
        output::remark(&format!(
            "{} of the journal in {} could not be read: a fix written there is neither listed nor undone",
            counted(lines as u64, "line"),
            clean(&args.state.display().to_string())
        ));
    }
}

fn text(fixes: &[(&Batch, Vec<State>)], unreadable_lines: usize) -> String {
    if fixes.is_empty() && unreadable_lines > 0 {
        return "no fix is known to be in force\n".to_owned();
    }
    if fixes.is_empty() {
        return "no fix is in force\n".to_owned();
    }
    let lines = fixes.iter().map(|(batch, states)| {
        let ended = states.iter().all(|state| matches!(state, State::Ended));
        let heading = if ended { heading(batch).replace('\n', " (ended)\n") } else { heading(batch) };
        let each = batch.steps.iter().zip(states);
        heading + &each.map(|(step, state)| format!("  {}{}\n", change_of(step), state.text())).collect::<String>()
    });
    lines.collect()
}

pub fn json(fixes: &[(&Batch, Vec<State>)], unreadable_lines: usize) -> Result<String> {
    let fixes = fixes.iter().map(|(batch, states)| FixInForce {
        rule: batch.rule.strip_prefix(RULE),
        steps: &batch.steps,
        states: states.iter().map(State::word).collect(),
    });
    output::sorted_json(&InForce { schema: FIX_SCHEMA, in_force: fixes.collect(), unreadable_lines })
}
