//! A real-time task waits behind a task of lower class or priority that the kernel does not preempt.

use std::cmp::Reverse;

use unstarve_facts::PreemptMode;
use unstarve_model::{EventType, Nanos};
use unstarve_sched::Rule;
use unstarve_timeline::ActorId;

use super::{FindingKind, names, percent, title, told_apart};
use crate::case::{Blame, Case};
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
    let prio =
        |id: ActorId| case.actor(id).prio().map_or("?".to_owned(), |prio| format!("{} ({})", prio.0, prio.policy()));
    let mut evidence = vec![format!(
        "priority {} goes before {} ({}), and did not until that one left or was preempted",
        prio(worst.victim),
        prio(occupant),
        case.name(occupant)
    )];
    evidence.push(format!(
        "{} of the recording, in {} waits in all",
        percent(worst.lost.share_of(case.span())),
        account.waits
    ));
    evidence.extend(worst.plight.period.map(|period| format!("it runs every {period}")));
    evidence.extend(doing(case, occupant));
    evidence.extend(case.facts.preempt_mode().map(|mode| format!("this kernel preempts as {}", mode_words(mode))));
    let also: Vec<&Late> = group.iter().skip(1).collect();
    if !also.is_empty() {
        evidence.push(format!("so did {}", names(case, also.iter().map(|late| late.victim))));
    }
    let draft = Draft {
        kind: KIND,
        severity: worst.severity,
        confidence: 0.9,
        sentence: format!(
            "{} waited up to {} behind {}, which goes after it and was not preempted, {} in all{}.",
            told_apart(case, title(case, &[worst.victim]), &[worst.victim], &[occupant]),
            worst.longest,
            told_apart(case, case.name(occupant), &[occupant], &[worst.victim]),
            worst.lost,
            period.map(|period| format!(", every {}", period.interval)).unwrap_or_default(),
        ),
        victims: vec![worst.victim],
        evidence,
        also_paid: also.iter().map(|late| payer_row(case, late.victim, late.lost)).collect(),
        period,
        needs: KIND.needs,
        infers_settings: false,
        remedies: remedy::against_not_preempted(case, worst.victim, occupant),
    };
    Some(draft.finish(case, is_late))
}

/// What the occupant executed, if events show it.
fn doing(case: &Case<'_>, occupant: ActorId) -> Option<String> {
    let (function, workqueue) = case.work(occupant)?;
    let on = workqueue.map(|workqueue| format!(" on {workqueue}")).unwrap_or_default();
    Some(format!("{} worked at {function}{on}", case.name(occupant)))
}

fn mode_words(mode: PreemptMode) -> &'static str {
    match mode {
        PreemptMode::None => "preempt=none: only where code gives way",
        PreemptMode::Voluntary => "preempt=voluntary: only where code gives way",
        PreemptMode::Lazy => "preempt=lazy: real-time wakeups at once, fair ones at the tick",
        PreemptMode::Full => "preempt=full: everywhere but in sections with preemption off",
        PreemptMode::Realtime => "PREEMPT_RT: nearly everywhere",
    }
}
