//! The terminal pages of `unstarve check`: what matters in one screen (two for an upgrade), or everything.

mod full;
mod item;
mod screen;
mod shell;

use unstarve_check::{Audit, Rule, Severity};

use crate::Look;
use crate::ink::{FAINT, Ink, PLAIN, STRONG, of_severity};
use crate::text::counted;

pub use full::audit_full_page;
pub use screen::audit_page;
pub use shell::audit_shell;

/// `4 critical, 3 warnings, 2 notes`; empty without any.
fn tally(severities: impl Iterator<Item = Severity>) -> String {
    let mut counts = [0_u64; 3];
    for severity in severities {
        counts[severity as usize] += 1;
    }
    let [notes, warnings, critical] = counts;
    let mut parts = Vec::new();
    if critical > 0 {
        parts.push(format!("{critical} critical"));
    }
    parts.extend((warnings > 0).then(|| counted(warnings, "warning")));
    parts.extend((notes > 0).then(|| counted(notes, "note")));
    parts.join(", ")
}

fn about(audit: &Audit) -> String {
    let host = &audit.host;
    let mut parts: Vec<String> = host.kernel.iter().map(|release| format!("Linux {release}")).collect();
    parts.extend(host.cpus.map(|cpus| counted(cpus as u64, "CPU")));
    parts.push(counted(host.threads as u64, "thread"));
    parts.push(format!("{} real-time", host.real_time));
    parts.join(" · ")
}

fn style(severity: Severity) -> anstyle::Style {
    use unstarve_diagnose::report::Severity as Shown;
    of_severity(match severity {
        Severity::Info => Shown::Info,
        Severity::Warning => Shown::Warning,
        Severity::Critical => Shown::Critical,
    })
}

/// Formats all rules: what they find, why, and their sources.
pub fn rules_page(rules: &[Rule], look: Look) -> String {
    let mut ink = Ink::new(look);
    for rule in rules {
        rule_entry(&mut ink, rule);
    }
    format!("{}\n", ink.finish().trim_end())
}

/// Formats one rule, for `check --rules` and `help`.
pub(crate) fn rule_entry(ink: &mut Ink, rule: &Rule) {
    ink.line(&[(STRONG, rule.id)]);
    ink.paragraph("  ", PLAIN, &format!("{}.", rule.title));
    ink.paragraph("  ", PLAIN, rule.about);
    ink.paragraph("  ", FAINT, &format!("Source: {}", rule.source));
    ink.blank();
}
