//! A worker finishes one item, wakes its consumer, and is at once preempted by it. The consumer finds too little and sleeps
//! again, and the worker continues with the next item: two context switches per item instead of a few per batch.

use std::cmp::Reverse;

use unstarve_model::{EventType, Nanos};
use unstarve_sched::{Rule, load_weight_of_prio};
use unstarve_timeline::ActorId;

use super::FindingKind;
use crate::case::Case;
use crate::cgroup_competition::NICE_0;
use crate::claim::{Actors, Claim, Kind, Share, SwitchingClaim, SwitchingHeadline};
use crate::draft::Draft;
use crate::ledger::Account;
use crate::remedy;
use crate::report::{Finding, Severity};
use crate::verdict::{self, Cause, Plight, Waiter};

/// An undisturbed worker drains its queue and then sleeps. A worker that is preempted at the end of most of its runs is
/// interrupted in its work.
const PREEMPTED_STAYS: f64 = 0.5;
/// "One at a time": two context switches per item; a batch would need fewer.
const ITEMS_PER_STAY: f64 = 1.5;
/// Most preemptions must be by a task that the worker itself has just woken: its consumer.
const BY_CONSUMER: f64 = 0.5;
/// With one request in flight the consumer also runs after each item, and nothing is wrong: there is no next item. Then the
/// worker sleeps and is woken for each item. A worker with a backlog is woken for less than half of its items.
const WOKEN_AGAIN: f64 = 0.5;
/// At a lower rate per second the context switches cost too little to measure (5 µs each: 1 % of a CPU).
const ROUNDS_PER_SECOND: f64 = 1000.0;
/// A short excerpt, or a problem in a part of the trace only, must have at least this many rounds.
const ROUNDS: u64 = 200;

/// A worker and the consumer that preempts it after each item.
struct Pair<'a> {
    worker: ActorId,
    consumer: ActorId,
    account: &'a Account,
    rounds: u64,
    lost: Nanos,
}

/// What this module finds.
pub(super) const KIND: FindingKind = FindingKind {
    id: "completion-ping-pong",
    title: "a kernel worker loses its CPU to its consumer after nearly every item",
    about: "The worker completes one item and wakes its consumer, which takes the CPU at once, finds one item \
            and sleeps again: two switches for each item instead of a few for a batch. A cgroup with a large \
            cpu.weight around the consumer does that to direct I/O.",
    needs: &[EventType::Waking, EventType::WorkStart],
    snapshot: Some("the weight of the consumer's cgroup"),
    find: |case, _| find(case),
};

pub(crate) fn find(case: &Case<'_>) -> Vec<Finding> {
    let mut pairs: Vec<Pair<'_>> = case
        .victims()
        .filter(|(victim, account)| case.is_kernel_worker(*victim) || account.work.is_some())
        .filter_map(|(victim, account)| pair(case, victim, account))
        .collect();
    pairs.sort_by_key(|pair| (Reverse(pair.lost), pair.worker));
    // Workers of several CPUs that do the same work for the same program are one case.
    let mut groups: Vec<Vec<Pair<'_>>> = Vec::new();
    for pair in pairs {
        let same = |other: &Pair<'_>| {
            case.work(other.worker) == case.work(pair.worker) && case.name(other.consumer) == case.name(pair.consumer)
        };
        match groups.iter_mut().find(|group| group.first().is_some_and(same)) {
            Some(group) => group.push(pair),
            None => groups.push(vec![pair]),
        }
    }
    groups.iter().filter_map(|group| of_group(case, group)).collect()
}

fn pair<'a>(case: &Case<'_>, worker: ActorId, account: &'a Account) -> Option<Pair<'a>> {
    let runs = &account.runs;
    let consumer = consumer(case, worker, account)?;
    let rounds = case.wakeup_preemptions(worker, consumer);
    // Seconds in which the worker was runnable: a burst in a long trace still counts as a burst.
    let busy = (account.waited + runs.total).as_secs_f64();
    let often = rounds >= ROUNDS && rounds as f64 >= ROUNDS_PER_SECOND * busy;
    let has_backlog = account.wakeups as f64 <= WOKEN_AGAIN * rounds as f64;
    if !often || !has_backlog || (runs.preempted_by_wakeup as f64) < PREEMPTED_STAYS * runs.count as f64 {
        return None;
    }
    if items_per_stay(account).is_some_and(|items| items >= ITEMS_PER_STAY) {
        return None;
    }
    let lost = case.blamed(worker, |blame| blame.occupant == consumer && is_fair_rule(blame.rule));
    Some(Pair { worker, consumer, account, rounds, lost })
}

