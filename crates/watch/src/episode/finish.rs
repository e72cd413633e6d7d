//! What `explain` found in an episode's trace, put beside what the counters showed.

use unstarve_diagnose::report::{Culprit, Finding, Report, Severity, Victim, Work, WorstWait};
use unstarve_timeline::Rule;

use super::{Begun, Episode, FirstRemedy, OtherFinding, Party, Place};
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

    /// The finding that is about this episode's victim; else one that is about the same culprit and rule; of nobody in particular the
    /// worst. Remarks that are nobody's trouble are none.
    fn finding(&self, episode: &Episode) -> Option<&Finding> {
        let mut bad = self.report.findings.iter().filter(|finding| finding.severity > Severity::Info);
        let Some(victim) = &episode.victim else { return bad.next() };
        let about = |finding: &&Finding| is_about(finding, victim);
        bad.clone().find(about).or_else(|| bad.find(|finding| has_culprit_of(finding, episode)))
    }

    /// The worst of all; remarks are none.
    fn worst(&self) -> Option<&Finding> {
        // The report has them in order, the worst first.
        self.report.findings.iter().find(|finding| finding.severity > Severity::Info)
    }

    /// The longest wait of a task of this role, if it is one of the longest of all.
    fn worst_wait(&self, role: &str) -> Option<&WorstWait> {
        self.report.worst_waits.iter().find(|wait| has_name_of(&wait.comm, role))
    }
}

fn is_about(finding: &Finding, victim: &Party) -> bool {
    let same_task = victim.tid.is_some_and(|tid| finding.victim.tids.contains(&tid));
    same_task || victim.role.as_deref().is_some_and(|role| is_of(&finding.victim, role))
}

/// Whether a finding blames the same rule and, as far as roles say, the same tasks.
fn has_culprit_of(finding: &Finding, episode: &Episode) -> bool {
    let role = episode.culprit.as_ref().and_then(|culprit| culprit.role.as_deref());
    let (Some(culprit), Some(role)) = (finding.culprits.first(), role) else { return false };
    let same = match role {
        "real-time" => culprit.policy.as_deref() == Some("rt"),
        group if group.starts_with('/') => culprit.cgroups.iter().any(|cgroup| is_below(cgroup, group)),
        role => has_name_of(&culprit.comm, role),
    };
    same && episode.rule.as_deref() == Some(&culprit.rule)
}

/// Whether a finding's victim is of a role.
fn is_of(victim: &Victim, role: &str) -> bool {
    match role {
        "direct-io" => victim.kind == "kworker" && victim.work.as_ref().is_none_or(is_direct_io),
        "real-time" => victim.policy.as_deref() == Some("rt"),
        group if group.starts_with('/') => victim.cgroups.iter().any(|cgroup| is_below(cgroup, group)),
        role => has_name_of(&victim.comm, role),
    }
}

fn is_direct_io(work: &Work) -> bool {
    work.workqueue.as_ref().is_some_and(|queue| queue.starts_with("dio")) || work.function.contains("dio_")
}

