//! A store that `unstarve fleet compact` keeps: each row once, merged or not.

use std::process::Command;

use super::{ALL, REAL, copy, file_of_blame, has_duckdb, path, rows, sql, text};

#[test]
fn each_row_is_read_once_before_and_after_it_is_merged() {
    if !has_duckdb() {
        return;
    }
    let expected = rows(ALL, REAL);
    let store = tempfile::tempdir().expect("a place for files");
    let hosts = copy(&format!("{REAL}/merged"));
    let copied = Command::new("cp").arg("-r").arg(hosts.path()).arg(store.path().join("hosts")).status();
    assert!(copied.expect("cp can be started").success());
    let place = path(store.path());
    let merged = || text(&sql(&["--merged", "--format", "csv", "select count(*) from blame_rollup", place]).stdout);
    assert_eq!((rows(ALL, place), merged()), (expected.clone(), "count_star()\n0\n".to_owned()), "nothing is merged");
    let compact = ["fleet", "compact", "--settle", "0s", place];
    let output = Command::new(env!("CARGO_BIN_EXE_unstarve")).args(compact).output().expect("it can be started");
    assert!(output.status.success(), "{output:?}");
    // The files of hosts are there still, for their grace.
    assert!(file_of_blame(&store.path().join("hosts")).exists());
    let all = format!("count_star()\n{}\n", expected.len());
    assert_eq!((rows(ALL, place), merged()), (expected.clone(), all), "all is merged");
    let copies = tempfile::tempdir().expect("a place for files");
    let copied = Command::new("cp").arg("-r").arg(store.path().join("merged")).arg(copies.path()).status();
    assert!(copied.expect("cp can be started").success());
    assert_eq!(rows(ALL, path(copies.path())), expected, "a copy of the merged files alone");
}
