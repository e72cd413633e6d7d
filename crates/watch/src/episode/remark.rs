//! Remarks of `explain` that say what an episode by `share` is about.
//!
//! The counters judge a second. `explain` judges the whole trace, of which most was calm if the episode has just begun: what took a third of
//! that second may be a thirtieth of the trace, which nobody has to act on. Then the counters say how bad it is, and the remark says who it was.

use unstarve_diagnose::report::{Culprit, Finding, Severity};

use super::headline::{Explanation, Fit, is_about_seen_task, is_known_after, is_of_seen_role, is_seen_culprit};
use super::ignore_filter::is_ignored;
use super::record::Episode;
use super::trigger::Trigger;
use crate::engine::reading::is_precedence;

impl Explanation {
    /// The remark about the very waits that the counters saw; nothing if it may be about others.
    ///
    /// It has to be about their victim, to have waits of the episode's time among its longest, and to blame whom they blame, by the same rule
    /// and for half as long at least: tasks of one role may be different users', and one that has a small part in it is not named for all of
    /// it. Who is woken and weighs more is preferred by two rules, which the counters share out in another way if many wait at once.
    pub(super) fn remark<'a>(&'a self, episode: &Episode) -> Option<&'a Finding> {
        let seen = episode.trigger.as_ref().filter(|seen| matches!(seen.trigger, Trigger::Share { .. }))?;
        let least = seen.blamed_ns.filter(|ns| *ns > 0)?.div_ceil(2);
        let since = self.since(episode)?;
        let counts = |finding: &&Finding| {
            is_remark(finding)
                && !is_ignored(&finding.victim, &self.ignored)
                && is_known_after(finding, since)
                && self.fit(finding, episode) >= Fit::Victim
                && is_about_one_seen(finding, episode)
                && self.blamed(finding, episode).is_some_and(|culprit| is_of_seen_role(culprit, episode))
                && finding.culprits.iter().any(|culprit| is_seen_culprit(culprit, episode))
                && seen_ns(finding, episode) >= least
        };
        // Of equals the first: the report has them in their order.
        self.report.findings.iter().rev().filter(counts).max_by_key(|finding| seen_ns(finding, episode))
    }
}

impl Episode {
    /// How bad what the counters saw is. Lines of earlier versions do not say; they began for what was at least a warning.
    pub(super) fn by_the_counters(&self) -> Severity {
        self.counted_severity.unwrap_or(Severity::Warning)
    }

    /// How bad it is what a finding is about: a remark that an episode is headed by is as bad as what the counters saw.
    pub(super) fn severity_of(&self, finding: &Finding) -> Severity {
        let seen = self.trigger.as_ref().filter(|_| is_remark(finding));
        seen.map_or(finding.severity, |_| self.by_the_counters())
    }
}

/// Whether a finding is one that nobody has to act on, as far as the whole trace says.
pub(super) fn is_remark(finding: &Finding) -> bool {
    finding.severity == Severity::Info
}

/// For how long those whom the counters blame, too, were preferred. A turn among equals is nobody's precedence.
fn seen_ns(finding: &Finding, episode: &Episode) -> u64 {
    let is_seen = |culprit: &&Culprit| is_of_seen_role(culprit, episode) && is_precedence(culprit.rule);
    finding.culprits.iter().filter(is_seen).map(|culprit| culprit.ns).fold(0, u64::saturating_add)
}

/// Of a group's programs the one that the counters saw wait, if they saw one: anybody's may be in it.
fn is_about_one_seen(finding: &Finding, episode: &Episode) -> bool {
    let is_group = |role: &str| role.starts_with('/');
    let Some(victim) = &episode.victim else { return false };
    match victim.role.as_deref() {
        Some(role) if is_group(role) => victim.tid.is_some_and(|tid| finding.victim.tids.contains(&tid)),
        _ => is_about_seen_task(finding, episode),
    }
}

#[cfg(test)]
#[path = "remark_tests.rs"]
mod tests;
