//! Which culprit of a finding is to blame in the episode's own time.
//!
//! `explain` treats all tasks of one name in the trace as one victim. The culprit of an earlier task may have ended before the episode's task was
//! created. So the culprit is the one with most of the waits in the episode's time.

use std::collections::BTreeMap;

use unstarve_diagnose::report::{Culprit, Finding, Instance};
use unstarve_sched::Rule;

use super::headline::{Explanation, is_by_limit, is_seen_culprit};
use super::record::Episode;

impl Explanation {
    /// The culprit of the waits in the episode's time; `None` if it is unknown, and for throttling.
    pub(super) fn blamed<'f>(&self, finding: &'f Finding, episode: &Episode) -> Option<&'f Culprit> {
        self.main_culprit(finding, episode).filter(|culprit| !is_by_limit(finding) && culprit.rule != Rule::Throttled)
    }

    /// The same, but throttling by a quota counts as a culprit, with its rule and duration.
    pub(super) fn main_culprit<'f>(&self, finding: &'f Finding, episode: &Episode) -> Option<&'f Culprit> {
        let Some(since) = self.since(episode) else { return finding.culprits.first() };
        let of_its_time: Vec<&Instance> = finding.worst.iter().filter(|wait| wait.end_ns >= since).collect();
        // If no wait is listed, their times are unknown; reports of earlier versions have no index of the culprit.
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

    /// The waiting thread, if all waits in the episode's time are listed and are of one thread.
    pub(super) fn only_waiter(&self, finding: &Finding, episode: &Episode) -> Option<u32> {
        let since = self.since(episode)?;
        let has_all = finding.lists_all || finding.waits.count as usize <= finding.worst.len();
        let mut waiters = finding.worst.iter().filter(|wait| wait.end_ns >= since).map(|wait| wait.tid);
        let first = waiters.next()??;
        (has_all && waiters.all(|tid| tid == Some(first))).then_some(first)
    }
}

/// The culprit that the counters saw: the same task, or the only one of the same role and rule.
fn seen_among<'f>(culprits: &'f [Culprit], episode: &Episode) -> Option<&'f Culprit> {
    let tid = episode.culprit.as_ref().and_then(|culprit| culprit.tid);
    let by_tid = culprits.iter().find(|culprit| tid.is_some_and(|tid| culprit.tids.contains(&tid)));
    let mut of_role = culprits.iter().filter(|culprit| is_seen_culprit(culprit, episode));
    by_tid.or_else(|| of_role.next().filter(|_| of_role.next().is_none()))
}

/// The index of the culprit with most of these waits.
fn most<'a>(waits: impl Iterator<Item = &'a Instance>) -> Option<usize> {
    let mut sums: BTreeMap<usize, u64> = BTreeMap::new();
    for (place, wait) in waits.filter_map(|wait| Some((usize::try_from(wait.culprit?).ok()?, wait))) {
        let sum = sums.entry(place).or_default();
        *sum = sum.saturating_add(wait.end_ns.saturating_sub(wait.start_ns));
    }
    // Of equals the first: the report sorts culprits by CPU time.
    sums.into_iter().rev().max_by_key(|(_, ns)| *ns).map(|(place, _)| place)
}
