//! An equal keeps the CPU for longer than any slice; or so many equals share a CPU that a task waits a second for its slice.

use std::cmp::Reverse;

use unstarve_facts::{Bug, Holds};
use unstarve_model::{EventType, Nanos};
use unstarve_sched::Rule;
use unstarve_timeline::ActorId;

use super::FindingKind;
use crate::case::{Blame, Case};
use crate::claim::{Actors, Alike, Claim, Kind, SharingClaim, SharingHeadline, WaitClaim};
use crate::draft::{Draft, payer_row};
use crate::ledger::UnequalWaits;
use crate::remedy;
use crate::report::{Finding, Severity};
use crate::verdict::{self, Cause};

/// An equal that had the CPU for this long is a culprit even if most of the wait had another reason.
const HELD_BY_ITSELF: Nanos = Nanos::from_millis(200);

/// Confidence without a host snapshot: victim, culprit and lengths are recorded, that their weights are equal is not.
const BEHIND_AN_EQUAL: f64 = 0.85;

/// What this module finds.
pub(super) const KIND: FindingKind = FindingKind {
    id: "stuck-equal",
    title: "an equal keeps the CPU for longer than any turn lasts",
    about: "Fair tasks of equal weight take turns of a few milliseconds. One that waits far longer behind another is kept off by \
            something else: a bug of the scheduler, a loop in the kernel that is not preempted, or a weight or limit that the \
            recording does not hold.",
    needs: &[EventType::Waking],
    snapshot: Some("weights and limits of cgroups; without them one of those may be the reason"),
    find: |case, before| find(case, before),
};

/// The same for a crowd of equals.
pub(crate) const CROWDED_CPU: FindingKind = FindingKind {
    id: "crowded-cpu",
    title: "so many equals share a CPU that a turn takes a second to come",
    about: "Nobody takes more than his share, and there are too many shares: each of some hundred runnable tasks waits for \
            all others.",
    needs: &[EventType::Waking],
    snapshot: None,
    find: |case, before| find_crowds(case, before),
};

/// A task that waited behind an equal that kept the CPU.
struct Stuck<'a> {
    victim: ActorId,
    waits: &'a UnequalWaits,
    severity: Severity,
}

/// Whether a finding above info severity already explains the victim.
fn is_explained(before: &[Finding], victim: ActorId) -> bool {
    before.iter().any(|finding| finding.severity > Severity::Info && finding.actors.contains(&victim))
}

fn stuck<'a>(case: &'a Case<'_>, before: &[Finding]) -> Vec<Stuck<'a>> {
    let judge = |victim: ActorId, waits: &'a UnequalWaits| {
        let wait = waits.worst;
        // An occupant that had the smaller part of the wait was one of many.
        let is_main = wait.held_by_one >= Nanos(wait.length.0 / 2) || wait.held_by_one >= HELD_BY_ITSELF;
        if !is_main {
            return None;
        }
        let plight = case.plight(victim, Cause::StuckEqual, wait.held_by_one, waits.held_by_one);
        let severity = verdict::severity(&plight)?;
        Some(Stuck { victim, waits, severity })
    };
    let all = case.victims().filter_map(|(victim, account)| judge(victim, account.unequal.as_deref()?));
    all.filter(|stuck| !is_explained(before, stuck.victim)).collect()
}

