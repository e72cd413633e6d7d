//! `unstarve sql`, without its engine.

use std::process::Command;

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("UTF-8")
}

/// The engine is a program of its own, found beside this one or in the PATH.
#[test]
fn sql_is_answered_by_a_program_beside_it() {
    let place = tempfile::tempdir().expect("a place for files");
    let program = place.path().join("unstarve-sql");
    let call = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_unstarve"));
        command.args(["sql", "--format", "csv", "select 1", "--help"]).env("PATH", place.path());
        command.output().expect("it can be started")
    };
    std::fs::write(&program, "").expect("it can be written");
    let output = call();
    assert_eq!(output.status.code(), Some(2), "not executable: {output:?}");
    assert!(text(&output.stderr).contains("make build-sql"), "{output:?}");
    std::fs::remove_file(&program).expect("it is ours");
    std::os::unix::fs::symlink("/bin/echo", &program).expect("it can be made");
    let output = call();
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), "--format csv select 1 --help\n"), "{output:?}");
}

/// Who has no engine reads how to have one, and what reads the tables without it: as the documentation says.
#[test]
fn without_the_engine_the_way_to_ask_duckdb_is_shown() {
    let place = tempfile::tempdir().expect("a place for files");
    let documented = include_str!("../../../docs/tables.md").split("    duckdb -c").nth(1).expect("the example");
    let documented = documented.split("\n\n").next().expect("its end");
    // Who asks for help has not failed.
    for (arguments, code) in [(&["sql", "--help"][..], 0), (&["sql", "-h"], 0), (&["sql", "select 1", "tables"], 2)] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_unstarve"));
        let output = command.args(arguments).env("PATH", place.path()).output().expect("it can be started");
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        let said = text(if code == 0 { &output.stdout } else { &output.stderr });
        assert!(said.contains("it is in no package; build it from the source with `make build-sql`"), "{said}");
        assert!(said.contains(&format!("    duckdb -c{documented}")), "{said}");
        assert_eq!(said.contains("Usage: unstarve sql"), code == 0, "{said}");
    }
}
