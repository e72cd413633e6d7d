//! Tests of combining an explanation with what the counters showed.

use serde_json::{Value, json};

use super::*;

fn culprit(comm: &str, rule: &str) -> Value {
    json!({ "comm": comm, "tids": [7], "policy": "rt", "prio": 49, "rule": rule, "ns": 85, "cgroups": ["/system.slice/a.service"] })
}

pub(in crate::episode) fn finding(kind: &str, comm: &str) -> Value {
    json!({
        "id": "rt-starvation", "severity": "critical", "confidence": 0.9, "sentence": "s", "culprits": [culprit("hog", "class")],
        "victim": {
            "kind": kind, "comm": comm, "tids": [71], "tasks": 1, "policy": "fair", "prio": 120, "work": null, "kernel_thread": kind != "task",
        },
        "blame": [], "waits": { "count": 1, "total_ns": 85, "max_ns": 85, "p99_ns": 85, "owed_ns": 1 }, "cpus": [0],
        "period_ns": null, "price": [], "evidence": [], "worst": [], "losses": [],
        "remedies": [{ "id": "r", "text": "t", "apply": "a", "undo": "", "risk": "", "valid_on": "" }],
    })
}

pub(in crate::episode) fn explained(findings: &[Value], worst_waits: &[Value]) -> Explanation {
    let trace = json!({
        "format": "f", "events": 1, "lost": 0, "cpus": 1, "start_ns": 0, "end_ns": 1, "kernel": null, "snapshot": true,
        "waits_total_ns": 1, "waits_count": 1, "clock": "mono",
    });
    let report = json!({
        "schema": "unstarve.explain/1", "trace": trace, "verdict": { "severity": "critical", "text": "v" }, "findings": findings,
        "worst_waits": worst_waits, "losses": [],
    });
    Explanation::parse(report.to_string().as_bytes()).expect("a report")
}

/// A role that was above its threshold, too.
fn of_role(role: &str) -> Suffered {
    Suffered { victim: Party { role: Some(role.to_owned()), ..Party::default() }, ..Suffered::default() }
}

fn seen(role: &str) -> Episode {
    let party = |role: &str| Some(Party { role: Some(role.to_owned()), ..Party::default() });
    Episode {
        victim: party(role),
        culprit: party("real-time"),
        rule: Some(unstarve_sched::Rule::Class),
        ..Episode::default()
    }
}

#[test]
fn a_finding_about_this_victim_gives_the_names() {
    let mut episode = seen("kworker");
    episode.note_trace(&explained(&[finding("task", "other"), finding("kworker", "kworker/0:1")], &[]));
    let victim = episode.victim.expect("a victim");
    assert_eq!((victim.comm.as_str(), victim.tid, victim.role.as_deref()), ("kworker/0:1", Some(71), Some("kworker")));
    let culprit = episode.culprit.expect("a culprit");
    assert_eq!((culprit.comm.as_str(), culprit.place.unit.as_deref()), ("hog", Some("a.service")));
    assert_eq!(
        (episode.ns, episode.finding.as_ref().map(unstarve_diagnose::report::FindingId::as_str)),
        (Some(85), Some("rt-starvation"))
    );
}

/// A finding with a single wait at this time on the trace's clock, with this severity.
fn at(mut finding: Value, severity: &str, start: u64, end: u64) -> Value {
    finding["severity"] = severity.into();
    finding["worst"] = json!([{ "cpu": 0, "start_ns": start, "end_ns": end }]);
    finding
}

fn of_tid(mut finding: Value, tid: u32) -> Value {
    finding["victim"]["tids"] = json!([tid]);
    finding
}

/// An episode as the counters began it: its waits may have begun at 1,000.
fn counted(role: &str) -> Episode {
    let seen = seen(role);
    let trigger = Seen {
        trigger: crate::episode::Trigger::Wait { ns: 5, threshold_ns: 4 },
        since_mono_ns: Some(1_000),
        victim: seen.victim.clone(),
        culprit: seen.culprit.clone(),
        rule: seen.rule,
        blamed_ns: Some(6),
    };
    let victims = vec![Suffered { victim: seen.victim.clone().unwrap_or_default(), ..Suffered::default() }];
    Episode { trigger: Some(trigger), victims, ..seen }
}

