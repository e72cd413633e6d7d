//! What `explain` found in an episode's trace, put beside what the counters showed.

use unstarve_diagnose::report::{Culprit, Finding, Report, Severity, Victim};
use unstarve_timeline::Rule;

use super::{Begun, Episode, FirstRemedy, Party, Place};
use crate::{Role, RoleKind, TaskId};

/// What an episode's trace says.
#[derive(Debug)]
pub struct Explanation {
    report: Report,
}

impl Explanation {
    /// Reads `explain --json`.
    ///
    /// # Errors
    /// If it is none.
    pub fn parse(json: &[u8]) -> Result<Explanation, serde_json::Error> {
        serde_json::from_slice(json).map(|report| Explanation { report })
    }

    /// The finding that is about this victim; else the worst. Remarks that are nobody's trouble are none.
    fn finding(&self, victim: Option<&Party>) -> Option<&Finding> {
        let bad = || self.report.findings.iter().filter(|finding| finding.severity > Severity::Info);
        let about = |finding: &&Finding| {
            victim.is_some_and(|victim| {
                let same_task = victim.tid.is_some_and(|tid| finding.victim.tids.contains(&tid));
                same_task || victim.role.as_deref().is_some_and(|role| is_of(&finding.victim, role))
            })
        };
        let found = bad().find(about);
        found.or_else(|| bad().next())
    }
}

/// Whether a finding's victim is of a role.
fn is_of(victim: &Victim, role: &str) -> bool {
    let work = victim.work.as_ref().and_then(|work| work.workqueue.as_deref()).unwrap_or_default();
    match role {
        "direct-io" => victim.kind == "kworker" && work.starts_with("dio"),
        "ksoftirqd" | "kworker" | "rcu" | "nfsd" => victim.kind == role,
        "real-time" => victim.policy.as_deref() == Some("rt"),
        group if group.starts_with('/') => victim.cgroups.iter().any(|cgroup| cgroup.starts_with(group)),
        _ => false,
    }
}

impl Episode {
    /// Notes what the counters show.
    pub fn note_counters(&mut self, begun: &Begun) {
        self.trigger = Some(begun.trigger.clone());
        self.victim = Some(Party::of(&begun.victim, begun.victim_task.as_ref()));
        self.culprit = begun.culprit.as_ref().map(|culprit| Party::of(culprit, begun.culprit_task.as_ref()));
        self.rule = begun.rule.map(Rule::word).map(str::to_owned);
        self.ns = Some(begun.ns.0).filter(|ns| *ns > 0);
    }

    /// Notes what the trace shows, which is finer than the counters: its tasks, its rule and its nanoseconds.
    pub fn note_trace(&mut self, explanation: &Explanation) {
        self.verdict = Some(explanation.report.verdict.text.clone());
        self.host = explanation.report.trace.host.clone();
        let Some(finding) = explanation.finding(self.victim.as_ref()) else {
            // A dump of a calm moment, or a trace that began too late: the counters' words stay.
            return;
        };
        let role = |party: &Option<Party>| party.as_ref().and_then(|party| party.role.clone());
        let victim_role = role(&self.victim);
        let culprit_role = role(&self.culprit);
        self.finding = Some(finding.id.clone());
        self.severity = Some(finding.severity.word().to_owned());
        self.victim = Some(Party {
            role: victim_role,
            comm: finding.victim.comm.clone(),
            tid: finding.victim.tids.first().copied(),
            tgid: finding.victim.tgids.first().copied(),
            cgroup: finding.victim.cgroups.first().cloned(),
            place: place(finding.victim.cgroups.first()),
        });
        if let Some(culprit) = finding.culprits.first() {
            self.culprit = Some(Party { role: culprit_role, ..Party::of_culprit(culprit) });
            self.rule = Some(culprit.rule.clone());
            self.ns = Some(culprit.ns);
        }
        self.remedy = finding.remedies.first().map(|remedy| FirstRemedy {
            id: remedy.id.clone(),
            text: remedy.text.clone(),
            apply: remedy.apply.clone(),
        });
    }
}

impl Party {
    fn of(role: &Role, task: Option<&TaskId>) -> Party {
        let name = role.name();
        let group = (role.kind == RoleKind::Group).then(|| name.clone());
        Party {
            role: Some(name),
            comm: task.map(|task| task.comm.to_string()).unwrap_or_default(),
            tid: task.map(|task| task.tid.0),
            tgid: task.map(|task| task.tgid.0),
            place: place(group.as_ref()),
            cgroup: group,
        }
    }

    fn of_culprit(culprit: &Culprit) -> Party {
        Party {
            role: None,
            comm: culprit.comm.clone(),
            tid: culprit.tids.first().copied(),
            tgid: culprit.tgids.first().copied(),
            cgroup: culprit.cgroups.first().cloned(),
            place: place(culprit.cgroups.first()),
        }
    }
}

fn place(cgroup: Option<&String>) -> Place {
    cgroup.map(|cgroup| Place::of(cgroup)).unwrap_or_default()
}
