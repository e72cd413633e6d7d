use unstarve_diagnose::report::Severity;
use unstarve_diagnose::{ExplainError, Options, explain};
use unstarve_model::{MemorySource, Names, Nanos, Tid, TraceInfo};
use unstarve_timeline::{Moment, Selection, TaskPattern};

use crate::scene::{Scene, times};

#[test]
fn an_empty_trace_cannot_be_explained() {
    let source = MemorySource::new(TraceInfo::default(), Vec::new(), Names::default());
    let outcome = explain(Box::new(source), &Options::default(), |_| {});
    assert!(matches!(outcome, Err(ExplainError::NoEvents { .. })), "{outcome:?}");
}

/// A hog h of real-time priority holds an application a up for 60 ms, once, in the middle of two seconds in which it
/// otherwise runs alone. One column is 10 ms.
fn one_stall() -> Scene {
    Scene::new(10_000)
        .task('h', "hog", 89)
        .task('a', "app", 120)
        .cpu(&format!("{}hhhhhh{}", times(97, "a."), times(98, "a.")))
        .wakes('a', &format!("{}{}{}", times(98, "! "), times(6, " "), times(97, "! ")))
        .wakes('h', &format!("{}!", times(194, " ")))
}

fn ids(options: Options) -> Vec<String> {
    one_stall().explain_with(&options).findings.into_iter().map(|finding| finding.id).collect()
}

#[test]
fn a_selection_narrows_what_is_reported() {
    let selection = |selection| Options { selection, ..Options::default() };
    let at = |ms| Some(Moment::After(Nanos::from_millis(ms)));
    assert_eq!(ids(Options::default()), ["rt-starvation"]);
    assert_eq!(ids(selection(Selection { from: at(1900), to: at(2100), ..Selection::default() })), ["rt-starvation"]);
    assert_eq!(ids(selection(Selection { to: at(1000), ..Selection::default() })), Vec::<String>::new());
    let task = |pattern| selection(Selection { tasks: vec![pattern], ..Selection::default() });
    assert_eq!(ids(task(TaskPattern::Tid(Tid(101)))), ["rt-starvation"]);
    assert_eq!(ids(task(TaskPattern::Name("other".into()))), Vec::<String>::new());
    let severe = Options { min_severity: Some(Severity::Critical), ..Options::default() };
    assert_eq!(ids(severe), ["rt-starvation"]);
}
