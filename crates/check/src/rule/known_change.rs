//! Rule `known-change`: an upgrade includes a scheduler change that was reported as a regression.

use unstarve_facts::{Holds, REGRESSIONS, Row, Version};

use super::Rule;
use crate::case::AuditInput;
use crate::hit::{Draft, Fix, FixNotes, Hit, Severity};
use crate::load::{Runs, runs};
use crate::part::{Kind, OnHost};

pub(super) const RULE: Rule = Rule {
    id: "known-change",
    title: "An upgrade crosses a change of the scheduler that made a load slower",
    about: "Public reports of loads that a kernel made slower by how it schedules, each with the kernels that have it, by stable level where that is known.",
    source: "data/regressions.tsv, a source in each row",
    check: |_| Vec::new(),
    upgrade: Some(crossed),
};

fn crossed(before: &AuditInput<'_>, after: &AuditInput<'_>) -> Vec<Hit> {
    let (Some(from), Some(to)) = (before.facts.version(), after.facts.version()) else { return Vec::new() };
    // The rule `known-bug` says more about the same report.
    let bugs = super::known_bug::reported(after);
    let rows = REGRESSIONS.rows().filter(|row| row.is_stated() && !bugs.contains(&row.name()));
    rows.filter_map(|row| hit(before, row, from, to)).collect()
}

/// Only reports that state their kernels: not the present one, but the upgrade's.
fn hit(case: &AuditInput<'_>, row: Row, from: Version, to: Version) -> Option<Hit> {
    let (now, later) = (row.holds_on(from)?, row.holds_on(to)?);
    // `6.1` for a host with 6.1.176 is the same kernel.
    let is_same = (from.major, from.minor) == (to.major, to.minor) && to.patch.is_none();
    let sure = match (now, later) {
        (Holds::No, Holds::Yes) => None,
        (Holds::No, Holds::Depends(what)) if !is_same => Some(format!("whether Linux {to} has it depends on {what}")),
        (Holds::Depends(what), Holds::Yes) => Some(format!("whether this kernel has it already depends on {what}")),
        _ => return None,
    };
    let (on_host, seen) = match runs(case, row.get("needs").unwrap_or_default()) {
        Runs::Yes(seen) => (OnHost::Has, Some(seen)),
        Runs::No => (OnHost::Lacks, None),
        Runs::Unknown => (OnHost::Unknown, None),
    };
    let symptom = row.get("symptom").unwrap_or("a load became slower");
    let brief = seen.as_ref().map_or(symptom.to_owned(), |seen| format!("{symptom} ({seen})"));
    Some(
        reported_hit(row, sure)
            .brief(brief)
            .kind(Kind::Change, on_host)
            .reported_as(row.name())
            .on_levels(super::levels_of(row, later, to))
            .because_of(seen.map(|seen| format!("here: {seen}")))
            .done(),
    )
}

/// What a report says. The affected kernels come from the deciding column: the columns of good and bad kernels are
/// the reporters' words. An empty column (`-`) is left out.
fn reported_hit(row: Row, sure: Option<String>) -> Draft {
    let text = |column: &str| row.get(column).filter(|text| *text != "-");
    let about = |what: &str, column: &str| text(column).map(|text| format!("{what}: {text}"));
    let help = |text| Fix::advice(FixNotes { text, risk: "", valid_on: "" });
    let name = row.name();
    Draft::new(RULE.id, Severity::Info, name)
        .says(format!("{name}: {}.", text("symptom").unwrap_or("a load became slower")))
        .because_of(row.kernels())
        .because_of(sure)
        .because_of(about("cause", "change (commit)"))
        .because_of(about("seen with", "workload"))
        .because(format!("its source: `unstarve knobs explain {name}`"))
        .priced_if(text("effect_size"))
        .fix(text("fix_or_knob (version)").map(help))
}
