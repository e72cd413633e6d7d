//! The pages of `unstarve check` for all stored snapshots and a tuned host, before upgrades to all kernels.

use std::collections::BTreeSet;
use std::path::Path;

use unicode_width::UnicodeWidthStr;
use unstarve_check::{Audit, audit, audit_upgrade};
use unstarve_facts::Snapshot;
use unstarve_term::{Charset, Colours, Look, audit_full_page, audit_page, audit_shell};

const TARGETS: [&str; 16] = [
    "5.10", "5.13", "5.15", "5.19", "6.1", "6.1.178", "6.5", "6.6", "6.12", "6.12.50", "6.12.107", "6.14", "6.18",
    "7.0", "7.1", "7.2",
];

const REFUSED_WORDS: [&str; 11] = [
    "price",
    "owed",
    "occupant",
    "intruder",
    "made in part",
    "to know",
    "taken back",
    "told",
    "whom",
    "whoever",
    "nobody",
];

fn look(width: usize) -> Look {
    Look::new(width, Charset::Utf8, Colours::Plain)
}

/// The snapshots in `testdata/snapshots` and in the stored recordings.
fn stored() -> Vec<(String, Snapshot)> {
    let testdata = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata");
    let mut files: Vec<_> = ["snapshots", "traces", "truth"]
        .into_iter()
        .flat_map(|directory| std::fs::read_dir(testdata.join(directory)).expect("testdata").flatten())
        .map(|entry| entry.path())
        .collect();
    files.sort();
    let json = |file: &Path| match file.extension().and_then(|extension| extension.to_str()) {
        Some("json") => Some(std::fs::read_to_string(file).expect("testdata")),
        Some("dat" | "data" | "zst") => unstarve_readers::open(file).expect("a recording").info().snapshot.clone(),
        _ => None,
    };
    let named = |file: &Path| file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    files
        .iter()
        .filter_map(|file| Some((named(file), Snapshot::from_json(&json(file)?).expect("a snapshot"))))
        .collect()
}

/// A host of Debian 11 with the settings that vendors of databases recommended, and one of each later kernel.
fn tuned() -> Vec<(String, Snapshot)> {
    let settings = [
        ("sched_min_granularity_ns", "10000000"),
        ("sched_wakeup_granularity_ns", "15000000"),
        ("sched_migration_cost_ns", "5000000"),
        ("sched_rt_runtime_us", "950000"),
        ("sched_child_runs_first", "1"),
    ];
    let lines = settings.iter().enumerate().map(|(line, (key, value))| {
        serde_json::json!({ "by": "sysctl", "file": "/etc/sysctl.d/90-database.conf", "line": line + 3,
            "key": format!("kernel.{key}"), "value": value })
    });
    let mut configured: Vec<_> = lines.collect();
    configured
        .push(serde_json::json!({ "by": "tuned", "file": "/etc/tuned/fast/tuned.conf", "line": 7, "owner": "fast",
        "key": "sched_min_granularity_ns", "value": "10000000" }));
    configured.push(serde_json::json!({ "by": "boot", "file": "/proc/cmdline", "key": "preempt", "value": "none" }));
    let live = settings.iter().map(|(key, value)| (format!("/proc/sys/kernel/{key}"), serde_json::json!(value)));
    let mut live: serde_json::Map<String, serde_json::Value> = live.collect();
    live.insert("/proc/sys/kernel/sched_rr_timeslice_ms".into(), "10".into());
    live.insert("/proc/sys/kernel/sched_rt_period_us".into(), "1000000".into());
    live.insert("/proc/sys/kernel/sched_tunable_scaling".into(), "1".into());
    live.insert("/proc/sys/kernel/sched_latency_ns".into(), "48000000".into());
    let tasks = serde_json::json!([
        { "tid": 700, "comm": "mysqld", "policy": "other", "allowed": "0-7", "cgroup": "/system.slice", "start_ticks": 9 },
        { "tid": 800, "comm": "scrub", "policy": "idle", "allowed": "0-7", "cgroup": "/system.slice", "start_ticks": 9 },
        { "tid": 900, "comm": "audio", "policy": "fifo", "rt_priority": 60, "allowed": "0-7", "cgroup": "/", "start_ticks": 9 },
    ]);
    let host = |release: &str, version: &str| {
        let json = serde_json::json!({
            "schema": "unstarve.snapshot/1",
            "kernel": { "release": release, "version": version, "machine": "x86_64", "cmdline": "quiet preempt=none" },
            "settings": live, "cpus": { "online": "0-7" }, "configured": configured, "tasks": tasks,
            "features": { "GENTLE_FAIR_SLEEPERS": false, "RT_PUSH_IPI": false },
        });
        (format!("tuned {release}"), Snapshot::from_json(&json.to_string()).expect("a snapshot"))
    };
    vec![
        host("5.10.0-32-amd64", "#1 SMP Debian 5.10.223-1 (2024-08-10)"),
        host("6.1.0-32-amd64", "#1 SMP PREEMPT_DYNAMIC Debian 6.1.176-1 (2026-05-06)"),
        host("6.12.20", "#1 SMP PREEMPT_DYNAMIC"),
    ]
}

