//! Tasks wait while a CPU that they may use is idle.

use std::cmp::Reverse;

use unstarve_model::{EventType, Nanos};
use unstarve_timeline::{ActorId, Rule};

use super::{FAIR_PERIOD, FindingKind, percent, title};
use crate::case::{Blame, Case};
use crate::draft::Draft;
use crate::ledger::{Account, TICK};
use crate::remedy;
use crate::report::{Finding, Severity};

/// An idle CPU may leave a waiting task alone until its balancer's next tick; only waits with more idle time elsewhere
/// than that count. This part of the trace so lost is worth a line…
const SHARE_INFO: f64 = 0.01;
/// …a twentieth is a CPU left unused while somebody needs it…
const SHARE_WARNING: f64 = 0.05;
/// …and for a quarter of the time the balancer does not work at all for this task.
const SHARE_CRITICAL: f64 = 0.25;
/// Of all that the task waited this much must have been beside an idle CPU: an idle CPU would not have spared it the rest,
/// and on a busy host a few of thousands of waits are misplaced by a tick or two.
const PART_OF_WAITS: f64 = 0.05;
/// One such wait is chance.
const WAITS: u64 = 3;
/// Without a snapshot, a task that moved this often while it was recorded is taken to be free to move.
const MOVES_INFERRED: u64 = 4;
/// A single wait of this length beside an idle CPU is worth a warning by itself, if it is not the only one.
const LONGEST: Nanos = Nanos(FAIR_PERIOD.0 * 2);

/// What this module finds.
pub(super) const KIND: FindingKind = FindingKind {
    id: "idle-while-runnable",
    title: "a task waits while a CPU that it may use is idle",
    about: "The load balancer left it where it was for longer than a tick. Affinities, isolated CPUs and bugs of \
            the balancer do that.",
    needs: &[EventType::Migrate, EventType::Waking],
    snapshot: Some("which CPUs the task may use; without it that is inferred from where it ran"),
    find: |case, _| find(case),
};

pub(crate) fn find(case: &Case<'_>) -> Vec<Finding> {
    let mut findings: Vec<Finding> =
        case.victims().filter_map(|(victim, account)| of_victim(case, victim, account)).collect();
    findings.sort_by_key(|finding| (Reverse(finding.severity), Reverse(finding.waits.total_ns)));
    // The balancer is one cause: its worst victim tells it.
    findings.truncate(1);
    findings
}

fn of_victim(case: &Case<'_>, victim: ActorId, account: &Account) -> Option<Finding> {
    let idle = &account.idle_elsewhere;
    if idle.known == 0 || idle.long < WAITS || case.actor(victim).kernel_thread.is_some_and(|k| k.bound_cpu().is_some())
    {
        return None;
    }
    let asked = case.knows_affinity(victim);
    // `taskset` moves a task once, to where it then has to stay.
    let moves = account.migrations;
    if !asked && moves < MOVES_INFERRED * u64::from(case.actor(victim).members) {
        return None;
    }
    // Threads that wait together wait for the same idle CPU, and it takes one of them.
    let share = idle.long_span.share_of(case.span());
    let curable = idle.long_total.share_of(account.waited) >= PART_OF_WAITS;
    let severity = if share >= SHARE_CRITICAL && asked && curable {
        Severity::Critical
    } else if share >= SHARE_WARNING && curable || idle.longest >= LONGEST && share >= SHARE_INFO {
        Severity::Warning
    } else if share >= SHARE_INFO {
        Severity::Info
    } else {
        return None;
    };
    let draft = Draft {
        kind: KIND,
        severity,
        // A task that has moved may still have been pinned since: only a snapshot tells what it may use.
        confidence: if asked { 0.9 } else { 0.6 },
        sentence: format!(
            "{} waited beside an idle CPU that it may use: {} in {} waits, up to {} at a time.",
            title(case, &[victim]),
            idle.long_total,
            idle.long,
            idle.longest
        ),
        victims: vec![victim],
        evidence: vec![
            format!("{} of the trace; waits with less than a tick ({TICK}) of it are left out", percent(share)),
            if asked {
                "its affinity is known from the host snapshot".into()
            } else {
                format!("its affinity is inferred: it has moved {moves} times")
            },
        ],
        also_paid: Vec::new(),
        period: None,
        needs: KIND.needs,
        infers_settings: !asked,
        remedies: remedy::against_idle(case, victim),
    };
    Some(draft.finish(case, is_contention))
}

/// The occupants of the CPU on which it waited; its own CPU's idle-exit latency is not contention.
fn is_contention(blame: &Blame) -> bool {
    !matches!(blame.rule, Rule::Idle | Rule::Unknown | Rule::Throttled)
}
