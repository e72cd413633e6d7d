//! Tests of remarks as the headline of an episode.

use serde_json::{Value, json};

use crate::episode::{Episode, Explanation, Party, Seen, Suffered, Trigger, line};

/// About the same worker: what `explain` finds in a trace of eight seconds, of which fio ran in the last.
///
///          0       6,000           7,000
///   fio    ........................#.#.#.#.      woken by the worker, weighs more
///   kworker........................wRwRwRwR
fn ping_pong() -> Value {
    let fio = |rule: &str, ns: u64| {
        json!({
            "comm": "fio", "tids": [165, 166], "tasks": 2, "policy": "fair", "prio": 120, "rule": rule, "ns": ns, "cgroups": ["/kubepods/a"],
            "kernel_thread": false, "all_known": true,
        })
    };
    json!({
        "id": "completion-ping-pong", "severity": "info", "confidence": 0.95, "sentence": "s",
        "culprits": [fio("wakeup-preemption", 148), fio("weight", 102)],
        "victim": {
            "kind": "kworker", "comm": "kworker/0:104", "tids": [271], "tasks": 1, "policy": "fair", "prio": 120, "kernel_thread": true,
            "work": { "function": "iomap_dio_complete_work", "workqueue": null },
        },
        "blame": [], "waits": { "count": 6550, "total_ns": 762, "max_ns": 16, "p99_ns": 3, "owed_ns": 1 }, "cpus": [0],
        "period_ns": null, "price": [], "evidence": [], "losses": [],
        "worst": [
            { "cpu": 0, "start_ns": 7_100, "end_ns": 7_120, "tid": 271, "culprit": 1 },
            { "cpu": 0, "start_ns": 7_200, "end_ns": 7_210, "tid": 259, "culprit": 1 },
        ],
        "remedies": [{ "id": "lower-group-weight", "text": "t", "apply": "a", "undo": "", "risk": "", "valid_on": "" }],
    })
}

fn explained(findings: &[Value]) -> Explanation {
    let trace = json!({
        "format": "f", "events": 1, "lost": 0, "cpus": 1, "start_ns": 0, "end_ns": 8_000, "kernel": null, "snapshot": true,
        "waits_total_ns": 1, "waits_count": 1, "clock": "mono",
    });
    let report = json!({
        "schema": "unstarve.explain/1", "trace": trace, "verdict": { "severity": null, "text": "Nobody is starved." }, "findings": findings,
        "worst_waits": [], "losses": [],
    });
    Explanation::parse(report.to_string().as_bytes()).expect("a report")
}

fn role(name: &str) -> Party {
    Party { role: Some(name.to_owned()), ..Party::default() }
}

/// The counters saw a third of a second of waits by this rule.
fn counted(victim: Party, culprit: Party, rule: &str) -> Episode {
    let seen = Seen {
        trigger: Trigger::Share { share: 0.33, threshold: 0.3 },
        since_mono_ns: Some(6_900),
        victim: Some(victim.clone()),
        culprit: Some(culprit.clone()),
        rule: Some(serde_json::from_value(rule.into()).expect("a rule")),
        blamed_ns: Some(200),
    };
    let victims = vec![Suffered { victim: victim.clone(), ..Suffered::default() }];
    let (rule, ns) = (seen.rule, Some(200));
    Episode {
        victim: Some(victim),
        culprit: Some(culprit),
        rule,
        ns,
        trigger: Some(seen),
        victims,
        ..Episode::default()
    }
}

fn of_workers() -> Episode {
    counted(role("direct-io"), role("/kubepods"), "weight")
}

fn noted(mut episode: Episode, findings: &[Value]) -> Episode {
    let explained = explained(findings);
    episode.note_trace(&explained);
    episode.note_tasks(&explained);
    episode
}

#[test]
fn a_remark_about_the_very_waits_gives_the_names_and_the_counters_say_how_bad_it_is() {
    let mut shared = of_workers();
    shared.note_trace_of_many(&explained(&[ping_pong()]));
    shared.note_tasks(&explained(&[ping_pong()]));
    let episode = noted(of_workers(), &[ping_pong()]);
    assert_eq!(shared, episode);
    let victim = episode.victim.clone().expect("a victim");
    assert_eq!((&*victim.comm, victim.tid, victim.role.as_deref()), ("kworker/0:104", Some(271), Some("direct-io")));
    assert_eq!(episode.culprit.as_ref().map(|culprit| &*culprit.comm), Some("fio"));
    assert_eq!((episode.rule.map(unstarve_sched::Rule::word), episode.ns), (Some("weight"), Some(102)));
    assert_eq!(episode.counts_as(), Some(&"completion-ping-pong".into()));
    assert_eq!(episode.severity.map(unstarve_model::Severity::word), Some("warning"));
    assert_eq!(episode.remedy.as_ref().map(|remedy| remedy.id.as_str()), Some("lower-group-weight"));
    assert_eq!(episode.victim_tasks, Some(1));
    let victims: Vec<_> = episode
        .victims
        .iter()
        .map(|one| (&*one.victim.comm, one.severity.map(unstarve_model::Severity::word)))
        .collect();
    assert_eq!(victims, [("kworker/0:104", Some("warning"))]);
    assert_eq!(episode.verdict, None, "that nobody was starved is true of the calm seconds before");
    assert_eq!(
        line(&episode),
        "episode : kworker/0:104[271] waited 102 ns while fio had its CPU (weight, completion-ping-pong); first \
         remedy: t (lower-group-weight)"
    );
}

