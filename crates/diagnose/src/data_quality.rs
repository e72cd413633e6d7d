//! Whether a trace is complete enough for an all-clear.
//!
//! An all-clear is a statement about everything that happened, so it takes more than the absence of findings.

use std::cmp::Reverse;

use unstarve_model::{EventType, LossKind, Nanos, clean, counted};
use unstarve_sched::Rule;
use unstarve_timeline::{ActorId, CpuEnd};

use crate::case::Case;
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

/// Why a trace cannot show that no task is starved.
pub(crate) enum Doubt {
    /// Events are missing, or lack what a wait is judged by: its rates are not valid.
    Incomplete(String),
    /// All events are there, but the reason of one wait is not.
    Unexplained(String),
}

impl Doubt {
    /// The reason as text.
    pub(crate) fn into_words(self) -> String {
        match self {
            Doubt::Incomplete(words) | Doubt::Unexplained(words) => words,
        }
    }
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
    let unexplained = || wait.map(|wait| Doubt::Unexplained(not_by_sharing(case, wait)));
    incomplete(case, driven).map(Doubt::Incomplete).or_else(unexplained)
}

fn incomplete(case: &Case<'_>, driven: &Driven) -> Option<String> {
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
        format!(
            "no sched_switch event could be read, and {} of the file could not be decoded",
            counted(unreadable, "part")
        )
    } else if switches == 0 {
        "it has no sched_switch events, which show who ran".to_owned()
    } else if switches < SWITCHES {
        format!("it has only {}", counted(switches, "sched_switch event"))
    } else if span < SHORTEST {
        format!("it covers {span}, and what is called a stall lasts {SHORTEST} or more")
    } else if let Some(longest) = longest.filter(|longest| unranked && *longest > FAIR_PERIOD) {
        format!(
            "its switches have no priorities (PERF_RECORD_SWITCH), so a wait of {longest} may be behind a real-time task"
        )
    } else if let Some((who, length, behind)) = behind_unranked(case) {
        format!(
            "{who} waited {length} behind {behind}, and no event has the priorities of both: it may be a real-time task"
        )
    } else if let Some(cpus) = unrecorded {
        cpus.to_string()
    } else if is_much(missing, switches) {
        format!(
            "{} missing beside {} that were read",
            are(missing, "switch", "switches"),
            counted(switches, "sched_switch event")
        )
    } else if is_much(unreadable, events) {
        format!("{} could not be decoded", counted(unreadable, "part"))
    } else if is_much(dropped, events) {
        format!("{} lost beside {} that were read", are(dropped, "event", "events"), counted(events, "event"))
    } else if is_much(late, events) {
        format!("{} came in another order than that of time", counted(late, "event"))
    } else if unknown.share_of(case.ledger.waited) >= UNKNOWN {
        format!("nobody knows who had the CPU in {unknown} of {} of waits", case.ledger.waited)
    } else if let Some(loss) = ends_early.filter(|_| tail.share_of(span) >= MISSING) {
        match unproved(case) {
            Some(wait) => format!("{loss}: {wait}"),
            None => loss.to_string(),
        }
    } else {
        return None;
    })
}

/// The longest wait of, or behind, a task of unknown priority, if it is longer than sharing takes: the victim, the length, and
/// the occupant.
fn behind_unranked(case: &Case<'_>) -> Option<(String, Nanos, String)> {
    let rule = Rule::Unranked as usize;
    let longest = case.victims().max_by_key(|(id, account)| (account.longest_by_rule[rule], Reverse(*id)));
    let (victim, account) = longest.filter(|(_, account)| account.longest_by_rule[rule] >= SHORTEST)?;
    let behind = case.blame(victim).iter().find(|blame| blame.rule == Rule::Unranked)?.occupant;
    Some((case.name(victim), account.longest_by_rule[rule], case.name(behind)))
}

/// The longest wait that is not proved because a CPU's events end early, and how long it may be.
fn unproved(case: &Case<'_>) -> Option<String> {
    let is_task = |id| case.world.actors.get(id).comm().is_some();
    let doubted =
        case.world.actors.iter().filter(|(id, _)| is_task(*id) && !case.is_observer(*id)).filter_map(|(id, _)| {
            let spot = case.ledger.account(id)?.open.as_deref()?;
            (spot.open.end == CpuEnd::Doubted && is_task(spot.open.holder)).then_some(())?;
            Some((spot.open.possible, Reverse(spot.tid), case.name(id), spot))
        });
    let (_, _, name, spot) = doubted.max_by_key(|(possible, tid, ..)| (*possible, *tid))?;
    let OpenSpot { tid, cpu, open, .. } = spot;
    let least = if open.proved > Nanos::ZERO { format!("at least {}, and ", open.proved) } else { String::new() };
    Some(format!("{name}[{tid}] waited {least}{} if CPU {cpu} stayed with {}", open.possible, case.name(open.holder)))
}

/// A wait that neither fair sharing nor anything else in the recording explains.
fn not_by_sharing(case: &Case<'_>, wait: &Unequal) -> String {
    let who = format!("{}[{}]", clean(&wait.comm.to_string()), wait.tid);
    let why = match case.snapshot {
        Some(_) => "the events and the host snapshot do not say why",
        None => {
            "a cgroup's weight or limit, or SCHED_IDLE, may be the reason, which this recording does not hold (`unstarve record` \
             keeps them)"
        }
    };
    format!(
        "{who} waited {}, {} of it behind {}, its equal by priority. Equals take turns of a few milliseconds: {why}",
        wait.length,
        wait.held,
        case.name(wait.occupant)
    )
}

/// Whether so much is missing that the rest may show the opposite of what happened.
pub(crate) fn is_mostly_missing(driven: &Driven) -> bool {
    let missing = driven.losses.iter().filter(|loss| loss.kind == LossKind::MissingSwitch);
    missing.map(|loss| loss.count).sum::<u64>() > driven.switches
}

fn are(count: u64, one: &str, many: &str) -> String {
    if count == 1 { format!("1 {one} is") } else { format!("{} {many} are", unstarve_model::grouped(count)) }
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
