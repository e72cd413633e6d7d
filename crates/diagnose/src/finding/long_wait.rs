//! A wait too long to be healthy that no other finding explains.

use std::cmp::Reverse;

use unstarve_model::{EventType, LossKind, Nanos};
use unstarve_sched::Rule;
use unstarve_timeline::{ActorId, CpuEnd, OpenWait};

use super::FindingKind;
use super::stuck_equal::CROWDED_CPU;
use crate::case::{Blame, Case};
use crate::claim::{Actors, Alike, Claim, Kind, UnprovedWait, WaitClaim, WaitHeadline};
use crate::draft::Draft;
use crate::ledger::Account;
use crate::remedy;
use crate::report::{Finding, Remedy, Severity};
use crate::verdict::{self, Cause, NEVER_HEALTHY, Waiter};

/// Confidence in a wait of which only a range is known.
const UNPROVED: f64 = 0.5;

/// What this module finds.
pub(super) const KIND: FindingKind = FindingKind {
    id: "long-wait",
    title: "a task waited for a second or more, for no reason that another finding names",
    about: "No recording with such a wait is healthy, unless the task asked to run after all others. What had the CPU meanwhile is \
            listed; why that was no other finding's affair, its evidence says.",
    needs: &[EventType::Waking],
    snapshot: None,
    find,
};

/// An unexplained wait: the victim, the length at most, and the main rule.
struct Unexplained {
    victim: ActorId,
    longest: Nanos,
    rule: Rule,
    cause: Cause,
}

fn find(case: &Case<'_>, before: &[Finding]) -> Vec<Finding> {
    let is_loud = |finding: &&Finding| finding.severity > Severity::Info;
    let explained = |victim: ActorId| {
        let of_tid = |finding: &Finding| case.actor(victim).tids.iter().any(|tid| finding.victim.tids.contains(&tid.0));
        before.iter().filter(is_loud).any(|finding| finding.actors.contains(&victim) || of_tid(finding))
    };
    let crowded = before.iter().any(|finding| finding.id == CROWDED_CPU);
    let is_turn = |rule: Rule| matches!(rule, Rule::Fair | Rule::Count | Rule::WakeupPreemption);
    let long = case.victims().filter_map(|(victim, account)| unexplained(case, victim, account));
    let long = long.filter(|wait| !(crowded && is_turn(wait.rule)));
    let mut long: Vec<Unexplained> = long.filter(|wait| !explained(wait.victim)).collect();
    long.sort_by_key(|wait| Reverse((wait.longest, Reverse(wait.victim))));
    of_all(case, &long).into_iter().chain(not_proved(case, before)).collect()
}

/// A CPU fell silent while a task had it, and nothing proves that it was recorded to the end. Only a range is known for a wait
/// behind that task. The upper end decides the severity, unless events are known to be lost: losses also look like silence.
fn not_proved(case: &Case<'_>, before: &[Finding]) -> Option<Finding> {
    let lost = |kind: LossKind| matches!(kind, LossKind::LostEvents | LossKind::Truncated | LossKind::UnrecordedCpus);
    if case.losses.iter().any(|loss| lost(loss.kind)) || before.iter().any(|finding| finding.severity > Severity::Info)
    {
        return None;
    }
    let is_task = |id: ActorId| case.actor(id).comm().is_some();
    let open = |id: ActorId| case.ledger.account(id)?.open.as_deref().filter(|spot| spot.open.end == CpuEnd::Doubted);
    let waits =
        case.world.actors.iter().filter(|(id, _)| is_task(*id) && !case.is_observer(*id)).filter_map(|(id, _)| {
            let spot = open(id)?;
            let is_long = spot.open.possible >= NEVER_HEALTHY && is_task(spot.open.holder);
            (is_long && case.waiter(id) != Waiter::AskedToBeLast).then_some((id, spot))
        });
    let (victim, spot) = waits.max_by_key(|(id, spot)| (spot.open.possible, Reverse(*id)))?;
    let OpenWait { proved, possible, holder, rule, .. } = spot.open;
    let cause = match Cause::of(case.waiter(victim), rule) {
        // No other task ran in between.
        None | Some(Cause::Turns) => Cause::StuckEqual,
        Some(cause) => cause,
    };
    let headline = WaitHeadline::Unproved(UnprovedWait {
        who: Kind::of(case, &[victim]),
        proved,
        possible,
        cpu: spot.cpu,
        holder: Actors::of(case, [holder]),
    });
    let severity = verdict::severity(&case.plight(victim, cause, possible, possible))?.max(Severity::Warning);
    let draft = Draft {
        victims: vec![victim],
        evidence: vec![WaitClaim::Under(rule).into(), WaitClaim::NoEventAfter(spot.cpu).into()],
        remedies: remedies(case, cause, victim, holder),
        ..Draft::new(KIND, severity, UNPROVED, headline)
    };
    Some(draft.finish(case, |blame| blame.occupant == holder))
}

