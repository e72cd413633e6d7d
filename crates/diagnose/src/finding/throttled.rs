//! A limit keeps tasks off the CPU, not contention: a cgroup's bandwidth limit, or the kernel's own limit on what
//! real-time and deadline tasks may take.

use std::cmp::Reverse;

use unstarve_facts::Throttled;
use unstarve_model::{EventType, Nanos, Tid};
use unstarve_sched::Rule;
use unstarve_timeline::ActorId;

use super::impact::{self, Felt};
use super::intruders::ran;
use super::overrun;
use super::{FAIR_PERIOD, FindingKind, names, percent, title};
use crate::case::{Blame, Case};
use crate::draft::Draft;
use crate::remedy;
use crate::report::{Finding, Severity, Victim, VictimKind};
use crate::verdict::{self, Cause, Plight, Waiter};

/// From events alone the rule can be inferred only from a CPU that idles beside a runnable task. One such stretch shorter
/// than this may be idle-exit latency or a race between two CPUs' clocks.
const STRETCH: Nanos = Nanos::from_millis(1);
/// Nothing confirms what is inferred without a snapshot but that it happens again.
const STALLS_INFERRED: u64 = 3;
/// A quota that is used up in every other period does not suffice, however short the rest of each period is…
const SPENT: f64 = 0.5;
/// …if it is more than chance.
const SPENT_AT_LEAST: u64 = 5;
/// Who was stopped for this part of what another was stopped for was stopped about as long.
const AS_LONG: f64 = 0.75;
/// Idle CPUs are the culprit where they show this part of what was lost.
const SEEN: f64 = 0.5;

/// What this module finds.
pub const KIND: FindingKind = FindingKind {
    id: "throttled",
    title: "a limit, not contention, keeps tasks off the CPU",
    about: "A cgroup has used up its quota (cpu.max), or real-time and deadline tasks what the kernel lets them \
            have. CPUs may be idle meanwhile.",
    needs: &[EventType::Waking, EventType::Migrate],
    snapshot: Some("the limits and the kernel's counters of them; without them a limit is inferred from idle CPUs"),
    find: |case, _| find(case).into_iter().chain(overrun::find(case)).collect(),
};

pub(crate) fn find(case: &Case<'_>) -> Vec<Finding> {
    let mut groups = limited_groups(case);
    groups.extend(counted_only(case, &groups));
    let mut findings: Vec<Finding> = groups.iter().filter_map(|group| of_group(case, group)).collect();
    findings.extend(inferred(case));
    findings
}

pub(super) fn is_limit(blame: &Blame) -> bool {
    blame.rule == Rule::Throttled
}

/// Fair tasks and no kernel threads: those are in no group that could be limited.
fn limitable<'a>(case: &'a Case<'_>) -> impl Iterator<Item = ActorId> + 'a {
    case.victims().map(|(id, _)| id).filter(|id| case.is_fair(*id) && !case.is_kernel_thread(*id))
}

/// A limited group and those of its tasks that waited, who lost most first.
struct Limited {
    path: String,
    members: Vec<ActorId>,
    /// What the kernel counted while this was recorded.
    counted: Option<Throttled>,
}

pub(super) fn stopped(case: &Case<'_>, victim: ActorId) -> Nanos {
    case.blamed(victim, is_limit)
}

fn waited(case: &Case<'_>, victim: ActorId) -> Nanos {
    case.ledger.account(victim).map_or(Nanos::ZERO, |account| account.waited)
}

/// Groups of which the snapshot knows the limit and tasks that waited.
fn limited_groups(case: &Case<'_>) -> Vec<Limited> {
    let mut groups: Vec<Limited> = Vec::new();
    for victim in limitable(case) {
        let Some(path) = group(case, victim) else { continue };
        match groups.iter_mut().find(|known| known.path == path) {
            Some(known) => known.members.push(victim),
            None => {
                let counted = case.snapshot.and_then(|snapshot| snapshot.throttled_meanwhile(&path));
                groups.push(Limited { path, members: vec![victim], counted });
            }
        }
    }
    for group in &mut groups {
        group
            .members
            .sort_by_key(|id| Reverse((stopped(case, *id), waited(case, *id) + case.price(*id), Reverse(*id))));
        name_who_used_least(case, &mut group.members);
        // Who was never stopped that anybody could see is named only where nobody was.
        if group.members.iter().any(|id| stopped(case, *id) >= STRETCH) && group.counted.is_none() {
            group.members.retain(|id| stopped(case, *id) >= STRETCH);
        }
    }
    groups
}

