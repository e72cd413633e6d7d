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

/// Files of hosts that nobody has merged: what `fleet compact` would refuse stops no question and adds nothing, whether a compactor or a reader
/// finds it first. One line says how many.
#[test]
fn what_a_compactor_would_refuse_is_left_out() {
    if !has_duckdb() {
        return;
    }
    let (expected, store) = (rows(ALL, REAL), tempfile::tempdir().expect("a place for files"));
    let copied = Command::new("cp").arg("-r").arg(format!("{REAL}/merged")).arg(store.path().join("hosts")).status();
    assert!(copied.expect("cp can be started").success());
    let (place, file) = (path(store.path()), file_of_blame(store.path()));
    let beside = |name: &str| file.with_file_name(name);
    let replaced = |name: &str, what: &str| {
        let question = format!("select * replace ({what}) from blame_rollup");
        assert!(sql(&["-o", path(&beside(name)), &question, REAL]).status.success());
    };
    let whole = std::fs::read(&file).expect("it is there");
    std::fs::write(beside("text.parquet"), "PAR1 damaged").expect("it can be written");
    std::fs::write(beside("torn.parquet"), &whole[..whole.len() / 2]).expect("it can be written");
    let mut damaged = whole.clone();
    damaged[4..whole.len() / 2].fill(0xff);
    std::fs::write(beside("pages.parquet"), damaged).expect("it can be written");
    // Each of these would change the type of a column for all others, or take away from their sums.
    replaced("real.parquet", "ns::double as ns");
    replaced("number.parquet", "1 as host");
    replaced("negative.parquet", "-ns as ns");
    let asked = || {
        let output = sql(&["--format", "csv", ALL, place]);
        assert!(output.status.success(), "{output:?}");
        (text(&output.stdout).lines().skip(1).map(str::to_owned).collect::<Vec<_>>(), text(&output.stderr))
    };
    let check = |what: &str| {
        let (found, said) = asked();
        assert!(found == expected, "{what}: {} rows", found.len());
        let line = said.lines().filter(|line| line.contains("left out")).collect::<Vec<_>>();
        assert!(line.len() == 1 && line[0].starts_with("6 files of hosts left out"), "{what}: {said}");
    };
    check("by the first question");
    check("by another one");
    let compact = ["fleet", "compact", "--settle", "0s", place];
    let output = Command::new(env!("CARGO_BIN_EXE_unstarve")).args(compact).output().expect("it can be started");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    check("after they were refused");
    let other = sql(&["--format", "csv", "select count(*) from episodes", place]);
    assert!(
        other.status.success() && other.stderr.is_empty(),
        "of a table that is not asked nothing is said: {other:?}"
    );
    assert!(sql(&["--merged", ALL, place]).stderr.is_empty());
}

/// Places in which files have the same rows: a directory above a store, a store of an earlier version, a pattern over both. None of them is read
/// doubled; the tree of merged files is, wherever one asks from.
#[test]
fn files_with_the_same_rows_are_refused() {
    if !has_duckdb() {
        return;
    }
    let place = tempfile::tempdir().expect("a place for files");
    let hour = "table=blame_rollup/date=2026-11-23/hour=08";
    let put = |to: &str| {
        let to = place.path().join(to);
        std::fs::create_dir_all(to.parent().expect("a directory")).expect("it can be made");
        std::fs::copy(file_of_blame(std::path::Path::new(REAL)), to).expect("it can be copied");
    };
    let merged = "merged-by-commit-00000001-6f1a6f1a6f1a6f1a.parquet";
    put(&format!("fleet/store/hosts/v1/{hour}/web1.parquet"));
    put(&format!("fleet/store/merged/v1/{hour}/{merged}"));
    put(&format!("copy/early/{hour}/web1.parquet"));
    put(&format!("copy/early/{hour}/{merged}"));
    let count = "select count(*) > 0 from blame_rollup";
    let of = |name: &str| path(&place.path().join(name)).to_owned();
    for (asked, why) in [
        (of("fleet"), "below hosts/ and merged/"),
        (of("fleet/**/*.parquet"), "below hosts/ and merged/"),
        (of("copy"), "`unstarve fleet migrate`"),
        (of("copy/early/table=*/**/*.parquet"), "`unstarve fleet migrate`"),
    ] {
        let output = sql(&[count, &asked]);
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains(why), "{asked}: {output:?}");
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_unstarve"));
    command.args(["sql", "--format", "csv", count, "date=*/**/*.parquet"]);
    let output = command.current_dir(place.path().join("fleet/store/merged/v1/table=blame_rollup")).output();
    assert_eq!(text(&output.expect("it can be started").stdout), "(count_star() > 0)\ntrue\n");
}
