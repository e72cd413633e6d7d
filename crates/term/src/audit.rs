//! The terminal page of `unstarve check`.

use unstarve_check::{Audit, Fix, Hit, Rule, Severity, When};

use crate::Look;
use crate::ink::{FAINT, Ink, PLAIN, STRONG, of_severity};
use crate::text::counted;

/// Formats an audit: verdict, hits worst first, missing parts of the snapshot.
pub fn audit_page(audit: &Audit, look: Look) -> String {
    let mut ink = Ink::new(look);
    verdict(&mut ink, audit);
    for each in &audit.hits {
        hit(&mut ink, each, audit.is_downgrade);
    }
    missing(&mut ink, audit);
    format!("{}\n", ink.finish().trim_end())
}

fn verdict(ink: &mut Ink, audit: &Audit) {
    if let (true, Some(to), Some(from)) = (audit.is_downgrade, &audit.upgrade_to, &audit.host.kernel) {
        let text = format!("Linux {to} is older than {from}, which runs: this is a preview of a downgrade.");
        ink.paragraph("", STRONG, &text);
    }
    let lasting = || audit.hits.iter().filter(|hit| hit.holds != Some(When::Now));
    let count = |severity| lasting().filter(|hit| hit.severity == severity).count() as u64;
    let (critical, warning, info) = (count(Severity::Critical), count(Severity::Warning), count(Severity::Info));
    let style = lasting().map(|hit| hit.severity).max().map_or(STRONG, style);
    let mut parts = Vec::new();
    if critical > 0 {
        parts.push(format!("{critical} critical"));
    }
    if warning > 0 {
        parts.push(counted(warning, "warning"));
    }
    if info > 0 {
        parts.push(format!("{info} to know"));
    }
    let text = if parts.is_empty() {
        format!("Nothing found by {}.", counted(audit.rules.len() as u64, "rule"))
    } else {
        format!("{}.", parts.join(", "))
    };
    ink.paragraph("", style, &text);
    ink.paragraph("", FAINT, &about(audit));
    ink.blank();
}

fn about(audit: &Audit) -> String {
    let host = &audit.host;
    let mut parts: Vec<String> = host.kernel.iter().map(|release| format!("Linux {release}")).collect();
    parts.extend(host.cpus.map(|cpus| counted(cpus as u64, "CPU")));
    parts.push(counted(host.threads as u64, "thread"));
    parts.push(format!("{} real-time", host.real_time));
    parts.extend(audit.upgrade_to.iter().map(|version| format!("with a look at Linux {version}")));
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

fn hit(ink: &mut Ink, hit: &Hit, is_downgrade: bool) {
    let when = match hit.holds {
        None | Some(When::Both) => "",
        Some(When::After) if is_downgrade => "  new with the older kernel",
        Some(When::Now) if is_downgrade => "  the older kernel ends it",
        Some(When::After) => "  new with the upgrade",
        Some(When::Now) => "  the upgrade ends it",
    };
    let word = hit.severity.word().to_uppercase();
    ink.line(&[(style(hit.severity), &word), (PLAIN, "  "), (STRONG, &hit.rule), (FAINT, when)]);
    ink.paragraph("  ", PLAIN, &hit.sentence);
    for line in hit.evidence.iter().filter(|line| !line.is_empty()) {
        ink.paragraph("    - ", PLAIN, line);
    }
    for place in &hit.places {
        let owner = place.owner.as_ref().map(|owner| format!(" ({owner})")).unwrap_or_default();
        let line = place.line.map(|line| format!(":{line}")).unwrap_or_default();
        ink.paragraph("    - ", PLAIN, &format!("{}{line}{owner}: {}", place.file, place.text));
    }
    if !hit.consequence.is_empty() {
        ink.paragraph("  What would happen: ", PLAIN, &hit.consequence);
    }
    if let Some(price) = &hit.price {
        ink.paragraph("  What it cost elsewhere: ", PLAIN, price);
    }
    fixes(ink, &hit.fixes);
    ink.blank();
}

fn fixes(ink: &mut Ink, fixes: &[Fix]) {
    if fixes.is_empty() {
        return;
    }
    let title = if fixes.len() == 1 { "What to do" } else { "What to do, least invasive first" };
    ink.line(&[(PLAIN, "  "), (STRONG, title)]);
    for (number, fix) in fixes.iter().enumerate() {
        ink.paragraph(&format!("  {}. ", number + 1), PLAIN, &fix.text);
        for (label, command) in [("do:      ", &fix.apply), ("undo:    ", &fix.undo)] {
            if !command.is_empty() {
                ink.command(&format!("     {label}"), command);
            }
        }
        for (label, text) in [("risk:    ", &fix.risk), ("kernels: ", &fix.valid_on), ("source:  ", &fix.source)] {
            if !text.is_empty() {
                ink.paragraph(&format!("     {label}"), FAINT, text);
            }
        }
    }
}

fn missing(ink: &mut Ink, audit: &Audit) {
    if audit.missing.is_empty() {
        return;
    }
    ink.line(&[(STRONG, "What could not be seen, so that rules may have missed something")]);
    for missing in &audit.missing {
        ink.paragraph("  - ", PLAIN, &format!("{}: {}", missing.what, missing.why));
    }
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
