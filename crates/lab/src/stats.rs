//! Whether two sides differ, from pairs of runs with the same seed. docs/decisions/0041 says why so.

use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::metric::Better;

/// The confidence of intervals.
pub const CONFIDENCE: f64 = 0.95;

/// Below so many pairs nothing is claimed.
pub const FEWEST_PAIRS: usize = 3;

/// From so many pairs on the signed-rank test can reach 5 % at all (2/2⁶), and has a say.
const RANKED_PAIRS: usize = 6;

/// The same seed on both sides.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pair {
    /// The metric on side A.
    pub a: f64,
    /// The metric on side B.
    pub b: f64,
}

/// What the pairs say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
    TooFewPairs,
}

impl Verdict {
    /// Whether it says that the sides differ.
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
            Verdict::Unclear => "unclear, more seeds may tell",
            Verdict::TooFewPairs => "too few pairs to claim anything",
        }
    }
}

/// Two sides of one metric, set against each other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Contrast {
    /// Pairs used.
    pub pairs: usize,
    /// Mean of side A.
    pub mean_a: f64,
    /// Mean of side B.
    pub mean_b: f64,
    /// Median of the pairs' differences (B − A).
    pub median_difference: f64,
    /// Mean difference relative to A's mean magnitude (to B's where A is all zero); none if both are zero.
    pub relative: Option<f64>,
    /// The 95 % interval of `relative`; none below [`FEWEST_PAIRS`].
    pub interval: Option<(f64, f64)>,
    /// Two-sided p of Student's test that belongs to the interval, for this metric alone; none below [`FEWEST_PAIRS`].
    #[serde(default)]
    pub p: Option<f64>,
    /// Two-sided p of Wilcoxon's signed-rank test, exact; none below six pairs.
    pub signed_rank_p: Option<f64>,
    /// What it comes to.
    pub verdict: Verdict,
}

/// Sets the sides against each other; `matters` is the smallest relative difference worth telling (0.03: 3 %).
pub fn contrast(pairs: &[Pair], better: Better, matters: f64) -> Contrast {
    let mean = |of: fn(&Pair) -> f64| pairs.iter().map(of).sum::<f64>() / pairs.len().max(1) as f64;
    let (mean_a, mean_b) = (mean(|pair| pair.a), mean(|pair| pair.b));
    let differences: Vec<f64> = pairs.iter().map(|pair| pair.b - pair.a).collect();
    let scale = [mean(|pair| pair.a.abs()), mean(|pair| pair.b.abs())].into_iter().find(|&scale| scale > 0.0);
    let enough = pairs.len() >= FEWEST_PAIRS;
    let relative = scale.map(|scale| (mean_b - mean_a) / scale);
    let interval = scale.filter(|_| enough).map(|scale| {
        let (low, high) = mean_interval(&differences);
        (low / scale, high / scale)
    });
    let p = enough.then(|| mean_p(&differences));
    let signed_rank_p = (pairs.len() >= RANKED_PAIRS).then(|| signed_rank(&differences));
    let verdict =
        if !enough { Verdict::TooFewPairs } else { judge(relative, interval, signed_rank_p, better, matters) };
    let median_difference = median(differences);
    Contrast { pairs: pairs.len(), mean_a, mean_b, median_difference, relative, interval, p, signed_rank_p, verdict }
}

/// Takes back claims that so many metrics would make by chance: those that stay hold together with 95 % (Holm 1979, which
/// asks nothing about how the metrics hang together). What is taken back is unclear.
pub(crate) fn correct_for_number<'a>(contrasts: impl Iterator<Item = &'a mut Contrast>) {
    let mut tested: Vec<(f64, &mut Contrast)> =
        contrasts.filter_map(|contrast| Some((contrast.p?, contrast))).collect();
    tested.sort_by(|a, b| a.0.total_cmp(&b.0));
    let count = tested.len();
    let mut stands = true;
    for (index, (p, contrast)) in tested.into_iter().enumerate() {
        stands &= p * (count - index) as f64 <= 1.0 - CONFIDENCE;
        if !stands && contrast.verdict.is_claim() {
            contrast.verdict = Verdict::Unclear;
        }
    }
}

