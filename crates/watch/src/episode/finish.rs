//! Combines what `explain` found in an episode's trace with what the counters showed.

use unstarve_diagnose::report::{Culprit, Finding, Victim, VictimKind, WorstWait};
use unstarve_model::Nanos;
use unstarve_sched::Rule;

use super::begun::Begun;
use super::heading::{Headline, Heads};
use super::headline::{Choice, Explanation, Fit, is_about, is_by_limit, may_be_of};
use super::ignore_filter::is_below;
use super::record::{Episode, FirstRemedy, OtherFinding, Party, Seen, Suffered};
use super::truncate_path::cut;
use crate::engine::reading::{Place, place_of};
use crate::engine::reading::{Role, RoleKind, TaskId};

/// Maximum victims listed in an episode; the rest are counted.
const MOST_VICTIMS: usize = 16;

impl Episode {
    /// Records how many threads the finding about the victim covers.
    pub fn note_tasks(&mut self, explanation: &Explanation) {
        self.victim_tasks = explanation.tasks_of_victim(self);
    }

    /// Records what the counters show.
    pub fn note_counters(&mut self, begun: &Begun) {
        let Suffered { victim, culprit, rule, ns, .. } = Suffered::of_counters(begun);
        (self.victim, self.culprit, self.rule, self.ns) = (Some(victim), culprit, rule, ns);
        let severity = begun.severity();
        self.counted_severity = Some(severity);
        // Valid until the trace is explained, or for ever if it is not.
        self.severity = Some(severity);
        self.trigger = Some(Seen {
            trigger: begun.trigger,
            since_mono_ns: Some(begun.since.0),
            victim: self.victim.clone(),
            culprit: self.culprit.clone(),
            rule: self.rule,
            blamed_ns: self.ns,
        });
        if let Some(victim) = &self.victim {
            self.victims = vec![Suffered { victim: victim.clone(), ..Suffered::default() }];
        }
    }

    /// Records a role that was also above its threshold.
    pub fn note_joined(&mut self, joined: &Suffered) {
        let is_known = |known: &Suffered| known.victim.role == joined.victim.role;
        if !self.victims.iter().any(is_known) {
            self.add_victim(joined.clone());
        }
    }

    /// Records what the trace shows, which is more precise than the counters: tasks, rule and nanoseconds.
    pub fn note_trace(&mut self, explanation: &Explanation) {
        let choice = match explanation.missed(self) {
            None => Choice::Worst,
            // The part that the trace does not show may have been worse.
            Some(_) => Choice::OwnVictim,
        };
        self.note(explanation, explanation.headline(self, choice));
    }

    /// The same for a trace that several episodes share: each takes the findings about its own victim. Findings about no episode's victim go to the
    /// episode that owns the trace.
    pub fn note_trace_of_many(&mut self, explanation: &Explanation) {
        let mut headline = explanation.headline(self, Choice::VictimAlone);
        if headline.is_none_or(|headline| headline.heads == Heads::Cause) && self.trace_of.is_none() {
            headline = explanation.headline(self, Choice::OwnVictim);
            let has_all = explanation.missed(self).is_none();
            headline = headline.or_else(|| has_all.then(|| explanation.headline(self, Choice::Worst)).flatten());
        }
        self.note(explanation, headline);
    }

    fn note(&mut self, explanation: &Explanation, headline: Option<Headline<'_>>) {
        let remark = if headline.is_none() { explanation.remark(self) } else { None };
        let headline = headline.or_else(|| remark.map(|finding| Headline { finding, heads: Heads::Victim }));
        self.verdict = Some(explanation.report.verdict.text.clone());
        // From now on the finding's severity counts. If the trace shows no starvation, there is none.
        self.severity = None;
        // Episodes of older watches have none yet. The trace has the name of the pod where the watch is in one.
        self.host = self.host.take().or_else(|| explanation.report.trace.host.clone());
        if explanation.missed(self).is_some() {
            self.note_missed(explanation.short_by(self), headline);
        }
        if remark.is_some() {
            // The verdict would say that nothing starved, which is true for most of the trace only.
            self.verdict = None;
        }
        self.note_victims(explanation, remark);
        match headline {
            Some(Headline { finding, heads: Heads::Victim }) => self.note_finding(finding, explanation),
            Some(Headline { finding, heads: Heads::Cause }) => self.note_cause(finding, explanation),
            // Other findings belong to another time or another episode.
            None => {
                self.other_finding = explanation.findings().next().map(|worst| Box::new(OtherFinding::of(worst)));
                self.note_worst_wait(explanation);
            }
        }
    }