#[test]
fn the_worst_of_its_time_is_the_headline_and_all_victims_are_listed() {
    //            1,000 the episode begins
    //  early  ---|         critical, over before
    //  fio       |  ---    a warning about the counters' own victim
    //  kworker   | ----    critical
    let findings = [
        at(of_tid(finding("task", "early"), 3), "critical", 10, 900),
        at(of_tid(finding("kworker", "kworker/0:1"), 4), "critical", 1_100, 1_900),
        at(of_tid(finding("ksoftirqd", "ksoftirqd/0"), 5), "warning", 1_300, 1_900),
    ];
    let mut episode = counted("ksoftirqd");
    episode.note_joined(&of_role("rcu"));
    episode.note_joined(&of_role("rcu"));
    episode.note_trace(&explained(&findings, &[]));
    assert_eq!(episode.victim.as_ref().map(|victim| victim.comm.as_str()), Some("kworker/0:1"));
    assert_eq!(
        (
            episode.finding.as_ref().map(unstarve_diagnose::report::FindingId::as_str),
            episode.severity.map(unstarve_model::Severity::word)
        ),
        (Some("rt-starvation"), Some("critical"))
    );
    assert!(episode.other_finding.is_none());
    let victims: Vec<(&str, Option<&str>)> =
        (episode.victims.iter()).map(|other| (other.victim.comm.as_str(), other.victim.role.as_deref())).collect();
    assert_eq!(victims, [("kworker/0:1", None), ("ksoftirqd/0", None), ("", Some("rcu"))], "the counters' own once");
    let seen = episode.trigger.as_ref().and_then(|seen| seen.victim.as_ref()?.role.as_deref());
    assert_eq!(seen, Some("ksoftirqd"), "what the counters saw stays");
    assert!(super::super::line(&episode).contains("; ksoftirqd/0[5] and 1 other starved, too"));
    // Of equally bad ones, the finding about the counters' victim.
    let mut equal = findings.clone();
    equal[2]["severity"] = "critical".into();
    let mut episode = counted("ksoftirqd");
    episode.note_trace(&explained(&equal, &[]));
    assert_eq!(episode.victim.map(|victim| victim.comm).as_deref(), Some("ksoftirqd/0"));
}

#[test]
fn of_two_findings_about_the_victim_that_with_the_culprit_is_the_headline() {
    let by_weight = {
        let mut finding = at(finding("kworker", "kworker/0:1"), "critical", 1_100, 1_900);
        finding["id"] = "weight-starvation".into();
        finding["culprits"] = json!([culprit("qemu", "weight")]);
        finding["culprits"][0]["policy"] = "fair".into();
        finding
    };
    let by_class = at(finding("kworker", "kworker/0:1"), "critical", 1_100, 1_900);
    let mut episode = counted("kworker");
    episode.note_trace(&explained(&[by_weight, by_class], &[]));
    assert_eq!(episode.finding.as_ref().map(unstarve_diagnose::report::FindingId::as_str), Some("rt-starvation"));
    assert_eq!(episode.culprit.map(|culprit| culprit.comm).as_deref(), Some("hog"));
}

#[test]
fn who_keeps_others_waiting_is_not_the_headlines_victim() {
    // A throttled FIFO task waits, but it is the culprit of the other waits.
    let mut throttled = at(of_tid(finding("task", "hog"), 7), "critical", 1_100, 1_900);
    throttled["id"] = "rt-throttled".into();
    throttled["victim"]["policy"] = "rt".into();
    throttled["culprits"] = json!([]);
    let starved = at(finding("task", "spin"), "critical", 1_100, 1_900);
    let mut episode = counted("real-time");
    episode.note_trace(&explained(&[throttled.clone(), starved], &[]));
    let names = [&episode.victim, &episode.culprit].map(|party| party.as_ref().map(|party| party.comm.as_str()));
    assert_eq!(names, [Some("spin"), Some("hog")]);
    assert_eq!(episode.victims.len(), 2);
    // Without victims of its own, it can be the headline.
    let mut episode = counted("real-time");
    episode.note_trace(&explained(&[throttled], &[]));
    assert_eq!(episode.victim.map(|victim| victim.comm).as_deref(), Some("hog"));
}

#[test]
fn who_kept_others_waiting_before_is_not_the_headlines_victim_for_its_limit() {
    let limited = |tid: u32| {
        let mut limited = of_tid(at(finding("ksoftirqd", "hog"), "warning", 1_100, 1_200), tid);
        (limited["id"], limited["culprits"]) = ("throttled".into(), json!([]));
        limited
    };
    // The listed waits of its victims ended before the episode began.
    let early = at(finding("task", "early"), "critical", 100, 200);
    let mut episode = counted("kworker");
    episode.note_trace(&explained(&[early.clone(), limited(7)], &[]));
    assert_eq!(episode.victim, counted("kworker").victim, "what began it stays");
    assert_eq!((episode.finding, episode.rule.map(unstarve_sched::Rule::word)), (None, Some("class")));
    let mut by_tid = counted("kworker");
    by_tid.culprit = Some(Party { tid: Some(9), ..by_tid.culprit.unwrap_or_default() });
    by_tid.note_trace(&explained(&[limited(9)], &[]));
    assert_eq!(by_tid.finding, None, "whom the counters saw");
    let mut other = counted("kworker");
    other.note_trace(&explained(&[early, limited(8)], &[]));
    assert_eq!(
        other.finding.as_ref().map(unstarve_diagnose::report::FindingId::as_str),
        Some("throttled"),
        "one that kept nobody waiting"
    );
}

