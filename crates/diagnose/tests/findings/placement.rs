use serde_json::json;

use crate::scene::{Scene, times};

fn facts(allowed: &str) -> serde_json::Value {
    let task = |tid: u32, comm: &str| json!({"tid": tid, "comm": comm, "policy": "other", "cgroup": "/", "start_ticks": 1, "allowed": allowed});
    json!({"kernel": {"release": "6.1.0"}, "tasks": [task(100, "one"), task(101, "two")]})
}

/// Two hogs share CPU 0 in turns of 20 ms while CPU 1 is idle. One column is 1 ms.
fn crowded(allowed: &str) -> Scene {
    let row = times(25, &format!("{}{}", times(20, "a"), times(20, "b")));
    let idle = format!("z{}", times(999, "."));
    let scene = Scene::new(1000).task('a', "one", 120).task('b', "two", 120).task('z', "other", 120);
    scene.cpu(&row).cpu(&idle).snapshot(facts(allowed))
}

#[test]
fn waiting_beside_an_idle_cpu_that_one_may_use_is_told() {
    let findings = crowded("0-1").findings();
    assert!(findings.contains("idle-while-runnable"), "{findings}");
}

#[test]
fn a_few_of_a_pools_many_waits_beside_an_idle_cpu_are_chance() {
    // One column is 1 ms. Eight threads of a pool take turns of 5 ms on CPU 0; CPU 1 is idle for 8 ms of every 160, while
    // seven of them wait.
    let row: String = ('a'..='h').map(|thread| thread.to_string().repeat(5)).collect();
    let mut scene = Scene::new(1000);
    for letter in 'a'..='h' {
        scene = scene.task(letter, "httpd", 120);
    }
    let task = |tid: u32| json!({"tid": tid, "comm": "httpd", "policy": "other", "cgroup": "/", "start_ticks": 1, "allowed": "0-1"});
    let tasks: Vec<serde_json::Value> = (100..108).map(task).collect();
    let scene = scene
        .task('z', "cc1", 120)
        .cpu(&times(40, &row))
        .cpu(&times(10, &format!("{}{}", times(152, "z"), times(8, "."))))
        .wakes('z', &times(10, &format!("!{}", times(159, " "))))
        .snapshot(json!({"kernel": {"release": "6.1.0"}, "tasks": tasks}));
    assert!(!scene.alarms().iter().any(|alarm| alarm.contains("idle-while-runnable")), "{:?}", scene.alarms());
}

#[test]
fn a_pinned_task_cannot_use_it() {
    assert_eq!(crowded("0").alarms(), Vec::<String>::new());
}

#[test]
fn of_a_task_of_unknown_affinity_nothing_is_claimed() {
    let scene = |other: &str| {
        let row = times(25, &format!("{}{}", times(20, "a"), times(20, "b")));
        Scene::new(1000).task('a', "one", 120).task('b', "two", 120).task('z', "other", 120).cpu(&row).cpu(other)
    };
    assert!(!scene(&format!("z{}", times(999, "."))).findings().contains("idle-while-runnable"));
    // `taskset` moved b once: b has been seen on CPU 1 and may still be pinned.
    let moved = scene(&format!("zb{}", times(998, ".")));
    assert!(!moved.findings().contains("idle-while-runnable"), "{}", moved.findings());
}

/// A limited task t alone on its CPU runs for 20 ms of every 100 and is kept off for the rest.
fn limited(quota: Option<u32>) -> Scene {
    let mut group = json!({"path": "/box", "weight": 100});
    if let Some(quota) = quota {
        group["limit"] = json!({"quota_us": quota, "period_us": 100_000});
    }
    let snapshot = json!({
        "kernel": {"release": "6.1.0"},
        "hierarchy": {"version": "v2", "mount": "/sys/fs/cgroup"},
        "cgroups": [group],
        "tasks": [{"tid": 100, "comm": "tenant", "policy": "other", "cgroup": "/box", "start_ticks": 1, "allowed": "0"}],
    });
    Scene::new(1000)
        .task('t', "tenant", 120)
        .cpu(&times(20, &format!("{}{}", times(20, "t"), times(80, "."))))
        .snapshot(snapshot)
}

#[test]
fn a_bandwidth_limit_is_no_contention() {
    let scene = limited(Some(20_000));
    insta::assert_snapshot!(scene.findings(), @"critical throttled: tenant by idle (throttled)");
    let finding = &scene.explain().findings[0];
    assert_eq!(finding.period_ns, Some(100_000_000));
    assert_eq!(finding.remedies[0].apply, "echo \"40000 100000\" > /sys/fs/cgroup/box/cpu.max");
    assert_eq!(finding.remedies[0].undo, "echo \"20000 100000\" > /sys/fs/cgroup/box/cpu.max");
}

#[test]
fn without_a_limit_it_is_not_called_one() {
    assert!(!limited(None).findings().contains("throttled"));
}

#[test]
fn a_task_that_is_moved_all_the_time_is_told() {
    // It runs 200 µs here, 200 µs there; one column is 100 µs.
    let rounds = 2000;
    let scene = Scene::new(100)
        .task('a', "nomad", 120)
        .cpu(&times(rounds, "aa..."))
        .cpu(&times(rounds, "..aa."))
        .wakes('a', &times(rounds, "! !  "));
    let findings = scene.findings();
    assert!(findings.is_empty() || findings.contains("migration-churn"), "{findings}");
    assert_eq!(scene.alarms(), Vec::<String>::new(), "moves at wakeups are how idle CPUs are found");
}