    /// Records that the trace begins later than what the counters saw: then its showing no starvation means nothing.
    fn note_missed(&mut self, short_by: Option<Nanos>, headline: Option<Headline<'_>>) {
        // Only the begin of a wait is said to be missing, not that of a span in which there were waits.
        if let Some(missed) = short_by {
            self.problem = Some(format!(
                "the trace begins {missed} after the wait may have begun: the flight recorder had just begun or was stopped late, or events came \
                 too fast for its buffers"
            ));
        }
        if headline.is_none() {
            self.verdict = None;
            self.severity = self.trigger.as_ref().map(|_| self.by_the_counters());
        }
    }

    /// Lists the victims that `explain` found in the episode's time, worst first, and the victim of the headline; then those that only the counters
    /// saw.
    fn note_victims(&mut self, explanation: &Explanation, remark: Option<&Finding>) {
        let counted = std::mem::take(&mut self.victims);
        // An earlier explanation may have counted victims of its own.
        self.more_victims = self.more_counted;
        let found: Vec<&Finding> = explanation.of_its_time(self).chain(remark).collect();
        let suffered: Vec<Suffered> = found.iter().map(|finding| self.suffered(finding, explanation)).collect();
        suffered.into_iter().for_each(|victim| self.add_victim(victim));
        for other in counted.into_iter().filter(|other| other.finding.is_none()) {
            if !found.iter().any(|finding| is_about(finding, &other.victim)) {
                let named = self.named_by_its_longest_wait(&other, explanation);
                self.add_victim(named.unwrap_or(other));
            }
        }
    }

    /// For a group in which the counters identified no task: the names from its longest wait, that is the pod and the culprit.
    fn named_by_its_longest_wait(&self, seen: &Suffered, explanation: &Explanation) -> Option<Suffered> {
        let role = seen.victim.role.as_deref().filter(|role| role.starts_with('/') && seen.victim.tid.is_none())?;
        let wait = explanation.worst_wait(role, self).filter(|wait| {
            // A group further down, if the counters saw which.
            seen.victim
                .cgroup
                .as_deref()
                .is_none_or(|cgroup| wait.cgroup.as_deref().is_some_and(|of| is_below(of, cgroup)))
        })?;
        let main = wait.blame.first();
        let culprit = main.filter(|culprit| culprit.rule != Rule::Throttled);
        Some(Suffered {
            victim: Party::of_wait(Some(role.to_owned()), wait),
            culprit: culprit.map(|culprit| Party::of_culprit(culprit, None)),
            rule: main.map(|culprit| culprit.rule),
            ns: main.map(|culprit| culprit.ns),
            ..seen.clone()
        })
    }