fn hosts() -> Vec<(String, Snapshot)> {
    stored().into_iter().chain(tuned()).collect()
}

fn upgraded(snapshot: &Snapshot, to: &str) -> Audit {
    audit_upgrade(snapshot, to.parse().expect("a version"))
}

fn check_words(name: &str, page: &str) {
    let words = format!(" {} ", page.to_lowercase().replace(|c: char| !c.is_alphanumeric(), " "));
    let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
    for refused in REFUSED_WORDS {
        assert!(!format!(" {words} ").contains(&format!(" {refused} ")), "{name}: `{refused}` in\n{page}");
    }
}

fn check_width(name: &str, page: &str, width: usize) {
    for line in page.lines() {
        assert!(line.width() <= width, "{name}: {} columns: {line}", line.width());
    }
}

/// No part of a sentence of six words or more occurs twice.
fn check_repetition(name: &str, page: &str) {
    let mut parts = BTreeSet::new();
    let clauses = page.replace("; ", "\n").replace(". ", "\n");
    for part in clauses.lines().map(str::trim).filter(|part| part.split(' ').count() > 5) {
        assert!(parts.insert(part), "{name}: twice `{part}` in\n{page}");
    }
}

#[test]
fn every_page_fits_and_says_each_thing_once() {
    let mut pages = 0;
    let mut check = |name: &str, audit: &Audit, most: usize| {
        for width in [60, 80, 132] {
            let page = audit_page(audit, look(width));
            let name = format!("{name} at {width}");
            assert!(page.lines().count() <= most, "{name}: {} lines\n{page}", page.lines().count());
            assert_eq!(page.contains("For you, "), audit.upgrade_to.is_some(), "{name}: {page}");
            check_width(&name, &page, width);
            check_words(&name, &page);
            pages += 1;
        }
        // Wide enough for each item to be on one line.
        check_repetition(name, &audit_page(audit, look(Look::MAX_WIDTH)));
    };
    for (name, snapshot) in hosts() {
        check(&name, &audit(&snapshot), 23);
        for to in TARGETS {
            check(&format!("{name} to {to}"), &upgraded(&snapshot, to), 47);
        }
    }
    assert!(pages > 500, "{pages} pages");
}

#[test]
fn every_report_is_on_the_page_once() {
    for (name, snapshot) in hosts() {
        for to in TARGETS {
            let audit = upgraded(&snapshot, to);
            let mut reports = BTreeSet::new();
            let of_kernels = audit.hits.iter().filter(|hit| hit.rule == "known-bug" || hit.rule == "known-change");
            for hit in of_kernels {
                let report = hit.report.as_ref().expect("a report");
                assert!(reports.insert(report), "{name} to {to}: {report} twice");
            }
        }
    }
}

