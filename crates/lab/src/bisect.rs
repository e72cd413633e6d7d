//! The smallest set of settings that makes the difference between two sides (delta debugging).
//!
//! Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", 2002: split the differences, keep the
//! part that still shows the effect. A result is reported only if `compare` claims it on seeds that the search did not
//! use (docs/decisions/0101).

mod difference;
mod effects;
mod minimise;
mod show;

use serde::{Deserialize, Serialize};

pub use difference::{Change, Settings, settings_of};

use self::difference::Differences;
use self::effects::Effects;
use crate::bench::{Bench, BenchError, metric};
use crate::compare::{kernel_of, same};
use crate::run::{Outcome, Request, Runner};
use crate::scenario::Scenario;
use crate::side::Side;
use crate::stats::{Contrast, FEWEST_PAIRS, median};

/// The search's parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Search {
    /// Compare the sides over seeds 1 to this, at least [`FEWEST_PAIRS`], and confirm the result over as many further
    /// seeds.
    pub seeds: u64,
    /// Do not search for a smaller relative difference between the sides.
    pub matters: f64,
    /// The metric to explain; by default the scenario's main one.
    pub metric: Option<String>,
}

impl Default for Search {
    fn default() -> Search {
        Search { seeds: FEWEST_PAIRS as u64, matters: 0.03, metric: None }
    }
}

/// The result of a search.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Bisection {
    /// The scenario's name.
    pub scenario: String,
    /// Side A in words.
    pub a: String,
    /// The explained metric.
    pub b: String,
    /// The metric that was explained.
    pub metric: String,
    /// Its unit.
    pub unit: String,
    /// Its median on A.
    pub value_a: f64,
    /// Its median on B.
    pub value_b: f64,
    /// B compared with A.
    #[serde(default)]
    pub difference: Option<Contrast>,
    /// How many differences were candidates.
    pub candidates: usize,
    /// The smallest set that makes the difference; empty if none does.
    pub cause: Vec<Change>,
    /// The metric's median on A with the cause.
    pub value_with_cause: Option<f64>,
    /// A with the cause compared with A, on seeds that the search did not use.
    #[serde(default)]
    pub confirmed: Option<Contrast>,
    /// The fraction of the difference that the cause makes: 1 is all of it.
    pub explained: f64,
    /// Whether the difference disappears when every change except the cause is applied; `false`: another cause exists.
    pub necessary: Option<bool>,
    /// Further smallest sets, each of which makes the difference without the cause and the other sets.
    #[serde(default)]
    pub others: Vec<Vec<Change>>,
    /// What is left unexplained, in words.
    pub unexplained: Vec<String>,
    /// The number of configurations that were run, including both sides.
    pub steps: usize,
    /// The number of guests requested.
    #[serde(default)]
    pub guests: usize,
}

/// Below this fraction of the difference the result says that the cause does not explain all of it.
const MIN_FULL_EXPLANATION: f64 = 0.9;

/// Maximum causes to find after the first.
const MAX_FURTHER_CAUSES: usize = 3;

/// The smallest fraction of the difference that all settings together must make before they are split.
const MIN_JOINT_EFFECT: f64 = 0.2;

