//! Two sides of a scenario over paired seeds.

use std::collections::HashSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::bench::{Bench, BenchError, check_remedy};
use crate::metric::{Better, Metric};
use crate::run::{Outcome, Runner};
use crate::scenario::Scenario;
use crate::side::Side;
use crate::stats::{Contrast, Pair, Verdict, contrast, correct_for_number};

/// How to compare.
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

/// What came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The scenario's name.
    pub scenario: String,
    /// Side A in words.
    pub a: String,
    /// Side B in words.
    pub b: String,
    /// Pairs that were run.
    pub pairs_run: usize,
    /// Pairs left after identical ones were counted once.
    pub pairs: usize,
    /// The metrics that matter first, in the scenario's order; then the others by name.
    pub rows: Vec<Row>,
    /// Metrics that some runs lack: not compared.
    pub missing: Vec<String>,
}

/// One metric.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Its name.
    pub metric: String,
    /// Its unit.
    pub unit: String,
    /// Which way is good.
    pub better: Better,
    /// Whether the scenario lists it among those that matter.
    pub matters: bool,
    /// The numbers and the verdict.
    #[serde(flatten)]
    pub contrast: Contrast,
}

/// Runs both sides with the same seeds, one after the other, and sets them against each other. A side without a kernel
/// gets the other side's.
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
    let mut pairs = Vec::new();
    for seed in 1..=plan.seeds {
        let first = bench.run(&a.request(scenario, &kernel, seed))?;
        pairs.push((first, bench.run(&b.request(scenario, &kernel, seed))?));
    }
    Ok(of_outcomes(scenario, (a.to_string(), b.to_string()), &pairs, plan.matters))
}

/// The kernel for a side that names none.
pub(crate) fn kernel_of<E: std::error::Error>(a: &Side, b: &Side) -> Result<String, BenchError<E>> {
    let named = a.kernel.as_ref().or(b.kernel.as_ref());
    named.cloned().ok_or_else(|| BenchError::Nothing("neither side names a kernel: give kernel=… on one".to_owned()))
}

/// Compares outcomes that are there already: pairs of the same seed.
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
                matters: scenario.expect.metrics.contains(&metric.name),
                contrast: contrast(&pairs, metric.better, matters),
                metric: metric.name,
                unit: metric.unit,
                better: metric.better,
            }),
            None => missing.push(metric.name),
        }
    }
    // The main metric was named before anything was measured. The others are looked at because they are there.
    let main = rows.first().filter(|row| row.matters).map_or(0, |_| 1);
    correct_for_number(rows[main..].iter_mut().map(|row| &mut row.contrast));
    let measured = |name: &String| rows.iter().any(|row| row.metric == *name) || missing.contains(name);
    let absent: Vec<String> = scenario.expect.metrics.iter().filter(|name| !measured(name)).cloned().collect();
    missing.extend(absent);
    Comparison { scenario: scenario.name.clone(), a, b, pairs_run: outcomes.len(), pairs: samples.len(), rows, missing }
}

/// Each pair of traces once: a guest that ran the same bytes again is no further evidence.
fn different(outcomes: &[(Outcome, Outcome)]) -> Vec<&(Outcome, Outcome)> {
    let mut seen = HashSet::new();
    outcomes.iter().filter(|(a, b)| seen.insert((&a.trace_digest, &b.trace_digest))).collect()
}

/// Every metric that any run has, the scenario's own first.
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

/// How many metrics the last line names besides the main one.
const NAMED: usize = 4;

impl Comparison {
    /// The metric that matters most, if it was measured on both sides.
    pub fn main(&self) -> Option<&Row> {
        self.rows.first().filter(|row| row.matters)
    }

    /// All of it in one line.
    pub fn conclusion(&self) -> String {
        let Some(main) = self.main() else { return "the scenario's main metric was not measured".to_owned() };
        let others: Vec<&str> = self
            .rows
            .iter()
            .filter(|row| row.metric != main.metric && row.contrast.verdict.is_claim())
            .map(|row| row.metric.as_str())
            .collect();
        let verdict = main.contrast.verdict;
        match (verdict, &others[..]) {
            (Verdict::NoDifferenceThatMatters, []) => verdict.words().to_owned(),
            (Verdict::TooFewPairs, _) => verdict.words().to_owned(),
            (_, []) => format!("{}: {}", main.metric, verdict.words()),
            (_, others) => {
                let (shown, rest) = others.split_at(others.len().min(NAMED));
                let more = if rest.is_empty() { String::new() } else { format!(" and {} more", rest.len()) };
                format!("{}: {}; also different: {}{more}", main.metric, verdict.words(), shown.join(", "))
            }
        }
    }
}

