//! The page of a comparison, as people see it.

use insta::assert_snapshot;
use unicode_width::UnicodeWidthStr;
use unstarve_diagnose::compare::{
    Change, Comparison, FindingChange, Metric, Outcome, Role, SCHEMA, Unit, UnjudgedFinding, Verdict, WaitChange, Waits,
};
use unstarve_diagnose::report::{Severity, TraceSummary};
use unstarve_sched::Rule;
use unstarve_term::{Charset, Colours, Extent, Look, comparison_page};

fn trace(events: u64) -> TraceSummary {
    TraceSummary {
        format: "trace.dat v7".to_owned(),
        events,
        lost: 0,
        cpus: 2,
        start_ns: 0,
        end_ns: 10_000_000_000,
        kernel: Some("6.1.0-50-cloud-amd64".to_owned()),
        snapshot: true,
        waits_total_ns: 1_330_000_000,
        waits_count: 30_100,
        ..TraceSummary::default()
    }
}

fn role(kind: &str, name: &str) -> Role {
    Role { kind: kind.to_owned(), name: name.to_owned() }
}

fn change(role: Role, metric: Metric, rule: Option<Rule>, [a, b]: [f64; 2], verdict: Verdict) -> Change {
    let unit = if metric == Metric::InvoluntarySwitches { Unit::PerSecond } else { Unit::NanosPerSecond };
    let interval = Some(((b - a) * 0.8, (b - a) * 1.2));
    Change { role, metric, rule, unit, a, b, interval, verdict }
}

fn comparison() -> Comparison {
    let worker = || role("kworker", "kworker/*:*");
    let waits = |max_ns| Some(Waits { count: 9, p50_ns: 5_000, p99_ns: 40_000, max_ns });
    Comparison {
        schema: SCHEMA.to_owned(),
        a: trace(176_035),
        b: trace(213_513),
        findings: vec![
            FindingChange {
                id: "completion-ping-pong".into(),
                victim: worker(),
                outcome: Outcome::Appeared,
                a: None,
                b: Some(Severity::Critical),
                sentence: "kworker/0:2 loses the CPU to fio after nearly every item.".to_owned(),
            },
            FindingChange {
                id: "throttled".into(),
                victim: role("task", "evil\u{1b}[31m"),
                outcome: Outcome::Vanished,
                a: Some(Severity::Warning),
                b: None,
                sentence: "evil\u{1b}[31m was stopped by the CPU limit.".to_owned(),
            },
        ],
        unjudged: Vec::new(),
        changes: vec![
            change(worker(), Metric::WaitedUnder, Some(Rule::WakeupPreemption), [58_206.0, 540e6], Verdict::More),
            change(worker(), Metric::InvoluntarySwitches, None, [5.6, 23_081.0], Verdict::More),
            change(role("task", "fio"), Metric::WaitedUnder, Some(Rule::Fair), [64.8e6, 8.2e6], Verdict::Less),
            change(role("task", "fio"), Metric::Ran, None, [600e6, 700e6], Verdict::Unclear),
        ],
        waits: vec![
            WaitChange { role: worker(), a: waits(4_000_000), b: waits(13_500_000) },
            WaitChange { role: role("task", "sh"), a: None, b: waits(300_000) },
            WaitChange { role: role("task", "fio"), a: waits(80_000), b: waits(81_000) },
        ],
        compared: 63,
        losses: vec!["A: no host snapshot: weights, limits and settings are unknown".to_owned()],
    }
}

fn drawn(comparison: &Comparison, extent: Extent, width: usize, charset: Charset) -> String {
    let page = comparison_page(comparison, extent, Look::new(width, charset, Colours::Plain));
    for line in page.lines() {
        assert!(line.width() <= width, "{} columns: {line}", line.width());
    }
    assert!(!page.contains('\u{1b}'), "an escape sequence got through");
    page
}

#[test]
fn what_changed_most_comes_first() {
    assert_snapshot!(drawn(&comparison(), Extent::Main, 100, Charset::Utf8));
}

#[test]
fn a_narrow_ascii_terminal_shows_all_that_fits() {
    let page = drawn(&comparison(), Extent::All, 60, Charset::Ascii);
    assert!(page.is_ascii());
    assert_snapshot!(page);
}

#[test]
fn the_same_on_both_sides_is_said_with_what_is_not_known() {
    let same = Comparison {
        findings: vec![],
        changes: vec![change(role("task", "fio"), Metric::Ran, None, [600e6, 700e6], Verdict::Unclear)],
        waits: vec![],
        ..comparison()
    };
    assert_snapshot!(drawn(&same, Extent::Main, 80, Charset::Utf8));
}

#[test]
fn findings_that_are_not_judged_are_shown_with_the_reason() {
    let mut comparison = comparison();
    comparison.findings.clear();
    let because = "A: it covers 39.0 ms, and what is called a stall lasts 48.0 ms or more";
    let finding = |a, b| UnjudgedFinding {
        id: "rt-starvation".into(),
        victim: role("ksoftirqd", "ksoftirqd/*"),
        a,
        b,
        sentence: "ksoftirqd/1 waited 177 ms while wl had its CPU.".to_owned(),
        because: because.to_owned(),
    };
    comparison.unjudged = vec![finding(Some(Severity::Critical), None), finding(None, Some(Severity::Warning))];
    let page = drawn(&comparison, Extent::Main, 100, Charset::Utf8);
    let expected = format!(
        "Findings of one side, not judged new or gone\n  {because}\n  in A     rt-starvation of ksoftirqd/*  {}\n           \
         ksoftirqd/1 waited 177 ms while wl had its CPU.\n  in B     rt-starvation of ksoftirqd/*  {}\n",
        Severity::Critical.word(),
        Severity::Warning.word()
    );
    assert!(page.contains(&expected), "{page}");
    let in_one_line = page.replace('\n', " ");
    assert!(in_one_line.contains("1 finding in A and 1 in B are not judged new or gone."), "{page}");
}
