//! Rule `known-change`: an upgrade includes a scheduler change that was reported as a regression.

use unstarve_facts::{Holds, REGRESSIONS, Row, Version};

use super::Rule;
use crate::case::AuditInput;
use crate::hit::{Draft, Fix, FixNotes, Hit, Severity};

pub(super) const RULE: Rule = Rule {
    id: "known-change",
    title: "An upgrade crosses a change of the scheduler that made somebody's load slower",
    about: "Public reports of loads that a kernel made slower by how it schedules, each with the kernels that have it, by stable level where that is known.",
    source: "data/regressions.tsv, a source in each row",
    check: |_| Vec::new(),
    upgrade: Some(crossed),
};

fn crossed(before: &AuditInput<'_>, after: &AuditInput<'_>) -> Vec<Hit> {
    let (Some(from), Some(to)) = (before.facts.version(), after.facts.version()) else { return Vec::new() };
    REGRESSIONS.rows().filter(|row| row.is_stated()).filter_map(|row| hit(row, from, to)).collect()
}

/// Only reports that state their kernels: not the present one, but the upgrade's.
fn hit(row: Row, from: Version, to: Version) -> Option<Hit> {
    let (before, after) = (row.holds_on(from)?, row.holds_on(to)?);
    // `6.1` for a host with 6.1.176 is the same kernel.
    let is_same = (from.major, from.minor) == (to.major, to.minor) && to.patch.is_none();
    let sure = match (before, after) {
        (Holds::No, Holds::Yes) => None,
        (Holds::No, Holds::Depends(what)) if !is_same => Some(format!("whether Linux {to} has it depends on {what}")),
        (Holds::Depends(what), Holds::Yes) => Some(format!("whether this kernel has it already depends on {what}")),
        _ => return None,
    };
    Some(reported_hit(row, sure))
}

/// The hit for a report. The affected kernels come from the deciding column: the columns of good and bad kernels are
/// the reporters' words. An empty column (`-`) is left out.
fn reported_hit(row: Row, sure: Option<String>) -> Hit {
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
        .would("Loads like the one that it was seen with can become slower; others need not notice it.")
        .priced_if(text("effect_size"))
        .fix(text("fix_or_knob (version)").map(help))
        .done()
}