/// Remedies against a wait with this cause.
fn remedies(case: &Case<'_>, cause: Cause, victim: ActorId, occupant: ActorId) -> Vec<Remedy> {
    match cause {
        Cause::Class | Cause::Priority | Cause::RealTimeOrder => remedy::against_rt(case, &[victim], &[occupant], None),
        Cause::NotPreempted => remedy::against_not_preempted(case, victim, occupant),
        Cause::Interrupts | Cause::HostPackets => remedy::against_interrupts(case, victim, &[occupant]),
        Cause::Turns | Cause::Crowd | Cause::PingPong => remedy::against_crowded_cpu(case, victim),
        Cause::OwnCpuIdle | Cause::GroupLimit => remedy::against_unknown_limit(case, victim),
        Cause::StuckEqual | Cause::Weight => remedy::against_stuck_equal(case, victim, occupant),
        Cause::OtherCpuIdle => remedy::against_idle(case, victim),
        Cause::CpuStopped => remedy::against_stopped_cpu(false),
        // The `throttled` finding has the remedies.
        Cause::ClassLimit | Cause::OwnClassLimit => Vec::new(),
    }
}

fn unexplained(case: &Case<'_>, victim: ActorId, account: &Account) -> Option<Unexplained> {
    if account.longest < NEVER_HEALTHY || case.is_stopper(victim) || case.waiter(victim) == Waiter::AskedToBeLast {
        return None;
    }
    let of_rule = |rule: Rule| (account.longest_mainly[rule as usize], account.longest_by_rule[rule as usize]);
    let rule = Rule::ALL.into_iter().max_by_key(|rule| (of_rule(*rule), Reverse(*rule)))?;
    let cause = Cause::of(case.waiter(victim), rule)?;
    Some(Unexplained { victim, longest: account.longest, rule, cause })
}

fn of_all(case: &Case<'_>, long: &[Unexplained]) -> Option<Finding> {
    let Unexplained { victim, longest, rule, cause } = *long.first()?;
    let by_rule = |blame: &Blame| blame.rule == rule;
    let occupant = case.blame(victim).iter().find(|blame| by_rule(blame))?.occupant;
    let mut evidence: Vec<Claim> = vec![WaitClaim::Under(rule).into()];
    if case.asked_for_less_weight(victim) {
        evidence.push(WaitClaim::IsNice.into());
    }
    evidence.extend(WaitClaim::also(case, Alike::WaitedAsLong, long.iter().skip(1).map(|wait| wait.victim)));
    evidence.extend(WaitClaim::polls(case, occupant));
    evidence.extend(WaitClaim::bpf_scheduler(case).filter(|_| case.is_fair(victim)));
    let by_table = verdict::severity(&case.plight(victim, cause, longest, longest));
    let headline = WaitHeadline::Long { who: Kind::of(case, &[victim]), longest, behind: Actors::of(case, [occupant]) };
    // No wait of this length is healthy, whatever the rule.
    let severity = by_table.unwrap_or(Severity::Warning).max(Severity::Warning);
    let draft = Draft {
        victims: vec![victim],
        evidence,
        period: crate::draft::period(case, &[victim]),
        infers_settings: !case.knows_group(victim),
        remedies: remedies(case, cause, victim, occupant),
        ..Draft::new(KIND, severity, 0.8, headline)
    };
    Some(draft.finish(case, by_rule))
}
