//! A heavier task or cgroup takes the CPU from lighter ones, kernel threads in the root cgroup first.
//!
//! Where the weights are known (nice from the priority, cgroups from a snapshot) the rule `weight` says it. Without a
//! snapshot a cgroup's weight shows only in its effect: one of two equals gets far less than half.

use std::cmp::Reverse;

use unstarve_model::{EventType, Nanos};
use unstarve_timeline::{ActorId, Rule};

use super::{names, percent, title};
use crate::case::{Blame, Case};
use crate::draft::Draft;
use crate::ledger::Account;
use crate::remedy;
use crate::report::{Finding, Severity};

/// Owed time counts from this part of the trace: 1 % of a CPU is what fair sharing rounds off.
const OWED_INFO: f64 = 0.01;
/// A task that a twentieth of the trace is due and does not get is held back for good.
const OWED_WARNING: f64 = 0.05;
/// A fifth of a CPU that somebody needed.
const OWED_CRITICAL: f64 = 0.2;
/// It must also be much of what the victim was due: a task that got three quarters of its share is not starved.
const SHORTFALL: f64 = 0.25;
/// Without a snapshot: less than half of an equal share is beyond any slice, tick or lag of the fair class.
const SHORTFALL_INFERRED: f64 = 0.5;
/// The occupants in question must be the main reason for the waits.
const MAIN_REASON: f64 = 0.5;
/// Wakeups between the two, for each wait, that make them partners.
const PARTNER: f64 = 0.1;
/// Inferred from fewer waits than this it would be chance.
const WAITS_INFERRED: u64 = 50;

pub(crate) fn find(case: &Case<'_>, ping_pong: &[Finding]) -> Vec<Finding> {
    let explained = |victim: ActorId| {
        let name = case.name(victim);
        ping_pong.iter().any(|finding| finding.victim.comm == name)
    };
    let mut victims: Vec<(ActorId, &Account)> = case.victims().filter(|(id, _)| case.is_fair(*id)).collect();
    victims.sort_by_key(|(id, account)| Reverse((case.is_kernel_worker(*id), account.starved(), *id)));
    let mut findings = Vec::new();
    let mut seen: Vec<(String, String)> = Vec::new();
    for (victim, account) in victims {
        let by_weight = case.blamed(victim, is_weight).share_of(account.waited) >= MAIN_REASON;
        let Some(occupant) = main_occupant(case, victim, if by_weight { is_weight } else { is_sharing }) else {
            continue;
        };
        let found = if by_weight {
            of_known_weight(case, victim, account, occupant)
        } else if !explained(victim) {
            of_inferred_weight(case, victim, account, occupant)
        } else {
            None
        };
        // One block for each pair of kinds: sixteen starved compilers are one case.
        let pair = (kind(case, victim), case.name(occupant));
        if let Some(finding) = found.filter(|_| !seen.contains(&pair)) {
            seen.push(pair);
            findings.push(finding);
        }
    }
    findings
}

fn kind(case: &Case<'_>, victim: ActorId) -> String {
    case.actor(victim).kernel_thread.map_or_else(|| case.name(victim), |thread| thread.word().into())
}

fn is_weight(blame: &Blame) -> bool {
    blame.rule == Rule::Weight
}

fn is_sharing(blame: &Blame) -> bool {
    matches!(blame.rule, Rule::Fair | Rule::WakeupPreemption)
}

fn main_occupant(case: &Case<'_>, victim: ActorId, fits: fn(&Blame) -> bool) -> Option<ActorId> {
    Some(case.blame(victim).iter().find(|blame| fits(blame))?.occupant)
}

fn severity(owed: Nanos, case: &Case<'_>) -> Option<Severity> {
    let share = owed.share_of(case.span());
    if share >= OWED_CRITICAL {
        Some(Severity::Critical)
    } else if share >= OWED_WARNING {
        Some(Severity::Warning)
    } else {
        (share >= OWED_INFO).then_some(Severity::Info)
    }
}