#[test]
fn of_the_victim_by_another_cause_and_another_victim_of_the_cause_the_worse_is_the_headline() {
    let named = |findings: &[Value]| {
        let mut episode = counted("kworker");
        episode.note_trace(&explained(findings, &[]));
        episode.victim.map(|victim| victim.comm)
    };
    let mut by_another = finding("kworker", "kworker/0:1");
    by_another["culprits"] =
        json!([{ "comm": "NET_RX", "tids": [], "policy": null, "prio": null, "rule": "softirq", "ns": 31 }]);
    let same_cause = of_tid(finding("ksoftirqd", "other"), 72);
    assert_eq!(named(&[same_cause.clone(), by_another.clone()]).as_deref(), Some("other"));
    assert_eq!(named(&[by_another.clone(), same_cause.clone()]).as_deref(), Some("kworker/0:1"));
    let both = finding("kworker", "kworker/0:2");
    assert_eq!(named(&[same_cause, by_another, both]).as_deref(), Some("kworker/0:2"));
}

#[test]
fn an_episode_that_began_with_kernel_threads_is_headed_by_no_program_even_if_that_is_worse() {
    let named = |findings: &[Value]| {
        let mut episode = counted("kworker");
        episode.note_trace(&explained(findings, &[]));
        episode.victim.map(|victim| victim.comm)
    };
    // The report lists the program first, by the cause that the counters saw; the kworker waited behind another task.
    let program = of_tid(finding("task", "fio"), 72);
    let mut by_another = finding("kworker", "kworker/0:1");
    by_another["culprits"] = json!([{
        "comm": "NET_RX", "tids": [], "policy": null, "prio": null, "rule": "softirq", "ns": 31,
    }]);
    assert_eq!(named(&[program.clone(), by_another.clone()]).as_deref(), Some("kworker/0:1"));
    // The program waits for the kworker itself, which waits for the hog.
    let mut behind_kworker = program.clone();
    behind_kworker["culprits"] = json!([{
        "comm": "kworker/0:1", "tids": [71], "policy": "fair", "prio": 100, "rule": "weight", "ns": 31, "kernel_thread": true,
    }]);
    let own = finding("kworker", "kworker/0:1");
    assert_eq!(named(&[behind_kworker.clone(), own.clone()]).as_deref(), Some("kworker/0:1"));
    let mild = |mut finding: Value| {
        finding["severity"] = "warning".into();
        finding
    };
    assert_eq!(named(&[program.clone(), mild(by_another)]).as_deref(), Some("kworker/0:1"));
    assert_eq!(named(&[program, mild(own)]).as_deref(), Some("kworker/0:1"));
    // An episode triggered by a program is about that program.
    let mut episode = counted("/user.slice");
    let mut shell = of_tid(finding("task", "bash"), 72);
    shell["victim"]["cgroups"] = json!(["/user.slice/a"]);
    let kworker = finding("kworker", "kworker/0:1");
    episode.note_trace(&explained(&[shell, kworker], &[]));
    assert_eq!(episode.victim.map(|victim| victim.comm).as_deref(), Some("bash"));
}

#[test]
fn of_a_group_that_only_the_counters_saw_the_longest_wait_is_named() {
    let pod = "/kubepods/burstable/pod8a1c2f4e-0d53-4f0e-9d5c-3b0a1f2c4d5e/c0ffee";
    let wait = |comm: &str, cgroup: Option<&str>, end: u64, rule: &str| {
        json!({
            "comm": comm, "tid": 15, "cpu": 0, "start_ns": 0, "end_ns": end, "blame": [culprit("hog", rule)], "cgroup": cgroup,
            "kernel_thread": false,
        })
    };
    // The headline is a finding about another victim; the pod was above its threshold too.
    let named = |waits: &[Value]| {
        let mut episode = counted("rcu");
        episode.note_joined(&of_role("/kubepods"));
        episode.note_trace(&explained(&[at(finding("task", "other"), "critical", 1_100, 1_200)], waits));
        episode
            .victims
            .into_iter()
            .find(|other| other.victim.role.as_deref() == Some("/kubepods"))
            .expect("it is listed")
    };
    let early = wait("early", Some(pod), 900, "class");
    let elsewhere = wait("nginx", Some("/system.slice/nginx.service"), 2_000, "class");
    let found = named(&[
        early,
        elsewhere.clone(),
        wait("postgres", Some(pod), 1_900, "class"),
        wait("x", None, 1_950, "class"),
    ]);
    let culprit = found.culprit.as_ref().map(|culprit| culprit.comm.as_str());
    assert_eq!((found.victim.comm.as_str(), culprit, found.ns), ("postgres", Some("hog"), Some(85)));
    assert_eq!(found.victim.place.pod.as_deref(), Some("8a1c2f4e-0d53-4f0e-9d5c-3b0a1f2c4d5e"));
    assert_eq!(found.finding, None, "no finding is about it");
    let by_limit = named(&[wait("postgres", Some(pod), 1_900, "throttled")]);
    assert_eq!((by_limit.culprit, by_limit.rule.map(unstarve_sched::Rule::word)), (None, Some("throttled")));
    assert_eq!(named(&[elsewhere]).victim.comm, "", "nobody is named by chance");
}

