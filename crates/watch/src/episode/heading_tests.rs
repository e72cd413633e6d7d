//! Every cell of the table in [`super`], and the cases that it was drawn from.

use serde_json::{Value, json};
use unstarve_sched::Rule;

use super::super::finish::tests::{explained, finding};
use super::*;
use crate::episode::{Party, Seen, Trigger};

/// What the trigger blames.
const BLAMED: u64 = 100;

/// Whom a finding is about, beside an episode of a worker that real-time tasks kept waiting.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Victim {
    /// The worker, by the role of its work.
    Seen,
    /// Another kernel thread.
    Another,
    /// A program.
    Program,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Trace {
    Own,
    First,
    Along,
}

/// A finding whose culprit had the CPU for so long, by the rule of the counters or by another one.
fn about(victim: Victim, is_same_cause: bool, severity: &str, ns: u64) -> Value {
    let mut finding = match victim {
        Victim::Seen => finding("kworker", "kworker/1:5"),
        Victim::Another => finding("ksoftirqd", "ksoftirqd/1"),
        Victim::Program => finding("task", "taskset"),
    };
    finding["victim"]["tids"] = json!([victim as u32 + 70]);
    if victim == Victim::Seen {
        finding["victim"]["work"] = json!({ "function": "iomap_dio_complete_work", "workqueue": "dio/vda" });
    }
    finding["severity"] = severity.into();
    finding["culprits"][0]["ns"] = ns.into();
    if !is_same_cause {
        finding["culprits"][0]["rule"] = "weight".into();
        finding["culprits"][0]["policy"] = "fair".into();
    }
    finding
}

/// The episode; its worker's longest wait in the trace is blamed on `hog`, if that is proved.
fn episode(trace: Trace) -> Episode {
    let party = |role: &str| Some(Party { role: Some(role.to_owned()), ..Party::default() });
    let (victim, culprit, rule) = (party("kworker"), party("real-time"), Some(Rule::Class));
    let trigger = Seen {
        trigger: Trigger::Wait { ns: 300, threshold_ns: 50 },
        since_mono_ns: None,
        victim: victim.clone(),
        culprit: culprit.clone(),
        rule,
        blamed_ns: Some(BLAMED),
    };
    let trace_of = (trace == Trace::Along).then(|| "first".to_owned());
    Episode { victim, culprit, rule, ns: Some(BLAMED), trigger: Some(trigger), trace_of, ..Episode::default() }
}

fn worst_wait() -> Value {
    let hog = json!({ "comm": "hog", "tids": [7], "policy": "rt", "prio": 49, "rule": "class", "ns": 95 });
    json!({
        "comm": "kworker/1:5", "tid": 70, "cpu": 1, "start_ns": 0, "end_ns": 300, "blame": [hog], "kernel_thread": true,
    })
}

/// How an episode is headed.
fn headed(trace: Trace, findings: &[Value], waits: &[Value]) -> Episode {
    let explanation = explained(findings, waits);
    let mut episode = episode(trace);
    match trace {
        Trace::Own => episode.note_trace(&explanation),
        Trace::First | Trace::Along => episode.note_trace_of_many(&explanation),
    }
    assert!(episode.finding.is_none() || episode.ns.is_some(), "a finding has its time: {episode:?}");
    episode
}

/// `it`: the finding heads; `cause`: its cause does; `rival`; `-`: the counters' words stay.
fn word(episode: &Episode, victim: Victim) -> &'static str {
    let comm = episode.victim.as_ref().map_or("", |victim| victim.comm.as_str());
    let is_it = [("kworker/1:5", Victim::Seen), ("ksoftirqd/1", Victim::Another), ("taskset", Victim::Program)];
    match &episode.finding {
        None => "-",
        Some(finding) if finding.as_str() == "rival" => "rival",
        Some(_) if is_it.contains(&(comm, victim)) && episode.remedy.is_some() && victim != Victim::Seen => "it",
        Some(_) if victim == Victim::Seen => "it",
        Some(_) => "cause",
    }
}

