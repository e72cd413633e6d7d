//! Whether findings are new, gone, or part of what the base always shows.

use std::collections::BTreeSet;

use unstarve_model::{Comm, Severity};

use super::{Basis, Case, Judgement, Named, Terms};
use crate::compare::{Role, victim};
use crate::report::{Finding, FindingId, UNSURE};

/// How many names of culprits a case has.
const MAX_CULPRITS: usize = 3;

/// How bad a finding is in the recordings of one side; `None` in one without it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Levels {
    pub least: Option<Severity>,
    pub most: Option<Severity>,
}

/// What the levels of both sides come to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// Never more than a remark.
    Nothing,
    /// From nothing or a remark to critical.
    Worse,
    /// More severe than in any base, but by one step: the waits of its victim decide.
    ByWaits,
    /// As in the base, or some of it.
    Same,
    /// In each recording of the base, and gone.
    Better,
}

/// The table of decision 0624.
pub(super) fn step(base: Levels, new: Levels) -> Step {
    let is_alarm = |level: Option<Severity>| level > Some(Severity::Info);
    if !is_alarm(base.most) && !is_alarm(new.most) {
        Step::Nothing
    } else if new.most == Some(Severity::Critical) && !is_alarm(base.most) {
        Step::Worse
    } else if new.most > base.most {
        Step::ByWaits
    } else if !is_alarm(new.most) && is_alarm(base.least) {
        Step::Better
    } else {
        Step::Same
    }
}

/// Judges each finding that is more than a remark on some side.
pub(super) fn finding_cases(base: &[Named<'_>], new: &[Named<'_>], terms: &Terms, rates: &[Case]) -> Vec<Case> {
    let every = || base.iter().chain(new).flat_map(|one| &one.side.report.findings);
    let kinds: BTreeSet<(FindingId, Role)> = every().map(|finding| (finding.id.clone(), victim(finding))).collect();
    let cases = kinds.into_iter().filter_map(|(id, role)| {
        let of = |one: &&Named<'_>| worst(one, &id, &role).map(|finding| finding.severity);
        let levels = |side: &[&Named<'_>]| Levels {
            least: side.iter().map(of).min().flatten(),
            most: side.iter().map(of).max().flatten(),
        };
        // A recording that cannot show a finding does not prove that there is none.
        let shows = |one: &&Named<'_>| one.side.report.trace.too_little.is_none() || of(one).is_some();
        let (showing_base, showing_new): (Vec<_>, Vec<_>) =
            (base.iter().filter(shows).collect(), new.iter().filter(shows).collect());
        let (in_base, in_new) = (levels(&showing_base), levels(&showing_new));
        let found = step(in_base, in_new);
        let finding = new.iter().chain(base).find_map(|one| worst(one, &id, &role))?;
        let is_unsure = finding.confidence < UNSURE;
        let verdict = match found {
            Step::Nothing => return None,
            Step::Same => Judgement::Same,
            _ if is_unsure => Judgement::Undecided,
            // All waits are recorded, but not the reason of one: a finding that needs longer waits than there were is new.
            Step::Worse | Step::ByWaits if showing_base.is_empty() && !grew(base, new, terms, &role) => {
                Judgement::Undecided
            }
            Step::Worse => Judgement::Worse,
            Step::ByWaits => by_waits(base, new, terms, rates, &role),
            Step::Better if showing_new.len() < new.len() => Judgement::Undecided,
            Step::Better => Judgement::Better,
        };
        Some(Case {
            rule: id.to_string(),
            basis: Basis::Finding,
            verdict,
            sentence: super::text::of_finding(finding, in_base, in_new, base.len()),
            by: names_of_culprits(finding),
            waits: None,
            severity: in_new.most,
            role,
        })
    });
    cases.collect()
}

fn worst<'a>(one: &Named<'a>, id: &FindingId, role: &Role) -> Option<&'a Finding> {
    // Findings are sorted, worst first.
    one.side.report.findings.iter().find(|finding| finding.id == *id && victim(finding) == *role)
}

/// Whether a role's waits bear out that a finding is worse: it waits longer in all, or once far longer than ever before.
fn by_waits(base: &[Named<'_>], new: &[Named<'_>], terms: &Terms, rates: &[Case], role: &Role) -> Judgement {
    match rates.iter().find(|case| case.role == *role).map(|case| case.verdict) {
        Some(Judgement::Worse) => Judgement::Worse,
        _ if grew(base, new, terms, role) => Judgement::Worse,
        Some(Judgement::Undecided) => Judgement::Undecided,
        Some(Judgement::Same | Judgement::Better) | None => Judgement::Same,
    }
}

/// Whether a role's longest wait is so many times as long as the longest of the base that it matters.
fn grew(base: &[Named<'_>], new: &[Named<'_>], terms: &Terms, role: &Role) -> bool {
    let longest = |side: &[Named<'_>]| side.iter().filter_map(|one| longest_wait(one, role)).max();
    match (longest(base), longest(new)) {
        (Some(before), Some(now)) => now as f64 >= terms.margin * before as f64,
        (None, now) => now.is_some(),
        (_, None) => false,
    }
}

fn longest_wait(one: &Named<'_>, role: &Role) -> Option<u64> {
    let course = one.side.profile.courses().find(|(of, _)| of == role)?.1;
    course.waits().map(|waits| waits.max_ns)
}

/// Who had the CPU while a role waited, where a finding says it.
pub(super) fn culprits(new: &[Named<'_>], role: &Role) -> Vec<String> {
    let findings = new.iter().flat_map(|one| &one.side.report.findings);
    let mut of_role = findings.filter(|finding| victim(finding) == *role);
    of_role.next().map(names_of_culprits).unwrap_or_default()
}

fn names_of_culprits(finding: &Finding) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for culprit in &finding.culprits {
        // A role's name, so that a case of the next run has the same text.
        let name = Role::named(&Comm::from(culprit.comm.as_str())).name;
        if !names.contains(&name) && names.len() < MAX_CULPRITS {
            names.push(name);
        }
    }
    names
}