#[test]
fn victims_are_capped_and_the_others_counted() {
    let findings: Vec<Value> =
        (0..30).map(|tid| at(of_tid(finding("task", "t"), 100 + tid), "warning", 1_100, 1_200)).collect();
    let mut episode = counted("kworker");
    episode.note_trace(&explained(&findings, &[]));
    assert_eq!((episode.victims.len(), episode.more_victims), (16, 15), "30 and the counters' own");
}

#[test]
fn a_finding_of_another_time_gives_no_names() {
    let mut episode = counted("rcu");
    episode.rule = Some(unstarve_sched::Rule::Weight);
    let before = episode.clone();
    episode.note_trace(&explained(&[at(finding("task", "whatever"), "critical", 10, 900)], &[]));
    assert_eq!((episode.finding.as_ref(), episode.remedy.as_ref()), (None, None));
    assert_eq!(
        Episode { verdict: None, other_finding: None, ..episode.clone() },
        before,
        "what the counters show stays"
    );
    // The finding is not lost: it has a victim of its own, and the episode is counted as it.
    let other = episode.other_finding.as_ref().expect("the worst of the trace");
    assert_eq!((other.finding.as_str(), other.severity.word(), other.ns), ("rt-starvation", "critical", Some(85)));
    let names = (other.victim.comm.as_str(), other.culprit.as_ref().map(|culprit| culprit.comm.as_str()));
    assert_eq!(names, ("whatever", Some("hog")));
    assert_eq!(episode.counts_as(), Some(&"rt-starvation".into()));
    assert!(super::super::line(&episode).contains("; explain found rt-starvation of whatever[71] instead"));
    // The longest wait of such a task provides names, if it is blamed on the same culprit.
    let wait = |rule: &str| json!({ "comm": "rcu_preempt", "tid": 15, "cpu": 0, "start_ns": 0, "end_ns": 9, "blame": [culprit("hog", rule)], "kernel_thread": true });
    let mut episode = seen("rcu");
    episode.note_trace(&explained(&[], &[wait("class")]));
    let names = [&episode.victim, &episode.culprit].map(|party| party.as_ref().map(|party| party.comm.as_str()));
    assert_eq!(names, [Some("rcu_preempt"), Some("hog")]);
    let mut episode = seen("rcu");
    episode.note_trace(&explained(&[], &[wait("fair")]));
    assert_eq!(Episode { verdict: None, ..episode }, seen("rcu"));
}

#[test]
fn a_finding_about_others_has_no_role_of_the_counters() {
    let mut other = finding("ksoftirqd", "other");
    other["culprits"] =
        json!([{ "comm": "heavy", "tids": [9], "policy": "fair", "prio": 120, "rule": "class", "ns": 85 }]);
    let mut episode = counted("rcu");
    episode.note_trace(&explained(&[other], &[]));
    let roles = [&episode.victim, &episode.culprit]
        .map(|party| party.as_ref().map(|party| (party.comm.as_str(), party.role.as_deref())));
    assert_eq!(roles, [Some(("other", None)), Some(("heavy", None))]);
}

#[test]
fn a_finding_about_others_that_blames_nobody_is_not_what_began_it() {
    let mut finding = at(finding("kworker", "kworker/0:1"), "critical", 1_100, 1_900);
    finding["culprits"] = json!([]);
    let mut episode = Episode { ns: Some(6), ..counted("ksoftirqd") };
    episode.note_trace(&explained(&[finding.clone()], &[]));
    assert_eq!(episode.victim, counted("ksoftirqd").victim);
    assert_eq!(
        (episode.rule.map(unstarve_sched::Rule::word), episode.ns, episode.finding),
        (Some("class"), Some(6), None)
    );
    assert_eq!(episode.other_finding.as_ref().map(|other| other.finding.as_str()), Some("rt-starvation"), "it is told");
    let mut dump = Episode::default();
    dump.note_trace(&explained(&[finding.clone()], &[]));
    assert_eq!(dump.victim.map(|victim| victim.comm).as_deref(), Some("kworker/0:1"), "nothing began that");
    let mut own = Episode { ns: Some(6), ..counted("kworker") };
    own.note_trace(&explained(&[finding], &[]));
    assert_eq!(
        (own.rule.map(unstarve_sched::Rule::word), own.ns),
        (Some("class"), Some(6)),
        "of the victim itself they say something"
    );
}

#[test]
fn the_same_culprit_by_the_same_rule_is_this_episode_s() {
    let mut episode = seen("rcu");
    episode.note_trace(&explained(&[finding("ksoftirqd", "fio")], &[]));
    let victim = episode.victim.expect("a victim");
    assert_eq!((victim.comm.as_str(), victim.role), ("fio", None), "it is no longer the counters' victim");
    let culprit = episode.culprit.expect("a culprit");
    assert_eq!((culprit.comm.as_str(), culprit.role.as_deref()), ("hog", Some("real-time")));
}