/// A table for people; widths fit 100 columns for the usual names.
impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n  A: {}\n  B: {}", self.scenario, self.a, self.b)?;
        write!(f, "  {} pairs of the same seed", self.pairs)?;
        if self.pairs < self.pairs_run {
            write!(f, " ({} more were identical to the byte: no samples)", self.pairs_run - self.pairs)?;
        }
        writeln!(f, "\n\n{:<24} {:>11} {:>11} {:>9}  {:<20} verdict", "metric", "A", "B", "B - A", "95 % interval")?;
        for row in &self.rows {
            let effect = row.contrast.relative.map_or("-".to_owned(), percent);
            let interval = row.contrast.interval.map(|(low, high)| format!("{} to {}", percent(low), percent(high)));
            writeln!(
                f,
                "{:<24} {:>11} {:>11} {effect:>9}  {:<20} {}",
                row.metric,
                quantity(row.contrast.mean_a, &row.unit),
                quantity(row.contrast.mean_b, &row.unit),
                interval.unwrap_or_else(|| "-".to_owned()),
                row.contrast.verdict.words()
            )?;
        }
        writeln!(f, "B against A: {}", self.conclusion())?;
        if !self.missing.is_empty() {
            writeln!(f, "not measured by all runs: {}", self.missing.join(", "))?;
        }
        Ok(())
    }
}

/// `-20.8 %`; from ten times on `×314`.
fn percent(part: f64) -> String {
    if part >= 9.0 { format!("×{:.0}", part + 1.0) } else { format!("{:+.1} %", part * 100.0) }
}

/// A value with its unit, in three or four figures: `94.8 ms`, `38.4 k/s`, `1.02 switches/io` without its long unit.
pub fn quantity(value: f64, unit: &str) -> String {
    match unit {
        "ns" if value >= 0.0 => unstarve_model::Nanos(value.round() as u64).to_string(),
        "1/s" if value.abs() >= 10_000.0 => format!("{:.1} k/s", value / 1e3),
        "1/s" => format!("{value:.0} /s"),
        "%" => format!("{value:.1} %"),
        _ if value.abs() >= 1_000.0 => format!("{value:.0}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{self, Model};
    use crate::run::Request;
    use crate::stats::Verdict;

    fn compared(answer: impl FnMut(&Request) -> Option<f64>, seeds: u64) -> Comparison {
        let mut model = Model::new(answer);
        let mut tell = |_: crate::bench::Upcoming<'_>| {};
        let mut bench = Bench::new(&mut model, &mut tell);
        let (a, b) = ("kernel=5.10".parse().expect("a side"), "kernel=6.12".parse().expect("a side"));
        compare(&mut bench, &model::scenario(), (&a, &b), Plan { seeds, matters: 0.03 }).expect("a comparison")
    }

    fn verdict(comparison: &Comparison) -> Verdict {
        comparison.main().expect("the main metric").contrast.verdict
    }

    #[test]
    fn a_comparison_reads_as_a_table() {
        let comparison = compared(
            |request| Some(if request.kernel == "5.10" { 38_000.0 } else { 30_000.0 } + 400.0 * model::noise(request)),
            5,
        );
        insta::assert_snapshot!(comparison, @"
        model
          A: kernel=5.10
          B: kernel=6.12
          5 pairs of the same seed

        metric                             A           B     B - A  95 % interval        verdict
        main.iops                   38.0 k/s    30.0 k/s   -21.2 %  -21.7 % to -20.7 %   worse
        main.cost                     100 /s      100 /s    -0.0 %  -0.0 % to -0.0 %     no difference that matters
        B against A: main.iops: worse
        ");
    }

    #[test]
    fn identical_runs_are_not_samples() {
        let comparison = compared(|request| Some(if request.kernel == "5.10" { 38_000.0 } else { 30_000.0 }), 5);
        assert_eq!((comparison.pairs_run, comparison.pairs), (5, 1));
        assert_eq!(verdict(&comparison), Verdict::TooFewPairs);
    }

    #[test]
    fn noise_alone_is_no_difference_that_matters() {
        let comparison = compared(|request| Some(38_000.0 + 400.0 * model::noise(request)), 5);
        assert_eq!(verdict(&comparison), Verdict::NoDifferenceThatMatters);
    }

    #[test]
    fn a_metric_that_a_run_lacks_is_named_and_not_taken_for_zero() {
        let mut scenario = model::scenario();
        scenario.expect.metrics.push("main.max".to_owned());
        let outcome = |seed| {
            let mut model = Model::new(|request: &Request| Some(request.seed as f64));
            model.run(&Request::faulty(model::scenario(), "6.1", seed)).expect("an outcome")
        };
        let mut pairs: Vec<_> = (1..=3).map(|seed| (outcome(seed), outcome(seed + 10))).collect();
        pairs[1].1.metrics.retain(|metric| metric.name != "main.cost");
        let comparison = of_outcomes(&scenario, ("a".into(), "b".into()), &pairs, 0.03);
        assert_eq!(comparison.missing, ["main.cost", "main.max"]);
    }

    #[test]
    fn sides_without_a_kernel_are_refused() {
        let mut model = Model::new(|_: &Request| Some(1.0));
        let mut tell = |_: crate::bench::Upcoming<'_>| {};
        let mut bench = Bench::new(&mut model, &mut tell);
        let error = compare(&mut bench, &model::scenario(), (&Side::default(), &Side::default()), Plan::default());
        assert!(error.expect_err("no kernel").to_string().contains("kernel="));
    }
}
