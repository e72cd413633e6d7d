//! Whether a trace is complete enough for an all-clear.
//!
//! An all-clear is a statement about everything that happened, so it takes more than the absence of findings.

use std::cmp::Reverse;

use unstarve_model::{EventType, LossKind, Nanos, clean};
use unstarve_sched::Rule;
use unstarve_timeline::{ActorId, CpuEnd};

use crate::case::Case;
use crate::claim::{Actors, Doubt, Incomplete, Kind, UnprovedWait};
use crate::drive::Driven;
use crate::finding::CROWDED_CPU;
use crate::ledger::{FAIR_PERIOD, OpenSpot, TICK, Unequal};
use crate::report::{Finding, Severity};

/// With fewer switches, a trace shows hardly more than which tasks ran at one moment.
const SWITCHES: u64 = 10;
/// The shortest single stall that is a warning whatever the trace's length (`docs/blame.md`, "How bad"). A shorter trace cannot
/// contain one.
const SHORTEST: Nanos = Nanos(FAIR_PERIOD.0 * 2);
/// No all-clear if this part of the switches is missing, or this part of the events unreadable: waits may be missing too.
const MISSING: f64 = 0.1;
/// No all-clear if the occupant is unknown for this part of the wait time.
const UNKNOWN: f64 = 0.5;

/// Wait time without a known occupant. Time that the CPU itself did not run is known.
pub(crate) fn unknown(case: &Case<'_>) -> Nanos {
    case.victims()
        .map(|(victim, _)| {
            case.blamed(victim, |blame| blame.rule == Rule::Unknown && blame.occupant != ActorId::STOPPED)
        })
        .sum()
}

/// Why the trace cannot show that no task is starved; `None` if it can.
pub(crate) fn too_little(case: &Case<'_>, driven: &Driven, findings: &[Finding]) -> Option<Doubt> {
    // What a finding reports is not repeated as a doubt.
    let is_found = |wait: &&Unequal| {
        let is_it = |finding: &Finding| finding.id == CROWDED_CPU || finding.victim.tids.contains(&wait.tid.0);
        let is_loud = |finding: &Finding| finding.severity > Severity::Info && is_it(finding);
        findings.iter().any(is_loud)
    };
    let wait = case.ledger.unequal.as_ref().filter(|wait| !is_found(wait));
    let unexplained = || wait.map(|wait| not_by_sharing(case, wait));
    incomplete(case, driven).map(Doubt::Incomplete).or_else(unexplained)
}

fn incomplete(case: &Case<'_>, driven: &Driven) -> Option<Incomplete> {
    let (switches, events) = (driven.switches, driven.events);
    let lost = |fits: fn(LossKind) -> bool| -> u64 {
        driven.losses.iter().filter(|loss| fits(loss.kind)).map(|loss| loss.count).fold(0, u64::saturating_add)
    };
    let is_much = |count: u64, of: u64| count as f64 >= MISSING * count.saturating_add(of) as f64 && count > 0;
    let missing = lost(|kind| kind == LossKind::MissingSwitch);
    let unreadable = lost(|kind| kind == LossKind::Undecodable);
    let dropped = lost(|kind| kind == LossKind::LostEvents);
    let late = lost(|kind| kind == LossKind::OutOfOrder);
    let unknown = unknown(case);
    let span = case.world.now.since(case.world.start);
    let longest = case.ledger.longest.sorted().first().map(|(length, _)| *length);
    let unrecorded = driven.losses.iter().find(|loss| loss.kind == LossKind::UnrecordedCpus);
    let unranked = lost(|kind| kind == LossKind::NoPriorities) > 0;
    let tail = driven.timeline.missing_tail();
    let ends_early = driven.losses.iter().find(|loss| loss.kind == LossKind::EndsEarly);
    Some(if switches == 0 && unreadable > 0 {
        Incomplete::SwitchesUnreadable(unreadable)
    } else if switches == 0 {
        Incomplete::NoSwitches
    } else if switches < SWITCHES {
        Incomplete::FewSwitches(switches)
    } else if span < SHORTEST {
        Incomplete::Short { span, stall: SHORTEST }
    } else if let Some(longest) = longest.filter(|longest| unranked && *longest > FAIR_PERIOD) {
        Incomplete::NoPriorities(longest)
    } else if let Some(unranked) = behind_unranked(case) {
        unranked
    } else if let Some(cpus) = unrecorded {
        Incomplete::CpusNotRecorded(cpus.clone())
    } else if is_much(missing, switches) {
        Incomplete::SwitchesMissing { missing, read: switches }
    } else if is_much(unreadable, events) {
        Incomplete::PartsUndecoded(unreadable)
    } else if is_much(dropped, events) {
        Incomplete::EventsLost { lost: dropped, read: events }
    } else if is_much(late, events) {
        Incomplete::EventsOutOfOrder(late)
    } else if unknown.share_of(case.ledger.waited) >= UNKNOWN {
        Incomplete::OccupantUnknown { unknown, waited: case.ledger.waited }
    } else if let Some(loss) = ends_early.filter(|_| tail.share_of(span) >= MISSING) {
        Incomplete::EndsEarly { loss: loss.clone(), wait: unproved(case) }
    } else {
        return None;
    })
}

