//! Everything of an audit.

use std::collections::HashSet;

use unstarve_check::{Audit, Hit, Part};

use super::item::{Item, heading, items, label};
use super::screen::{commands, upgrade_head};
use super::{about, style, tally};
use crate::Look;
use crate::ink::{FAINT, Ink, PLAIN, STRONG};
use crate::lab::lab_comparison;
use crate::text::counted;

/// Formats an audit with all evidence, consequences, fixes and sources. A text that several hits share is printed with
/// the first.
pub fn audit_full_page(audit: &Audit, look: Look) -> String {
    let mut page = Full { ink: Ink::new(look), printed: HashSet::new() };
    let all = items(&audit.hits);
    if audit.upgrade_to.is_some() {
        upgrade_head(&mut page.ink, audit, &all);
    } else {
        let text = tally(audit.hits.iter().map(|hit| hit.severity));
        let nothing = || format!("Nothing found by {}", counted(audit.rules.len() as u64, "rule"));
        let worst = audit.hits.iter().map(|hit| hit.severity).max();
        let text = if text.is_empty() { nothing() } else { text };
        page.ink.paragraph("", worst.map_or(STRONG, style), &format!("{text}."));
        page.ink.paragraph("", FAINT, &about(audit));
    }
    page.ink.blank();
    for part in Part::ALL {
        let of_part: Vec<&Item<'_>> = all.iter().filter(|item| item.part == part).collect();
        if of_part.is_empty() {
            continue;
        }
        if audit.upgrade_to.is_some() {
            page.ink.paragraph("", STRONG, &format!("{} ({})", heading(part, &of_part, audit), of_part.len()));
            page.ink.blank();
        }
        audit.hits.iter().filter(|hit| hit.part() == part).for_each(|hit| page.hit(hit));
    }
    if let Some(lab) = &audit.lab {
        lab_comparison(&mut page.ink, lab, look);
        page.ink.blank();
    }
    page.missing(audit);
    format!("{}\n", page.ink.finish().trim_end())
}

struct Full<'a> {
    ink: Ink,
    /// Texts that are on the page.
    printed: HashSet<&'a str>,
}

impl<'a> Full<'a> {
    fn hit(&mut self, hit: &'a Hit) {
        let word = label(hit.severity).to_uppercase();
        self.ink.line(&[(style(hit.severity), &word), (PLAIN, "  "), (STRONG, &hit.rule)]);
        self.ink.paragraph("  ", PLAIN, &hit.sentence);
        for line in hit.evidence.iter().filter(|line| !line.is_empty()) {
            self.ink.paragraph("    - ", PLAIN, line);
        }
        for place in &hit.places {
            let owner = place.owner.as_ref().map(|owner| format!(" ({owner})")).unwrap_or_default();
            let line = place.line.map(|line| format!(":{line}")).unwrap_or_default();
            self.ink.paragraph("    - ", PLAIN, &format!("{}{line}{owner}: {}", place.file, place.text));
        }
        self.once("  Effect     ", &hit.consequence);
        self.once("  Elsewhere  ", hit.price.as_deref().unwrap_or_default());
        for fix in &hit.fixes {
            self.ink.paragraph("  Fix        ", PLAIN, &fix.text);
            commands(&mut self.ink, "             ", fix);
            self.once("  Risk       ", &fix.risk);
            self.once("  Kernels    ", &fix.valid_on);
            self.once("  Source     ", &fix.source);
        }
        self.ink.blank();
    }

    /// A paragraph, unless its text is on the page already.
    fn once(&mut self, first: &str, text: &'a str) {
        if !text.is_empty() && self.printed.insert(text) {
            self.ink.paragraph(first, PLAIN, text);
        }
    }

    fn missing(&mut self, audit: &'a Audit) {
        if audit.missing.is_empty() {
            return;
        }
        self.ink.line(&[(STRONG, "Not seen, so that rules may have missed something")]);
        for missing in &audit.missing {
            self.ink.paragraph("  - ", PLAIN, &format!("{}: {}", missing.what, missing.why));
        }
    }
}
