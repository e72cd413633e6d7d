//! Every remedy that `explain` offers for a scenario, proved one by one.

use std::error::Error;
use std::fmt;

use serde::{Deserialize, Serialize};
use unstarve_diagnose::proofs::{Answer, Proof, series};
use unstarve_diagnose::report::Report;

use crate::bench::{Bench, BenchError};
use crate::compare::{Comparison, Plan, interval, of_outcomes, percent};
use crate::prove::{self, answer};
use crate::run::{Outcome, Request, Runner};
use crate::scenario::Scenario;
use crate::stats::Verdict;
use crate::trial::{Offer, offers};

/// What explains an outcome's trace.
pub type Explain<'a> = dyn FnMut(&Outcome) -> Result<Report, Box<dyn Error + Send + Sync>> + 'a;

/// What came of a scenario's remedies on a kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Proofs {
    /// The scenario.
    pub scenario: String,
    /// The kernel's name in the store.
    pub kernel: String,
    /// Remedy by remedy, in the order of the report.
    pub proofs: Vec<Proof>,
    /// Remedies that no guest can show, and why.
    pub not_tried: Vec<NotTried>,
}

/// A remedy that no guest can show.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NotTried {
    /// The finding's id.
    pub finding: String,
    /// The remedy's.
    pub remedy: String,
    /// Why.
    pub why: String,
}

/// A seed without any remedy: what it measured, and what the report offers.
struct Faulty {
    outcome: Outcome,
    offers: Vec<Offer>,
}

/// A remedy with its changes for each seed; `None` where that seed's report does not offer it. Findings that offer the very same
/// are proved by the same guests.
struct Candidate {
    findings: Vec<String>,
    remedy: String,
    offers: Vec<Option<Offer>>,
}

/// Runs a faulty scenario with each seed, takes the remedies from the report on it, and tries each in a second guest.
///
/// # Errors
/// If a guest fails or a trace cannot be explained.
pub fn prove_all<R: Runner>(
    bench: &mut Bench<'_, R>,
    scenario: &Scenario,
    kernel: &str,
    plan: Plan,
    explain: &mut Explain<'_>,
) -> Result<Proofs, BenchError<R::Error>> {
    let request = |seed| Request { trial: Some(Vec::new()), ..Request::faulty(scenario.clone(), kernel, seed) };
    let mut faulty = Vec::new();
    for seed in 1..=plan.seeds {
        let outcome = bench.run(&request(seed))?;
        let report = explain(&outcome).map_err(|error| BenchError::Nothing(format!("{}: {error}", scenario.name)))?;
        faulty.push(Faulty { offers: offers(&report), outcome });
    }
    let drift = drift(scenario, &faulty, plan);
    let (candidates, not_tried) = candidates(&faulty);
    bench.expect(faulty.len() * (1 + candidates.len()));
    let mut proofs = Vec::new();
    for candidate in &candidates {
        proofs.extend(prove(bench, scenario, &faulty, candidate, &drift, plan)?);
    }
    Ok(Proofs { scenario: scenario.name.clone(), kernel: kernel.to_owned(), proofs, not_tried })
}

/// Runs without a remedy set against each other: what changes when nothing is changed.
fn drift(scenario: &Scenario, faulty: &[Faulty], plan: Plan) -> Comparison {
    let neighbours = faulty.iter().zip(faulty.iter().cycle().skip(1));
    let pairs: Vec<(Outcome, Outcome)> =
        neighbours.map(|(one, next)| (one.outcome.clone(), next.outcome.clone())).collect();
    of_outcomes(scenario, ("without".to_owned(), "without, next seed".to_owned()), &pairs, plan.matters)
}

fn candidates(faulty: &[Faulty]) -> (Vec<Candidate>, Vec<NotTried>) {
    let (mut candidates, mut not_tried): (Vec<Candidate>, Vec<NotTried>) = (Vec::new(), Vec::new());
    for offer in faulty.iter().flat_map(|faulty| &faulty.offers) {
        let same = |other: &Offer| other.finding == offer.finding && other.remedy == offer.remedy;
        let is_known = candidates
            .iter()
            .any(|candidate| candidate.remedy == offer.remedy && candidate.findings.contains(&offer.finding))
            || not_tried.iter().any(|not| not.remedy == offer.remedy && not.finding == offer.finding);
        if is_known {
            continue;
        }
        if let Some(why) = offer.obstacle() {
            let (finding, remedy) = (offer.finding.clone(), offer.remedy.clone());
            not_tried.push(NotTried { finding, remedy, why: why.to_owned() });
            continue;
        }
        let offers: Vec<Option<Offer>> = faulty
            .iter()
            .map(|faulty| faulty.offers.iter().find(|other| same(other) && other.obstacle().is_none()).cloned())
            .collect();
        let alike = |candidate: &&mut Candidate| {
            let changes = |offers: &[Option<Offer>]| {
                offers.iter().map(|offer| offer.as_ref().map(|offer| offer.changes.clone())).collect::<Vec<_>>()
            };
            candidate.remedy == offer.remedy && changes(&candidate.offers) == changes(&offers)
        };
        match candidates.iter_mut().find(alike) {
            Some(candidate) => candidate.findings.push(offer.finding.clone()),
            None => candidates.push(Candidate {
                findings: vec![offer.finding.clone()],
                remedy: offer.remedy.clone(),
                offers,
            }),
        }
    }
    (candidates, not_tried)
}