/// `None` without work items in the trace.
fn items_per_stay(account: &Account) -> Option<f64> {
    let items = account.work.as_ref().map_or(0, |work| work.items);
    (items > 0).then(|| items as f64 / account.runs.count.max(1) as f64)
}

fn of_group(case: &Case<'_>, pairs: &[Pair<'_>]) -> Option<Finding> {
    let worst = pairs.first()?;
    let victims: Vec<ActorId> = pairs.iter().map(|pair| pair.worker).collect();
    let lost: Nanos = pairs.iter().map(|pair| pair.lost).sum();
    let headline = SwitchingHeadline::PingPong {
        who: Kind::of(case, &victims),
        consumer: Actors::of(case, [worst.consumer]),
        lost,
    };
    let confidence = if items_per_stay(worst.account).is_some() { 0.95 } else { 0.75 };
    let draft = Draft {
        victims,
        evidence: evidence(case, worst.worker, worst.account, worst.consumer, worst.rounds),
        infers_settings: !case.knows_group(worst.consumer),
        remedies: remedy::against_ping_pong(case, worst.worker, worst.consumer),
        ..Draft::new(KIND, severity(case, worst)?, confidence, headline)
    };
    let consumers: Vec<ActorId> = pairs.iter().map(|pair| pair.consumer).collect();
    Some(draft.finish(case, |blame| consumers.contains(&blame.occupant) && is_fair_rule(blame.rule)))
}

fn severity(case: &Case<'_>, worst: &Pair<'_>) -> Option<Severity> {
    verdict::severity(&Plight::new(
        Waiter::ServingThread,
        Cause::PingPong,
        worst.account.longest,
        worst.lost,
        case.span(),
    ))
}

/// Rules under which one fair task runs before another.
fn is_fair_rule(rule: Rule) -> bool {
    matches!(rule, Rule::WakeupPreemption | Rule::Weight | Rule::Fair | Rule::Count)
}

/// The task that does most of the preemptions of the worker right after being woken by it.
fn consumer(case: &Case<'_>, worker: ActorId, account: &Account) -> Option<ActorId> {
    let takers = case.ledger.preemptions.iter().filter(|((victim, _), _)| *victim == worker);
    let ((_, taker), preemptions) =
        takers.max_by_key(|((_, by), preemptions)| (preemptions.by_wakeup, Reverse(*by)))?;
    let woken = case.wakes(worker, taker);
    let mostly_it = preemptions.by_wakeup as f64 >= BY_CONSUMER * account.runs.preempted as f64;
    let its_wakee = woken as f64 >= BY_CONSUMER * preemptions.by_wakeup as f64;
    (mostly_it && its_wakee && taker != worker && preemptions.by_wakeup > 0).then_some(taker)
}

fn evidence(case: &Case<'_>, worker: ActorId, account: &Account, consumer: ActorId, rounds: u64) -> Vec<Claim> {
    let who = Actors::of(case, [consumer]);
    let runs = account.runs.count;
    let items = account.work.as_ref().map_or(0, |work| work.items);
    let mut evidence: Vec<Claim> = Vec::new();
    if items > 0 {
        let switches = 2.0 * runs as f64 / items as f64;
        evidence.push(SwitchingClaim::SwitchesPerItem { switches, items, runs }.into());
    }
    let share = Share(rounds as f64 / runs.max(1) as f64);
    evidence.push(SwitchingClaim::EndedByConsumer { share, consumer: who.clone() }.into());
    if let Some(runs) = case.ledger.account(consumer).map(|account| &account.runs).filter(|runs| runs.count > 0) {
        let mean = Nanos(runs.total.0 / runs.count);
        evidence.push(SwitchingClaim::ConsumerRuns { consumer: who, mean }.into());
    }
    if let Some(main) = account.work.as_ref().and_then(|work| work.main()).filter(|main| main.timed > 0) {
        evidence.push(SwitchingClaim::ItemTakes(Nanos(main.turnaround.0 / main.timed)).into());
    }
    evidence.push(weight_evidence(case, worker, consumer).into());
    evidence
}

fn weight_evidence(case: &Case<'_>, worker: ActorId, consumer: ActorId) -> SwitchingClaim {
    let who = Actors::of(case, [consumer]);
    match (case.actor(consumer).group_weight(), case.knows_group(consumer)) {
        (Some(weight), _) if weight > NICE_0 => SwitchingClaim::GroupOutweighs {
            consumer: who,
            weight,
            worker: case.actor(worker).prio().and_then(load_weight_of_prio).unwrap_or(NICE_0),
        },
        (_, true) => SwitchingClaim::NoGroupOutweighs(who),
        (_, false) => {
            SwitchingClaim::GroupMayOutweigh { consumer: who, command: remedy::read_weight_command(case, consumer) }
        }
    }
}
