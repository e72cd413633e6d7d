//! DuckDB answers the same questions about the same files.

mod days;

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

const FLEET: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fleet");
const REAL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/real");

/// Every view, and a question about it whose answer both engines write the same way.
const QUESTIONS: [(&str, &str); 20] = [
    ("starved_roles", "select host, victim_role, ns from starved_roles order by 1, 2"),
    ("starved_io_workers", "select host, kernel, occupant, rule, ns from starved_io_workers order by 1, 2, 3, 4"),
    ("kernels", "select kernel, hosts, ns, round(share * 1e6)::bigint from kernels order by 1"),
    ("top_culprits", "select occupant, rule, hosts, ns from top_culprits order by 1, 2"),
    (
        "wait_quantiles",
        "select host, victim_role, n, round(p50_ns / 1e2)::bigint, round(p99_ns / 1e2)::bigint, round(p999_ns / 1e2)::bigint from wait_quantiles order by 1, 2",
    ),
    ("by_day", "select host, ns from by_day order by 1, day"),
    (
        "new_since_yesterday",
        "select host, victim_role, occupant, rule, ns from new_since_yesterday order by 1, 2, 3, 4",
    ),
    (
        "setting_outliers",
        "select host, path, value, usual, hosts_with_usual, kernel from setting_outliers order by 1, 2",
    ),
    ("worst_episodes", "select host, id, finding, culprit, ns from worst_episodes order by 1, 2"),
    ("silent_hosts", "select host from silent_hosts order by 1"),
    ("rules", "select rule, hosts, ns, round(share * 1e6)::bigint from rules order by 1"),
    ("by_hour", "select hosts, ns from by_hour order by hour"),
    ("throttled_groups", "select cgroup, hosts, ns from throttled_groups order by 1"),
    ("longest_waits", "select host, victim_role, max_ns from longest_waits order by 1, 2"),
    ("kernel_changes", "select host, kernel, ns, round(share * 1e6)::bigint from kernel_changes order by 1, first"),
    ("worst_hosts", "select host, ns, round(share * 1e6)::bigint from worst_hosts order by 1"),
    ("top_victims", "select victim_role, rule, hosts, ns from top_victims order by 1, 2"),
    ("by_labels", "select coalesce(labels, 'none'), hosts, ns, round(share * 1e6)::bigint from by_labels order by 1"),
    (
        "peer_outliers",
        "select host, kernel, round(share * 1e6)::bigint, round(usual * 1e6)::bigint, hosts from peer_outliers order by 1, 2",
    ),
    ("episode_causes", "select finding, culprit_role, rule, episodes, hosts, ns from episode_causes order by 1, 2, 3"),
];

fn program(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_unstarve-sql")).args(arguments).output().expect("it can be started");
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// The definitions of all views.
fn definitions() -> serde_json::Value {
    let question = "select table_name, definition from information_schema.views where definition is not null";
    serde_json::from_str(&program(&["--format", "json", question, REAL])).expect("JSON")
}

fn oracle(place: &str, questions: &[[&str; 3]]) -> Vec<String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oracle.py");
    let mut command = Command::new("python3");
    command.arg(&script).arg(place).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("python3 is there");
    let questions = serde_json::to_vec(questions).expect("texts");
    child.stdin.take().expect("a pipe").write_all(&questions).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{place}: {output:?}");
    serde_json::from_slice(&output.stdout).expect("texts")
}

#[test]
fn every_view_is_asked() {
    let all = definitions();
    let all = all.as_array().expect("rows").iter().map(|row| row["table_name"].as_str().expect("a name"));
    assert_eq!(all.collect::<BTreeSet<_>>(), QUESTIONS.iter().map(|(view, _)| *view).collect());
}

#[test]
fn duckdb_agrees() {
    if !unstarve_testing::python_module("duckdb") {
        return;
    }
    let definitions = definitions();
    let definition = |view: &str| {
        let mut rows = definitions.as_array().expect("rows").iter();
        rows.find(|row| row["table_name"] == view).and_then(|row| row["definition"].as_str()).expect("a view")
    };
    let questions: Vec<[&str; 3]> =
        QUESTIONS.iter().map(|(view, question)| [*view, definition(view), *question]).collect();
    let days = days::fleet_with_a_day_before();
    let days = days.path().to_str().expect("UTF-8");
    for place in [REAL, FLEET, days] {
        let expected = oracle(place, &questions);
        for ((view, question), expected) in QUESTIONS.iter().zip(&expected) {
            let found = program(&["--format", "csv", question, place]);
            let found = found.split_once('\n').map_or("", |(_, rows)| rows);
            assert_eq!(found, expected, "{view} of {place}");
            assert!(place != days || !found.is_empty(), "{view}: nothing was compared");
        }
    }
}
