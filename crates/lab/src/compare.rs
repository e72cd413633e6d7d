//! Compares two sides of a scenario over pairs of runs with the same seed.

mod show;

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use crate::bench::{Bench, BenchError, check_remedy};
use crate::metric::{Better, Metric};
use crate::run::{Outcome, Request, Runner};
use crate::scenario::Scenario;
use crate::side::Side;
use crate::stats::{Contrast, Pair, contrast, correct_for_number};

pub use show::{PerSeed, quantity};
pub(crate) use show::{interval, percent};

/// The comparison's parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// Seeds 1 to this.
    pub seeds: u64,
    /// The smallest relative difference that matters: 0.03 is 3 %.
    pub matters: f64,
}

impl Default for Plan {
    fn default() -> Plan {
        Plan { seeds: 3, matters: 0.03 }
    }
}

/// The result of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The scenario's name.
    pub scenario: String,
    /// Side A in words.
    pub a: String,
    /// Side B in words.
    pub b: String,
    /// The number of pairs that were run.
    pub pairs_run: usize,
    /// Pairs left after identical ones were counted once.
    pub pairs: usize,
    /// The seeds of these pairs on A and on B.
    #[serde(default)]
    pub seeds: Vec<(u64, u64)>,
    /// The metrics that matter first, in the scenario's order; then the others by name.
    pub rows: Vec<Row>,
    /// Metrics that some runs lack; they are not compared.
    pub missing: Vec<String>,
}

/// One metric.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Its name.
    pub metric: String,
    /// Its unit.
    pub unit: String,
    /// Which direction is better.
    pub better: Better,
    /// Whether the scenario lists it among those that matter.
    pub matters: bool,
    /// Its values, pair by pair as in `seeds`.
    #[serde(default)]
    pub values: Vec<Pair>,
    /// The numbers and the verdict.
    #[serde(flatten)]
    pub contrast: Contrast,
}

/// Runs both sides with the same seeds, one after the other, and compares them. A side B without a kernel gets A's. If
/// both sides are equal, B gets other seeds: with A's it would be the same run, to the byte.
pub fn compare<R: Runner>(
    bench: &mut Bench<'_, R>,
    scenario: &Scenario,
    (a, b): (&Side, &Side),
    plan: Plan,
) -> Result<Comparison, BenchError<R::Error>> {
    let kernel = kernel_of(a, b)?;
    for id in [&a.remedy, &b.remedy].into_iter().flatten() {
        check_remedy(scenario, id)?;
    }
    bench.expect(2 * plan.seeds as usize);
    let further = if same(&a.request(scenario, &kernel, 1), &b.request(scenario, &kernel, 1)) { plan.seeds } else { 0 };
    let mut pairs = Vec::new();
    for seed in 1..=plan.seeds {
        let first = bench.run(&a.request(scenario, &kernel, seed))?;
        pairs.push((first, bench.run(&b.request(scenario, &kernel, further + seed))?));
    }
    Ok(of_outcomes(scenario, (a.to_string(), b.to_string()), &pairs, plan.matters))
}

/// Whether two requests describe the same guest; the order of knobs does not matter.
pub(crate) fn same(one: &Request, other: &Request) -> bool {
    let sorted = |request: &Request| {
        let mut request = request.clone();
        request.knobs.sort();
        request
    };
    sorted(one) == sorted(other)
}

/// The kernel for a side B that names none. A must name its own, because B's must not change it.
pub(crate) fn kernel_of<E: std::error::Error>(a: &Side, b: &Side) -> Result<String, BenchError<E>> {
    a.kernel.clone().ok_or_else(|| {
        BenchError::Nothing(match &b.kernel {
            Some(kernel) => format!(
                "side A names no kernel: give it kernel=… (kernel={kernel} on side B is B's alone; a B without a kernel has A's)"
            ),
            None => "neither side names a kernel: give side A kernel=…; side B has it, too, if it names no other".to_owned(),
        })
    })
}

/// Compares existing outcomes: pairs of the same seed.
pub fn of_outcomes(
    scenario: &Scenario,
    (a, b): (String, String),
    outcomes: &[(Outcome, Outcome)],
    matters: f64,
) -> Comparison {
    let samples = different(outcomes);
    let of_all = |name: &str| {
        let value = |outcome: &Outcome| outcome.metrics.iter().find(|metric| metric.name == name).map(|m| m.value);
        samples.iter().map(|(a, b)| Some(Pair { a: value(a)?, b: value(b)? })).collect::<Option<Vec<Pair>>>()
    };
    let (mut rows, mut missing) = (Vec::new(), Vec::new());
    for metric in all_metrics(scenario, outcomes) {
        match of_all(&metric.name) {
            Some(pairs) => rows.push(Row {
                values: pairs.clone(),
                matters: scenario.expect.metrics.contains(&metric.name),
                contrast: contrast(&pairs, metric.better, matters),
                metric: metric.name,
                unit: metric.unit,
                better: metric.better,
            }),
            None => missing.push(metric.name),
        }
    }
    // The main metric was named before measuring; the others are compared because they exist.
    let main = rows.first().filter(|row| row.matters).map_or(0, |_| 1);
    correct_for_number(rows[main..].iter_mut().map(|row| &mut row.contrast));
    let measured = |name: &String| rows.iter().any(|row| row.metric == *name) || missing.contains(name);
    let absent: Vec<String> = scenario.expect.metrics.iter().filter(|name| !measured(name)).cloned().collect();
    missing.extend(absent);
    let seeds = samples.iter().map(|(a, b)| (a.request.seed, b.request.seed)).collect();
    let (pairs_run, pairs) = (outcomes.len(), samples.len());
    Comparison { scenario: scenario.name.clone(), a, b, pairs_run, pairs, seeds, rows, missing }
}

impl Comparison {
    /// The metric that matters most, if it was measured on both sides.
    pub fn main(&self) -> Option<&Row> {
        self.rows.first().filter(|row| row.matters)
    }

    /// Whether any metric is claimed to differ.
    pub fn claims_a_difference(&self) -> bool {
        self.rows.iter().any(|row| row.contrast.verdict.is_claim())
    }
}

/// Each pair of traces once: a byte-identical repetition is no further evidence.
fn different(outcomes: &[(Outcome, Outcome)]) -> Vec<&(Outcome, Outcome)> {
    let mut seen = HashSet::new();
    outcomes.iter().filter(|(a, b)| seen.insert((&a.trace_digest, &b.trace_digest))).collect()
}

/// All metrics of all runs, the scenario's own first.
fn all_metrics(scenario: &Scenario, outcomes: &[(Outcome, Outcome)]) -> Vec<Metric> {
    let mut found: Vec<Metric> = Vec::new();
    for metric in outcomes.iter().flat_map(|(a, b)| a.metrics.iter().chain(&b.metrics)) {
        if !found.iter().any(|known| known.name == metric.name) {
            found.push(metric.clone());
        }
    }
    let place = |metric: &Metric| scenario.expect.metrics.iter().position(|name| *name == metric.name);
    found.sort_by_key(|metric| (place(metric).unwrap_or(usize::MAX), metric.name.clone()));
    found
}

#[cfg(test)]
#[path = "compare/tests.rs"]
mod tests;
