//! The verdict on the whole product of its axes, by `explain` and by `compare`: see `unstarve_testing::verdict_scene`.

use unstarve_diagnose::compare::{compare, side};
use unstarve_diagnose::report::{Report, Severity};
use unstarve_diagnose::{Options, explain};
use unstarve_model::EventSource;
use unstarve_readers::{Input, open_input};
use unstarve_testing::verdict_scene::{
    DEADLINE, EQUAL, HEAVY, HIGHER, HOG, HOUSEKEEPING, IDLE, LAST, LAST_TOO, LENGTHS_MS, PEER, PROGRAMS, REAL_TIME,
    SERVING, Scenario, Task, behind_a_crowd, limited, on_a_stopped_cpu, pushed_off,
};

fn source(scenario: &Scenario) -> Box<dyn EventSource> {
    source_of(scenario.text())
}

fn source_of(text: String) -> Box<dyn EventSource> {
    let text = Box::new(std::io::Cursor::new(text.into_bytes()));
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

/// A row of verdicts by length.
fn cells(victim: Task, occupant: Task, is_open: bool, has_payer: bool) -> String {
    LENGTHS_MS.map(|ms| verdict(&Scenario { victim, occupant, ms, is_open, has_payer })).join(" ")
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
            let cells = cells(*victim, occupant, is_open, has_payer);
            let name = format!("{} {}", victim.comm, if is_open { "open" } else { "ended" });
            rows.push((name, cells));
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

#[test]
fn real_time_behind_another_of_its_priority() {
    // A turn of SCHED_RR is 100 ms at most.
    for victim in REAL_TIME {
        insta::allow_duplicates! {
            insta::assert_snapshot!(cells(victim, PEER, true, false), @"- - - critical critical critical critical");
        }
    }
    // One that ended shows that it needs the CPU for a moment only, and was late by a slice of another.
    insta::assert_snapshot!(cells(REAL_TIME[0], PEER, false, false), @"- - warning critical critical critical critical");
    insta::assert_snapshot!(row(&REAL_TIME, DEADLINE, false), @"- info warning warning warning critical critical");
}

#[test]
fn last_behind_one_that_is_last_too() {
    insta::assert_snapshot!(row(&LAST, LAST_TOO, false), @"- - - - info info info");
}

/// By length up to 3 s, which fit into the recording several times: how bad the wait of the victim is, what is found, and by which rule
/// most of the wait is.
fn by_rule(victim: Task, text: impl Fn(Task, u64) -> String) -> String {
    let lengths = LENGTHS_MS.into_iter().filter(|ms| *ms <= 3_000);
    let cells = lengths.map(|ms| {
        let report = explain(source_of(text(victim, ms)), &Options::default(), |_| {}).expect("events");
        let wait = report.worst_waits.iter().find(|wait| wait.tid == victim.tid).expect("it waits");
        let rule = wait.blame.iter().max_by_key(|row| row.ns).map(|row| row.rule.word());
        let found = report.findings.iter().find(|finding| finding.victim.tids.contains(&victim.tid));
        let said = found.map_or("-".to_owned(), |finding| {
            format!("{} {}", format!("{:?}", finding.severity).to_lowercase(), finding.id)
        });
        if ms >= 1_000 {
            assert!(!report.verdict.text.starts_with("Nobody is starved."), "{ms} ms: {}", report.verdict.text);
        }
        format!("{ms} ms: {}, {said}", rule.expect("a rule"))
    });
    cells.collect::<Vec<_>>().join("\n")
}

#[test]
fn behind_one_that_was_just_woken() {
    insta::assert_snapshot!(by_rule(PROGRAMS[0], |victim, ms| pushed_off(victim, EQUAL, ms)), @r"
    3 ms: wakeup-preemption, -
    20 ms: wakeup-preemption, -
    60 ms: wakeup-preemption, info stuck-equal
    150 ms: wakeup-preemption, info stuck-equal
    300 ms: wakeup-preemption, warning stuck-equal
    3000 ms: wakeup-preemption, warning stuck-equal
    ");
}

#[test]
fn behind_a_crowd_of_woken_threads() {
    insta::assert_snapshot!(by_rule(PROGRAMS[0], behind_a_crowd), @r"
    3 ms: count, -
    20 ms: count, -
    60 ms: count, -
    150 ms: count, -
    300 ms: count, -
    3000 ms: count, warning stuck-equal
    ");
}

#[test]
fn on_a_cpu_that_does_not_run() {
    for (victim, by) in [(SERVING[1], EQUAL), (PROGRAMS[0], HEAVY)] {
        // Shorter than 16 ticks may be a late one.
        let all = by_rule(victim, |victim, ms| on_a_stopped_cpu(victim, by, ms));
        let long = all.lines().skip(3).collect::<Vec<_>>().join("\n");
        insta::allow_duplicates! {
            insta::assert_snapshot!(long, @r"
            150 ms: unknown, info cpu-stopped
            300 ms: unknown, info cpu-stopped
            3000 ms: unknown, warning cpu-stopped
            ");
        }
    }
    let real_time = by_rule(REAL_TIME[0], |victim, ms| on_a_stopped_cpu(victim, EQUAL, ms));
    let long = real_time.lines().skip(3).collect::<Vec<_>>().join("\n");
    insta::assert_snapshot!(long, @r"
    150 ms: unknown, warning cpu-stopped
    300 ms: unknown, warning cpu-stopped
    3000 ms: unknown, critical cpu-stopped
    ");
}

#[test]
fn kept_off_by_a_limit() {
    insta::assert_snapshot!(by_rule(PROGRAMS[0], limited), @r"
    3 ms: throttled, -
    20 ms: throttled, -
    60 ms: throttled, warning throttled
    150 ms: throttled, warning throttled
    300 ms: throttled, warning throttled
    3000 ms: throttled, warning throttled
    ");
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
                    report.findings.iter().map(|finding| (finding.id.clone(), Some(finding.severity))).collect();
                let mut found: Vec<_> =
                    comparison.findings.iter().map(|change| (change.id.clone(), change.b)).collect();
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