/// Of several processes that were seen stopped for about as long the one is starved that used the least: the others used up what it
/// needed. Puts its thread that was stopped longest first.
fn name_who_used_least(case: &Case<'_>, members: &mut [ActorId]) {
    let Some(longest) = members.first().map(|first| stopped(case, *first)).filter(|longest| *longest >= STRETCH) else {
        return;
    };
    let enough = STRETCH.max(Nanos((longest.0 as f64 * AS_LONG) as u64));
    let used = |process: Tid| -> Nanos {
        members.iter().filter(|id| process_of(case, **id) == Some(process)).map(|id| ran(case, *id)).sum()
    };
    let candidates = members.iter().enumerate().filter(|(_, id)| stopped(case, **id) >= enough);
    let of_processes = candidates.filter_map(|(index, id)| Some((used(process_of(case, *id)?), index)));
    if let Some((_, index)) = of_processes.min() {
        members[..=index].rotate_right(1);
    }
}

fn process_of(case: &Case<'_>, id: ActorId) -> Option<Tid> {
    case.first_tid(case.mainly(id)).and_then(|tid| case.process_of(tid))
}

/// Groups that the kernel counted as stopped and of whose tasks none was there when the host was asked. Which of those that
/// lived only meanwhile were in it, nothing says.
fn counted_only(case: &Case<'_>, known: &[Limited]) -> Vec<Limited> {
    let Some(counted) = case.snapshot.and_then(|snapshot| snapshot.throttled_meanwhile.as_ref()) else {
        return Vec::new();
    };
    let new = counted.iter().filter(|(path, _)| !known.iter().any(|group| group.path == **path));
    new.map(|(path, counted)| Limited { path: path.clone(), members: Vec::new(), counted: Some(*counted) }).collect()
}

fn group(case: &Case<'_>, victim: ActorId) -> Option<String> {
    Some(case.snapshot?.limited_cgroup_of(case.first_tid(victim)?)?.path.clone())
}

/// On how many CPUs at once a group with these tasks can have been stopped: the kernel sums over them.
pub(super) fn breadth(case: &Case<'_>, members: &[ActorId]) -> u32 {
    let accounts: Vec<_> = members.iter().filter_map(|id| case.ledger.account(*id)).collect();
    let cpus = (0..case.world.cpus).map(unstarve_model::CpuId);
    let used = cpus.filter(|cpu| accounts.iter().any(|account| account.cpus.contains(*cpu))).count() as u32;
    let tasks = members.iter().map(|id| case.actor(*id).members).fold(0, u32::saturating_add);
    if members.is_empty() { case.world.cpus.max(1) } else { used.min(tasks).max(1) }
}

/// On a busy CPU others run while a group is stopped, and the events look like plain sharing: the kernel's counters
/// know better. They do not know which stop was the longest.
fn felt_by(case: &Case<'_>, group: &Limited) -> Felt {
    let worst = group.members.iter().map(|id| stopped(case, *id)).max().unwrap_or(Nanos::ZERO);
    let longest =
        |id: &ActorId| case.ledger.account(*id).map(|account| account.longest_by_rule[Rule::Throttled as usize]);
    let seen = Felt { lost: worst, stall: group.members.iter().filter_map(longest).max().unwrap_or(Nanos::ZERO) };
    let Some(counted) = group.counted else { return seen };
    let lost = Nanos(counted.ns.0 / u64::from(breadth(case, &group.members)));
    let mean = Nanos(lost.0 / counted.count.max(1));
    Felt { lost: seen.lost.max(lost.min(case.span())), stall: seen.stall.max(mean) }
}

fn of_group(case: &Case<'_>, group: &Limited) -> Option<Finding> {
    let felt = felt_by(case, group);
    let asked_to_be_last = group.members.iter().all(|id| case.waiter(*id) == Waiter::AskedToBeLast);
    let waiter = if asked_to_be_last && !group.members.is_empty() { Waiter::AskedToBeLast } else { Waiter::Program };
    let plight = Plight::new(waiter, Cause::GroupLimit, felt.stall, felt.lost, case.span());
    let mut severity = verdict::severity(&plight)?;
    if waiter == Waiter::Program && group.counted.is_some_and(|counted| is_spent(&counted)) {
        severity = severity.max(Severity::Warning);
    }
    let path = group.path.escape_debug();
    let known = !group.members.is_empty();
    let (who, was) = match known {
        true => of_members(case, &group.members),
        false => (format!("The tasks of {path}"), "were"),
    };
    let bound = if known { "" } else { "at least " };
    let mut evidence = Vec::new();
    if group.members.iter().any(|id| stopped(case, *id) > Nanos::ZERO) {
        evidence.push("its CPU went idle while it was runnable and not moved: a bandwidth limit".to_owned());
    }
    evidence.push(format!("{} of the trace", percent(felt.lost.share_of(case.span()))));
    evidence.extend(group.counted.as_ref().map(counters));
    evidence.extend(users(case, &group.members));
    if !known {
        evidence.push("none of its tasks was there when the host was asked".to_owned());
    }
    let draft = Draft {
        kind: KIND,
        severity,
        confidence: if known { 0.95 } else { 0.7 },
        sentence: format!(
            "{who} {was} stopped for {bound}{} by the CPU limit of {path}, not by other tasks.",
            felt.lost
        ),
        victims: group.members.clone(),
        evidence,
        also_paid: Vec::new(),
        period: crate::draft::period(case, &group.members),
        needs: if group.counted.is_some() { &[] } else { KIND.needs },
        infers_settings: false,
        remedies: remedy::against_limit(case, &group.path),
    };
    // Which of the occupants ran because of the limit, the events do not tell: where they show little of it, none is named.
    let seen: Nanos = group.members.iter().map(|id| stopped(case, *id)).sum();
    let shows = seen.0 as f64 >= SEEN * felt.lost.0 as f64;
    let finding = draft.finish(case, |blame| shows && is_limit(blame));
    Some(if group.members.is_empty() { about_group(finding, &group.path) } else { finding })
}

