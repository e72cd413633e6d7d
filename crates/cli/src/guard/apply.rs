//! `unstarve guard apply --once`: changes the tasks that exist now.

use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Args;
use unstarve_executor::act::{self, Outcome};
use unstarve_executor::host::{Host, ThisHost, Watched};
use unstarve_executor::registry::Registry;
use unstarve_executor::state::State;
use unstarve_guard::survey::Survey;
use unstarve_guard::{Users, run};
use unstarve_term::clean;
use unstarve_term::guard::plan_page;

use super::{PolicyArgs, StateArgs, rights};
use crate::FAILED;
use crate::output::{self, Out};

/// Change the tasks that exist now, once; tasks created later are not changed (see guard run)
#[derive(Args)]
#[command(
    after_help = "Exit code: 0 if everything is as the policy says, 1 if a rule was refused or a setting does not exist here, 2 if the system \
refused a change, or if nothing could be done."
)]
pub struct ApplyArgs {
    #[command(flatten)]
    policy: PolicyArgs,
    #[command(flatten)]
    state: StateArgs,
    /// Confirm: only the tasks that exist now
    #[arg(long)]
    once: bool,
}

pub fn run(args: &ApplyArgs) -> Result<ExitCode> {
    if !args.once {
        bail!("apply changes only the tasks that exist now: add --once, or use `unstarve guard run` to cover new ones");
    }
    let policy = args.policy.load()?;
    rights::require(&policy)?;
    let mut audit = args.state.audit()?;
    let state = State::lock(&args.state.state, "guard apply")?;
    let survey = Survey::take(&policy, Vec::new()).context("the tasks of this machine")?;
    survey.crowd.check()?;
    let mut changes = survey.changes(&policy);
    let is_whole = survey.refusals() == 0 && survey.absent.is_empty();
    // Printed at the end: a slow or closed reader must not delay the changes after the tasks were read.
    let page = plan_page(&policy, &survey, &Users::of_this_machine());
    if changes.is_empty() {
        Out::new().text(&page)?;
        return Ok(ExitCode::from(u8::from(!is_whole)));
    }
    let mut journal = state.journal()?;
    // Find values inherited from earlier changes before changing their tasks.
    let mut heirs = Watched { registry: Registry::pinned(), at_work: false }.heirs(&journal.open_changes());
    act::adopt(&mut journal, &mut audit, &mut heirs)?;
    // Record births before the first change: a child may be created right after it.
    if let Err(reason) = run::note_births(&policy, &changes) {
        output::remark(&format!(
            "new tasks are not recorded ({reason}): `guard undo` will not find children whose parents have exited by then"
        ));
    }
    let outcomes = act::apply(&mut ThisHost, &mut journal, &mut audit, &mut changes)?;
    audit.flush();
    let mut failed = 0;
    for (change, outcome) in changes.iter().zip(&outcomes) {
        if let Outcome::Failed(error) = outcome {
            failed += 1;
            output::remark(&format!("{} {}: {}: {error}", clean(&change.comm), change.target, change.new));
        }
    }
    Out::new().text(&page)?;
    let done = outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Done)).count();
    note!("{done} of {} made. Undo: {}", output::counted(changes.len() as u64, "change"), undo_command(args));
    Ok(if failed > 0 { ExitCode::from(FAILED) } else { ExitCode::from(u8::from(!is_whole)) })
}

fn undo_command(args: &ApplyArgs) -> String {
    let state = &args.state.state;
    match state.as_os_str() == unstarve_executor::state::DEFAULT_DIRECTORY {
        true => "unstarve guard undo".to_owned(),
        false => format!("unstarve guard undo --state {}", state.display()),
    }
}
