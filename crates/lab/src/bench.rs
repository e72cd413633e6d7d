//! Runs the requests of an experiment, each once, and reports progress.

use std::collections::HashMap;

use crate::metric::Metric;
use crate::run::{Outcome, Request, Runner};
use crate::scenario::Scenario;

/// Why an experiment ended without a result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError<E: std::error::Error> {
    /// A guest failed.
    #[error("{what}: {source}")]
    Run {
        /// Scenario, kernel and seed.
        what: String,
        /// Why.
        source: E,
    },
    /// The experiment has nothing to compare: a sentence that says what is missing.
    #[error("{0}")]
    Nothing(String),
}

/// A run that is about to start.
#[derive(Clone, Copy, Debug)]
pub struct NextRun<'a> {
    /// Its number, from 1.
    pub number: usize,
    /// The total number of runs, where known.
    pub of: Option<usize>,
    /// The request.
    pub request: &'a Request,
}

/// Runs requests and remembers outcomes: a guest is repeatable to the byte, so no request is run twice.
pub struct Bench<'a, R> {
    runner: &'a mut R,
    tell: &'a mut dyn FnMut(NextRun<'_>),
    known: HashMap<String, Outcome>,
    expected: Option<usize>,
}

impl<'a, R: Runner> Bench<'a, R> {
    /// Calls `tell` before each run.
    pub fn new(runner: &'a mut R, tell: &'a mut dyn FnMut(NextRun<'_>)) -> Bench<'a, R> {
        Bench { runner, tell, known: HashMap::new(), expected: None }
    }

    /// Sets the number of runs in all, for progress.
    pub(crate) fn expect(&mut self, runs: usize) {
        self.expected = Some(runs);
    }

    /// How many guests were run.
    pub fn runs(&self) -> usize {
        self.known.len()
    }

    /// The request's outcome, from memory if it was run before.
    pub fn run(&mut self, request: &Request) -> Result<Outcome, BenchError<R::Error>> {
        // A guest does not depend on the order of its knobs.
        let mut request = request.clone();
        request.knobs.sort();
        let key = format!("{request:?}");
        if let Some(outcome) = self.known.get(&key) {
            return Ok(outcome.clone());
        }
        (self.tell)(NextRun { number: self.known.len() + 1, of: self.expected, request: &request });
        let outcome =
            self.runner.run(&request).map_err(|source| BenchError::Run { what: describe(&request), source })?;
        self.known.insert(key, outcome.clone());
        Ok(outcome)
    }
}

impl<R: Runner> Bench<'_, R> {
    /// Whether the user asked to stop.
    pub fn is_interrupted(&self) -> bool {
        self.runner.is_interrupted()
    }
}

/// `kubepods on 6.1, seed 3, without the fault, remedy raise-worker, sched_feature.X=off`.
pub fn describe(request: &Request) -> String {
    let mut text = format!("{} on {}, seed {}", request.scenario.name, request.kernel, request.seed);
    if !request.fault {
        text += ", without the fault";
    }
    if let Some(remedy) = &request.remedy {
        text += &format!(", remedy {remedy}");
    }
    for (name, value) in &request.knobs {
        text += &format!(", {name}={value}");
    }
    text
}

/// The metric of this name.
pub(crate) fn metric<'o, E: std::error::Error>(outcome: &'o Outcome, name: &str) -> Result<&'o Metric, BenchError<E>> {
    outcome.metrics.iter().find(|metric| metric.name == name).ok_or_else(|| {
        let measured: Vec<&str> = outcome.metrics.iter().map(|metric| metric.name.as_str()).collect();
        BenchError::Nothing(format!(
            "{} measured no `{name}`; it measured {}",
            describe(&outcome.request),
            measured.join(", ")
        ))
    })
}

/// Returns an error if the scenario lacks the remedy.
pub(crate) fn check_remedy<E: std::error::Error>(scenario: &Scenario, id: &str) -> Result<(), BenchError<E>> {
    scenario.check_remedy(id).map_err(|known| {
        BenchError::Nothing(format!("scenario `{}` has no remedy `{id}`; it has {known}", scenario.name))
    })
}
