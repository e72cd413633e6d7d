//! What `explain` found in an episode's trace, put beside what the counters showed.

use unstarve_diagnose::report::{Culprit, Finding, Victim};
use unstarve_timeline::Rule;

use super::headline::{Choice, Explanation, Fit, fit, is_about};
use super::{Begun, Episode, FirstRemedy, OtherFinding, Party, Place, Seen, Suffered};
use crate::{Role, RoleKind, TaskId};

/// Victims that an episode lists; of more their number.
const MOST_VICTIMS: usize = 16;

impl Episode {
    /// Notes what the counters show.
    pub fn note_counters(&mut self, begun: &Begun) {
        self.victim = Some(Party::of(&begun.victim, begun.victim_task.as_ref()));
        self.culprit = begun.culprit.as_ref().map(|culprit| Party::of(culprit, begun.culprit_task.as_ref()));
        self.rule = begun.rule.map(Rule::word).map(str::to_owned);
        self.ns = Some(begun.ns.0).filter(|ns| *ns > 0);
        self.trigger = Some(Seen {
            trigger: begun.trigger.clone(),
            since_mono_ns: Some(begun.since.0),
            victim: self.victim.clone(),
            culprit: self.culprit.clone(),
            rule: self.rule.clone(),
            blamed_ns: self.ns,
        });
        if let Some(victim) = &self.victim {
            self.victims = vec![Suffered { victim: victim.clone(), ..Suffered::default() }];
        }
    }

    /// Notes a role that was above its threshold, too, while this one was being recorded.
    pub fn note_role(&mut self, role: &str) {
        let is_known = |known: &Suffered| known.victim.role.as_deref() == Some(role);
        if !self.victims.iter().any(is_known) {
            let victim = Party { role: Some(role.to_owned()), ..Party::default() };
            self.add_victim(Suffered { victim, ..Suffered::default() });
        }
    }

    /// Notes what the trace shows, which is finer than the counters: its tasks, its rule and its nanoseconds.
    pub fn note_trace(&mut self, explanation: &Explanation) {
        self.note(explanation, explanation.headline(self, Choice::Worst));
    }

    /// The same, where other episodes have the same trace: each is about its own victim.
    pub fn note_trace_of_many(&mut self, explanation: &Explanation) {
        let worst = || self.trace_of.is_none().then(|| explanation.headline(self, Choice::Worst)).flatten();
        self.note(explanation, explanation.headline(self, Choice::OwnVictim).or_else(worst));
    }

    fn note(&mut self, explanation: &Explanation, headline: Option<&Finding>) {
        self.verdict = Some(explanation.report.verdict.text.clone());
        self.host = explanation.report.trace.host.clone();
        self.note_victims(explanation);
        match headline {
            Some(finding) => self.note_finding(finding),
            // What else was found is of another time, or another episode's.
            None => {
                self.other_finding = explanation.findings().next().map(|worst| Box::new(OtherFinding::of(worst)));
                self.note_worst_wait(explanation);
            }
        }
    }

    /// All of its time whom `explain` found starved, worst first; then those whom only the counters saw.
    fn note_victims(&mut self, explanation: &Explanation) {
        let counted = std::mem::take(&mut self.victims);
        // An earlier explanation may have counted its own.
        self.more_victims = self.more_counted;
        let found: Vec<&Finding> = explanation.of_its_time(self).collect();
        found.iter().for_each(|finding| self.add_victim(Suffered::of(finding)));
        for other in counted.into_iter().filter(|other| other.finding.is_none()) {
            if !found.iter().any(|finding| is_about(finding, &other.victim)) {
                self.add_victim(other);
            }
        }
    }

    fn add_victim(&mut self, victim: Suffered) {
        match self.victims.len() < MOST_VICTIMS {
            true => self.victims.push(victim),
            false => {
                self.more_counted += u64::from(victim.finding.is_none());
                self.more_victims += 1;
            }
        }
    }

    /// Notes what the trace of another episode shows of this one, which began before that trace was written.
    pub fn note_shared(&mut self, other: &Episode, explanation: Option<&Explanation>) {
        self.trace_of = other.trace_bytes.map(|_| other.id.clone());
        self.guard.clone_from(&other.guard);
        match explanation {
            Some(explanation) => self.note_trace_of_many(explanation),
            None => self.problem.clone_from(&other.problem),
        }
    }

    fn note_finding(&mut self, finding: &Finding) {
        self.finding = Some(finding.id.clone());
        self.severity = Some(finding.severity.word().to_owned());
        if fit(finding, self) == Fit::None && !self.blames_first_of(finding) {
            // Whom the counters blame has to do with somebody else's wait.
            self.culprit = None;
        }
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

    /// Whether the task that the counters blame is the one that a finding blames first.
    fn blames_first_of(&self, finding: &Finding) -> bool {
        let tid = self.culprit.as_ref().and_then(|culprit| culprit.tid);
        tid.is_some_and(|tid| finding.culprits.first().is_some_and(|first| first.tids.contains(&tid)))
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

impl Suffered {
    fn of(finding: &Finding) -> Suffered {
        let culprit = finding.culprits.first();
        Suffered {
            victim: Party::of_victim(&finding.victim),
            finding: Some(finding.id.clone()),
            severity: Some(finding.severity.word().to_owned()),
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
#[path = "finish_tests.rs"]
mod tests;
