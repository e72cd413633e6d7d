//! Findings of a trace that covers more than the episode's own time.

use serde_json::{Value, json};

use super::super::{Episode, Explanation, Party, Seen, Suffered, Trigger, line};

/// Two programs of one name, eight seconds apart, each kept waiting by a hog of its own; the first hog did so for longer.
///
///           1,000   2,000              9,000  10,000
///   victim  wwwwwwwwww|                wwwww|           tid 70, then tid 71
///   hog     ##########                 #####            tid 100, then tid 200, of another priority
fn two_lives() -> Value {
    let hog = |tid: u32, prio: i32, ns: u64| json!({ "comm": "clk", "tids": [tid], "tasks": 1, "policy": "rt", "prio": prio, "rule": "class", "ns": ns });
    json!({
        "id": "rt-starvation", "severity": "critical", "confidence": 0.9, "sentence": "s",
        "culprits": [hog(100, 49, 1_000), hog(200, 39, 500)],
        "victim": { "kind": "task", "comm": "job", "tids": [70, 71], "tasks": 2, "policy": "fair", "prio": 120, "work": null },
        "blame": [], "waits": { "count": 2, "total_ns": 1_500, "max_ns": 1_000, "p99_ns": 1_000, "owed_ns": 1 }, "cpus": [0],
        "period_ns": null, "price": [], "evidence": [], "losses": [], "remedies": [],
        "worst": [
            { "cpu": 0, "start_ns": 1_000, "end_ns": 2_000, "tid": 70, "culprit": 0 },
            { "cpu": 0, "start_ns": 9_000, "end_ns": 9_500, "tid": 71, "culprit": 1 },
        ],
    })
}

fn explained(findings: &[Value], worst_waits: &[Value]) -> Explanation {
    let trace = json!({
        "format": "f", "events": 1, "lost": 0, "cpus": 1, "start_ns": 0, "end_ns": 20_000, "kernel": null, "snapshot": true,
        "waits_total_ns": 1, "waits_count": 1, "clock": "mono",
    });
    let report = json!({
        "schema": "unstarve.explain/1", "trace": trace, "verdict": { "severity": "critical", "text": "v" }, "findings": findings,
        "worst_waits": worst_waits, "losses": [],
    });
    Explanation::parse(report.to_string().as_bytes()).expect("a report")
}

/// The counters saw waits of this role since then.
fn since(ns: u64, victim: Party, culprit: Option<Party>, rule: &str) -> Episode {
    let seen = Seen {
        trigger: Trigger::Wait { ns: 5, threshold_ns: 4 },
        since_mono_ns: Some(ns),
        victim: Some(victim.clone()),
        culprit: culprit.clone(),
        rule: Some(serde_json::from_value(rule.into()).expect("a rule")),
        blamed_ns: Some(6),
    };
    let victims = vec![Suffered { victim: victim.clone(), ..Suffered::default() }];
    let rule = seen.rule;
    Episode { victim: Some(victim), culprit, rule, ns: Some(6), trigger: Some(seen), victims, ..Episode::default() }
}

fn role(name: &str) -> Party {
    Party { role: Some(name.to_owned()), ..Party::default() }
}

#[test]
fn a_culprit_that_was_dead_before_is_not_named() {
    let explained = explained(&[two_lives()], &[]);
    for (time, victim, culprit) in [(8_500, 71, 200), (0, 0, 100)] {
        let mut episode = since(time, role("other"), Some(role("real-time")), "class");
        episode.note_trace(&explained);
        let tid = |party: &Option<Party>| party.as_ref().and_then(|party| party.tid).unwrap_or(0);
        assert_eq!((tid(&episode.victim), tid(&episode.culprit)), (victim, culprit), "{}", line(&episode));
        let listed = episode.victims.iter().find(|other| other.finding.is_some()).expect("the finding");
        assert_eq!(tid(&listed.culprit), culprit);
    }
    // The task that waited in the counters' view is known, whatever else happened at the time.
    let victim = Party { tid: Some(71), tgid: Some(71), comm: "job".into(), ..role("other") };
    let mut episode = since(500, victim, Some(role("real-time")), "class");
    episode.note_trace(&explained);
    assert_eq!(episode.culprit.and_then(|culprit| culprit.tid), Some(200));
}