    /// The victim of a finding, as an entry of the list of victims.
    fn suffered(&self, finding: &Finding, explanation: &Explanation) -> Suffered {
        let culprit = explanation.blamed(finding, self);
        let main = explanation.main_culprit(finding, self);
        Suffered {
            victim: Party::of_victim(&finding.victim, self.victim.as_ref())
                .in_limited_group(finding, self.victim.as_ref().filter(|victim| is_about(finding, victim))),
            finding: Some(finding.id.clone()),
            severity: Some(self.severity_of(finding)),
            culprit: culprit.map(|culprit| Party::of_culprit(culprit, self.culprit.as_ref())),
            rule: main.map(|culprit| culprit.rule),
            ns: main.map(|culprit| culprit.ns),
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

    /// Records what another episode's trace shows of this one, which began before that trace was written.
    pub fn note_shared(&mut self, other: &Episode, explanation: Option<&Explanation>) {
        self.trace_of = other.trace_bytes.map(|_| other.id.clone());
        self.guard.clone_from(&other.guard);
        match explanation {
            Some(explanation) => self.note_trace_of_many(explanation),
            None => self.problem.clone_from(&other.problem),
        }
    }

    fn note_finding(&mut self, finding: &Finding, explanation: &Explanation) {
        self.finding = Some(finding.id.clone());
        self.severity = Some(self.severity_of(finding));
        let main = explanation.main_culprit(finding, self);
        if explanation.fit(finding, self) == Fit::None && !self.blames(main) {
            // The culprit that the counters saw belongs to another task's wait.
            self.culprit = None;
        }
        let waiter = explanation.only_waiter(finding, self);
        let counted = self.victim.take().filter(|victim| is_about(finding, victim));
        let waiter = waiter.map(|tid| Party { tid: Some(tid), ..Party::default() });
        let seen = counted.as_ref().filter(|counted| counted.tid.is_some()).or(waiter.as_ref());
        let named = Party::of_victim(&finding.victim, seen).in_limited_group(finding, counted.as_ref());
        self.victim = Some(Party { role: counted.and_then(|victim| victim.role), ..named });
        match main {
            _ if is_by_limit(finding) => self.note_limit(main),
            Some(culprit) => self.note_culprit(culprit),
            // What the counters saw is about the same victim's wait, or was removed above.
            None => {}
        }
        self.ns = self.ns.or_else(|| waited_by(finding, self.rule));
        self.note_remedy(finding);
    }

    /// Records the cause of a finding about another victim, for which this episode's victim waited, too: what is proved of that one are the
    /// counters' words, and the wait in the trace.
    fn note_cause(&mut self, finding: &Finding, explanation: &Explanation) {
        self.finding = Some(finding.id.clone());
        self.severity = Some(self.by_the_counters());
        let culprit = explanation.blamed(finding, self);
        self.note_worst_wait(explanation);
        let waited = self.ns;
        if let Some(culprit) = culprit {
            self.note_culprit(culprit);
            self.ns = waited.or(self.ns);
        }
        self.note_remedy(finding);
    }

    fn note_remedy(&mut self, finding: &Finding) {
        self.remedy = finding.remedies.first().map(|remedy| FirstRemedy {
            id: remedy.id.clone(),
            text: remedy.text.clone(),
            apply: remedy.apply.clone(),
        });
    }

    /// Records that a quota throttled the victim, and that no task is to blame.
    fn note_limit(&mut self, stopped: Option<&Culprit>) {
        // What the counters saw by another rule is unrelated.
        let counted = self.ns.filter(|_| self.rule == Some(Rule::Throttled));
        self.ns = stopped.map(|stopped| stopped.ns).or(counted);
        self.culprit = None;
        self.rule = Some(Rule::Throttled);
    }

    /// Takes the names from the longest wait of the role, if the counters blame the same rule.
    fn note_worst_wait(&mut self, explanation: &Explanation) {
        let role = self.victim.as_ref().filter(|victim| victim.tid.is_none()).and_then(|victim| victim.role.clone());
        let Some(wait) = role.as_deref().and_then(|role| explanation.worst_wait(role, self)) else { return };
        let Some(culprit) = wait.blame.first().filter(|culprit| self.rule == Some(culprit.rule)) else {
            return;
        };
        self.victim = Some(Party::of_wait(role, wait));
        self.note_culprit(culprit);
    }

    /// Whether the culprit includes the task that the counters blame.
    fn blames(&self, culprit: Option<&Culprit>) -> bool {
        let tid = self.culprit.as_ref().and_then(|culprit| culprit.tid);
        tid.is_some_and(|tid| culprit.is_some_and(|culprit| culprit.tids.contains(&tid)))
    }

    fn note_culprit(&mut self, culprit: &Culprit) {
        if culprit.rule == Rule::Throttled {
            return self.note_limit(Some(culprit));
        }
        // With another rule, the counters saw another culprit.
        let same = self.rule == Some(culprit.rule);
        let counted = self.culprit.take();
        let named = Party::of_culprit(culprit, counted.as_ref());
        let role = counted.filter(|_| same).and_then(|culprit| culprit.role);
        self.culprit = Some(Party { role: role.filter(|role| may_be_of(&culprit.comm, role)), ..named });
        self.rule = Some(culprit.rule);
        self.ns = Some(culprit.ns);
    }
}

impl Suffered {
    /// A victim that the counters saw.
    pub(crate) fn of_counters(begun: &Begun) -> Suffered {
        let victim = Party::of(&begun.victim, begun.victim_task.as_ref());
        Suffered {
            victim: begun.group.as_ref().map_or_else(|| victim.clone(), |path| victim.clone().in_group(path)),
            culprit: begun.culprit.as_ref().map(|culprit| Party::of(culprit, begun.culprit_task.as_ref())),
            rule: begun.rule,
            ns: Some(begun.ns.0).filter(|ns| *ns > 0),
            ..Suffered::default()
        }
    }
}

/// What a finding's victim waited by this rule, or in all where the rule is not known: of a limit no culprit has the time.
fn waited_by(finding: &Finding, rule: Option<Rule>) -> Option<u64> {
    let rows = finding.blame.iter().filter(|row| Some(row.rule) == rule);
    let by_rule = rows.map(|row| row.ns).fold(0, u64::saturating_add);
    Some(if by_rule > 0 { by_rule } else { finding.waits.total_ns }).filter(|ns| *ns > 0)
}

impl OtherFinding {
    fn of(finding: &Finding) -> OtherFinding {
        let main = finding.culprits.first();
        let culprit = main.filter(|culprit| !is_by_limit(finding) && culprit.rule != Rule::Throttled);
        OtherFinding {
            finding: finding.id.clone(),
            severity: finding.severity,
            victim: Party::of_victim(&finding.victim, None),
            culprit: culprit.map(|culprit| Party::of_culprit(culprit, None)),
            rule: main.map(|culprit| culprit.rule),
            ns: main.map(|culprit| culprit.ns),
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
            cgroup: group.as_deref().map(cut),
        }
    }

    /// The task of one wait.
    fn of_wait(role: Option<String>, wait: &WorstWait) -> Party {
        Party {
            role,
            comm: cut(&wait.comm),
            tid: Some(wait.tid),
            tgid: wait.tgid,
            place: place(wait.cgroup.as_ref()),
            cgroup: wait.cgroup.as_deref().map(cut),
        }
    }

    /// The same, with the group within the role.
    fn in_group(self, path: &str) -> Party {
        Party { place: place_of(path), cgroup: Some(cut(path)), ..self }
    }

    /// The same, with the place of the group that the counters saw a limit stop: its tasks may be in several groups below that.
    fn in_limited_group(self, finding: &Finding, counted: Option<&Party>) -> Party {
        let is_known = self.place != Place::default();
        match counted.filter(|counted| is_by_limit(finding) && !is_known && counted.place != Place::default()) {
            Some(counted) => Party { place: counted.place.clone(), cgroup: counted.cgroup.clone(), ..self },
            None => self,
        }
    }

    fn of_victim(victim: &Victim, seen: Option<&Party>) -> Party {
        let members = Members {
            count: victim.tasks,
            tids: &victim.tids,
            tgids: &victim.tgids,
            cgroups: &victim.cgroups,
            all_known: victim.all_known,
        };
        let party = members.party(&victim.comm, seen);
        // A group that its own limit stops: its path is its name.
        let group = (victim.kind == VictimKind::Cgroup).then(|| place_of(&victim.comm));
        match group.filter(|_| party.place == Place::default()) {
            Some(place) => Party { place, cgroup: party.cgroup.or_else(|| Some(cut(&victim.comm))), ..party },
            None => party,
        }
    }

    fn of_culprit(culprit: &Culprit, seen: Option<&Party>) -> Party {
        let members = Members {
            count: culprit.tasks,
            tids: &culprit.tids,
            tgids: &culprit.tgids,
            cgroups: &culprit.cgroups,
            all_known: culprit.all_known,
        };
        members.party(&culprit.comm, seen)
    }
}

/// Tasks that `explain` treats as one because they share a name and a priority. They can belong to different users.
struct Members<'a> {
    count: u32,
    tids: &'a [u32],
    tgids: &'a [u32],
    cgroups: &'a [String],
    /// Whether processes and cgroups are known of all tasks: some may have ended before the host was read.
    all_known: bool,
}

impl Members<'_> {
    /// The task that the counters saw, if it is one of these; otherwise only what all tasks share, because any choice would be arbitrary.
    fn party(&self, comm: &str, seen: Option<&Party>) -> Party {
        // If the victim is a group, the path is the name.
        let party = Party { comm: cut(comm), ..Party::default() };
        let seen = seen.filter(|seen| seen.tid.is_some_and(|tid| self.tids.contains(&tid)));
        let (tid, tgid, cgroup) = match seen {
            Some(seen) => match self.cgroup_of(seen) {
                // The place must come from the full path, which `seen` was made from.
                None => {
                    let (cgroup, place) = (seen.cgroup.clone(), seen.place.clone());
                    return Party { tid: seen.tid, tgid: seen.tgid, cgroup, place, ..party };
                }
                one => (seen.tid, seen.tgid, one),
            },
            None if self.has_all() && (self.all_known || self.tids.len() == 1) => {
                (only(self.tids).copied(), only(self.tgids).copied(), only(self.cgroups))
            }
            None => (None, None, None),
        };
        Party { tid, tgid, place: place(cgroup), cgroup: cgroup.map(|path| cut(path)), ..party }
    }

