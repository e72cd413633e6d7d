//! `watch replay FILE` on the scenes of the verdict: what the table calls a warning begins an episode where counters can tell, and an episode
//! is as bad, of whom and by whom as `explain` says.

use std::sync::Arc;

use unstarve_diagnose::{Options as ExplainOptions, explain};
use unstarve_model::{EventSource, Nanos, Severity, WallTime};
use unstarve_readers::{Input, open_input};
use unstarve_testing::verdict_scene::{
    EQUAL, HEAVY, HIGHER, HOG, HOUSEKEEPING, IDLE, LENGTHS_MS, PROGRAMS, REAL_TIME, SERVING, Scenario, Task,
    partly_behind,
};
use unstarve_watch::config::Config;
use unstarve_watch::episode::{Begun, Detector, Episode, Explanation, Trigger};
use unstarve_watch::run::INTERVAL;
use unstarve_watch::{Engine as _, EngineError, Options, Recording};

fn source(text: &str) -> Box<dyn EventSource> {
    let text = Box::new(std::io::Cursor::new(text.as_bytes().to_vec()));
    open_input(Input::from_stream(text, "scene".into()).expect("text")).expect("text of ftrace")
}

fn replayed(text: &str) -> Vec<Begun> {
    let step = Nanos(INTERVAL.as_nanos() as u64);
    let mut recording = Recording::new(source(text), step, Options::default()).expect("a beginning");
    let mut detector = Detector::new(Config::default().thresholds);
    let mut begun = Vec::new();
    loop {
        match recording.read() {
            Ok(reading) => begun.extend(detector.see(Arc::new(reading)).begun),
            Err(EngineError::Ended) => return begun,
            Err(error) => panic!("{error}"),
        }
    }
}

/// What begins, as bad as the worst of it was to the counters; `missed` where explain warns and nothing begins.
fn cell(scenario: &Scenario) -> String {
    let (name, text) = (scenario.name(), scenario.text());
    let report = explain(source(&text), &ExplainOptions::default(), |_| {}).expect("events");
    let finding = report.findings.iter().find(|finding| finding.victim.tids.contains(&scenario.victim.tid)).cloned();
    let explanation = Explanation::of(report);
    let begun = replayed(&text);
    for begun in &begun {
        let mut episode = Episode::begun("20261129-000000-000".into(), WallTime(0));
        episode.note_counters(begun);
        episode.note_trace(&explanation);
        let finding =
            finding.as_ref().unwrap_or_else(|| panic!("{name}: an episode, and explain finds nothing: {begun:?}"));
        if finding.severity == Severity::Info {
            continue;
        }
        assert_eq!(episode.severity, Some(finding.severity), "{name}");
        assert_eq!(episode.finding.as_ref(), Some(&finding.id), "{name}");
        assert_eq!(episode.victim.expect("a victim").comm, finding.victim.comm, "{name}");
        let accused = finding.culprits.first().expect("a culprit");
        assert_eq!(episode.rule, Some(accused.rule), "{name}");
        assert_eq!(episode.culprit.expect("a culprit").comm, accused.comm, "{name}");
        // Counters know no more than explain.
        assert!(begun.severity() <= finding.severity, "{name}: {begun:?}");
    }
    let warns = finding.is_some_and(|finding| finding.severity >= Severity::Warning);
    match begun.iter().map(Begun::severity).max() {
        Some(severity) => severity.word().to_owned(),
        None if warns => "missed".to_owned(),
        None => "-".to_owned(),
    }
}

/// Cells by length, ended and open.
fn rows(victims: &[Task], occupant: Task) -> Vec<String> {
    let mut rows = Vec::new();
    for victim in victims {
        for is_open in [false, true] {
            let cells =
                LENGTHS_MS.map(|ms| cell(&Scenario { victim: *victim, occupant, ms, is_open, has_payer: false }));
            let row = format!("{} {}", if is_open { "open" } else { "ended" }, cells.join(" "));
            if !rows.contains(&row) {
                rows.push(row);
            }
        }
    }
    rows
}

#[test]
fn behind_a_real_time_task() {
    // What a worker works at is in a recording only once it has begun: until then it may be housekeeping, whose remarks begin nothing.
    let expected = [
        "ended - - missed missed warning critical critical",
        "open - - warning warning warning critical critical",
        "ended - - warning warning warning critical critical",
    ];
    assert_eq!(rows(&SERVING, HOG), expected);
}

#[test]
fn housekeeping_behind_a_real_time_task() {
    let expected = ["ended - - - - warning critical critical", "open - - - - warning critical critical"];
    assert_eq!(rows(&HOUSEKEEPING[..2], HOG), expected);
}

#[test]
fn programs_behind_a_real_time_task() {
    let expected = [
        "ended - warning critical critical critical critical critical",
        "open - warning critical critical critical critical critical",
    ];
    assert_eq!(rows(&PROGRAMS, HOG), expected);
}

#[test]
fn real_time_behind_a_higher_priority() {
    let expected =
        ["ended - - warning warning warning critical critical", "open - - warning warning warning critical critical"];
    assert_eq!(rows(&REAL_TIME[..1], HIGHER), expected);
}

