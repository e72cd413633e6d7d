//! The answer in one sentence or two, and how bad it is.

use serde::{Deserialize, Serialize};
use unstarve_model::{LossKind, Nanos, Severity};

use super::{Finding, Report, WorstWait};
use crate::claim::{Answer, Conclusion, Lead, Reservation};

/// Report wait time without a known occupant from this fraction up.
const UNKNOWN: f64 = 0.1;
/// From this confidence up, a finding is stated without reservation, whatever else the recording lacks.
const SURE: f64 = 0.9;
/// Below this confidence nothing is critical, and the reason is named (`unstarve help confidence`)…
pub(crate) const UNSURE: f64 = 0.75;
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
    let conclusion = conclude(report, scope);
    let severity = match &conclusion.answer {
        Answer::Found { worst, .. } => Some(worst.severity),
        _ => None,
    };
    Verdict { severity, text: conclusion.to_string() }
}

fn conclude(report: &Report, scope: Scope) -> Conclusion<'_> {
    let only = |answer| Conclusion { is_cut: false, invisible: None, answer };
    if report.trace.events == 0 {
        return only(Answer::NoEvents);
    }
    let invisible = report.trace.invisible.as_deref();
    let too_little = report.trace.too_little.as_deref().map(Reservation::TooLittle);
    let Some(worst) = report.findings.first().filter(|finding| finding.severity > Severity::Info) else {
        if let Some(why) = too_little {
            return only(Answer::NoVerdict { why, longest: longest_wait(report) });
        }
        if report.findings.iter().any(|finding| finding.confidence < BARELY) {
            return only(Answer::NoVerdict { why: Reservation::LessCertain(BARELY), longest: None });
        }
        let is_cut = report.missing.iter().any(|missing| missing.loss.kind == LossKind::Truncated);
        let answer = match scope {
            Scope::Whole => Answer::Healthy { report, unknown: unknown(report) },
            Scope::Part => Answer::HealthyPart {
                longest: report.worst_waits.first().map(WorstWait::length),
                selected: report.selected.as_ref(),
            },
        };
        return Conclusion { is_cut, invisible, answer };
    };
    let others = report.findings.iter().skip(1).filter(|finding| finding.severity > Severity::Info).count() as u64;
    let less_certain = || (worst.confidence < UNSURE).then_some(Reservation::LessCertain(UNSURE));
    let doubt = || worst.doubt.as_deref().map(Reservation::TooLittle).or_else(less_certain);
    let lead = match too_little.or_else(doubt) {
        Some(why) if worst.severity < Severity::Critical || worst.confidence < SURE => Lead::Unsure(why),
        _ if worst.severity == Severity::Critical => Lead::Starved,
        _ if hardly_ran(report, worst) && worst.confidence < SURE => Lead::LikelyStarved,
        _ if hardly_ran(report, worst) => Lead::Starved,
        _ => Lead::NotOutright,
    };
    // With the finding's own sentence: the victim may have had longer waits for other reasons.
    Conclusion {
        is_cut: false,
        invisible,
        answer: Answer::Found { lead, worst, others, selected: report.selected.as_ref() },
    }
}

/// Why a finding of low confidence is not certain: what the recording lacks, else what the finding does.
pub fn low_confidence<'a>(report: &'a Report, finding: &'a Finding) -> Option<&'a str> {
    let too_little = report.trace.too_little.as_deref().filter(|_| finding.confidence < SURE);
    too_little.or(finding.doubt.as_deref())
}

/// Waits from this length up are mentioned even if nothing can be concluded from them. It is the longest period of fair
/// scheduling.
const LISTED_FROM: Nanos = Nanos::from_millis(24);

/// The longest wait of an excerpt, if it is long.
fn longest_wait(report: &Report) -> Option<&WorstWait> {
    report.worst_waits.first().filter(|wait| wait.length() >= LISTED_FROM)
}

/// Wait time without a known occupant, if it is much.
fn unknown(report: &Report) -> Option<Nanos> {
    let unknown = Nanos(report.trace.waits_unknown_ns);
    (unknown.share_of(Nanos(report.trace.waits_total_ns)) >= UNKNOWN).then_some(unknown)
}

/// Whether the finding's victims waited for almost all of the recording: then they were starved, whatever the finding.
fn hardly_ran(report: &Report, finding: &Finding) -> bool {
    let span = Nanos(report.trace.end_ns.saturating_sub(report.trace.start_ns));
    let tasks = u64::from(finding.victim.tasks.max(1));
    span > Nanos::ZERO && Nanos(finding.waits.total_ns / tasks).share_of(span) >= ALMOST_ALL
}
