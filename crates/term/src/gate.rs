//! The terminal page of `unstarve compare --fail-on worse`.

use anstyle::Style;
use unstarve_diagnose::compare::gate::{Case, Gate, Judgement};
use unstarve_model::{Nanos, counted};

use crate::comparison::{Extent, table};
use crate::ink::{CULPRIT, FAINT, Ink, PLAIN, STRONG};
use crate::look::Look;

/// Maximum cases shown without `--all`.
const MAX_SHOWN_CASES: usize = 12;

/// Formats a verdict: the sentence, the cases, what keeps the recordings from deciding, and what to record.
pub fn gate_page(gate: &Gate, extent: Extent, look: Look) -> String {
    let mut ink = Ink::new(look);
    ink.paragraph("", of_judgement(gate.verdict), &gate.sentence);
    let sides = [("Base  ", &gate.base), ("New   ", &gate.new)];
    for (label, names) in sides {
        ink.paragraph(label, FAINT, &names.join(", "));
    }
    ink.blank();
    cases(&mut ink, gate, extent);
    if !gate.obstacles.is_empty() {
        ink.line(&[(STRONG, "What keeps the recordings from deciding")]);
        for obstacle in &gate.obstacles {
            ink.paragraph("  - ", PLAIN, &format!("{}; {}", obstacle.text, obstacle.advice));
        }
        ink.blank();
    }
    if let Some(advice) = &gate.advice {
        ink.paragraph("", PLAIN, advice);
    }
    format!("{}\n", ink.finish().trim_end())
}

fn of_judgement(verdict: Judgement) -> Style {
    match verdict {
        Judgement::Worse => CULPRIT.bold(),
        Judgement::Undecided | Judgement::Better | Judgement::Same => STRONG,
    }
}

fn cases(ink: &mut Ink, gate: &Gate, extent: Extent) {
    let is_shown = |case: &&Case| extent == Extent::All || case.verdict != Judgement::Same;
    let limit = if extent == Extent::All { usize::MAX } else { MAX_SHOWN_CASES };
    let shown: Vec<&Case> = gate.cases.iter().filter(is_shown).take(limit).collect();
    for case in &shown {
        let style = of_judgement(case.verdict);
        ink.line(&[(style, &format!("{:<9}", case.verdict.word())), (PLAIN, "  "), (STRONG, &case.headline())]);
        ink.paragraph("           ", PLAIN, &case.sentence);
        if !case.by.is_empty() {
            ink.paragraph("           ", FAINT, &format!("Who had the CPU: {}", case.by.join(", ")));
        }
    }
    if extent == Extent::All {
        rates(ink, gate);
    }
    let hidden = gate.cases.len() - shown.len();
    let parts = [
        (hidden as u64, "more case", "the same or not shown"),
        (gate.too_small as u64, "role", "too little to matter"),
        (gate.not_everywhere as u64, "role", "not in every recording, judged in the sum of all tasks alone"),
    ];
    let parts: Vec<String> = parts
        .iter()
        .filter(|(count, ..)| *count > 0)
        .map(|(count, what, which)| format!("{}: {which}", counted(*count, what)))
        .collect();
    if !parts.is_empty() {
        let rest = if hidden > 0 && extent == Extent::Main { ". --all shows all." } else { "." };
        ink.paragraph("  ", FAINT, &format!("{}{rest}", parts.join("; ")));
    }
    ink.blank();
}

/// The rates of each recording.
fn rates(ink: &mut Ink, gate: &Gate) {
    let each = |rates: &[f64]| {
        let shown: Vec<String> = rates.iter().map(|rate| Nanos(rate.max(0.0) as u64).to_string()).collect();
        shown.join(" ")
    };
    let rows: Vec<Vec<String>> = gate
        .cases
        .iter()
        .filter_map(|case| {
            let waits = case.waits.as_ref()?;
            Some(vec![case.role.to_string(), each(&waits.base_ns_per_s), each(&waits.new_ns_per_s)])
        })
        .collect();
    if !rows.is_empty() {
        ink.blank();
        ink.line(&[(STRONG, "Waited in each second")]);
        table(ink, &["who", "in each recording of the base", "new"], &rows);
    }
}
