//! Bar charts: which occupants had the CPU during a victim's waits.

use unstarve_diagnose::report::{Culprit, Finding, Victim};
use unstarve_model::Nanos;

use crate::ink::{CULPRIT, FAINT, Ink, PLAIN, STRONG};
use crate::text::{columns, counted, fit, fold, occupant, place, tasks, whereabouts};

/// Maximum rows of a chart; the rest is summed up in one more row.
const MAX_CHART_ROWS: usize = 8;
/// Minimum culprits shown, if there are as many.
const MIN_SHOWN_CULPRITS: usize = 3;
const CHART_INDENT: &str = "    ";
const ROW_INDENT: &str = "      ";

struct Row {
    who: String,
    rule: String,
    ns: u64,
    culprit: bool,
    /// For a culprit: its process and cgroup.
    whereabouts: Option<String>,
}

/// Draws the occupants during the victim's waits: one row for each occupant and rule with time, share and bar.
pub(crate) fn chart(ink: &mut Ink, blame: &[Culprit], culprits: &[Culprit]) {
    let rows = rows(blame, culprits, ink);
    let total: u128 = blame.iter().map(|piece| u128::from(piece.ns)).sum();
    let longest = |column: fn(&Row) -> &str| rows.iter().map(|row| columns(column(row))).max().unwrap_or(0);
    let who = longest(|row| &row.who).min(ink.look.width() / 3);
    let rule = longest(|row| &row.rule).min(17);
    // Indent, two gaps, `999 ms`, ` 100.0 %`, two gaps before the bar.
    let taken = CHART_INDENT.len() + who + 2 + rule + 2 + 7 + 9 + 2;
    let bar = ink.look.width().saturating_sub(taken).min(40);
    for row in &rows {
        let share = if total == 0 { 0.0 } else { row.ns as f64 / total as f64 };
        let charset = ink.look.charset();
        let numbers = format!("{:>7} {:>6.1} %", Nanos(row.ns).to_string(), share * 100.0);
        let drawn = if bar < 4 { String::new() } else { ink.bar(share, bar) };
        let style = if row.culprit { CULPRIT } else { FAINT };
        ink.line(&[
            (PLAIN, CHART_INDENT),
            (if row.culprit { CULPRIT } else { PLAIN }, &fit(&row.who, who, charset)),
            (PLAIN, "  "),
            (PLAIN, &fit(&row.rule, rule, charset)),
            (PLAIN, "  "),
            (PLAIN, &numbers),
            (PLAIN, "  "),
            (style, &drawn),
        ]);
        if let Some(whereabouts) = &row.whereabouts {
            ink.paragraph(ROW_INDENT, FAINT, whereabouts);
        }
    }
}

/// Rows of the first screen's chart; the rest is summed up in one more.
const MAX_SHORT_ROWS: usize = 3;
/// Occupants below this share are summed up there.
const MIN_SHORT_SHARE: f64 = 0.01;

/// The victim without its work item: `kworker/0:2[47]`, `nfsd ×128`.
fn name(victim: &Victim) -> String {
    tasks(&place(victim), &victim.tids, victim.tasks)
}

/// Draws who had the CPU while a finding's victims waited: by occupant, whatever the rule, the longest few.
pub(crate) fn short_chart(ink: &mut Ink, finding: &Finding) {
    let mut rows: Vec<(String, u64, bool)> = Vec::new();
    for piece in &finding.blame {
        let who = fold(&occupant(piece), ink.look.charset()).into_owned();
        let culprit = finding.culprits.iter().any(|c| c.comm == piece.comm && c.rule == piece.rule);
        match rows.iter_mut().find(|(known, ..)| *known == who) {
            Some((_, ns, is_culprit)) => {
                *ns = ns.saturating_add(piece.ns);
                *is_culprit |= culprit;
            }
            None => rows.push((who, piece.ns, culprit)),
        }
    }
    let total: u128 = rows.iter().map(|(_, ns, _)| u128::from(*ns)).sum();
    if total == 0 {
        return;
    }
    rows.sort_by_key(|(_, ns, _)| std::cmp::Reverse(*ns));
    let share = |ns: u64| ns as f64 / total as f64;
    let large = rows.iter().take_while(|(_, ns, _)| share(*ns) >= MIN_SHORT_SHARE).count();
    let rest = rows.split_off(large.min(MAX_SHORT_ROWS));
    let others: u64 = rest.iter().fold(0, |sum, (_, ns, _)| sum.saturating_add(*ns));
    if !rest.is_empty() {
        rows.push((counted(rest.len() as u64, "other"), others, false));
    }
    let width = rows.iter().map(|(who, ..)| columns(who)).max().unwrap_or(0).min(ink.look.width() / 3);
    let bar = ink.look.width().saturating_sub(CHART_INDENT.len() + width + 2 + 2 + 9 + 7).min(40);
    let cpu = match finding.cpus.as_slice() {
        [cpu] => format!("CPU {cpu}"),
        _ => "the CPU".to_owned(),
    };
    ink.line(&[(PLAIN, "  "), (STRONG, &format!("Who had {cpu} while {} waited", name(&finding.victim)))]);
    for (who, ns, culprit) in &rows {
        let style = if *culprit { CULPRIT } else { PLAIN };
        let drawn = ink.bar(share(*ns), bar);
        let padding = " ".repeat(bar.saturating_sub(columns(&drawn)));
        let numbers = format!("{padding} {:>8} {:>4.0} %", Nanos(*ns).to_string(), share(*ns) * 100.0);
        let who = fit(who, width, ink.look.charset());
        ink.line(&[(PLAIN, CHART_INDENT), (style, &who), (PLAIN, "  "), (style, &drawn), (PLAIN, &numbers)]);
    }
}

fn rows(blame: &[Culprit], culprits: &[Culprit], ink: &Ink) -> Vec<Row> {
    let charset = ink.look.charset();
    let is_culprit = |piece: &Culprit| culprits.iter().any(|c| c.comm == piece.comm && c.rule == piece.rule);
    let shown = if blame.len() <= MAX_CHART_ROWS + 1 { blame.len() } else { MAX_CHART_ROWS };
    let (first, beyond) = blame.split_at(shown);
    // The finding's culprits are always shown, even if their share of the waits is small.
    let (named, rest): (Vec<_>, Vec<_>) = {
        let mut left = MIN_SHOWN_CULPRITS.saturating_sub(first.iter().filter(|piece| is_culprit(piece)).count());
        beyond.iter().partition(|piece| {
            let named = left > 0 && is_culprit(piece);
            left -= usize::from(named);
            named
        })
    };
    let mut rows: Vec<Row> = first
        .iter()
        .chain(named)
        .map(|piece| {
            let culprit = is_culprit(piece);
            Row {
                who: fold(&occupant(piece), charset).into_owned(),
                rule: piece.rule.to_string(),
                ns: piece.ns,
                culprit,
                whereabouts: if culprit { whereabouts(piece) } else { None },
            }
        })
        .collect();
    if !rest.is_empty() {
        rows.push(Row {
            who: counted(rest.len() as u64, "other"),
            rule: String::new(),
            ns: rest.iter().fold(0, |sum, piece| sum.saturating_add(piece.ns)),
            culprit: false,
            whereabouts: None,
        });
    }
    rows
}
