//! DuckDB answers the same questions about the same files.

use std::path::Path;
use std::process::Command;

const FLEET: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fleet");
const REAL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/real");

/// A view and a question about it whose answer both engines write the same way.
const QUESTIONS: [(&str, &str); 8] = [
    ("starved_roles", "select host, victim_role, ns from starved_roles order by 1, 2"),
    ("starved_io_workers", "select host, kernel, occupant, rule, ns from starved_io_workers order by 1, 3, 4"),
    ("kernels", "select kernel, hosts, ns, round(share * 1e6)::bigint from kernels order by 1"),
    ("top_culprits", "select occupant, rule, hosts, ns from top_culprits order by 1, 2"),
    ("by_day", "select host, ns from by_day order by 1, day"),
    (
        "new_since_yesterday",
        "select host, victim_role, occupant, rule, ns from new_since_yesterday order by 1, 2, 3, 4",
    ),
    ("worst_episodes", "select host, id, ns from worst_episodes order by 1, 2"),
    ("silent_hosts", "select host from silent_hosts order by 1"),
];

fn has_duckdb() -> bool {
    let found =
        Command::new("python3").args(["-c", "import duckdb"]).output().is_ok_and(|output| output.status.success());
    if !found {
        println!("skipped: python3 has no module duckdb");
    }
    found
}

fn program(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_unstarve-sql")).args(arguments).output().expect("it can be started");
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

fn definition(view: &str) -> String {
    let question = format!("select definition from information_schema.views where table_name = '{view}'");
    let place = tempfile::tempdir().expect("a place for files");
    let file = place.path().join("view.json");
    program(&["-o", file.to_str().expect("UTF-8"), &question, REAL]);
    let json = std::fs::read_to_string(file).expect("it was written");
    let text = json.split_once(":\"").and_then(|(_, rest)| rest.rsplit_once('"')).expect("one row").0;
    text.replace("\\n", "\n").replace("\\\"", "\"")
}

#[test]
fn duckdb_agrees() {
    if !has_duckdb() {
        return;
    }
    let oracle = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oracle.py");
    for (view, question) in QUESTIONS {
        let definition = definition(view);
        for place in [REAL, FLEET] {
            let output = Command::new("python3").arg(&oracle).args([place, view, &definition, question]).output();
            let output = output.expect("python3 is there");
            assert!(output.status.success(), "{view}: {}", String::from_utf8_lossy(&output.stderr));
            let expected = String::from_utf8(output.stdout).expect("UTF-8");
            let found = program(&["--format", "csv", question, place]);
            let found = found.split_once('\n').map_or("", |(_, rows)| rows);
            assert_eq!(found, expected, "{view} of {place}");
        }
    }
}
