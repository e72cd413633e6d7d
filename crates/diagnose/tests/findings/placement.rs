use serde_json::json;

use crate::findings::scene::{Scene, times};

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

#[test]
fn a_deadline_task_that_its_runtime_stops_waits_for_no_idle_cpu() {
    // Runs for 6 ms of every 20 and leaves its CPU runnable, for the idle task; CPU 1 is idle all the time.
    let task =
        json!({"tid": 100, "comm": "vision", "policy": "deadline", "cgroup": "/", "start_ticks": 1, "allowed": "0-1"});
    let scene = Scene::new(1000)
        .task('d', "vision", -1)
        .task('z', "other", 120)
        .cpu(&times(50, &format!("{}{}", times(6, "d"), times(14, "."))))
        .cpu(&format!("z{}", times(999, ".")))
        .snapshot(json!({"kernel": {"release": "6.12.9"}, "tasks": [task]}));
    let findings = scene.findings();
    assert!(findings.contains("info throttled: vision"), "{findings}");
    assert!(!findings.contains("idle-while-runnable"), "{findings}");
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
    assert_eq!(finding.remedies[0].apply, "echo '40000 100000' > /sys/fs/cgroup/box/cpu.max");
    assert_eq!(finding.remedies[0].undo, "echo '20000 100000' > /sys/fs/cgroup/box/cpu.max");
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

/// A tenant t in a limited group beside a hog h that has the CPU while the group stands still, and what the kernel counted.
fn limited_beside_a_hog(tasks: serde_json::Value, counted: serde_json::Value) -> Scene {
    let snapshot = json!({
        "kernel": {"release": "6.1.0"},
        "hierarchy": {"version": "v2", "mount": "/sys/fs/cgroup"},
        "cgroups": [{"path": "/box", "weight": 100, "limit": {"quota_us": 10_000, "period_us": 100_000}}],
        "throttled_meanwhile": {"/box": counted},
        "tasks": tasks,
    });
    Scene::new(1000)
        .task('t', "tenant", 120)
        .task('h', "hog", 120)
        .cpu(&times(15, &format!("{}{}", times(10, "th"), times(80, "h"))))
        .snapshot(snapshot)
}

fn member(tid: u32, comm: &str, group: &str) -> serde_json::Value {
    json!({"tid": tid, "comm": comm, "policy": "other", "cgroup": group, "start_ticks": 1, "allowed": "0"})
}

#[test]
fn a_limit_shows_in_the_kernels_counters_where_the_cpu_never_idles() {
    let counted = json!({"periods": 15, "count": 15, "ns": 1_200_000_000});
    let scene = limited_beside_a_hog(json!([member(100, "tenant", "/box"), member(101, "hog", "/")]), counted.clone());
    assert!(scene.findings().starts_with("critical throttled: tenant"), "{}", scene.findings());
    // Its tasks may have ended before anybody asked the host. Who they were is not guessed.
    let scene = limited_beside_a_hog(json!([member(101, "hog", "/")]), counted.clone());
    let findings = scene.explain().findings;
    let finding = findings.iter().find(|finding| finding.id.as_str() == "throttled").expect("the kernel counted");
    assert_eq!((finding.victim.kind.word(), finding.victim.comm.as_str()), ("cgroup", "/box"));
    assert!(finding.price.is_empty() && finding.blame.is_empty(), "{:?}", finding.price);
    assert!(finding.sentence.contains("for at least 1.20 s"), "{}", finding.sentence);
    assert!(finding.confidence < 0.8 && finding.remedies[0].apply.contains("/box/cpu.max"));
    // Nobody left but the group itself.
    let tasks = json!([member(100, "tenant", "/"), member(101, "hog", "/")]);
    let findings = limited_beside_a_hog(tasks, counted).explain().findings;
    let finding = findings.iter().find(|finding| finding.id.as_str() == "throttled").expect("the kernel counted");
    assert_eq!((finding.victim.kind.word(), finding.victim.comm.as_str()), ("cgroup", "/box"));
}

#[test]
fn a_quota_that_is_used_up_in_every_period_is_a_warning() {
    let tasks = json!([member(100, "tenant", "/box"), member(101, "hog", "/")]);
    let spent = json!({"periods": 15, "count": 15, "ns": 45_000_000});
    let findings = limited_beside_a_hog(tasks.clone(), spent).findings();
    assert!(findings.contains("warning throttled: tenant"), "{findings}");
    let now_and_then = json!({"periods": 15, "count": 4, "ns": 45_000_000});
    let findings = limited_beside_a_hog(tasks, now_and_then).findings();
    assert!(findings.contains("info throttled: tenant"), "{findings}");
}

/// The same beside a group ten times as heavy, with this quota of each 100 ms.
fn limited_beside_a_heavy_group(quota_us: u32, counted: serde_json::Value) -> Scene {
    let mut snapshot = json!({
        "kernel": {"release": "6.1.0"},
        "hierarchy": {"version": "v2", "mount": "/sys/fs/cgroup"},
        "cgroups": [
            {"path": "/box", "weight": 100, "limit": {"quota_us": quota_us, "period_us": 100_000}},
            {"path": "/heavy", "weight": 1000},
        ],
        "tasks": [member(100, "tenant", "/box"), member(101, "hog", "/heavy")],
    });
    if !counted.is_null() {
        snapshot["throttled_meanwhile"] = counted;
    }
    limited_beside_a_hog(json!([]), json!({})).snapshot(snapshot)
}

#[test]
fn what_a_limit_takes_is_not_charged_to_a_heavier_group() {
    let counted = json!({"/box": {"periods": 15, "count": 15, "ns": 1_200_000_000}});
    let findings = limited_beside_a_heavy_group(10_000, counted).findings();
    assert!(findings.starts_with("critical throttled: tenant"), "{findings}");
    assert!(!findings.contains("weight-starvation"), "the quota was used up: {findings}");
    // An older recording does not say how long the limit held it; that it got all that it allows is known.
    let findings = limited_beside_a_heavy_group(10_000, json!(null)).findings();
    assert!(!findings.contains("weight-starvation"), "{findings}");
}

#[test]
fn a_limit_that_did_not_hold_a_task_excuses_no_heavier_group() {
    let scene = limited_beside_a_heavy_group(90_000, json!({}));
    assert!(scene.findings().starts_with("critical weight-starvation: tenant by hog (weight)"), "{}", scene.findings());
    // A limit of 30 ms that stopped it now and then: it is due those, not half the CPU.
    let counted = json!({"/box": {"periods": 15, "count": 2, "ns": 20_000_000}});
    let findings = limited_beside_a_heavy_group(30_000, counted).explain().findings;
    let finding = findings
        .iter()
        .find(|finding| finding.id.as_str() == "weight-starvation")
        .expect("it got a third of its limit");
    let told = finding.evidence.join("\n");
    assert!(told.contains("its fair share of 450 ms") && told.contains("30000 µs of each 100000 µs"), "{told}");
    assert!(told.contains("20.0 ms of its waits were that limit's"), "{told}");
}

#[test]
fn without_a_snapshot_one_finding_stands_for_all_and_is_a_question() {
    let row = times(20, &format!("{}{}{}", times(20, "t"), times(20, "u"), times(60, ".")));
    let scene = Scene::new(1000).task('t', "tenant", 120).task('u', "other", 120).cpu(&row);
    insta::assert_snapshot!(scene.findings(), @"warning throttled: tenant by idle (throttled)");
    let worker = times(20, &format!("{}{}", times(20, "k"), times(80, ".")));
    let scene = Scene::new(1000).task('k', "kworker/0:1", 120).cpu(&worker);
    assert!(!scene.findings().contains("throttled"), "no limit touches a kernel thread");
}

#[test]
fn isolated_cpus_are_nobodys_to_balance() {
    let row = times(25, &format!("{}{}", times(20, "a"), times(20, "b")));
    let mut snapshot = facts("0-1");
    snapshot["cpus"] = json!({"online": "0-1", "isolated": "0-1"});
    let scene = Scene::new(1000).task('a', "one", 120).task('b', "two", 120).task('z', "other", 120);
    let scene = scene.cpu(&row).cpu(&format!("z{}", times(999, "."))).snapshot(snapshot);
    let findings = scene.explain().findings;
    let finding = findings.iter().find(|finding| finding.id.as_str() == "idle-while-runnable").expect("CPU 1 is idle");
    let ids: Vec<&str> = finding.remedies.iter().map(|remedy| remedy.id.as_str()).collect();
    assert_eq!(ids, ["pin"]);
}

#[test]
fn an_all_clear_beside_a_limit_without_counters_is_none_about_the_limit() {
    // The tenant has 10 ms of each 30, for which its two equals or its limit may be the reason.
    let scene = |more: serde_json::Value| {
        let mut group = json!({"path": "/box", "shares": 1024, "limit": {"quota_us": 50_000, "period_us": 100_000}});
        let mut snapshot = json!({
            "kernel": {"release": "4.19.0"},
            "hierarchy": {"version": "v1", "mount": "/sys/fs/cgroup/cpu"},
            "tasks": [member(100, "tenant", "/box"), member(101, "one", "/"), member(102, "two", "/")],
        });
        if more.is_object() {
            group["throttled"] = json!({"periods": 3, "count": 0, "ns": 0});
            snapshot["throttled_meanwhile"] = more;
        }
        snapshot["cgroups"] = json!([group]);
        let scene = Scene::new(1000).task('t', "tenant", 120).task('u', "one", 120).task('v', "two", 120);
        scene.cpu(&times(20, "ttttuuuuvvvv")).snapshot(snapshot).explain().verdict.text
    };
    let unknown = scene(json!(null));
    assert!(unknown.starts_with("Nobody is starved."), "{unknown}");
    assert!(unknown.contains("Whether the CPU limit of /box stopped its tasks is not known"), "{unknown}");
    let counted = scene(json!({}));
    assert!(counted.starts_with("Nobody is starved.") && !counted.contains("limit"), "{counted}");
}

#[test]
fn without_counters_a_limit_is_charged_for_no_wait_that_had_mainly_another_reason() {
    // One column is 10 ms: ten waits of 250 ms behind the heavy group, and thirty that are mostly a real-time task's.
    let long = format!("t{}", times(25, "h"));
    let short = "thhhrrrrrrr";
    let task = |tid: u32, comm: &str, group: &str| json!({"tid": tid, "comm": comm, "policy": "other", "cgroup": group, "start_ticks": 1, "allowed": "0"});
    let snapshot = json!({
        "kernel": {"release": "6.1.0"},
        "hierarchy": {"version": "v2", "mount": "/sys/fs/cgroup"},
        "cgroups": [
            {"path": "/box", "weight": 100, "limit": {"quota_us": 90_000, "period_us": 100_000}},
            {"path": "/heavy", "weight": 1000},
        ],
        "tasks": [task(100, "tenant", "/box"), task(101, "hog", "/heavy")],
    });
    let scene = Scene::new(10_000)
        .task('t', "tenant", 120)
        .task('h', "hog", 120)
        .task('r', "control", 49)
        .cpu(&format!("{}{}", times(10, &long), times(30, short)))
        .wakes('r', &format!("{}{}", times(260, " "), times(30, "    !      ")))
        .snapshot(snapshot);
    let findings = scene.explain().findings;
    let evidence: Vec<&String> = findings.iter().flat_map(|finding| &finding.evidence).collect();
    assert!(evidence.iter().any(|line| line.contains("1.00 s of its waits were that limit's")), "{evidence:#?}");
}
