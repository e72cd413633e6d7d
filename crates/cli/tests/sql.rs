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
