//! A store that `unstarve fleet compact` keeps: each row once, in every state that a store may be in.
//!
//! `tests/store` has the rows of `tests/real`: two of three files of hosts merged and still there, the third late; beside them a merged file that no commit
//! lists, and an hour that was dropped, with a late file.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const STORE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/store");
const REAL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/real");

fn sql(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_unstarve-sql"));
    command.args(arguments).stdin(Stdio::null()).output().expect("it can be started")
}

fn rows(question: &str, places: &[&str]) -> Vec<String> {
    let output = sql(&[&["--format", "csv", question][..], places].concat());
    assert!(output.status.success(), "{question}: {output:?}");
    String::from_utf8(output.stdout).expect("UTF-8").lines().skip(1).map(str::to_owned).collect()
}

const ALL: [&str; 2] = [
    "select * from blame_rollup order by ts, victim_role, occupant, rule, ns",
    "select host, ts, victim_role, n, sum_ns, max_ns, array_to_string(buckets, ' ') from wait_rollup order by ts, victim_role",
];

/// A copy of the store that a test may change.
fn copy() -> tempfile::TempDir {
    let place = tempfile::tempdir().expect("a place for files");
    let copied = Command::new("cp").arg("-r").arg(format!("{STORE}/.")).arg(place.path()).status();
    assert!(copied.expect("cp can be started").success());
    place
}

fn hour(place: &Path) -> PathBuf {
    place.join("table=blame_rollup/date=2026-11-23/hour=08")
}