/// Each finding is critical. The rival is a warning about the counters' victim, by their culprit and rule, and explains most of the blamed time.
#[test]
fn every_cell_of_the_table() {
    let mut rival = about(Victim::Seen, true, "warning", BLAMED);
    rival["id"] = "rival".into();
    let mut rows = Vec::new();
    for victim in [Victim::Seen, Victim::Another, Victim::Program] {
        for is_same_cause in [true, false] {
            for (ns, part) in [(BLAMED / 2, "enough"), (BLAMED / 2 - 1, "little")] {
                let it = about(victim, is_same_cause, "critical", ns);
                let mut cells = Vec::new();
                for trace in [Trace::Own, Trace::First, Trace::Along] {
                    for waits in [&[worst_wait()][..], &[]] {
                        let alone = headed(trace, std::slice::from_ref(&it), waits);
                        let beside = headed(trace, &[it.clone(), rival.clone()], waits);
                        cells.push(format!("{}/{}", word(&alone, victim), word(&beside, victim)));
                    }
                }
                let cause = if is_same_cause { "same" } else { "other" };
                rows.push(format!("{victim:?} {cause} {part}: {}", cells.join(" ")));
            }
        }
    }
    // Alone and beside the rival; with a proof that the worker waited for the same culprit, and without; in the traces Own, First, Along.
    let expected = [
        "Seen same enough: it/it it/it it/it it/it it/it it/it",
        "Seen same little: it/rival it/rival it/rival it/rival it/rival it/rival",
        // Beside several episodes the victim's finding by the counters' cause is nearer.
        "Seen other enough: it/it it/it it/rival it/rival it/rival it/rival",
        "Seen other little: it/rival it/rival it/rival it/rival it/rival it/rival",
        "Another same enough: it/it it/it it/rival it/rival cause/rival -/rival",
        "Another same little: it/rival it/rival it/rival it/rival cause/rival -/rival",
        "Another other enough: it/rival it/rival it/rival it/rival -/rival -/rival",
        "Another other little: it/rival it/rival it/rival it/rival -/rival -/rival",
        "Program same enough: cause/rival -/rival cause/rival -/rival cause/rival -/rival",
        "Program same little: cause/rival -/rival cause/rival -/rival cause/rival -/rival",
        "Program other enough: -/rival -/rival -/rival -/rival -/rival -/rival",
        "Program other little: -/rival -/rival -/rival -/rival -/rival -/rival",
    ];
    assert_eq!(rows, expected);
}

#[test]
fn a_warning_of_nine_milliseconds_does_not_head_what_a_critical_one_of_half_a_second_is_about() {
    // Two real-time tasks, two workers; the counters know roles alone. The trace has an episode of programs, too.
    let worker = about(Victim::Seen, true, "critical", 521);
    let mut foreign = about(Victim::Seen, true, "warning", 9);
    (foreign["victim"]["comm"], foreign["victim"]["tids"]) = ("kworker/0:0".into(), json!([72]));
    foreign["victim"]["work"] = Value::Null;
    (foreign["culprits"][0]["comm"], foreign["culprits"][0]["tids"]) = ("unstarve".into(), json!([21039]));
    for findings in [[worker.clone(), foreign.clone()], [foreign, worker]] {
        for trace in [Trace::Own, Trace::First, Trace::Along] {
            let episode = headed(trace, &findings, &[]);
            let names = [&episode.victim, &episode.culprit].map(|party| party.as_ref().map(|party| party.comm.clone()));
            assert_eq!(names, [Some("kworker/1:5".into()), Some("hog".into())], "{trace:?}");
            assert_eq!(
                (episode.ns, episode.severity.map(unstarve_model::Severity::word)),
                (Some(521), Some("critical"))
            );
        }
    }
}

#[test]
fn the_cause_of_a_finding_about_programs_heads_an_episode_of_kernel_threads() {
    let program = about(Victim::Program, true, "critical", 399);
    let episode = headed(Trace::Own, &[program], &[worst_wait()]);
    let line = super::super::line(&episode);
    assert!(
        line.contains(": kworker/1:5[70] waited 95 ns while hog[7] of a.service had its CPU (class, rt-starvation)"),
        "{line}"
    );
    assert!(line.contains("; taskset[72] starved, too; first remedy: t (r)"), "{line}");
    assert_eq!(episode.severity, Some(episode.by_the_counters()), "what is known of the worker's wait");
}

