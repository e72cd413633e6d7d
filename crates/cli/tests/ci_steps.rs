//! The jobs for GitHub and GitLab, step by step, as a runner runs them.

use std::path::Path;
use std::process::Command;

#[test]
fn the_steps_of_ci_jobs_do_what_the_page_says() {
    for tool in ["bash", "jq"] {
        if unstarve_testing::tool(tool).is_none() {
            return;
        }
    }
    let Some(python) = unstarve_testing::tool("python3") else { return };
    if !unstarve_testing::python_module("yaml") {
        return;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/ci_steps.py");
    let done = Command::new(python).arg(script).arg(env!("CARGO_BIN_EXE_unstarve")).output().expect("it runs");
    let said = [done.stdout, done.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    assert!(done.status.success(), "{said}");
}
