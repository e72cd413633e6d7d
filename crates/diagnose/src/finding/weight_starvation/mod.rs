//! A heavier task or cgroup takes the CPU from lighter ones, in particular from kernel threads in the root cgroup.
//!
//! If the weights are known (nice from the priority, cgroups from a snapshot), the rule `weight` shows it. Without a snapshot a
//! cgroup's weight only shows in its effect: one of two equals gets far less than half.
//!
//! One finding for each heavy group (or kind of task). It names the worst kind of victim; the other victims are payers in its
//! price.

mod claims;
mod meant;

use std::cmp::Reverse;

use unstarve_model::{EventType, Nanos};
use unstarve_sched::Rule;
use unstarve_timeline::ActorId;

use self::claims::{inferred_evidence, inferred_headline, known_evidence, known_headline, unknown_sessions};
use self::meant::{
    got_as_asked, has_its_turn, highest_price, is_due_to_nice, may_be_meant, price_of_programs, price_of_service,
    works_for,
};

use super::completion_ping_pong::KIND as PING_PONG;
use super::impact::{self, Felt};
use super::intruders::ran;
use super::limits::{Allowance, Allowances};
use super::order::ABOUT_AS_MUCH;
use super::{FAIR_PERIOD, FindingKind};
use crate::case::{Blame, Case};
use crate::claim::WaitClaim;
use crate::draft::{Draft, payer_row};
use crate::ledger::Account;
use crate::remedy;
use crate::report::{Finding, Severity, VictimKind};
use crate::verdict::{self, Cause, Cost, MAIN_REASON, Plight, Waiter};

/// Owed time must be at least this part of what was due: a task that received three quarters of its share is not starved.
const SHORTFALL: f64 = 0.25;
/// Without a snapshot: slices, ticks and lag of the fair class never explain less than half of an equal share.
const SHORTFALL_INFERRED: f64 = 0.5;
/// With this many wakeups between the two per wait they are partners.
const PARTNER: f64 = 0.1;
/// Inferred from fewer waits it could be chance…
const WAITS_INFERRED: u64 = 3;
/// A program that ends this part of its runs by itself got the CPU time that it asked for, only late, as after a long slice or
/// without wakeup preemption. Weight shows in runs that are cut short.
const CUT_SHORT: f64 = 0.5;
/// …and also from less wait time than ten periods of fair scheduling.
const WAITED_INFERRED: Nanos = Nanos(FAIR_PERIOD.0 * 10);
/// One kind of starved task and its main occupant.
struct Pair<'a> {
    victim: ActorId,
    occupant: ActorId,
    account: &'a Account,
    felt: Felt,
    severity: Severity,
    /// Time that it waited behind the occupant and similar ones, without throttled time.
    behind: Nanos,
    /// The longest part of that in one wait.
    longest: Nanos,
    /// What its quotas leave to it.
    allowance: Allowance,
    /// Whether the rule is known, not inferred.
    known: bool,
}

/// What this module finds.
pub(crate) const KIND: FindingKind = FindingKind {
    id: "weight-starvation",
    title: "a heavier task or cgroup takes the CPU from lighter ones",
    about: "Kernel threads sit in the root cgroup, where each competes with whole top-level groups: a group of \
            cpu.weight 2500 outweighs a worker 25 to 1. What counts is what the lighter side lost against an \
            equal share, and what others paid for it.",
    needs: &[EventType::Waking],
    snapshot: Some("weights of cgroups; without them a weight shows in its effect only"),
    find,
};

