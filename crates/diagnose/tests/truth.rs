//! Every labelled trace of `testdata/traces` is explained as its label says.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use unstarve_diagnose::report::{Culprit, Finding, Report, Severity, VictimKind};
use unstarve_diagnose::{Options, explain};

#[derive(Debug, Deserialize)]
struct Truth {
    file: String,
    #[serde(default)]
    healthy: bool,
    #[serde(default)]
    excerpt: bool,
    #[serde(default)]
    top: Vec<String>,
    victim: Option<VictimTruth>,
    culprit: Option<String>,
    price: Option<String>,
    period_ms: Option<f64>,
}

#[derive(Debug, Deserialize)]
struct VictimTruth {
    kind: Option<String>,
    comm: Option<String>,
    work: Option<String>,
}

fn traces() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/traces")
}

fn truths() -> BTreeMap<String, Truth> {
    let text = std::fs::read_to_string(traces().join("TRUTH.toml")).expect("testdata/traces/TRUTH.toml is readable");
    toml::from_str(&text).expect("TRUTH.toml has the expected shape")
}

fn explained(truth: &Truth) -> Report {
    let path = traces().join(&truth.file);
    let source = unstarve_readers::open(&path).unwrap_or_else(|error| panic!("{}: {error}", truth.file));
    explain(source, &Options::default(), |_| {}).unwrap_or_else(|error| panic!("{}: {error}", truth.file))
}

/// What in a report contradicts its label.
fn contradictions(truth: &Truth, report: &Report) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut expect = |holds: bool, what: String| {
        if !holds {
            wrong.push(format!("{}: {what}", truth.file));
        }
    };
    let bad: Vec<&Finding> = report.findings.iter().filter(|finding| finding.severity >= Severity::Warning).collect();
    if truth.healthy || truth.excerpt {
        let told: Vec<&str> = bad.iter().map(|finding| finding.sentence.as_str()).collect();
        expect(bad.is_empty(), format!("healthy, but {told:?}"));
    }
    if truth.top.is_empty() {
        return wrong;
    }
    let Some(top) = bad.first() else {
        return vec![format!("{}: nothing found, expected {:?}", truth.file, truth.top)];
    };
    expect(
        truth.top.iter().any(|id| id == top.id.as_str()),
        format!("top finding is {}, expected {:?}", top.id, truth.top),
    );
    if let Some(victim) = &truth.victim {
        let is = |expected: &Option<String>, found: &str| expected.as_deref().is_none_or(|text| text == found);
        let work = top.victim.work.as_ref().map_or("", |work| work.function.as_str());
        let fits =
            is(&victim.kind, top.victim.kind.word()) && is(&victim.comm, &top.victim.comm) && is(&victim.work, work);
        expect(fits, format!("victim is {:?}, expected {victim:?}", top.victim));
    }
    if let Some(culprit) = &truth.culprit {
        let first = top.culprits.first().map(|row| row.comm.as_str());
        expect(first == Some(culprit), format!("culprit is {first:?}, expected {culprit}"));
    }
    if let Some(payer) = &truth.price {
        let paid = top.price.iter().any(|row| row.comm == *payer && row.ns > 0);
        expect(paid, format!("{payer} is not among the payers {:?}", top.price));
    }
    if let Some(expected) = truth.period_ms {
        let found = top.period_ns.map(|ns| ns as f64 / 1e6);
        let near = found.is_some_and(|found| (found - expected).abs() <= expected / 10.0);
        expect(near, format!("period is {found:?} ms, expected {expected}"));
    }
    wrong
}

/// Lists that do not add up.
fn wrong_sums(report: &Report) -> Vec<String> {
    let sum = |rows: &[Culprit]| rows.iter().map(|row| row.ns).sum::<u64>();
    let mut wrong = Vec::new();
    for finding in &report.findings {
        if sum(&finding.blame) != finding.waits.total_ns {
            wrong.push(format!("{}: {} of {}", finding.id, sum(&finding.blame), finding.waits.total_ns));
        }
        if sum(&finding.culprits) > finding.waits.total_ns {
            wrong.push(format!("{}: more guilt than waits", finding.id));
        }
    }
    for wait in &report.worst_waits {
        if sum(&wait.blame) != wait.end_ns - wait.start_ns {
            wrong.push(format!("worst wait of {}: {} ns", wait.comm, sum(&wait.blame)));
        }
    }
    wrong
}

#[test]
fn labelled_traces_are_explained_as_labelled() {
    let mut wrong = Vec::new();
    let truths = truths();
    assert!(truths.len() >= 7, "labels are missing");
    for (name, truth) in &truths {
        let report = explained(truth);
        wrong.extend(contradictions(truth, &report));
        wrong.extend(wrong_sums(&report).into_iter().map(|what| format!("{name}: {what}")));
        assert!(report.worst_waits.is_sorted_by_key(|wait| std::cmp::Reverse(wait.end_ns - wait.start_ns)));
        assert!(report.findings.is_sorted_by_key(|finding| std::cmp::Reverse(finding.severity)));
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// The reader's wakeups come out of a softirq of its own CPU: nothing but the requests names the worker that came late.
#[test]
fn who_pays_through_a_block_device_says_so() {
    let truths = truths();
    let report = explained(&truths["loop-rt"]);
    let starved = &report.findings[0];
    let payer = starved.price.iter().find(|row| row.comm == "program-2").expect("the reader pays");
    assert_eq!(payer.through_device_ns, payer.ns, "all of it");
    // Its sleep is the worker's wait, but for the microseconds before the worker is woken.
    assert!(payer.ns <= starved.waits.total_ns && payer.ns > starved.waits.total_ns / 100 * 95, "{payer:?}");
    for row in report.findings.iter().flat_map(|finding| &finding.price) {
        assert!(row.through_device_ns <= row.ns, "{row:?}");
    }
    let other = explained(&truths["linux-5_10-net-rt"]);
    assert!(other.findings.iter().flat_map(|finding| &finding.price).all(|row| row.through_device_ns == 0));
}

#[test]
fn every_remedy_can_be_taken_back() {
    for truth in truths().values() {
        for finding in explained(truth).findings {
            assert!(!finding.remedies.is_empty() || finding.severity == Severity::Info, "{} has no remedy", finding.id);
            for remedy in &finding.remedies {
                let reads_only = remedy.risk.contains("only reads");
                assert!(remedy.apply.is_empty() || !remedy.undo.is_empty() || reads_only, "{}", remedy.id);
                assert!(!remedy.valid_on.is_empty() && !remedy.risk.is_empty(), "{}", remedy.id);
                let on_worker = finding.victim.kind == VictimKind::Kworker && remedy.apply.contains("taskset");
                let worker_tids: Vec<String> = finding.victim.tids.iter().map(ToString::to_string).collect();
                let names_worker = worker_tids.iter().any(|tid| remedy.apply.ends_with(&format!(" {tid}")));
                assert!(!(on_worker && names_worker), "taskset on a worker: {}", remedy.apply);
            }
        }
    }
}

#[test]
fn explaining_twice_gives_the_same_report() {
    // Nothing depends on the order of a hash table or on threads.
    for truth in truths().values().filter(|truth| !truth.healthy) {
        assert_eq!(explained(truth), explained(truth), "{}", truth.file);
    }
}