#[test]
fn of_two_findings_about_one_name_that_of_the_episodes_time_is_its_own() {
    // One finding per hog; the victim has more waits than either of them lists.
    let of = |place: usize, lists_all: bool| {
        let mut finding = two_lives();
        for list in ["culprits", "worst"] {
            finding[list] = json!([finding[list][place]]);
        }
        finding["worst"][0]["culprit"] = 0.into();
        finding["waits"]["count"] = 2.into();
        finding["lists_all"] = lists_all.into();
        finding
    };
    for lists_all in [true, false] {
        let mut late = of(1, lists_all);
        late["severity"] = "warning".into();
        let mut episode = since(8_500, role("other"), Some(role("real-time")), "class");
        episode.note_trace(&explained(&[of(0, lists_all), late], &[]));
        let culprit = episode.culprit.as_ref().and_then(|culprit| culprit.tid);
        assert_eq!(culprit, Some(200), "{}", line(&episode));
        assert_eq!(episode.victims.iter().filter(|victim| victim.finding.is_some()).count(), 1);
    }
    // Alone it belongs to another time, if all of its waits are listed.
    let mut episode = since(8_500, role("other"), Some(role("real-time")), "class");
    episode.note_trace(&explained(&[of(0, true)], &[]));
    assert_eq!((episode.finding.as_ref(), episode.culprit.and_then(|culprit| culprit.tid)), (None, None));
}

#[test]
fn a_culprit_of_waits_that_are_not_listed_is_named_if_the_counters_saw_it() {
    let mut many = two_lives();
    many["waits"]["count"] = 500.into();
    many["worst"].as_array_mut().expect("waits").truncate(1);
    let explained = explained(&[many], &[]);
    let hog = |tid: u32| Party { tid: Some(tid), tgid: Some(tid), comm: "clk".into(), ..role("real-time") };
    let mut episode = since(8_500, role("other"), Some(hog(200)), "class");
    episode.note_trace(&explained);
    assert_eq!(episode.culprit.as_ref().and_then(|culprit| culprit.tid), Some(200), "{}", line(&episode));
}

#[test]
fn the_longest_wait_of_another_time_gives_no_names() {
    let hog = |tid: u32| json!({ "comm": "clk", "tids": [tid], "tasks": 1, "policy": "rt", "prio": 49, "rule": "class", "ns": 85 });
    let wait = |tid: u32, start: u64| {
        json!({
            "comm": "rcu_preempt", "tid": tid, "cpu": 0, "start_ns": start, "end_ns": start + 900, "blame": [hog(tid * 10)],
            "kernel_thread": true,
        })
    };
    let mut episode = since(8_500, role("rcu"), Some(role("real-time")), "class");
    episode.note_trace(&explained(&[], &[wait(15, 1_000), wait(16, 9_000)]));
    let tid = |party: &Option<Party>| party.as_ref().and_then(|party| party.tid);
    assert_eq!((tid(&episode.victim), tid(&episode.culprit)), (Some(16), Some(160)));
}

#[test]
fn a_program_with_a_kernel_threads_name_is_not_the_role_s() {
    let worker = |kernel: Value| {
        let mut finding = two_lives();
        finding["victim"] = json!({
            "kind": "kworker", "comm": "kworker/1:3", "tids": [70, 71], "tasks": 2, "policy": "fair", "prio": 120, "work": null,
            "kernel_thread": kernel,
        });
        finding
    };
    let other = {
        let mut finding = worker(json!(true));
        finding["victim"]["comm"] = "kworker/0:1".into();
        finding["victim"]["tids"] = json!([80]);
        finding["victim"]["tasks"] = 1.into();
        finding
    };
    for mark in [json!(false), json!(null)] {
        let mut episode = since(500, role("kworker"), Some(role("real-time")), "class");
        // Of equally bad ones, the finding about the counters' victim: the first one only has the same name.
        episode.note_trace(&explained(&[worker(mark.clone()), other.clone()], &[]));
        let victim = episode.victim.expect("a victim");
        assert_eq!((victim.comm.as_str(), victim.role.as_deref()), ("kworker/0:1", Some("kworker")), "{mark}");
    }
    // Nor is a culprit identified by name, or the one of the longest wait.
    let mut by_worker = two_lives();
    by_worker["culprits"] = json!([{ "comm": "kworker/0:1", "tids": [9], "tasks": 1, "policy": "fair", "prio": 120, "rule": "weight", "ns": 5 }]);
    let mut episode = since(500, role("other"), Some(role("kworker")), "weight");
    episode.note_trace(&explained(&[by_worker.clone()], &[]));
    assert_eq!(episode.culprit.and_then(|culprit| culprit.role), None);
    by_worker["culprits"][0]["kernel_thread"] = true.into();
    let mut episode = since(500, role("other"), Some(role("kworker")), "weight");
    episode.note_trace(&explained(&[by_worker], &[]));
    assert_eq!(episode.culprit.and_then(|culprit| culprit.role).as_deref(), Some("kworker"));
    let wait = json!({ "comm": "rcu_preempt", "tid": 15, "cpu": 0, "start_ns": 0, "end_ns": 900, "blame": [
        { "comm": "clk", "tids": [7], "policy": "rt", "prio": 49, "rule": "class", "ns": 85 }] });
    let mut episode = since(500, role("rcu"), Some(role("real-time")), "class");
    episode.note_trace(&explained(&[], &[wait]));
    assert_eq!(episode.victim.and_then(|victim| victim.tid), None, "nothing but its name says what it is");
}

