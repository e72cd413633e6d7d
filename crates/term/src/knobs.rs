//! The pages of `unstarve knobs`.

use unstarve_facts::{Change, ChangeKind, Explanation};

use crate::ink::{FAINT, Ink, PLAIN, STRONG};
use crate::text::columns;
use crate::{Look, clean};

/// A setting of a host, for [`knobs_page`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KnobLine {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
    /// Its default, if the value differs.
    pub default: Option<String>,
    /// Its path.
    pub path: String,
    /// The configuration lines that set it.
    pub places: Vec<String>,
}

/// Formats a host's settings, one a line; those that differ from their default are marked.
pub fn knobs_page(lines: &[KnobLine], look: Look) -> String {
    let mut ink = Ink::new(look);
    let width = |of: fn(&KnobLine) -> &str| lines.iter().map(|line| columns(of(line))).max().unwrap_or(0).min(44);
    let (names, values) = (width(|line| &line.name), width(|line| &line.value).max(5));
    for line in lines {
        let style = if line.default.is_some() { STRONG } else { PLAIN };
        let default = line.default.as_ref().map(|default| format!("  default {default}")).unwrap_or_default();
        ink.line(&[
            (style, &format!("{:names$}  {:>values$}", line.name, line.value)),
            (FAINT, &format!("{default}  {}", line.path)),
        ]);
        for place in &line.places {
            ink.paragraph("    written in ", FAINT, place);
        }
    }
    ink.finish()
}

/// A configuration line whose effect differs on another kernel.
#[derive(Clone, Copy, Debug)]
pub struct DriftLine<'a> {
    /// The file and the line.
    pub place: &'a str,
    /// What it sets.
    pub setting: &'a str,
    /// The value it sets.
    pub value: &'a str,
    /// Why the effect differs.
    pub why: &'a str,
}

/// Formats the differences between two kernels or hosts: settings by kind, lines without effect, and what cannot be
/// compared.
pub fn difference_page(
    (from, to): (&str, &str),
    changes: &[Change],
    drift: &[DriftLine<'_>],
    not_compared: &[String],
    look: Look,
) -> String {
    let mut text = changes_page(from, to, changes, look);
    if !drift.is_empty() {
        text += "\nWritten down on the first, and without effect or with another on the second (knob-drift)\n";
    }
    for DriftLine { place, setting, value, why } in drift {
        text += &format!("  {}: {} = {}: {}\n", clean(place), clean(setting), clean(value), clean(why));
    }
    if !not_compared.is_empty() {
        text += &format!(
            "\nNot compared, because not every kernel of such a series has them alike; give the stable level (6.12.107)\n  {}\n",
            not_compared.join(", ")
        );
    }
    text
}

/// The differences by kind.
fn changes_page(from: &str, to: &str, changes: &[Change], look: Look) -> String {
    let mut ink = Ink::new(look);
    ink.paragraph("", STRONG, &format!("{from} → {to}"));
    if changes.is_empty() {
        ink.paragraph("", PLAIN, "Nothing that is known differs.");
    }
    for (kind, heading) in HEADINGS {
        let of_kind: Vec<&Change> = changes.iter().filter(|change| change.kind == kind).collect();
        if of_kind.is_empty() {
            continue;
        }
        ink.blank();
        ink.line(&[(STRONG, heading)]);
        let width = of_kind.iter().map(|change| columns(&change.name)).max().unwrap_or(0).min(40);
        for change in of_kind {
            ink.paragraph(&format!("  {:width$}  ", unstarve_model::clean(&change.name)), PLAIN, &what(change));
        }
    }
    ink.finish()
}

const HEADINGS: [(ChangeKind, &str); 7] = [
    (ChangeKind::Gone, "Gone"),
    (ChangeKind::New, "New"),
    (ChangeKind::Moved, "Moved"),
    (ChangeKind::Redefaulted, "Another default"),
    (ChangeKind::Redefined, "Means something else"),
    (ChangeKind::Value, "Another value"),
    (ChangeKind::Unseen, "In one of the two files alone"),
];

fn what(change: &Change) -> String {
    let note = |text: &str| if text.is_empty() { String::new() } else { format!("; {text}") };
    match change.kind {
        ChangeKind::Gone => format!("was {}{}", change.from, note(&change.note)),
        ChangeKind::New if change.to.is_empty() => change.note.clone(),
        ChangeKind::New => format!("{}{}", change.to, note(&change.note)),
        ChangeKind::Moved | ChangeKind::Redefaulted => format!("{} → {}{}", change.from, change.to, note(&change.note)),
        ChangeKind::Redefined => format!("{} Now: {}", change.from, change.to),
        ChangeKind::Value => format!("{} → {}", change.from, change.to),
        ChangeKind::Unseen if change.to.is_empty() => format!("{} in the first; not in the second", change.from),
        ChangeKind::Unseen => format!("{} in the second; not in the first", change.to),
    }
}

/// Formats what is known about a setting, feature, thread or regression.
pub fn explanation_page(explanation: &Explanation, look: Look) -> String {
    let mut ink = Ink::new(look);
    ink.paragraph("", STRONG, &explanation.title);
    ink.paragraph("", PLAIN, &explanation.meaning);
    for (heading, lines) in &explanation.sections {
        ink.blank();
        ink.line(&[(STRONG, heading)]);
        for line in lines {
            ink.paragraph("  ", PLAIN, line);
        }
    }
    ink.finish()
}
