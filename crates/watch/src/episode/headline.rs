//! Chooses the finding of a trace that an episode is about (its headline).

use unstarve_diagnose::THROTTLED;
use unstarve_diagnose::report::{Culprit, Finding, Report, Severity, Victim, VictimKind, WorstWait};
use unstarve_model::{Nanos, Policy};

use super::ignore_filter::{is_below, is_ignored, role_of};
use super::record::{Episode, Party};
use super::truncate_path::cut;
use crate::engine::reading::RoleKind;

/// The report of `explain` about an episode's trace.
#[derive(Debug)]
pub struct Explanation {
    pub(super) report: Report,
    /// Roles that the configuration ignores.
    pub(super) ignored: Vec<String>,
}

/// How a finding is chosen among those of the episode's time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Choice {
    /// The worst; of equally bad ones the one nearest to what the counters saw.
    Worst,
    /// One about the victim of the counters, or about their culprit and rule.
    OwnVictim,
    /// Only one about that victim: findings about other victims belong to other episodes of the same trace, whatever the culprit.
    VictimAlone,
}

/// How well a finding matches what the counters saw.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Fit {
    /// No match.
    None,
    /// The same rule and, as far as roles show, the same culprit.
    Culprit,
    /// The same victim.
    Victim,
    /// The same victim, rule and culprit: a victim can have several findings.
    Both,
}

impl Explanation {
    /// Parses the output of `explain --json`.
    ///
    /// # Errors
    /// If it is not a report.
    pub fn parse(json: &[u8]) -> Result<Explanation, serde_json::Error> {
        serde_json::from_slice(json).map(|report| Explanation { report, ignored: Vec::new() })
    }

    /// Wraps a report of `explain`.
    pub fn of(report: Report) -> Explanation {
        Explanation { report, ignored: Vec::new() }
    }

    /// The same, without findings about victims of these roles only.
    #[must_use]
    pub fn ignoring(self, ignored: &[String]) -> Explanation {
        Explanation { ignored: ignored.to_vec(), ..self }
    }

    /// Whether a finding is about the kernel threads that the counters saw, with another task as the culprit.
    pub(super) fn is_of_kernel_threads_seen(&self, finding: &Finding, episode: &Episode) -> bool {
        finding.victim.kernel_thread == Some(true)
            && self.fit(finding, episode) >= Fit::Victim
            && self.blamed(finding, episode).is_some_and(|row| !has_one_of(&row.tids, &finding.victim))
    }

    /// Whether a finding can be the headline although its victim is not the one that the counters saw.
    pub(super) fn may_be_worst(&self, finding: &Finding, episode: &Episode) -> bool {
        if episode.victim.is_none() || self.fit(finding, episode) != Fit::None {
            return true;
        }
        if !is_by_limit(finding) {
            // Without a known culprit in the episode's time, the finding can belong to any other time.
            return self.main_culprit(finding, episode).is_some();
        }
        // A task that keeps other tasks waiting at any time of the trace is throttled for that: the wait that triggered the episode is another
        // task's.
        let blames = |other: &Finding| other.culprits.iter().any(|row| has_one_of(&row.tids, &finding.victim));
        let seen = episode.culprit.as_ref().and_then(|culprit| culprit.tid);
        !seen.is_some_and(|tid| finding.victim.tids.contains(&tid)) && !self.findings().any(blames)
    }

    /// Findings, worst first, without remarks and without ignored victims.
    pub(super) fn findings(&self) -> impl Iterator<Item = &Finding> {
        let counts =
            |finding: &&Finding| finding.severity > Severity::Info && !is_ignored(&finding.victim, &self.ignored);
        self.report.findings.iter().filter(counts)
    }

    /// How much later the trace begins than the episode's waits may have begun; `None` if the trace has all of them, or if that is unknown.
    pub(crate) fn missed(&self, episode: &Episode) -> Option<Nanos> {
        let since = self.since(episode)?;
        let missed = self.report.trace.start_ns.checked_sub(since)?;
        (missed > 0).then_some(Nanos(missed))
    }

