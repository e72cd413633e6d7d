//! Real-time or deadline tasks hold the CPU while others wait.
//!
//! One finding for each kind of intruder (tasks of one name), with the worst kind of victim; the other victims are in
//! its price.

use std::cmp::Reverse;

use unstarve_model::{EventType, KernelThread, Nanos, Policy};
use unstarve_timeline::{ActorId, Rule};

use super::{FAIR_PERIOD, names, percent, title};
use crate::case::{Blame, Case};
use crate::draft::{self, Draft, payer_row};
use crate::ledger::{Account, Episodes, Period};
use crate::remedy;
use crate::report::{Finding, Severity};

/// One stay of the intruder that holds somebody up for half the fair class's own period is felt as a spike.
const STALL_WARNING: Nanos = Nanos(FAIR_PERIOD.0 / 2);
/// One of two periods is beyond anything that fair sharing does.
const STALL_CRITICAL: Nanos = Nanos(FAIR_PERIOD.0 * 2);
/// Many shorter ones count when together they take this part of the trace from one kind of victim. Real-time throttling
/// (up to 6.11) and the fair server (6.12 on) leave the fair class 5 % of a starved CPU, so 5 % matters.
const SHARE_WARNING: f64 = 0.05;
/// Every fourth nanosecond.
const SHARE_CRITICAL: f64 = 0.25;
/// Stays shorter than a short tick are what real-time tasks are for, however many they are.
const STAY_THAT_COUNTS: Nanos = Nanos::from_millis(1);
/// Below a tick neither a stall nor a share is worth a line.
const STALL_INFO: Nanos = Nanos::from_millis(4);
/// For a kernel thread's wait to be felt, others (or its own work) must have lost this part of it.
const FELT: f64 = 0.1;
/// A kernel worker is named rather than the program in front when it waited at least this part of what the program did:
/// the program waits for its worker.
const WORKER_FIRST: f64 = 0.1;

/// A victim and what one intruder took from it.
struct Hit {
    victim: ActorId,
    lost: Nanos,
}

/// Tasks of one sort.
#[derive(Default)]
struct Intruder {
    actors: Vec<ActorId>,
    hits: Vec<Hit>,
}

pub(crate) fn find(case: &Case<'_>) -> Vec<Finding> {
    let mut intruders: Vec<Intruder> = Vec::new();
    for (victim, _) in case.victims() {
        for blame in case.blame(victim).iter().filter(|blame| is_intrusion(case, victim, blame)) {
            let known = intruders
                .iter_mut()
                .find(|known| known.actors.iter().any(|id| same_intruder(case, *id, blame.occupant)));
            let intruder = match known {
                Some(intruder) => intruder,
                None => {
                    intruders.push(Intruder::default());
                    let last = intruders.len() - 1;
                    &mut intruders[last]
                }
            };
            if !intruder.actors.contains(&blame.occupant) {
                intruder.actors.push(blame.occupant);
            }
            match intruder.hits.iter_mut().find(|hit| hit.victim == victim) {
                Some(hit) => hit.lost += blame.length,
                None => intruder.hits.push(Hit { victim, lost: blame.length }),
            }
        }
    }
    intruders.into_iter().filter_map(|intruder| of_intruder(case, intruder)).collect()
}

/// Tasks of one name, and a task before and after it took another program (`chrt`, then what it starts).
fn same_intruder(case: &Case<'_>, a: ActorId, b: ActorId) -> bool {
    let (one, other) = (case.actor(a), case.actor(b));
    a == b
        || one.comm() == other.comm()
        || one.prio() == other.prio() && one.tids.iter().any(|tid| other.tids.contains(tid))
}

/// The stop class moves tasks between CPUs for the kernel itself; it is not an intruder.
fn is_intrusion(case: &Case<'_>, victim: ActorId, blame: &Blame) -> bool {
    let is_stopper = |id: ActorId| case.actor(id).kernel_thread == Some(KernelThread::Migration);
    blame.rule == Rule::Class && !is_stopper(blame.occupant) && !is_stopper(victim)
}

fn of_intruder(case: &Case<'_>, intruder: Intruder) -> Option<Finding> {
    let Intruder { mut actors, mut hits } = intruder;
    // The name under which it ran most comes first.
    let ran = |id: &ActorId| case.ledger.account(*id).map_or(Nanos::ZERO, |account| account.runs.total);
    actors.sort_by_key(|id| Reverse((ran(id), *id)));
    let victims = worst_kind(case, &mut hits)?;
    let by_them = |blame: &Blame| blame.rule == Rule::Class && actors.contains(&blame.occupant);
    let lost: Nanos = victims.iter().map(|victim| case.blamed(*victim, by_them)).sum();
    let longest = victims.iter().map(|victim| stall(case, *victim, by_them)).max()?;
    // Several threads wait at the same time, and their waits add up; nobody is kept off for longer than the intruder ran.
    let had: Nanos = actors.iter().map(ran).sum();
    let share = |lost: Nanos| lost.min(had).share_of(case.span());
    let worst = victims.iter().map(|victim| case.blamed(*victim, by_them)).max()?;
    let severity =
        hits.iter().filter_map(|hit| severity(case, hit, share(hit.lost), stall(case, hit.victim, by_them))).max()?;
    let period = draft::period(case, &victims).or_else(|| period_of_runs(case, &actors));
    let also: Vec<&Hit> = hits.iter().filter(|hit| !victims.contains(&hit.victim)).collect();
    let draft = Draft {
        id: "rt-starvation",
        severity,
        confidence: 0.95,
        sentence: format!(
            "{} waited {lost} while {} ({}) had its CPU, up to {longest} at a time{}.",
            title(case, &victims),
            names(case, actors.iter().copied()),
            class(case, &actors),
            period.map(|period| format!(", every {}", period.interval)).unwrap_or_default(),
        ),
        evidence: evidence(case, &victims, &actors, share(worst), period, &also),
        also_paid: also.iter().map(|hit| payer_row(case, hit.victim, hit.lost)).collect(),
        period,
        needs: &[EventType::Waking],
        infers_settings: false,
        remedies: remedy::against_rt(case, &victims, &actors),
        victims: victims.clone(),
    };
    Some(draft.finish(case, by_them))
}

