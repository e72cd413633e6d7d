//! testdata/logs: each log has a label that it bears out, and each scenario that makes one can be read.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use unstarve_lab::scenario::Scenario;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn names_in(directory: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(directory).expect("a directory").filter_map(Result::ok);
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Rows of a table with a heading, each as (column, value).
fn rows(text: &str) -> Vec<Vec<(&str, &str)>> {
    let mut lines = text.lines().filter(|line| !line.starts_with('#'));
    let columns: Vec<&str> = lines.next().expect("a heading").split('\t').collect();
    lines.map(|line| columns.iter().copied().zip(line.split('\t')).collect()).collect()
}

fn value<'a>(row: &[(&str, &'a str)], column: &str) -> &'a str {
    row.iter().find(|(name, _)| *name == column).map(|(_, value)| *value).unwrap_or_else(|| panic!("no {column}"))
}

#[test]
fn each_log_has_a_label_that_it_bears_out() {
    let directory = root().join("testdata/logs");
    let labels = fs::read_to_string(directory.join("labels.tsv")).expect("labels");
    let rows = rows(&labels);
    let labelled: BTreeSet<String> = rows.iter().map(|row| value(row, "file").to_owned()).collect();
    let mut there = names_in(&directory);
    there.remove("labels.tsv");
    there.remove("recordings");
    assert_eq!(there, labelled);
    let mut recordings: BTreeSet<String> = rows.iter().map(|row| value(row, "recording").to_owned()).collect();
    recordings.remove("-");
    assert_eq!(names_in(&directory.join("recordings")), recordings);
    for row in &rows {
        let file = value(row, "file");
        assert!(!value(row, "truth").is_empty(), "{file}: how is its truth known?");
        if file.ends_with(".zst") {
            continue;
        }
        let log = fs::read_to_string(directory.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        let (victim, culprit) = (value(row, "victim"), value(row, "culprit").trim_matches(['(', ')']));
        // Of these threads the log has the CPU, and what they did not do.
        let is_meant = victim.starts_with("rcuc/") && log.contains(" rcuc=")
            || victim.starts_with("ksoftirqd/") && log.contains(" ticks this GP)");
        assert!(victim == "-" || is_meant || log.contains(victim), "{file} does not name {victim}");
        if let Some((tid, comm)) = culprit.split_once('/') {
            assert!(log.contains(comm) && log.contains(tid), "{file} does not name {culprit}");
        } else {
            assert_eq!(culprit, "-", "{file}");
        }
        assert!(value(row, "lasted_s") == "-" || value(row, "lasted_s").parse::<f64>().is_ok(), "{file}");
    }
}

#[test]
fn the_scenarios_of_logs_can_be_read() {
    let directory = root().join("crates/lab/scenarios/logs");
    let cases = fs::read_to_string(root().join("bench/logs/cases.tsv")).expect("cases");
    let used: BTreeSet<&str> = rows(&cases).iter().map(|row| value(row, "scenario")).collect();
    let files = names_in(&directory);
    let have: BTreeSet<&str> = files.iter().filter_map(|name| name.strip_suffix(".toml")).collect();
    assert!(!have.is_empty());
    assert_eq!(have, used, "each scenario has a log");
    for name in have {
        Scenario::read(&directory.join(format!("{name}.toml"))).unwrap_or_else(|error| panic!("{error}"));
    }
}