    /// How much of a wait that the episode is about the trace certainly lacks at its begin: a part of the span that the trigger looked at is no
    /// part of a wait.
    pub(crate) fn short_by(&self, episode: &Episode) -> Option<Nanos> {
        let since = self.since(episode)?.checked_add(episode.trigger.as_ref()?.trigger.looked_before().0)?;
        let missed = self.report.trace.start_ns.checked_sub(since)?;
        (missed > 0).then_some(Nanos(missed))
    }

    /// When the episode's waits may have begun, on the trace's clock.
    pub(super) fn since(&self, episode: &Episode) -> Option<u64> {
        // Only the monotonic clock is comparable: the wall clock may have been set meanwhile.
        let is_same_clock = self.report.trace.clock.as_deref() == Some("mono");
        episode.trigger.as_ref().and_then(|seen| seen.since_mono_ns).filter(|_| is_same_clock)
    }

    /// Findings with waits that may be later than the episode's first wait began.
    pub(super) fn of_its_time<'a>(&'a self, episode: &Episode) -> impl Iterator<Item = &'a Finding> + use<'a> {
        let since = self.since(episode);
        let is_of_it = move |finding: &Finding| since.is_none_or(|since| !is_over_before(finding, since));
        // A finding that only may be of its time is dropped if another one about the same tasks is known to be.
        let may_be = move |finding: &Finding| since.is_some_and(|since| !is_known_after(finding, since));
        let is_known = move |finding: &Finding| {
            let same = |other: &Finding| has_one_of(&other.victim.tids, &finding.victim);
            self.findings().any(|other| since.is_some_and(|since| is_known_after(other, since)) && same(other))
        };
        self.findings().filter(move |finding| is_of_it(finding) && !(may_be(finding) && is_known(finding)))
    }

    /// Number of threads that the episode's finding is about.
    pub(super) fn tasks_of_victim(&self, episode: &Episode) -> Option<u32> {
        let victim = episode.victim.as_ref()?;
        // If there are several threads, none is named.
        let is_victim = |found: &Victim| match victim.tid {
            Some(tid) => found.tids.contains(&tid),
            None => found.comm == victim.comm,
        };
        let is_it = |finding: &&Finding| episode.finding.as_ref() == Some(&finding.id) && is_victim(&finding.victim);
        // The worst come first. Remarks are included, because the headline can be one.
        self.report.findings.iter().find(is_it).map(|finding| finding.victim.tasks)
    }

    /// The longest wait of a task of this role in the episode's time, if it is among the longest of the trace.
    pub(super) fn worst_wait(&self, role: &str, episode: &Episode) -> Option<&WorstWait> {
        let since = self.since(episode).unwrap_or(0);
        let mut waits = self.report.worst_waits.iter().filter(|wait| wait.end_ns >= since);
        waits.find(|wait| match &wait.cgroup {
            Some(cgroup) if role.starts_with('/') => wait.kernel_thread != Some(true) && is_below(cgroup, role),
            _ => {
                wait.kernel_thread == Some(true)
                    && RoleKind::named(role).is_some_and(|role| has_name_of(&wait.comm, role))
            }
        })
    }

    /// How well a finding matches what the counters saw.
    pub(super) fn fit(&self, finding: &Finding, episode: &Episode) -> Fit {
        match &episode.victim {
            Some(victim) if is_about(finding, victim) => match self.has_culprit_of(finding, episode) {
                true => Fit::Both,
                false => Fit::Victim,
            },
            Some(_) if self.has_culprit_of(finding, episode) => Fit::Culprit,
            _ => Fit::None,
        }
    }

    /// Whether a finding blames the same rule and, as far as roles show, the same tasks.
    fn has_culprit_of(&self, finding: &Finding, episode: &Episode) -> bool {
        self.blamed(finding, episode).is_some_and(|culprit| is_seen_culprit(culprit, episode))
    }
}

