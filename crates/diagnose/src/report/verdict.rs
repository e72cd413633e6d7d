//! The answer in one sentence or two, and how bad it is.

use serde::{Deserialize, Serialize};
use unstarve_model::{LossKind, Nanos, Severity, counted};

use super::{Finding, Report};

/// Report wait time without a known occupant from this fraction up.
const UNKNOWN: f64 = 0.1;
/// From this confidence up, a finding is stated without reservation, whatever else the recording lacks.
const SURE: f64 = 0.9;
/// Below this confidence nothing is critical…
const UNSURE: f64 = 0.3;
/// …and below this one nothing is an alarm.
const BARELY: f64 = 0.1;
/// A task that waits for this part of the recording hardly runs.
const ALMOST_ALL: f64 = 0.9;

/// The worst severity that a finding of this confidence may have.
pub(crate) fn worst_at(confidence: f64) -> Severity {
    if confidence < BARELY {
        Severity::Info
    } else if confidence < UNSURE {
        Severity::Warning
    } else {
        Severity::Critical
    }
}

/// What a reader in a hurry came for.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct Verdict {
    /// How bad the worst is; nothing if nothing is wrong.
    pub severity: Option<Severity>,
    /// The answer, for people.
    pub text: String,
}

/// The part of a recording that a report covers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// All of it.
    Whole,
    /// Selected tasks, CPUs or times.
    Part,
}

/// The verdict on all findings of a report, or on the selected ones.
pub fn verdict(report: &Report, scope: Scope) -> Verdict {
    if report.trace.events == 0 {
        return nothing("No verdict: the trace has no scheduler events.".to_owned());
    }
    let blind = report.trace.invisible.as_ref();
    let blind = blind.map(|what| format!("No wakeup was recorded, so {what} are invisible here. ")).unwrap_or_default();
    let cut = report.missing.iter().any(|missing| missing.loss.kind == LossKind::Truncated);
    let cut = if cut { "The file is cut, and this is said of what is left of it. " } else { "" };
    let Some(worst) = report.findings.first().filter(|finding| finding.severity > Severity::Info) else {
        let text = match (&report.trace.too_little, scope) {
            (Some(why), _) => format!("{}Too little was recorded for a verdict: {why}.", longest_first(report)),
            (None, _) if report.findings.iter().any(|finding| finding.confidence < BARELY) => {
                format!("Too little was recorded for a verdict: {}.", reserve(BARELY))
            }
            (None, Scope::Whole) => format!("{cut}{blind}{}", healthy(report)),
            (None, _) => format!("{cut}{blind}{}", healthy_part(report)),
        };
        return nothing(text);
    };
    let others = report.findings.iter().skip(1).filter(|finding| finding.severity > Severity::Info).count() as u64;
    // Use the finding's own sentence: the victim may have had longer waits for other reasons.
    let doubt = report.trace.too_little.clone().or_else(|| (worst.confidence < UNSURE).then(|| reserve(UNSURE)));
    let lead = match (doubt, worst.severity) {
        (Some(why), severity) if severity < Severity::Critical || worst.confidence < SURE => {
            format!("Too little was recorded to be sure: {why}. What there is shows:")
        }
        (_, Severity::Critical) => "Starved:".to_owned(),
        _ if hardly_ran(report, worst) && worst.confidence < SURE => "Most likely starved:".to_owned(),
        _ if hardly_ran(report, worst) => "Starved:".to_owned(),
        _ => "Nobody is starved outright, but:".to_owned(),
    };
    let mut text = format!("{blind}{lead} {} ({})", worst.sentence.trim_end_matches('.'), worst.id);
    text.push('.');
    if others > 0 {
        text.push_str(&format!(" {} below.", counted(others, "more finding")));
    }
    Verdict { severity: Some(worst.severity), text }
}

/// Waits from this length up are mentioned even if nothing can be concluded from them. It is the longest period of fair
/// scheduling.
const LISTED_FROM: Nanos = Nanos::from_millis(24);

/// States the longest wait of an excerpt, before what the excerpt lacks.
fn longest_first(report: &Report) -> String {
    let wait = report.worst_waits.first().map(|wait| (wait, Nanos(wait.end_ns.saturating_sub(wait.start_ns))));
    match wait.filter(|(_, length)| *length >= LISTED_FROM) {
        Some((wait, length)) => {
            let behind = wait.blame.first().map(|first| format!(", mostly while {} had its CPU", first.comm));
            format!("{} waited {length}{}. ", wait.comm, behind.unwrap_or_default())
        }
        None => String::new(),
    }
}

/// Whether the finding's victims waited for almost all of the recording: then they were starved, whatever the finding.
fn hardly_ran(report: &Report, finding: &Finding) -> bool {
    let span = Nanos(report.trace.end_ns.saturating_sub(report.trace.start_ns));
    let tasks = u64::from(finding.victim.tasks.max(1));
    span > Nanos::ZERO && Nanos(finding.waits.total_ns / tasks).share_of(span) >= ALMOST_ALL
}

fn reserve(confidence: f64) -> String {
    format!("what was found is less than {:.0} % certain", confidence * 100.0)
}

fn nothing(text: String) -> Verdict {
    Verdict { severity: None, text }
}

/// The wording must make clear that only a part of the recording is healthy.
fn healthy_part(report: &Report) -> String {
    match report.worst_waits.first() {
        Some(worst) => {
            let length = Nanos(worst.end_ns.saturating_sub(worst.start_ns));
            format!("Nobody is starved in the selected part; the longest wait there took {length}.")
        }
        None => "Nothing in the selected part has waited.".to_owned(),
    }
}

fn healthy(report: &Report) -> String {
    let trace = &report.trace;
    let mut text = "Nobody is starved.".to_owned();
    if trace.waits_count > 0 {
        let total = Nanos(trace.waits_total_ns);
        text.push_str(&format!(" {} for a CPU add up to {total}", counted(trace.waits_count, "wait")));
        match report.worst_waits.first() {
            Some(worst) => {
                let length = Nanos(worst.end_ns.saturating_sub(worst.start_ns));
                text.push_str(&format!("; the longest took {length}."));
            }
            None => text.push('.'),
        }
        let unknown = Nanos(trace.waits_unknown_ns);
        if unknown.share_of(Nanos(trace.waits_total_ns)) >= UNKNOWN {
            text.push_str(&format!(" For {unknown} of that it is unknown who had the CPU."));
        }
    }
    if let Some(path) = &trace.uncounted_limit {
        text.push_str(&format!(
            " Whether the CPU limit of {path} stopped its tasks is not known: the recording lacks the kernel's counters of it \
             (`unstarve record` keeps them)."
        ));
    }
    if !report.findings.is_empty() {
        text.push_str(&format!(" {} worth knowing below.", counted(report.findings.len() as u64, "thing")));
    }
    text
}
