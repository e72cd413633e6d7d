//! Statistics: whether two sides differ, from pairs of runs with the same seed (docs/decisions/0041).

use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::metric::Better;

/// The confidence level of intervals.
pub const CONFIDENCE: f64 = 0.95;

/// With fewer pairs nothing is claimed.
pub const FEWEST_PAIRS: usize = 3;

/// From this number of pairs on the signed-rank test can reach 5 % (2/2⁶), and is used.
const RANKED_PAIRS: usize = 6;

/// Two runs with the same seed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pair {
    /// The metric on side A.
    pub a: f64,
    /// The metric on side B.
    pub b: f64,
}

/// The conclusion from the pairs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// B is better, by at least what matters.
    Better,
    /// B is worse, by at least what matters.
    Worse,
    /// B differs by at least what matters, in a metric that has no good direction.
    Differs,
    /// The whole interval is smaller than what matters.
    NoDifferenceThatMatters,
    /// The interval is too wide to tell; more seeds may.
    Unclear,
    /// Fewer than [`FEWEST_PAIRS`] different pairs.
    #[default]
    TooFewPairs,
}

impl Verdict {
    /// Whether it claims that the sides differ.
    pub fn is_claim(self) -> bool {
        matches!(self, Verdict::Better | Verdict::Worse | Verdict::Differs)
    }

    /// For people.
    pub fn words(self) -> &'static str {
        match self {
            Verdict::Better => "better",
            Verdict::Worse => "worse",
            Verdict::Differs => "differs",
            Verdict::NoDifferenceThatMatters => "no difference that matters",
            Verdict::Unclear => "unclear",
            Verdict::TooFewPairs => "too few pairs to claim anything",
        }
    }
}

/// The scale of the pairs' effects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scale {
    /// ln(B / A), for metrics above zero in every run. No bound of a percentage is below −100 %.
    Ratio,
    /// B − A, relative to A's mean.
    #[default]
    Difference,
}

/// The comparison of two sides for one metric.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Contrast {
    /// Pairs used.
    pub pairs: usize,
    /// Mean of side A.
    pub mean_a: f64,
    /// Mean of side B.
    pub mean_b: f64,
    /// Median of the pairs' differences (B − A).
    pub median_difference: f64,
    /// The relative difference of B from A: from the geometric mean of the pairs' ratios, or the mean difference
    /// relative to A's mean magnitude (B's if A is all zero); `None` if both are zero.
    pub relative: Option<f64>,
    /// The 95 % interval of `relative`; none below [`FEWEST_PAIRS`].
    pub interval: Option<(f64, f64)>,
    /// Two-sided p of Student's t-test for this metric alone, matching the interval; `None` below [`FEWEST_PAIRS`].
    #[serde(default)]
    pub p: Option<f64>,
    /// Two-sided p of Wilcoxon's signed-rank test, exact; none below six pairs.
    pub signed_rank_p: Option<f64>,
    /// The conclusion.
    pub verdict: Verdict,
    /// The scale of the pairs' effects.
    #[serde(default)]
    pub scale: Scale,
    /// The claim for this metric alone, withdrawn by the correction for many metrics.
    #[serde(default)]
    pub taken_back: Option<Verdict>,
    /// The estimated number of pairs that would decide an unclear result; `None` if the result is clear, or more than
    /// [`MOST_PAIRS`] are needed.
    #[serde(default)]
    pub pairs_to_tell: Option<usize>,
    /// The pairs' effects on their scale.
    #[serde(skip)]
    pub(crate) effects: Option<Effects>,
}

/// The pairs' effects: their mean, standard deviation, and the smallest that matters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Effects {
    pub(crate) mean: f64,
    pub(crate) deviation: f64,
    matters: f64,
}

