//! Reads a profile back as the profiler does: columns of equal length, valid indices, times in order.

use proptest::prelude::*;
use serde_json::Value;
use unstarve_diagnose::report::Report;
use unstarve_export::Firefox;
use unstarve_model::EventSource;
use unstarve_sched::Rule;
use unstarve_timeline::Selection;

use crate::formats::hostile::{events, source};
use crate::formats::stage::{Sheet, export, open, traces};

fn written(source: Box<dyn EventSource>, kept: usize) -> (Value, Report) {
    let sheet = Sheet::default();
    let report = export(source, Firefox::keeping(kept, sheet.clone(), Selection::default()));
    (serde_json::from_slice(&sheet.bytes()).expect("JSON"), report)
}

fn list<'a>(value: &'a Value, name: &str) -> &'a Vec<Value> {
    value[name].as_array().unwrap_or_else(|| panic!("{name} of {value:.100} is a list"))
}

fn index(value: &Value) -> usize {
    usize::try_from(value.as_u64().expect("an index")).expect("an index")
}

/// Whether all columns of a table have the stated length.
fn is_rectangle(table: &Value) -> bool {
    let length = index(&table["length"]);
    table.as_object().expect("a table").values().filter_map(Value::as_array).all(|column| column.len() == length)
}

/// Milliseconds back to the original nanoseconds.
fn ns(value: &Value) -> u64 {
    (value.as_f64().expect("a number") * 1e6).round() as u64
}

fn makes_sense(profile: &Value, report: &Report) {
    let shared = &profile["shared"];
    let strings = list(shared, "stringArray").len();
    let categories = list(&profile["meta"], "categories").len();
    assert_eq!(categories, Rule::ALL.len() + 1);
    for table in ["stackTable", "frameTable", "funcTable", "resourceTable", "nativeSymbols", "sources"] {
        assert!(is_rectangle(&shared[table]), "{table}");
    }
    assert!(list(&shared["funcTable"], "name").iter().all(|name| index(name) < strings));
    assert!(list(&shared["frameTable"], "category").iter().all(|category| index(category) < categories));
    for (stack, prefix) in list(&shared["stackTable"], "prefix").iter().enumerate() {
        assert!(prefix.is_null() || index(prefix) < stack, "a stack before the one that it is in");
    }
    let stacks = index(&shared["stackTable"]["length"]);
    let (mut weight, mut length, mut told) = (0, 0, 0);
    for thread in list(profile, "threads") {
        let (samples, markers) = (&thread["samples"], &thread["markers"]);
        assert!(is_rectangle(samples) && is_rectangle(markers));
        assert!(list(samples, "stack").iter().all(|stack| index(stack) < stacks));
        assert!(list(samples, "time").iter().map(ns).is_sorted());
        assert!(list(markers, "name").iter().all(|name| index(name) < strings));
        weight += list(samples, "weight").iter().map(ns).sum::<u64>();
        let columns = list(markers, "startTime").iter().zip(list(markers, "endTime")).zip(list(markers, "data"));
        for ((start, end), data) in columns.filter(|(_, data)| data["type"] == "wait") {
            assert_eq!(ns(end) - ns(start), data["ns"].as_u64().expect("a number"));
            length += ns(end) - ns(start);
            told += 1;
        }
    }
    assert_eq!(weight, report.trace.waits_total_ns);
    let findings = &list(profile, "threads")[0]["markers"];
    assert_eq!(index(&findings["length"]), report.findings.len());
    for (data, finding) in list(findings, "data").iter().zip(&report.findings) {
        assert_eq!(data["ns"].as_u64(), Some(finding.waits.total_ns));
    }
    if told == report.trace.waits_count {
        assert_eq!(length, report.trace.waits_total_ns);
    }
}

#[test]
fn a_profile_holds_the_report_and_makes_sense() {
    for trace in traces() {
        let (profile, report) = written(open(&trace), usize::MAX);
        makes_sense(&profile, &report);
    }
}

#[test]
fn what_is_not_told_is_still_summed_up() {
    let trace = traces().into_iter().find(|trace| trace.ends_with("linux-6.1-preempt.dat")).expect("testdata");
    let (profile, report) = written(open(&trace), 100);
    makes_sense(&profile, &report);
    let of = |thread: &Value| list(&thread["markers"], "data").iter().filter(|data| data["type"] == "wait").count();
    assert_eq!(list(&profile, "threads").iter().map(of).sum::<usize>(), 100);
    let note = profile["meta"]["extra"][0]["entries"][0]["value"].as_str().expect("a text");
    assert!(note.starts_with(&format!("{} of the shorter waits", report.trace.waits_count - 100)), "{note}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_profile_makes_sense_whatever_happens(events in events(), kept in 1..20_usize) {
        let (profile, report) = written(source(&events), kept);
        makes_sense(&profile, &report);
    }
}