#[test]
fn two_episodes_share_a_trace_and_each_has_its_own_victim() {
    let explained = explained(&[finding("task", "other"), finding("kworker", "kworker/0:1")], &[]);
    let first = Episode { id: "first".into(), trace_bytes: Some(5), ..Episode::default() };
    let mut episode = seen("kworker");
    episode.note_shared(&first, Some(&explained));
    assert_eq!(episode.victim.as_ref().map(|victim| victim.comm.as_str()), Some("kworker/0:1"));
    assert_eq!((episode.trace_of.as_deref(), episode.trace_bytes), (Some("first"), None));
    let failed = Episode { problem: Some("no trace: full".into()), ..Episode::default() };
    let mut episode = seen("kworker");
    episode.note_shared(&failed, None);
    assert_eq!((episode.trace_of, episode.problem), (None, failed.problem));
}

#[test]
fn the_one_that_has_the_trace_takes_a_finding_once() {
    let others = at(of_tid(finding("ksoftirqd", "other"), 9), "critical", 1_100, 1_900);
    let mut episode = counted("rcu");
    episode.culprit = None;
    (0..20).for_each(|number| episode.note_joined(&of_role(&format!("/g{number}"))));
    let more = episode.more_victims;
    episode.note_trace_of_many(&explained(&[others], &[]));
    assert_eq!(
        episode.finding.as_ref().map(unstarve_diagnose::report::FindingId::as_str),
        Some("rt-starvation"),
        "nobody else has it"
    );
    assert_eq!(episode.other_finding, None);
    let named = episode.victims.iter().filter(|victim| victim.finding.is_some()).count();
    assert_eq!((named, episode.victims.len() as u64 + episode.more_victims), (1, 16 + more + 1));
    // An episode that shares the trace leaves the finding to that one.
    let mut episode = Episode { trace_of: Some("first".into()), culprit: None, ..counted("rcu") };
    episode.note_trace_of_many(&explained(&[at(finding("task", "other"), "critical", 1_100, 1_900)], &[]));
    assert_eq!((episode.finding.as_ref(), episode.other_finding.is_some()), (None, true));
}

#[test]
fn episodes_of_one_trace_keep_their_victims_where_a_crowd_is_worse() {
    // The same culprit keeps the crowd, rcu, and a program of the crowd's group waiting.
    let mut crowd = at(of_tid(finding("task", "perf"), 9), "critical", 1_100, 1_900);
    crowd["victim"]["cgroups"] = json!(["/user.slice/a"]);
    let program = Party {
        role: Some("/user.slice".into()),
        comm: "dd".into(),
        tid: Some(44),
        cgroup: Some("/user.slice".into()),
        ..Party::default()
    };
    let shared = |mut episode: Episode| {
        episode.trace_of = Some("first".into());
        episode.note_trace_of_many(&explained(std::slice::from_ref(&crowd), &[]));
        super::super::line(&episode)
    };
    let of_program = || {
        let mut episode = counted("/user.slice");
        episode.victim = Some(program.clone());
        if let Some(seen) = &mut episode.trigger {
            seen.victim = Some(program.clone());
        }
        episode
    };
    let line = shared(counted("rcu"));
    assert!(
        line.contains(": rcu tasks waited") && line.contains("explain found rt-starvation of perf[9] instead"),
        "{line}"
    );
    let line = shared(of_program());
    assert!(
        line.contains(": dd[44] waited") && line.contains("explain found rt-starvation of perf[9] instead"),
        "{line}"
    );
    // The episode with the trace takes findings of no other episode, and still shows what triggered it.
    let crowd_of_kernel_threads = at(of_tid(finding("ksoftirqd", "ksoftirqd/1"), 9), "critical", 1_100, 1_900);
    let mut episode = counted("rcu");
    episode.note_trace_of_many(&explained(&[crowd_of_kernel_threads], &[]));
    let line = super::super::line(&episode);
    assert!(
        line.contains(": ksoftirqd/1[9] waited 85 ns") && line.contains("; it began when rcu tasks waited 6 ns"),
        "{line}"
    );
    // Findings about the program itself are preferred to worse ones about other programs of its group.
    let own = at(of_tid(finding("task", "dd"), 44), "warning", 1_100, 1_900);
    let mut episode = of_program();
    episode.note_trace_of_many(&explained(&[crowd.clone(), own], &[]));
    let line = super::super::line(&episode);
    assert!(line.contains(": dd[44] waited 85 ns") && !line.contains("it began when"), "{line}");
}

#[test]
fn a_dump_has_the_worst() {
    let mut episode = Episode::default();
    episode.note_trace(&explained(&[finding("task", "whatever")], &[]));
    assert_eq!(episode.victim.map(|victim| victim.comm).as_deref(), Some("whatever"));
}

