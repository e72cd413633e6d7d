//! Which remedy of which finding.

use anyhow::{Result, bail};
use unstarve_diagnose::RemedyKind;
use unstarve_diagnose::report::{Finding, Remedy, Report};
use unstarve_executor::plan::{Ids, Look, plan};
use unstarve_term::clean;

use super::LowArgs;
use super::origin::Origin;

/// A remedy of a finding, by their places in the report.
pub struct Choice {
    pub finding: usize,
    pub remedy: usize,
}

impl Choice {
    pub fn finding<'a>(&self, report: &'a Report) -> &'a Finding {
        &report.findings[self.finding]
    }

    pub fn remedy<'a>(&self, report: &'a Report) -> &'a Remedy {
        &self.finding(report).remedies[self.remedy]
    }

    /// What the journal says it was for.
    pub fn rule(&self, report: &Report) -> String {
        format!("{RULE}{} for {}", self.remedy(report).id, self.finding(report).id)
    }
}

/// What the journal's entries of fixes begin with.
pub const RULE: &str = "fix: ";

/// What was asked for, else the first remedy of the worst finding that can be carried out here, else the first of all.
pub fn choose<L: Look>(report: &Report, look: &L, origin: &Origin, args: &LowArgs) -> Result<Choice> {
    let findings: Vec<usize> = match &args.finding {
        Some(asked) => vec![find(asked, report.findings.iter().map(|finding| finding.id.as_str()), "finding")?],
        None => (0..report.findings.len()).collect(),
    };
    let mut candidates: Vec<Choice> = Vec::new();
    for finding in findings {
        let remedies = &report.findings[finding].remedies;
        match &args.remedy {
            Some(asked) => {
                match find(asked, remedies.iter().map(|remedy| remedy.id.as_str()), "remedy") {
                    Ok(remedy) => candidates.push(Choice { finding, remedy }),
                    // A number is of the worst finding; an id may be of a later one.
                    Err(error) if args.finding.is_some() || asked.parse::<usize>().is_ok() => return Err(error),
                    Err(_) => {}
                }
                if asked.parse::<usize>().is_ok() {
                    break;
                }
            }
            None => candidates.extend((0..remedies.len()).map(|remedy| Choice { finding, remedy })),
        }
    }
    let can = |choice: &Choice| {
        let plan = plan(look, &choice.remedy(report).changes, "", origin.ids);
        super::can_be_done(&plan)
    };
    // On another host or boot, or for a file that lasts, nobody is surprised by another remedy than the first. What can hang the
    // machine is done only if somebody asks for it.
    let as_asked = origin.ids == Ids::AreStrange || args.form.is_some() || args.remedy.is_some();
    let is_tame = |choice: &Choice| RemedyKind::of_id(&choice.remedy(report).id).is_none_or(|kind| !kind.on_request);
    let chosen = if as_asked {
        candidates.iter().position(|choice| args.remedy.is_some() || is_tame(choice))
    } else {
        candidates.iter().position(|choice| is_tame(choice) && can(choice))
    };
    match chosen.or_else(|| candidates.iter().position(is_tame)) {
        Some(at) => Ok(candidates.swap_remove(at)),
        None if candidates.is_empty() && args.remedy.is_some() => {
            bail!("no finding of this recording has that remedy; `unstarve explain` lists them")
        }
        None if candidates.is_empty() => bail!("the findings of this recording have no remedies"),
        None => Ok(candidates.swap_remove(0)),
    }
}

fn find<'a>(asked: &str, ids: impl Iterator<Item = &'a str> + Clone, what: &str) -> Result<usize> {
    let count = ids.clone().count();
    if let Ok(number) = asked.parse::<usize>() {
        if (1..=count).contains(&number) {
            return Ok(number - 1);
        }
        let whose = if what == "remedy" { "this finding" } else { "this recording" };
        bail!("there is no {what} {number}; {whose} has {count}: {}", ids.collect::<Vec<_>>().join(", "));
    }
    if let Some(at) = ids.clone().position(|id| id == asked) {
        return Ok(at);
    }
    let mut known: Vec<&str> = ids.collect();
    known.dedup();
    bail!("there is no {what} `{}`; expected a number from 1 to {count}, or one of {}", clean(asked), known.join(", "))
}