/// `before` contains findings about workers and their consumers: they explain what would otherwise be inferred as weight.
fn find(case: &Case<'_>, before: &[Finding]) -> Vec<Finding> {
    // Weights are rules of the fair class; a BPF scheduler has its own.
    if case.bpf_scheduler().is_some() {
        return Vec::new();
    }
    let explained =
        |victim: ActorId| before.iter().any(|finding| finding.id == PING_PONG && finding.actors.contains(&victim));
    let allowances = Allowances::of(case);
    let pairs = case.victims().filter(|(id, _)| case.is_fair(*id)).filter_map(|(victim, account)| {
        let allowance = allowances.get(victim, account);
        let by_weight = case.blamed(victim, is_weight).share_of(account.waited) >= MAIN_REASON;
        if by_weight || account.longest_mainly[Rule::Weight as usize] >= FAIR_PERIOD {
            known_pair(case, victim, account, allowance)
        } else if !explained(victim) {
            inferred_pair(case, victim, account, allowance)
        } else {
            None
        }
    });
    // One finding per heavy group, with all its victims.
    let mut groups: Vec<((String, bool), Vec<Pair<'_>>)> = Vec::new();
    for pair in pairs {
        let culprit = (heavy_side(case, &pair), pair.known);
        match groups.iter_mut().find(|(known, _)| *known == culprit) {
            Some((_, group)) => group.push(pair),
            None => groups.push((culprit, vec![pair])),
        }
    }
    groups.into_iter().filter_map(|(_, group)| of_group(case, group)).collect()
}

/// The cgroup, or the kind of task, that outweighs the victim.
fn heavy_side(case: &Case<'_>, pair: &Pair<'_>) -> String {
    let path = || Some(case.rivals(pair.victim, pair.occupant)?.occupant?.path.clone());
    path().unwrap_or_else(|| case.name(pair.occupant))
}

fn kind(case: &Case<'_>, victim: ActorId) -> String {
    case.actor(victim)
        .kernel_thread
        .map_or_else(|| case.name(case.mainly(victim)), |thread| VictimKind::from(Some(thread)).to_string())
}

fn is_weight(blame: &Blame) -> bool {
    blame.rule == Rule::Weight
}

fn is_sharing(blame: &Blame) -> bool {
    matches!(blame.rule, Rule::Fair | Rule::WakeupPreemption)
}

/// CPU time of all occupants that outweigh the victim.
fn had_by_heavier(case: &Case<'_>, victim: ActorId) -> Nanos {
    let heavier = case.blame(victim).iter().filter(|blame| is_weight(blame));
    heavier.map(|blame| ran(case, blame.occupant)).sum()
}

fn main_occupant(case: &Case<'_>, victim: ActorId, fits: fn(&Blame) -> bool) -> Option<ActorId> {
    Some(case.blame(victim).iter().find(|blame| fits(blame))?.occupant)
}

fn known_pair<'a>(case: &Case<'_>, victim: ActorId, account: &'a Account, allowance: Allowance) -> Option<Pair<'a>> {
    let occupant = main_occupant(case, victim, is_weight)?;
    let stalled = account.stalled_mainly[Rule::Weight as usize].saturating_sub(allowance.hidden);
    let by_weight = case.blamed(victim, is_weight);
    let is_main = by_weight.share_of(account.waited) >= MAIN_REASON;
    // If most of its waits have other reasons, only count waits of which the heavier ones had most.
    let behind = if is_main { by_weight.saturating_sub(allowance.hidden) } else { stalled };
    let longest = account.longest_mainly[Rule::Weight as usize].saturating_sub(allowance.longest_stop);
    if !impact::is_felt(case, victim, account, behind) {
        return unfelt_pair(case, (victim, occupant), account, allowance, (behind, longest));
    }
    let worker = case.is_kernel_worker(victim);
    let felt = if case.is_last_by_choice(victim, occupant) {
        Felt { lost: price_of_service(case, victim).min(behind), stall: Nanos::ZERO }
    } else if worker && works_for(case, victim, occupant) {
        Felt { lost: price_of_programs(case, victim).min(behind), stall: longest }
    } else {
        let short = is_main && allowance.shortfall(account) >= SHORTFALL;
        let owed = if short { account.starved().min(allowance.owed(account)) } else { Nanos::ZERO };
        // A task is owed no more than its nice asks for. A worker's nice, however, was not chosen with this program in mind, and
        // many tasks wait with the worker.
        let outweighed = worker && case.actor(occupant).kernel_thread.is_none();
        let busy = behind.share_of(account.waited + account.runs.total) >= MAIN_REASON;
        let of_worker = if outweighed && busy { behind } else { Nanos::ZERO };
        let price = highest_price(case, victim).min(behind);
        let in_turn =
            !case.is_kernel_thread(victim) && has_its_turn(case, (victim, occupant), (account, &allowance), longest);
        let (stalled, stall) = if in_turn { (Nanos::ZERO, Nanos::ZERO) } else { (stalled, longest) };
        Felt { lost: stalled.max(owed).max(of_worker).max(price), stall }
    };
    // The waits of threads that wait at the same time add up; together they lost no more than the heavier ones had.
    let felt = Felt { lost: felt.lost.min(had_by_heavier(case, victim)), ..felt };
    // Info is enough to report a worker, but not a program.
    let severity = severity(felt, case.span()).filter(|severity| *severity > Severity::Info || worker)?;
    let stall = severity_of_stall(felt, case.span());
    let severity = if !got_as_asked(case, victim, account, &allowance) {
        severity
    } else if is_due_to_nice(case, (victim, occupant), allowance.shortfall(account), longest) {
        Severity::Info
    } else {
        stall.unwrap_or(Severity::Info)
    };
    Some(Pair { victim, occupant, account, felt, severity, behind, longest, allowance, known: true })
}

fn severity(felt: Felt, span: Nanos) -> Option<Severity> {
    impact::severity(felt, Cause::Weight, span)
}

fn severity_of_stall(felt: Felt, span: Nanos) -> Option<Severity> {
    severity(Felt { lost: Nanos::ZERO, ..felt }, span)
}

/// A kernel thread without visible payers: if it never runs, it wakes nothing. The length of its wait decides.
fn unfelt_pair<'a>(
    case: &Case<'_>,
    (victim, occupant): (ActorId, ActorId),
    account: &'a Account,
    allowance: Allowance,
    (behind, longest): (Nanos, Nanos),
) -> Option<Pair<'a>> {
    let meant = case.is_last_by_choice(victim, occupant) || works_for(case, victim, occupant);
    let lost = if meant { Nanos::ZERO } else { behind.min(had_by_heavier(case, victim)) };
    let plight = case.plight(victim, Cause::Weight, longest, lost).at_cost(Cost::NotSeen);
    let plight = if case.is_last_by_choice(victim, occupant) {
        Plight { waiter: Waiter::AskedToBeLast, ..plight }
    } else {
        plight
    };
    let severity = verdict::severity(&plight).filter(|severity| *severity > Severity::Info)?;
    let felt = Felt { lost, stall: longest };
    Some(Pair { victim, occupant, account, felt, severity, behind, longest, allowance, known: true })
}

