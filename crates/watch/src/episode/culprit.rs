//! Whom a finding blames in an episode's own time.
//!
//! `explain` takes tasks of one name for one victim, whenever they lived in the trace. Who kept an earlier one waiting may have been dead before
//! the one was born that the episode is about: so who is named is who had most of the waits of its time.

use std::collections::BTreeMap;

use unstarve_diagnose::report::{Culprit, Finding, Instance};
use unstarve_sched::Rule;

use super::headline::{Explanation, is_by_limit, is_seen_culprit};
use super::record::Episode;

impl Explanation {
    /// Whom a finding blames for what was waited in the episode's time; nobody where nobody knows, and for what a limit stopped.
    pub(super) fn blamed<'f>(&self, finding: &'f Finding, episode: &Episode) -> Option<&'f Culprit> {
        self.main_culprit(finding, episode).filter(|culprit| !is_by_limit(finding) && culprit.rule != Rule::Throttled)
    }

    /// The same, where a limit has an entry, too: of the rule and for how long.
    pub(super) fn main_culprit<'f>(&self, finding: &'f Finding, episode: &Episode) -> Option<&'f Culprit> {
        let Some(since) = self.since(episode) else { return finding.culprits.first() };
        let of_its_time: Vec<&Instance> = finding.worst.iter().filter(|wait| wait.end_ns >= since).collect();
        // Where no wait is listed nobody knows when they were; reports of before have no places.
        let is_its = finding.worst.is_empty() || !of_its_time.is_empty();
        if let ([only], true) = (finding.culprits.as_slice(), is_its) {
            return Some(only);
        }
        let waiter = episode.trigger.as_ref().and_then(|seen| seen.victim.as_ref()?.tid);
        let is_own = |wait: &&&Instance| waiter.is_some() && wait.tid == waiter;
        let own = of_its_time.iter().filter(is_own).copied();
        let place = most(own).or_else(|| most(of_its_time.iter().copied()));
        let seen = || seen_among(&finding.culprits, episode);
        place.and_then(|place| finding.culprits.get(place)).or_else(seen)
    }

    /// The thread that waited, where all waits of the episode's time are known and are one's.
    pub(super) fn only_waiter(&self, finding: &Finding, episode: &Episode) -> Option<u32> {
        let since = self.since(episode)?;
        let has_all = finding.lists_all || finding.waits.count as usize <= finding.worst.len();
        let mut waiters = finding.worst.iter().filter(|wait| wait.end_ns >= since).map(|wait| wait.tid);
        let first = waiters.next()??;
        (has_all && waiters.all(|tid| tid == Some(first))).then_some(first)
    }
}

/// Whom the counters blame: the task, or the only one of its role and rule.
fn seen_among<'f>(culprits: &'f [Culprit], episode: &Episode) -> Option<&'f Culprit> {
    let tid = episode.culprit.as_ref().and_then(|culprit| culprit.tid);
    let by_tid = culprits.iter().find(|culprit| tid.is_some_and(|tid| culprit.tids.contains(&tid)));
    let mut of_role = culprits.iter().filter(|culprit| is_seen_culprit(culprit, episode));
    by_tid.or_else(|| of_role.next().filter(|_| of_role.next().is_none()))
}

/// The place of the culprit that had most of these waits.
fn most<'a>(waits: impl Iterator<Item = &'a Instance>) -> Option<usize> {
    let mut sums: BTreeMap<usize, u64> = BTreeMap::new();
    for (place, wait) in waits.filter_map(|wait| Some((usize::try_from(wait.culprit?).ok()?, wait))) {
        let sum = sums.entry(place).or_default();
        *sum = sum.saturating_add(wait.end_ns.saturating_sub(wait.start_ns));
    }
    // Of equals the first: the report has them by how long they had the CPU.
    sums.into_iter().rev().max_by_key(|(_, ns)| *ns).map(|(place, _)| place)
}
