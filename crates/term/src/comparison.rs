//! The terminal page of `unstarve compare`.

use unstarve_diagnose::compare::{
    Change, Comparison, FindingChange, Outcome, UnjudgedFinding, Verdict, WaitChange, Waits,
};
use unstarve_diagnose::report::Severity;
use unstarve_model::Nanos;

use crate::Look;
use crate::ink::{FAINT, Ink, PLAIN, STRONG, of_severity};
use crate::page::about;
use crate::text::{columns, counted, fit, fold, grouped};

/// Maximum changes shown without `--all`.
const MAX_SHOWN_CHANGES: usize = 12;

/// How much of a comparison to show.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extent {
    /// The largest certain changes.
    Main,
    /// Also unclear changes and every wait.
    All,
}

/// Formats a comparison: verdict, new and gone findings, changed rates.
pub fn comparison_page(comparison: &Comparison, extent: Extent, look: Look) -> String {
    let mut ink = Ink::new(look);
    let verdict = comparison.verdict();
    ink.paragraph("", verdict.severity.map_or(STRONG, of_severity), &verdict.text);
    ink.paragraph("A  ", FAINT, &about(&comparison.a));
    ink.paragraph("B  ", FAINT, &about(&comparison.b));
    ink.blank();
    findings(&mut ink, &comparison.findings);
    unjudged(&mut ink, &comparison.unjudged);
    changes(&mut ink, comparison, extent);
    waits(&mut ink, comparison, extent);
    losses(&mut ink, comparison);
    let text = ink.finish();
    format!("{}\n", text.trim_end())
}

fn findings(ink: &mut Ink, findings: &[FindingChange]) {
    if findings.is_empty() {
        return;
    }
    ink.line(&[(STRONG, "Findings")]);
    for finding in findings {
        let (word, severity) = match finding.outcome {
            Outcome::Appeared => ("new    ", finding.b),
            Outcome::Worse => ("worse  ", finding.b),
            Outcome::Milder => ("milder ", finding.b),
            Outcome::Vanished => ("gone   ", None),
            Outcome::Stays => ("in both", None),
        };
        let style = severity.map_or(FAINT, of_severity);
        let was = match (finding.a, finding.b) {
            (Some(a), Some(b)) if a != b => format!("{}, was {}", b.word(), a.word()),
            (_, Some(severity)) | (Some(severity), None) => severity.word().to_owned(),
            (None, None) => String::new(),
        };
        ink.line(&[
            (PLAIN, "  "),
            (style, word),
            (PLAIN, "  "),
            (STRONG, &finding.headline()),
            (FAINT, &format!("  {was}")),
        ]);
        ink.paragraph("           ", PLAIN, &finding.sentence);
    }
    ink.blank();
}

/// Findings of one side that the other side could not judge.
fn unjudged(ink: &mut Ink, findings: &[UnjudgedFinding]) {
    let Some(first) = findings.first() else { return };
    ink.line(&[(STRONG, "Findings of one side, not judged new or gone")]);
    ink.paragraph("  ", FAINT, &first.because);
    for finding in findings {
        let (word, severity) = if finding.a.is_some() { ("in A   ", finding.a) } else { ("in B   ", finding.b) };
        ink.line(&[
            (PLAIN, "  "),
            (severity.map_or(FAINT, of_severity), word),
            (PLAIN, "  "),
            (STRONG, &finding.headline()),
            (FAINT, &format!("  {}", severity.map_or("", Severity::word))),
        ]);
        ink.paragraph("           ", PLAIN, &finding.sentence);
    }
    ink.blank();
}

fn changes(ink: &mut Ink, comparison: &Comparison, extent: Extent) {
    let shown: Vec<&Change> = match extent {
        Extent::All => comparison.changes.iter().collect(),
        Extent::Main => comparison.sure().take(MAX_SHOWN_CHANGES).collect(),
    };
    let rows: Vec<Vec<String>> = shown.iter().map(|change| row(change)).collect();
    if !rows.is_empty() {
        ink.line(&[(STRONG, "Who and what, per second")]);
        table(ink, &RATE_HEADS, &rows);
    }
    let hidden = comparison.sure().count().saturating_sub(MAX_SHOWN_CHANGES);
    let unclear = comparison.unclear();
    let (compared, differ) = (comparison.compared as u64, comparison.sure().count() as u64);
    let mut note = format!(
        "{} compared (family-wise 95 %): {} differ, {} undecided.",
        counted(compared, "rate"),
        grouped(differ),
        grouped(unclear as u64)
    );
    if extent == Extent::Main && hidden > 0 {
        note.push_str(&format!(" --all shows {} more that differ.", grouped(hidden as u64)));
    }
    if extent == Extent::Main && unclear > 0 {
        note.push_str(" Longer recordings may decide.");
    }
    ink.paragraph("  ", FAINT, &note);
    ink.blank();
}

