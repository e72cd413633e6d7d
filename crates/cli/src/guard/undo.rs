use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use unstarve_guard::state::State;
use unstarve_report::clean;

use super::StateArgs;
use crate::FAILED;
use crate::output;

/// Take back whatever a guard has left changed, unless somebody else has changed it since
#[derive(Args)]
pub struct UndoArgs {
    #[command(flatten)]
    state: StateArgs,
}

pub fn run(args: &UndoArgs) -> Result<ExitCode> {
    let mut audit = args.state.audit()?;
    let mut state = State::lock(&args.state.state, "guard undo")?;
    let (undone, contents) = state.undo_left(&mut audit)?;
    audit.flush();
    for (change, error) in &undone.failed {
        output::remark(&format!("{} {}: {} stays: {error}", clean(&change.comm), change.target, change.new));
    }
    eprintln!(
        "{} restored{}, {} as before already, {} left as somebody else has set them, {} gone{}",
        undone.restored,
        super::inherited(&undone),
        undone.unchanged,
        undone.others,
        undone.gone,
        if undone.failed.is_empty() { String::new() } else { format!(", {} failed", undone.failed.len()) },
    );
    if contents.stale > 0 {
        eprintln!("{} changes of an earlier boot are gone with it", contents.stale);
    }
    if contents.damaged > 0 {
        output::remark(&format!("{} damaged lines of the journal were left out", contents.damaged));
    }
    super::warn_of_race(&undone);
    Ok(if undone.is_complete() { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}