/// Finds the settings that make the difference. `settings` reads from an outcome which settings its kernel had, or says
/// why it cannot; it is called only if the sides' kernels differ.
pub fn bisect<R: Runner>(
    bench: &mut Bench<'_, R>,
    scenario: &Scenario,
    (a, b): (&Side, &Side),
    settings: &dyn Fn(&Outcome) -> Result<Settings, String>,
    search: &Search,
) -> Result<Bisection, BenchError<R::Error>> {
    let kernel = kernel_of(a, b)?;
    let (from, to) = (a.request(scenario, &kernel, 1), b.request(scenario, &kernel, 1));
    if same(&from, &to) {
        return Err(BenchError::Nothing("the two sides are the same: no setting can make a difference".to_owned()));
    }
    let name = search.metric.clone().or_else(|| scenario.expect.metrics.first().cloned());
    let name = name.ok_or_else(|| {
        BenchError::Nothing(format!("scenario `{}` names no metric that matters: give --metric", scenario.name))
    })?;
    let seeds = search.seeds.max(FEWEST_PAIRS as u64);
    let mut lab = Effects::new(bench, name, seeds, search.matters);
    let difference = lab.contrast(&from, &to, lab.first())?;
    let Differences { changes, out_of_reach } = changes(&mut lab, (&from, &to), settings)?;
    let outcome = lab.bench.run(&from)?;
    let mut found = Bisection {
        scenario: scenario.name.clone(),
        a: a.to_string(),
        b: b.to_string(),
        unit: metric(&outcome, &lab.metric)?.unit.clone(),
        metric: lab.metric.clone(),
        value_a: median(lab.values(&from, lab.first())?),
        value_b: median(lab.values(&to, lab.first())?),
        candidates: changes.len(),
        unexplained: out_of_reach,
        difference: Some(difference.clone()),
        ..Bisection::default()
    };
    if difference.verdict.is_claim() {
        lab.learn_noise(&from, &to)?;
        Explain { lab: &mut lab, found: &mut found, from: &from, to: &to, changes: &changes }.run(&difference)?;
    } else {
        let more =
            difference.pairs_to_tell.map(|seeds| format!("; about {seeds} seeds may be enough")).unwrap_or_default();
        found.unexplained.push(format!(
            "the sides do not differ beyond what their own seeds do ({}{more}): there is nothing to explain",
            difference.verdict.words()
        ));
    }
    (found.steps, found.guests) = (lab.configurations(), lab.bench.runs());
    Ok(found)
}

/// The differences that can be set on A's kernel, and those that cannot.
fn changes<R: Runner>(
    lab: &mut Effects<'_, '_, R>,
    (from, to): (&Request, &Request),
    settings: &dyn Fn(&Outcome) -> Result<Settings, String>,
) -> Result<Differences, BenchError<R::Error>> {
    let asked = difference::of_requests(from, to);
    if from.kernel == to.kernel {
        return Ok(Differences { changes: asked, out_of_reach: Vec::new() });
    }
    match (settings(&lab.bench.run(from)?), settings(&lab.bench.run(to)?)) {
        (Ok(on_a), Ok(on_b)) => Ok(difference::of_kernels(asked, &on_a, &on_b)),
        (Err(why), _) | (_, Err(why)) => {
            let what = format!(
                "what the kernels themselves had set is not known ({why}): only what the sides ask for was tried"
            );
            Ok(Differences { changes: asked, out_of_reach: vec![what] })
        }
    }
}

/// The search, after the sides were found to differ.
struct Explain<'e, 'b, 'a, R> {
    lab: &'e mut Effects<'b, 'a, R>,
    found: &'e mut Bisection,
    from: &'e Request,
    to: &'e Request,
    changes: &'e [Change],
}

