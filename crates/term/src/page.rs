use std::borrow::Cow;

use unstarve_diagnose::report::{Report, TraceSummary};
use unstarve_model::Nanos;

use crate::finding::{finding, headline};
use crate::ink::{FAINT, Ink, PLAIN, STRONG, of_severity};
use crate::text::{counted, grouped, time_of_day};
use crate::verdict::verdict;
use crate::worst::worst_waits;
use crate::{Look, Scope};

/// The terminal page of an explanation: verdict, findings worst first, the longest waits, what the trace cannot say.
pub fn page(report: &Report, scope: Scope, look: Look) -> String {
    let mut ink = Ink::new(look);
    let (severity, sentence) = verdict(report, scope);
    ink.paragraph("", severity.map_or(STRONG, of_severity), &sentence);
    ink.paragraph("", FAINT, &about(&report.trace));
    ink.blank();
    findings(&mut ink, report);
    worst_waits(&mut ink, &report.worst_waits);
    legend(&mut ink, report);
    losses(&mut ink, &report.losses);
    let text = ink.finish();
    format!("{}\n", text.trim_end())
}

/// Findings told in full; of those beyond, worst first, a line each; the rest is counted.
const IN_FULL: usize = 8;
const IN_A_LINE: usize = 12;

fn findings(ink: &mut Ink, report: &Report) {
    let (full, rest) = report.findings.split_at(report.findings.len().min(IN_FULL));
    full.iter().for_each(|each| finding(ink, each, &report.trace));
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
    // Below a percent of a CPU nobody asks what the recording cost.
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

/// What the rules on this page mean.
fn legend(ink: &mut Ink, report: &Report) {
    let on_page = |word: &str| {
        let in_findings = report.findings.iter().flat_map(|finding| &finding.blame);
        let in_waits = report.worst_waits.iter().flat_map(|wait| &wait.blame);
        in_findings.chain(in_waits).any(|piece| piece.rule == word)
    };
    let rules: Vec<_> = RULES.iter().filter(|(word, _)| on_page(word)).collect();
    if rules.is_empty() {
        return;
    }
    ink.line(&[(STRONG, "Rules")]);
    let width = rules.iter().map(|(word, _)| word.len()).max().unwrap_or(0);
    for (word, meaning) in rules {
        ink.paragraph(&format!("  {word:width$}  "), FAINT, meaning);
    }
    ink.blank();
}

/// The words of `unstarve_timeline::Rule` and why, by each, an occupant had the CPU.
const RULES: [(&str, &str); 10] = [
    ("class", "its scheduling class always goes first: deadline, then real-time, then all others"),
    ("weight", "its share, or that of its cgroup, is larger"),
    ("wakeup-preemption", "it had just been woken and was let in at once"),
    ("count", "more tasks of its kind were woken than there are CPUs"),
    ("fair", "its turn among equals"),
    ("irq", "a hardware interrupt"),
    ("softirq", "deferred interrupt work"),
    ("throttled", "a limit kept the waiting task off: a cgroup's, or the one on real-time tasks"),
    ("idle", "the CPU was idle and had yet to switch"),
    ("unknown", "events are missing"),
];

fn losses(ink: &mut Ink, losses: &[String]) {
    if losses.is_empty() {
        return;
    }
    ink.line(&[(STRONG, "What the trace cannot say")]);
    for loss in with_unrecorded_together(losses) {
        ink.paragraph("  - ", PLAIN, &loss);
    }
}

/// Losses for people. A recording of perf lacks a dozen kinds of events; they make one line, where the first of them was.
pub fn with_unrecorded_together(losses: &[String]) -> Vec<Cow<'_, str>> {
    let kind = |loss: &str| loss.strip_suffix(" events were not recorded").map(str::to_owned);
    let mut kinds: Vec<String> = losses.iter().filter_map(|loss| kind(loss)).collect();
    let mut lines = Vec::new();
    for loss in losses {
        match kind(loss) {
            None => lines.push(Cow::Borrowed(loss.as_str())),
            Some(_) if kinds.is_empty() => {}
            Some(_) => {
                let last = kinds.pop().unwrap_or_default();
                let joint = if kinds.is_empty() { "" } else { " and " };
                let all = std::mem::take(&mut kinds).join(", ");
                lines.push(Cow::Owned(format!("{all}{joint}{last} events were not recorded")));
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_events_that_were_not_recorded_make_one_line() {
        let lines = |losses: &[&str]| {
            let losses: Vec<String> = losses.iter().map(|loss| (*loss).to_owned()).collect();
            with_unrecorded_together(&losses).into_iter().map(Cow::into_owned).collect::<Vec<_>>()
        };
        let [a, b, c] = ["a events were not recorded", "b events were not recorded", "c events were not recorded"];
        assert_eq!(lines(&["x", a, b, "y", c]), ["x", "a, b and c events were not recorded", "y"]);
        assert_eq!(lines(&[a, "x"]), [a, "x"]);
        assert_eq!(lines(&[b, a]), ["b and a events were not recorded"]);
    }

    #[test]
    fn every_rule_of_the_timeline_is_explained() {
        let mut explained: Vec<&str> = RULES.iter().map(|(word, _)| *word).collect();
        let mut known: Vec<&str> = unstarve_timeline::Rule::ALL.iter().map(|rule| rule.word()).collect();
        explained.sort_unstable();
        known.sort_unstable();
        assert_eq!(explained, known);
    }
}
