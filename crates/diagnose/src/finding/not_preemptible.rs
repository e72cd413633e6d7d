//! A real-time task waits behind a task of lower class or priority that the kernel does not preempt.

use std::cmp::Reverse;

use unstarve_model::{EventType, Nanos};
use unstarve_sched::Rule;
use unstarve_timeline::ActorId;

use super::FindingKind;
use crate::case::{Blame, Case};
use crate::claim::{Actors, Alike, Claim, Kind, RealTimeClaim, RealTimeHeadline, WaitClaim};
use crate::draft::{self, Draft, payer_row};
use crate::remedy;
use crate::report::{Finding, Severity};
use crate::verdict::{self, Cause, Plight};

/// Maximum findings of this kind; one per occupant.
const MAX_FINDINGS: usize = 4;

/// What this module finds.
pub(super) const KIND: FindingKind = FindingKind {
    id: "not-preemptible",
    title: "a real-time task waits behind a lower class or priority that is not preempted",
    about: "A woken real-time task takes the CPU at once, unless the kernel cannot preempt what runs: a long section with preemption \
            off, a kernel that preempts rarely (none, voluntary, lazy), softirqs, or migration disabled for the task that waits.",
    needs: &[EventType::Waking],
    snapshot: Some("how the kernel preempts"),
    find: |case, _| find(case),
};

/// A real-time task that waited behind lower tasks.
struct Late {
    victim: ActorId,
    occupant: ActorId,
    /// The longest time in one wait behind this occupant.
    longest: Nanos,
    /// Total time behind all such occupants.
    lost: Nanos,
    plight: Plight,
    severity: Severity,
}

fn find(case: &Case<'_>) -> Vec<Finding> {
    let mut groups: Vec<(ActorId, Vec<Late>)> = Vec::new();
    for late in case.victims().filter_map(|(victim, _)| late(case, victim)) {
        match groups.iter_mut().find(|(occupant, _)| *occupant == late.occupant) {
            Some((_, group)) => group.push(late),
            None => groups.push((late.occupant, vec![late])),
        }
    }
    let mut findings: Vec<Finding> =
        groups.into_iter().filter_map(|(occupant, group)| behind(case, occupant, group)).collect();
    findings.sort_by_key(|finding| Reverse((finding.severity, finding.waits.max_ns)));
    findings.truncate(MAX_FINDINGS);
    findings
}

fn is_late(blame: &Blame) -> bool {
    blame.rule == Rule::NotPreempted
}

fn late(case: &Case<'_>, victim: ActorId) -> Option<Late> {
    // The stop class works for the kernel itself.
    if case.is_stopper(victim) {
        return None;
    }
    let account = case.ledger.account(victim)?;
    let occupant = case.blame(victim).iter().find(|blame| is_late(blame))?.occupant;
    // The longest time behind all such occupants decides the severity; the sentence names one of them.
    let latest = account.longest_by_rule[Rule::NotPreempted as usize];
    let longest = case.ledger.not_preempted.get(&(victim, occupant)).copied().unwrap_or(latest);
    let lost = case.blamed(victim, is_late);
    let plight = case.plight(victim, Cause::NotPreempted, latest, lost);
    let in_window = case.share_of_window(victim, &[ActorId::OTHERS], Rule::NotPreempted);
    let plight = Plight { share: plight.share.max(in_window), ..plight };
    let severity = verdict::severity(&plight)?;
    Some(Late { victim, occupant, longest, lost, plight, severity })
}

fn behind(case: &Case<'_>, occupant: ActorId, mut group: Vec<Late>) -> Option<Finding> {
    group.sort_by_key(|late| Reverse((late.severity, late.longest, Reverse(late.victim))));
    let worst = group.first()?;
    let account = case.ledger.account(worst.victim)?;
    let period = draft::period(case, &[worst.victim]);
    let who = Actors::of(case, [occupant]);
    let (high, low) = (case.actor(worst.victim).prio(), who.prio);
    let mut evidence: Vec<Claim> = vec![
        RealTimeClaim::NotPreempted { high, low, occupant: who.clone() }.into(),
        RealTimeClaim::ShareInWaits { share: case.share(worst.lost), waits: account.waits }.into(),
    ];
    evidence.extend(worst.plight.period.map(|period| RealTimeClaim::RunsEvery(period).into()));
    evidence.extend(case.work(occupant).map(|work| RealTimeClaim::WorkedAt(who, work).into()));
    evidence.extend(case.facts.preempt_mode().map(|mode| RealTimeClaim::Preempts(mode).into()));
    let also: Vec<&Late> = group.iter().skip(1).collect();
    evidence.extend(WaitClaim::also(case, Alike::Waited, also.iter().map(|late| late.victim)));
    let headline = RealTimeHeadline::NotPreempted {
        who: Kind::apart_from(case, &[worst.victim], &[occupant]),
        longest: worst.longest,
        behind: Actors::apart_from(case, &[occupant], &[worst.victim]),
        lost: worst.lost,
        period: period.map(|period| period.interval),
    };
    let draft = Draft {
        victims: vec![worst.victim],
        evidence,
        also_paid: also.iter().map(|late| payer_row(case, late.victim, late.lost)).collect(),
        period,
        remedies: remedy::against_not_preempted(case, worst.victim, occupant),
        ..Draft::new(KIND, worst.severity, 0.9, headline)
    };
    Some(draft.finish(case, is_late))
}
