//! CPU-bound tasks are preempted again and again by tasks that were just woken and run only briefly.

use std::cmp::Reverse;

use unstarve_model::{EventType, Nanos, Policy};
use unstarve_sched::Rule;
use unstarve_timeline::ActorId;

use super::FindingKind;
use crate::case::{Blame, Case};
use crate::claim::{Actors, Claim, Kind, SwitchingClaim, SwitchingHeadline};
use crate::draft::Draft;
use crate::ledger::Account;
use crate::remedy;
use crate::report::{Finding, Severity};

/// A task that ends most of its runs by being preempted wants more CPU time than it gets.
const INVOLUNTARY: f64 = 0.8;
/// The shortest slice that the fair class aims for, on one CPU (`min_granularity` 0.75 ms, `base_slice` 0.70 ms). If the average
/// run of a task that wants more is shorter, it has lost the benefit of slices.
const SHORTEST_SLICE: Nanos = Nanos::from_micros(700);
/// Preemptions by unrelated tasks per second of running, from which the context switches cost 1 % of it (5 µs each, with cold
/// caches). Less is normal rounding of fair sharing: on a machine that also serves requests every compiler is preempted a
/// thousand times a second without harm.
const PER_SECOND: f64 = 2000.0;
/// A burst during start-up is no thrashing.
const LEAST: u64 = 500;
/// Most of the preemptions must be by wakeups.
const BY_WAKEUP: f64 = 0.5;
/// A preemptor that works for the victim (one wakes the other) is a partner. Chance wakeups between unrelated tasks stay below
/// this part of the preemptions.
const PARTNER: f64 = 0.1;
/// A task that wakes others in this part of its runs is a server: it is right that it runs before a CPU-bound task.
const SERVES: f64 = 0.5;
/// Preemptors with a smaller share are not named in the sentence.
const NOTABLE: f64 = 0.05;
/// The victims together must use this part of a CPU; otherwise nothing significant is disturbed.
const BUSY: f64 = 0.1;

/// What this module finds.
pub(super) const KIND: FindingKind = FindingKind {
    id: "preemption-thrash",
    title: "tasks that compute lose the CPU again and again to tasks that were just woken",
    about: "Each preemption costs about 5 µs and what the caches lose. It is reported from a hundredth of the \
            CPU time of the task that is pushed off.",
    needs: &[EventType::Waking],
    snapshot: None,
    find: |case, _| find(case),
};

pub(crate) fn find(case: &Case<'_>) -> Vec<Finding> {
    let mut findings: Vec<Finding> =
        case.victims().filter_map(|(victim, account)| of_victim(case, victim, account)).collect();
    // Threads of one name but several priorities: report only the one that lost most.
    findings.sort_by_key(|finding| Reverse(finding.culprits.iter().map(|culprit| culprit.ns).sum::<u64>()));
    let mut seen: Vec<String> = Vec::new();
    findings.retain(|finding| {
        let new = !seen.contains(&finding.victim.comm);
        seen.push(finding.victim.comm.clone());
        new
    });
    findings
}

fn of_victim(case: &Case<'_>, victim: ActorId, account: &Account) -> Option<Finding> {
    let runs = &account.runs;
    let stay = Nanos(runs.total.0 / runs.count.max(1));
    let thrashed = runs.preempted >= LEAST
        && runs.preempted as f64 >= INVOLUNTARY * runs.count as f64
        && runs.preempted_by_wakeup as f64 >= BY_WAKEUP * runs.preempted as f64
        && stay < SHORTEST_SLICE
        && runs.total.share_of(case.span()) >= BUSY;
    if !thrashed || case.actor(victim).policy() != Some(Policy::Fair) {
        return None;
    }
    let preemptors = preemptors(case, victim);
    let by_strangers: u64 = preemptors.iter().map(|(_, count)| count).sum();
    let (count, seconds) = (by_strangers as f64, runs.total.as_secs_f64());
    if count < BY_WAKEUP * runs.preempted as f64 || count < PER_SECOND * seconds {
        return None;
    }
    let actors: Vec<ActorId> = preemptors.iter().map(|(actor, _)| *actor).collect();
    let by_them = |blame: &Blame| blame.rule == Rule::WakeupPreemption && actors.contains(&blame.occupant);
    let rate = runs.preempted as f64 / runs.total.as_secs_f64();
    let notable = |count: u64| count as f64 >= NOTABLE * by_strangers as f64;
    let main: Vec<ActorId> = preemptors.iter().filter(|(_, count)| notable(*count)).map(|(actor, _)| *actor).collect();
    let by = Actors::of(case, main.iter().copied());
    let mut evidence: Vec<Claim> = vec![
        SwitchingClaim::Involuntary { switches: runs.preempted, rate }.into(),
        SwitchingClaim::RunsFor { mean: stay, shortest_slice: SHORTEST_SLICE }.into(),
    ];
    if let Some(runs) = actors.first().and_then(|id| case.ledger.account(*id)).map(|account| &account.runs)
        && runs.count > 0
    {
        let mean = Nanos(runs.total.0 / runs.count);
        evidence.push(SwitchingClaim::PreemptorRuns { by: by.clone(), mean }.into());
    }
    let headline = SwitchingHeadline::Preempted { who: Kind::of(case, &[victim]), rate, by };
    let draft = Draft {
        victims: vec![victim],
        evidence,
        remedies: remedy::against_thrash(case, &main),
        ..Draft::new(KIND, Severity::Warning, 0.9, headline)
    };
    Some(draft.finish(case, by_them))
}

/// Fair programs that preempted the victim right after a wakeup and have no other relation to it, most often first. Not kernel
/// threads: they serve requests, often the victim's own, and delays of theirs are reported by other findings.
fn preemptors(case: &Case<'_>, victim: ActorId) -> Vec<(ActorId, u64)> {
    let mut found: Vec<(ActorId, u64)> = case
        .ledger
        .preemptions
        .iter()
        .filter(|((of, by), preemptions)| *of == victim && *by != victim && preemptions.by_wakeup > 0)
        .filter(|((_, by), _)| case.is_fair(*by) && !case.is_kernel_thread(*by))
        .filter(|((_, by), preemptions)| {
            let wakes = case.wakes(victim, *by) + case.wakes(*by, victim);
            (wakes as f64) < PARTNER * preemptions.by_wakeup as f64
        })
        .filter(|((_, by), _)| !serves(case, *by))
        .map(|((_, by), preemptions)| (by, preemptions.by_wakeup))
        .collect();
    found.sort_by_key(|(by, count)| (Reverse(*count), *by));
    found
}

fn serves(case: &Case<'_>, id: ActorId) -> bool {
    let turns = case.ledger.account(id).map_or(0, |account| account.wakeups);
    let answers: u64 =
        case.ledger.wakes.iter().filter(|((waker, wakee), _)| *waker == id && wakee != waker).map(|(_, n)| *n).sum();
    turns > 0 && answers as f64 >= SERVES * turns as f64
}
