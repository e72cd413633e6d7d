//! The default page: one screen, two for an upgrade.

use unstarve_check::{Audit, Fix, Hit, Part};
use unstarve_facts::Version;

use super::item::{Item, folded, heading, items, label, summary, totals};
use super::{about, style, tally};
use crate::Look;
use crate::ink::{COMMAND, FAINT, Ink, PLAIN, STRONG};
use crate::lab::lab_comparison;
use crate::text::{columns, counted};

/// Lines of a screen, with one for the prompt.
const SCREEN: usize = 23;
/// Lines of two screens, with one for the prompt.
const TWO_SCREENS: usize = 47;

/// Formats what matters of an audit: the worst first, a line for each further item. For an upgrade: what it changes for
/// this host, then what is wrong today.
pub fn audit_page(audit: &Audit, look: Look) -> String {
    let lines = match audit.upgrade_to {
        Some(_) => upgrade(audit, look),
        None => today(audit, look),
    };
    lines.join("\n") + "\n"
}

fn lines_of(look: Look, write: impl FnOnce(&mut Ink)) -> Vec<String> {
    let mut ink = Ink::new(look);
    write(&mut ink);
    ink.finish().lines().map(str::to_owned).collect()
}

/// Writes the first lines of an upgrade's page, which are the same in all details.
pub(super) fn upgrade_head(ink: &mut Ink, audit: &Audit, items: &[Item<'_>]) {
    let (to, from) = (audit.upgrade_to.as_deref().unwrap_or_default(), audit.host.kernel.as_deref().unwrap_or("?"));
    if audit.is_downgrade {
        let text = format!("Linux {to} is older than {from}, which runs: this is a preview of a downgrade.");
        ink.paragraph("", STRONG, &text);
    }
    let from = audit.upgrade_from.as_deref().unwrap_or(from);
    ink.paragraph("", STRONG, &format!("For you, {from} → {to}: {}.", summary(items)));
    ink.paragraph("", FAINT, &about(audit));
    ink.paragraph("", FAINT, &totals(audit, items));
}

fn upgrade(audit: &Audit, look: Look) -> Vec<String> {
    let all = items(&audit.hits);
    let mut lines = lines_of(look, |ink| upgrade_head(ink, audit, &all));
    let mut foot = lines_of(look, |ink| audit.lab.iter().for_each(|lab| lab_comparison(ink, lab, look)));
    foot.extend(upgrade_foot(audit, &all, look));
    let parts: Vec<(Part, Vec<&Item<'_>>)> = Part::ALL
        .into_iter()
        .filter(|part| !matches!(part, Part::OtherLoads | Part::Unseen))
        .map(|part| (part, all.iter().filter(|item| item.part == part).collect()))
        .filter(|(_, items): &(Part, Vec<_>)| !items.is_empty())
        .collect();
    let mut left = TWO_SCREENS.saturating_sub(lines.len() + foot.len());
    for (index, (part, of_part)) in parts.iter().enumerate() {
        // Each later part keeps a blank line, its heading of at most two lines, and some lines.
        let later: usize = parts[index + 1..].iter().map(|(_, items)| 3 + items.len().min(3)).sum();
        let block = block(&heading(*part, of_part, audit), of_part, left.saturating_sub(later), look);
        left = left.saturating_sub(block.len());
        lines.extend(block);
    }
    lines.extend(foot);
    lines
}

/// A blank line, a heading, and as many items as fit, the others named in a line.
fn block(heading: &str, items: &[&Item<'_>], space: usize, look: Look) -> Vec<String> {
    let mut lines = lines_of(look, |ink| {
        ink.blank();
        ink.paragraph("", STRONG, heading);
    });
    for (index, item) in items.iter().enumerate() {
        let own = item.lines(look);
        let fold = usize::from(index + 1 < items.len());
        if lines.len() + own.len() + fold > space {
            lines.extend(folded(&items[index..], look));
            break;
        }
        lines.extend(own);
    }
    lines
}

fn upgrade_foot(audit: &Audit, all: &[Item<'_>], look: Look) -> Vec<String> {
    lines_of(look, |ink| {
        ink.blank();
        for part in [Part::OtherLoads, Part::Unseen] {
            let names: Vec<&str> = all.iter().filter(|item| item.part == part).map(Item::subject).collect();
            if !names.is_empty() {
                ink.paragraph("", FAINT, &format!("{}: {}", heading(part, &[], audit), names.join(" ")));
            }
        }
        not_seen(ink, audit);
        let series = |text: &Option<String>| text.as_deref().and_then(|text| text.parse::<Version>().ok());
        if let (Some(from), Some(to)) = (series(&audit.upgrade_from), series(&audit.upgrade_to)) {
            let command = format!("unstarve knobs diff {from} {to}");
            let first = "Every setting: ";
            if columns(first) + columns(&command) <= look.width() {
                ink.line(&[(PLAIN, first), (COMMAND, &command)]);
            } else {
                ink.line(&[(COMMAND, &command)]);
            }
        }
        let report = all.iter().filter(|item| item.part != Part::Today).find_map(|item| item.hits[0].report.as_deref());
        match report {
            Some(id) => ink.line(&[
                (PLAIN, "All details: "),
                (COMMAND, "--full"),
                (PLAIN, " · one report: "),
                (COMMAND, &format!("unstarve knobs explain {id}")),
            ]),
            None => ink.line(&[(PLAIN, "All details: "), (COMMAND, "--full")]),
        }
    })
}

/// The missing parts of the snapshot, in a line.
fn not_seen(ink: &mut Ink, audit: &Audit) {
    if audit.missing.is_empty() {
        return;
    }
    let what: Vec<&str> = audit.missing.iter().take(4).map(|missing| missing.what.as_str()).collect();
    let more = audit.missing.len() - what.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    ink.paragraph("", FAINT, &format!("Not seen: {}{more}.", what.join(", ")));
}

fn today(audit: &Audit, look: Look) -> Vec<String> {
    let mut lines = lines_of(look, |ink| {
        let text = tally(audit.hits.iter().map(|hit| hit.severity));
        let text = match text.is_empty() {
            true => format!("Nothing found by {}.", counted(audit.rules.len() as u64, "rule")),
            false => format!("{text}."),
        };
        let worst = audit.hits.iter().map(|hit| hit.severity).max();
        ink.paragraph("", worst.map_or(STRONG, style), &text);
        ink.paragraph("", FAINT, &about(audit));
        if !audit.hits.is_empty() {
            ink.blank();
        }
    });
    let foot = lines_of(look, |ink| {
        ink.blank();
        not_seen(ink, audit);
        if !audit.hits.is_empty() {
            ink.line(&[
                (PLAIN, "All details: "),
                (COMMAND, "--full"),
                (PLAIN, " · commands as a script: "),
                (COMMAND, "--as shell"),
            ]);
        }
    });
    let foot = if foot.len() > 1 { foot } else { Vec::new() };
    let Some((worst, rest)) = audit.hits.split_first() else {
        lines.extend(foot);
        return lines;
    };
    let others = items(rest);
    let others: Vec<&Item<'_>> = others.iter().collect();
    let for_others = if others.is_empty() { 0 } else { 2 + others.len().min(6) };
    let left = SCREEN.saturating_sub(lines.len() + foot.len());
    lines.extend(in_detail(worst, left.saturating_sub(for_others), look));
    if !others.is_empty() {
        let left = SCREEN.saturating_sub(lines.len() + foot.len());
        lines.extend(block("Also", &others, left, look));
    }
    lines.extend(foot);
    lines
}

/// The worst hit: what it is, why, what it does, and the fix. What matters least is left out if the space does not
/// suffice.
fn in_detail(hit: &Hit, space: usize, look: Look) -> Vec<String> {
    let mut chunks: Vec<(u8, Vec<String>)> = Vec::new();
    let mut add = |importance: u8, write: &dyn Fn(&mut Ink)| chunks.push((importance, lines_of(look, write)));
    add(9, &|ink| {
        ink.line(&[(style(hit.severity), label(hit.severity)), (PLAIN, "  "), (STRONG, &hit.rule)]);
        ink.paragraph("  ", PLAIN, &hit.sentence);
    });
    for line in hit.evidence.iter().filter(|line| !line.is_empty()).take(3) {
        add(2, &|ink| ink.paragraph("    - ", PLAIN, line));
    }
    if !hit.consequence.is_empty() {
        add(3, &|ink| ink.paragraph("  Effect  ", PLAIN, &hit.consequence));
    }
    if let Some(fix) = hit.fixes.first() {
        add(8, &|ink| ink.paragraph("  Fix     ", PLAIN, &fix.text));
        add(7, &|ink| commands(ink, "          ", fix));
        if !fix.risk.is_empty() {
            add(4, &|ink| ink.paragraph("  Risk    ", FAINT, &fix.risk));
        }
    }
    let mut order: Vec<usize> = (0..chunks.len()).collect();
    order.sort_by_key(|&index| std::cmp::Reverse(chunks[index].0));
    let (mut used, mut kept) = (0, Vec::new());
    for index in order {
        let lines = chunks[index].1.len();
        if kept.is_empty() || used + lines <= space {
            used += lines;
            kept.push(index);
        }
    }
    kept.sort_unstable();
    kept.into_iter().flat_map(|index| std::mem::take(&mut chunks[index].1)).collect()
}

/// Short commands, or where the long ones are.
pub(super) fn commands(ink: &mut Ink, margin: &str, fix: &Fix) {
    if fix.apply.is_empty() {
        return;
    }
    let short = fix.short_commands();
    let width = ink.look.width();
    if short.is_empty() || short.iter().any(|command| columns(margin) + columns(command) > width) {
        ink.line(&[(PLAIN, margin), (PLAIN, "commands: "), (COMMAND, "--as shell")]);
        return;
    }
    for command in short {
        ink.line(&[(PLAIN, margin), (COMMAND, &command)]);
    }
}
