//! Tasks migrate between CPUs so often that it costs more than the waits it saves.

use std::cmp::Reverse;

use unstarve_model::{EventType, Nanos};
use unstarve_sched::Rule;
use unstarve_timeline::ActorId;

use super::FindingKind;
use crate::case::{Blame, Case};
use crate::claim::{Kind, Share, SwitchingClaim, SwitchingHeadline};
use crate::draft::Draft;
use crate::ledger::Account;
use crate::remedy;
use crate::report::{Finding, Severity};

/// The kernel's own estimate of what a cold cache costs after a migration (`sched_migration_cost_ns`, 0.5 ms, from 3.10 to 7.2).
/// A task that runs for less than that between two migrations always has a cold cache.
const MIGRATION_COST: Nanos = Nanos::from_micros(500);
/// Migrations per second of running. Below this rate they cost less than 1 % at 10 µs each.
const PER_SECOND: f64 = 1000.0;
/// Fewer migrations may be a start-up, which spreads its tasks once.
const LEAST: u64 = 500;
/// The task must use this part of a CPU; otherwise it has no warm cache to lose.
const BUSY: f64 = 0.1;
/// Migrating at most wakeups is how the fair class finds idle CPUs. Migrating again while waiting, at this rate per wait, is
/// churn.
const MOVES_PER_WAIT: f64 = 0.5;

/// What this module finds.
pub(super) const KIND: FindingKind = FindingKind {
    id: "migration-churn",
    title: "tasks move between CPUs so often that it costs more than the waits it saves",
    about: "The fair class moves tasks to idle CPUs when they are woken. A task that computes, and is moved again while \
            it waits, finds cold caches each time.",
    needs: &[EventType::Migrate],
    snapshot: None,
    find: |case, _| find(case),
};

pub(crate) fn find(case: &Case<'_>) -> Vec<Finding> {
    let mut findings: Vec<Finding> =
        case.victims().filter_map(|(victim, account)| of_victim(case, victim, account)).collect();
    findings.sort_by_key(|finding| Reverse(finding.waits.total_ns));
    findings.truncate(3);
    findings
}

fn of_victim(case: &Case<'_>, victim: ActorId, account: &Account) -> Option<Finding> {
    let runs = &account.runs;
    let moves = account.migrations;
    let often = moves >= LEAST
        && moves as f64 >= PER_SECOND * runs.total.as_secs_f64()
        && runs.total.share_of(case.span()) >= BUSY
        && runs.total < Nanos(MIGRATION_COST.0.saturating_mul(moves));
    if !often {
        return None;
    }
    // A migration can only save wait time. If the waits are long despite the migrations, and tasks are migrated while they
    // already wait, nothing was saved.
    let per_wait = account.moves_while_waiting as f64 / account.waits.max(1) as f64;
    let cost = Nanos(MIGRATION_COST.0.saturating_mul(moves));
    let in_vain = per_wait >= MOVES_PER_WAIT && account.waited > runs.total;
    let severity = if in_vain { Severity::Warning } else { Severity::Info };
    let headline = SwitchingHeadline::Migrates {
        who: Kind::of(case, &[victim]),
        moves,
        ran_for_each: Nanos(runs.total.0 / moves.max(1)),
    };
    let draft = Draft {
        victims: vec![victim],
        evidence: vec![
            SwitchingClaim::ColdCaches { each: MIGRATION_COST, all: cost }.into(),
            SwitchingClaim::MovedInWaits(Share(per_wait.min(1.0))).into(),
        ],
        remedies: remedy::against_churn(case, victim),
        ..Draft::new(KIND, severity, if in_vain { 0.8 } else { 0.6 }, headline)
    };
    Some(draft.finish(case, is_contention))
}

fn is_contention(blame: &Blame) -> bool {
    !matches!(blame.rule, Rule::Idle | Rule::Unknown)
}
