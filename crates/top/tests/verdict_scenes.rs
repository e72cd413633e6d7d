//! `top FILE` on the scenes of the verdict: it says what `explain` says, of waits that still last, too.

use crate::scene_row::{row, source};
use unstarve_diagnose::report::Severity;
use unstarve_diagnose::{Options, explain};
use unstarve_testing::verdict_scene::{
    EQUAL, HEAVY, HIGHER, HOG, HOUSEKEEPING, IDLE, LENGTHS_MS, PROGRAMS, REAL_TIME, SERVING, Scenario, Task,
};

fn agree(victims: &[Task], occupant: Task) {
    for victim in victims {
        for (ms, is_open) in LENGTHS_MS.into_iter().flat_map(|ms| [(ms, false), (ms, true)]) {
            let scenario = Scenario { victim: *victim, occupant, ms, is_open, has_payer: false };
            let report = explain(source(&scenario.text()), &Options::default(), |_| {}).expect("events");
            let finding = report.findings.iter().find(|finding| finding.victim.tids.contains(&victim.tid));
            let row = row(&scenario.text(), victim.tid);
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
            assert_eq!((row.severity, row.finding), (Some(finding.severity), Some(finding.id.clone())), "{name}");
            if finding.severity >= Severity::Warning {
                let culprit = finding.culprits.first().expect("a culprit");
                assert_eq!(row.rule, Some(culprit.rule), "{name}");
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
    let row = row(&scenario.text(), SERVING[0].tid).expect("a wait that never ended is shown");
    assert_eq!((row.rule, row.waiting_ns.map(|ns| ns / 1_000_000_000)), (Some(unstarve_sched::Rule::Idle), Some(3)));
}
