//! Whether a rate differs between two traces.
//!
//! A trace is cut into blocks of equal length, and each block is one observation of the rate: events within milliseconds of each
//! other are not independent, blocks nearly are. The confidence interval is Welch's, because the traces may differ in length and
//! variance.

use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};

/// With fewer blocks on either side, their variance is unknown.
const FEWEST: usize = 4;

/// What the two rates come to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, schemars::JsonSchema)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS), ts(rename = "RateVerdict"))]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// B has more, by at least what matters.
    More,
    /// B has less, by at least what matters.
    Less,
    /// The interval is too wide to tell; longer recordings may.
    Unclear,
    /// The whole interval is smaller than what matters.
    NoDifferenceThatMatters,
}

impl Verdict {
    /// For people.
    pub fn words(self) -> &'static str {
        match self {
            Verdict::More => "more",
            Verdict::Less => "less",
            Verdict::Unclear => "unclear",
            Verdict::NoDifferenceThatMatters => "no difference that matters",
        }
    }
}

/// The comparison of one rate.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Contrast {
    pub a: f64,
    pub b: f64,
    /// B − A, at the requested confidence; `None` with too few blocks.
    pub interval: Option<(f64, f64)>,
    pub verdict: Verdict,
}

/// Compares two sides. A difference matters if it is at least `least` and at least `relative` times the larger side.
pub(super) fn contrast(a: &[f64], b: &[f64], confidence: f64, least: f64, relative: f64) -> Contrast {
    let (mean_a, mean_b) = (mean(a), mean(b));
    let interval = (a.len() >= FEWEST && b.len() >= FEWEST).then(|| welch(a, b, confidence));
    let matters = least.max(relative * mean_a.abs().max(mean_b.abs()));
    let verdict = match interval {
        None => Verdict::Unclear,
        Some((low, _)) if low > 0.0 && mean_b - mean_a >= matters => Verdict::More,
        Some((_, high)) if high < 0.0 && mean_a - mean_b >= matters => Verdict::Less,
        Some((low, high)) if low > -matters && high < matters => Verdict::NoDifferenceThatMatters,
        // There is a difference, but too small to matter.
        Some((low, high)) if (low > 0.0 || high < 0.0) && (mean_b - mean_a).abs() < matters => {
            Verdict::NoDifferenceThatMatters
        }
        Some(_) => Verdict::Unclear,
    };
    Contrast { a: mean_a, b: mean_b, interval, verdict }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// The variance of the mean.
fn error(values: &[f64]) -> f64 {
    let (count, mean) = (values.len() as f64, mean(values));
    values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0) / count
}

fn welch(a: &[f64], b: &[f64], confidence: f64) -> (f64, f64) {
    let (error_a, error_b) = (error(a), error(b));
    let (both, difference) = (error_a + error_b, mean(b) - mean(a));
    if both == 0.0 {
        return (difference, difference);
    }
    let part = |error: f64, count: usize| error.powi(2) / (count as f64 - 1.0);
    let freedom = both.powi(2) / (part(error_a, a.len()) + part(error_b, b.len()));
    let quantile = StudentsT::new(0.0, 1.0, freedom).map_or(f64::INFINITY, |t| t.inverse_cdf((1.0 + confidence) / 2.0));
    let half = quantile * both.sqrt();
    (difference - half, difference + half)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_need_both_a_sure_and_a_large_difference() {
        let of = |a: &[f64], b: &[f64]| contrast(a, b, 0.95, 1.0, 0.1).verdict;
        assert_eq!(of(&[10.0, 11.0, 9.0, 10.0], &[30.0, 31.0, 29.0, 30.0]), Verdict::More);
        assert_eq!(of(&[30.0, 31.0, 29.0, 30.0], &[10.0, 11.0, 9.0, 10.0]), Verdict::Less);
        assert_eq!(of(&[10.0, 10.1, 9.9, 10.0], &[10.1, 10.2, 10.0, 10.1]), Verdict::NoDifferenceThatMatters);
        assert_eq!(of(&[100.0, 100.1, 99.9, 100.0], &[105.0, 105.1, 104.9, 105.0]), Verdict::NoDifferenceThatMatters);
        assert_eq!(of(&[0.0, 90.0, 0.0, 10.0], &[80.0, 0.0, 0.0, 90.0]), Verdict::Unclear);
        assert_eq!(of(&[1.0, 1.0, 1.0], &[9.0, 9.0, 9.0]), Verdict::Unclear, "too few blocks");
        assert_eq!(of(&[0.0; 8], &[0.0; 8]), Verdict::NoDifferenceThatMatters);
    }

    #[test]
    fn the_interval_is_welchs() {
        // A published example (Wikipedia, "Student's t-test"): t 1.959 at 7.031 degrees of freedom, two-sided p 0.09077. At
        // exactly that confidence one end of the interval is zero.
        let a = [29.89, 29.93, 29.72, 29.98, 30.02, 29.98];
        let b = [30.02, 29.99, 30.11, 29.97, 30.01, 29.99];
        let (low, high) = welch(&a, &b, 1.0 - 0.09077);
        assert!(low.abs() < 1e-5 && (high - 0.19).abs() < 1e-5, "{low} {high}");
    }
}
