//! A worker finishes one item, wakes its consumer, and loses the CPU to it at once; the consumer finds too little, goes
//! back to sleep, and the worker goes on with the next item: two switches for each item instead of a few for a batch.

use std::cmp::Reverse;

use unstarve_model::{EventType, Nanos};
use unstarve_timeline::{ActorId, Rule};

use super::{percent, title};
use crate::case::{Blame, Case};
use crate::draft::Draft;
use crate::ledger::Account;
use crate::remedy;
use crate::report::{Finding, Severity};

/// A worker that is left alone drains its queue and sleeps. One that loses the CPU while runnable after most of its
/// stays is interrupted in its work.
const PREEMPTED_STAYS: f64 = 0.5;
/// "One at a time": two switches for each item, where a batch would need fewer.
const ITEMS_PER_STAY: f64 = 1.5;
/// Most of the preemptions must come from somebody whom the worker itself has just woken: its consumer.
const BY_CONSUMER: f64 = 0.5;
/// Rarer than this for each second the switches cost nothing that could be measured (5 µs each: 1 % of a CPU).
const ROUNDS_PER_SECOND: f64 = 1000.0;
/// A short excerpt, or trouble in a part of the trace only, must show at least this many.
const ROUNDS: u64 = 200;
/// A worker that waits for this part of the time, with its work before it, costs somebody.
const WAIT_WARNING: f64 = 0.05;
/// Waiting for half of all time it cannot keep up.
const WAIT_CRITICAL: f64 = 0.5;

pub(crate) fn find(case: &Case<'_>) -> Vec<Finding> {
    case.victims()
        .filter(|(victim, account)| case.is_kernel_worker(*victim) || account.work.is_some())
        .filter_map(|(victim, account)| of_worker(case, victim, account))
        .collect()
}

fn of_worker(case: &Case<'_>, worker: ActorId, account: &Account) -> Option<Finding> {
    let runs = &account.runs;
    let consumer = consumer(case, worker, account)?;
    let rounds = case.wakeup_preemptions(worker, consumer);
    // Seconds in which the worker was runnable: a burst in a long trace is still a burst.
    let busy = (account.waited + runs.total).as_secs_f64();
    let often = rounds >= ROUNDS && rounds as f64 >= ROUNDS_PER_SECOND * busy;
    if !often || (runs.preempted_by_wakeup as f64) < PREEMPTED_STAYS * runs.count as f64 {
        return None;
    }
    let items = account.work.as_ref().map_or(0, |work| work.items);
    let per_stay = (items > 0).then(|| items as f64 / runs.count.max(1) as f64);
    if per_stay.is_some_and(|per_stay| per_stay >= ITEMS_PER_STAY) {
        return None;
    }
    let by_consumer = |blame: &Blame| blame.occupant == consumer && is_fair_rule(blame.rule);
    let lost = case.blamed(worker, by_consumer);
    let name = case.name(consumer);
    let draft = Draft {
        id: "completion-ping-pong",
        severity: severity(lost.share_of(case.span())),
        confidence: if per_stay.is_some() { 0.95 } else { 0.75 },
        sentence: format!(
            "{} loses the CPU to {name} after nearly every item: {name} is woken, takes the CPU, finds one item and \
             sleeps again; the worker waited {lost} for it.",
            title(case, &[worker])
        ),
        victims: vec![worker],
        evidence: evidence(case, worker, account, consumer, rounds),
        also_paid: Vec::new(),
        period: None,
        needs: &[EventType::Waking, EventType::WorkStart],
        infers_settings: case.snapshot.is_none(),
        remedies: remedy::against_ping_pong(case, worker, consumer),
    };
    Some(draft.finish(case, by_consumer))
}

fn severity(share: f64) -> Severity {
    if share >= WAIT_CRITICAL {
        Severity::Critical
    } else if share >= WAIT_WARNING {
        Severity::Warning
    } else {
        Severity::Info
    }
}

/// Rules under which one fair task has the CPU before another.
fn is_fair_rule(rule: Rule) -> bool {
    matches!(rule, Rule::WakeupPreemption | Rule::Weight | Rule::Fair | Rule::Count)
}

/// Who mostly takes the CPU from the worker after being woken by it.
fn consumer(case: &Case<'_>, worker: ActorId, account: &Account) -> Option<ActorId> {
    let takers = case.ledger.preemptions.iter().filter(|((victim, _), _)| *victim == worker);
    let (&(_, taker), preemptions) =
        takers.max_by_key(|((_, by), preemptions)| (preemptions.by_wakeup, Reverse(*by)))?;
    let woken = case.wakes(worker, taker);
    let mostly_it = preemptions.by_wakeup as f64 >= BY_CONSUMER * account.runs.preempted as f64;
    let its_wakee = woken as f64 >= BY_CONSUMER * preemptions.by_wakeup as f64;
    (mostly_it && its_wakee && taker != worker && preemptions.by_wakeup > 0).then_some(taker)
}

fn evidence(case: &Case<'_>, worker: ActorId, account: &Account, consumer: ActorId, rounds: u64) -> Vec<String> {
    let name = case.name(consumer);
    let stays = account.runs.count;
    let items = account.work.as_ref().map_or(0, |work| work.items);
    let mut evidence = Vec::new();
    if items > 0 {
        let switches = 2.0 * stays as f64 / items as f64;
        evidence.push(format!("{switches:.1} switches for each completed item ({items} items in {stays} stays)"));
    }
    evidence.push(format!(
        "{} of the worker's stays end because {name}, whom it has just woken, takes the CPU",
        percent(rounds as f64 / stays.max(1) as f64)
    ));
    if let Some(runs) = case.ledger.account(consumer).map(|account| &account.runs).filter(|runs| runs.count > 0) {
        evidence.push(format!("{name} then runs for {} on average and sleeps again", Nanos(runs.total.0 / runs.count)));
    }
    if let Some(main) = account.work.as_ref().and_then(|work| work.main()).filter(|main| main.timed > 0) {
        evidence.push(format!("an item takes {} from being queued to its end", Nanos(main.turnaround.0 / main.timed)));
    }
    evidence.push(weight_evidence(case, worker, consumer));
    evidence
}

fn weight_evidence(case: &Case<'_>, worker: ActorId, consumer: ActorId) -> String {
    let name = case.name(consumer);
    match (case.actor(consumer).group_weight(), case.snapshot) {
        (Some(weight), _) if weight > 1024 => format!(
            "{name} sits in a top-level cgroup of load weight {weight}, the worker in the root group with {}",
            case.actor(worker).prio().and_then(|prio| prio.load_weight()).unwrap_or(1024)
        ),
        (_, Some(_)) => format!("no cgroup weight favours {name}: it is the wakeup preemption of equals"),
        (_, None) => format!(
            "likely cause: {name} runs in a cgroup whose cpu.weight is above 100. This trace does not tell; `unstarve \
             record` does, or: {}",
            remedy::read_weight_command(case, consumer)
        ),
    }
}
