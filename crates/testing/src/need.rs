//! When a test may be left out: one rule for all tests.
//!
//! A program that is not installed leaves a test out on somebody's laptop, and fails it where `CI` is `true`: there
//! `tools/setup.sh` has to install it. What this kind of machine cannot have (no right to make a namespace, no tracefs)
//! leaves a test out everywhere. A program that is there and fails is a failure, always.

use std::env;
use std::path::PathBuf;

/// Where a program is that a test needs; `None` leaves the test out.
///
/// # Panics
/// In CI, if it is not installed.
pub fn tool(name: &str) -> Option<PathBuf> {
    let found = find(name, &env::var_os("PATH").unwrap_or_default());
    if found.is_none() {
        assert!(!in_ci(), "{name} is not installed: in CI that is a failure (tools/setup.sh installs what tests need)");
        println!("skipped: {name} is not installed");
    }
    found
}

/// Says why a test is left out that this kind of machine cannot run, CI or not.
pub fn not_possible_here(why: impl std::fmt::Display) {
    println!("skipped: {why}");
}

fn in_ci() -> bool {
    env::var_os("CI").is_some_and(|value| value == "true")
}

fn find(name: &str, path: &std::ffi::OsStr) -> Option<PathBuf> {
    // A daemon's PATH has no sbin.
    let directories = env::split_paths(path).chain(["/usr/sbin", "/sbin"].map(PathBuf::from));
    directories.map(|directory| directory.join(name)).find(|file| file.is_file())
}
