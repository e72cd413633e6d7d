//! Deadline tasks that use up what they asked for, and others that look alike.

use serde_json::json;

use crate::findings::scene::{Scene, times};

/// A deadline task on a CPU of its own, beside an idle one; the snapshot has what it asked for, in ms of each 20.
fn vision(row: &str, runtime_ms: Option<u64>) -> Scene {
    let mut task =
        json!({"tid": 100, "comm": "vision", "policy": "deadline", "cgroup": "/", "start_ticks": 1, "allowed": "0-1"});
    if let Some(runtime) = runtime_ms {
        let (runtime, period) = (runtime * 1_000_000, 20_000_000);
        task["deadline"] = json!({"runtime_ns": runtime, "deadline_ns": period, "period_ns": period});
    }
    Scene::new(1000)
        .task('d', "vision", -1)
        .task('z', "other", 120)
        .task('e', "control", -1)
        .cpu(row)
        .cpu(&format!("z{}", times(999, ".")))
        .snapshot(json!({"kernel": {"release": "6.12.9"}, "tasks": [task]}))
}

fn row(period: &str) -> String {
    times(1000 / period.len(), period)
}

/// `d` for so many of each 20 ms.
fn each(ms: usize) -> String {
    format!("{}{}", times(ms, "d"), times(20 - ms, "."))
}

#[test]
fn a_piece_of_work_that_takes_more_than_the_runtime_is_an_overrun() {
    // 12 ms of work: 8 ms, a stop, and the other 4 ms in the next period.
    let scene = vision(&row(&[each(8), each(4)].concat()), Some(8));
    assert_eq!(scene.findings(), "warning deadline-overrun: vision by idle (throttled)\n");
    let finding = &scene.explain().findings[0];
    assert!(finding.sentence.contains("used up its runtime of 8.00 ms 24 times"), "{}", finding.sentence);
    assert!(
        finding.remedies.iter().any(|remedy| remedy.id.as_str() == "more-deadline-runtime"),
        "{:?}",
        finding.remedies
    );
}

#[test]
fn whoever_gives_the_rest_of_its_runtime_back_is_well() {
    assert_eq!(vision(&row(&each(6)), Some(8)).findings(), "");
    // Not known: it may be either.
    assert_eq!(vision(&row(&each(6)), None).findings(), "info throttled: vision by idle (throttled)\n");
}

#[test]
fn a_runtime_that_limits_a_hog_is_meant_to() {
    assert_eq!(vision(&row(&each(8)), Some(8)).findings(), "info deadline-overrun: vision by idle (throttled)\n");
}

#[test]
fn two_overruns_are_a_start_up() {
    let row = [times(2, &each(8)), times(48, &each(3))].concat();
    assert_eq!(vision(&row, Some(8)).findings(), "");
}

#[test]
fn a_deadline_task_behind_another_has_not_overrun() {
    // The other one has an earlier deadline, and takes the CPU after 7 ms.
    let row = row(&format!("{}{}{}{}", times(7, "d"), times(2, "e"), times(2, "d"), times(9, ".")));
    let findings = vision(&row, Some(10)).findings();
    assert!(!findings.contains("deadline-overrun"), "{findings}");
}

#[test]
fn a_real_time_task_has_no_runtime_of_its_own() {
    let row = row(&each(8));
    let scene = Scene::new(1000).task('d', "vision", 49).task('z', "other", 120).cpu(&row).cpu("z");
    assert!(!scene.findings().contains("deadline-overrun"), "{}", scene.findings());
}
