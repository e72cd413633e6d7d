use unstarve_facts::{Holds, REGRESSIONS, Row, Version};

use super::Rule;
use crate::case::Case;
use crate::hit::{Draft, Hit, Severity};

pub(super) const RULE: Rule = Rule {
    id: "known-change",
    title: "An upgrade crosses a change of the scheduler that made somebody's load slower",
    about: "Public reports of loads that a kernel made slower by how it schedules, each with the kernels that have it, by stable level where that is known.",
    source: "data/regressions.tsv, a source in each row",
    check: |_| Vec::new(),
    upgrade: Some(crossed),
};

fn crossed(before: &Case<'_>, after: &Case<'_>) -> Vec<Hit> {
    let (Some(from), Some(to)) = (before.facts.version(), after.facts.version()) else { return Vec::new() };
    REGRESSIONS.rows().filter(|row| row.is_stated()).filter_map(|row| hit(row, from, to)).collect()
}

/// Only reports that say on which kernels they hold: not on this one, and on the one of the upgrade.
fn hit(row: Row, from: Version, to: Version) -> Option<Hit> {
    let (before, after) = (row.holds_on(from)?, row.holds_on(to)?);
    // `6.1` for a host with 6.1.176 names no other kernel.
    let is_same = (from.major, from.minor) == (to.major, to.minor) && to.patch.is_none();
    let sure = match (before, after) {
        (Holds::No, Holds::Yes) => None,
        (Holds::No, Holds::Depends(what)) if !is_same => Some(format!("whether Linux {to} has it depends on {what}")),
        (Holds::Depends(what), Holds::Yes) => Some(format!("whether this kernel has it already depends on {what}")),
        _ => return None,
    };
    let text = |column: &str| row.get(column).unwrap_or("-");
    Some(
        Draft::new(RULE.id, Severity::Info, row.name())
            .says(format!("{}: {}", row.name(), text("symptom")))
            .because(format!(
                "good up to {}, bad from {}: {}",
                text("good_version"),
                text("bad_version"),
                text("change (commit)")
            ))
            .because_of(sure)
            .because(format!("seen with {}", text("workload")))
            .would(format!(
                "If your load is like that: {} {}. What helps: {}.",
                text("metric"),
                text("effect_size"),
                text("fix_or_knob (version)")
            ))
            .done(),
    )
}
