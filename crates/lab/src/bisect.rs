//! The smallest set of settings that makes the difference between two sides (delta debugging).
//!
//! Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", 2002: split the differences, keep the
//! part that still shows the effect. What a search comes to is only named if `compare` would claim it, on seeds that the
//! search has not seen (docs/decisions/0101).

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

/// How to look.
#[derive(Clone, Debug, PartialEq)]
pub struct Search {
    /// The sides are compared over seeds 1 to this, at least [`FEWEST_PAIRS`], and what was found over as many further ones.
    pub seeds: u64,
    /// A smaller relative difference between the sides is not worth a search.
    pub matters: f64,
    /// The metric to explain; the scenario's main one if none is named.
    pub metric: Option<String>,
}

impl Default for Search {
    fn default() -> Search {
        Search { seeds: FEWEST_PAIRS as u64, matters: 0.03, metric: None }
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
    /// Its median on A.
    pub value_a: f64,
    /// Its median on B.
    pub value_b: f64,
    /// B against A.
    #[serde(default)]
    pub difference: Option<Contrast>,
    /// How many differences were candidates.
    pub candidates: usize,
    /// The smallest set that makes the difference; empty if none does.
    pub cause: Vec<Change>,
    /// The metric's median on A with the cause applied.
    pub value_with_cause: Option<f64>,
    /// A with the cause against A, on seeds that the search has not seen.
    #[serde(default)]
    pub confirmed: Option<Contrast>,
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
    /// Guests that were asked for.
    #[serde(default)]
    pub guests: usize,
}

/// Below this part of the difference the cause is told not to explain all of it.
const MIN_FULL_EXPLANATION: f64 = 0.9;

/// How many causes are looked for after the first.
const MAX_FURTHER_CAUSES: usize = 3;

/// The smallest part of the difference that the settings together must make before it is worth taking them apart.
const MIN_JOINT_EFFECT: f64 = 0.2;

/// Finds what makes the difference. `settings` reads what a guest's kernel had set from its outcome, or says why it cannot;
/// it is asked only if the sides' kernels differ.
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
        cause: Vec::new(),
        value_with_cause: None,
        confirmed: None,
        explained: 0.0,
        necessary: None,
        others: Vec::new(),
        unexplained: out_of_reach,
        steps: 0,
        guests: 0,
        difference: Some(difference.clone()),
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

/// What differs and can be set on A's kernel, and what differs and cannot.
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

/// The search, once the sides are known to differ.
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
        // On one kernel, A with every difference is B.
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
        self.tell(&cause, whole)?;
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

    /// Whether a set makes more than half of what all of them make.
    fn shows(&mut self, set: &[usize], reached: f64) -> Result<bool, BenchError<R::Error>> {
        let request = self.with(set);
        self.lab.shows(self.from, &request, reached)
    }

    /// The smallest part of `rest` that shows the difference, which is taken out of it; none if seeds that the search has
    /// not seen do not confirm it.
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

    /// Takes out of a cause what its effect can do without: a search in noise takes bystanders along.
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

    /// What A with `set` is against A with `base`, on seeds that the search has not seen, if it is a claim in the direction of
    /// what all of them make.
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

    fn tell(&mut self, cause: &[usize], whole: &Contrast) -> Result<(), BenchError<R::Error>> {
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

/// What part of a difference another one is; nothing of one that cannot be told.
fn share_of(part: &Contrast, whole: &Contrast) -> f64 {
    match (part.relative, whole.relative) {
        (Some(part), Some(whole)) if whole != 0.0 => part / whole,
        _ => 0.0,
    }
}

#[cfg(test)]
#[path = "bisect/tests.rs"]
mod tests;
