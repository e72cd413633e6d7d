use unstarve_kernel::{REGRESSIONS, Row, Version};

use super::Rule;
use crate::case::Case;
use crate::hit::{Draft, Hit, Severity};

pub(super) const RULE: Rule = Rule {
    id: "known-change",
    title: "An upgrade crosses a change of the scheduler that made somebody's load slower",
    about: "Public reports of loads that a kernel made slower by how it schedules, each with the versions between which that happened.",
    source: "data/regressions.tsv, a source in each row",
    check: |_| Vec::new(),
    upgrade: Some(crossed),
};

fn crossed(before: &Case<'_>, after: &Case<'_>) -> Vec<Hit> {
    let (Some(from), Some(to)) = (before.facts.version(), after.facts.version()) else { return Vec::new() };
    REGRESSIONS.rows().filter(|row| row.is_stated()).filter_map(|row| hit(row, from, to)).collect()
}

/// Only reports with a plain version on both sides: good before, bad from there on, and bad still at the target.
fn hit(row: Row, from: Version, to: Version) -> Option<Hit> {
    let good = series(row.get("good_version")?)?;
    let bad = row.get("bad_version")?;
    let first = series(bad)?;
    let ends = bad.split("..").nth(1).and_then(|text| series(text.trim()));
    let at_most = |a: Version, b: Version| (a.major, a.minor) <= (b.major, b.minor);
    let harmless = ["never released", "improvement", "cosmetic", "confounder"];
    let cells = [bad, row.get("effect_size").unwrap_or_default(), row.get("class").unwrap_or_default()];
    if cells.iter().any(|cell| harmless.iter().any(|word| cell.contains(word))) {
        return None;
    }
    // `NI_RATE 9fe89f022c05 (7.1)`: mended by then.
    let mended = row.get("fix_or_knob (version)").and_then(|fix| series(fix.split_once('(')?.1));
    if mended.is_some_and(|version| at_most(version, to)) {
        return None;
    }
    let crosses = at_most(from, good) && at_most(first, to) && ends.is_none_or(|last| at_most(to, last));
    if !crosses {
        return None;
    }
    let text = |column: &str| row.get(column).unwrap_or("-");
    Some(
        Draft::new(RULE.id, Severity::Info, row.name())
            .says(format!("{}: {}", row.name(), text("symptom")))
            .because(format!("good up to {}, bad from {}: {}", text("good_version"), bad, text("change (commit)")))
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

/// The version at the beginning of a cell; `None` if the cell begins with something else, such as a vendor's name.
fn series(text: &str) -> Option<Version> {
    text.trim_start_matches(['<', '=', '>', '~']).parse().ok()
}
