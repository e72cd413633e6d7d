use serde_json::json;
use unstarve_model::EventType;

use crate::scene::{Scene, times};

/// fio f and its worker k on one CPU. One column is 10 µs.
fn direct_io(round: &str, wakes: &str, items: &str) -> Scene {
    let rounds = 5000;
    Scene::new(10)
        .task('f', "fio", 120)
        .task('k', "kworker/0:2", 120)
        .cpu(&times(rounds, round))
        .wakes('f', &times(rounds, wakes))
        .items('k', "iomap_dio_complete_work", &times(rounds, items))
}

fn ping_pong() -> Scene {
    //         k does an item and wakes f, which takes the CPU, finds little, and sleeps
    direct_io("kfff", " ^  ", "i   ")
}

fn pods(weight: u32) -> serde_json::Value {
    let task = |tid: u32, comm: &str, cgroup: &str, kernel: bool| {
        json!({"tid": tid, "comm": comm, "policy": "other", "cgroup": cgroup, "kernel_thread": kernel,
               "affinity_fixed": kernel, "start_ticks": 1, "allowed": "0"})
    };
    json!({
        "kernel": {"release": "6.1.0-32-amd64"},
        "hierarchy": {"version": "v2", "mount": "/sys/fs/cgroup"},
        "cgroups": [{"path": "/kubepods", "weight": weight}],
        "tasks": [task(100, "fio", "/kubepods/pod1", false), task(101, "kworker/0:2", "/", true)],
    })
}

#[test]
fn a_worker_that_loses_the_cpu_after_each_item_plays_ping_pong() {
    insta::assert_snapshot!(ping_pong().findings(), @"critical completion-ping-pong: kworker/0:2 by fio (wakeup-preemption)");
    let finding = &ping_pong().explain().findings[0];
    assert!(finding.evidence[0].starts_with("2.0 switches for each completed item"), "{:?}", finding.evidence);
    assert!(finding.evidence.iter().any(|line| line.contains("cpu.weight")), "{:?}", finding.evidence);
}

#[test]
fn a_worker_that_drains_its_queue_does_not() {
    // Eight items, then it sleeps; fio takes them all at once.
    let scene =
        direct_io("kkkkkkkkfffffff.", " ^      ", "iiiiiiii        ").wakes('k', &times(5000, "!               "));
    assert_eq!(scene.alarms(), Vec::<String>::new());
}

#[test]
fn one_request_in_flight_has_no_backlog_to_lose() {
    // The device interrupts, k does the item and wakes f, f sends the next request and sleeps, k sleeps.
    let scene = direct_io("kffk....", " ^      ", "i       ").wakes('k', &times(5000, "!       "));
    assert_eq!(scene.alarms(), Vec::<String>::new());
}

#[test]
fn where_the_snapshot_shows_the_weight_it_is_named_and_can_be_undone() {
    let finding = &ping_pong().snapshot(pods(1000)).explain().findings[0];
    assert_eq!(finding.id, "completion-ping-pong");
    assert!(finding.evidence.iter().any(|line| line.contains("load weight 10240")), "{:?}", finding.evidence);
    let first = &finding.remedies[0];
    assert_eq!(first.apply, "echo 100 > /sys/fs/cgroup/kubepods/cpu.weight");
    assert_eq!(first.undo, "echo 1000 > /sys/fs/cgroup/kubepods/cpu.weight");
}

#[test]
fn without_work_events_the_switches_still_tell_less_surely() {
    let scene = ping_pong().without(EventType::WorkStart).without(EventType::WorkEnd);
    let (with, without) = (ping_pong().explain(), scene.explain());
    assert_eq!(without.findings[0].id, "completion-ping-pong");
    assert!(without.findings[0].confidence < with.findings[0].confidence);
    assert!(without.findings[0].losses.iter().any(|loss| loss.contains("workqueue_execute_start")));
}

/// Two hogs on one CPU; a gets one column of eleven. One column is 1 ms.
fn two_hogs() -> Scene {
    let row = times(200, "abbbbbbbbbb");
    Scene::new(1000).task('a', "small", 120).task('b', "big", 120).cpu(&row)
}

#[test]
fn a_known_group_weight_starves_the_lighter_task() {
    let task = |tid: u32, comm: &str, group: &str| json!({"tid": tid, "comm": comm, "policy": "other", "cgroup": group, "start_ticks": 1, "allowed": "0"});
    let snapshot = json!({
        "kernel": {"release": "6.1.0-32-amd64"},
        "hierarchy": {"version": "v2", "mount": "/sys/fs/cgroup"},
        "cgroups": [{"path": "/heavy", "weight": 1000}, {"path": "/light", "weight": 100}],
        "tasks": [task(100, "small", "/light"), task(101, "big", "/heavy")],
    });
    let scene = two_hogs().snapshot(snapshot);
    insta::assert_snapshot!(scene.findings(), @"critical weight-starvation: small by big (weight)");
    let remedies = &scene.explain().findings[0].remedies;
    assert!(remedies.iter().all(|remedy| !remedy.apply.contains("renice")), "nice does nothing against another group");
}

#[test]
fn an_unknown_weight_is_inferred_with_a_question() {
    insta::assert_snapshot!(two_hogs().findings(), @"warning weight-starvation: small by big (fair)");
    let finding = &two_hogs().explain().findings[0];
    assert!(finding.confidence < 0.7);
    assert!(finding.evidence.iter().any(|line| line.contains("/proc/101/cgroup")), "{:?}", finding.evidence);
}

#[test]
fn nice_is_what_its_owner_asked_for() {
    // A background job of nice 19 beside a hog of nice 0: 15 to 1024.
    let row = times(40, &format!("a{}", times(68, "b")));
    let scene = Scene::new(1000).task('a', "backup", 139).task('b', "build", 120).cpu(&row);
    assert_eq!(scene.alarms(), Vec::<String>::new());
}
