//! `unstarve fix --undo`: restores the old values.

use std::path::Path;
use std::process::ExitCode;
use std::{fs, io};

use anyhow::Result;
use schemars::JsonSchema;
use serde::Serialize;
use unstarve_change::Value;
use unstarve_executor::act::Undone;
use unstarve_executor::audit::Audit;
use unstarve_executor::host::ThisHost;
use unstarve_executor::journal::Step;
use unstarve_executor::manual_changes::{Batch, ByHand, Extent, look_into, named};
use unstarve_executor::state::DEFAULT_DIRECTORY;
use unstarve_executor::trial;
use unstarve_term::clean;

use super::choose::RULE;
use super::{FIX_SCHEMA, LowArgs};
use crate::FAILED;
use crate::output::{self, Out};

pub fn run(args: &LowArgs) -> Result<ExitCode> {
    if is_absent(&args.state) {
        // Without a journal there is nothing to undo: create no directory.
        let text = match args.json {
            true => json(&[], &Undone::default(), &[], &[])?,
            false => format!("nothing to undo: there is no {}\n", clean(&args.state.display().to_string())),
        };
        output::will_end_with(0);
        Out::new().text(&text)?;
        return Ok(ExitCode::SUCCESS);
    }
    let unreadable_lines = look_into(&args.state)?.unreadable_lines;
    let left = trial::clear(&args.state)?;
    let mut hand = ByHand::open(&args.state, "fix --undo")?;
    let extent = if args.all { Extent::All } else { Extent::Last };
    let taken = hand.undo(&mut ThisHost, &mut Audit::none(), extent, |batch| batch.rule.starts_with(RULE));
    let (batches, undone) = (taken.batches, taken.undone.and(left));
    let code = match undone.is_complete() {
        false => FAILED,
        true => u8::from(!taken.theirs.is_empty() || !taken.covered.is_empty()),
    };
    output::will_end_with(code);
    let text = match args.json {
        true => json(&batches, &undone, &taken.covered, &taken.theirs)?,
        false => text(&batches, &undone),
    };
    Out::new().text(&text)?;
    super::status::remark_unreadable(args, unreadable_lines);
    for (step, rule) in &taken.covered {
        output::remark(&format!("{}: `{}` has set it again since; take that back first", named(step), clean(rule)));
    }
    for (step, now) in &taken.theirs {
        output::remark(&format!("{} is {now} by now: somebody has changed it since, so it is left alone", named(step)));
    }
    for (step, error) in &undone.failed {
        output::remark(&format!("{}: {} stays: {error}", named(step), step.new));
    }
    Ok(ExitCode::from(code))
}

/// Whether this directory is missing. The default one is not checked: an earlier version's journal is elsewhere.
fn is_absent(state: &Path) -> bool {
    let is_missing = || fs::symlink_metadata(state).is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
    state != Path::new(DEFAULT_DIRECTORY) && is_missing()
}

fn text(batches: &[Batch], undone: &Undone) -> String {
    let lines: String = batches.iter().map(lines).collect();
    match batches.is_empty() && undone.restored == 0 {
        true => lines + "nothing to undo\n",
        false => lines + &format!("{}\n", crate::guard::summary(undone)),
    }
}

#[derive(Serialize, JsonSchema)]
pub struct UndoReport<'a> {
    schema: &'static str,
    undone: UndoneFixes<'a>,
}

#[derive(Serialize, JsonSchema)]
struct UndoneFixes<'a> {
    fixes: Vec<UndoneFix<'a>>,
    /// Values that were restored.
    restored: usize,
    /// Of children and threads that had inherited them.
    inherited: usize,
    /// Values that were as before already.
    unchanged: usize,
    /// Values whose task or file is gone.
    gone: usize,
    /// Values that a later change has set again.
    covered: Vec<CoveredStep<'a>>,
    /// Values that somebody else has set since.
    changed: Vec<ChangedStep<'a>>,
    failed: Vec<FailedStep>,
}

#[derive(Serialize, JsonSchema)]
struct UndoneFix<'a> {
    /// The remedy and its finding.
    rule: Option<&'a str>,
    steps: &'a [Step],
}

#[derive(Serialize, JsonSchema)]
struct CoveredStep<'a> {
    /// Its `seq`.
    step: u64,
    /// What has set it again.
    by: &'a str,
}

#[derive(Serialize, JsonSchema)]
struct ChangedStep<'a> {
    /// Its `seq`.
    step: u64,
    now: &'a Value,
}

#[derive(Serialize, JsonSchema)]
struct FailedStep {
    /// Its `seq`.
    step: u64,
    error: String,
}

pub fn json(
    batches: &[Batch],
    undone: &Undone,
    covered: &[(Step, String)],
    theirs: &[(Step, Value)],
) -> Result<String> {
    let fixes = batches.iter().map(|batch| UndoneFix { rule: batch.rule.strip_prefix(RULE), steps: &batch.steps });
    let failed = undone.failed.iter().map(|(step, error)| FailedStep { step: step.seq, error: error.to_string() });
    let undone = UndoneFixes {
        fixes: fixes.collect(),
        restored: undone.restored,
        inherited: undone.inherited,
        unchanged: undone.unchanged,
        gone: undone.gone,
        covered: covered.iter().map(|(step, rule)| CoveredStep { step: step.seq, by: rule }).collect(),
        changed: theirs.iter().map(|(step, now)| ChangedStep { step: step.seq, now }).collect(),
        failed: failed.collect(),
    };
    output::sorted_json(&UndoReport { schema: FIX_SCHEMA, undone })
}

/// A fix and its steps.
pub(super) fn lines(batch: &Batch) -> String {
    let step = |step: &Step| format!("  {}\n", change_of(step));
    heading(batch) + &batch.steps.iter().map(step).collect::<String>()
}

/// Its purpose.
pub(super) fn heading(batch: &Batch) -> String {
    format!("{}\n", clean(batch.rule.strip_prefix(RULE).unwrap_or(&batch.rule)))
}

/// `load (thread 812): fifo 40 -> other`.
pub(super) fn change_of(step: &Step) -> String {
    format!("{}: {} -> {}", named(step), clean(&step.old.to_string()), clean(&step.new.to_string()))
}
