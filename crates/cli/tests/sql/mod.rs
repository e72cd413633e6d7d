//! `unstarve sql` as a user meets it, with DuckDB's program.
//!
//! `views/data/fleet` has tables of a small fleet with known faults, whose answers are known; `views/data/real` what a watch wrote on
//! a virtual machine. That the views answer as other engines do is `views/test_views.py`'s.

mod answers;
mod buckets;
mod hostile;
mod page;
mod stores;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

pub const FLEET: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../views/data/fleet");
pub const REAL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../views/data/real");

/// All rows of a table, in an order.
pub const ALL: &str = "select * from blame_rollup order by ts, victim_role, occupant, rule, ns";

/// Whether the engine is there; if not, skip the test.
pub fn has_duckdb() -> bool {
    unstarve_testing::tool("duckdb").is_some()
}

pub fn sql(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_unstarve"));
    // What is known of files stays out of the user's cache.
    command.env("XDG_CACHE_HOME", concat!(env!("CARGO_TARGET_TMPDIR"), "/cache"));
    command.arg("sql").args(arguments).stdin(Stdio::null()).output().expect("it can be started")
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

/// The rows of a question as CSV, without the names.
pub fn rows(question: &str, place: &str) -> Vec<String> {
    let output = sql(&["--format", "csv", question, place]);
    assert!(output.status.success(), "{question}: {output:?}");
    text(&output.stdout).lines().skip(1).map(str::to_owned).collect()
}

/// The answer to a question about the small fleet, as a file.
pub fn write(question: &str, file: &Path) {
    let output = sql(&["-o", path(file), question, FLEET]);
    assert!(output.status.success(), "{question}: {output:?}");
}

pub fn path(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// A copy of a directory that a test may change.
pub fn copy(of: &str) -> tempfile::TempDir {
    let place = tempfile::tempdir().expect("a place for files");
    let copied = Command::new("cp").arg("-r").arg(format!("{of}/.")).arg(place.path()).status();
    assert!(copied.expect("cp can be started").success());
    place
}

/// Everything in a directory and below.
pub fn below(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).expect("it is there").map(|entry| entry.expect("an entry").path());
    let mut all: Vec<PathBuf> = entries.collect();
    let deeper: Vec<PathBuf> = all.iter().filter(|path| path.is_dir()).flat_map(|path| below(path)).collect();
    all.extend(deeper);
    all.sort();
    all
}

/// A file of `blame_rollup`.
pub fn file_of_blame(place: &Path) -> PathBuf {
    let is_one = |path: &PathBuf| path.is_file() && path.to_string_lossy().contains("table=blame_rollup/");
    below(place).into_iter().find(is_one).expect("a file of blame_rollup")
}

/// The small fleet with a day before: 30 hours earlier it had all rows that it has, but none of `/batch.slice`, a host more, and its
/// episodes were storms of wakeups on 6.1, those of one host about a program. With what was proved beside it.
pub fn fleet_with_a_day_before() -> tempfile::TempDir {
    let place = copy(FLEET);
    let earlier = "ts - interval 30 hours as ts";
    for (table, question) in [
        ("blame_rollup", format!("select * replace ({earlier}) from blame_rollup where occupant <> '/batch.slice'")),
        (
            "wait_rollup",
            format!("select * replace ({earlier}, 'host-gone' as host) from wait_rollup where host = 'host-0000'"),
        ),
        (
            "episodes",
            format!(
                "select * replace (id || '-storm' as id, {earlier}, 'wake-storm' as finding, '6.1.0-planted' as kernel,
                 case when host = 'host-0003' then 'other' else victim_role end as victim_role) from episodes"
            ),
        ),
    ] {
        let hour = place.path().join(format!("merged/v1/table={table}/date=2026-11-20/hour=18"));
        std::fs::create_dir_all(&hour).expect("it can be made");
        write(&question, &hour.join("earlier.parquet"));
    }
    place
}
