//! The smallest set of settings that makes the difference between two sides (delta debugging).
//!
//! Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", 2002: split the differences, keep the
//! part that still shows the effect. A run "shows the effect" if the metric lies beyond the middle, on the side of B.

mod difference;
mod minimise;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use difference::{Change, Settings, settings_of};

use self::difference::Differences;
use crate::bench::{Bench, BenchError, metric};
use crate::compare::{kernel_of, quantity};
use crate::run::{Outcome, Request, Runner};
use crate::scenario::Scenario;
use crate::side::Side;
use crate::stats::median;

/// How to look.
#[derive(Clone, Debug, PartialEq)]
pub struct Search {
    /// Each step is the median of seeds 1 to this.
    pub seeds: u64,
    /// A smaller relative difference between the sides is not worth a search.
    pub matters: f64,
    /// The metric to explain; the scenario's main one if none is named.
    pub metric: Option<String>,
}

impl Default for Search {
    fn default() -> Search {
        Search { seeds: 1, matters: 0.03, metric: None }
    }
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bisection {
    /// The scenario's name.
    pub scenario: String,
    /// Side A in words.
    pub a: String,
    /// Side B in words.
    pub b: String,
    /// The metric that was explained.
    pub metric: String,
    /// Its unit.
    pub unit: String,
    /// Its value on A.
    pub value_a: f64,
    /// Its value on B.
    pub value_b: f64,
    /// How many differences were candidates.
    pub candidates: usize,
    /// The smallest set that makes the difference; empty if none does.
    pub cause: Vec<Change>,
    /// The metric on A with the cause applied.
    pub value_with_cause: Option<f64>,
    /// The part of the difference that the cause makes: 1 is all of it.
    pub explained: f64,
    /// Whether the difference goes away when all but the cause is applied; `false`: something else makes it too.
    pub necessary: Option<bool>,
    /// Further smallest sets, each of which makes the difference without the cause and without the others.
    #[serde(default)]
    pub others: Vec<Vec<Change>>,
    /// What is left unexplained, in words.
    pub unexplained: Vec<String>,
    /// Configurations that were tried, the two sides among them.
    pub steps: usize,
}

/// Below this part of the difference the cause is told not to explain all of it.
const ALL: f64 = 0.9;

/// How many causes are looked for after the first.
const OTHERS: usize = 3;

/// The smallest part of the difference that the settings together must make before it is worth taking them apart.
const SOME: f64 = 0.2;

/// Finds what makes the difference. `settings` reads what a guest's kernel had set from its outcome; it is asked only if
/// the sides' kernels differ.
pub fn bisect<R: Runner>(
    bench: &mut Bench<'_, R>,
    scenario: &Scenario,
    (a, b): (&Side, &Side),
    settings: &dyn Fn(&Outcome) -> Settings,
    search: &Search,
) -> Result<Bisection, BenchError<R::Error>> {
    let kernel = kernel_of(a, b)?;
    let (from, to) = (a.request(scenario, &kernel, 1), b.request(scenario, &kernel, 1));
    let name = search.metric.clone().or_else(|| scenario.expect.metrics.first().cloned());
    let name = name.ok_or_else(|| BenchError::Nothing(format!("scenario `{}` names no metric", scenario.name)))?;
    let mut lab = Lab { bench, metric: name, seeds: search.seeds.max(1), steps: 0 };
    let (value_a, value_b) = (lab.value(&from)?, lab.value(&to)?);
    let mut found = lab.nothing_yet(scenario, (a, b), &from, (value_a, value_b))?;
    let difference = value_b - value_a;
    if difference.abs() < search.matters * value_a.abs().max(value_b.abs()) || difference == 0.0 {
        found.unexplained.push("the sides do not differ by what matters: there is nothing to explain".to_owned());
        return Ok(found);
    }
    let Differences { changes, out_of_reach } = lab.changes(&from, &to, settings)?;
    found.candidates = changes.len();
    found.unexplained.extend(out_of_reach);
    lab.explain(&mut found, (&from, &to), &changes)?;
    found.steps = lab.steps;
    Ok(found)
}

/// The bench and what is measured on it.
struct Lab<'b, 'a, R> {
    bench: &'b mut Bench<'a, R>,
    metric: String,
    seeds: u64,
    steps: usize,
}

impl<R: Runner> Lab<'_, '_, R> {
    /// The metric's median over the seeds.
    fn value(&mut self, request: &Request) -> Result<f64, BenchError<R::Error>> {
        let runs_before = self.bench.runs();
        let mut values = Vec::new();
        for seed in 1..=self.seeds {
            let outcome = self.bench.run(&Request { seed, ..request.clone() })?;
            values.push(metric(&outcome, &self.metric)?.value);
        }
        self.steps += usize::from(self.bench.runs() > runs_before);
        Ok(median(values))
    }