#[test]
fn a_line_is_read_as_it_was_written() {
    use crate::episode::Trigger;
    let kinds = [
        Trigger::Wait { ns: 5, threshold_ns: 4 },
        Trigger::Oldest { ns: 318_533_442, threshold_ns: 200_000_000 },
        Trigger::Share { share: 0.5, threshold: 0.3 },
    ];
    for kind in kinds {
        let mut episode = counted("kworker");
        if let Some(seen) = &mut episode.trigger {
            seen.trigger = kind;
        }
        episode.note_trace(&explained(&[finding("task", "other")], &[]));
        let line = serde_json::to_string(&episode).expect("JSON");
        assert_eq!(serde_json::from_str::<Episode>(&line).expect(&line), episode);
    }
    // A record from before the counters' view had names.
    let old = r#"{"id":"1","trigger":{"kind":"wait","ns":5,"threshold_ns":4}}"#;
    let seen = serde_json::from_str::<Episode>(old).expect("an old line").trigger.expect("a trigger");
    assert_eq!((seen.trigger, seen.victim), (Trigger::Wait { ns: 5, threshold_ns: 4 }, None));
}

#[test]
fn an_explanation_that_is_made_again_counts_nobody_twice() {
    let found = |count: u32| -> Vec<Value> {
        (0..count)
            .map(|number| at(of_tid(finding("task", &format!("t{number}")), 100 + number), "warning", 1_100, 1_900))
            .collect()
    };
    for (roles, findings) in [(20_u64, 3), (3, 30), (0, 20), (40, 0)] {
        let mut episode = counted("ksoftirqd");
        (0..roles).for_each(|number| episode.note_joined(&of_role(&format!("/g{number}"))));
        let explained = explained(&found(findings), &[]);
        episode.note_trace(&explained);
        let once = (episode.victims.clone(), episode.more_victims);
        assert_eq!(once.0.len() as u64 + once.1, 1 + roles + u64::from(findings));
        for _ in 0..3 {
            // As the next watch reads it from the store.
            let text = serde_json::to_string(&episode).expect("JSON");
            episode = serde_json::from_str(&text).expect("an episode");
            episode.note_trace(&explained);
            assert_eq!((episode.victims.clone(), episode.more_victims), once, "{roles} roles, {findings} findings");
        }
    }
}

/// One row for two programs, of which the second has the later thread id.
fn two_programs(mut finding: Value) -> Value {
    let row = json!({
        "comm": "ab", "tids": [2_600, 7_560], "tasks": 2, "tgids": [2_600, 7_560], "policy": "fair", "prio": 120, "rule": "class", "ns": 85,
        "cgroups": ["/system.slice/innocent.service", "/system.slice/storm.service"],
    });
    finding["culprits"] = json!([row]);
    finding
}

#[test]
fn of_several_programs_of_one_name_no_one_is_named_but_whom_the_counters_saw() {
    let explained = explained(&[at(two_programs(finding("kworker", "kworker/0:1")), "critical", 1_100, 1_900)], &[]);
    let mut episode = counted("kworker");
    let seen = Party {
        role: Some("other".into()),
        comm: "ab".into(),
        tid: Some(7_560),
        tgid: Some(7_560),
        ..Party::default()
    };
    episode.culprit = Some(seen.clone());
    episode.note_trace(&explained);
    assert_eq!(episode.culprit, Some(seen), "nothing says in which of the two groups it is");
    let listed = episode.victims[0].culprit.as_ref().and_then(|culprit| culprit.tid);
    assert_eq!(listed, Some(7_560));
    let line = super::super::line(&episode);
    assert!(line.contains("while ab[7560] had its CPU") && !line.contains("innocent"), "{line}");
    let text = serde_json::to_string(&episode).expect("JSON");
    assert!(!text.contains("innocent"), "{text}");
    // If its group has a role of its own, that is known.
    let group = "/system.slice/storm.service";
    let seen = Party {
        cgroup: Some(group.into()),
        place: place_of(group),
        role: Some(group.into()),
        ..episode.culprit.clone().unwrap_or_default()
    };
    let mut episode = counted("kworker");
    episode.culprit = Some(seen);
    episode.note_trace(&explained);
    assert_eq!(episode.culprit.and_then(|culprit| culprit.place.unit).as_deref(), Some("storm.service"));
    // The counters saw none of them.
    let mut episode = counted("kworker");
    episode.note_trace(&explained);
    let culprit = episode.culprit.clone().expect("a culprit");
    assert_eq!((culprit.comm.as_str(), culprit.tid, culprit.tgid, culprit.cgroup), ("ab", None, None, None));
    assert_eq!(culprit.place, Place::default());
    assert!(super::super::line(&episode).contains("while ab had its CPU"));
}

