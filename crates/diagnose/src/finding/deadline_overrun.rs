//! A deadline task needs more CPU time in a period than its runtime: the kernel throttles it in the middle of its work.

use unstarve_model::{EventType, Nanos, Policy};
use unstarve_sched::Rule;

use super::FindingKind;
use super::overrun::stopped;
use super::throttled::is_limit;
use crate::case::Case;
use crate::claim::{Kind, LimitClaim, LimitHeadline};
use crate::draft::Draft;
use crate::ledger::Account;
use crate::remedy;
use crate::report::{Finding, Severity};

/// Fewer overruns than this are a start-up, or chance.
const OVERRUNS: u64 = 3;
/// A task that ends this part of its runs before its runtime is used up executes pieces of work, which an overrun delays.
/// Otherwise it computes without end, and its runtime is there to limit it.
const PIECES: f64 = 0.1;

/// What this module finds.
pub(super) const KIND: FindingKind = FindingKind {
    id: "deadline-overrun",
    title: "a deadline task needs more than the runtime that it asked for",
    about: "The kernel stops a SCHED_DEADLINE task that has used up its runtime until its next period begins, even if the CPU \
            idles meanwhile. Where the runtime is not known, a stop may also be the task's own sched_yield(): then it is a \
            remark of `throttled`.",
    needs: &[EventType::Waking],
    snapshot: Some("the task's runtime and period"),
    find: |case, _| find(case).into_iter().collect(),
};

/// The number of runs that used up the runtime, if it is large enough.
pub(super) fn overruns(account: &Account) -> Option<u64> {
    account.runs.spent.filter(|spent| *spent >= OVERRUNS)
}

fn find(case: &Case<'_>) -> Option<Finding> {
    let victims = stopped(case, Policy::Deadline);
    let (worst, account, spent) = victims.iter().find_map(|(id, account)| Some((*id, *account, overruns(account)?)))?;
    let asked = case.first_tid(worst).and_then(|tid| case.snapshot?.task(tid)?.deadline)?;
    let (runtime, period) = (Nanos(asked.runtime_ns), Nanos(asked.period_ns));
    let rest = account.runs.count.saturating_sub(spent);
    let in_pieces = rest as f64 >= PIECES * account.runs.count as f64;
    let lost = case.blamed(worst, is_limit);
    let longest = account.longest_by_rule[Rule::Throttled as usize];
    let headline = LimitHeadline::Runtime { who: Kind::of(case, &[worst]), runtime, times: spent, lost, longest };
    let draft = Draft {
        victims: vec![worst],
        evidence: vec![
            LimitClaim::AskedFor { runtime, period }.into(),
            LimitClaim::RunsSpent { spent, runs: account.runs.count }.into(),
            if in_pieces { LimitClaim::RunsEndedEarlier(rest) } else { LimitClaim::NoRunEndedEarlier }.into(),
        ],
        remedies: remedy::against_overrun(case, worst),
        ..Draft::new(KIND, if in_pieces { Severity::Warning } else { Severity::Info }, 0.9, headline)
    };
    Some(draft.finish(case, is_limit))
}