#[test]
fn a_remark_about_others_is_nobodys_headline() {
    let with = |change: &dyn Fn(&mut Value)| {
        let mut finding = ping_pong();
        change(&mut finding);
        finding
    };
    let other_work = with(&|finding| finding["victim"]["work"]["function"] = "vmstat_update".into());
    let called_alike = with(&|finding| finding["victim"]["kernel_thread"] = false.into());
    let elsewhere = with(&|finding| {
        (0..2).for_each(|place| finding["culprits"][place]["cgroups"] = json!(["/user.slice"]));
    });
    let by_turns = with(&|finding| {
        (0..2).for_each(|place| finding["culprits"][place]["rule"] = "fair".into());
    });
    let small = with(&|finding| {
        finding["culprits"][0]["ns"] = 40.into();
        finding["culprits"][1]["ns"] = 59.into();
    });
    let no_weight = with(&|finding| finding["culprits"][1]["rule"] = "wakeup-preemption".into());
    let before = with(&|finding| {
        (0..2).for_each(|place| finding["worst"][place]["end_ns"] = 6_000.into());
    });
    let nobody_knows_when = with(&|finding| finding["worst"] = json!([]));
    for (why, finding) in [
        ("a worker with other work", other_work),
        ("a program with a worker's name", called_alike),
        ("by somebody else", elsewhere),
        ("by another rule", by_turns),
        ("less than half of it", small),
        ("not by the rule that was seen", no_weight),
        ("before", before),
        ("nobody knows when", nobody_knows_when),
    ] {
        let episode = noted(of_workers(), &[finding]);
        assert_eq!((episode.finding, episode.severity), (None, None), "{why}");
        assert_eq!(episode.victim, Some(role("direct-io")), "{why}");
        assert_eq!(episode.verdict.as_deref(), Some("Nobody is starved."), "{why}");
    }
}

#[test]
fn a_remark_says_nothing_of_a_long_wait_and_of_what_is_ignored() {
    let mut long = of_workers();
    long.trigger.as_mut().expect("its trigger").trigger = Trigger::Wait { ns: 60, threshold_ns: 50 };
    assert_eq!(noted(long, &[ping_pong()]).finding, None);
    let mut ignored = of_workers();
    ignored.note_trace(&explained(&[ping_pong()]).ignoring(&["direct-io".to_owned()]));
    assert_eq!(ignored.finding, None);
    // A dump on demand has no victim.
    assert_eq!(noted(Episode::default(), &[ping_pong()]).finding, None);
}

#[test]
fn of_a_group_the_one_that_was_seen_is_named_and_no_other() {
    let mut finding = ping_pong();
    finding["victim"] = json!({
        "kind": "task", "comm": "job", "tids": [271], "tasks": 1, "policy": "fair", "prio": 120, "work": null, "kernel_thread": false,
        "cgroups": ["/user.slice/a"],
    });
    let of = |tid: Option<u32>| {
        let comm = if tid.is_some() { "job".to_owned() } else { String::new() };
        let victim = Party { tid, comm, ..role("/user.slice") };
        noted(counted(victim, role("/kubepods"), "weight"), &[finding.clone()]).finding
    };
    assert_eq!(of(Some(271)), Some("completion-ping-pong".into()));
    // A task of the same name can belong to another user.
    assert_eq!((of(Some(272)), of(None)), (None, None));
}

#[test]
fn what_somebody_has_to_act_on_goes_first() {
    let mut worse = ping_pong();
    worse["severity"] = "warning".into();
    worse["id"] = "weight-starvation".into();
    let episode = noted(of_workers(), &[worse, ping_pong()]);
    assert_eq!(episode.finding.as_ref().map(unstarve_diagnose::report::FindingId::as_str), Some("weight-starvation"));
    assert!(episode.verdict.is_some());
}