#[test]
fn of_more_tasks_than_are_listed_nothing_is_shared() {
    let mut many = finding("kworker", "kworker/0:1");
    many["culprits"][0]["tasks"] = 200.into();
    let mut episode = counted("kworker");
    episode.note_trace(&explained(&[at(many, "critical", 1_100, 1_900)], &[]));
    let culprit = episode.culprit.expect("a culprit");
    assert_eq!((culprit.tid, culprit.cgroup), (None, None));
}

#[test]
fn victims_of_one_name_are_the_headline_once() {
    let mut crowd = at(finding("ksoftirqd", "crowd"), "critical", 1_100, 1_900);
    crowd["victim"]["tids"] = json!([71, 72]);
    crowd["victim"]["tasks"] = 2.into();
    let mut episode = counted("kworker");
    episode.note_trace(&explained(&[crowd], &[]));
    let line = super::super::line(&episode);
    assert!(line.contains(": crowd waited 85 ns") && line.contains("; kworker tasks starved, too"), "{line}");
}

fn beginning_at(mut explained: Explanation, start: u64) -> Explanation {
    explained.report.trace.start_ns = start;
    explained
}

#[test]
fn a_trace_that_begins_after_the_wait_says_of_nobody_that_he_is_well() {
    let mut episode = counted("kworker");
    let (victim, culprit) = (episode.victim.clone(), episode.culprit.clone());
    episode.counted_severity = Some(unstarve_model::Severity::Critical);
    episode.note_trace(&beginning_at(explained(&[], &[]), 5_000_000));
    assert_eq!((&episode.victim, &episode.culprit), (&victim, &culprit), "the counters' words stay");
    assert_eq!(
        (episode.verdict.as_ref(), episode.severity.map(unstarve_model::Severity::word)),
        (None, Some("critical"))
    );
    let problem = episode.problem.clone().expect("it is short");
    assert!(problem.starts_with("the trace begins 5.00 ms after the wait may have begun"), "{problem}");
    assert!(super::super::line(&episode).contains(&problem));
    // Findings about other victims are not the headline, but the one about its own culprit is.
    let others = at(of_tid(finding("ksoftirqd", "other"), 9), "critical", 6_000_000, 6_100_000);
    let mut innocent = others.clone();
    innocent["culprits"] =
        json!([{ "comm": "innocent", "tids": [9], "policy": "fair", "prio": 120, "rule": "weight", "ns": 85 }]);
    let mut episode = counted("kworker");
    episode.note_trace(&beginning_at(explained(&[innocent], &[]), 5_000_000));
    assert_eq!((episode.finding.as_ref(), &episode.culprit), (None, &culprit));
    assert!(episode.other_finding.is_some() && episode.problem.is_some());
    let mut episode = counted("kworker");
    episode.note_trace(&beginning_at(explained(&[others], &[]), 5_000_000));
    assert_eq!(episode.finding.as_ref().map(unstarve_diagnose::report::FindingId::as_str), Some("rt-starvation"));
    assert!(episode.problem.is_some());
    // A trace that covers all of the episode has no such problem; nor has one with another clock.
    let mut episode = counted("kworker");
    episode.note_trace(&beginning_at(explained(&[], &[]), 1_000));
    assert_eq!((episode.problem.as_ref(), episode.verdict.as_deref()), (None, Some("v")));
    let mut other_clock = beginning_at(explained(&[], &[]), 5_000_000);
    other_clock.report.trace.clock = Some("local".into());
    let mut episode = counted("kworker");
    episode.note_trace(&other_clock);
    assert_eq!(episode.problem, None);
}

#[test]
fn an_ignored_role_is_not_the_headline_and_not_beside_it() {
    let worst = at(of_tid(finding("kworker", "kworker/0:1"), 4), "critical", 1_100, 1_900);
    let other = at(of_tid(finding("ksoftirqd", "ksoftirqd/0"), 5), "warning", 1_300, 1_900);
    let ignoring = |findings: &[Value]| explained(findings, &[]).ignoring(&["kworker".to_owned()]);
    let mut episode = counted("ksoftirqd");
    episode.note_trace(&ignoring(&[worst.clone(), other]));
    assert_eq!(episode.victim.as_ref().map(|victim| victim.comm.as_str()), Some("ksoftirqd/0"));
    assert!(!super::super::line(&episode).contains("kworker"), "{}", super::super::line(&episode));
    assert_eq!(episode.victims.len(), 1, "{:?}", episode.victims);
    // Without other information, what the counters showed remains.
    let mut episode = counted("ksoftirqd");
    episode.note_trace(&ignoring(&[worst]));
    assert_eq!(episode.victim.as_ref().and_then(|victim| victim.role.as_deref()), Some("ksoftirqd"));
    assert_eq!((&episode.finding, &episode.other_finding, episode.counts_as()), (&None, &None, None));
}