fn prove<R: Runner>(
    bench: &mut Bench<'_, R>,
    scenario: &Scenario,
    faulty: &[Faulty],
    candidate: &Candidate,
    drift: &Comparison,
    plan: Plan,
) -> Result<Vec<Proof>, BenchError<R::Error>> {
    let mut pairs: Vec<(Outcome, Outcome)> = Vec::new();
    for (without, offer) in faulty.iter().zip(&candidate.offers) {
        let Some(offer) = offer else { continue };
        let request = &without.outcome.request;
        let with = bench.run(&Request {
            remedy: Some(candidate.remedy.clone()),
            trial: Some(offer.changes.clone()),
            ..request.clone()
        })?;
        pairs.push((without.outcome.clone(), with));
    }
    let effect = of_outcomes(scenario, ("without".to_owned(), "with".to_owned()), &pairs, plan.matters);
    let release = pairs.first().map(|(without, _)| without.kernel_release.clone()).unwrap_or_default();
    let answer = answer_of(&pairs, &effect, drift);
    let main = effect.main();
    let contrast = main.map(|row| &row.contrast);
    let costs = effect.rows.iter().filter(|row| row.contrast.verdict == Verdict::Worse);
    let costs: Vec<String> = costs.map(|row| row.metric.clone()).collect();
    let proof = |finding: &String| Proof {
        remedy: candidate.remedy.clone(),
        finding: finding.clone(),
        scenario: scenario.name.clone(),
        kernel: series(&release).unwrap_or_else(|| release.clone()),
        answer,
        metric: main.map(|row| row.metric.clone()).unwrap_or_default(),
        effect: contrast.and_then(|contrast| contrast.relative),
        low: contrast.and_then(|contrast| contrast.interval).map(|(low, _)| low),
        high: contrast.and_then(|contrast| contrast.interval).map(|(_, high)| high),
        seeds: effect.pairs,
        costs: costs.clone(),
        release: release.clone(),
        package: String::new(),
        unstarve: String::new(),
        date: String::new(),
        note: note(&pairs, faulty.len()),
    };
    Ok(candidate.findings.iter().map(proof).collect())
}

fn answer_of(pairs: &[(Outcome, Outcome)], effect: &Comparison, drift: &Comparison) -> Answer {
    let changed = |(_, with): &(Outcome, Outcome)| with.tried.as_ref().is_some_and(|tried| tried.changed_anything());
    if !pairs.iter().any(changed) {
        return Answer::NotMade;
    }
    match answer(effect, drift) {
        prove::Answer::Helped => Answer::Helped,
        prove::Answer::Harmed => Answer::Harmed,
        prove::Answer::DidNothing => Answer::NoDifference,
        prove::Answer::NotShown => Answer::NotShown,
    }
}

/// What is to be known of how the changes were made.
fn note(pairs: &[(Outcome, Outcome)], seeds: usize) -> String {
    let tried = || pairs.iter().filter_map(|(_, with)| with.tried.as_ref());
    let by_name: usize = tried().map(|tried| tried.by_name()).sum();
    let shortfall = tried().find_map(|tried| tried.shortfall());
    let left = tried().flat_map(|tried| &tried.not_taken_back).next();
    let parts = [
        (pairs.len() < seeds).then(|| format!("offered with {} of {seeds} seeds", pairs.len())),
        (by_name > 0).then(|| format!("{by_name} threads found by name, not by number")),
        shortfall,
        left.map(|left| format!("not taken back: {left}")),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
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
            writeln!(f, "  {:<24} {:<22} {:<27} {effect}", proof.remedy, proof.finding, answer)?;
            for (what, text) in [("cost", proof.costs.join(", ")), ("note", proof.note.clone())] {
                if !text.is_empty() {
                    writeln!(f, "  {:<24} {what}: {text}", "")?;
                }
            }
        }
        for not in &self.not_tried {
            writeln!(f, "  {:<24} {:<22} not tried: {}", not.remedy, not.finding, not.why)?;
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "proofs/tests.rs"]
mod tests;
