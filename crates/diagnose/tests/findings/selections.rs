//! What is said of a selected part: the tables of `selected.rs`, cell by cell, and on stored recordings.

use std::path::{Path, PathBuf};

use unstarve_diagnose::report::{Finding, Report, SelectedAs, Severity};
use unstarve_diagnose::{Options, explain};
use unstarve_model::{Glob, Nanos, Time};
use unstarve_timeline::{Moment, Selection, TaskPattern};

use crate::findings::scene::{Scene, times};

/// On CPU 0 the real-time hog h holds the application a up for 60 ms, from +1940 ms to +2000 ms; on CPU 1 another program runs.
/// One column is 10 ms.
fn one_stall() -> Scene {
    Scene::new(10_000)
        .task('h', "hog", 89)
        .task('a', "app", 120)
        .task('o', "other", 120)
        .cpu(&format!("{}hhhhhh{}", times(97, "a."), times(98, "a.")))
        .cpu(&times(198, "o."))
        .wakes('a', &format!("{}{}{}", times(98, "! "), times(6, " "), times(97, "! ")))
        .wakes('h', &format!("{}!", times(194, " ")))
        .wakes('o', &times(198, "! "))
}

fn alarms(report: &Report) -> Vec<&Finding> {
    report.findings.iter().filter(|finding| finding.severity > Severity::Info).collect()
}

/// A selected time, and whether the wait overlaps it.
const SPANS: [(&str, Option<u64>, Option<u64>, bool); 8] = [
    ("no time", None, None, true),
    ("all of the wait", Some(1900), Some(2100), true),
    ("cut at its beginning", Some(1960), Some(2200), true),
    ("cut at its end", Some(1500), Some(1960), true),
    ("in the middle of it", Some(1960), Some(1970), true),
    ("after its beginning", Some(1990), None, true),
    ("before it", None, Some(1900), false),
    ("after it", Some(2050), None, false),
];
const CPUS: [(Option<&str>, bool); 4] = [(None, true), (Some("0"), true), (Some("0-1"), true), (Some("1"), false)];
const TASKS: [Option<&str>; 4] = [None, Some("app"), Some("hog"), Some("other")];

#[test]
fn every_cell_says_what_the_table_says() {
    let at = |ms: Option<u64>| ms.map(|ms| Moment::After(Nanos::from_millis(ms)));
    let mut wrong = Vec::new();
    for (span, from, to, in_time) in SPANS {
        for (cpus, on_cpu) in CPUS {
            for task in TASKS {
                let selection = Selection {
                    tasks: task.map(|name| TaskPattern::Name(Glob::with_stars(name))).into_iter().collect(),
                    cpus: cpus.map(|cpus| cpus.parse().expect("CPUs")),
                    from: at(from),
                    to: at(to),
                };
                let is_whole = selection == Selection::default();
                let report = one_stall().explain_with(&Options { selection, ..Options::default() });
                let bad = alarms(&report);
                let found = bad.first().map(|finding| (finding.victim.comm.as_str(), finding.selected_as));
                let role = match task {
                    None => Some(None),
                    Some("app") => Some(Some(SelectedAs::Victim)),
                    Some("hog") => Some(Some(SelectedAs::Culprit)),
                    Some(_) => None,
                };
                let expected = role.filter(|_| in_time && on_cpu).map(|role| ("app", role));
                let text = &report.verdict.text;
                let says = match (expected, task) {
                    (Some(_), Some("hog")) => text.starts_with("hog is not starved, but the culprit. app is "),
                    (Some(_), _) => text.contains("app is "),
                    (None, task) => {
                        let waited = text.starts_with("Nothing in the selected part has waited.");
                        let nobody =
                            task.map_or("Nobody is starved in".to_owned(), |task| format!("{task} is not starved; "));
                        (waited || text.starts_with(&nobody))
                            && text.contains(" Elsewhere, ")
                            && text.contains("app is ")
                    }
                };
                let is_marked = report.selected.is_none() == is_whole;
                if found != expected || !says || !is_marked || bad.len() > 1 {
                    wrong
                        .push(format!("{span}, CPU {cpus:?}, task {task:?}: {found:?}, expected {expected:?}; {text}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_cut_wait_counts_in_full() {
    let selection = Selection {
        from: Some(Moment::After(Nanos::from_millis(1960))),
        to: Some(Moment::After(Nanos::from_millis(1970))),
        ..Selection::default()
    };
    let report = one_stall().explain_with(&Options { selection, ..Options::default() });
    let waits = &alarms(&report)[0].waits;
    assert_eq!((waits.count, waits.max_ns / 1_000_000), (1, 60), "{waits:?}");
    assert_eq!(report.selected.map(|selected| selected.text).as_deref(), Some("+1.960 s to +1.970 s"));
}

fn recording(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata").join(name)
}

fn explained(path: &Path, selection: Selection) -> Report {
    let source = unstarve_readers::open(path).expect("a recording");
    explain(source, &Options { selection, ..Options::default() }, |_| {}).expect("an explanation")
}

/// The task that slept for the victim is woken after the selected time.
#[test]
fn what_a_wait_cost_after_the_selected_time_counts() {
    let at = |ms| Some(Moment::After(Nanos::from_millis(ms)));
    let path = recording("truth/idle-lock.6.1.fault.dat.zst");
    let report = explained(&path, Selection { from: at(100), to: at(850), ..Selection::default() });
    let lead = alarms(&report)[0];
    assert_eq!((lead.severity, lead.victim.comm.as_str()), (Severity::Critical, "keeper"));
    assert!(lead.sentence.contains("694 ms"), "{}", lead.sentence);
    let asker = Selection { tasks: vec![TaskPattern::Name(Glob::with_stars("asker"))], ..Selection::default() };
    let report = explained(&path, asker);
    assert_eq!(report.findings[0].selected_as, Some(SelectedAs::SleptForVictim));
    let text = &report.verdict.text;
    assert!(text.starts_with("asker is not starved, but sleeps until the victim is done. keeper is starved"), "{text}");
}

/// In every recording: a part through which the worst victim waited is not called healthy, wherever the wait is cut.
#[test]
fn a_part_with_a_starvation_is_never_healthy() {
    let mut asked = 0;
    let mut wrong = Vec::new();
    let files =
        std::fs::read_dir(recording("truth")).expect("a directory").map(|entry| entry.expect("an entry").path());
    let mut faults: Vec<PathBuf> = files.filter(|path| path.to_string_lossy().ends_with(".fault.dat.zst")).collect();
    faults.sort();
    for path in faults {
        let whole = explained(&path, Selection::default());
        let Some(lead) = alarms(&whole).first().copied() else { continue };
        let Some(worst) = lead.worst.first() else { continue };
        let (start, end) = (worst.start_ns, worst.end_ns);
        let length = end - start;
        if length < 50_000_000 {
            continue;
        }
        asked += 1;
        let before = start.saturating_sub(10_000_000);
        for (from, to) in
            [(start + length / 4, end - length / 4), (before, start + length / 2), (end - length / 2, end)]
        {
            let [from, to] = [from, to].map(|ns| Some(Moment::At(Time(ns))));
            let report = explained(&path, Selection { from, to, ..Selection::default() });
            // Another finding may have the same victims among others.
            let is_same = |finding: &Finding| finding.actors.iter().any(|actor| lead.actors.contains(actor));
            if !alarms(&report).into_iter().any(is_same) {
                wrong.push(format!("{}: {from:?} to {to:?}: {}", path.display(), report.verdict.text));
            }
        }
    }
    assert!(asked >= 20, "{asked} recordings");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
