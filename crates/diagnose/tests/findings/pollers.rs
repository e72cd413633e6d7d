//! Programs that poll instead of sleeping, and BPF schedulers: who is named, and what is advised.

use serde_json::{Value, json};
use unstarve_diagnose::report::Finding;

use crate::findings::scene::{Scene, times};

/// A worker waits for two seconds behind another task of CPU 0. One column is 1 ms.
fn stuck(comm: &str, prio: i32) -> Scene {
    let row = format!("{}{}", times(2000, "r"), "k".repeat(20));
    let wakes = format!("!{}", ".".repeat(2019));
    Scene::new(1000).task('r', comm, prio).task('k', "kworker/0:2", 120).cpu(&row).wakes('k', &wakes)
}

fn host(release: &str, settings: &Value) -> Value {
    let task = |tid: u32, comm: &str, kernel: bool| {
        json!({"tid": tid, "comm": comm, "policy": "other", "cgroup": "/", "kernel_thread": kernel,
               "affinity_fixed": kernel, "start_ticks": 1, "allowed": "0"})
    };
    json!({
        "kernel": {"release": release},
        "hierarchy": {"version": "v2", "mount": "/sys/fs/cgroup"},
        "settings": settings,
        "tasks": [task(90, "longhorn-instan", false), task(100, "reactor_0", false), task(101, "kworker/0:2", true)],
    })
}

fn first(scene: &Scene) -> Finding {
    scene.explain().findings.first().expect("a finding").clone()
}

fn remedies(finding: &Finding) -> Vec<&str> {
    finding.remedies.iter().map(|remedy| remedy.id.as_str()).collect()
}

#[test]
fn a_reactor_that_is_an_equal_is_named_and_moved_by_its_product() {
    let finding = first(&stuck("reactor_0", 120).snapshot(host("6.12.81", &json!({}))));
    assert_eq!(finding.id.as_str(), "stuck-equal", "{finding:#?}");
    let evidence = finding.evidence.join("\n");
    assert!(
        evidence.contains("SPDK reactor of Longhorn's v2 data engine, which polls instead of sleeping"),
        "{evidence}"
    );
    let ids = remedies(&finding);
    assert_eq!(ids[..2], ["move-poller", "isolate-poller"], "{ids:?}");
    assert!(!ids.contains(&"worker-to-rt") && !ids.contains(&"raise-worker"), "no worker is raised alone: {ids:?}");
    assert!(finding.remedies[0].text.contains("only when the instance manager starts"), "{}", finding.remedies[0].text);
    // Its twin, a program that is not known to poll.
    let other = first(&stuck("renderer", 120).snapshot(host("6.12.81", &json!({}))));
    assert!(!other.evidence.join("\n").contains("polls"), "{:?}", other.evidence);
    assert!(remedies(&other).contains(&"worker-to-rt"), "{:?}", remedies(&other));
}

#[test]
fn a_real_time_reactor_is_named_too() {
    let finding = first(&stuck("reactor_0", 98));
    assert_eq!(finding.id.as_str(), "rt-starvation", "{finding:#?}");
    assert!(finding.evidence.join("\n").contains("SPDK reactor, which polls"), "{:?}", finding.evidence);
    assert_eq!(remedies(&finding)[0], "move-poller");
}

#[test]
fn a_kernel_that_loses_count_of_virtual_time_is_said() {
    let with = |release: &str| {
        let finding = first(&stuck("reactor_0", 120).snapshot(host(release, &json!({}))));
        let named = finding.evidence.join("\n").contains("(zero-vruntime)");
        (named, remedies(&finding).contains(&"update-kernel"))
    };
    assert_eq!(with("6.12.73"), (true, true));
    assert_eq!(with("6.12.81"), (false, false));
}

#[test]
fn under_a_bpf_scheduler_no_rule_of_the_fair_class_is_claimed() {
    let ext = |state: &str| {
        json!({"/sys/kernel/sched_ext/state": state, "/sys/kernel/sched_ext/root/ops": "lavd_1.0",
               "/sys/kernel/sched_ext/switch_all": "1"})
    };
    let finding = first(&stuck("renderer", 120).snapshot(host("6.12.73", &ext("enabled"))));
    let evidence = finding.evidence.join("\n");
    assert!(evidence.contains("the BPF scheduler lavd_1.0 (sched_ext) was loaded"), "{evidence}");
    assert!(!evidence.contains("zero-vruntime"), "a bug of the fair class: {evidence}");
    assert_eq!(remedies(&finding), ["bpf-scheduler"]);
    let without = first(&stuck("renderer", 120).snapshot(host("6.12.73", &ext("disabled"))));
    assert!(!without.evidence.join("\n").contains("BPF"), "{:?}", without.evidence);
    // Weights are no reason under it either.
    let hogs = |settings: &Value| {
        let task = |tid: u32, comm: &str, group: &str| json!({"tid": tid, "comm": comm, "policy": "other", "cgroup": group, "start_ticks": 1, "allowed": "0"});
        let snapshot = json!({
            "kernel": {"release": "6.12.81"},
            "hierarchy": {"version": "v2", "mount": "/sys/fs/cgroup"},
            "settings": settings,
            "cgroups": [{"path": "/heavy", "weight": 1000}, {"path": "/light", "weight": 100}],
            "tasks": [task(100, "small", "/light"), task(101, "big", "/heavy")],
        });
        let row = times(200, "abbbbbbbbbb");
        let scene = Scene::new(1000).task('a', "small", 120).task('b', "big", 120).cpu(&row).snapshot(snapshot);
        scene.explain().findings.iter().any(|finding| finding.id.as_str() == "weight-starvation")
    };
    assert!(hogs(&json!({})) && !hogs(&ext("enabled")));
}
