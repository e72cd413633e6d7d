//! What logs, dumps and lists of threads prove: the first screen, and everything.

use unstarve_diagnose::report::{Evidence, Finding, Report, Severity};

use crate::Look;
use crate::first_screen::{MAX_LINES, Part, fitted, label};
use crate::ink::{FAINT, Ink, PLAIN, STRONG, of_severity};
use crate::text::{columns, counted, cut_at_word};

/// Lines of evidence on the first screen.
const MAX_SEEN: usize = 3;
/// Further findings with a line each.
const MAX_OTHERS: usize = 6;
/// The width of the labels with their indent.
const LABEL_COLUMNS: usize = 10;

/// The worst finding, the lines that prove it, the others, and what to type next.
pub(crate) fn first_screen(report: &Report, evidence: &Evidence, look: Look) -> String {
    let part = |rank, gap, write: &dyn Fn(&mut Ink)| Part::new(look, rank, gap, write);
    let Some((lead, others)) = report.findings.split_first() else {
        return fitted(
            vec![
                part(0, false, &|ink| {
                    ink.paragraph("", STRONG, &report.verdict.text);
                    ink.paragraph("", FAINT, &about(report, evidence));
                }),
                part(0, true, &|ink| next(ink, evidence, MAX_STEPS)),
            ],
            MAX_LINES,
        );
    };
    let parts = vec![
        part(0, false, &|ink| heading(ink, lead)),
        part(1, true, &|ink| seen(ink, lead)),
        part(2, false, &|ink| label(ink, "Why", lead.why.as_deref().unwrap_or_default())),
        part(3, false, &|ink| label(ink, "Cost", &cost(lead))),
        part(0, true, &|ink| fix(ink, lead)),
        part(0, true, &|ink| others_hit(ink, others, report.more_findings, look)),
        part(1, true, &|ink| other_hosts(ink, evidence, look)),
        part(6, true, &|ink| ink.paragraph("  ", FAINT, &about(report, evidence))),
        part(0, true, &|ink| {
            next(ink, evidence, 1);
            ink.paragraph("", FAINT, "All lines, all steps: --full · For programs: --json");
        }),
    ];
    fitted(parts, MAX_LINES)
}

/// All findings with their lines, all steps.
pub(crate) fn page(report: &Report, evidence: &Evidence, look: Look) -> String {
    let mut ink = Ink::new(look);
    if report.findings.is_empty() {
        ink.paragraph("", STRONG, &report.verdict.text);
    }
    ink.paragraph("", FAINT, &about(report, evidence));
    ink.blank();
    for finding in &report.findings {
        heading(&mut ink, finding);
        for line in &finding.evidence {
            ink.paragraph("  ", PLAIN, line);
        }
        label(&mut ink, "Why", finding.why.as_deref().unwrap_or_default());
        label(&mut ink, "Cost", &cost(finding));
        for remedy in &finding.remedies {
            label(&mut ink, "Fix", &remedy.text);
            if !remedy.risk.is_empty() {
                ink.paragraph("          ", FAINT, &format!("Risk: {}", remedy.risk));
            }
        }
        ink.blank();
    }
    for loss in &report.losses {
        ink.paragraph("", FAINT, &format!("Not known: {loss}."));
    }
    next(&mut ink, evidence, usize::MAX);
    format!("{}\n", ink.finish().trim_end())
}

/// Longer advice is shown by its first clause.
const MAX_ADVICE: usize = 160;

/// Steps shown where there is no finding.
const MAX_STEPS: usize = 3;

fn heading(ink: &mut Ink, finding: &Finding) {
    let word = format!("{}  ", finding.severity.word().to_uppercase());
    ink.labelled((of_severity(finding.severity), &word), STRONG, &finding.sentence);
    let confidence = finding.confidence.clamp(0.0, 1.0) * 100.0;
    ink.paragraph("  ", PLAIN, &format!("Confidence {confidence:.0} %"));
}