fn of_known_weight(case: &Case<'_>, victim: ActorId, account: &Account, occupant: ActorId) -> Option<Finding> {
    let lost = case.blamed(victim, is_weight);
    let severity = if account.shortfall() >= SHORTFALL {
        severity(account.starved(), case)?
    } else {
        // Nobody owes a task more than its nice asks for. But nobody chose a worker's nice against this program's, and
        // the worker's wait is everybody's.
        let outweighed = case.is_kernel_worker(victim) && case.actor(occupant).kernel_thread.is_none();
        let busy = lost.share_of(account.waited + account.runs.total) >= MAIN_REASON;
        severity(lost, case).filter(|_| outweighed && busy)?
    };
    let heavy = names(case, case.blame(victim).iter().filter(|blame| is_weight(blame)).map(|blame| blame.occupant));
    let draft = Draft {
        id: "weight-starvation",
        severity,
        confidence: 0.95,
        sentence: format!(
            "{} waited {lost} behind {heavy}, which weighs more, and got {} of its equal share.",
            title(case, &[victim]),
            percent(1.0 - account.shortfall()),
        ),
        victims: vec![victim],
        evidence: vec![weights(case, victim, occupant), owed_evidence(case, account)],
        also_paid: Vec::new(),
        period: None,
        needs: &[EventType::Waking],
        infers_settings: false,
        remedies: remedy::against_weight(case, victim, occupant),
    };
    Some(draft.finish(case, is_weight))
}

fn of_inferred_weight(case: &Case<'_>, victim: ActorId, account: &Account, occupant: ActorId) -> Option<Finding> {
    let enough = account.waits >= WAITS_INFERRED && account.shortfall() >= SHORTFALL_INFERRED;
    if case.snapshot.is_some() || !enough || occupant == victim {
        return None;
    }
    let by_it = |blame: &Blame| blame.occupant == occupant && is_sharing(blame);
    let lost = case.blamed(victim, by_it);
    // It must itself have had more than its due: then one of the two is favoured, not both crowded out by a third.
    let favoured = case.ledger.account(occupant).is_some_and(|account| account.got > account.ideal);
    // Who wakes the other is not outweighed by it but gives way to a wakee: another story, and no weight in it.
    let wakes = case.wakes(victim, occupant) + case.wakes(occupant, victim);
    let partners = wakes as f64 >= PARTNER * account.waits as f64;
    if lost.share_of(account.waited) < MAIN_REASON || !favoured || partners {
        return None;
    }
    severity(account.starved(), case).filter(|severity| *severity >= Severity::Warning)?;
    let name = case.name(occupant);
    let draft = Draft {
        id: "weight-starvation",
        // It is inferred: never worse than a warning.
        severity: Severity::Warning,
        confidence: 0.6,
        sentence: format!(
            "{} got only {} of an equal share beside {name}, although both have nice {}: most likely {name} sits in a \
             cgroup with a high cpu.weight.",
            title(case, &[victim]),
            percent(1.0 - account.shortfall()),
            case.actor(victim).prio().and_then(|prio| prio.nice()).unwrap_or(0),
        ),
        victims: vec![victim],
        evidence: vec![
            owed_evidence(case, account),
            format!(
                "cgroup weights are not in this trace (a bandwidth limit, cpu.max, would look alike); `unstarve record` keeps \
                 both, or read the weight with: {}",
                remedy::read_weight_command(case, occupant)
            ),
        ],
        also_paid: Vec::new(),
        period: None,
        needs: &[EventType::Waking],
        infers_settings: true,
        remedies: remedy::against_weight(case, victim, occupant),
    };
    Some(draft.finish(case, by_it))
}

fn owed_evidence(case: &Case<'_>, account: &Account) -> String {
    let owed = account.owed();
    format!(
        "owed {owed} ({} of the trace): an equal share of its CPU would have been {}, it got {}",
        percent(owed.share_of(case.span())),
        account.ideal,
        account.got
    )
}

fn weights(case: &Case<'_>, victim: ActorId, occupant: ActorId) -> String {
    let told = |id: ActorId| match case.actor(id).group_weight() {
        Some(weight) => format!("{} competes with its top-level cgroup's load weight {weight}", case.name(id)),
        None => {
            let own = case.actor(id).prio().and_then(|prio| prio.load_weight()).unwrap_or(1024);
            format!("{} with its own load weight {own}", case.name(id))
        }
    };
    format!("{}, {}", told(occupant), told(victim))
}
