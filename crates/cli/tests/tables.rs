//! What becomes tables without a recording.

use std::process::{Command, Output};

fn unstarve(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_unstarve")).args(arguments).output().expect("it can be started")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("UTF-8")
}

#[test]
fn a_snapshot_and_proofs_become_tables() {
    let place = tempfile::tempdir().expect("a place for files");
    let tables = place.path().join("tables");
    let output = unstarve(&["snapshot", "--tables", tables.to_str().expect("UTF-8")]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    for table in ["hosts", "settings"] {
        let days = std::fs::read_dir(tables.join(format!("v1/table={table}"))).expect("it was written");
        assert_eq!(days.count(), 1, "{table}");
    }
    let cells = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/proofs");
    let file = place.path().join("proofs.parquet");
    let file = file.to_str().expect("UTF-8");
    let output = unstarve(&["lab", "proofs", "--cells", cells, "--parquet", file]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(&std::fs::read(file).expect("it was written")[..4], b"PAR1");
    assert!(text(&output.stderr).contains("with 1 row"), "{output:?}");
    let shipped =
        include_str!("../../diagnose/data/proofs.tsv").lines().filter(|line| !line.starts_with('#')).count() - 1;
    let output = unstarve(&["lab", "proofs", "--parquet", file]);
    assert!(text(&output.stderr).contains(&format!("with {shipped} rows")), "{output:?}");
    let output = unstarve(&["lab", "proofs", "--cells", cells]);
    assert!(text(&output.stderr).contains("--table"), "{output:?}");
}