    /// The only cgroup that the task can be in.
    fn cgroup_of(&self, seen: &Party) -> Option<&String> {
        // The snapshot was taken later: the only cgroup that it has can be another task's.
        let is_known = self.tids.len() == 1 || seen.tgid.is_some_and(|tgid| self.tgids.contains(&tgid));
        let is_below_seen = |cgroup: &&String| seen.cgroup.as_ref().is_none_or(|group| is_below(cgroup, group));
        only(self.cgroups).filter(|_| is_known && self.has_all()).filter(is_below_seen)
    }

    /// Whether all tasks are listed: otherwise it is unknown what the others share.
    fn has_all(&self) -> bool {
        self.count as usize <= self.tids.len()
    }
}

/// The element, if there is exactly one.
fn only<T>(all: &[T]) -> Option<&T> {
    match all {
        [one] => Some(one),
        _ => None,
    }
}

fn place(cgroup: Option<&String>) -> Place {
    cgroup.map(|cgroup| place_of(cgroup)).unwrap_or_default()
}

#[cfg(test)]
#[path = "long_tests.rs"]
mod long_tests;
#[cfg(test)]
#[path = "finish_tests.rs"]
pub(super) mod tests;
#[cfg(test)]
#[path = "time_tests.rs"]
mod time_tests;
