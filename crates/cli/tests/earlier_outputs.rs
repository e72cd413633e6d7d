//! What earlier releases printed as JSON still fits the schemas of today, and today's programs still read it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use unstarve_diagnose::compare::Comparison;
use unstarve_diagnose::report::Report;
use unstarve_testing::json_schema::JsonSchema;

fn testdata(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata").join(name)
}

fn schema(name: &str) -> JsonSchema {
    let output = Command::new(env!("CARGO_BIN_EXE_unstarve")).args(["schema", name]).stdin(Stdio::null()).output();
    JsonSchema::of(serde_json::from_slice(&output.expect("it can be started").stdout).expect("a schema"))
}

/// The values of a stored output: one, or one on each line.
fn values(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).expect("a stored output");
    let read = |text: &str| serde_json::from_str(text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    match path.extension().is_some_and(|extension| extension == "jsonl") {
        true => text.lines().map(read).collect(),
        false => vec![read(&text)],
    }
}

/// The stored outputs of a release, with the name of the schema of each. `NAME-WHAT.json` has the schema NAME.
fn stored(release: &str) -> Vec<(String, PathBuf)> {
    let files = std::fs::read_dir(testdata("outputs").join(release)).expect("outputs of this release");
    let mut files: Vec<PathBuf> = files.map(|file| file.expect("an entry").path()).collect();
    files.sort();
    let schema_of = |path: &PathBuf| {
        let stem = path.file_stem()?.to_str()?;
        let name = if stem == "compare-hosts" { stem } else { stem.split('-').next()? };
        Some((name.to_owned(), path.clone()))
    };
    files.iter().filter_map(schema_of).collect()
}

fn releases() -> Vec<String> {
    let found = std::fs::read_dir(testdata("outputs")).expect("the stored outputs");
    let found = found.map(|entry| entry.expect("an entry"));
    found.filter(|entry| entry.path().is_dir()).map(|entry| entry.file_name().into_string().expect("a name")).collect()
}

/// A field that is gone is not described; one of another type, or a word that is gone, does not fit.
#[test]
fn schemas_of_today_take_what_earlier_releases_printed() {
    let releases = releases();
    assert!(releases.iter().any(|release| release == "0.1.0"), "{releases:?}");
    for release in releases {
        let outputs = stored(&release);
        assert!(outputs.len() > 10, "{release}: {outputs:?}");
        for (name, path) in outputs {
            let described = schema(&name);
            for value in values(&path) {
                assert_eq!(described.takes_earlier(&value), Ok(()), "{}", path.display());
            }
        }
    }
}

#[test]
fn a_field_that_is_gone_or_has_another_type_is_seen() {
    let described = schema("explain");
    let of = |change: fn(&mut Value)| {
        let mut value = values(&testdata("outputs/0.1.0/explain.json")).remove(0);
        change(&mut value);
        described.takes_earlier(&value)
    };
    assert_eq!(of(|_| ()), Ok(()));
    // A later field that is always printed is missing in what is earlier.
    assert_eq!(of(|value| drop(value["trace"].as_object_mut().map(|trace| trace.remove("events")))), Ok(()));
    assert!(of(|value| value["gone"] = 1.into()).is_err());
    assert!(of(|value| value["trace"]["events"] = "many".into()).is_err());
    assert!(of(|value| value["findings"][0]["severity"] = "dreadful".into()).is_err());
}

/// Reports and comparisons are read by programs that use the crate, snapshots by `check` and `compare`.
#[test]
fn readers_of_today_read_what_earlier_releases_printed() {
    for release in releases() {
        let text = |name: &str| {
            std::fs::read_to_string(testdata("outputs").join(&release).join(name)).expect("a stored output")
        };
        for name in ["explain.json", "explain-weight.json", "explain-log.json"] {
            let report: Report = serde_json::from_str(&text(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(!report.findings.is_empty(), "{name}");
        }
        let comparison: Comparison = serde_json::from_str(&text("compare.json")).expect("a comparison");
        assert!(!comparison.findings.is_empty() && comparison.compared > 10);
    }
    for name in ["storage-controller-5.10.json", "kubernetes-node-6.1.json"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_unstarve"));
        command.args(["check", "--json", "--fail-on", "never", "--snapshot"]).arg(testdata("snapshots").join(name));
        let output = command.stdin(Stdio::null()).output().expect("it can be started");
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    }
}
