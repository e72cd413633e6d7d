//! `unstarve guard undo`: restores what a guard left changed.

use std::fs;
use std::io::ErrorKind;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;
use unstarve_executor::state::{self, State};
use unstarve_term::clean;

use super::StateArgs;
use crate::FAILED;
use crate::output;

/// Restore what a guard left changed, unless somebody else has changed it since
#[derive(Args)]
#[command(
    after_help = "Exit code: 0 if nothing is left changed, 2 if something is, or if the directory given with --state does not exist."
)]
pub struct UndoArgs {
    #[command(flatten)]
    state: StateArgs,
}

pub fn run(args: &UndoArgs) -> Result<ExitCode> {
    undo(args).map_err(output::hint_at_root)
}

fn undo(args: &UndoArgs) -> Result<ExitCode> {
    let state = &args.state.state;
    // Do not create a mistyped directory. Without the default directory no guard has run since the boot. If a guard's
    // directory was removed, wait for its dead-man, which may be reverting.
    if state.as_os_str() != state::DEFAULT_DIRECTORY
        && state::holder()?.is_none()
        && fs::metadata(state).is_err_and(|error| error.kind() == ErrorKind::NotFound)
    {
        bail!("no journal in {}", state.display());
    }
    let mut audit = args.state.audit()?;
    let mut state = State::lock(&args.state.state, "guard undo")?;
    let (undone, contents) = state.undo_left(&mut audit)?;
    audit.flush();
    for (change, error) in &undone.failed {
        output::remark(&format!("{} {}: {} stays: {error}", clean(&change.comm), change.target, change.new));
    }
    if super::is_nothing(&undone) {
        note!("nothing to undo");
    } else {
        note!("{}", super::summary(&undone));
    }
    if contents.stale > 0 {
        note!("{} of an earlier boot ended with that boot", output::counted(contents.stale as u64, "change"));
    }
    if contents.damaged > 0 {
        let lines = output::counted(contents.damaged as u64, "damaged line");
        output::remark(&format!("{lines} of the journal left out"));
    }
    super::warn_of_race(&undone);
    Ok(if undone.is_complete() { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}
