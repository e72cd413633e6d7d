//! What is offered on which kernel, beside which weight.

use serde_json::json;
use unstarve_diagnose::report::Remedy;

use crate::scene::{Scene, times};

fn worker_beside_group(weight: u32, release: &str) -> Vec<Remedy> {
    let rounds = 5000;
    let snapshot = json!({
        "kernel": {"release": release},
        "hierarchy": {"version": "v2", "mount": "/sys/fs/cgroup"},
        "cgroups": [{"path": "/kubepods", "weight": weight}],
        "tasks": [
            {"tid": 100, "comm": "fio", "policy": "other", "cgroup": "/kubepods", "start_ticks": 1},
            {"tid": 101, "comm": "kworker/0:2", "policy": "other", "cgroup": "/", "kernel_thread": true, "start_ticks": 1},
        ],
    });
    let scene = Scene::new(10)
        .task('f', "fio", 120)
        .task('k', "kworker/0:2", 120)
        .cpu(&times(rounds, "kfff"))
        .wakes('f', &times(rounds, " ^  "))
        .items('k', "iomap_dio_complete_work", &times(rounds, "i   "))
        .snapshot(snapshot);
    scene.explain().findings.remove(0).remedies
}

fn apply<'a>(remedies: &'a [Remedy], id: &str) -> Option<&'a str> {
    remedies.iter().find(|remedy| remedy.id == id).map(|remedy| remedy.apply.as_str())
}

#[test]
fn nice_is_offered_only_where_it_wins() {
    let nice = |weight| apply(&worker_beside_group(weight, "6.1.0-32-amd64"), "raise-worker").map(str::to_owned);
    assert_eq!(nice(1000).as_deref(), Some("renice -n -11 -p 101"));
    assert_eq!(nice(2500).as_deref(), Some("renice -n -15 -p 101"), "nice −10 weighs 9548, the group 25600");
    assert_eq!(nice(10_000), None, "not even nice −20");
}

#[test]
fn what_a_kernel_does_not_have_is_not_offered() {
    let ids = |release| {
        let remedies = worker_beside_group(1000, release);
        remedies.into_iter().map(|remedy| remedy.id).collect::<Vec<_>>().join(" ")
    };
    insta::assert_snapshot!(ids("5.10.0-32-amd64"), @"lower-group-weight batch-wakee raise-worker worker-to-rt wakeup-granularity no-wakeup-preemption inline-completion");
    insta::assert_snapshot!(ids("6.12.9-amd64"), @"lower-group-weight batch-wakee raise-worker worker-to-rt base-slice no-wakeup-preemption inline-completion");
    insta::assert_snapshot!(ids("7.2.1-amd64"), @"lower-group-weight batch-wakee raise-worker worker-to-rt base-slice no-wakeup-preemption");
}

fn hog_beside_ksoftirqd(release: &str) -> Vec<Remedy> {
    let second = format!("{}{}", times(18, "h"), times(91, "k."));
    let scene = Scene::new(5000)
        .task('h', "monitor", 89)
        .task('k', "ksoftirqd/0", 120)
        .cpu(&times(4, &second))
        .cpu(&times(800, "."))
        .wakes('h', &times(4, &format!("!{}", times(199, " "))))
        .wakes('k', &times(4, &format!(" !{}{}", times(18, " "), times(90, "! "))))
        .kernel(release);
    scene.explain().findings.remove(0).remedies
}

#[test]
fn the_remedies_of_real_time_depend_on_the_kernel_too() {
    let old = hog_beside_ksoftirqd("5.10.0-32-amd64");
    assert_eq!(apply(&old, "fair-server"), None);
    assert_eq!(apply(&old, "move-intruder"), Some("taskset -c -p 1 100"));
    assert_eq!(apply(&old, "victim-above-intruder"), Some("chrt --fifo --pid 11 101"), "RR 10 shows as priority 89");
    let new = hog_beside_ksoftirqd("6.12.9-amd64");
    assert_eq!(apply(&new, "fair-server"), Some("echo 200000000 > /sys/kernel/debug/sched/fair_server/cpu0/runtime"));
    assert!(apply(&hog_beside_ksoftirqd("5.4.0"), "threaded-napi").is_none());
}
