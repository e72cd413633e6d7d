//! Tasks wait while a CPU that they may use is idle.

use std::cmp::Reverse;

use unstarve_model::{EventType, LossKind};
use unstarve_sched::Rule;
use unstarve_timeline::ActorId;

use super::FindingKind;
use crate::case::{Blame, Case};
use crate::claim::{Claim, CpuClaim, CpuHeadline, Kind, Share, WaitClaim};
use crate::draft::Draft;
use crate::ledger::{Account, TICK};
use crate::remedy;
use crate::report::{Finding, Severity};
use crate::verdict::{self, Cause, Plight, Waiter};

/// Victim, CPU and wait are recorded; what kept it off is not claimed.
const BESIDE_ITS_IDLE_CPU: f64 = 0.95;
/// Report waits beside an idle CPU from this part of the recording up.
const LEAST_SHARE: f64 = 0.01;
/// This part of all the task's wait time must have been beside an idle CPU: an idle CPU would not have avoided the rest, and on a
/// busy host a few of thousands of waits are misplaced by a tick or two.
const PART_OF_WAITS: f64 = 0.05;
/// If switches are missing for this part of all runs, the events do not support the finding.
const MISSING: f64 = 0.1;
/// One such wait may be chance.
const WAITS: u64 = 3;
/// Without a snapshot, a task that migrated this often during the recording is assumed to be free to migrate.
const MOVES_INFERRED: u64 = 4;

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
    // The load balancer is a single cause: report its worst victim.
    findings.truncate(1);
    findings.extend(beside_its_own(case));
    findings
}

/// The victim's own CPU was idle, for longer than a CPU needs to leave idle: something kept the task from running there.
fn beside_its_own(case: &Case<'_>) -> Option<Finding> {
    let idle = Rule::Idle as usize;
    // If many switches are missing, the task may have run.
    let lost = case.losses.iter().filter(|loss| matches!(loss.kind, LossKind::MissingSwitch | LossKind::LostEvents));
    if lost.map(|loss| loss.count).sum::<u64>() as f64 >= MISSING * case.ledger.runs as f64 {
        return None;
    }
    let judge = |victim: ActorId, account: &Account| {
        let lost = case.blamed(victim, is_own_idle);
        let severity = verdict::severity(&case.plight(victim, Cause::OwnCpuIdle, account.longest_by_rule[idle], lost))?;
        Some((severity, account.longest_by_rule[idle], lost, victim))
    };
    let all = case.victims().filter_map(|(victim, account)| judge(victim, account));
    let (severity, longest, lost, victim) = all
        .filter(|(severity, ..)| *severity > Severity::Info)
        .max_by_key(|found| (found.0, found.1, Reverse(found.3)))?;
    let headline = CpuHeadline::OwnIdle { who: Kind::of(case, &[victim]), longest, lost };
    let draft = Draft {
        victims: vec![victim],
        evidence: [CpuClaim::IdleExitIsShort.into()]
            .into_iter()
            .chain([WaitClaim::bpf_scheduler(case).unwrap_or_else(|| CpuClaim::IdleCauses.into())])
            .collect(),
        period: crate::draft::period(case, &[victim]),
        infers_settings: true,
        remedies: remedy::against_unknown_limit(case, victim),
        ..Draft::new(KIND, severity, BESIDE_ITS_IDLE_CPU, headline)
    };
    Some(draft.finish(case, is_own_idle))
}

fn is_own_idle(blame: &Blame) -> bool {
    blame.rule == Rule::Idle
}

fn of_victim(case: &Case<'_>, victim: ActorId, account: &Account) -> Option<Finding> {
    let idle = &account.idle_elsewhere;
    if idle.known == 0 || idle.long < WAITS || case.actor(victim).kernel_thread.is_some_and(|k| k.bound_cpu().is_some())
    {
        return None;
    }
    let asked = case.knows_affinity(victim);
    // `taskset` migrates a task once, to where it then must stay.
    let moves = account.migrations;
    if !asked && moves < MOVES_INFERRED * u64::from(case.actor(victim).members) {
        return None;
    }
    // Threads that wait at the same time wait for the same idle CPU, which can take only one of them.
    let share = idle.long_span.share_of(case.span());
    let curable = idle.long_total.share_of(account.waited) >= PART_OF_WAITS;
    let plight = Plight { share, ..case.plight(victim, Cause::OtherCpuIdle, idle.longest, idle.long_span) };
    let plight = Plight { waiter: Waiter::Program, ..plight };
    // Time that an idle CPU would not have avoided is info, unless one wait is a stall. What is inferred is at most a warning.
    let alone = severity_of_one(&plight);
    let severity = if curable { verdict::severity(&plight)? } else { alone? };
    let severity = if asked { severity } else { severity.min(Severity::Warning) };
    let headline = CpuHeadline::OtherIdle {
        who: Kind::of(case, &[victim]),
        lost: idle.long_total,
        waits: idle.long,
        longest: idle.longest,
    };
    // A task that migrated may have been pinned later: only a snapshot shows which CPUs it may use.
    let confidence = if asked { 0.9 } else { 0.6 };
    let draft = Draft {
        victims: vec![victim],
        evidence: vec![
            Claim::from(CpuClaim::ShareBesideIdle { share: Share(share), tick: TICK }),
            if asked { CpuClaim::AffinityKnown } else { CpuClaim::AffinityInferred(moves) }.into(),
        ]
        .into_iter()
        .chain(WaitClaim::bpf_scheduler(case))
        .collect(),
        infers_settings: !asked,
        remedies: remedy::against_idle(case, victim),
        ..Draft::new(KIND, severity, confidence, headline)
    };
    Some(draft.finish(case, is_contention))
}

/// The severity by its longest wait alone, ignoring its share.
fn severity_of_one(plight: &Plight) -> Option<Severity> {
    verdict::severity(&Plight { share: plight.share.min(LEAST_SHARE), ..*plight })
}

/// Occupants of the CPU on which it waited that are contention; idle-exit latency of that CPU is not.
fn is_contention(blame: &Blame) -> bool {
    !matches!(blame.rule, Rule::Idle | Rule::Unknown | Rule::Throttled)
}
