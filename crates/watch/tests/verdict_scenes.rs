//! `watch replay FILE` on the scenes of the verdict: what the table calls a warning begins an episode where counters can tell, and an episode
//! is as bad, of whom and by whom as `explain` says.

use std::sync::Arc;

use unstarve_diagnose::{Options as ExplainOptions, explain};
use unstarve_model::{EventSource, Nanos, Severity, WallTime};
use unstarve_readers::{Input, open_input};
use unstarve_testing::verdict_scene::{
    EQUAL, HEAVY, HIGHER, HOG, HOUSEKEEPING, IDLE, LENGTHS_MS, PROGRAMS, REAL_TIME, SERVING, Scenario, Task,
};
use unstarve_watch::config::Config;
use unstarve_watch::episode::{Begun, Detector, Episode, Explanation};
use unstarve_watch::run::INTERVAL;
use unstarve_watch::{Engine as _, EngineError, Options, Recording};

fn source(scenario: &Scenario) -> Box<dyn EventSource> {
    let text = Box::new(std::io::Cursor::new(scenario.text().into_bytes()));
    open_input(Input::from_stream(text, "scene".into()).expect("text")).expect("text of ftrace")
}

fn replayed(scenario: &Scenario) -> Vec<Begun> {
    let step = Nanos(INTERVAL.as_nanos() as u64);
    let mut recording = Recording::new(source(scenario), step, Options::default()).expect("a beginning");
    let mut detector = Detector::new(Config::default().thresholds);
    let mut begun = Vec::new();
    loop {
        match recording.read() {
            Ok(reading) => begun.extend(detector.see(Arc::new(reading)).begun),
            Err(EngineError::Ended) => return begun,
            Err(error) => panic!("{}: {error}", scenario.name()),
        }
    }
}

/// What begins, as bad as the worst of it was to the counters; `missed` where explain warns and nothing begins.
fn cell(scenario: &Scenario) -> String {
    let name = scenario.name();
    let report = explain(source(scenario), &ExplainOptions::default(), |_| {}).expect("events");
    let finding = report.findings.iter().find(|finding| finding.victim.tids.contains(&scenario.victim.tid)).cloned();
    let explanation = Explanation::of(report);
    let begun = replayed(scenario);
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
