//! The lists of findings and remedies in `explain --list` and `help`.

use unstarve_diagnose::{FindingKind, RemedyKind};
use unstarve_model::EventType;

use crate::Look;
use crate::ink::{FAINT, Ink, PLAIN, STRONG};

/// Formats all kinds of findings with their causes and required events, and all kinds of remedies.
pub fn kinds_page(findings: &[FindingKind], remedies: &[RemedyKind], look: Look) -> String {
    let mut ink = Ink::new(look);
    ink.line(&[(STRONG, "Findings")]);
    ink.blank();
    for kind in findings {
        finding_kind(&mut ink, kind);
    }
    ink.line(&[(STRONG, "Remedies")]);
    ink.blank();
    let width = remedies.iter().map(|kind| kind.id.len()).max().unwrap_or_default();
    for kind in remedies {
        ink.paragraph(&format!("{:width$}  ", kind.id), PLAIN, kind.title);
    }
    format!("{}\n", ink.finish().trim_end())
}

/// Formats a kind of finding: its cause and required events.
pub(crate) fn finding_kind(ink: &mut Ink, kind: &FindingKind) {
    ink.line(&[(STRONG, kind.id)]);
    ink.paragraph("  ", PLAIN, &format!("{}.", kind.title));
    ink.paragraph("  ", PLAIN, kind.about);
    let events: Vec<&str> = kind.needs.iter().copied().map(EventType::name).collect();
    ink.paragraph("  ", FAINT, &format!("Events beside sched_switch: {}", events.join(", ")));
    if let Some(taken) = kind.snapshot {
        ink.paragraph("  ", FAINT, &format!("From the host snapshot: {taken}"));
    }
    ink.blank();
}
