//! Test support: records which rows of the verdict table are used. A row that no recording reaches is dead.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::Cursor;
use std::path::Path;

use unstarve_model::Severity;
use unstarve_readers::{Input, open_input};
use unstarve_testing::verdict_scene::{
    DEADLINE, EQUAL, HEAVY, HIGHER, HOG, HOUSEKEEPING, IDLE, LAST, LAST_TOO, LENGTHS_MS, PEER, PROGRAMS, REAL_TIME,
    SERVING, Scenario, Task, behind_a_crowd, beside_another_idle_cpu, interrupted_by_packets, limited,
    on_a_stopped_cpu, pushed_off,
};

use super::{Cause, TABLE, VerdictRow, Waiter};
use crate::{Options, explain};

thread_local! {
    /// Per row, the worst severity that it returned.
    static ASKED: RefCell<BTreeMap<(Waiter, Cause), Severity>> = const { RefCell::new(BTreeMap::new()) };
}

/// Records that a row was used, and its result.
pub(super) fn note(row: &VerdictRow, severity: Option<Severity>) {
    let Some(severity) = severity else { return };
    ASKED.with_borrow_mut(|asked| {
        let worst = asked.entry((row.waiter, row.cause)).or_insert(severity);
        *worst = severity.max(*worst);
    });
}

fn ask(text: String) {
    let input = Input::from_stream(Box::new(Cursor::new(text.into_bytes())), "scene".into()).expect("text");
    explain(open_input(input).expect("text of ftrace"), &Options::default(), |_| {}).expect("events");
}

fn ask_of_scenes() {
    let victims: [(&[Task], &[Task]); 5] = [
        (&SERVING, &[HOG, EQUAL, HEAVY, IDLE]),
        (&HOUSEKEEPING, &[HOG, EQUAL, HEAVY, IDLE]),
        (&REAL_TIME, &[HIGHER, DEADLINE, PEER, EQUAL, IDLE]),
        (&PROGRAMS, &[HOG, EQUAL, HEAVY, IDLE]),
        (&LAST, &[HOG, LAST_TOO, HEAVY, IDLE]),
    ];
    for (victims, occupants) in victims {
        for (victim, occupant) in victims.iter().flat_map(|victim| occupants.iter().map(move |by| (*victim, *by))) {
            for (ms, has_payer) in LENGTHS_MS.into_iter().flat_map(|ms| [(ms, false), (ms, true)]) {
                ask(Scenario { victim, occupant, ms, is_open: false, has_payer }.text());
            }
        }
    }
    for ms in LENGTHS_MS.into_iter().filter(|ms| *ms <= 3_000) {
        for victim in PROGRAMS {
            ask(pushed_off(victim, EQUAL, ms));
            ask(behind_a_crowd(victim, ms));
            ask(limited(victim, ms));
            ask(beside_another_idle_cpu(victim, EQUAL, ms));
        }
        for victim in [SERVING[3], HOUSEKEEPING[0], REAL_TIME[0], DEADLINE, PROGRAMS[0], LAST[0]] {
            ask(on_a_stopped_cpu(victim, EQUAL, ms));
            ask(interrupted_by_packets(victim, ms, true));
            ask(interrupted_by_packets(victim, ms, false));
        }
    }
}

fn ask_of_recordings() {
    let traces = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/traces");
    for entry in std::fs::read_dir(traces).expect("testdata/traces") {
        let path = entry.expect("an entry").path();
        if let Ok(source) = unstarve_readers::open(&path) {
            let _ = explain(source, &Options::default(), |_| {});
        }
    }
}

/// Rows that no scene and no recording in the tests uses, and what uses them instead.
const ASKED_ELSEWHERE: [(Waiter, Cause, &str); 5] = [
    (Waiter::ServingThread, Cause::GroupLimit, "the watch's counters; events show no limit of kernel threads"),
    (Waiter::HousekeepingThread, Cause::GroupLimit, "the watch's counters; events show no limit of kernel threads"),
    (Waiter::HousekeepingThread, Cause::PingPong, "the watch's counters, of a worker of unknown work"),
    (Waiter::Program, Cause::ClassLimit, "what it cost a program that a real-time kernel thread was stopped"),
    (
        Waiter::AskedToBeLast,
        Cause::GroupLimit,
        "a host snapshot with a limit of a cgroup whose tasks all asked to be last",
    ),
];

#[test]
fn each_row_decides_something() {
    ask_of_scenes();
    ask_of_recordings();
    let asked = ASKED.take();
    let elsewhere = |row: &&VerdictRow| {
        ASKED_ELSEWHERE.iter().any(|(waiter, cause, _)| (*waiter, *cause) == (row.waiter, row.cause))
    };
    let stale = ASKED_ELSEWHERE.iter().filter(|(waiter, cause, _)| asked.contains_key(&(*waiter, *cause)));
    assert_eq!(stale.collect::<Vec<_>>(), [&(Waiter::Program, Cause::Class, ""); 0], "these are asked here");
    let idle: Vec<String> = TABLE
        .iter()
        .filter(|row| !elsewhere(row) && !asked.contains_key(&(row.waiter, row.cause)))
        .map(|row| format!("{:?} by {:?}", row.waiter, row.cause))
        .collect();
    assert!(idle.is_empty(), "no recording asks these rows:\n{}", idle.join("\n"));
}
