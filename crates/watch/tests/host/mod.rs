//! The kernel's programs compiled for the host, by the C compiler that links this test as well: what takes two CPUs at the same moment, days, or a
//! clock that is being set happens there at will. `counts.c` has the tests.

mod streams;

use std::path::{Path, PathBuf};
use std::process::Command;

/// Compiles the programs into a directory.
fn compile(place: &Path) -> PathBuf {
    let program = place.join("counts");
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let here = package.join("tests/host");
    std::fs::write(place.join("rules.h"), unstarve_sched::counted::c_header()).expect("written");
    // Attributes for the kernel's loader mean nothing to this compiler.
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-w", "-o"]).arg(&program).arg(here.join("counts.c"));
    for headers in [place.to_owned(), here, package.join("src/bpf"), package.join("../bpf/include")] {
        compiler.arg("-I").arg(headers);
    }
    let output = compiler.output().expect("a C compiler");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program
}

fn run(test: &str) {
    let place = tempfile::tempdir().expect("a directory");
    let output = Command::new(compile(place.path())).arg(test).output().expect("it runs");
    assert!(output.status.success(), "{}: {}", output.status, String::from_utf8_lossy(&output.stdout));
}

/// NTP slews by 500 millionths, chronyd by up to 83,333.
#[test]
fn a_slew_begins_no_wait_too_early() {
    run("a_slew_begins_no_wait_too_early");
}

#[test]
fn a_step_begins_no_wait_too_early() {
    run("a_step_begins_no_wait_too_early");
}

#[test]
fn who_is_woken_elsewhere_waits_from_the_report_on() {
    run("who_is_woken_elsewhere_waits_from_the_report_on");
}

/// 5.12 to 6.1, where a program that looks at a task's storage was pushed off.
#[test]
fn who_was_not_found_waits_no_longer() {
    run("who_was_not_found_waits_no_longer");
}

#[test]
fn who_runs_while_all_are_looked_at_is_in_one_queue_at_most() {
    run("who_runs_while_all_are_looked_at_is_in_one_queue_at_most");
}

#[test]
fn a_queue_that_does_not_grow_for_days_was_there() {
    run("a_queue_that_does_not_grow_for_days_was_there");
}

#[test]
fn a_task_that_is_moved_at_once_is_judged_by_its_band() {
    run("a_task_that_is_moved_at_once_is_judged_by_its_band");
}

#[test]
fn a_wait_is_divided_among_the_pods_that_ran() {
    run("a_wait_is_divided_among_the_pods_that_ran");
}

/// A pod that had a number, and kept a CPU or waited for one when the number was given to another pod.
#[test]
fn a_number_that_is_another_pods_by_now_is_not_charged() {
    run("a_number_that_is_another_pods_by_now_is_not_charged");
}

#[test]
fn real_time_programs_are_remembered() {
    run("real_time_programs_are_remembered");
}

#[test]
fn pods_are_charged_after_years_of_uptime() {
    run("pods_are_charged_after_years_of_uptime");
}
