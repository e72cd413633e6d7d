//! A limit, not contention, keeps tasks off the CPU: a cgroup's quota, or the kernel's own limit on real-time and deadline tasks.

use std::cmp::Reverse;

use unstarve_facts::Throttled;
use unstarve_model::{EventType, Nanos, Tid};
use unstarve_sched::Rule;
use unstarve_timeline::ActorId;

use super::impact::{self, Felt};
use super::intruders::ran;
use super::overrun;
use super::{FAIR_PERIOD, FindingKind};
use crate::case::{Blame, Case};
use crate::claim::{Actors, Alike, Claim, GroupMembers, Kind, LimitClaim, LimitHeadline, WaitClaim};
use crate::draft::Draft;
use crate::remedy;
use crate::report::{Finding, Severity, Victim, VictimKind};
use crate::verdict::{self, Cause, Plight, Waiter};

/// Events alone show throttling only if the CPU idles beside a runnable task. A shorter stretch of that may be idle-exit latency
/// or a skew between the clocks of two CPUs.
const STRETCH: Nanos = Nanos::from_millis(1);
/// Without a snapshot only recurrence confirms what was inferred.
const STALLS_INFERRED: u64 = 3;
/// A quota that is used up in every other period is too small, however short the rest of each period is…
const SPENT: f64 = 0.5;
/// …if it happens more often than by chance.
const SPENT_AT_LEAST: u64 = 5;
/// Tasks count as throttled about equally long if one was throttled for this part of the other's time.
const AS_LONG: f64 = 0.75;
/// Idle CPUs are named as the culprit if they show at least this part of the lost time.
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

/// Fair tasks except kernel threads, which are in no group that can be limited.
fn limitable<'a>(case: &'a Case<'_>) -> impl Iterator<Item = ActorId> + 'a {
    case.victims().map(|(id, _)| id).filter(|id| case.is_fair(*id) && !case.is_kernel_thread(*id))
}

/// A limited group and its tasks that waited; the task that lost most is first.
struct Limited {
    path: String,
    members: Vec<ActorId>,
    /// What the kernel counted during the recording.
    counted: Option<Throttled>,
}

pub(super) fn stopped(case: &Case<'_>, victim: ActorId) -> Nanos {
    case.blamed(victim, is_limit)
}

fn waited(case: &Case<'_>, victim: ActorId) -> Nanos {
    case.ledger.account(victim).map_or(Nanos::ZERO, |account| account.waited)
}

/// Groups with a limit and waiting tasks in the snapshot.
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
        // Name tasks not seen throttled only if none was.
        if group.members.iter().any(|id| stopped(case, *id) >= STRETCH) && group.counted.is_none() {
            group.members.retain(|id| stopped(case, *id) >= STRETCH);
        }
    }
    groups
}

/// Of several processes throttled about equally long, names the one that used the least CPU time: the others used up what it
/// needed. Its thread that was throttled longest becomes the first member.
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

/// Groups for which the kernel counted throttling and none of whose tasks is in the snapshot. Nothing shows which short-lived
/// tasks were in them.
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

/// The number of CPUs on which a group with these tasks can have been throttled at once: the kernel's counter sums over CPUs.
pub(super) fn breadth(case: &Case<'_>, members: &[ActorId]) -> u32 {
    let accounts: Vec<_> = members.iter().filter_map(|id| case.ledger.account(*id)).collect();
    let cpus = (0..case.world.cpus).map(unstarve_model::CpuId);
    let used = cpus.filter(|cpu| accounts.iter().any(|account| account.cpus.contains(*cpu))).count() as u32;
    let tasks = members.iter().map(|id| case.actor(*id).members).fold(0, u32::saturating_add);
    if members.is_empty() { case.world.cpus.max(1) } else { used.min(tasks).max(1) }
}