fn is_below(cgroup: &str, group: &str) -> bool {
    cgroup.strip_prefix(group).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Whether tasks of a role are called so. Of roles that have no names of their own nothing is said.
fn has_name_of(comm: &str, role: &str) -> bool {
    let beginnings: &[&str] = match role {
        "ksoftirqd" => &["ksoftirqd/"],
        "kworker" | "direct-io" => &["kworker/"],
        "rcu" => &["rcu_", "rcuog/", "rcuop/", "rcuos/", "rcuc/", "rcub/"],
        "storage" => &["jbd2/", "xfsaild/", "kswapd"],
        "nfsd" => &["nfsd"],
        _ => &[],
    };
    beginnings.iter().any(|beginning| comm.starts_with(beginning))
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
        match explanation.finding(self) {
            Some(finding) => self.note_finding(finding),
            // What else was found is not about this victim: it has names of its own.
            None => {
                self.other_finding = explanation.worst().map(|worst| Box::new(OtherFinding::of(worst)));
                self.note_worst_wait(explanation);
            }
        }
    }

    fn note_finding(&mut self, finding: &Finding) {
        self.finding = Some(finding.id.clone());
        self.severity = Some(finding.severity.word().to_owned());
        let role = self.victim.take().filter(|victim| is_about(finding, victim)).and_then(|victim| victim.role);
        self.victim = Some(Party { role, ..Party::of_victim(&finding.victim) });
        if let Some(culprit) = finding.culprits.first() {
            self.note_culprit(culprit);
        }
        self.remedy = finding.remedies.first().map(|remedy| FirstRemedy {
            id: remedy.id.clone(),
            text: remedy.text.clone(),
            apply: remedy.apply.clone(),
        });
    }

    /// The names of the longest wait of such tasks, where what it is blamed on is what the counters blame.
    fn note_worst_wait(&mut self, explanation: &Explanation) {
        let Some(victim) = self.victim.as_mut().filter(|victim| victim.tid.is_none()) else { return };
        let Some(wait) = victim.role.as_deref().and_then(|role| explanation.worst_wait(role)) else { return };
        let Some(culprit) = wait.blame.first().filter(|culprit| self.rule.as_deref() == Some(&culprit.rule)) else {
            return;
        };
        *victim = Party {
            role: victim.role.take(),
            comm: wait.comm.clone(),
            tid: Some(wait.tid),
            tgid: wait.tgid,
            cgroup: wait.cgroup.clone(),
            place: place(wait.cgroup.as_ref()),
        };
        self.note_culprit(culprit);
    }

    fn note_culprit(&mut self, culprit: &Culprit) {
        // Of another rule it is somebody else than the counters have seen.
        let same = self.rule.as_deref() == Some(&culprit.rule);
        let role = self.culprit.take().filter(|_| same).and_then(|culprit| culprit.role);
        self.culprit = Some(Party { role, ..Party::of_culprit(culprit) });
        self.rule = Some(culprit.rule.clone());
        self.ns = Some(culprit.ns);
    }
}

