//! What a release promises: one version everywhere, and which crates are published.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

const PACKAGE_VERSION: &str = env!("CARGO_PKG_VERSION");

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Files that cannot take the version from `[workspace.package]`.
#[test]
fn every_file_has_the_version_of_the_workspace() {
    let repeated = [
        ("Cargo.toml", "version = \"=", "\""),
        ("packaging/helm/unstarve/Chart.yaml", "version: ", "\n"),
        ("packaging/helm/unstarve/Chart.yaml", "appVersion: \"", "\""),
        ("packaging/kubernetes/guard.yaml", "app.kubernetes.io/version: \"", "\""),
        ("packaging/kubernetes/guard.yaml", "image: \"unstarve:", "\""),
        ("packaging/kubernetes/watch.yaml", "app.kubernetes.io/version: \"", "\""),
        ("packaging/kubernetes/watch.yaml", "image: \"unstarve:", "\""),
    ];
    for (path, before, after) in repeated {
        let text = read(path);
        let versions: BTreeSet<&str> = text
            .split(before)
            .skip(1)
            .map(|rest| rest.split_once(after).map_or(rest, |(version, _)| version))
            .collect();
        assert_eq!(versions, BTreeSet::from([PACKAGE_VERSION]), "{path}: `{before}…`");
    }
    let changelog = read("CHANGELOG.md");
    let newest = changelog.lines().find_map(|line| line.strip_prefix("## ")).expect("a section for each version");
    assert_eq!(newest.split(' ').next(), Some(PACKAGE_VERSION), "CHANGELOG.md: the first section is this version's");
    let output = Command::new(env!("CARGO_BIN_EXE_unstarve")).arg("--version").output().expect("--version");
    assert!(String::from_utf8_lossy(&output.stdout).starts_with(&format!("unstarve {PACKAGE_VERSION}")));
}

/// A published crate needs the crates below it published; nobody else promises anything.
#[test]
fn published_are_unstarve_trace_and_the_crates_below_it() {
    let cargo = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--no-deps", "--offline"])
        .current_dir(root())
        .output()
        .expect("cargo metadata");
    let metadata: Value = serde_json::from_slice(&cargo.stdout).expect("cargo metadata prints JSON");
    let mut published = BTreeSet::new();
    let mut below: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in metadata["packages"].as_array().expect("packages") {
        let name = package["name"].as_str().expect("a name");
        // `publish = false` is an empty list of registries.
        if package["publish"].is_null() {
            published.insert(name);
        }
        let dependencies = package["dependencies"].as_array().expect("dependencies").iter();
        let ours = dependencies.filter(|found| found["path"].is_string() && found["kind"] != "dev");
        below.insert(name, ours.filter_map(|found| found["name"].as_str()).collect());
    }
    let mut closure = BTreeSet::new();
    let mut open = vec!["unstarve-trace"];
    while let Some(name) = open.pop() {
        if closure.insert(name) {
            open.extend(&below[name]);
        }
    }
    assert_eq!(published, closure);
}
