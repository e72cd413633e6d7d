//! What DuckDB answers, for a test.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// The rows of questions about views (their names, their definitions, what is asked of them) as CSV without names; `None` where there is no DuckDB.
pub fn answers(place: &str, questions: &[[String; 3]]) -> Option<Vec<String>> {
    if !unstarve_testing::python_module("duckdb") {
        return None;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sql/tests/oracle.py");
    let mut command = Command::new("python3");
    command.arg(&script).arg(place).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("python3 is there");
    let questions = serde_json::to_vec(questions).expect("texts");
    child.stdin.take().expect("a pipe").write_all(&questions).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{place}: {output:?}");
    Some(serde_json::from_slice(&output.stdout).expect("texts"))
}