impl<R: Runner> Explain<'_, '_, '_, R> {
    fn with(&self, set: &[usize]) -> Request {
        difference::apply(self.from, set.iter().map(|&index| &self.changes[index]))
    }

    fn run(mut self, whole: &Contrast) -> Result<(), BenchError<R::Error>> {
        let all: Vec<usize> = (0..self.changes.len()).collect();
        // On one kernel, A with all differences is B.
        let everything = if self.from.kernel == self.to.kernel { self.to.clone() } else { self.with(&all) };
        let of_all = self.lab.contrast(self.from, &everything, self.lab.first())?;
        let share = share_of(&of_all, whole);
        if self.changes.is_empty() || share < MIN_JOINT_EFFECT || !of_all.verdict.is_claim() {
            let sure = if of_all.verdict.is_claim() { "" } else { ", which is within what seeds alone do" };
            self.found.unexplained.push(format!(
                "all {} settings that differ and that A's kernel has make {:.0} % of the difference{sure}: the rest is in the \
                 kernels' code or in settings that only one of them has",
                self.changes.len(),
                share.max(0.0) * 100.0
            ));
            return Ok(());
        }
        let reached = self.lab.effect(self.from, &everything, self.lab.first())?;
        let mut rest = all;
        let Some(cause) = self.next_cause(&mut rest, reached)? else { return Ok(()) };
        if !rest.is_empty() {
            self.found.necessary = Some(!self.shows(&rest, reached)?);
        }
        self.record_cause(&cause, whole)?;
        let mut more = self.found.necessary == Some(false);
        while more && self.found.others.len() < MAX_FURTHER_CAUSES {
            let Some(other) = self.next_cause(&mut rest, reached)? else { return Ok(()) };
            self.found.others.push(self.named(&other));
            more = !rest.is_empty() && self.shows(&rest, reached)?;
        }
        if more {
            let what = "the difference stays without all of these: still other settings make it";
            self.found.unexplained.push(what.to_owned());
        }
        Ok(())
    }

    fn named(&self, set: &[usize]) -> Vec<Change> {
        set.iter().map(|&index| self.changes[index].clone()).collect()
    }

    /// Whether a set makes more than half of the effect of all differences.
    fn shows(&mut self, set: &[usize], reached: f64) -> Result<bool, BenchError<R::Error>> {
        let request = self.with(set);
        self.lab.shows(self.from, &request, reached)
    }

    /// Removes from `rest` the smallest set that shows the difference and returns it; `None` if seeds that the search
    /// did not use do not confirm it.
    fn next_cause(&mut self, rest: &mut Vec<usize>, reached: f64) -> Result<Option<Vec<usize>>, BenchError<R::Error>> {
        let mut shows = |set: &[usize]| self.shows(set, reached);
        let mut cause = minimise::minimise(rest.clone(), &mut shows)?;
        rest.retain(|index| !cause.contains(index));
        if self.confirm(&[], &cause, reached)?.is_none() {
            let names: Vec<String> = self.named(&cause).iter().map(ToString::to_string).collect();
            self.found.unexplained.push(format!(
                "the search came to {}, but other seeds do not confirm that it makes a difference: no cause is named",
                names.join(", ")
            ));
            return Ok(None);
        }
        self.drop_riders(&mut cause, rest, reached)?;
        Ok(Some(cause))
    }

    /// Removes from a cause what its effect does not need: a noisy search includes unrelated settings.
    fn drop_riders(
        &mut self,
        cause: &mut Vec<usize>,
        rest: &mut Vec<usize>,
        reached: f64,
    ) -> Result<(), BenchError<R::Error>> {
        for index in cause.clone() {
            let without: Vec<usize> = cause.iter().copied().filter(|other| *other != index).collect();
            let needed = without.is_empty() || self.confirm(&without, cause, reached)?.is_some();
            if !needed && self.confirm(&[], &without, reached)?.is_some() {
                *cause = without;
                rest.push(index);
            }
        }
        rest.sort_unstable();
        Ok(())
    }

    /// Compares A with `set` and A with `base` on seeds that the search did not use; the result if it is a claim in the
    /// direction of the whole effect.
    fn confirm(
        &mut self,
        base: &[usize],
        set: &[usize],
        reached: f64,
    ) -> Result<Option<Contrast>, BenchError<R::Error>> {
        let (base, set) = (self.with(base), self.with(set));
        let contrast = self.lab.contrast(&base, &set, self.lab.further())?;
        Ok((contrast.verdict.is_claim() && contrast.relative.is_some_and(|part| part.signum() == reached.signum()))
            .then_some(contrast))
    }

    fn record_cause(&mut self, cause: &[usize], whole: &Contrast) -> Result<(), BenchError<R::Error>> {
        let request = self.with(cause);
        let confirmed = self.lab.contrast(self.from, &request, self.lab.further())?;
        self.found.cause = self.named(cause);
        self.found.value_with_cause = Some(median(self.lab.values(&request, self.lab.further())?));
        self.found.explained = share_of(&confirmed, whole);
        self.found.confirmed = Some(confirmed);
        if self.found.explained < MIN_FULL_EXPLANATION {
            let left = 100.0 * (1.0 - self.found.explained);
            self.found.unexplained.push(format!("{left:.0} % of the difference is not explained by these settings"));
        }
        Ok(())
    }
}

/// The fraction of one difference that another makes; 0 if it cannot be computed.
fn share_of(part: &Contrast, whole: &Contrast) -> f64 {
    match (part.relative, whole.relative) {
        (Some(part), Some(whole)) if whole != 0.0 => part / whole,
        _ => 0.0,
    }
}

#[cfg(test)]
#[path = "bisect/tests.rs"]
mod tests;