/// Members by program: the name of the thread of each process that ran most; by name where processes are not known.
fn programs(case: &Case<'_>, members: &[ActorId]) -> Vec<(ActorId, Nanos)> {
    let mut known: Vec<(Option<Tid>, ActorId, Nanos)> = Vec::new();
    for id in members {
        let (process, ran) = (process_of(case, *id), ran(case, *id));
        let same = |(other, first, _): &&mut (Option<Tid>, ActorId, Nanos)| match (process, *other) {
            (Some(one), Some(other)) => one == other,
            _ => case.name(case.mainly(*first)) == case.name(case.mainly(*id)),
        };
        match known.iter_mut().find(same) {
            Some((_, _, sum)) => *sum += ran,
            None => known.push((process, case.mainly(*id), ran)),
        }
    }
    known.into_iter().map(|(_, program, ran)| (program, ran)).collect()
}

/// The tasks of one program by their number, several programs by their names; and the verb.
fn of_members(case: &Case<'_>, members: &[ActorId]) -> (String, &'static str) {
    let programs = programs(case, members);
    if programs.len() < 2 {
        return (title(case, members), "was");
    }
    (names(case, programs.into_iter().map(|(program, _)| program)), "were")
}

/// Where a group has several programs: who used its quota, most first.
fn users(case: &Case<'_>, members: &[ActorId]) -> Option<String> {
    let mut used = programs(case, members);
    used.sort_by_key(|(_, ran)| Reverse(*ran));
    let [(most, its), rest @ ..] = used.as_slice() else { return None };
    let others: Nanos = rest.iter().map(|(_, ran)| *ran).sum();
    (!rest.is_empty()).then(|| {
        let most = case.name(*most);
        format!("of what its tasks that waited used of the limit, {most} had {its}, the others {others}")
    })
}

/// A finding about a group of which no task is known.
fn about_group(finding: Finding, path: &str) -> Finding {
    let victim = Victim { kind: VictimKind::Cgroup, comm: path.escape_debug().to_string(), ..finding.victim };
    Finding { victim, ..finding }
}

fn is_spent(counted: &Throttled) -> bool {
    counted.count >= SPENT_AT_LEAST && counted.count as f64 >= SPENT * counted.periods as f64
}

fn counters(counted: &Throttled) -> String {
    format!(
        "the kernel counted {} of {} periods throttled, {} over all CPUs, while this was recorded",
        counted.count, counted.periods, counted.ns
    )
}

/// Tasks of which nobody knows the group, and whose CPU went idle beside them again and again: one finding for all.
fn inferred(case: &Case<'_>) -> Option<Finding> {
    let rule = Rule::Throttled as usize;
    let again =
        |id: &ActorId| case.ledger.account(*id).is_some_and(|account| account.stalls_by_rule[rule] >= STALLS_INFERRED);
    let mut victims: Vec<ActorId> = limitable(case).filter(|id| !case.knows_group(*id)).filter(again).collect();
    victims.sort_by_key(|id| Reverse((stopped(case, *id), Reverse(*id))));
    let worst = *victims.first()?;
    let account = case.ledger.account(worst)?;
    let felt = Felt { lost: stopped(case, worst), stall: account.longest_by_rule[rule] };
    let severity = impact::severity(felt, Cause::GroupLimit, case.span())?.min(Severity::Warning);
    let mut evidence = vec![
        format!(
            "its CPU went idle for more than {FAIR_PERIOD}, {} times, while it was runnable and not moved, which only a \
             bandwidth limit explains if no events are missing",
            account.stalls_by_rule[rule]
        ),
        format!("{} of the trace", percent(felt.lost.share_of(case.span()))),
    ];
    if let Some((_, rest @ [_, ..])) = victims.split_first() {
        evidence.push(format!("the same befell {}", names(case, rest.iter().copied())));
    }
    let draft = Draft {
        kind: KIND,
        severity,
        confidence: 0.6,
        sentence: format!(
            "{} was stopped for {}, most likely by a cgroup's CPU limit, not by other tasks.",
            title(case, &[worst]),
            felt.lost
        ),
        victims: vec![worst],
        evidence,
        also_paid: Vec::new(),
        period: crate::draft::period(case, &[worst]),
        needs: KIND.needs,
        infers_settings: true,
        remedies: remedy::against_unknown_limit(case, worst),
    };
    Some(draft.finish(case, is_limit))
}
