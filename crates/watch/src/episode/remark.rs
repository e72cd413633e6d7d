//! Remarks of `explain` that identify the tasks of an episode triggered by `share`.
//!
//! The counters judge one second. `explain` judges the whole trace, most of which was calm if the episode has just begun: a third of that second
//! can be a thirtieth of the trace, which needs no action. Then the counters determine the severity, and the remark the tasks.

use unstarve_diagnose::report::{Culprit, Finding, Severity};

use super::headline::{Explanation, Fit, is_about_seen_task, is_known_after, is_of_seen_role, is_seen_culprit};
use super::ignore_filter::is_ignored;
use super::record::Episode;
use super::trigger::Trigger;
use crate::engine::reading::is_precedence;

impl Explanation {
    /// The remark about the waits that the counters saw; `None` if it may be about other waits.
    ///
    /// It must be about the same victim, have waits in the episode's time among its longest, and blame the same role by the same rule for at least
    /// half as long: tasks of one role can belong to different users, and one with a small part must not be blamed for all of it. A task that is
    /// woken and has a higher weight is preferred by two rules, and the counters divide the time between them differently if many tasks wait at
    /// once.
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
        // Of equals the first, in the order of the report.
        self.report.findings.iter().rev().filter(counts).max_by_key(|finding| seen_ns(finding, episode))
    }
}

impl Episode {
    /// The severity of what the counters saw. Records of earlier versions lack it; those episodes began with at least a warning.
    pub(super) fn by_the_counters(&self) -> Severity {
        self.counted_severity.unwrap_or(Severity::Warning)
    }

    /// The severity of a finding; a remark as the headline has the severity of what the counters saw.
    pub(super) fn severity_of(&self, finding: &Finding) -> Severity {
        let seen = self.trigger.as_ref().filter(|_| is_remark(finding));
        seen.map_or(finding.severity, |_| self.by_the_counters())
    }
}

/// Whether a finding needs no action, judged over the whole trace.
pub(super) fn is_remark(finding: &Finding) -> bool {
    finding.severity == Severity::Info
}

/// For how long tasks that the counters also blame were preferred. Turns among equals are not precedence.
fn seen_ns(finding: &Finding, episode: &Episode) -> u64 {
    let is_seen = |culprit: &&Culprit| is_of_seen_role(culprit, episode) && is_precedence(culprit.rule);
    finding.culprits.iter().filter(is_seen).map(|culprit| culprit.ns).fold(0, u64::saturating_add)
}

/// Whether a finding is about the program that the counters saw wait. In a group one must have been seen: programs of any user can be in it.
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
