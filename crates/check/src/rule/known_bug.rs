//! Rule `known-bug`: the kernel has a known starvation bug.

use unstarve_change::{Change, FeatureState, Value};
use unstarve_facts::{BUGS, Bug, Holds};

use super::Rule;
use crate::case::AuditInput;
use crate::hit::{Draft, Fix, FixNotes, Hit, Severity};
use crate::load::{Runs, runs};
use crate::part::{Kind, OnHost};

pub(super) const RULE: Rule = Rule {
    id: "known-bug",
    title: "The kernel has a known starvation bug",
    about: "Bugs of the scheduler that starve tasks or leave CPUs idle beside waiting ones, with the kernels that have them.",
    source: "data/bugs.tsv, a source in each row",
    check,
    upgrade: None,
};

fn check(case: &AuditInput<'_>) -> Vec<Hit> {
    BUGS.rows().filter_map(Bug::of).filter_map(|bug| hit(case, bug)).collect()
}

/// The ids of the public reports about bugs that this rule reports for a host.
pub(super) fn reported(case: &AuditInput<'_>) -> Vec<&'static str> {
    let is_hit = |bug: &Bug| hit(case, *bug).is_some();
    BUGS.rows().filter_map(Bug::of).filter(is_hit).map(Bug::report).collect()
}

fn hit(case: &AuditInput<'_>, bug: Bug) -> Option<Hit> {
    let affected = bug.affects(&case.facts);
    let version = case.facts.version().filter(|_| affected != Holds::No)?;
    // An unknown word in the table is a mistake: report the bug rather than hide it.
    let (on_host, seen) = match runs(case, bug.needs()) {
        Runs::Yes(seen) => (OnHost::Has, Some(seen)),
        Runs::Unknown => (OnHost::Default, None),
        Runs::No => return None,
    };
    let severity = match (affected, bug.severity()) {
        (Holds::Depends(_), _) | (_, "info") => Severity::Info,
        (_, "critical") => Severity::Critical,
        _ => Severity::Warning,
    };
    let certainly = match affected {
        Holds::Depends(what) => format!("whether this kernel has it depends on {what}"),
        _ => format!("{} has it", case.facts.name()),
    };
    Some(
        Draft::new(RULE.id, severity, bug.id())
            .says(bug.says())
            .brief(bug.says().trim_end_matches('.'))
            .kind(Kind::Bug, on_host)
            .reported_as(bug.report())
            .on_levels(super::levels_of(bug.row(), affected, version))
            .because(certainly)
            .because(format!("cause: {}", bug.cause()))
            .because_of(seen.map(|seen| format!("here: {seen}")))
            .would(bug.symptom())
            .fix(cure(case, bug))
            .done(),
    )
}

fn cure(case: &AuditInput<'_>, bug: Bug) -> Fix {
    let about = || FixNotes { text: bug.fix(), risk: "", valid_on: bug.source() };
    let off = bug.turn_off().and_then(|name| {
        let state = case.snapshot.features.as_ref().and_then(|features| features.get(name));
        let was = state.map(|&on| Value::content(FeatureState::from(on).word(name)));
        Fix::of(about(), vec![Change::feature(name, FeatureState::Off).from(was)])
    });
    off.unwrap_or_else(|| Fix::advice(about()))
}