fn row(change: &Change) -> Vec<String> {
    let what = match change.rule {
        Some(rule) => format!("{} by {rule}", change.metric.words()),
        None => change.metric.words().to_owned(),
    };
    let factor = match change.b / change.a {
        _ if change.a == 0.0 => "new".to_owned(),
        _ if change.b == 0.0 => "none".to_owned(),
        factor if factor >= 10.0 => format!("× {}", grouped(factor.round() as u64)),
        factor if factor < 0.1 => format!("× {factor:.2}"),
        factor if factor < 1.0 => format!("−{:.0} %", (1.0 - factor) * 100.0),
        factor => format!("+{:.0} %", (factor - 1.0) * 100.0),
    };
    let interval = change
        .interval
        .map_or("too short".to_owned(), |(low, high)| format!("{} to {}", signed(change, low), signed(change, high)));
    vec![
        change.role.to_string(),
        what,
        change.in_words(change.a),
        change.in_words(change.b),
        if change.verdict == Verdict::Unclear { "unclear".to_owned() } else { factor },
        interval,
    ]
}

fn signed(change: &Change, amount: f64) -> String {
    let sign = if amount < 0.0 { "−" } else { "+" };
    format!("{sign}{}", change.in_words(amount.abs()))
}

/// Maximum roles listed with their waits without `--all`.
const WAITS_SHOWN: usize = 6;
/// A smaller difference between longest waits is not listed.
const WAIT_MATTERS: u64 = 100_000;

/// The waits in numbers. The longest of two samples always differ, so nothing is claimed about them.
fn waits(ink: &mut Ink, comparison: &Comparison, extent: Extent) {
    let longest = |side: &Option<Waits>| side.map_or(0, |waits| waits.max_ns);
    let matters = |change: &&WaitChange| longest(&change.a).abs_diff(longest(&change.b)) >= WAIT_MATTERS;
    let limit = if extent == Extent::All { usize::MAX } else { WAITS_SHOWN };
    let rows: Vec<Vec<String>> = comparison
        .waits
        .iter()
        .filter(|change| extent == Extent::All || matters(change))
        .take(limit)
        .map(|change| {
            let of = |side: &Option<Waits>, value: fn(&Waits) -> u64| {
                side.as_ref().map_or("–".to_owned(), |waits| Nanos(value(waits)).to_string())
            };
            let mut cells = vec![change.role.to_string()];
            for value in [|waits: &Waits| waits.max_ns, |waits: &Waits| waits.p99_ns, |waits: &Waits| waits.p50_ns] {
                cells.extend([of(&change.a, value), of(&change.b, value)]);
            }
            cells
        })
        .collect();
    if rows.is_empty() {
        return;
    }
    ink.line(&[(STRONG, "Waits")]);
    table(ink, &["who", "longest A", "B", "p99 A", "B", "median A", "B"], &rows);
    ink.blank();
}

const RATE_HEADS: [&str; 6] = ["who", "what", "A", "B", "change", "B − A, from and to"];
/// Maximum width of a column.
const MAX_COLUMN_WIDTH: usize = 28;

/// A table with text aligned left and numbers right. A narrow terminal loses the last columns.
pub(crate) fn table(ink: &mut Ink, heads: &[&str], rows: &[Vec<String>]) {
    let charset = ink.look.charset();
    let heads: Vec<String> = heads.iter().map(|head| fold(head, charset).into_owned()).collect();
    let widths: Vec<usize> = (0..heads.len())
        .map(|column| {
            let cells = rows.iter().map(|row| columns(&fold(&row[column], charset)));
            cells.chain([columns(&heads[column])]).max().unwrap_or(0).min(MAX_COLUMN_WIDTH)
        })
        .collect();
    let mut shown = heads.len();
    while shown > 2 && 2 * shown + widths[..shown].iter().sum::<usize>() > ink.look.width() {
        shown -= 1;
    }
    for (index, cells) in std::iter::once(&heads).chain(rows).enumerate() {
        let mut line = String::new();
        for (column, (cell, width)) in cells.iter().zip(&widths).take(shown).enumerate() {
            let fitted = fit(&fold(cell, charset), *width, charset);
            let (text, space) = (fitted.trim_end(), width - columns(fitted.trim_end()));
            let is_number = text.starts_with(|c: char| c.is_ascii_digit() || "+−-×x–".contains(c)) || index == 0;
            line.push_str("  ");
            if column > 0 && is_number && !is_text(heads[column].as_str()) {
                line.push_str(&" ".repeat(space));
                line.push_str(text);
            } else {
                line.push_str(text);
                line.push_str(&" ".repeat(space));
            }
        }
        ink.line(&[(if index == 0 { FAINT } else { PLAIN }, &line)]);
    }
}

/// Whether a column holds text.
fn is_text(head: &str) -> bool {
    matches!(head, "who" | "what") || head.ends_with("from and to")
}

fn losses(ink: &mut Ink, comparison: &Comparison) {
    if comparison.losses.is_empty() {
        return;
    }
    ink.line(&[(STRONG, "What the recordings cannot say")]);
    for loss in &comparison.losses {
        ink.paragraph("  - ", PLAIN, loss);
    }
}