/// Compares the sides; `matters` is the smallest relevant relative difference (0.03: 3 %).
pub fn contrast(pairs: &[Pair], better: Better, matters: f64) -> Contrast {
    let mean = |of: fn(&Pair) -> f64| pairs.iter().map(of).sum::<f64>() / pairs.len().max(1) as f64;
    let differences: Vec<f64> = pairs.iter().map(|pair| pair.b - pair.a).collect();
    let magnitude = [mean(|pair| pair.a.abs()), mean(|pair| pair.b.abs())].into_iter().find(|&size| size > 0.0);
    let scale = scale_of(pairs);
    let effects: Option<Vec<f64>> = match scale {
        Scale::Ratio => Some(pairs.iter().map(|pair| (pair.b / pair.a).ln()).collect()),
        Scale::Difference => magnitude.map(|size| differences.iter().map(|difference| difference / size).collect()),
    };
    // A metric that is never negative cannot fall by more than 100 %.
    let floor = if pairs.iter().all(|pair| pair.a >= 0.0 && pair.b >= 0.0) { -1.0 } else { f64::NEG_INFINITY };
    let shown = |effect: f64| match scale {
        Scale::Ratio => effect.exp_m1(),
        Scale::Difference => effect.max(floor),
    };
    let mut found = Contrast {
        pairs: pairs.len(),
        mean_a: mean(|pair| pair.a),
        mean_b: mean(|pair| pair.b),
        median_difference: median(differences),
        scale,
        ..Contrast::default()
    };
    let enough = pairs.len() >= FEWEST_PAIRS;
    let Some(effects) = effects.filter(|effects| !effects.is_empty()) else {
        // Zero on both sides.
        found.p = enough.then_some(1.0);
        found.verdict = if enough { Verdict::NoDifferenceThatMatters } else { Verdict::TooFewPairs };
        return found;
    };
    let (average, error) = mean_and_error(&effects);
    found.relative = Some(shown(average));
    if !enough {
        return found;
    }
    let (low, high) = mean_interval(&effects);
    let matters = if scale == Scale::Ratio { matters.ln_1p() } else { matters };
    found.interval = Some((shown(low), shown(high)));
    found.p = Some(mean_p(&effects));
    found.signed_rank_p = (pairs.len() >= RANKED_PAIRS).then(|| signed_rank(&effects));
    found.verdict = judge(average, (low, high), found.signed_rank_p, better, matters);
    found.effects = Some(Effects { mean: average, deviation: error * (effects.len() as f64).sqrt(), matters });
    found.look_ahead(1.0 - CONFIDENCE);
    found
}

fn scale_of(pairs: &[Pair]) -> Scale {
    let positive = !pairs.is_empty() && pairs.iter().all(|pair| pair.a > 0.0 && pair.b > 0.0);
    if positive { Scale::Ratio } else { Scale::Difference }
}

/// Maximum pairs considered.
pub const MOST_PAIRS: usize = 1_000;

/// The required probability that [`Contrast::pairs_to_tell`] pairs decide.
const REQUIRED_POWER: f64 = 0.8;

impl Contrast {
    /// Estimates how many pairs would decide at this two-sided error, if the result is unclear.
    fn look_ahead(&mut self, error: f64) {
        let unclear = (self.verdict == Verdict::Unclear).then_some(());
        self.pairs_to_tell = unclear.and(self.effects).and_then(|effects| effects.pairs_to_tell(error));
        // The existing pairs did not decide, because their ranks disagree: require one more.
        self.pairs_to_tell = self.pairs_to_tell.map(|pairs| pairs.max(self.pairs + 1));
    }
}

impl Effects {
    /// The number of pairs whose interval excludes zero, or stays below what matters.
    fn pairs_to_tell(self, error: f64) -> Option<usize> {
        let size = self.mean.abs();
        let room = if size >= self.matters { size } else { self.matters - size };
        let tells = |&pairs: &usize| {
            let count = pairs as f64;
            let quantiles = StudentsT::new(0.0, 1.0, count - 1.0)
                .map_or(f64::INFINITY, |t| t.inverse_cdf(1.0 - error / 2.0) + t.inverse_cdf(REQUIRED_POWER));
            quantiles * self.deviation / count.sqrt() <= room
        };
        // This is monotonic in the number of pairs: binary search.
        let all: Vec<usize> = (FEWEST_PAIRS..=MOST_PAIRS).collect();
        all.get(all.partition_point(|pairs| !tells(pairs))).copied()
    }
}