#[test]
fn a_limit_that_heads_an_episode_has_its_time() {
    let mut limited = about(Victim::Another, false, "warning", 0);
    (limited["id"], limited["culprits"]) = ("throttled".into(), json!([]));
    let row = |rule: &str, ns: u64| json!({ "comm": "idle", "tids": [], "policy": null, "prio": null, "rule": rule, "ns": ns });
    limited["blame"] = json!([row("throttled", 40), row("fair", 45)]);
    let mut dump = Episode::default();
    dump.note_trace(&explained(&[limited], &[]));
    assert_eq!((dump.rule, dump.ns), (Some(Rule::Throttled), Some(40)));
}

/// Tasks of one role behind tasks of another: the role and the rule fit all of them.
#[test]
fn the_culprit_that_the_trigger_names_is_not_replaced_by_another_one_of_its_role() {
    let behind = |victim: (&str, u32), hog: (&str, u32), severity: &str, ns: u64| {
        let mut finding = about(Victim::Another, true, severity, ns);
        (finding["victim"]["comm"], finding["victim"]["tids"]) = (victim.0.into(), json!([victim.1]));
        (finding["culprits"][0]["comm"], finding["culprits"][0]["tids"]) = (hog.0.into(), json!([hog.1]));
        finding
    };
    let by_seen = behind(("ksoftirqd/4", 104), ("hogD", 204), "warning", 745);
    let worse = behind(("ksoftirqd/3", 103), ("hogC", 203), "critical", 990);
    let mut counted = episode(Trace::Own);
    let hog = Some(Party { tid: Some(204), comm: "hogD".into(), ..counted.culprit.clone().expect("it has one") });
    counted.culprit.clone_from(&hog);
    counted.trigger.as_mut().expect("it has one").culprit = hog;
    let culprit = |findings: &[Value]| {
        let mut episode = counted.clone();
        episode.note_trace(&explained(findings, &[]));
        episode.culprit.expect("one").comm
    };
    assert_eq!(culprit(&[worse.clone(), by_seen.clone()]), "hogD");
    assert_eq!(culprit(std::slice::from_ref(&worse)), "hogC", "none blames the task that the trigger names");
    // The trigger's own victim heads, whoever is to blame.
    let mut own = about(Victim::Seen, true, "critical", 990);
    (own["culprits"][0]["comm"], own["culprits"][0]["tids"]) = ("hogC".into(), json!([203]));
    assert_eq!(culprit(&[own, by_seen]), "hogC");
}

#[test]
fn a_headline_mixes_no_two_findings() {
    let mut by_weight = about(Victim::Seen, false, "critical", 90);
    by_weight["id"] = "weight-starvation".into();
    let mut second = by_weight["culprits"][0].clone();
    (second["comm"], second["tids"]) = ("other".into(), json!([8]));
    // Two culprits, and no wait of the episode's time that says which.
    by_weight["culprits"] = json!([by_weight["culprits"][0].clone(), second]);
    let mut episode = self::episode(Trace::Own);
    episode.trigger.as_mut().expect("it has one").since_mono_ns = Some(0);
    episode.note_trace(&explained(&[by_weight], &[]));
    assert_eq!((episode.rule, episode.finding.as_ref()), (Some(Rule::Class), None), "{episode:?}");
    assert!(episode.remedy.is_none() && episode.other_finding.is_some(), "{episode:?}");
    // Of its time is a wait behind a real-time task, which the finding is not about.
    let mut by_both = about(Victim::Seen, false, "critical", 90);
    by_both["id"] = "weight-starvation".into();
    let fifo = about(Victim::Seen, true, "critical", 95)["culprits"][0].clone();
    by_both["culprits"] = json!([by_both["culprits"][0].clone(), fifo]);
    by_both["worst"] = json!([{ "cpu": 0, "start_ns": 5, "end_ns": 100, "culprit": 1 }]);
    let mut mixed = self::episode(Trace::Own);
    mixed.trigger.as_mut().expect("it has one").since_mono_ns = Some(0);
    mixed.note_trace(&explained(&[by_both], &[]));
    assert_eq!((mixed.rule, mixed.finding.as_ref(), &mixed.remedy), (Some(Rule::Class), None, &None), "{mixed:?}");
}
