//! When a test may be left out: one rule for all tests.
//!
//! A program that is not installed leaves a test out on somebody's laptop, and fails it where `CI` is `true`: there
//! `tools/setup.sh` has to install it. What this kind of machine cannot have (no right to make a namespace, no tracefs)
//! leaves a test out everywhere. A program that is there and fails is a failure, always.

use std::env;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;

/// Where a program is that a test needs; `None` leaves the test out.
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

/// Whether Python has a module that a test needs; if not, the test is left out.
///
/// # Panics
/// In CI, if it has not.
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

/// Says why a test is left out that this kind of machine cannot run, CI or not.
pub fn not_possible_here(why: impl std::fmt::Display) {
    skipped(format_args!("{why}"));
}

/// One line on the test program's own output, which the runner of tests would keep to itself if the test passed: `make test` counts it.
fn skipped(why: std::fmt::Arguments) {
    let name = std::thread::current().name().unwrap_or("a test").to_owned();
    // A reader that went away does not fail a test.
    let _gone = writeln!(std::io::stdout(), "\nskipped: {name}: {why}");
}

fn in_ci() -> bool {
    env::var_os("CI").is_some_and(|value| value == "true")
}

fn find(name: &str, path: &std::ffi::OsStr) -> Option<PathBuf> {
    // A daemon's PATH has no sbin.
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