fn judge(
    relative: Option<f64>,
    interval: Option<(f64, f64)>,
    signed_rank_p: Option<f64>,
    better: Better,
    matters: f64,
) -> Verdict {
    let (Some(relative), Some((low, high))) = (relative, interval) else {
        return Verdict::NoDifferenceThatMatters;
    };
    let ranks_agree = signed_rank_p.is_none_or(|p| p <= 1.0 - CONFIDENCE);
    if relative.abs() >= matters && (low > 0.0 || high < 0.0) && ranks_agree {
        return match (better, relative > 0.0) {
            (Better::Higher, true) | (Better::Lower, false) => Verdict::Better,
            (Better::Higher, false) | (Better::Lower, true) => Verdict::Worse,
            (Better::Neither, _) => Verdict::Differs,
        };
    }
    if low > -matters && high < matters { Verdict::NoDifferenceThatMatters } else { Verdict::Unclear }
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
    // No spread at all: as sure as can be.
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
    // No spread at all gives an interval of no width, whatever the quantile.
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
    // How probable each sum of positive ranks is when every sign is a fair coin.
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
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pairs(values: &[(f64, f64)]) -> Vec<Pair> {
        values.iter().map(|&(a, b)| Pair { a, b }).collect()
    }

    fn row(name: &str, values: &[(f64, f64)], better: Better) -> String {
        let found = contrast(&pairs(values), better, 0.03);
        let interval =
            found.interval.map_or("-".to_owned(), |(low, high)| format!("{:+.1}..{:+.1}", low * 100.0, high * 100.0));
        let relative = found.relative.map_or("-".to_owned(), |relative| format!("{:+.1}", relative * 100.0));
        let p = found.signed_rank_p.map_or("-".to_owned(), |p| format!("{p:.3}"));
        format!("{name:<22} {:>2} {relative:>7} {interval:>15} {p:>6} {}", found.pairs, found.verdict.words())
    }

    #[test]
    fn verdicts_as_a_table() {
        let iops = [(38.4, 30.4), (38.1, 30.9), (38.6, 30.2)];
        let six: Vec<(f64, f64)> = (0..6).map(|i| (100.0 + f64::from(i), 90.0 + f64::from(i * i % 5))).collect();
        let table = [
            row("lost throughput", &iops, Better::Higher),
            row("lower latency", &iops, Better::Lower),
            row("no direction", &iops, Better::Neither),
            row("two pairs only", &iops[..2], Better::Higher),
            row("below what matters", &[(100.0, 101.0), (100.0, 101.1), (100.0, 100.9)], Better::Higher),
            row("one wild pair of three", &[(100.0, 100.0), (100.0, 101.0), (100.0, 180.0)], Better::Lower),
            row("six pairs", &six, Better::Higher),
            row("identical", &[(5.0, 5.0), (6.0, 6.0), (7.0, 7.0)], Better::Lower),
            row("all zero", &[(0.0, 0.0); 3], Better::Lower),
            row("from zero", &[(0.0, 4.0), (0.0, 5.0), (0.0, 6.0)], Better::Lower),
            row("nothing", &[], Better::Lower),
        ]
        .join("\n");
        insta::assert_snapshot!(table, @"
        lost throughput         3   -20.5    -24.5..-16.5      - worse
        lower latency           3   -20.5    -24.5..-16.5      - better
        no direction            3   -20.5    -24.5..-16.5      - differs
        two pairs only          2   -19.9               -      - too few pairs to claim anything
        below what matters      3    +1.0      +0.8..+1.2      - no difference that matters
        one wild pair of three  3   +27.0   -87.0..+141.0      - unclear, more seeds may tell
        six pairs               6   -10.6     -13.3..-7.9  0.031 worse
        identical               3    +0.0      +0.0..+0.0      - no difference that matters
        all zero                3       -               -      - no difference that matters
        from zero               3  +100.0   +50.3..+149.7      - worse
        nothing                 0       -               -      - too few pairs to claim anything
        ");
    }

    /// Values of the test's published tables (Wilcoxon 1945; two-sided): n = 6 all of one sign 2/64; n = 8 with rank
    /// sum 3 of the rarer sign 10/256.
    #[test]
    fn signed_ranks_agree_with_the_tables() {
        assert!((signed_rank(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]) - 2.0 / 64.0).abs() < 1e-12);
        assert!((signed_rank(&[1.0, 2.0, -3.0, 4.0, 5.0, 6.0, 7.0, 8.0]) - 10.0 / 256.0).abs() < 1e-12);
        assert!((signed_rank(&[1.0, -1.0]) - 1.0).abs() < 1e-12);
        assert!((signed_rank(&[0.0, 0.0]) - 1.0).abs() < 1e-12);
    }

    /// Student's quantile for two degrees of freedom is 4.303.
    #[test]
    fn three_values_get_the_wide_interval_they_deserve() {
        let (low, high) = mean_interval(&[-1.0, 0.0, 1.0]);
        assert!((high - 4.303 / 3f64.sqrt()).abs() < 1e-2 && (low + high).abs() < 1e-9, "{low}..{high}");
    }

    #[test]
    fn pure_noise_is_rarely_called_a_difference() {
        // 1000 experiments of five pairs without any effect, spread 10 %.
        let mut state = 1u64;
        let mut noise = || {
            state = crate::run::mix(state);
            100.0 + (state >> 11) as f64 / (1u64 << 53) as f64 * 20.0
        };
        let claims = (0..1000)
            .filter(|_| {
                let sample: Vec<Pair> = (0..5).map(|_| Pair { a: noise(), b: noise() }).collect();
                let verdict = contrast(&sample, Better::Higher, 0.03).verdict;
                matches!(verdict, Verdict::Better | Verdict::Worse)
            })
            .count();
        assert!((10..80).contains(&claims), "{claims} of 1000 experiments without an effect claimed one");
    }

    /// Student's two-sided 5 % point for two degrees of freedom is 4.303.
    #[test]
    fn the_test_agrees_with_the_interval() {
        let border = 4.303 / 3f64.sqrt();
        assert!((mean_p(&[border - 1.0, border, border + 1.0]) - 0.05).abs() < 1e-4);
        assert_eq!((mean_p(&[0.0; 3]), mean_p(&[2.0; 3]), mean_p(&[-1.0, 0.0, 1.0])), (1.0, 0.0, 1.0));
    }

    #[test]
    fn of_many_metrics_without_an_effect_one_is_rarely_called_different() {
        // What was seen with kubepods: three pairs and fifteen metrics; without a correction half of all comparisons of a
        // side with itself called something worse or better.
        let mut state = 1u64;
        let mut noise = || {
            state = crate::run::mix(state);
            100.0 + (state >> 11) as f64 / (1u64 << 53) as f64 * 20.0
        };
        let mut claims = |correct: bool| {
            (0..400)
                .filter(|_| {
                    let mut metrics: Vec<Contrast> = (0..15)
                        .map(|_| {
                            let sample: Vec<Pair> = (0..3).map(|_| Pair { a: noise(), b: noise() }).collect();
                            contrast(&sample, Better::Higher, 0.03)
                        })
                        .collect();
                    if correct {
                        correct_for_number(metrics.iter_mut());
                    }
                    metrics.iter().any(|metric| metric.verdict.is_claim())
                })
                .count()
        };
        let (raw, corrected) = (claims(false), claims(true));
        assert!(raw > 120 && corrected <= 36, "{raw} and {corrected} of 400 comparisons without an effect claimed one");
    }

    #[test]
    fn a_correction_leaves_what_is_sure() {
        let sure = [(38.4, 30.4), (38.1, 30.2), (38.6, 30.7)];
        let vague = [(100.0, 110.0), (100.0, 112.0), (100.0, 107.0)];
        let mut metrics: Vec<Contrast> = (0..14).map(|_| contrast(&pairs(&vague), Better::Lower, 0.03)).collect();
        metrics.push(contrast(&pairs(&sure), Better::Higher, 0.03));
        assert!(metrics.iter().all(|metric| metric.verdict == Verdict::Worse));
        correct_for_number(metrics.iter_mut());
        let verdicts: Vec<Verdict> = metrics.iter().map(|metric| metric.verdict).collect();
        assert_eq!(verdicts[14], Verdict::Worse);
        assert!(verdicts[..14].iter().all(|verdict| *verdict == Verdict::Unclear));
    }

    proptest! {
        #[test]
        fn swapping_the_sides_swaps_the_verdict(values in prop::collection::vec((50.0..150.0f64, 50.0..150.0f64), 3..9)) {
            let forth = contrast(&pairs(&values), Better::Higher, 0.0);
            let back: Vec<(f64, f64)> = values.iter().map(|&(a, b)| (b, a)).collect();
            let back = contrast(&pairs(&back), Better::Higher, 0.0);
            let swapped = match forth.verdict {
                Verdict::Better => Verdict::Worse,
                Verdict::Worse => Verdict::Better,
                other => other,
            };
            prop_assert_eq!(back.verdict, swapped);
        }
    }
}
