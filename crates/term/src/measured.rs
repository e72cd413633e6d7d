//! What was measured beside what was predicted.

use schemars::JsonSchema;
use serde::Serialize;
use unstarve_diagnose::report::Predicted;
use unstarve_guard::verify::Fared;
use unstarve_sim::predict::Metric;

/// A metric of the victim, predicted from the recording and measured with the change in force.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Compared {
    /// Which, as in `unstarve.predict/1`.
    pub metric: String,
    /// As predicted.
    pub predicted: f64,
    /// It is hardly less,
    pub low: f64,
    /// nor more.
    pub high: f64,
    /// As measured.
    pub measured: f64,
    /// Where the measured value is.
    pub place: Where,
}

/// Where a measured value is, beside a predicted range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Where {
    /// Less than the range has.
    Below,
    /// In it.
    Within,
    /// More.
    Above,
}

/// The metrics that were both predicted and measured, the most telling first.
///
/// | metric | measured as |
/// |---|---|
/// | `longest`, `p99` | of single waits, where those were measured |
/// | `wait-per-cpu` | the time waited by the time run, where it ran |
/// | others | not measured: a wait is not an item of work |
pub(crate) fn compared(predicted: &Predicted, with_it: &Fared) -> Vec<Compared> {
    let measured = |metric: Metric| match metric {
        Metric::Longest => with_it.waits.as_ref().map(|waits| waits.max_ns as f64),
        Metric::P99 => with_it.waits.as_ref().map(|waits| waits.p99_ns as f64),
        Metric::WaitPerCpu if with_it.ran_ns > 0 => Some(with_it.waited_ns as f64 / with_it.ran_ns as f64),
        Metric::WaitPerCpu | Metric::WaitPerItem | Metric::CpuPerItem | Metric::SwitchesPerItem => None,
    };
    let both = predicted.metrics.iter().filter_map(|of| {
        let measured = measured(Metric::of_id(&of.metric)?)?;
        let place = match measured {
            measured if measured < of.low => Where::Below,
            measured if measured > of.high => Where::Above,
            _ => Where::Within,
        };
        let metric = of.metric.clone();
        Some(Compared { metric, predicted: of.predicted, low: of.low, high: of.high, measured, place })
    });
    both.collect()
}

/// `longest wait: predicted 3.03 ms (1.51 ms to 6.06 ms), measured 2.10 ms: within`
pub(crate) fn comparison(of: &Compared) -> Option<String> {
    let metric = Metric::of_id(&of.metric)?;
    let [predicted, low, high, measured] =
        [of.predicted, of.low, of.high, of.measured].map(|value| metric.shown(value));
    let place = match of.place {
        Where::Below => "below",
        Where::Within => "within",
        Where::Above => "above",
    };
    Some(format!("{}: predicted {predicted} ({low} to {high}), measured {measured}: {place}", metric.word()))
}

#[cfg(test)]
mod tests {
    use unstarve_diagnose::report::{Outlook, PredictedMetric};
    use unstarve_guard::verify::Waits;

    use super::*;

    fn predicted(metrics: &[&str]) -> Predicted {
        let of = |metric: &&str| PredictedMetric {
            metric: (*metric).to_owned(),
            name: String::new(),
            unit: String::new(),
            recorded: 9e6,
            predicted: 9e5,
            low: 4e5,
            high: 2e6,
            came: None,
        };
        let metrics = metrics.iter().map(of).collect();
        Predicted {
            verdict: Outlook::Helps,
            metrics,
            others: Vec::new(),
            newly_starved: Vec::new(),
            refused: Vec::new(),
        }
    }

    fn lines(metrics: &[&str], fared: &Fared) -> Vec<String> {
        compared(&predicted(metrics), fared).iter().filter_map(comparison).collect()
    }

    #[test]
    fn what_was_measured_is_below_within_or_above_what_was_predicted() {
        let all = ["longest", "p99", "wait-per-item", "cpu-per-item", "wait-per-cpu", "of a later version"];
        let single = |p99_ns, max_ns| Fared {
            ran_ns: 0,
            waited_ns: 1,
            waits: Some(Waits { count: 3, p50_ns: 1, p99_ns, max_ns }),
            ..Fared::default()
        };
        let about = "predicted 900 µs (400 µs to 2.00 ms)";
        assert_eq!(
            lines(&all, &single(399_999, 400_000)),
            [
                format!("longest wait: {about}, measured 400 µs: within"),
                format!("99th percentile of waits: {about}, measured 400 µs: below"),
            ]
        );
        assert_eq!(
            lines(&all, &single(2_000_000, 2_000_001)),
            [
                format!("longest wait: {about}, measured 2.00 ms: above"),
                format!("99th percentile of waits: {about}, measured 2.00 ms: within"),
            ]
        );
        // Single waits were not measured; the rate was.
        let rate = Fared { ran_ns: 10, waited_ns: 15_000_000, ..Fared::default() };
        assert_eq!(lines(&all, &rate).len(), 1);
        assert_eq!(lines(&all, &Fared::default()), [""; 0]);
        assert_eq!(lines(&[], &single(1, 1)), [""; 0]);
    }
}
