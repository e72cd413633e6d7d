//! Proves every remedy that `explain` offers for a scenario, one by one.

use std::fmt;
use std::io;

use serde::{Deserialize, Serialize};
use unstarve_diagnose::proofs::{Answer, Proof};
use unstarve_diagnose::report::{FindingId, RemedyId, VictimKind};

use crate::bench::{Bench, BenchError};
use crate::cells::{Cell, CellOrigin, CellSubject, Cells};
use crate::compare::{Plan, interval, percent};
use crate::run::{Outcome, Request, Runner};
use crate::scenario::Scenario;
use crate::trial::{Offer, offers};
use crate::truth::Explain;

/// Saves the rows of a cell as soon as it is complete.
pub type SaveRows<'a> = dyn FnMut(&[Proof]) -> io::Result<()> + 'a;

/// The parameters of a proof.
pub struct Proving<'a> {
    /// The number of seeds, and the smallest difference that matters.
    pub plan: Plan,
    /// Explains a trace.
    pub explain: &'a mut Explain<'a>,
    /// Where guests' results are stored and found.
    pub cells: Option<&'a Cells>,
    /// The versions in use.
    pub made: CellOrigin,
    /// Saves a cell's rows.
    pub enter: &'a mut SaveRows<'a>,
}

/// The results of a scenario's remedies on a kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Proofs {
    /// The scenario.
    pub scenario: String,
    /// The kernel's name in the store.
    pub kernel: String,
    /// Remedy by remedy, in the order of the report.
    pub proofs: Vec<Proof>,
    /// Remedies that no guest can test, with the reason.
    pub not_tried: Vec<NotTried>,
}

/// A remedy that no guest can test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NotTried {
    /// The finding's id.
    pub finding: FindingId,
    /// The victim's kind.
    pub victim: VictimKind,
    /// The remedy's.
    pub remedy: RemedyId,
    /// Why.
    pub why: String,
}

/// One seed without any remedy: the outcome, and the remedies that its report offers.
struct Faulty {
    outcome: Outcome,
    offers: Vec<Offer>,
}

/// A remedy with its changes for each seed; `None` where that seed's report does not offer it. Findings that offer the
/// same changes share guests.
struct Candidate {
    about: Vec<CellSubject>,
    remedy: RemedyId,
    offers: Vec<Option<Offer>>,
}

/// Runs a faulty scenario with each seed, takes the remedies from its report, and tests each in a second guest.
///
/// # Errors
/// If a guest fails, a trace cannot be explained or a cell cannot be written.
pub fn prove_all<R: Runner>(
    bench: &mut Bench<'_, R>,
    scenario: &Scenario,
    kernel: &str,
    proving: &mut Proving<'_>,
) -> Result<Proofs, BenchError<R::Error>> {
    let failed = |what: String| BenchError::Nothing(format!("{}: {what}", scenario.name));
    let request = |seed| Request { trial: Some(Vec::new()), ..Request::faulty(scenario.clone(), kernel, seed) };
    let mut faulty = Vec::new();
    for seed in 1..=proving.plan.seeds {
        let outcome = bench.run(&request(seed))?;
        let report = (proving.explain)(&outcome).map_err(|error| failed(error.to_string()))?;
        faulty.push(Faulty { offers: offers(&report), outcome });
    }
    let (candidates, not_tried) = candidates(&faulty);
    bench.expect(faulty.len() * (1 + candidates.len()));
    let mut proofs = Vec::new();
    for candidate in &candidates {
        let cell = match proving.cells.and_then(|cells| stored_cell(cells, &faulty, candidate, kernel)) {
            Some(cell) => cell,
            None => {
                let cell = prove(bench, &faulty, candidate, &proving.made)?;
                if let Some(cells) = proving.cells {
                    cells.keep(&cell).map_err(|error| failed(error.to_string()))?;
                }
                cell
            }
        };
        let rows = cell.proofs(proving.plan.matters);
        (proving.enter)(&rows).map_err(|error| failed(error.to_string()))?;
        proofs.extend(rows);
    }
    Ok(Proofs { scenario: scenario.name.clone(), kernel: kernel.to_owned(), proofs, not_tried })
}

