//! When a test may be skipped: one rule for all tests.
//!
//! A missing program skips a test on a developer's machine and fails it where `CI` is `true`: there `tools/setup.sh`
//! must install it. What this kind of machine cannot have (no right to make a namespace, no tracefs) skips a test
//! everywhere. A program that exists and fails is always a failure.

use std::env;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;

/// The path of a program that a test needs; `None` skips the test.
///
/// # Panics
/// In CI, if it is not installed.
pub fn tool(name: &str) -> Option<PathBuf> {
    let found = find(name, &env::var_os("PATH").unwrap_or_default());
    if found.is_none() {
        assert!(!in_ci(), "{name} is not installed: in CI that is a failure (tools/setup.sh installs what tests need)");
        skipped(format_args!("{name} is not installed"));
    }
    found
}

/// Whether Python has a module that a test needs; if not, skip the test.
///
/// # Panics
/// In CI, if it is missing.
pub fn python_module(name: &str) -> bool {
    let Some(python) = tool("python3") else { return false };
    let output = Command::new(python).args(["-c", &format!("import {name}")]).output();
    let has = output.as_ref().is_ok_and(|output| output.status.success());
    if !has {
        let why = output.map(|output| String::from_utf8_lossy(&output.stderr).into_owned());
        assert!(!in_ci(), "python3 has no {name}: in CI that is a failure (tools/setup.sh installs it)\n{why:?}");
        skipped(format_args!("python3 has no {name}"));
    }
    has
}

/// Reports that this kind of machine cannot run a test, in CI too.
pub fn not_possible_here(why: impl std::fmt::Display) {
    skipped(format_args!("{why}"));
}

/// Writes a line to the test program's own output, which the test runner would hide for a passing test: `make test`
/// counts these lines.
fn skipped(why: std::fmt::Arguments) {
    let name = std::thread::current().name().unwrap_or("a test").to_owned();
    // A closed reader does not fail a test.
    let _gone = writeln!(std::io::stdout(), "\nskipped: {name}: {why}");
}

fn in_ci() -> bool {
    env::var_os("CI").is_some_and(|value| value == "true")
}

fn find(name: &str, path: &std::ffi::OsStr) -> Option<PathBuf> {
    // A daemon's PATH lacks sbin.
    let directories = env::split_paths(path).chain(["/usr/sbin", "/sbin"].map(PathBuf::from));
    directories.map(|directory| directory.join(name)).find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_where_a_shell_finds_them() {
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::write(directory.path().join("some-tool"), "").expect("written");
        let path = directory.path().as_os_str();
        assert_eq!(find("some-tool", path), Some(directory.path().join("some-tool")));
        assert_eq!(find("no-such-tool-anywhere", path), None);
    }
}