/// A quota throttled it; `by` had the CPU meanwhile.
fn throttled(culprits: Value) -> Value {
    let mut finding = two_lives();
    finding["id"] = "throttled".into();
    finding["culprits"] = culprits;
    finding
}

#[test]
fn what_a_limit_stopped_is_nobodys_doing_in_the_second_word_too() {
    let neighbour = json!([{ "comm": "web", "tids": [5], "tasks": 1, "policy": "fair", "prio": 120, "rule": "throttled", "ns": 700 }]);
    // In the counters' view a neighbour seemed to be preferred.
    let mut episode = since(500, role("/limited"), Some(role("/innocent")), "weight");
    episode.note_trace(&explained(&[throttled(neighbour.clone())], &[]));
    assert_eq!(
        (episode.rule.map(unstarve_sched::Rule::word), &episode.culprit, episode.ns),
        (Some("throttled"), &None, Some(700))
    );
    assert_eq!(episode.victims[0].culprit, None);
    assert!(!line(&episode).contains("web") && !line(&episode).contains("innocent"), "{}", line(&episode));
    // No task was seen to have the CPU meanwhile.
    let mut episode = since(500, role("/limited"), None, "throttled");
    episode.note_trace(&explained(&[throttled(json!([]))], &[]));
    assert_eq!(
        (episode.rule.map(unstarve_sched::Rule::word), &episode.culprit, episode.ns),
        (Some("throttled"), &None, Some(6))
    );
    // The occupant during throttling is not what the others wait for: it can be the victim itself.
    let mut starved = two_lives();
    starved["victim"] =
        json!({ "kind": "task", "comm": "web", "tids": [5], "tasks": 1, "policy": "fair", "prio": 120, "work": null });
    let mut episode = since(500, role("other"), Some(role("real-time")), "class");
    episode.note_trace(&explained(&[throttled(neighbour.clone()), starved], &[]));
    assert_eq!(episode.victim.map(|victim| victim.comm).as_deref(), Some("web"));
    // The same in a finding of another time.
    let mut early = throttled(neighbour);
    early["worst"] = json!([{ "cpu": 0, "start_ns": 1, "end_ns": 2 }, { "cpu": 0, "start_ns": 3, "end_ns": 4 }]);
    let mut episode = since(500, role("rcu"), None, "class");
    episode.note_trace(&explained(&[early], &[]));
    assert_eq!(episode.other_finding.expect("the worst of the trace").culprit, None);
}

#[test]
fn what_some_of_a_name_share_is_not_what_all_share() {
    // The first had ended when the host was read; the other one of the same name belongs to another user.
    let row = |all_known: bool| {
        json!([{
            "comm": "clk", "tids": [100, 200], "tasks": 2, "tgids": [200], "cgroups": ["/system.slice/innocent.service"],
            "policy": "rt", "prio": 49, "rule": "class", "ns": 85, "all_known": all_known,
        }])
    };
    let named = |all_known: bool| {
        let mut finding = two_lives();
        finding["culprits"] = row(all_known);
        let mut episode = since(500, role("other"), Some(role("real-time")), "class");
        episode.note_trace(&explained(&[finding], &[]));
        let culprit = episode.culprit.expect("a culprit");
        (culprit.tid, culprit.tgid, culprit.cgroup.is_some())
    };
    assert_eq!(named(false), (None, None, false));
    assert_eq!(named(true), (None, Some(200), true));
}
