//! A wait that nobody may call healthy, and that no other finding explains.

use std::cmp::Reverse;

use unstarve_model::{EventType, KernelThread, Nanos};
use unstarve_timeline::{ActorId, Rule};

use super::{FindingKind, names, title};
use crate::case::{Blame, Case};
use crate::draft::Draft;
use crate::ledger::Account;
use crate::remedy;
use crate::report::{Finding, Severity};
use crate::verdict::{NEVER_HEALTHY, Waiter};

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

/// Who waited, how long at most, and by which rule mostly.
struct Unexplained {
    victim: ActorId,
    longest: Nanos,
    rule: Rule,
}

fn find(case: &Case<'_>, before: &[Finding]) -> Vec<Finding> {
    let is_loud = |finding: &&Finding| finding.severity > Severity::Info;
    let explained = |victim: ActorId| {
        let of_tid = |finding: &Finding| {
            let of_payer = finding.price.iter().flat_map(|payer| &payer.tids);
            let tids = || finding.victim.tids.iter().chain(of_payer.clone());
            case.actor(victim).tids.iter().any(|tid| tids().any(|known| *known == tid.0))
        };
        before.iter().filter(is_loud).any(|finding| finding.actors.contains(&victim) || of_tid(finding))
    };
    let long = case.victims().filter_map(|(victim, account)| unexplained(case, victim, account));
    let mut long: Vec<Unexplained> = long.filter(|wait| !explained(wait.victim)).collect();
    long.sort_by_key(|wait| Reverse((wait.longest, Reverse(wait.victim))));
    of_all(case, &long).into_iter().collect()
}

fn unexplained(case: &Case<'_>, victim: ActorId, account: &Account) -> Option<Unexplained> {
    let is_stopper = case.actor(victim).kernel_thread == Some(KernelThread::Migration);
    if account.longest < NEVER_HEALTHY || is_stopper || case.waiter(victim) == Waiter::AskedToBeLast {
        return None;
    }
    let longest = |rule: Rule| account.longest_mainly[rule as usize];
    let rule = Rule::ALL.into_iter().max_by_key(|rule| (longest(*rule), Reverse(*rule)))?;
    // Of these it is said that too little was recorded.
    let is_known = !matches!(rule, Rule::Unknown | Rule::Unranked);
    (is_known && longest(rule) >= NEVER_HEALTHY).then(|| Unexplained { victim, longest: longest(rule), rule })
}

fn of_all(case: &Case<'_>, long: &[Unexplained]) -> Option<Finding> {
    let Unexplained { victim, longest, rule } = *long.first()?;
    let by_rule = |blame: &Blame| blame.rule == rule;
    let occupant = case.blame(victim).iter().find(|blame| by_rule(blame))?.occupant;
    let mut evidence = vec![format!("{}: {}", rule.word(), rule.meaning())];
    if case.asked_to_be_last(victim) {
        evidence.push("its nice value says that it may run after others; that does not mean never".to_owned());
    }
    if let Some((_, rest @ [_, ..])) = long.split_first() {
        evidence.push(format!("as long or nearly so waited {}", names(case, rest.iter().map(|wait| wait.victim))));
    }
    let draft = Draft {
        kind: KIND,
        severity: Severity::Warning,
        confidence: 0.8,
        sentence: format!(
            "{} waited up to {longest} at a time, mostly while {} had its CPU.",
            title(case, &[victim]),
            case.name(occupant)
        ),
        victims: vec![victim],
        evidence,
        also_paid: Vec::new(),
        period: crate::draft::period(case, &[victim]),
        needs: KIND.needs,
        infers_settings: !case.knows_group(victim),
        remedies: remedy::against_crowded_cpu(case, victim),
    };
    Some(draft.finish(case, by_rule))
}