    fn nothing_yet(
        &mut self,
        scenario: &Scenario,
        (a, b): (&Side, &Side),
        from: &Request,
        (value_a, value_b): (f64, f64),
    ) -> Result<Bisection, BenchError<R::Error>> {
        let outcome = self.bench.run(from)?;
        Ok(Bisection {
            scenario: scenario.name.clone(),
            a: a.to_string(),
            b: b.to_string(),
            unit: metric(&outcome, &self.metric)?.unit.clone(),
            metric: self.metric.clone(),
            value_a,
            value_b,
            candidates: 0,
            cause: Vec::new(),
            value_with_cause: None,
            explained: 0.0,
            necessary: None,
            others: Vec::new(),
            unexplained: Vec::new(),
            steps: self.steps,
        })
    }

    /// What differs and can be set on A's kernel, and what differs and cannot.
    fn changes(
        &mut self,
        from: &Request,
        to: &Request,
        settings: &dyn Fn(&Outcome) -> Settings,
    ) -> Result<Differences, BenchError<R::Error>> {
        let asked = difference::of_requests(from, to);
        if from.kernel == to.kernel {
            return Ok(Differences { changes: asked, out_of_reach: Vec::new() });
        }
        let (on_a, on_b) = (settings(&self.bench.run(from)?), settings(&self.bench.run(to)?));
        Ok(difference::of_kernels(asked, &on_a, &on_b))
    }

    fn explain(
        &mut self,
        found: &mut Bisection,
        (from, to): (&Request, &Request),
        changes: &[Change],
    ) -> Result<(), BenchError<R::Error>> {
        let whole = found.value_b - found.value_a;
        let with = |set: &[usize]| difference::apply(from, set.iter().map(|&index| &changes[index]));
        let all: Vec<usize> = (0..changes.len()).collect();
        // On one kernel, A with every difference is B.
        let reached = if from.kernel == to.kernel { found.value_b } else { self.value(&with(&all))? };
        let share = (reached - found.value_a) / whole;
        if changes.is_empty() || share < SOME {
            found.unexplained.push(format!(
                "all {} settings that differ and that A's kernel has make {:.0} % of the difference: the rest is in the \
                 kernels' code or in settings that only one of them has",
                changes.len(),
                share.max(0.0) * 100.0
            ));
            return Ok(());
        }
        let value_a = found.value_a;
        // Beyond the middle, on the side that all of them reach.
        let mut shows = |set: &[usize]| Ok((self.value(&with(set))? - value_a) / (reached - value_a) > 0.5);
        let mut rest = all.clone();
        let cause = take_cause(&mut rest, &mut shows)?;
        if !rest.is_empty() {
            found.necessary = Some(!shows(&rest)?);
        }
        let mut more = found.necessary == Some(false);
        while more && found.others.len() < OTHERS {
            let other = take_cause(&mut rest, &mut shows)?;
            found.others.push(other.into_iter().map(|index| changes[index].clone()).collect());
            more = !rest.is_empty() && shows(&rest)?;
        }
        let value = self.value(&with(&cause))?;
        found.value_with_cause = Some(value);
        found.explained = (value - value_a) / whole;
        found.cause = cause.into_iter().map(|index| changes[index].clone()).collect();
        if found.explained < ALL {
            let left = format!(
                "{:.0} % of the difference is not explained by these settings",
                100.0 * (1.0 - found.explained)
            );
            found.unexplained.push(left);
        }
        if more {
            found
                .unexplained
                .push("the difference stays without all of these: still other settings make it".to_owned());
        }
        Ok(())
    }
}

/// The smallest part of `rest` that shows the difference, which is taken out of it.
fn take_cause<E>(rest: &mut Vec<usize>, shows: &mut impl FnMut(&[usize]) -> Result<bool, E>) -> Result<Vec<usize>, E> {
    let cause = minimise::minimise(rest.clone(), shows)?;
    rest.retain(|index| !cause.contains(index));
    Ok(cause)
}

impl fmt::Display for Bisection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let show = |value: f64| quantity(value, &self.unit);
        writeln!(f, "{}: {}\n  A: {}: {}", self.scenario, self.metric, self.a, show(self.value_a))?;
        writeln!(f, "  B: {}: {}", self.b, show(self.value_b))?;
        writeln!(f, "  {} settings differ, {} configurations tried", self.candidates, self.steps)?;
        if let Some(value) = self.value_with_cause {
            writeln!(f, "cause ({:.0} % of the difference, A with it: {}):", self.explained * 100.0, show(value))?;
            self.cause.iter().try_for_each(|change| writeln!(f, "  {change}"))?;
            for other in &self.others {
                writeln!(f, "without that, the same difference is made by:")?;
                other.iter().try_for_each(|change| writeln!(f, "  {change}"))?;
            }
        } else {
            writeln!(f, "no cause found among the settings")?;
        }
        self.unexplained.iter().try_for_each(|what| writeln!(f, "not explained: {what}"))
    }
}

#[cfg(test)]
#[path = "bisect/tests.rs"]
mod tests;