/// Whether all waits ended before then. If the report lists only the worst of many waits, that is unknown, and the answer is no.
fn is_over_before(finding: &Finding, then: u64) -> bool {
    let has_all = finding.lists_all || finding.waits.count as usize <= finding.worst.len();
    has_all && !finding.worst.is_empty() && finding.worst.iter().all(|wait| wait.end_ns < then)
}

/// Whether one of its listed waits ended at or after that moment.
pub(super) fn is_known_after(finding: &Finding, then: u64) -> bool {
    finding.worst.iter().any(|wait| wait.end_ns >= then)
}

/// Whether one of the victim's threads is among these.
pub(super) fn has_one_of(tids: &[u32], victim: &Victim) -> bool {
    tids.iter().any(|tid| victim.tids.contains(tid))
}

/// Whether a finding is about this victim, as far as roles show.
pub(super) fn is_about(finding: &Finding, victim: &Party) -> bool {
    let same_task = victim.tid.is_some_and(|tid| finding.victim.tids.contains(&tid));
    let is_of_role = |role: &str| match victim.cgroup.as_deref() {
        // For a group that its own quota throttles, the group itself is known, and not only the role.
        Some(cgroup) if role.starts_with('/') && is_below(cgroup, role) => {
            is_of(&finding.victim, cgroup)
                || finding.victim.cgroups.iter().any(|of| cut(of) == cgroup)
                || finding.victim.kind == VictimKind::Cgroup
                    && cut(&finding.victim.comm) == cut(&cgroup.escape_debug().to_string())
        }
        _ => is_of(&finding.victim, role),
    };
    same_task || victim.role.as_deref().is_some_and(is_of_role)
}

/// Whether a finding is about the program that the counters saw wait, if they saw one: all other programs of its group have the same role.
pub(super) fn is_about_seen_task(finding: &Finding, episode: &Episode) -> bool {
    episode.victim.as_ref().is_none_or(|victim| match (victim.tid, victim.role.as_deref()) {
        (Some(tid), Some(role)) if role.starts_with('/') => {
            finding.victim.tids.contains(&tid) || finding.victim.comm == victim.comm
        }
        _ => true,
    })
}

/// Whether the counters blame the same rule and, as far as roles show, the same tasks.
pub(super) fn is_seen_culprit(culprit: &Culprit, episode: &Episode) -> bool {
    is_of_seen_role(culprit, episode) && episode.rule == Some(culprit.rule)
}

/// Whether the counters blame the same tasks, as far as roles show.
pub(super) fn is_of_seen_role(culprit: &Culprit, episode: &Episode) -> bool {
    let Some(role) = episode.culprit.as_ref().and_then(|culprit| culprit.role.as_deref()) else { return false };
    let is_kernel = culprit.kernel_thread == Some(true);
    match RoleName::of(role) {
        RoleName::Kind(RoleKind::RealTime) => {
            !is_kernel && matches!(culprit.policy, Some(Policy::Rt | Policy::Deadline))
        }
        RoleName::Group(group) => culprit.cgroups.iter().any(|cgroup| is_below(cgroup, group)),
        RoleName::Kind(kind) => is_kernel && has_name_of(&culprit.comm, kind),
        RoleName::Unknown => false,
    }
}

/// A role as episodes name it.
#[derive(Clone, Copy)]
enum RoleName<'a> {
    /// Programs of a group.
    Group(&'a str),
    /// Any other role.
    Kind(RoleKind),
    /// A role of a later version.
    Unknown,
}

impl RoleName<'_> {
    fn of(name: &str) -> RoleName<'_> {
        match RoleKind::named(name) {
            Some(kind) => RoleName::Kind(kind),
            None if name.starts_with('/') => RoleName::Group(name),
            None => RoleName::Unknown,
        }
    }
}

