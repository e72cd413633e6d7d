//! Tests a remedy of `explain` in a second guest: what the report offers, and the result of each change.

use std::path::Path;

use serde::{Deserialize, Serialize};
use unstarve_change::{Change, Target};
use unstarve_diagnose::report::{FindingId, RemedyId, Report, Severity, VictimKind};
use unstarve_diagnose::{Options, Proofs, explain};

use crate::run::Outcome;

/// The result file of a trial's changes.
pub const FILE: &str = "trial.json";

/// The results of a trial's changes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tried {
    /// One for each change, in the order of [`crate::run::Request::trial`].
    pub changes: Vec<TriedChange>,
    /// Values that were not restored after the measurement; empty if all were.
    pub not_taken_back: Vec<String>,
}

/// The result of one change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TriedChange {
    /// The change.
    pub change: Change,
    /// How it was made.
    pub how: ChangeMethod,
    /// The time in ms after the trial's executor started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_ms: Option<u64>,
}

/// How a change was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChangeMethod {
    /// To the target that the report names.
    AsNamed,
    /// To a thread of the same name, because the thread that the report names was not in this guest.
    ByName {
        /// Its id here.
        tid: u32,
    },
    /// The value was set already.
    Already,
    /// Impossible here, with the reason.
    Refused(String),
    /// Its thread did not appear.
    NeverThere,
}

impl Tried {
    /// Whether anything was changed.
    pub fn changed_anything(&self) -> bool {
        self.changes.iter().any(|tried| matches!(tried.how, ChangeMethod::AsNamed | ChangeMethod::ByName { .. }))
    }

    /// The number of changes made to another thread than the named one.
    pub fn by_name(&self) -> usize {
        self.changes.iter().filter(|tried| matches!(tried.how, ChangeMethod::ByName { .. })).count()
    }

    /// Why some changes were not made; `None` if all were.
    pub fn shortfall(&self) -> Option<String> {
        let absent = self.changes.iter().filter(|tried| tried.how == ChangeMethod::NeverThere).count();
        let refused = self.changes.iter().find_map(|tried| match &tried.how {
            ChangeMethod::Refused(why) => Some(why.clone()),
            _ => None,
        });
        let all = self.changes.len();
        match (refused, absent) {
            (Some(why), _) => Some(why),
            (None, 0) if !self.changed_anything() => Some("it was so already".to_owned()),
            (None, 0) => None,
            (None, absent) => Some(format!("{absent} of {all} threads did not appear in the second guest")),
        }
    }
}

/// The report of `explain` on an outcome's trace with every remedy, including those proved useless.
///
/// # Errors
/// If the trace cannot be read or explained.
pub fn explain_outcome(outcome: &Outcome) -> Result<Report, Box<dyn std::error::Error + Send + Sync>> {
    explain_trace(&outcome.directory.join("trace.dat"))
}

pub(crate) fn explain_trace(path: &Path) -> Result<Report, Box<dyn std::error::Error + Send + Sync>> {
    let source = unstarve_readers::open(path)?;
    Ok(explain(source, &Options { proofs: Proofs::PutAside, ..Options::default() }, |_| {})?)
}

/// A remedy of a report.
#[derive(Clone, Debug, PartialEq)]
pub struct Offer {
    /// The finding's id.
    pub finding: FindingId,
    /// The kind of its victim.
    pub victim: VictimKind,
    /// The remedy's.
    pub remedy: RemedyId,
    /// What it changes.
    pub changes: Vec<Change>,
}

impl Offer {
    /// Whether both are the same remedy for the same kind of finding and victim.
    pub fn is_like(&self, other: &Offer) -> bool {
        self.remedy == other.remedy && self.finding == other.finding && self.victim == other.victim
    }

    /// Why no guest can test it; `None` if one can.
    pub fn obstacle(&self) -> Option<&'static str> {
        let has = |of: fn(&Target) -> bool| self.changes.iter().any(|change| of(&change.target));
        if self.changes.is_empty() || has(|target| matches!(target, Target::Advice)) {
            Some("advice: only a person can do it")
        } else if has(|target| matches!(target, Target::Boot { .. })) {
            Some("it holds from the next boot on")
        } else {
            None
        }
    }
}

/// The remedies of a report's warnings and critical findings, once for each kind of finding and victim: the worst
/// finding's.
pub fn offers(report: &Report) -> Vec<Offer> {
    let mut offers: Vec<Offer> = Vec::new();
    for finding in report.findings.iter().filter(|finding| finding.severity >= Severity::Warning) {
        for remedy in &finding.remedies {
            let offer = Offer {
                finding: finding.id.clone(),
                victim: finding.victim.kind,
                remedy: remedy.id.clone(),
                changes: remedy.changes.clone(),
            };
            if !offers.iter().any(|other| other.is_like(&offer)) {
                offers.push(offer);
            }
        }
    }
    offers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_guest_can_show_is_not_tried() {
        let offer = |changes| Offer {
            finding: "rt-starvation".into(),
            victim: VictimKind::Ksoftirqd,
            remedy: "r".into(),
            changes,
        };
        let boot = || Change::at_boot("preempt=full");
        let sysctl = || Change::file("/proc/sys/kernel/sched_rt_runtime_us", "900000");
        assert_eq!(offer(vec![sysctl(), boot()]).obstacle(), Some("it holds from the next boot on"));
        assert_eq!(offer(vec![boot(), Change::advice()]).obstacle(), Some("advice: only a person can do it"));
        assert!(offer(Vec::new()).obstacle().is_some());
        assert_eq!(offer(vec![sysctl()]).obstacle(), None);
    }
}
