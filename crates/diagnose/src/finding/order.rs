//! The order of findings in a report.

use std::cmp::Ordering;

use unstarve_model::Severity;

use crate::case::Case;
use crate::report::Finding;

/// A starved kernel worker comes before a victim that lost more, if it lost at least this part of that: others wait for the
/// worker.
pub(super) const ABOUT_AS_MUCH: f64 = 0.5;

/// Worse severity first. At equal severity, a starved kernel worker first, then the larger sum of guilty time and price, weighted
/// by confidence. The comparison with [`ABOUT_AS_MUCH`] is per thread: the waits of a crowd add up to more than the recording's
/// length and say little about how badly one thread was delayed.
pub(super) fn worst_first(case: &Case<'_>, findings: &mut Vec<Finding>) {
    let most = |severity: Severity| {
        let of_programs =
            findings.iter().filter(|finding| finding.severity == severity && !is_of_worker(case, finding));
        of_programs.map(of_one_thread).fold(0.0, f64::max)
    };
    let most = [Severity::Info, Severity::Warning, Severity::Critical].map(|severity| (severity, most(severity)));
    let key = |finding: &Finding| {
        let enough = most.iter().find(|(severity, _)| *severity == finding.severity).map_or(0.0, |(_, most)| *most);
        let worker = is_of_worker(case, finding) && of_one_thread(finding) >= ABOUT_AS_MUCH * enough;
        (finding.severity, worker, weight(finding))
    };
    let mut ranked: Vec<_> = std::mem::take(findings).into_iter().map(|finding| (key(&finding), finding)).collect();
    ranked.sort_by(|(a, _), (b, _)| b.partial_cmp(a).unwrap_or(Ordering::Equal));
    findings.extend(ranked.into_iter().map(|(_, finding)| finding));
}

fn is_of_worker(case: &Case<'_>, finding: &Finding) -> bool {
    finding.actors.first().is_some_and(|victim| case.is_kernel_worker(*victim))
}

/// Guilty time plus price, weighted by confidence.
fn weight(finding: &Finding) -> f64 {
    // As floats: clocks of a damaged recording can overflow a u64.
    let price: f64 = finding.price.iter().map(|payer| payer.ns as f64).sum();
    (guilty(finding) + price) * finding.confidence
}

fn guilty(finding: &Finding) -> f64 {
    finding.culprits.iter().map(|culprit| culprit.ns as f64).sum()
}

/// Like [`weight`], per thread of the victim, and per thread of each payer.
fn of_one_thread(finding: &Finding) -> f64 {
    let each = |ns: f64, threads: u32| ns / f64::from(threads.max(1));
    let price: f64 = finding.price.iter().map(|payer| each(payer.ns as f64, payer.tasks)).sum();
    (each(guilty(finding), finding.victim.tasks) + price) * finding.confidence
}
