//! Rule `known-bug`: the kernel has a known starvation bug.

use unstarve_change::{Change, FeatureState, Value};
use unstarve_facts::{BUGS, Bug, Holds};

use super::Rule;
use crate::case::AuditInput;
use crate::hit::{Draft, Fix, FixNotes, Hit, Severity};

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

fn hit(case: &AuditInput<'_>, bug: Bug) -> Option<Hit> {
    let affected = bug.affects(&case.facts);
    if affected == Holds::No || case.facts.version().is_none() || !applies(case, bug) {
        return None;
    }
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
            .because(certainly)
            .because(format!("cause: {}", bug.cause()))
            .would(bug.symptom())
            .fix(cure(case, bug))
            .done(),
    )
}

fn cure(case: &AuditInput<'_>, bug: Bug) -> Fix {
    let about = || FixNotes { text: bug.fix(), risk: "", valid_on: "" };
    let off = bug.turn_off().and_then(|name| {
        let state = case.snapshot.features.as_ref().and_then(|features| features.get(name));
        let was = state.map(|&on| Value::content(FeatureState::from(on).word(name)));
        Fix::of(about(), vec![Change::feature(name, FeatureState::Off).from(was)])
    });
    Fix { source: bug.source().to_owned(), ..off.unwrap_or_else(|| Fix::advice(about())) }
}

/// Whether this host meets the bug's conditions.
fn applies(case: &AuditInput<'_>, bug: Bug) -> bool {
    use unstarve_model::SchedPolicy::Idle;
    match bug.needs() {
        "" => true,
        "idle-tasks" => case.snapshot.tasks.iter().any(|task| task.policy == Idle && !task.kernel_thread),
        "real-time-tasks" => !case.real_time.is_empty(),
        "nested-cgroups" => case
            .snapshot
            .cgroups
            .iter()
            .any(|group| group.path.matches('/').count() >= 2 && group.load_weight().is_some()),
        "limited-cgroups" => case.snapshot.cgroups.iter().any(|group| group.limit.is_some()),
        // Any other value is a mistake in the table: report it rather than hide the bug.
        _ => true,
    }
}