/// Whether a finding's victim is of a role.
fn is_of(victim: &Victim, role: &str) -> bool {
    match RoleName::of(role) {
        RoleName::Group(group) => victim.cgroups.iter().any(|cgroup| is_below(cgroup, group)),
        RoleName::Kind(kind) => role_of(victim).is_some_and(|role| may_count_as(kind, role, victim)),
        RoleName::Unknown => false,
    }
}

/// Whether the counters may have counted a victim in this role that `explain` takes for another one.
///
/// They know what a worker has begun to work at, `explain` also what it was woken for, and most of what it did: so a worker can be of another role
/// for each. Where both know an item, and not the same, it is another worker.
///
/// | counters | explain: nothing known | direct I/O | writeback | other work |
/// |---|---|---|---|---|
/// | `kworker` | yes | yes | yes | yes |
/// | `direct-io` | yes | yes | no | no |
/// | `storage` | yes | no | yes | no |
///
/// All other kernel threads have their role by name, which both read.
fn may_count_as(counted: RoleKind, found: RoleKind, victim: &Victim) -> bool {
    let is_worker = matches!(counted, RoleKind::Kworker | RoleKind::DirectIo | RoleKind::Storage);
    let is_unknown = counted == RoleKind::Kworker || victim.work.is_none();
    counted == found || victim.kind == VictimKind::Kworker && is_worker && is_unknown
}

/// Whether a finding is about throttling by a quota: no task is to blame.
pub(super) fn is_by_limit(finding: &Finding) -> bool {
    finding.id == THROTTLED
}

/// Whether names of the role's kernel threads begin like this. `false` for roles without names of their own.
fn has_name_of(comm: &str, role: RoleKind) -> bool {
    beginnings(role).iter().any(|beginning| comm.starts_with(beginning))
}

/// Whether a task with this name can be of the role.
pub(super) fn may_be_of(comm: &str, role: &str) -> bool {
    RoleKind::named(role).is_none_or(|role| beginnings(role).is_empty() || has_name_of(comm, role))
}

