use unstarve_facts::{Holds, REGRESSIONS, Row, Version};

use super::Rule;
use crate::case::Case;
use crate::hit::{About, Draft, Fix, Hit, Severity};

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
    Some(told(row, sure))
}

/// What is said of a report. Which kernels have it is said by what decides it: the cells about good and bad ones are the reporters' own
/// words. Of an empty cell (`-`) nothing is said.
fn told(row: Row, sure: Option<String>) -> Hit {
    let text = |column: &str| row.get(column).filter(|text| *text != "-");
    let about = |what: &str, column: &str| text(column).map(|text| format!("{what}: {text}"));
    let help = |text| Fix::advice(About { text, risk: "", valid_on: "" });
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether it begins as a sentence does and ends as one.
    fn is_sentence(text: &str) -> bool {
        let begins = text.starts_with(|c: char| c.is_ascii_uppercase() || c.is_ascii_digit()) || is_commit(text);
        begins && text.ends_with('.') && !text.ends_with("..")
    }

    /// `cccb45d7c429 (6.17)` and the words that are not to be capitalized.
    fn is_commit(text: &str) -> bool {
        let word = text.split([' ', ',']).next().unwrap_or_default();
        word.len() == 12 && word.bytes().all(|b| b.is_ascii_hexdigit())
            || word.contains('=')
            || word.contains("debugfs")
    }

    fn has_a_bare_dash(text: &str) -> bool {
        text == "-" || text.starts_with("- ") || text.contains(" - ") || text.contains(": -.") || text.ends_with(" -")
    }

    #[test]
    fn whatever_a_row_says_is_said_in_sentences() {
        for row in REGRESSIONS.rows().filter(|row| row.is_stated() && row.kernels().is_some()) {
            let hit = told(row, None);
            let sentences = [Some(hit.sentence.clone()), Some(hit.consequence.clone()), hit.price.clone()];
            for text in sentences.into_iter().flatten().chain(hit.fixes.iter().map(|fix| fix.text.clone())) {
                assert!(is_sentence(&text), "{}: {text}", row.name());
                assert!(!has_a_bare_dash(&text) && !text.contains("number"), "{}: {text}", row.name());
            }
            for text in &hit.evidence {
                assert!(!text.is_empty() && !has_a_bare_dash(text) && !text.ends_with('.'), "{}: {text}", row.name());
                assert!(!text.contains("good up to") && !text.contains("bad from"), "{}: {text}", row.name());
            }
        }
    }

    #[test]
    fn the_kernels_that_have_it_are_versions_and_hold() {
        let mut rows = 0;
        for row in REGRESSIONS.rows() {
            let Some(text) = row.kernels() else { continue };
            rows += 1;
            let words = text.split([' ', ',', ';']).filter(|word| word.starts_with(|c: char| c.is_ascii_digit()));
            let versions: Vec<Version> =
                words.map(|word| word.parse().unwrap_or_else(|_| panic!("{}: {text}", row.name()))).collect();
            let first = versions.first().copied().expect("the first series");
            assert_ne!(row.holds_on(first), Some(Holds::No), "{}: {text}", row.name());
        }
        assert!(rows >= 30, "{rows}");
    }

    #[test]
    fn ranges_of_series_and_stable_levels_are_told_as_they_are_compared() {
        let kernels = |id: &str| REGRESSIONS.row(id).and_then(Row::kernels).unwrap_or_default();
        assert_eq!(kernels("R04"), "Linux 6.6 to 6.16 have it");
        assert_eq!(kernels("R08"), "Linux 6.12 to 6.16 have it; it is fixed in 6.12.92");
        assert_eq!(kernels("R19"), "Linux 6.5 and later have it");
        assert_eq!(kernels("R22"), "Linux 6.3 has it");
        assert_eq!(kernels("R29"), "Linux 6.15 and later have it, and stable kernels from 6.12.31 and 6.14.9 on");
        assert_eq!(kernels("R32"), "", "no kernels");
    }
}