#[test]
fn real_time_behind_what_is_not_preempted() {
    let expected = [
        "ended - warning critical critical critical critical critical",
        "open - warning critical critical critical critical critical",
    ];
    assert_eq!(rows(&REAL_TIME[..1], EQUAL), expected);
}

#[test]
fn behind_an_equal_that_does_not_leave() {
    // An equal that left before a reading saw it there may have been several that took turns.
    let expected = ["ended - - - - missed warning critical", "open - - - - warning warning critical"];
    assert_eq!(rows(&SERVING, EQUAL), expected);
}

#[test]
fn behind_what_weighs_more() {
    let expected = [
        "ended - - missed missed warning critical critical",
        "open - - warning warning warning critical critical",
        "ended - - warning warning warning critical critical",
    ];
    assert_eq!(rows(&SERVING, HEAVY), expected);
}

#[test]
fn beside_its_own_idle_cpu() {
    // Only a wait that lasts can be confirmed, at two readings.
    let expected =
        ["ended - - missed missed missed critical critical", "open - - missed warning warning critical critical"];
    assert_eq!(rows(&SERVING, IDLE), expected);
}

/// Whether an episode begins where one task is the reason of a part of the wait, and turns of equals are the rest of it; `missed` where explain
/// warns and none begins. None begins where explain does not warn, but `early`: the rule had enough of a wait that lasted, and less of all of it.
fn begins(victim: Task, by: Task, ms: u64, percent: u64) -> &'static str {
    let text = partly_behind(victim, by, ms, percent);
    let report = explain(source(&text), &ExplainOptions::default(), |_| {}).expect("events");
    let of_victim = report.findings.iter().filter(|finding| finding.victim.tids.contains(&victim.tid));
    let warns = of_victim.map(|finding| finding.severity).max() >= Some(Severity::Warning);
    let begun = replayed(&text);
    let what = (victim.comm, by.comm, ms, percent);
    let lasts = |begun: &Begun| matches!(begun.trigger, Trigger::Oldest { .. });
    assert!(warns || begun.iter().all(lasts), "{what:?}: explain does not warn: {begun:?}");
    match (begun.is_empty(), warns) {
        (false, true) => "begins",
        (false, false) => "early",
        (true, true) => "missed",
        (true, false) => "-",
    }
}

#[test]
fn of_a_wait_that_a_rule_had_a_part_of() {
    let mut rows = Vec::new();
    for by in [HOG, HEAVY] {
        for victim in [SERVING[1], SERVING[2], HOUSEKEEPING[0]] {
            for ms in [60, 150, 300, 900] {
                let cells = [10, 30, 50, 70, 100].map(|percent| begins(victim, by, ms, percent));
                rows.push(format!("{} behind {} for parts of {ms} ms: {}", victim.comm, by.comm, cells.join(" ")));
            }
        }
    }
    // For 10, 30, 50, 70 and 100 % of the wait.
    let expected = [
        "ksoftirqd/3 behind poller for parts of 60 ms: - - - - begins",
        "ksoftirqd/3 behind poller for parts of 150 ms: - - begins begins begins",
        "ksoftirqd/3 behind poller for parts of 300 ms: - begins begins begins begins",
        "ksoftirqd/3 behind poller for parts of 900 ms: begins begins begins begins begins",
        "rcu_preempt behind poller for parts of 60 ms: - - - - begins",
        "rcu_preempt behind poller for parts of 150 ms: - - begins begins begins",
        "rcu_preempt behind poller for parts of 300 ms: - begins begins begins begins",
        "rcu_preempt behind poller for parts of 900 ms: begins begins begins begins begins",
        "kworker/3:1 behind poller for parts of 60 ms: - - - - -",
        "kworker/3:1 behind poller for parts of 150 ms: - - - - -",
        "kworker/3:1 behind poller for parts of 300 ms: - - - begins begins",
        "kworker/3:1 behind poller for parts of 900 ms: missed begins begins begins begins",
        "ksoftirqd/3 behind cruncher for parts of 60 ms: - - - - begins",
        "ksoftirqd/3 behind cruncher for parts of 150 ms: - - begins begins begins",
        "ksoftirqd/3 behind cruncher for parts of 300 ms: - - begins begins begins",
        "ksoftirqd/3 behind cruncher for parts of 900 ms: missed early begins begins begins",
        "rcu_preempt behind cruncher for parts of 60 ms: - - - - begins",
        "rcu_preempt behind cruncher for parts of 150 ms: - - begins begins begins",
        "rcu_preempt behind cruncher for parts of 300 ms: - - begins begins begins",
        "rcu_preempt behind cruncher for parts of 900 ms: missed early begins begins begins",
        "kworker/3:1 behind cruncher for parts of 60 ms: - - - - -",
        "kworker/3:1 behind cruncher for parts of 150 ms: - - - - -",
        "kworker/3:1 behind cruncher for parts of 300 ms: - - - begins begins",
        "kworker/3:1 behind cruncher for parts of 900 ms: missed early begins begins begins",
    ];
    assert_eq!(rows, expected);
}
