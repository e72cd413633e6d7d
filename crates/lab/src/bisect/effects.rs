//! Measures one metric in different configurations over seeds.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use crate::bench::{Bench, BenchError, metric};
use crate::metric::Better;
use crate::run::{Outcome, Request, Runner};
use crate::stats::{Contrast, Pair, contrast, deviation};

/// The bench, and the metric measured on it.
pub(super) struct Effects<'b, 'a, R> {
    pub(super) bench: &'b mut Bench<'a, R>,
    pub(super) metric: String,
    seeds: u64,
    matters: f64,
    /// The standard deviation that seeds cause in a pair's effect, as far as measured.
    noise: f64,
    tried: BTreeSet<String>,
}

/// No more seeds are run once an effect is this many times its uncertainty away from the middle.
const SURE_UNCERTAINTIES: f64 = 3.0;

/// Maximum seeds of a search step, as a multiple of the seeds of the two sides.
const MAX_SEED_FACTOR: u64 = 2;

impl<'b, 'a, R: Runner> Effects<'b, 'a, R> {
    pub(super) fn new(bench: &'b mut Bench<'a, R>, metric: String, seeds: u64, matters: f64) -> Effects<'b, 'a, R> {
        Effects { bench, metric, seeds, matters, noise: 0.0, tried: BTreeSet::new() }
    }

    /// The seeds for comparing the sides.
    pub(super) fn first(&self) -> RangeInclusive<u64> {
        1..=self.seeds
    }

    /// Seeds that the search does not use, to confirm its result.
    pub(super) fn further(&self) -> RangeInclusive<u64> {
        let seen = self.seeds * MAX_SEED_FACTOR;
        seen + 1..=seen + self.seeds
    }

    /// The number of configurations that were run.
    pub(super) fn configurations(&self) -> usize {
        self.tried.len()
    }

    fn outcome(&mut self, request: &Request, seed: u64) -> Result<Outcome, BenchError<R::Error>> {
        let mut knobs = request.knobs.clone();
        knobs.sort();
        self.tried.insert(format!("{:?} {:?} {:?} {knobs:?}", request.kernel, request.fault, request.remedy));
        self.bench.run(&Request { seed, ..request.clone() })
    }

    /// The metric for each seed.
    pub(super) fn values(
        &mut self,
        request: &Request,
        seeds: RangeInclusive<u64>,
    ) -> Result<Vec<f64>, BenchError<R::Error>> {
        let mut values = Vec::new();
        for seed in seeds {
            let outcome = self.outcome(request, seed)?;
            values.push(metric(&outcome, &self.metric)?.value);
        }
        Ok(values)
    }

    /// Compares both sides with these seeds as `compare` does: byte-identical runs count once.
    pub(super) fn contrast(
        &mut self,
        a: &Request,
        b: &Request,
        seeds: RangeInclusive<u64>,
    ) -> Result<Contrast, BenchError<R::Error>> {
        let (mut pairs, mut seen) = (Vec::new(), BTreeSet::new());
        for seed in seeds {
            let (first, second) = (self.outcome(a, seed)?, self.outcome(b, seed)?);
            let pair = Pair { a: metric(&first, &self.metric)?.value, b: metric(&second, &self.metric)?.value };
            if seen.insert((first.trace_digest, second.trace_digest)) {
                pairs.push(pair);
            }
        }
        Ok(contrast(&pairs, Better::Neither, self.matters))
    }

    /// The mean over the seeds of ln(b / a).
    pub(super) fn effect(
        &mut self,
        a: &Request,
        b: &Request,
        seeds: RangeInclusive<u64>,
    ) -> Result<f64, BenchError<R::Error>> {
        let (first, second) = (self.values(a, seeds.clone())?, self.values(b, seeds)?);
        let sum: f64 = first.iter().zip(&second).map(|(a, b)| effect(*a, *b)).sum();
        Ok(sum / first.len().max(1) as f64)
    }

    /// Measures how much seeds alone change the metric: on either side, or in the pairs' effects, whichever is largest.
    pub(super) fn learn_noise(&mut self, a: &Request, b: &Request) -> Result<(), BenchError<R::Error>> {
        let (first, second) = (self.values(a, self.first())?, self.values(b, self.first())?);
        let paired: Vec<f64> = first.iter().zip(&second).map(|(a, b)| effect(*a, *b)).collect();
        let alone = |values: &[f64]| values.iter().map(|value| effect(1.0, *value)).collect::<Vec<f64>>();
        let all = [paired, alone(&first), alone(&second)];
        self.noise = all.iter().map(|values| deviation(values)).fold(0.0, f64::max);
        Ok(())
    }

    /// Whether `request` makes more than half of the effect `reached` on A. Runs as many seeds as the noise requires.
    pub(super) fn shows(&mut self, a: &Request, request: &Request, reached: f64) -> Result<bool, BenchError<R::Error>> {
        let (mut sum, most) = (0.0, self.seeds * MAX_SEED_FACTOR);
        for seed in 1..=most {
            let (base, value) = (self.values(a, seed..=seed)?, self.values(request, seed..=seed)?);
            sum += base.iter().zip(&value).map(|(a, b)| effect(*a, *b)).sum::<f64>();
            let mean = sum / seed as f64;
            let beyond_middle = mean * reached.signum() - reached.abs() / 2.0;
            if seed == most || beyond_middle.abs() > SURE_UNCERTAINTIES * self.noise / (seed as f64).sqrt() {
                return Ok(beyond_middle > 0.0);
            }
        }
        Ok(false)
    }
}

/// ln(b / a). A zero counts as a thousandth of the other value, which is far enough here.
fn effect(a: f64, b: f64) -> f64 {
    const ZERO_RATIO: f64 = 1e-3;
    match (a > 0.0, b > 0.0) {
        (true, true) => (b / a).ln(),
        (true, false) => ZERO_RATIO.ln(),
        (false, true) => -ZERO_RATIO.ln(),
        (false, false) => 0.0,
    }
}