#[test]
fn of_a_group_that_its_limit_stops_the_group_is_named() {
    let pod = "/kubepods/burstable/pod0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f";
    let role = Role { kind: RoleKind::Group, cgroup: Some("/kubepods".into()), weight: None, generation: 1 };
    let begun = Begun {
        number: 0,
        continues: None,
        at: crate::testing::at(500),
        trigger: crate::episode::Trigger::Stopped { share: 0.9, threshold: 0.75 },
        since: crate::testing::at(0).trace,
        victim: role,
        group: Some(pod.into()),
        victim_task: None,
        culprit: None,
        culprit_task: None,
        rule: Some(Rule::Throttled),
        ns: Nanos(900_000_000),
        longest: Nanos::ZERO,
    };
    let mut episode = Episode::default();
    episode.note_counters(&begun);
    let line = super::super::line(&episode);
    let expected = format!("{pod} tasks of pod 0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f waited 900 ms (throttled)");
    assert!(line.ends_with(&expected), "{line}");
    let json = serde_json::to_value(&episode).expect("JSON");
    assert_eq!((json["victim"]["pod"].as_str(), &json["victim"]["comm"]), (Some(&pod[23..]), &Value::Null));
    // A finding about this pod belongs to the episode; one about another pod of the role does not.
    let of_group = |path: &str| {
        let mut finding = finding("task", "webapi");
        finding["victim"]["cgroups"] = json!([format!("{path}/container")]);
        finding
    };
    let victim = episode.victim.clone().expect("a victim");
    let findings = explained(&[of_group(pod), of_group("/kubepods/burstable/pod1")], &[]);
    let about: Vec<bool> = findings.report.findings.iter().map(|finding| is_about(finding, &victim)).collect();
    assert_eq!(about, [true, false]);
}

/// The finding names the group where it knows none of the tasks, and tasks of several groups where it knows them.
#[test]
fn a_pod_that_its_limit_stops_is_in_the_json() {
    let uid = "0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f";
    let pod = format!("/kubepods/burstable/pod{uid}");
    let begun = |group: &str| Begun {
        number: 0,
        continues: None,
        at: crate::testing::at(500),
        trigger: crate::episode::Trigger::Stopped { share: 0.9, threshold: 0.75 },
        since: crate::testing::at(0).trace,
        victim: Role { kind: RoleKind::Group, cgroup: Some("/kubepods".into()), weight: None, generation: 1 },
        group: Some(group.into()),
        victim_task: None,
        culprit: None,
        culprit_task: None,
        rule: Some(Rule::Throttled),
        ns: Nanos(900_000_000),
        longest: Nanos::ZERO,
    };
    let of = |kind: &str, comm: &str, cgroups: Value| {
        let mut finding = finding(kind, comm);
        finding["id"] = "throttled".into();
        finding["culprits"] = json!([]);
        finding["victim"]["cgroups"] = cgroups;
        finding
    };
    let containers = json!([format!("{pod}/one"), format!("{pod}/two")]);
    for found in [of("cgroup", &pod, json!([])), of("task", "payments", containers)] {
        let mut episode = Episode::default();
        episode.note_counters(&begun(&pod));
        episode.note_trace(&explained(&[found], &[]));
        let json = serde_json::to_value(&episode).expect("JSON");
        assert_eq!(json["victim"]["pod"].as_str(), Some(uid), "{json}");
        assert_eq!(json["victims"][0]["victim"]["pod"].as_str(), Some(uid), "{json}");
    }
    // Of a dump on demand nothing is counted.
    let mut episode = Episode::default();
    episode.note_trace(&explained(&[of("cgroup", "/system.slice/nginx.service", json!([]))], &[]));
    let json = serde_json::to_value(&episode).expect("JSON");
    assert!(json.to_string().contains("\"unit\":\"nginx.service\""), "{json}");
}

/// What the table looked at is longer than a trace: its begin is no wait's.
#[test]
fn a_trace_that_begins_within_the_span_that_was_looked_at_is_not_short() {
    let second = 1_000_000_000;
    let verdict = crate::episode::Trigger::Verdict {
        ns: 2 * second,
        lost_ns: 3 * second,
        span_ns: 11 * second,
        severity: unstarve_model::Severity::Warning,
    };
    let share = crate::episode::Trigger::Share { share: 0.5, threshold: 0.2 };
    for (trigger, begins_ms, is_short) in
        [(verdict, 1_020, false), (verdict, 9_100, true), (share, 900, false), (share, 1_100, true)]
    {
        let mut episode = counted("kworker");
        let seen = episode.trigger.as_mut().expect("it has one");
        (seen.trigger, seen.since_mono_ns) = (trigger, Some(0));
        let explanation = beginning_at(explained(&[], &[]), begins_ms * 1_000_000);
        episode.note_trace(&explanation);
        assert_eq!(episode.problem.is_some(), is_short, "{trigger:?} {begins_ms}: {:?}", episode.problem);
        assert_eq!(explanation.short_by(&episode).is_some(), is_short);
        assert_eq!(episode.verdict, None, "a part is not shown: nobody is said to be well");
    }
}
