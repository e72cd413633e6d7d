//! A heavier task or cgroup takes the CPU from lighter ones, kernel threads in the root cgroup first.
//!
//! Where the weights are known (nice from the priority, cgroups from a snapshot) the rule `weight` says it. Without a
//! snapshot a cgroup's weight shows only in its effect: one of two equals gets far less than half.

use std::cmp::Reverse;

use unstarve_model::{EventType, Nanos};
use unstarve_timeline::{ActorId, Rule};

use super::{FAIR_PERIOD, names, percent, title};
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
/// Inferred from one or two waits it would be chance…
const WAITS_INFERRED: u64 = 3;
/// A program that ends this part of its turns by itself was given what it asked for; it only came late, as after a long
/// slice or without wakeup preemption. Weight shows in turns that are cut short.
const CUT_SHORT: f64 = 0.5;
/// …and from less than ten periods of fair scheduling, too.
const WAITED_INFERRED: Nanos = Nanos(FAIR_PERIOD.0 * 10);

/// One starved task kind and its main occupant.
struct Pair<'a> {
    victim: ActorId,
    occupant: ActorId,
    account: &'a Account,
    severity: Severity,
    /// Whether the rule is known, not inferred.
    known: bool,
}

pub(crate) fn find(case: &Case<'_>, ping_pong: &[Finding]) -> Vec<Finding> {
    let explained = |victim: ActorId| {
        let name = case.name(victim);
        ping_pong.iter().any(|finding| finding.victim.comm == name)
    };
    let mut pairs: Vec<Pair<'_>> = case
        .victims()
        .filter(|(id, _)| case.is_fair(*id))
        .filter_map(|(victim, account)| {
            let by_weight = case.blamed(victim, is_weight).share_of(account.waited) >= MAIN_REASON;
            if by_weight {
                known_pair(case, victim, account)
            } else if !explained(victim) {
                inferred_pair(case, victim, account)
            } else {
                None
            }
        })
        .collect();
    pairs.sort_by_key(|pair| (Reverse((pair.severity, pair.account.starved())), pair.victim));
    // One block for each two kinds: sixteen starved compilers are one case.
    let mut groups: Vec<Vec<Pair<'_>>> = Vec::new();
    for pair in pairs {
        let sort = |pair: &Pair<'_>| (kind(case, pair.victim), case.name(pair.occupant), pair.known);
        match groups.iter_mut().find(|group| group.first().is_some_and(|first| sort(first) == sort(&pair))) {
            Some(group) => group.push(pair),
            None => groups.push(vec![pair]),
        }
    }
    groups.iter().filter_map(|group| of_group(case, group)).collect()
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

fn known_pair<'a>(case: &Case<'_>, victim: ActorId, account: &'a Account) -> Option<Pair<'a>> {
    let occupant = main_occupant(case, victim, is_weight)?;
    let lost = case.blamed(victim, is_weight);
    let severity = if account.shortfall() >= SHORTFALL {
        // A program that lost next to nothing is not worth a line; a worker may be.
        severity(account.starved(), case).filter(|s| *s > Severity::Info || case.is_kernel_worker(victim))?
    } else {
        // Nobody owes a task more than its nice asks for. But nobody chose a worker's nice against this program's, and
        // the worker's wait is everybody's.
        let outweighed = case.is_kernel_worker(victim) && case.actor(occupant).kernel_thread.is_none();
        let busy = lost.share_of(account.waited + account.runs.total) >= MAIN_REASON;
        severity(lost, case).filter(|_| outweighed && busy)?
    };
    Some(Pair { victim, occupant, account, severity, known: true })
}

fn inferred_pair<'a>(case: &Case<'_>, victim: ActorId, account: &'a Account) -> Option<Pair<'a>> {
    let occupant = main_occupant(case, victim, is_sharing)?;
    let long = account.waits >= WAITS_INFERRED && account.waited >= WAITED_INFERRED;
    let known = case.knows_group(victim) && case.knows_group(occupant);
    if known || !long || account.shortfall() < SHORTFALL_INFERRED || occupant == victim {
        return None;
    }
    // A worker's turn ends with its items, so it need not have been cut short.
    let cut_short = account.runs.preempted as f64 >= CUT_SHORT * account.runs.count as f64;
    if !cut_short && !case.is_kernel_worker(victim) {
        return None;
    }
    let lost = case.blamed(victim, |blame| blame.occupant == occupant && is_sharing(blame));
    // It must itself have had more than its due: then one of the two is favoured, not both crowded out by a third.
    let favoured = case.ledger.account(occupant).is_some_and(|account| account.got > account.ideal);
    // Who wakes the other is not outweighed by it but gives way to a wakee: another story, and no weight in it.
    let wakes = case.wakes(victim, occupant) + case.wakes(occupant, victim);
    let partners = wakes as f64 >= PARTNER * account.waits as f64;
    if lost.share_of(account.waited) < MAIN_REASON || !favoured || partners {
        return None;
    }
    severity(account.starved(), case).filter(|severity| *severity >= Severity::Warning)?;
    // It is inferred: never worse than a warning.
    Some(Pair { victim, occupant, account, severity: Severity::Warning, known: false })
}

fn of_group(case: &Case<'_>, pairs: &[Pair<'_>]) -> Option<Finding> {
    let worst = pairs.first()?;
    let victims: Vec<ActorId> = pairs.iter().map(|pair| pair.victim).collect();
    let occupants: Vec<ActorId> = pairs.iter().map(|pair| pair.occupant).collect();
    let draft = Draft {
        id: "weight-starvation",
        severity: worst.severity,
        confidence: if worst.known { 0.95 } else { 0.6 },
        sentence: if worst.known { known_sentence(case, worst, &victims) } else { inferred_sentence(case, worst) },
        evidence: if worst.known {
            vec![weights(case, worst.victim, worst.occupant), owed_evidence(case, worst.account)]
        } else {
            vec![
                owed_evidence(case, worst.account),
                format!(
                    "its cgroup's weight was not recorded (a bandwidth limit, cpu.max, would look alike); `unstarve \
                     record` keeps both, or read the weight with: {}",
                    remedy::read_weight_command(case, worst.occupant)
                ),
            ]
        },
        also_paid: Vec::new(),
        period: None,
        needs: &[EventType::Waking],
        infers_settings: !worst.known,
        remedies: remedy::against_weight(case, worst.victim, worst.occupant),
        victims,
    };
    let known = worst.known;
    let culprit =
        |blame: &Blame| if known { is_weight(blame) } else { occupants.contains(&blame.occupant) && is_sharing(blame) };
    Some(draft.finish(case, culprit))
}

fn known_sentence(case: &Case<'_>, worst: &Pair<'_>, victims: &[ActorId]) -> String {
    let heavy = case.blame(worst.victim).iter().filter(|blame| is_weight(blame)).map(|blame| blame.occupant);
    let lost: Nanos = victims.iter().map(|victim| case.blamed(*victim, is_weight)).sum();
    format!(
        "{} waited {lost} behind {}, which weighs more, and got {} of its equal share.",
        title(case, victims),
        names(case, heavy),
        percent(1.0 - worst.account.shortfall()),
    )
}

fn inferred_sentence(case: &Case<'_>, worst: &Pair<'_>) -> String {
    let name = case.name(worst.occupant);
    let nice = |id: ActorId| case.actor(id).prio().and_then(|prio| prio.nice()).unwrap_or(0);
    format!(
        "{} (nice {}) got only {} of an equal share beside {name} (nice {}): most likely {name} sits in a cgroup with a \
         high cpu.weight.",
        title(case, &[worst.victim]),
        nice(worst.victim),
        percent(1.0 - worst.account.shortfall()),
        nice(worst.occupant),
    )
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
