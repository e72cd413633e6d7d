//! The terminal page of `unstarve explain`.

use unstarve_diagnose::report::{LEGEND, Report, Scope, TraceSummary, in_words, verdict};
use unstarve_model::Nanos;
use unstarve_sched::Rule;

use crate::Look;
use crate::evidence;
use crate::finding::{FixReference, finding, headline};
use crate::ink::{FAINT, Ink, PLAIN, STRONG, of_severity};
use crate::text::{counted, grouped, time_of_day};
use crate::worst::worst_waits;

/// Formats an explanation: verdict, findings worst first, the longest waits, what the trace cannot say.
pub fn page(report: &Report, scope: Scope, look: Look) -> String {
    page_of(report, scope, None, look)
}

/// The page for a file, whose name is quoted for a shell: remedies with long commands are shown as `unstarve fix FILE
/// …`.
pub fn page_of(report: &Report, scope: Scope, file: Option<&str>, look: Look) -> String {
    if let Some(evidence) = &report.evidence {
        return evidence::page(report, evidence, look);
    }
    let mut ink = Ink::new(look);
    let verdict = verdict(report, scope);
    ink.paragraph("", verdict.severity.map_or(STRONG, of_severity), &verdict.text);
    ink.paragraph("", FAINT, &about(&report.trace));
    ink.blank();
    // `fix` analyses the whole recording: numbers of findings in a part would differ.
    let named = FixReference { file: file.filter(|_| scope == Scope::Whole), report };
    findings(&mut ink, report, named);
    worst_waits(&mut ink, &report.worst_waits);
    legend(&mut ink, report);
    losses(&mut ink, &in_words(&report.missing));
    let text = ink.finish();
    format!("{}\n", text.trim_end())
}

/// One finding in full: the `index`-th of the report, from 0; nothing if there is no such finding.
pub fn finding_page(report: &Report, scope: Scope, index: usize, file: Option<&str>, look: Look) -> Option<String> {
    let mut ink = Ink::new(look);
    let named = FixReference { file: file.filter(|_| scope == Scope::Whole), report };
    finding(&mut ink, report.findings.get(index)?, index, named);
    Some(format!("{}\n", ink.finish().trim_end()))
}

/// Maximum findings shown in full; the following ones get a line each, worst first, and the rest is counted.
const IN_FULL: usize = 8;
const IN_A_LINE: usize = 12;

fn findings(ink: &mut Ink, report: &Report, named: FixReference<'_>) {
    let (full, rest) = report.findings.split_at(report.findings.len().min(IN_FULL));
    full.iter().enumerate().for_each(|(index, each)| finding(ink, each, index, named));
    let (lines, untold) = rest.split_at(rest.len().min(IN_A_LINE));
    lines.iter().for_each(|each| headline(ink, each));
    let untold = report.more_findings.saturating_add(untold.len() as u64);
    if untold > 0 {
        ink.paragraph("", FAINT, &format!("{}, none of them worse.", counted(untold, "more finding")));
    }
    if !rest.is_empty() {
        let how = "All of a finding: `unstarve explain --json FILE`, or with `--task NAME` what concerns one task.";
        ink.paragraph("", FAINT, how);
        ink.blank();
    }
}

pub(crate) fn about(trace: &TraceSummary) -> String {
    let length = Nanos(trace.end_ns.saturating_sub(trace.start_ns));
    let mut parts = vec![
        trace.format.clone(),
        counted(trace.events, "event"),
        length.to_string(),
        counted(trace.cpus.into(), "CPU"),
    ];
    parts.extend(trace.kernel.as_ref().map(|release| format!("Linux {release}")));
    parts.extend(trace.host.as_ref().map(|host| format!("host {host}")));
    parts.extend(span_in_utc(trace));
    if trace.lost > 0 {
        parts.push(format!("{} events lost", grouped(trace.lost)));
    }
    // A recorder's use of less than a percent of a CPU is not shown.
    if let Some(took) = trace.recorder_ns.map(Nanos).filter(|took| took.share_of(length) >= 0.01) {
        parts.push(format!("the recorder itself ran for {took}"));
    }
    parts.join(" · ")
}

/// `2026-11-22 14:03:06.000 to 14:03:08.020 UTC`.
fn span_in_utc(trace: &TraceSummary) -> Option<String> {
    let (start, end) = (trace.start_utc.as_deref()?, trace.end_utc.as_deref()?);
    let (date, until) = (start.get(..10)?, end.get(..10)?);
    let until = if date == until { String::new() } else { format!("{until} ") };
    Some(format!("{date} {} to {until}{} UTC", time_of_day(start)?, time_of_day(end)?))
}

/// The meanings of the rules on this page.
fn legend(ink: &mut Ink, report: &Report) {
    let on_page = |rule: Rule| {
        let in_findings = report.findings.iter().flat_map(|finding| &finding.blame);
        let in_waits = report.worst_waits.iter().flat_map(|wait| &wait.blame);
        in_findings.chain(in_waits).any(|piece| piece.rule == rule)
    };
    let rules: Vec<_> = LEGEND.iter().filter(|rule| on_page(**rule)).collect();
    if rules.is_empty() {
        return;
    }
    ink.line(&[(STRONG, "Rules")]);
    let width = rules.iter().map(|rule| rule.word().len()).max().unwrap_or(0);
    for rule in rules {
        ink.paragraph(&format!("  {:width$}  ", rule.word()), FAINT, rule.meaning());
    }
    ink.blank();
}

fn losses(ink: &mut Ink, losses: &[String]) {
    if losses.is_empty() {
        return;
    }
    ink.line(&[(STRONG, "Not recorded")]);
    for loss in losses {
        ink.paragraph("  - ", PLAIN, loss);
    }
}
