//! `top FILE` on the scenes of the verdict: it says what `explain` says, of waits that still last, too.

use unstarve_diagnose::report::Severity;
use unstarve_diagnose::{Options, Recent, explain, timeline};
use unstarve_model::{Batch, EventSource, Nanos};
use unstarve_readers::{Input, open_input};
use unstarve_testing::verdict_scene::{
    EQUAL, HEAVY, HIGHER, HOG, HOUSEKEEPING, IDLE, LENGTHS_MS, PROGRAMS, REAL_TIME, SERVING, Scenario, Task,
};
use unstarve_timeline::Both;
use unstarve_top::{App, Beside, Row, View, Window};

fn source(scenario: &Scenario) -> Box<dyn EventSource> {
    let text = Box::new(std::io::Cursor::new(scenario.text().into_bytes()));
    open_input(Input::from_stream(text, "scene".into()).expect("text")).expect("text of ftrace")
}

/// The victim's row at the end of the recording, all of which is in the window.
fn row(scenario: &Scenario) -> Option<Row> {
    let length = Nanos::from_millis(60_000);
    let mut source = source(scenario);
    let mut batch = Batch::default();
    let mut parts = None;
    while source.read(&mut batch).expect("it can be read") {
        let (timeline, window, recent) = parts
            .get_or_insert_with(|| (timeline(source.info()), Window::new(length), Recent::new(source.info(), length)));
        timeline.names(batch.names.drain(..));
        for event in &batch.events {
            timeline.push(event, &mut Both(&mut *window, &mut *recent));
        }
    }
    let (timeline, mut window, mut recent) = parts.expect("events");
    let nothing = Beside::nothing();
    let beside = Beside { findings: recent.findings(&timeline, nothing.is_runnable), ..nothing };
    let view = View::of(&mut window, &timeline, &App::default(), "scene", beside);
    view.all.into_iter().find(|row| row.tid == Some(scenario.victim.tid))
}

fn agree(victims: &[Task], occupant: Task) {
    for victim in victims {
        for (ms, is_open) in LENGTHS_MS.into_iter().flat_map(|ms| [(ms, false), (ms, true)]) {
            let scenario = Scenario { victim: *victim, occupant, ms, is_open, has_payer: false };
            let report = explain(source(&scenario), &Options::default(), |_| {}).expect("events");
            let finding = report.findings.iter().find(|finding| finding.victim.tids.contains(&victim.tid));
            let row = row(&scenario);
            let name = scenario.name();
            let Some(finding) = finding else {
                let severity = row.and_then(|row| row.severity);
                assert_eq!(severity, None, "{name}: explain finds nothing");
                continue;
            };
            // A wait of less than 10 ms that lasts is not shown yet.
            if is_open && ms < 10 {
                continue;
            }
            let row = row.unwrap_or_else(|| panic!("{name}: no row"));
            assert_eq!((row.severity, row.finding.as_deref()), (Some(finding.severity), Some(&*finding.id)), "{name}");
            if finding.severity >= Severity::Warning {
                let culprit = finding.culprits.first().expect("a culprit");
                assert_eq!(row.rule, Some(&*culprit.rule), "{name}");
                let accused = row.culprit.expect("a culprit");
                assert_eq!(accused.split(" RT ").next(), Some(&*culprit.comm), "{name}");
            }
        }
    }
}

#[test]
fn behind_a_real_time_task() {
    agree(&SERVING, HOG);
    agree(&HOUSEKEEPING, HOG);
    agree(&PROGRAMS, HOG);
    agree(&REAL_TIME, HIGHER);
}

#[test]
fn behind_what_is_not_preempted_or_does_not_leave() {
    agree(&REAL_TIME, EQUAL);
    agree(&SERVING, EQUAL);
    agree(&PROGRAMS, EQUAL);
}

#[test]
fn behind_what_weighs_more() {
    agree(&SERVING, HEAVY);
    agree(&PROGRAMS, HEAVY);
}

#[test]
fn beside_its_own_idle_cpu() {
    agree(&SERVING, IDLE);
    agree(&PROGRAMS, IDLE);
    let scenario = Scenario { victim: SERVING[0], occupant: IDLE, ms: 3_000, is_open: true, has_payer: false };
    let row = row(&scenario).expect("a wait that never ended is shown");
    assert_eq!((row.rule, row.waiting_ns.map(|ns| ns / 1_000_000_000)), (Some("idle"), Some(3)));
}