#[test]
fn the_full_page_has_every_hit_and_no_script() {
    for (name, snapshot) in hosts() {
        for to in [None, Some("6.1"), Some("6.12"), Some("7.2")] {
            let audit = to.map_or_else(|| audit(&snapshot), |to| upgraded(&snapshot, to));
            let page = audit_full_page(&audit, look(80));
            let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
            let on_page = words(&page);
            for hit in &audit.hits {
                assert!(on_page.contains(&words(&hit.sentence)), "{name}: {}", hit.sentence);
            }
            check_words(&name, &page);
            let has_script = ["set -Ceu", "/proc/$t/stat", "pgrep"].iter().any(|part| page.contains(part));
            assert!(!has_script, "{name}: {page}");
            let script = audit_shell(&audit);
            let fixes = audit.hits.iter().flat_map(|hit| &hit.fixes).filter(|fix| !fix.apply.is_empty());
            for fix in fixes {
                assert!(fix.apply.lines().all(|line| script.contains(line)), "{name}: {}", fix.apply);
                assert!(fix.undo.lines().all(|line| script.contains(line)), "{name}: {}", fix.undo);
            }
        }
    }
}

/// How many items a page lists as of the upgrade, and as wrong today; `3 more (--full)` are three.
fn listed(page: &str) -> [usize; 2] {
    let (mut counts, mut part) = ([0, 0], None);
    for line in page.lines().skip_while(|line| !line.is_empty()) {
        if line.starts_with(|c: char| c.is_alphabetic()) {
            let is_other = ["Ended", "Reported", "Not seen", "Every", "All"].iter().any(|word| line.starts_with(word));
            part = (!is_other).then(|| usize::from(line.starts_with("Wrong today")));
        }
        let Some(part) = part else { continue };
        if ["  CRITICAL  ", "  WARNING  ", "  note  "].iter().any(|label| line.starts_with(label)) {
            counts[part] += 1;
        } else if let Some((count, _)) = line.trim().split_once(" more (--full)") {
            counts[part] += count.parse::<usize>().expect("a count");
        }
    }
    counts
}

/// How many of them the head of the page says.
fn said(page: &str) -> [usize; 2] {
    let head: Vec<&str> = page.split("\n\n").next().unwrap_or_default().split_whitespace().collect();
    let head = head.join(" ");
    let Some((_, counts)) = head.split_once("Because of ") else { return [0, 0] };
    let sum = |text: &str| text.split([' ', ',', '.']).filter_map(|word| word.parse::<usize>().ok()).sum();
    let (new, today) = counts.split_once("Today already: ").expect("both counts");
    [sum(new), sum(today)]
}

#[test]
fn as_many_are_listed_as_the_page_says() {
    for (name, snapshot) in hosts() {
        for to in TARGETS {
            let page = audit_page(&upgraded(&snapshot, to), look(80));
            assert_eq!(listed(&page), said(&page), "{name} to {to}: {page}");
        }
    }
}

#[test]
fn counts_name_the_upgrade() {
    let (_, host) = tuned().into_iter().next().expect("a host");
    let audit = upgraded(&host, "6.12.107");
    let page = audit_page(&audit, look(80));
    assert!(page.contains("Because of the upgrade: 5 warnings, 5 notes. Today already: nothing."), "{page}");
    insta::assert_snapshot!("tuned_to_6_12", page);
    insta::assert_snapshot!("tuned_today", audit_page(&unstarve_check::audit(&host), look(80)));
}

#[test]
fn the_published_case_before_its_upgrade() {
    let (_, host) = stored().into_iter().find(|(name, _)| name == "storage-controller-5.10.json").expect("testdata");
    insta::assert_snapshot!("controller_to_6_12", audit_page(&upgraded(&host, "6.12"), look(80)));
    insta::assert_snapshot!("controller_today", audit_page(&audit(&host), look(80)));
}