/// Prefixes of the thread names of a role, if it has any.
fn beginnings(role: RoleKind) -> &'static [&'static str] {
    match role {
        RoleKind::Ksoftirqd => &["ksoftirqd/"],
        RoleKind::Kworker | RoleKind::DirectIo => &["kworker/"],
        RoleKind::Rcu => &["rcu_", "rcuog/", "rcuop/", "rcuos/", "rcuc/", "rcub/"],
        RoleKind::Storage => &["jbd2/", "xfsaild/", "kswapd"],
        RoleKind::Nfsd => &["nfsd"],
        RoleKind::Unknown
        | RoleKind::Idle
        | RoleKind::Kernel
        | RoleKind::RealTime
        | RoleKind::Group
        | RoleKind::Other
        | RoleKind::Gone => &[],
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_finding_is_about_the_role_of_its_victim() {
        let victim = |kind: &str, comm: &str, policy: Policy| Victim {
            kind: kind.parse().expect("a kind"),
            comm: comm.into(),
            policy: Some(policy),
            kernel_thread: Some(kind != "task"),
            ..Victim::default()
        };
        let work = |function: &str, queue: &str| {
            let work = unstarve_diagnose::report::Work { function: function.into(), workqueue: Some(queue.into()) };
            Victim { work: Some(work), ..victim("kworker", "kworker/0:1", Policy::Fair) }
        };
        let roles =
            ["ksoftirqd", "direct-io", "kworker", "rcu", "storage", "nfsd", "kernel", "real-time", "/user.slice"];
        let of = |victim: &Victim| roles.into_iter().filter(|role| is_of(victim, role)).collect::<Vec<_>>();
        // The table of `may_count_as`, column by column.
        let unknown = victim("kworker", "kworker/0:1", Policy::Fair);
        assert_eq!(of(&unknown), ["direct-io", "kworker", "storage"], "nobody knows");
        assert_eq!(of(&work("iomap_dio_complete_work", "dio/sda")), ["direct-io", "kworker"]);
        assert_eq!(of(&work("wb_workfn", "writeback")), ["kworker", "storage"]);
        assert_eq!(of(&work("vmstat_update", "mm_percpu_wq")), ["kworker"], "direct I/O is not its");
        assert_eq!(of(&victim("storage", "jbd2/sda1-8", Policy::Fair)), ["storage"], "no worker");
        assert_eq!(of(&victim("nfsd", "nfsd", Policy::Fair)), ["nfsd"]);
        assert_eq!(of(&victim("task", "nfsdcld", Policy::Fair)), [""; 0], "a program that is called like it");
        for kind in ["kworker", "nfsd", "ksoftirqd", "task"] {
            let unknown = Victim { kernel_thread: None, ..victim(kind, "nfsd", Policy::Fair) };
            assert_eq!(of(&unknown), [""; 0], "any program may be called so: {kind}");
        }
        assert_eq!(of(&Victim { kernel_thread: Some(true), ..victim("task", "kthrotld", Policy::Rt) }), ["kernel"]);
        for policy in [Policy::Rt, Policy::Deadline] {
            assert_eq!(of(&victim("task", "pump", policy)), ["real-time"]);
        }
        let shell = Victim { cgroups: vec!["/user.slice/a".into()], ..victim("task", "bash", Policy::Fair) };
        assert_eq!(of(&shell), ["/user.slice"]);
        assert!(RoleKind::FIXED.into_iter().all(|kind| RoleKind::named(kind.word()) == Some(kind)));
        assert!(!is_of(&shell, "a-role-of-tomorrow") && may_be_of("bash", "a-role-of-tomorrow"));
    }

    #[test]
    fn no_program_is_named_as_a_kernel_threads_role() {
        assert!(may_be_of("kworker/0:1H", "kworker") && !may_be_of("fio", "kworker"));
        assert!(may_be_of("fio", "other") && may_be_of("fio", "/kubepods"), "roles without names of their own");
    }

    #[test]
    fn an_episode_knows_how_many_threads_its_finding_is_about() {
        let finding = |id: &str, tids: &[u32], tasks: u32| {
            json!({
                "id": id, "severity": "critical", "confidence": 0.9, "sentence": "s", "culprits": [], "blame": [],
                "victim": { "kind": "task", "comm": "bash", "tids": tids, "tasks": tasks, "policy": null, "prio": null, "work": null },
                "waits": { "count": 1, "total_ns": 1, "max_ns": 1, "p99_ns": 1, "owed_ns": 1 }, "cpus": [], "period_ns": null,
                "price": [], "evidence": [], "worst": [], "losses": [], "remedies": [],
            })
        };
        let trace = serde_json::to_value(unstarve_diagnose::report::TraceSummary::default()).expect("JSON");
        let findings = [finding("rt-starvation", &[25405, 25406], 304), finding("weight-starvation", &[25405], 1)];
        let report = json!({
            "schema": "unstarve.explain/1", "trace": trace, "findings": findings, "worst_waits": [], "losses": [],
            "verdict": { "severity": "critical", "text": "v" },
        });
        let explanation = Explanation::parse(report.to_string().as_bytes()).expect("a report");
        let mut episode = Episode::default();
        episode.note_trace(&explanation);
        episode.note_tasks(&explanation);
        let tasks = |episode: &Episode| serde_json::to_value(episode).expect("JSON")["victim_tasks"].clone();
        assert_eq!((tasks(&episode), episode.many_tasks()), (json!(304), Some(304)));
        episode.finding = Some("weight-starvation".into());
        episode.note_tasks(&explanation);
        assert_eq!((tasks(&episode), episode.many_tasks()), (json!(1), None));
        // Without a finding, the number of threads is unknown.
        episode.finding = None;
        episode.note_tasks(&explanation);
        assert_eq!(tasks(&episode), json!(null));
    }
}