/// On a busy CPU others run while a group is throttled, and the events look like plain sharing. The kernel's counters show the
/// total, but not the longest stop.
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
    let known = !group.members.is_empty();
    let mut evidence: Vec<Claim> = Vec::new();
    if group.members.iter().any(|id| stopped(case, *id) > Nanos::ZERO) {
        evidence.push(LimitClaim::CpuWentIdle.into());
    }
    evidence.push(WaitClaim::ShareOfTrace(case.share(felt.lost)).into());
    evidence.extend(group.counted.map(|counted| LimitClaim::Counted(counted).into()));
    evidence.extend(users(case, &group.members).map(Claim::from));
    if !known {
        evidence.push(LimitClaim::NoMemberKnown.into());
    }
    let headline =
        LimitHeadline::Group { who: of_members(case, &group.members), lost: felt.lost, path: group.path.clone() };
    let draft = Draft {
        victims: group.members.clone(),
        evidence,
        period: crate::draft::period(case, &group.members),
        needs: if group.counted.is_some() { &[] } else { KIND.needs },
        remedies: remedy::against_limit(case, &group.path),
        ..Draft::new(KIND, severity, if known { 0.95 } else { 0.7 }, headline)
    };
    // Events do not show which occupants ran because of the limit. If they show little of the throttled time, name no culprit.
    let seen: Nanos = group.members.iter().map(|id| stopped(case, *id)).sum();
    let shows = seen.0 as f64 >= SEEN * felt.lost.0 as f64;
    let finding = draft.finish(case, |blame| shows && is_limit(blame));
    Some(if group.members.is_empty() { about_group(finding, &group.path) } else { finding })
}

/// Members by process, each represented by the thread that ran most; by name if processes are unknown.
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

fn of_members(case: &Case<'_>, members: &[ActorId]) -> GroupMembers {
    match programs(case, members).as_slice() {
        [] => GroupMembers::Unknown,
        [_] => GroupMembers::OneProgram(Kind::of(case, members)),
        programs => GroupMembers::Programs(Actors::of(case, programs.iter().map(|(program, _)| *program))),
    }
}

/// If a group has several programs: those that used its quota, most first.
fn users(case: &Case<'_>, members: &[ActorId]) -> Option<LimitClaim> {
    let mut by_use = programs(case, members);
    by_use.sort_by_key(|(_, ran)| Reverse(*ran));
    let [(most, used), rest @ ..] = by_use.as_slice() else { return None };
    let by_others: Nanos = rest.iter().map(|(_, ran)| *ran).sum();
    (!rest.is_empty()).then(|| LimitClaim::UsedMost { most: Actors::of(case, [*most]), used: *used, by_others })
}

/// A finding about a group without known tasks.
fn about_group(finding: Finding, path: &str) -> Finding {
    let victim = Victim { kind: VictimKind::Cgroup, comm: path.escape_debug().to_string(), ..finding.victim };
    Finding { victim, ..finding }
}

fn is_spent(counted: &Throttled) -> bool {
    counted.count >= SPENT_AT_LEAST && counted.count as f64 >= SPENT * counted.periods as f64
}

/// Tasks of unknown cgroup that were runnable while their CPU repeatedly went idle: one finding for all of them.
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
        LimitClaim::CpuWentIdleOften { times: account.stalls_by_rule[rule], least: FAIR_PERIOD }.into(),
        WaitClaim::ShareOfTrace(case.share(felt.lost)).into(),
    ];
    evidence.extend(WaitClaim::also(case, Alike::StoppedLikely, victims.iter().skip(1).copied()));
    let headline = LimitHeadline::GroupInferred { who: Kind::of(case, &[worst]), lost: felt.lost };
    let draft = Draft {
        victims: vec![worst],
        evidence,
        period: crate::draft::period(case, &[worst]),
        infers_settings: true,
        remedies: remedy::against_unknown_limit(case, worst),
        ..Draft::new(KIND, severity, 0.6, headline)
    };
    Some(draft.finish(case, is_limit))
}
