//! Whether a remedy helps: the scenario without it, with it, and without it again.

use std::fmt;

use serde::{Deserialize, Serialize};
use unstarve_diagnose::RemedyKind;

use crate::bench::{Bench, BenchError, check_remedy};
use crate::compare::{Comparison, Plan, of_outcomes};
use crate::run::{Outcome, Request, Runner};
use crate::scenario::Scenario;
use crate::stats::Verdict;

/// The effect of a remedy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Proof {
    /// The remedy's id.
    pub remedy: String,
    /// The kernel.
    pub kernel: String,
    /// The verdict.
    pub answer: Answer,
    /// Metrics that the remedy made worse.
    pub costs: Vec<String>,
    /// Without the remedy (A) compared with it (B).
    pub effect: Comparison,
    /// Without the remedy (A) compared with without it on other seeds (B): what differs although nothing changed.
    pub drift: Comparison,
    /// The healthy twin (A) compared with the remedy (B): what remains of the fault.
    pub left: Comparison,
}

/// Whether it helped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// The main metric improved by at least what matters, and got worse again without the remedy.
    Helped,
    /// The main metric got worse.
    Harmed,
    /// No difference that matters.
    DidNothing,
    /// Too few pairs, too wide an interval, or runs without it that differ as much as the remedy's effect.
    NotShown,
}

/// Runs a faulty scenario without, with, and without the remedy again, and its healthy twin.
pub fn prove<R: Runner>(
    bench: &mut Bench<'_, R>,
    scenario: &Scenario,
    kernel: &str,
    remedy: &str,
    plan: Plan,
) -> Result<Proof, BenchError<R::Error>> {
    check_remedy(scenario, remedy)?;
    bench.expect(4 * plan.seeds as usize);
    let (mut effect, mut drift, mut left) = (Vec::new(), Vec::new(), Vec::new());
    for seed in 1..=plan.seeds {
        // The same guest as the one that tests a remedy of `explain`, up to its first change.
        let trial = RemedyKind::of_id(remedy).map(|_| Vec::new());
        let faulty = Request { trial, ..Request::faulty(scenario.clone(), kernel, seed) };
        let without = bench.run(&faulty)?;
        let with = bench.run(&Request { remedy: Some(remedy.to_owned()), trial: None, ..faulty.clone() })?;
        // Another seed: the same one would repeat the bytes and prove nothing.
        let again = bench.run(&Request { seed: plan.seeds + seed, ..faulty.clone() })?;
        let healthy = bench.run(&Request { fault: false, ..faulty })?;
        drift.push((without.clone(), again));
        left.push((healthy, with.clone()));
        effect.push((without, with));
    }
    let compared = |a: &str, b: &str, outcomes: &[(Outcome, Outcome)]| {
        of_outcomes(scenario, (a.to_owned(), b.to_owned()), outcomes, plan.matters)
    };
    let effect = compared("without", "with", &effect);
    let drift = compared("without", "without again", &drift);
    let costs = effect.rows.iter().filter(|row| row.contrast.verdict == Verdict::Worse);
    Ok(Proof {
        remedy: remedy.to_owned(),
        kernel: kernel.to_owned(),
        answer: answer(&effect, &drift),
        costs: costs.map(|row| row.metric.clone()).collect(),
        left: compared("healthy", "with", &left),
        effect,
        drift,
    })
}

/// The verdict, if the effect exceeds the drift.
pub(crate) fn answer(effect: &Comparison, drift: &Comparison) -> Answer {
    let (Some(effect), Some(drift)) = (effect.main(), drift.main()) else { return Answer::NotShown };
    // In logarithms, so that doubling and halving count alike.
    let size = |relative: Option<f64>| relative.map(|relative| relative.ln_1p().abs());
    let drift = size(drift.contrast.relative);
    let beyond_drift = size(effect.contrast.relative).is_some_and(|size| drift.is_none_or(|drift| size > 2.0 * drift));
    match effect.contrast.verdict {
        Verdict::Better if beyond_drift => Answer::Helped,
        Verdict::Worse if beyond_drift => Answer::Harmed,
        Verdict::NoDifferenceThatMatters => Answer::DidNothing,
        _ => Answer::NotShown,
    }
}

impl fmt::Display for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let answer = match self.answer {
            Answer::Helped => "helped",
            Answer::Harmed => "did harm",
            Answer::DidNothing => "made no difference that matters",
            Answer::NotShown => "is not shown to help: too few pairs, too much spread, or as much drift as effect",
        };
        writeln!(f, "{} {answer}, on {}", self.remedy, self.kernel)?;
        let cost = if self.costs.is_empty() { "nothing measured got worse".to_owned() } else { self.costs.join(", ") };
        writeln!(f, "its cost: {cost}\n\n{}\n{}\n{}", self.effect, self.drift, self.left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{self, Model};

    fn proved(plan: Plan, with: f64, spread: f64) -> Proof {
        let mut model = Model::new(|request: &Request| {
            let base = match (request.fault, &request.remedy) {
                (false, _) => 38_000.0,
                (true, None) => 30_000.0,
                (true, Some(_)) => with,
            };
            Some(base + spread * model::noise(request))
        });
        let mut tell = |_: crate::bench::NextRun<'_>| {};
        let mut bench = Bench::new(&mut model, &mut tell);
        prove(&mut bench, &model::scenario(), "6.1", "cure", plan).expect("a proof")
    }

    #[test]
    fn a_cure_helps_and_its_cost_is_named() {
        let proof = proved(Plan::default(), 38_000.0, 500.0);
        assert_eq!((proof.answer, proof.costs), (Answer::Helped, vec!["main.cost".to_owned()]));
        assert_eq!(proof.left.main().expect("measured").contrast.verdict, Verdict::NoDifferenceThatMatters);
    }

    #[test]
    fn other_answers_are_told_apart() {
        assert_eq!(proved(Plan::default(), 20_000.0, 500.0).answer, Answer::Harmed);
        assert_eq!(proved(Plan::default(), 30_000.0, 500.0).answer, Answer::DidNothing);
        assert_eq!(proved(Plan { seeds: 2, ..Plan::default() }, 38_000.0, 500.0).answer, Answer::NotShown);
        assert_eq!(proved(Plan::default(), 32_000.0, 20_000.0).answer, Answer::NotShown);
    }

    #[test]
    fn runs_that_are_identical_to_the_byte_prove_nothing() {
        let proof = proved(Plan { seeds: 5, ..Plan::default() }, 38_000.0, 0.0);
        assert_eq!((proof.effect.pairs_run, proof.effect.pairs, proof.answer), (5, 1, Answer::NotShown));
    }

    #[test]
    fn an_unknown_remedy_lists_the_known_ones() {
        let mut model = Model::new(|_: &Request| Some(1.0));
        let mut tell = |_: crate::bench::NextRun<'_>| {};
        let mut bench = Bench::new(&mut model, &mut tell);
        let error = prove(&mut bench, &model::scenario(), "6.1", "hope", Plan::default()).expect_err("no such remedy");
        let error = error.to_string();
        let known = "scenario `model` has no remedy `hope`; it has cure; remedies of explain are lower-group-weight, ";
        assert!(error.starts_with(known), "{error}");
    }
}