fn inferred_pair<'a>(case: &Case<'_>, victim: ActorId, account: &'a Account, allowance: Allowance) -> Option<Pair<'a>> {
    let occupant = main_occupant(case, victim, is_sharing)?;
    let long = account.waits >= WAITS_INFERRED && account.waited >= WAITED_INFERRED;
    let known = case.knows_group(victim) && case.knows_group(occupant);
    if known || !long || allowance.shortfall(account) < SHORTFALL_INFERRED || occupant == victim {
        return None;
    }
    // A worker's run ends with its items, so it need not have been cut short.
    let cut_short = account.runs.preempted as f64 >= CUT_SHORT * account.runs.count as f64;
    if !cut_short && !case.is_kernel_worker(victim) {
        return None;
    }
    let behind = case.blamed(victim, |blame| blame.occupant == occupant && is_sharing(blame));
    // The occupant must have received more than its due: then it is favoured. Otherwise a third party crowds out both.
    let favoured = case.ledger.account(occupant).is_some_and(|account| account.got > account.ideal);
    // If one wakes the other, it is not outweighed but lets its wakee run: no question of weight.
    let wakes = case.wakes(victim, occupant) + case.wakes(occupant, victim);
    let partners = wakes as f64 >= PARTNER * account.waits as f64;
    if behind.share_of(account.waited) < MAIN_REASON || !favoured || partners {
        return None;
    }
    let felt = Felt { lost: account.starved().min(allowance.owed(account)), stall: Nanos::ZERO };
    let longest = account.longest;
    severity(felt, case.span()).filter(|severity| *severity >= Severity::Warning)?;
    // Inferred, so at most a warning. A CPU-bound victim may be SCHED_IDLE on purpose, which events do not distinguish from nice
    // 0.
    let severity = if may_be_meant(case, victim, occupant, account) { Severity::Info } else { Severity::Warning };
    Some(Pair { victim, occupant, account, felt, severity, behind, longest, allowance, known: false })
}

/// The worst kind of victim first: kernel workers before programs, then by time lost including price.
fn sort(case: &Case<'_>, pairs: &mut [Pair<'_>]) {
    let most = pairs.iter().map(|pair| pair.behind).max().unwrap_or(Nanos::ZERO);
    let enough = Nanos((most.0 as f64 * ABOUT_AS_MUCH) as u64);
    pairs.sort_by_cached_key(|pair| {
        let served = impact::price(case, pair.victim) >= enough;
        let worker = pair.behind >= enough && served && case.is_kernel_worker(pair.victim);
        Reverse((worker, pair.severity, pair.felt.lost + impact::price(case, pair.victim), Reverse(pair.victim)))
    });
}

fn of_group(case: &Case<'_>, mut pairs: Vec<Pair<'_>>) -> Option<Finding> {
    sort(case, &mut pairs);
    let first = kind(case, pairs.first()?.victim);
    let severity = pairs.iter().map(|pair| pair.severity).max()?;
    let (mut named, also): (Vec<Pair<'_>>, Vec<Pair<'_>>) =
        pairs.into_iter().partition(|pair| kind(case, pair.victim) == first);
    // Put names that a thread had only for a moment last: nobody can look for them.
    named.sort_by_key(|pair| case.mainly(pair.victim) != pair.victim);
    let worst = named.first()?;
    let known = worst.known;
    let victims: Vec<ActorId> = named.iter().map(|pair| pair.victim).collect();
    let occupants: Vec<ActorId> = named.iter().map(|pair| pair.occupant).collect();
    let uncertain = known && case.may_be_of_two_sessions(worst.victim, worst.occupant);
    let mut evidence = if known { known_evidence(case, worst) } else { inferred_evidence(case, worst) };
    evidence.extend(WaitClaim::polls(case, worst.occupant));
    if uncertain {
        evidence.push(unknown_sessions(case, worst).into());
    }
    evidence.extend(WaitClaim::also_behind(case, also.iter().map(|pair| (pair.victim, pair.behind))));
    let headline = if known { known_headline(case, &named, worst) } else { inferred_headline(case, worst) };
    let draft = Draft {
        evidence,
        also_paid: also.iter().map(|pair| payer_row(case, pair.victim, pair.behind)).collect(),
        infers_settings: !known || case.snapshot.is_none(),
        remedies: remedy::against_weight(case, worst.victim, worst.occupant),
        victims,
        ..Draft::new(KIND, severity, if known && !uncertain { 0.95 } else { 0.6 }, headline)
    };
    let culprit =
        |blame: &Blame| if known { is_weight(blame) } else { occupants.contains(&blame.occupant) && is_sharing(blame) };
    Some(draft.finish(case, culprit))
}