impl OtherFinding {
    fn of(finding: &Finding) -> OtherFinding {
        let culprit = finding.culprits.first();
        OtherFinding {
            finding: finding.id.clone(),
            severity: finding.severity.word().to_owned(),
            victim: Party::of_victim(&finding.victim),
            culprit: culprit.map(Party::of_culprit),
            rule: culprit.map(|culprit| culprit.rule.clone()),
            ns: culprit.map(|culprit| culprit.ns),
        }
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

    fn of_victim(victim: &Victim) -> Party {
        Party {
            role: None,
            comm: victim.comm.clone(),
            tid: victim.tids.first().copied(),
            tgid: victim.tgids.first().copied(),
            cgroup: victim.cgroups.first().cloned(),
            place: place(victim.cgroups.first()),
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn culprit(comm: &str, rule: &str) -> Value {
        json!({ "comm": comm, "tids": [7], "policy": "rt", "prio": 49, "rule": rule, "ns": 85, "cgroups": ["/system.slice/a.service"] })
    }

    fn finding(kind: &str, comm: &str) -> Value {
        json!({
            "id": "rt-starvation", "severity": "critical", "confidence": 0.9, "sentence": "s", "culprits": [culprit("hog", "class")],
            "victim": { "kind": kind, "comm": comm, "tids": [71], "tasks": 1, "policy": "fair", "prio": 120, "work": null },
            "blame": [], "waits": { "count": 1, "total_ns": 85, "max_ns": 85, "p99_ns": 85, "owed_ns": 1 }, "cpus": [0],
            "period_ns": null, "price": [], "evidence": [], "worst": [], "losses": [],
            "remedies": [{ "id": "r", "text": "t", "apply": "a", "undo": "", "risk": "", "valid_on": "" }],
        })
    }

    fn explained(findings: &[Value], worst_waits: &[Value]) -> Explanation {
        let trace = json!({
            "format": "f", "events": 1, "lost": 0, "cpus": 1, "start_ns": 0, "end_ns": 1, "kernel": null, "snapshot": true,
            "waits_total_ns": 1, "waits_count": 1,
        });
        let report = json!({
            "schema": "unstarve.explain/1", "trace": trace, "verdict": { "severity": "critical", "text": "v" }, "findings": findings,
            "worst_waits": worst_waits, "losses": [],
        });
        Explanation::parse(report.to_string().as_bytes()).expect("a report")
    }

    fn seen(role: &str) -> Episode {
        let party = |role: &str| Some(Party { role: Some(role.to_owned()), ..Party::default() });
        Episode { victim: party(role), culprit: party("real-time"), rule: Some("class".into()), ..Episode::default() }
    }

    #[test]
    fn a_finding_about_this_victim_gives_the_names() {
        let mut episode = seen("kworker");
        episode.note_trace(&explained(&[finding("task", "other"), finding("kworker", "kworker/0:1")], &[]));
        let victim = episode.victim.expect("a victim");
        assert_eq!(
            (victim.comm.as_str(), victim.tid, victim.role.as_deref()),
            ("kworker/0:1", Some(71), Some("kworker"))
        );
        let culprit = episode.culprit.expect("a culprit");
        assert_eq!((culprit.comm.as_str(), culprit.place.unit.as_deref()), ("hog", Some("a.service")));
        assert_eq!((episode.ns, episode.finding.as_deref()), (Some(85), Some("rt-starvation")));
    }

    #[test]
    fn a_finding_about_somebody_else_gives_no_names() {
        let mut episode = seen("rcu");
        episode.rule = Some("weight".into());
        episode.note_trace(&explained(&[finding("task", "whatever")], &[]));
        assert_eq!((episode.finding.as_ref(), episode.remedy.as_ref()), (None, None));
        let rule = Some("weight".into());
        assert_eq!(
            Episode { verdict: None, other_finding: None, ..episode.clone() },
            Episode { rule, ..seen("rcu") },
            "what the counters show stays"
        );
        // It is not lost either: it has its own victim, and the episode counts as it.
        let other = episode.other_finding.as_ref().expect("the worst of the trace");
        assert_eq!(
            (other.finding.as_str(), other.severity.as_str(), other.ns),
            ("rt-starvation", "critical", Some(85))
        );
        let names = (other.victim.comm.as_str(), other.culprit.as_ref().map(|culprit| culprit.comm.as_str()));
        assert_eq!(names, ("whatever", Some("hog")));
        assert_eq!(episode.counts_as(), Some("rt-starvation"));
        assert!(super::super::line(&episode).contains("; explain found rt-starvation of whatever[71] instead"));
        // The longest wait of such a task has names, if it is blamed on the same.
        let wait = |rule: &str| json!({ "comm": "rcu_preempt", "tid": 15, "cpu": 0, "start_ns": 0, "end_ns": 9, "blame": [culprit("hog", rule)] });
        let mut episode = seen("rcu");
        episode.note_trace(&explained(&[], &[wait("class")]));
        let names = [&episode.victim, &episode.culprit].map(|party| party.as_ref().map(|party| party.comm.as_str()));
        assert_eq!(names, [Some("rcu_preempt"), Some("hog")]);
        let mut episode = seen("rcu");
        episode.note_trace(&explained(&[], &[wait("fair")]));
        assert_eq!(Episode { verdict: None, ..episode }, seen("rcu"));
    }

    #[test]
    fn the_same_culprit_by_the_same_rule_is_this_episode_s() {
        let mut episode = seen("rcu");
        episode.note_trace(&explained(&[finding("task", "fio")], &[]));
        let victim = episode.victim.expect("a victim");
        assert_eq!((victim.comm.as_str(), victim.role), ("fio", None), "it is no longer the counters' victim");
        let culprit = episode.culprit.expect("a culprit");
        assert_eq!((culprit.comm.as_str(), culprit.role.as_deref()), ("hog", Some("real-time")));
    }

    #[test]
    fn a_dump_has_the_worst() {
        let mut episode = Episode::default();
        episode.note_trace(&explained(&[finding("task", "whatever")], &[]));
        assert_eq!(episode.victim.map(|victim| victim.comm).as_deref(), Some("whatever"));
    }
}
