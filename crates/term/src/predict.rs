//! The terminal page of `unstarve predict`.

use unstarve_diagnose::report::{Outlook, Predicted, PredictedMetric, PredictedOther};
use unstarve_model::Nanos;
use unstarve_sim::predict::{ChangeReport, Metric, Predictions};

use crate::Look;
use crate::ink::{CULPRIT, FAINT, Ink, PLAIN, STRONG};
use crate::lab::lab_comparison;

/// How many others are named for each change.
const OTHERS: usize = 1;
/// How many metrics of the victim are shown.
const METRICS: usize = 2;

/// What each change would do, the best first.
pub fn predictions_page(predictions: &Predictions, look: Look) -> String {
    let mut ink = Ink::new(look);
    let kernel = &predictions.played_kernel;
    let by = if predictions.engine == "lab" { "in guests with kernel" } else { "by a model of the scheduler of Linux" };
    let how =
        format!("Played {} times {by} {kernel}. Recorded -> predicted (range), the best first.", predictions.replicas);
    ink.paragraph("", FAINT, &how);
    for subject in &predictions.subjects {
        ink.blank();
        ink.paragraph("", STRONG, &subject.headline);
        for change in &subject.changes {
            of_change(&mut ink, change);
        }
    }
    if let Some(lab) = &predictions.lab {
        lab_comparison(&mut ink, lab, look);
    }
    let all = || predictions.subjects.iter().flat_map(|subject| &subject.changes);
    // Only remedies have a number that `fix` takes.
    if all().any(|change| change.remedy.is_some()) && all().all(|change| !change.predicted.refused.is_empty()) {
        ink.blank();
        ink.paragraph("", PLAIN, "None is predicted. To try one on its host: sudo unstarve fix FILE --remedy N --apply --verify 10s (taken back unless it helped)");
    }
    if let Some(loss) =
        predictions.losses.iter().max_by(|a, b| a.share.total_cmp(&b.share)).filter(|loss| loss.share >= 0.01)
    {
        ink.blank();
        ink.paragraph("", FAINT, &format!("not in the recording: {} ({:.0} %)", loss.what, loss.share * 100.0));
    }
    ink.finish()
}

/// What a change would do, in one sentence.
pub fn prediction_in_a_sentence(change: &Predicted) -> String {
    if let Some(why) = change.refused.first() {
        return format!("not known: {why}");
    }
    let metrics = change.metrics.iter().take(2).map(of_metric).collect::<Vec<_>>().join("; ");
    match change.newly_starved.as_slice() {
        [] => metrics,
        starved => format!("{metrics}; it starves {}", starved.join(", ")),
    }
}

/// `remedy 2 takes the longest wait from 124 ms to 0.9 ms (0.4 to 2 ms) and starves nobody`; `None` where nothing is predicted.
pub(crate) fn remedy_in_a_sentence(number: usize, predicted: &Predicted) -> Option<String> {
    // Screens name the longest wait.
    let longest = predicted.metrics.iter().find(|of| of.metric == Metric::Longest.id());
    let of = longest.or(predicted.metrics.first())?;
    let metric = Metric::of_id(&of.metric)?;
    let [recorded, middle, low, high] = [of.recorded, of.predicted, of.low, of.high].map(|value| metric.shown(value));
    let name = metric.word();
    let does = match predicted.verdict {
        Outlook::NoDifference | Outlook::StarvesOthers => {
            format!("makes no clear difference to the {name}: {recorded} to {middle} ({low} to {high})")
        }
        _ => format!("takes the {name} from {recorded} to {middle} ({low} to {high})"),
    };
    let others = match predicted.newly_starved.as_slice() {
        [] => "starves nobody".to_owned(),
        starved => format!("starves {}", starved.join(", ")),
    };
    Some(format!("remedy {number} {does} and {others}"))
}

fn of_change(ink: &mut Ink, change: &ChangeReport) {
    let number = change.remedy.map(|number| format!("{number} ")).unwrap_or_default();
    let predicted = &change.predicted;
    let style = match predicted.verdict {
        Outlook::Harms | Outlook::HelpsAndStarves | Outlook::StarvesOthers => CULPRIT,
        Outlook::Refused => FAINT,
        Outlook::Helps | Outlook::NoDifference => STRONG,
    };
    ink.line(&[
        (PLAIN, "  "),
        (STRONG, &format!("{number}{}", change.name)),
        (PLAIN, "  "),
        (style, predicted.verdict.word()),
    ]);
    for metric in predicted.metrics.iter().take(METRICS) {
        ink.paragraph("      ", PLAIN, &of_metric(metric));
    }
    for who in &predicted.newly_starved {
        ink.paragraph("      ", CULPRIT, &format!("starves {who}"));
    }
    for other in predicted.others.iter().take(OTHERS) {
        ink.paragraph("      ", PLAIN, &of_other(other));
    }
    for why in predicted.refused.iter().take(1) {
        ink.paragraph("      ", FAINT, why);
    }
}

fn of_metric(of: &PredictedMetric) -> String {
    let Some(metric) = Metric::of_id(&of.metric) else { return String::new() };
    let shown = |value: f64| metric.shown(value);
    let (word, recorded, predicted) = (metric.word(), shown(of.recorded), shown(of.predicted));
    format!("{word}: {recorded} -> {predicted} ({} to {})", shown(of.low), shown(of.high))
}

fn of_other(of: &PredictedOther) -> String {
    let name = if of.threads > 1 { format!("{} ({} threads)", of.comm, of.threads) } else { of.comm.clone() };
    let (before, after) = (Nanos(of.waited_before_ns), Nanos(of.waited_after_ns));
    let word = if after > before { "waits longer" } else { "waits less" };
    format!(
        "{name} {word}: {before} -> {after} in all, longest {} -> {}",
        Nanos(of.longest_before_ns),
        Nanos(of.longest_after_ns)
    )
}