/// The longest wait of, or behind, a task of unknown priority, if it is longer than sharing takes.
fn behind_unranked(case: &Case<'_>) -> Option<Incomplete> {
    let rule = Rule::Unranked as usize;
    let longest = case.victims().max_by_key(|(id, account)| (account.longest_by_rule[rule], Reverse(*id)));
    let (victim, account) = longest.filter(|(_, account)| account.longest_by_rule[rule] >= SHORTEST)?;
    let waited = account.longest_by_rule[rule];
    let behind = case.blame(victim).iter().find(|blame| blame.rule == Rule::Unranked)?.occupant;
    Some(Incomplete::Unranked { who: Actors::of(case, [victim]), waited, behind: Actors::of(case, [behind]) })
}

/// The longest wait that is not proved because a CPU's events end early, and how long it may be.
fn unproved(case: &Case<'_>) -> Option<UnprovedWait> {
    let is_task = |id| case.world.actors.get(id).comm().is_some();
    let doubted =
        case.world.actors.iter().filter(|(id, _)| is_task(*id) && !case.is_observer(*id)).filter_map(|(id, _)| {
            let spot = case.ledger.account(id)?.open.as_deref()?;
            (spot.open.end == CpuEnd::Doubted && is_task(spot.open.holder)).then_some(())?;
            Some((spot.open.possible, Reverse(spot.tid), id, spot))
        });
    let (_, _, id, spot) = doubted.max_by_key(|(possible, tid, ..)| (*possible, *tid))?;
    let OpenSpot { tid, cpu, open, .. } = spot;
    Some(UnprovedWait {
        who: Kind::thread(case, id, *tid),
        proved: open.proved,
        possible: open.possible,
        cpu: *cpu,
        holder: Actors::of(case, [open.holder]),
    })
}

/// A wait that neither fair sharing nor anything else in the recording explains.
fn not_by_sharing(case: &Case<'_>, wait: &Unequal) -> Doubt {
    Doubt::Unexplained {
        who: Kind::named(clean(&wait.comm.to_string()).into_owned(), wait.tid),
        waited: wait.length,
        held: wait.held,
        occupant: Actors::of(case, [wait.occupant]),
        has_snapshot: case.snapshot.is_some(),
    }
}

/// Whether so much is missing that the rest may show the opposite of what happened.
pub(crate) fn is_mostly_missing(driven: &Driven) -> bool {
    let missing = driven.losses.iter().filter(|loss| loss.kind == LossKind::MissingSwitch);
    missing.map(|loss| loss.count).sum::<u64>() > driven.switches
}

/// The cgroup whose quota may have throttled tasks on a busy CPU while others ran. Only the kernel's counters show it, and the
/// recording does not have them.
pub(crate) fn uncounted_limit(case: &Case<'_>) -> Option<String> {
    let snapshot = case.snapshot?;
    let limited = |id| {
        let group = snapshot.limited_cgroup_of(case.first_tid(id)?)?;
        (snapshot.throttled_meanwhile.is_none() || group.throttled.is_none()).then_some(group)
    };
    let waited = case.victims().filter(|(id, account)| account.longest >= TICK && case.is_fair(*id));
    let longest = waited.filter_map(|(id, account)| Some((account.longest, limited(id)?)));
    let (_, group) = longest.max_by_key(|(longest, _)| *longest)?;
    Some(clean(&group.path).into_owned())
}

/// The kind of waits that the trace cannot show.
pub(crate) fn invisible(driven: &Driven) -> Option<String> {
    let wakes = [EventType::Waking, EventType::Wakeup];
    let seen = wakes.iter().any(|event| driven.seen.contains(*event));
    let recorded = driven.info.recorded.is_some_and(|set| wakes.iter().any(|event| set.contains(*event)));
    // A sleeping task is woken before it runs again: with this many switches there were wakeups, so they were lost or filtered
    // out.
    let none_came = driven.switches >= 10 * SWITCHES;
    (driven.switches > 0 && !seen && (!recorded || none_came)).then(|| "waits after a wakeup".to_owned())
}