/// Withdraws claims that so many metrics would produce by chance: the remaining ones hold together with 95 % (Holm
/// 1979, which assumes nothing about the metrics' dependence). Withdrawn claims become unclear.
pub(crate) fn correct_for_number<'a>(contrasts: impl Iterator<Item = &'a mut Contrast>) {
    let mut tested: Vec<(f64, &mut Contrast)> =
        contrasts.filter_map(|contrast| Some((contrast.p?, contrast))).collect();
    tested.sort_by(|a, b| a.0.total_cmp(&b.0));
    let count = tested.len();
    let mut stands = true;
    for (index, (p, contrast)) in tested.into_iter().enumerate() {
        stands &= p * (count - index) as f64 <= 1.0 - CONFIDENCE;
        if !stands && contrast.verdict.is_claim() {
            contrast.taken_back = Some(contrast.verdict);
            contrast.verdict = Verdict::Unclear;
            contrast.look_ahead((1.0 - CONFIDENCE) / count as f64);
        }
    }
}

fn judge(effect: f64, (low, high): (f64, f64), signed_rank_p: Option<f64>, better: Better, matters: f64) -> Verdict {
    let ranks_agree = signed_rank_p.is_none_or(|p| p <= 1.0 - CONFIDENCE);
    if effect.abs() >= matters && (low > 0.0 || high < 0.0) && ranks_agree {
        return match (better, effect > 0.0) {
            (Better::Higher, true) | (Better::Lower, false) => Verdict::Better,
            (Better::Higher, false) | (Better::Lower, true) => Verdict::Worse,
            (Better::Neither, _) => Verdict::Differs,
        };
    }
    if low > -matters && high < matters { Verdict::NoDifferenceThatMatters } else { Verdict::Unclear }
}

/// Standard deviation; 0 of fewer than two values.
pub(crate) fn deviation(values: &[f64]) -> f64 {
    if values.len() < 2 { 0.0 } else { mean_and_error(values).1 * (values.len() as f64).sqrt() }
}

/// Mean and its standard error.
fn mean_and_error(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
    (mean, (variance / count).sqrt())
}

/// Two-sided p of Student's test that the mean is zero.
fn mean_p(values: &[f64]) -> f64 {
    let (mean, error) = mean_and_error(values);
    if mean == 0.0 {
        return 1.0;
    }
    // No spread: certain.
    if error == 0.0 {
        return 0.0;
    }
    StudentsT::new(0.0, 1.0, values.len() as f64 - 1.0).map_or(1.0, |t| 2.0 * t.cdf(-(mean / error).abs()))
}

/// Student's interval of the mean.
fn mean_interval(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let (mean, error) = mean_and_error(values);
    let quantile =
        StudentsT::new(0.0, 1.0, count - 1.0).map_or(f64::INFINITY, |t| t.inverse_cdf((1.0 + CONFIDENCE) / 2.0));
    // Without spread the interval has width zero, whatever the quantile.
    let half = if error > 0.0 { quantile * error } else { 0.0 };
    (mean - half, mean + half)
}

/// Wilcoxon's signed-rank test, two-sided and exact, ties at their mean rank, zeros left out (Wilcoxon's own rule).
fn signed_rank(differences: &[f64]) -> f64 {
    let mut sorted: Vec<f64> = differences.iter().copied().filter(|&difference| difference != 0.0).collect();
    if sorted.is_empty() {
        return 1.0;
    }
    sorted.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
    // Twice the rank, so that mean ranks are whole numbers.
    let mut ranks = Vec::with_capacity(sorted.len());
    while ranks.len() < sorted.len() {
        let first = ranks.len();
        let ties = sorted[first..].iter().take_while(|value| value.abs() == sorted[first].abs()).count();
        ranks.extend(std::iter::repeat_n(2 * first + ties + 1, ties));
    }
    let total: usize = ranks.iter().sum();
    let positive: usize = ranks.iter().zip(&sorted).filter(|(_, value)| **value > 0.0).map(|(rank, _)| rank).sum();
    // The probability of each sum of positive ranks if every sign is a fair coin.
    let mut probability = vec![0.0; total + 1];
    probability[0] = 1.0;
    for &rank in &ranks {
        for sum in (0..=total).rev() {
            let before = if sum >= rank { probability[sum - rank] } else { 0.0 };
            probability[sum] = (probability[sum] + before) / 2.0;
        }
    }
    let extreme = positive.min(total - positive);
    (2.0 * probability[..=extreme].iter().sum::<f64>()).min(1.0)
}

/// The middle value, the mean of the two middle ones of an even count; 0 of nothing.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => 0.0,
        count if count % 2 == 1 => values[middle],
        _ => f64::midpoint(values[middle - 1], values[middle]),
    }
}

#[cfg(test)]
#[path = "stats/tests.rs"]
mod tests;