fn seen(ink: &mut Ink, finding: &Finding) {
    let room = ink.look.width().saturating_sub(LABEL_COLUMNS);
    for (place, line) in finding.evidence.iter().take(MAX_SEEN).enumerate() {
        label(ink, if place == 0 { "Seen" } else { "" }, &cut_at_word(without_directories(line), room));
    }
}

/// `var/log/messages:6: rcu: …` without the directories.
fn without_directories(line: &str) -> &str {
    let end = line.find(':').unwrap_or(0);
    line[..end].rfind('/').map_or(line, |slash| &line[slash + 1..])
}

fn cost(finding: &Finding) -> String {
    let Some(first) = finding.price.first() else { return String::new() };
    let id = first.tids.first().map(|tid| format!("[{tid}]")).unwrap_or_default();
    let more = finding.price.len() as u64 - 1;
    let more = if more > 0 { format!(", and {}", counted(more, "other")) } else { String::new() };
    format!("{}{id} is blocked behind it{more}", first.comm)
}

fn fix(ink: &mut Ink, finding: &Finding) {
    let Some(remedy) = finding.remedies.first() else { return };
    // All of a long advice is on the full page.
    let text = if remedy.text.len() > MAX_ADVICE { remedy.action() } else { &remedy.text };
    label(ink, "Fix", text);
    if !remedy.risk.is_empty() {
        ink.paragraph("          ", FAINT, &format!("Risk: {}", remedy.main_risk()));
    }
}

fn others_hit(ink: &mut Ink, others: &[Finding], more: u64, look: Look) {
    let (alarms, remarks): (Vec<&Finding>, Vec<&Finding>) =
        others.iter().partition(|other| other.severity > Severity::Info);
    for other in alarms.iter().take(MAX_OTHERS) {
        let word = format!("{:<8}  ", other.severity.word().to_uppercase());
        let text = cut_at_word(&other.sentence, look.width().saturating_sub(columns(&word)));
        ink.line(&[(of_severity(other.severity), &word), (PLAIN, &text)]);
    }
    let more = more + alarms.len().saturating_sub(MAX_OTHERS) as u64 + remarks.len() as u64;
    if more > 0 {
        ink.line(&[(FAINT, &format!("{} with --full", counted(more, "more finding")))]);
    }
}

/// Other hosts of the same bundle, a line each.
fn other_hosts(ink: &mut Ink, evidence: &Evidence, look: Look) {
    for other in evidence.others.iter().take(MAX_OTHERS) {
        let name = if other.host.is_empty() { "a host without a name" } else { &other.host };
        let text = format!("{name}: {}", other.verdict.text);
        ink.line(&[(PLAIN, &cut_at_word(&text, look.width()))]);
    }
    let more = evidence.others.len().saturating_sub(MAX_OTHERS) as u64;
    if more > 0 {
        ink.line(&[(FAINT, &format!("{} with --json", counted(more, "more host")))]);
    }
}

/// `kernel log · Linux 6.12.0 · host hp-123 · 2 files, 1,234 lines`.
fn about(report: &Report, evidence: &Evidence) -> String {
    let trace = &report.trace;
    let lines = evidence.sources.iter().map(|source| source.lines).sum();
    let files = match evidence.sources.len() as u64 {
        1 => String::new(),
        files => format!("{}, ", counted(files, "file")),
    };
    let mut parts = vec![trace.format.clone()];
    parts.extend(trace.kernel.as_ref().map(|release| format!("Linux {release}")));
    parts.extend(trace.host.as_ref().map(|host| format!("host {host}")));
    parts.push(format!("{files}{}", counted(lines, "line")));
    parts.join(" · ")
}

fn next(ink: &mut Ink, evidence: &Evidence, max: usize) {
    for (place, step) in evidence.next.iter().take(max).enumerate() {
        let lead = if place == 0 { "Next" } else { "Or" };
        ink.paragraph("", PLAIN, &format!("{lead}, {}:", step.why));
        ink.command("  ", &step.command);
    }
}
