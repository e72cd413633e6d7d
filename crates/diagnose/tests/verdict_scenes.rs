//! The verdict on the whole product of its axes, by `explain` and by `compare`: see `unstarve_testing::verdict_scene`.

use unstarve_diagnose::compare::{compare, side};
use unstarve_diagnose::report::{Report, Severity};
use unstarve_diagnose::{Options, explain};
use unstarve_model::EventSource;
use unstarve_readers::{Input, open_input};
use unstarve_testing::verdict_scene::{
    EQUAL, HEAVY, HIGHER, HOG, HOUSEKEEPING, IDLE, LAST, LENGTHS_MS, PROGRAMS, REAL_TIME, SERVING, Scenario, Task,
};

fn source(scenario: &Scenario) -> Box<dyn EventSource> {
    let text = Box::new(std::io::Cursor::new(scenario.text().into_bytes()));
    open_input(Input::from_stream(text, "scene".into()).expect("text")).expect("text of ftrace")
}

fn explained(scenario: &Scenario) -> Report {
    explain(source(scenario), &Options::default(), |_| {}).expect("events")
}

/// `critical poller`: how bad, and who is to blame.
fn verdict(scenario: &Scenario) -> String {
    let report = explained(scenario);
    let victim = scenario.victim;
    let of_victim = report.findings.iter().find(|finding| finding.victim.tids.contains(&victim.tid));
    let severity = of_victim.map(|finding| finding.severity);
    let loud = report.findings.iter().filter(|finding| finding.severity > Severity::Info);
    for finding in loud {
        let accused = finding.culprits.first().map(|culprit| culprit.comm.as_str());
        let is_victim = finding.victim.tids.contains(&victim.tid) || finding.victim.comm == "client";
        assert!(is_victim, "{}: {} is no victim", scenario.name(), finding.sentence);
        let expected = if scenario.occupant.tid == 0 { "idle" } else { scenario.occupant.comm };
        assert_eq!(accused, Some(expected), "{}: {}", scenario.name(), finding.sentence);
    }
    if scenario.ms >= 1_000 && scenario.victim.prio < 139 {
        assert!(!report.verdict.text.starts_with("Nobody is starved."), "{}: {}", scenario.name(), report.verdict.text);
        assert!(report.verdict.severity >= Some(Severity::Warning), "{}: {}", scenario.name(), report.verdict.text);
    }
    let remedies = report.findings.iter().flat_map(|finding| finding.remedies.iter().map(|remedy| remedy.id.as_str()));
    if victim.prio < 100 {
        let harmful = ["fair-server", "rt-throttling"];
        assert!(
            !remedies.clone().any(|id| harmful.contains(&id)),
            "{}: takes time from real-time victims",
            scenario.name()
        );
    }
    severity.map_or("-".to_owned(), |severity| format!("{severity:?}").to_lowercase())
}

/// A row of verdicts by length; the same for each of the victims, open or ended.
fn row(victims: &[Task], occupant: Task, has_payer: bool) -> String {
    let mut rows: Vec<(String, String)> = Vec::new();
    for victim in victims {
        for is_open in [false, true] {
            // Who never ran has waked nobody.
            if is_open && has_payer {
                continue;
            }
            let cells = LENGTHS_MS.map(|ms| verdict(&Scenario { victim: *victim, occupant, ms, is_open, has_payer }));
            let name = format!("{} {}", victim.comm, if is_open { "open" } else { "ended" });
            rows.push((name, cells.join(" ")));
        }
    }
    let (first, cells) = rows.first().expect("a victim").clone();
    for (name, other) in &rows {
        assert_eq!(*other, cells, "{name} is judged otherwise than {first}");
    }
    cells
}

#[test]
fn behind_a_real_time_hog() {
    insta::assert_snapshot!(row(&SERVING, HOG, false), @"- info warning warning warning critical critical");
    insta::assert_snapshot!(row(&HOUSEKEEPING, HOG, false), @"- - info info warning critical critical");
    insta::assert_snapshot!(row(&PROGRAMS, HOG, false), @"- warning critical critical critical critical critical");
    insta::assert_snapshot!(row(&LAST, HOG, false), @"- - info info info info info");
}

#[test]
fn behind_a_real_time_hog_while_a_program_sleeps() {
    insta::assert_snapshot!(row(&SERVING, HOG, true), @"- warning critical critical critical critical critical");
    insta::assert_snapshot!(row(&HOUSEKEEPING, HOG, true), @"- warning critical critical critical critical critical");
}

#[test]
fn real_time_behind_a_higher_priority() {
    insta::assert_snapshot!(row(&REAL_TIME, HIGHER, false), @"- info warning warning warning critical critical");
}

#[test]
fn real_time_behind_what_is_not_preempted() {
    insta::assert_snapshot!(row(&REAL_TIME, EQUAL, false), @"info warning critical critical critical critical critical");
}

#[test]
fn behind_an_equal_that_does_not_leave() {
    for victims in [&SERVING[..], &HOUSEKEEPING, &PROGRAMS] {
        insta::allow_duplicates! {
            insta::assert_snapshot!(row(victims, EQUAL, false), @"- - info info warning warning critical");
        }
    }
}

#[test]
fn behind_what_weighs_more() {
    insta::assert_snapshot!(row(&SERVING, HEAVY, false), @"- - warning warning warning critical critical");
    insta::assert_snapshot!(row(&HOUSEKEEPING, HEAVY, false), @"- - - - warning critical critical");
    insta::assert_snapshot!(row(&PROGRAMS, HEAVY, false), @"- - warning warning critical critical critical");
}

#[test]
fn beside_its_own_idle_cpu() {
    for victims in [&SERVING[..], &HOUSEKEEPING] {
        insta::allow_duplicates! {
            insta::assert_snapshot!(row(victims, IDLE, false), @"- - warning warning warning critical critical");
        }
    }
    insta::assert_snapshot!(row(&PROGRAMS, IDLE, false), @"- - warning warning warning critical critical");
}

/// `compare` explains each side as `explain` does: the same victims, as bad, and nothing that is new against the same recording.
#[test]
fn compare_says_what_explain_says() {
    let sides = [
        (&SERVING[..], HOG),
        (&HOUSEKEEPING, HOG),
        (&REAL_TIME, HIGHER),
        (&REAL_TIME, EQUAL),
        (&PROGRAMS, HEAVY),
        (&SERVING, EQUAL),
        (&SERVING, IDLE),
    ];
    for (victims, occupant) in sides {
        for (victim, ms) in victims.iter().flat_map(|victim| LENGTHS_MS.map(|ms| (*victim, ms))) {
            for is_open in [false, true] {
                let scenario = Scenario { victim, occupant, ms, is_open, has_payer: false };
                let of = || side(source(&scenario), &Options::default(), |_| {}).expect("events");
                let comparison = compare(&of(), &of());
                let report = explained(&scenario);
                let mut expected: Vec<_> =
                    report.findings.iter().map(|finding| (&*finding.id, Some(finding.severity))).collect();
                let mut found: Vec<_> = comparison.findings.iter().map(|change| (&*change.id, change.b)).collect();
                found.sort();
                expected.sort();
                assert_eq!(found, expected, "{}", scenario.name());
                assert!(comparison.findings.iter().all(|change| change.a == change.b), "{}", scenario.name());
                let sentences = |sentence: &String| report.findings.iter().any(|finding| finding.sentence == *sentence);
                assert!(comparison.findings.iter().all(|change| sentences(&change.sentence)), "{}", scenario.name());
            }
        }
    }
}
