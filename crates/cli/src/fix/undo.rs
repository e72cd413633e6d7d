//! Taking fixes back, and saying which are in force.

use std::process::ExitCode;

use anyhow::Result;
use unstarve_executor::audit::Audit;
use unstarve_executor::by_hand::{self, Batch, ByHand, Extent, named};
use unstarve_executor::host::ThisHost;
use unstarve_executor::trial;
use unstarve_term::clean;

use super::LowArgs;
use super::choose::RULE;
use crate::FAILED;
use crate::output::{self, Color, Out};

pub fn run(args: &LowArgs) -> Result<ExitCode> {
    let left = trial::clear(&args.state)?;
    let mut hand = ByHand::open(&args.state, "fix --undo")?;
    let extent = if args.all { Extent::All } else { Extent::Last };
    let taken = hand.undo(&mut ThisHost, &mut Audit::none(), extent, |batch| batch.rule.starts_with(RULE));
    let (batches, undone) = (taken.batches, taken.undone.and(left));
    let mut text: String = batches.iter().map(lines).collect();
    if batches.is_empty() && undone.restored == 0 {
        text += "nothing to undo\n";
    } else {
        text += &format!("{}\n", crate::guard::summary(&undone));
    }
    Out::new().text(&text)?;
    for (step, now) in &taken.theirs {
        output::remark(&format!("{} is {now} by now: somebody has changed it since, so it is left alone", named(step)));
    }
    for (step, error) in &undone.failed {
        output::remark(&format!("{}: {} stays: {error}", named(step), step.new));
    }
    Ok(match undone.is_complete() {
        false => ExitCode::from(FAILED),
        true => ExitCode::from(u8::from(!taken.theirs.is_empty())),
    })
}

pub fn status(args: &LowArgs, _color: Color) -> Result<ExitCode> {
    let batches = by_hand::look_into(&args.state)?;
    let fixes = batches.iter().filter(|batch| batch.rule.starts_with(RULE));
    let text: String = if args.json {
        let fixes: Vec<_> = fixes
            .map(|batch| serde_json::json!({ "rule": batch.rule.strip_prefix(RULE), "steps": batch.steps }))
            .collect();
        serde_json::to_string_pretty(&serde_json::json!({ "schema": "unstarve.fix/1", "in_force": fixes }))? + "\n"
    } else {
        fixes.map(lines).collect()
    };
    Out::new().text(if text.is_empty() { "no fix is in force\n" } else { &text })?;
    Ok(ExitCode::SUCCESS)
}

fn lines(batch: &Batch) -> String {
    let mut text = format!("{}\n", clean(batch.rule.strip_prefix(RULE).unwrap_or(&batch.rule)));
    for step in &batch.steps {
        text += &format!("  {}: {} -> {}\n", named(step), clean(&step.old.to_string()), clean(&step.new.to_string()));
    }
    text
}
