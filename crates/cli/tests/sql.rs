//! `unstarve sql` and `unstarve cluster`, without their engines.

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

/// With `--cluster` another one answers, so that who asks one machine needs no more than before.
#[test]
fn a_cluster_is_asked_by_another_program() {
    let place = tempfile::tempdir().expect("a place for files");
    for (name, words) in [("unstarve-sql", "one"), ("unstarve-cluster", "many")] {
        let program = place.path().join(name);
        std::fs::write(&program, format!("#!/bin/sh\necho {words} \"$@\"\n")).expect("it can be written");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&program, mode).expect("it is ours");
    }
    let said = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_unstarve"));
        let output = command.args(arguments).env("PATH", place.path()).output().expect("it can be started");
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {output:?}");
        text(&output.stdout).trim_end().to_owned()
    };
    assert_eq!(said(&["sql", "select 1", "tables"]), "one select 1 tables");
    assert_eq!(said(&["sql", "--cluster", "df://a:1", "select 1", "p"]), "many sql --cluster df://a:1 select 1 p");
    assert_eq!(said(&["sql", "select 1", "p", "--cluster=df://a:1"]), "many sql select 1 p --cluster=df://a:1");
    assert_eq!(said(&["sql", "select '--cluster'", "--", "--cluster"]), "one select '--cluster' -- --cluster");
    assert_eq!(said(&["cluster", "scheduler", "--help"]), "many scheduler --help");
}

#[test]
fn a_cluster_that_is_not_installed_says_how_it_is_had() {
    let place = tempfile::tempdir().expect("a place for files");
    for arguments in [&["cluster", "scheduler"][..], &["sql", "--cluster", "df://a:1", "select 1", "p"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_unstarve"));
        let output = command.args(arguments).env("PATH", place.path()).output().expect("it can be started");
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(text(&output.stderr).contains("make build-cluster"), "{output:?}");
    }
}

/// Who asks for help has not failed.
#[test]
fn help_of_a_cluster_is_there_without_its_engine() {
    let place = tempfile::tempdir().expect("a place for files");
    for option in ["--help", "-h"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_unstarve"));
        let output = command.args(["cluster", option]).env("PATH", place.path()).output().expect("it can be started");
        let said = text(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert!(said.contains("Usage: unstarve cluster scheduler") && said.contains("`make build-cluster`"), "{said}");
    }
}