fn path(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

#[test]
fn each_row_is_there_once() {
    for question in ALL {
        let expected = rows(question, &[REAL]);
        assert!(expected.len() > 10, "{question}");
        assert_eq!(rows(question, &[STORE]), expected);
        // However it is named: by a part of it, by all of its files, twice.
        let (table, files) = (format!("{STORE}/table=*"), format!("{STORE}/**/*.parquet"));
        assert_eq!(rows(question, &[&table]), expected);
        assert_eq!(rows(question, &[&files]), expected);
        assert_eq!(rows(question, &[STORE, &table, STORE]), expected);
    }
    let rows = rows("select table_name, sum(rows) from manifest group by 1 order by 1", &[STORE]);
    assert_eq!(rows, ["blame_rollup,137", "wait_rollup,14"]);
}

/// Files of hosts that were merged go after a while; so does what nobody listed. A listing may have been made before a merged file had its name.
#[test]
fn files_that_do_not_count_may_go() {
    let place = copy();
    let expected = rows(ALL[0], &[REAL]);
    for name in ["vm-c05a1cd7-1795421990359013721.parquet", "merged-by-commit-00000001-0123456789abcdef.parquet"] {
        std::fs::remove_file(hour(place.path()).join(name)).expect("it is there");
        assert_eq!(rows(ALL[0], &[path(place.path())]), expected);
    }
    // Without the late file only its rows are missing, and the inputs of the commit need not be read.
    for name in ["vm-c05a1cd7-1795422000128545134.parquet", "vm-late-1795422010120222850.parquet"] {
        std::fs::remove_file(hour(place.path()).join(name)).expect("it is there");
    }
    assert_eq!(rows(ALL[0], &[path(place.path())]).len(), 137);
}

/// Wrong rows are worse than none: what the commit lists and is not there, and a commit that is none, are errors.
#[test]
fn what_is_missing_or_torn_is_an_error() {
    let place = copy();
    let commit = hour(place.path()).join("_commit-00000001.json");
    let text = std::fs::read_to_string(&commit).expect("it is there");
    let refused = |words: &[&str]| {
        let output = sql(&[ALL[0], path(place.path())]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && words.iter().all(|word| said.contains(word)), "{output:?}");
    };
    std::fs::write(&commit, &text[..text.len() - 20]).expect("it can be written");
    refused(&["_commit-00000001.json", "line 3"]);
    std::fs::write(&commit, text.replacen("\"format\":1", "\"format\":2", 1)).expect("it can be written");
    refused(&["_commit-00000001.json", "format is 2"]);
    std::fs::remove_file(&commit).expect("it is there");
    std::fs::write(&commit, &text).expect("it can be written");
    assert_eq!(rows(ALL[0], &[path(place.path())]), rows(ALL[0], &[REAL]));
    let merged = text.split('"').find(|word| word.starts_with("merged-by")).expect("an output");
    std::fs::remove_file(hour(place.path()).join(merged)).expect("it is there");
    refused(&[merged]);
}

/// A file of another user is no commit, whatever is in it; but without the commits of the store's keeper rows would be missing. Only root can try.
#[test]
fn a_commit_of_somebody_else_is_not_believed() {
    let place = copy();
    let commit = hour(place.path()).join("_commit-00000001.json");
    if std::os::unix::fs::chown(&commit, Some(65_534), None).is_err() {
        unstarve_testing::not_possible_here("only root can give files away");
        return;
    }
    // All files of hosts are still there.
    assert_eq!(rows(ALL[0], &[path(place.path())]), rows(ALL[0], &[REAL]));
    std::os::unix::fs::chown(place.path().join("manifest.parquet"), Some(65_534), None).expect("root can");
    let output = sql(&[ALL[0], path(place.path())]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("not believed"), "{output:?}");
}

/// As `unstarve fleet compact` left the files of four hosts in two hours: the merged ones with their rows by the hour, and one of each table that came later.
const HOURLY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/hourly");

/// Views are asked of rows by the hour where there are such, and of the rows themselves where there are none: the answers are the same.
#[test]
fn rows_by_the_hour_answer_as_rows_do() {
    let questions: std::collections::BTreeMap<String, String> =
        serde_json::from_str(include_str!("questions.json")).expect("texts by views");
    let plain = tempfile::tempdir().expect("a place for files");
    let copied = Command::new("cp").arg("-r").arg(format!("{HOURLY}/.")).arg(plain.path()).status();
    assert!(copied.expect("cp can be started").success());
    let found = Command::new("find").arg(plain.path()).args(["-name", "*.hourly", "-print", "-delete"]).output();
    assert_eq!(String::from_utf8_lossy(&found.expect("find can be started").stdout).lines().count(), 4);
    for (view, question) in &questions {
        assert_eq!(rows(question, &[HOURLY]), rows(question, &[path(plain.path())]), "{view}");
    }
    // They are asked: there are far fewer, together with those that are not merged yet.
    for (hourly, table) in [("blame_hourly", "blame_rollup"), ("wait_hourly", "wait_rollup")] {
        let count = |table: &str, place: &str| -> u64 {
            rows(&format!("select count(*) from {table}"), &[place])[0].parse().expect("a number")
        };
        assert!(count(hourly, HOURLY) * 3 < count(table, HOURLY), "{hourly}");
        assert!(count(hourly, HOURLY) > count(table, HOURLY) / 12, "{hourly}");
        assert_eq!(count(hourly, path(plain.path())), count(table, HOURLY), "{hourly}: as they are");
    }
}

/// A file that is not what the commit says is not asked.
#[test]
fn another_file_by_the_hour_is_left_alone() {
    let place = tempfile::tempdir().expect("a place for files");
    let copied = Command::new("cp").arg("-r").arg(format!("{HOURLY}/.")).arg(place.path()).status();
    assert!(copied.expect("cp can be started").success());
    let hour = place.path().join("table=blame_rollup/date=2026-11-22/hour=00");
    let mut files = std::fs::read_dir(&hour).expect("it is there").map(|entry| entry.expect("it is there").path());
    let hourly = files.find(|path| path.extension().is_some_and(|ending| ending == "hourly")).expect("one");
    std::fs::write(hourly, "torn").expect("it can be written");
    let question = "select host, victim_role, ns from starved_roles";
    assert_eq!(rows(question, &[path(place.path())]), rows(question, &[HOURLY]));
}
