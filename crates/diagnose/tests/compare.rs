//! Pairs of labelled traces: what was changed between them is named first; a trace against itself is the same.

use std::path::Path;

use unstarve_diagnose::Options;
use unstarve_diagnose::compare::{Comparison, Metric, Outcome, SCHEMA, Side, Verdict, compare, side};

fn read(name: &str) -> Side {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/traces").join(name);
    let source = unstarve_readers::open(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
    side(source, &Options::default(), |_| {}).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn pair(a: &str, b: &str) -> Comparison {
    compare(&read(a), &read(b))
}

#[test]
fn a_weight_given_to_the_group_shows_as_the_workers_waits() {
    let weight = pair("linux-6.1-dio-good.dat", "linux-6.1-dio-weight.dat");
    let new = &weight.findings[0];
    assert_eq!((new.id.as_str(), new.outcome), ("completion-ping-pong", Outcome::Appeared));
    let first = weight.sure().next().expect("a sure change");
    assert_eq!(
        (first.role.kind.as_str(), first.metric, first.verdict),
        ("kworker", Metric::WaitedUnder, Verdict::More)
    );
    assert_eq!(first.rule.map(|rule| rule.word()), Some("wakeup-preemption"));
    let (low, high) = first.interval.expect("an interval");
    assert!(low > 0.0 && low < first.b - first.a && first.b - first.a < high);
    let back = pair("linux-6.1-dio-weight.dat", "linux-6.1-dio-good.dat");
    assert_eq!(back.findings[0].outcome, Outcome::Vanished);
    let mirrored = back.sure().next().expect("a sure change");
    assert_eq!(
        (mirrored.metric, mirrored.verdict, mirrored.a, mirrored.b),
        (first.metric, Verdict::Less, first.b, first.a)
    );
}

#[test]
fn a_stall_once_a_second_shows_in_the_findings_and_the_longest_waits() {
    let spike = pair("linux-5.10-net-good.dat", "linux-5.10-net-rt.dat");
    assert_eq!((spike.findings[0].id.as_str(), spike.findings[0].outcome), ("rt-starvation", Outcome::Appeared));
    assert_eq!(spike.findings[0].victim.kind, "ksoftirqd");
    let waits = &spike.waits[0];
    assert_eq!(waits.role.name, "ksoftirqd/*");
    let (a, b) = (waits.a.expect("it waits in A"), waits.b.expect("it waits in B"));
    assert!(a.max_ns < 2_000_000 && b.max_ns > 80_000_000, "{a:?} {b:?}");
}

#[test]
fn a_trace_is_the_same_as_itself() {
    for name in ["linux-6.1-pool.dat", "linux-6.1-preempt.dat", "linux-5.10-net-rt.dat"] {
        let same = pair(name, name);
        assert!(same.is_same(), "{name}: {:?}", same.sure().next());
        assert!(same.compared > 10, "{name}: nothing was compared");
        assert!(same.findings.iter().all(|finding| finding.outcome == Outcome::Stays));
    }
}

#[test]
fn rates_are_those_of_the_trace() {
    let preempt = read("linux-6.1-preempt.dat");
    let idle = read("linux-6.1-idle.dat");
    let change = compare(&idle, &preempt);
    let all = change.changes.iter().find(|change| change.role.kind == "all" && change.metric == Metric::Waited);
    let all = all.expect("everybody waits more");
    let trace = &preempt.report.trace;
    let expected = trace.waits_total_ns as f64 / (trace.end_ns - trace.start_ns) as f64 * 1e9;
    // The last block is cut short and left out.
    assert!((all.b - expected).abs() < expected * 0.1, "{} ns/s, expected {expected}", all.b);
}

#[test]
fn the_json_has_the_schema_and_can_be_read_again() {
    let comparison = pair("linux-6.1-dio-good.dat", "linux-6.1-dio-weight.dat");
    let text = serde_json::to_string(&comparison).expect("it serialises");
    let value: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
    assert_eq!(value["schema"], SCHEMA);
    assert_eq!(value["changes"][0]["rule"], "wakeup-preemption");
    assert_eq!(value["findings"][0]["outcome"], "appeared");
    let back: Comparison = serde_json::from_str(&text).expect("it has its own shape");
    assert_eq!(
        (back.findings, back.waits, back.compared),
        (comparison.findings, comparison.waits, comparison.compared)
    );
    assert_eq!(back.changes.len(), comparison.changes.len());
}

#[test]
fn a_wait_without_a_known_reason_keeps_no_rate_from_being_compared() {
    let (a, mut b) = (read("linux-5.10-net-rt.dat"), read("linux-5.10-net-good.dat"));
    let before = compare(&a, &b);
    b.report.trace.too_little = Some("b[8] waited 200 ms behind a, its equal by priority".to_owned());
    b.report.trace.rates_hold = true;
    let comparison = compare(&a, &b);
    assert_eq!((comparison.sure().count(), comparison.obstacle()), (before.sure().count(), None));
    assert!(comparison.findings.iter().all(|finding| finding.outcome != Outcome::Vanished));
    let text = comparison.verdict().text;
    assert!(!text.contains("Too little") && !text.contains("b[8]"), "{text}");
    assert!(text.ends_with(" 1 finding in A is not judged gone."), "{text}");
    let said = "B: b[8] waited 200 ms behind a, its equal by priority; no finding is called new or gone";
    assert!(comparison.losses.iter().any(|loss| loss == said), "{:?}", comparison.losses);
}

#[test]
fn nothing_is_gone_or_new_on_a_side_that_could_not_show_it() {
    let (a, mut b) = (read("linux-5.10-net-rt.dat"), read("linux-5.10-net-good.dat"));
    assert!(compare(&a, &b).findings.iter().any(|finding| finding.outcome == Outcome::Vanished));
    b.report.trace.too_little = Some("it has no sched_switch events".to_owned());
    let comparison = compare(&a, &b);
    assert!(comparison.findings.iter().all(|finding| finding.outcome != Outcome::Vanished), "{comparison:?}");
    assert_eq!(comparison.sure().count(), 0);
    assert_eq!(
        comparison.verdict().text,
        "Too little was recorded in B to compare: it has no sched_switch events. 1 finding in A is not judged gone."
    );
    let unjudged = &comparison.unjudged[0];
    assert_eq!((unjudged.id.as_str(), unjudged.b), ("rt-starvation", None));
    assert_eq!(
        (unjudged.a, unjudged.because.as_str()),
        (Some(a.report.findings[0].severity), "B: it has no sched_switch events")
    );
    assert!(unjudged.sentence.starts_with("ksoftirqd/1 is starved by wl"), "{unjudged:?}");
}