fn severity(case: &Case<'_>, hit: &Hit, share: f64, stall: Nanos) -> Option<Severity> {
    let many = |least: f64| share >= least && stall >= STAY_THAT_COUNTS;
    let severity = if stall >= STALL_CRITICAL || many(SHARE_CRITICAL) {
        Severity::Critical
    } else if stall >= STALL_WARNING || many(SHARE_WARNING) {
        Severity::Warning
    } else if stall >= STALL_INFO {
        Severity::Info
    } else {
        return None;
    };
    Some(if is_felt(case, hit) { severity } else { Severity::Info })
}

/// A program's stall is felt by whoever uses it. A kernel thread's is if it had much to do itself, or if somebody slept
/// until it was done; housekeeping that runs later harms nobody.
fn is_felt(case: &Case<'_>, hit: &Hit) -> bool {
    let starved = case.ledger.account(hit.victim).map_or(Nanos::ZERO, |account| account.starved());
    !case.is_kernel_thread(hit.victim) || (case.price(hit.victim) + starved).0 as f64 >= FELT * hit.lost.0 as f64
}

fn class(case: &Case<'_>, actors: &[ActorId]) -> &'static str {
    let is_deadline = actors.iter().any(|id| case.actor(*id).policy() == Some(Policy::Deadline));
    if is_deadline { "deadline" } else { "real-time" }
}

/// The longest time that class alone took from one wait of this victim.
fn stall(case: &Case<'_>, victim: ActorId, by_them: impl Fn(&Blame) -> bool) -> Nanos {
    let longest = |account: &Account| account.longest_by_rule[Rule::Class as usize];
    case.ledger.account(victim).map_or(Nanos::ZERO, longest).min(case.blamed(victim, by_them))
}

/// The victims of the kind to name: kernel workers before programs, then who lost most, price included. Sorts `hits`,
/// worst first.
fn worst_kind(case: &Case<'_>, hits: &mut [Hit]) -> Option<Vec<ActorId>> {
    let most = hits.iter().map(|hit| hit.lost).max()?;
    let enough = Nanos((most.0 as f64 * WORKER_FIRST) as u64);
    hits.sort_by_cached_key(|hit| {
        let worker = hit.lost >= enough && case.is_kernel_worker(hit.victim) && is_felt(case, hit);
        Reverse((worker, hit.lost + case.price(hit.victim), hit.victim))
    });
    let first = hits.first()?.victim;
    Some(hits.iter().map(|hit| hit.victim).filter(|victim| same_kind(case, first, *victim)).collect())
}

/// Workers of one sort that do the same work are one kind; so are threads of one name.
fn same_kind(case: &Case<'_>, a: ActorId, b: ActorId) -> bool {
    if a == b {
        return true;
    }
    match (case.actor(a).kernel_thread, case.actor(b).kernel_thread) {
        (Some(one), Some(other)) => {
            one.word() == other.word() && case.actor(a).prio() == case.actor(b).prio() && case.work(a) == case.work(b)
        }
        (None, None) => case.name(a) == case.name(b),
        _ => false,
    }
}

fn period_of_runs(case: &Case<'_>, actors: &[ActorId]) -> Option<Period> {
    let accounts = actors.iter().filter_map(|actor| case.ledger.account(*actor));
    Episodes::merged(accounts.map(|account| &account.runs.episodes)).period(case.world.start, case.world.now)
}

fn evidence(
    case: &Case<'_>,
    victims: &[ActorId],
    intruder: &[ActorId],
    share: f64,
    period: Option<Period>,
    also: &[&Hit],
) -> Vec<String> {
    let mut evidence = Vec::new();
    let prio = |actors: &[ActorId]| actors.first().and_then(|id| case.actor(*id).prio());
    if let (Some(low), Some(high)) = (prio(victims), prio(intruder)) {
        let (low_class, high_class) = (low.policy(), high.policy());
        evidence.push(format!("priority {} ({high_class}) always runs before {} ({low_class})", high.0, low.0));
    }
    evidence.push(format!("{} of the trace: runnable, and kept off the CPU by class alone", percent(share)));
    if let Some(period) = period {
        let seen = period.occurrences;
        let hedge = if seen == 2 { "; two make only one interval" } else { "" };
        evidence.push(format!("recurs every {}, seen {seen} times{hedge}", period.interval));
    }
    if !also.is_empty() {
        let lost: Nanos = also.iter().map(|hit| hit.lost).sum();
        let who = names(case, also.iter().map(|hit| hit.victim));
        evidence.push(format!("others that waited behind it, {lost} together: {who}"));
    }
    evidence
}