fn candidates(faulty: &[Faulty]) -> (Vec<Candidate>, Vec<NotTried>) {
    let (mut candidates, mut not_tried): (Vec<Candidate>, Vec<NotTried>) = (Vec::new(), Vec::new());
    for offer in faulty.iter().flat_map(|faulty| &faulty.offers) {
        let about = CellSubject { finding: offer.finding.clone(), victim: offer.victim };
        let is_known =
            candidates.iter().any(|candidate| candidate.remedy == offer.remedy && candidate.about.contains(&about))
                || not_tried.iter().any(|not| {
                    not.remedy == offer.remedy && not.finding == offer.finding && not.victim == offer.victim
                });
        if is_known {
            continue;
        }
        let CellSubject { finding, victim } = about.clone();
        let remedy = offer.remedy.clone();
        if let Some(why) = offer.obstacle() {
            not_tried.push(NotTried { finding, victim, remedy, why: why.to_owned() });
            continue;
        }
        let of_seed = |faulty: &Faulty| {
            faulty.offers.iter().find(|other| other.is_like(offer) && other.obstacle().is_none()).cloned()
        };
        let offers: Vec<Option<Offer>> = faulty.iter().map(of_seed).collect();
        let alike = |candidate: &&mut Candidate| {
            let changes = |offers: &[Option<Offer>]| {
                offers.iter().map(|offer| offer.as_ref().map(|offer| offer.changes.clone())).collect::<Vec<_>>()
            };
            candidate.remedy == offer.remedy && changes(&candidate.offers) == changes(&offers)
        };
        match candidates.iter_mut().find(alike) {
            Some(candidate) => candidate.about.push(about),
            None => candidates.push(Candidate { about: vec![about], remedy, offers }),
        }
    }
    (candidates, not_tried)
}

/// A stored cell, if the guests without a remedy gave the same bytes then and the changes are the same.
fn stored_cell(cells: &Cells, faulty: &[Faulty], candidate: &Candidate, kernel: &str) -> Option<Cell> {
    let scenario = &faulty.first()?.outcome.request.scenario.name;
    let cell = cells.find(scenario, kernel, &candidate.remedy, candidate.about.first()?)?;
    let same_faulty =
        cell.without.len() == faulty.len()
            && cell.without.iter().zip(faulty).all(|(kept, now)| {
                kept.request == now.outcome.request && kept.trace_digest == now.outcome.trace_digest
            });
    let changes = candidate.offers.iter().map(|offer| offer.as_ref().map(|offer| &offer.changes));
    let kept = cell.with.iter().map(|with| with.as_ref().and_then(|with| with.request.trial.as_ref()));
    let same_changes = kept.eq(changes);
    (same_faulty && same_changes && cell.about == candidate.about).then_some(cell)
}

fn prove<R: Runner>(
    bench: &mut Bench<'_, R>,
    faulty: &[Faulty],
    candidate: &Candidate,
    made: &CellOrigin,
) -> Result<Cell, BenchError<R::Error>> {
    let mut with = Vec::new();
    for (without, offer) in faulty.iter().zip(&candidate.offers) {
        let request = &without.outcome.request;
        let outcome = match offer {
            Some(offer) => Some(bench.run(&Request {
                remedy: Some(candidate.remedy.to_string()),
                trial: Some(offer.changes.clone()),
                ..request.clone()
            })?),
            None => None,
        };
        with.push(outcome);
    }
    Ok(Cell {
        remedy: candidate.remedy.clone(),
        about: candidate.about.clone(),
        without: faulty.iter().map(|faulty| faulty.outcome.clone()).collect(),
        with,
        made: made.clone(),
    })
}

impl fmt::Display for Proofs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} on {}", self.scenario, self.kernel)?;
        if self.proofs.is_empty() {
            writeln!(f, "  explain offers nothing that a guest could show")?;
        }
        for proof in &self.proofs {
            let answer = match proof.answer {
                Answer::Helped => "helped",
                Answer::Harmed => "did harm",
                Answer::NoDifference => "no difference that matters",
                Answer::NotShown => "not shown to help",
                Answer::NotMade => "not made",
            };
            let effect = match (proof.effect, proof.low.zip(proof.high)) {
                (Some(effect), Some(bounds)) => format!("{} {} ({})", proof.metric, percent(effect), interval(bounds)),
                (Some(effect), None) => format!("{} {}", proof.metric, percent(effect)),
                _ => String::new(),
            };
            let about = format!("{} ({})", proof.finding, proof.victim);
            writeln!(f, "  {:<24} {about:<34} {answer:<27} {effect}", proof.remedy)?;
            for (what, text) in [("cost", proof.costs.join(", ")), ("note", proof.note.clone())] {
                if !text.is_empty() {
                    writeln!(f, "  {:<24} {what}: {text}", "")?;
                }
            }
        }
        for not in &self.not_tried {
            let about = format!("{} ({})", not.finding, not.victim);
            writeln!(f, "  {:<24} {about:<34} not tried: {}", not.remedy, not.why)?;
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "proofs/tests.rs"]
mod tests;
