//! DuckDB answers the same questions about the same files.

mod days;
mod duck;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

const FLEET: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fleet");
/// Merged, with rows by the hour beside it, of which DuckDB knows nothing.
const HOURLY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/hourly");
const REAL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/real");

/// Every view, and a question about it whose answer both engines write the same way. `make bench-fleet` asks them, too.
fn questions() -> BTreeMap<String, String> {
    serde_json::from_str(include_str!("questions.json")).expect("texts by views")
}

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

#[test]
fn every_view_is_asked() {
    let all = definitions();
    let all = all.as_array().expect("rows").iter().map(|row| row["table_name"].as_str().expect("a name").to_owned());
    assert_eq!(all.collect::<BTreeSet<_>>(), questions().into_keys().collect());
}

#[test]
fn duckdb_agrees() {
    let definitions = definitions();
    let definition = |view: &str| {
        let mut rows = definitions.as_array().expect("rows").iter();
        rows.find(|row| row["table_name"] == view).and_then(|row| row["definition"].as_str()).expect("a view")
    };
    let questions: Vec<[String; 3]> = questions()
        .into_iter()
        .map(|(view, question)| {
            let definition = definition(&view).to_owned();
            [view, definition, question]
        })
        .collect();
    let days = days::fleet_with_a_day_before(write);
    let days = days.path().to_str().expect("UTF-8");
    for place in [REAL, FLEET, HOURLY, days] {
        let Some(expected) = duck::answers(place, &questions) else { return };
        for ([view, _, question], expected) in questions.iter().zip(&expected) {
            let found = program(&["--format", "csv", question, place]);
            let found = found.split_once('\n').map_or("", |(_, rows)| rows);
            assert_eq!(found, expected, "{view} of {place}");
            assert!(place != days || !found.is_empty(), "{view}: nothing was compared");
        }
    }
}

/// The answer to a question about the small fleet, as a file.
fn write(question: &str, file: &Path) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_unstarve-sql"));
    let output = command.arg("-o").arg(file).args([question, FLEET]).output().expect("it can be started");
    assert!(output.status.success(), "{output:?}");
}
