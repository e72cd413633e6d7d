//! `unstarve fix --apply`: makes the changes, after a trial if `--verify` asks for one.

use std::process::ExitCode;

use anyhow::{Result, bail};
use unstarve_diagnose::Explained;
use unstarve_executor::audit::Audit;
use unstarve_executor::host::ThisHost;
use unstarve_executor::journal::Step;
use unstarve_executor::manual_changes::ByHand;
use unstarve_executor::plan::{Answer, answer};
use unstarve_term::fix::Came;

use super::choose::Choice;
use super::origin::Origin;
use super::{LowArgs, NOT_DONE, commands, page_of, verify, write};
use crate::input::Recording;
use crate::output::{self, Color};

pub fn run(
    args: &LowArgs,
    recording: &Recording,
    explained: &Explained,
    chosen: &Choice<'_>,
    origin: &Origin,
    color: Color,
) -> Result<ExitCode> {
    let answer = answer(&chosen.plan);
    if answer != Answer::CanBeDone {
        let mut page = page_of(args, recording, explained, chosen, origin);
        page.came = Some(Came::NothingDone);
        // Every value is set already: repeating the command is not a failure.
        let code = if answer == Answer::IsSoAlready { 0 } else { NOT_DONE };
        output::will_end_with(code);
        write(args, &page, color)?;
        return Ok(ExitCode::from(code));
    }
    if !rustix::process::geteuid().is_root() {
        bail!("changes need root: {}", commands::apply(args, chosen));
    }
    let mut steps: Vec<Step> = chosen.plan.iter().flat_map(|planned| planned.steps.iter().cloned()).collect();
    let mut came = Came::Applied;
    if let Some(time) = args.verify {
        let trial = verify::run(args, chosen.finding(&explained.report), &mut steps.clone(), time)?;
        let tried = match trial {
            verify::Trial::Judged(tried) => tried,
            verify::Trial::TooShort(too_short) => {
                output::remark(&too_short.to_string());
                output::will_end_with(NOT_DONE);
                write(args, &page_of(args, recording, explained, chosen, origin), color)?;
                return Ok(ExitCode::from(NOT_DONE));
            }
        };
        came = Came::Tried {
            helped: tried.helped(),
            is_known: tried.is_known(),
            reason: tried.reason(),
            measured: Box::new(tried.measured()),
            figures: tried.figures(),
        };
        if !tried.helped() {
            let mut page = page_of(args, recording, explained, chosen, origin);
            page.came = Some(came);
            output::will_end_with(NOT_DONE);
            write(args, &page, color)?;
            return Ok(ExitCode::from(NOT_DONE));
        }
    }
    let _held = output::hold_signals()?;
    let mut hand = ByHand::open(&args.state, "fix --apply").map_err(|error| output::hint_at_root(error.into()))?;
    if hand.apply(&mut ThisHost, &mut Audit::none(), &mut steps)? == 0 {
        bail!("everything that was to be changed is gone by now");
    }
    let mut page = page_of(args, recording, explained, chosen, origin);
    page.came = Some(came);
    output::will_end_with(0);
    write(args, &page, color)?;
    Ok(ExitCode::SUCCESS)
}