fn find(case: &Case<'_>, before: &[Finding]) -> Vec<Finding> {
    let mut groups: Vec<(ActorId, Vec<Stuck<'_>>)> = Vec::new();
    for stuck in stuck(case, before) {
        let occupant = stuck.waits.worst.occupant;
        match groups.iter_mut().find(|(known, _)| *known == occupant) {
            Some((_, group)) => group.push(stuck),
            None => groups.push((occupant, vec![stuck])),
        }
    }
    groups.into_iter().filter_map(|(occupant, group)| behind(case, occupant, group)).collect()
}

fn behind(case: &Case<'_>, occupant: ActorId, mut group: Vec<Stuck<'_>>) -> Option<Finding> {
    group.sort_by_key(|stuck| Reverse((stuck.severity, case.is_kernel_worker(stuck.victim), stuck.waits.worst)));
    let worst = group.first()?;
    let (victim, severity, wait) = (worst.victim, worst.severity, worst.waits.worst);
    let known = case.knows_group(victim) && case.knows_group(occupant);
    let one_name = case.name(victim) == case.name(occupant);
    let share = case.share(worst.waits.in_all);
    let mut evidence: Vec<Claim> = vec![
        SharingClaim::LongerThanTurns { share, held: wait.held_by_one }.into(),
        WaitClaim::bpf_scheduler(case).unwrap_or_else(|| {
            if known { SharingClaim::NoSettingExplains } else { SharingClaim::SettingMayExplain }.into()
        }),
    ];
    evidence.extend(WaitClaim::polls(case, occupant));
    evidence.extend(known_bugs(case).map(Claim::from));
    let was_in = |function| SharingClaim::WasIn { who: Actors::of(case, [occupant]), function };
    evidence.extend(case.work(occupant).map(|work| was_in(work.function).into()));
    let also: Vec<&Stuck<'_>> = group.iter().skip(1).collect();
    evidence.extend(WaitClaim::also_behind(case, also.iter().map(|stuck| (stuck.victim, stuck.waits.in_all))));
    let headline = SharingHeadline::StuckEqual {
        who: if one_name { Kind::thread(case, victim, wait.tid) } else { Kind::of(case, &[victim]) },
        waited: wait.length,
        behind: (!one_name).then(|| Actors::of(case, [occupant])),
        held: wait.held_by_one,
    };
    let draft = Draft {
        victims: vec![victim],
        evidence,
        also_paid: also.iter().map(|stuck| payer_row(case, stuck.victim, stuck.waits.in_all)).collect(),
        infers_settings: !known,
        remedies: remedy::against_stuck_equal(case, victim, occupant),
        ..Draft::new(KIND, severity, if known { 0.9 } else { BEHIND_AN_EQUAL }, headline)
    };
    Some(draft.finish(case, |blame| blame.occupant == occupant && is_turn(blame)))
}

fn is_turn(blame: &Blame) -> bool {
    matches!(blame.rule, Rule::Fair | Rule::Count | Rule::WakeupPreemption)
}

/// Known bugs of this kernel that look like this.
fn known_bugs(case: &Case<'_>) -> impl Iterator<Item = SharingClaim> {
    // They are bugs of the fair class.
    let bugs = Bug::that_look_like_an_equal().filter(|_| case.bpf_scheduler().is_none());
    let affects = bugs.filter(|bug| bug.affects(&case.facts) == Holds::Yes);
    affects.map(|bug| SharingClaim::KnownBug { id: bug.id(), says: bug.says() })
}

fn find_crowds(case: &Case<'_>, before: &[Finding]) -> Vec<Finding> {
    let judge = |victim: ActorId, waits: &UnequalWaits| {
        let plight = case.plight(victim, Cause::Turns, waits.longest_in_all, waits.in_all);
        Some((verdict::severity(&plight)?, waits.longest_in_all, victim))
    };
    let crowded = case.victims().filter_map(|(victim, account)| judge(victim, account.unequal.as_deref()?));
    let mut crowded: Vec<(Severity, Nanos, ActorId)> =
        crowded.filter(|(_, _, victim)| !is_explained(before, *victim)).collect();
    crowded.sort_by_key(|(severity, longest, victim)| Reverse((*severity, *longest, Reverse(*victim))));
    of_crowd(case, &crowded).into_iter().collect()
}

fn of_crowd(case: &Case<'_>, crowded: &[(Severity, Nanos, ActorId)]) -> Option<Finding> {
    let &(severity, longest, victim) = crowded.first()?;
    let account = case.ledger.account(victim)?;
    let waiting = account.queued_together.checked_div(account.waits)?;
    let mut evidence = vec![SharingClaim::WaitTogether(waiting).into()];
    evidence.extend(WaitClaim::also(case, Alike::Waited, crowded.iter().skip(1).map(|(_, _, victim)| *victim)));
    let headline = SharingHeadline::Crowded { who: Kind::of(case, &[victim]), longest };
    let draft = Draft {
        victims: vec![victim],
        evidence,
        infers_settings: !case.knows_group(victim),
        remedies: remedy::against_crowded_cpu(case, victim),
        ..Draft::new(CROWDED_CPU, severity, 0.9, headline)
    };
    Some(draft.finish(case, is_turn))
}
