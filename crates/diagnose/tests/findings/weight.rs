use serde_json::json;
use unstarve_model::EventType;

use crate::findings::scene::{Scene, times};

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
    assert_eq!(finding.id.as_str(), "completion-ping-pong");
    assert!(finding.evidence.iter().any(|line| line.contains("load weight 10240")), "{:?}", finding.evidence);
    let first = &finding.remedies[0];
    assert_eq!(first.apply, "echo 100 > /sys/fs/cgroup/kubepods/cpu.weight");
    assert_eq!(first.undo, "echo 1000 > /sys/fs/cgroup/kubepods/cpu.weight");
}

#[test]
fn without_work_events_the_switches_still_tell_less_surely() {
    let scene = ping_pong().without(EventType::WorkStart).without(EventType::WorkEnd);
    let (with, without) = (ping_pong().explain(), scene.explain());
    assert_eq!(without.findings[0].id.as_str(), "completion-ping-pong");
    assert!(without.findings[0].confidence < with.findings[0].confidence);
    assert!(without.findings[0].losses.iter().any(|loss| loss.contains("workqueue_execute_start")));
}

#[test]
fn ping_pong_explains_the_waits_of_its_own_worker_alone() {
    // On another CPU a program of the same name as the worker, at another nice, gets one turn of eleven.
    let rounds = 2750;
    let (pair, hogs) = (times(rounds, "kfff"), times(200, &format!("{}{}", times(5, "a"), times(50, "b"))));
    let scene = Scene::new(200)
        .task('f', "fio", 120)
        .task('k', "writer", 120)
        .task('a', "writer", 119)
        .task('b', "big", 119)
        .cpu(&pair)
        .cpu(&hogs)
        .wakes('f', &times(rounds, " ^  "))
        .items('k', "iomap_dio_complete_work", &times(rounds, "i   "));
    insta::assert_snapshot!(scene.findings(), @r"
    critical completion-ping-pong: writer by fio (wakeup-preemption)
    warning weight-starvation: writer by big (fair)
    ");
}

/// Two hogs on one CPU; a gets one column of eleven. One column is 1 ms.
fn two_hogs() -> Scene {
    let row = times(200, "abbbbbbbbbb");
    Scene::new(1000).task('a', "small", 120).task('b', "big", 120).cpu(&row)
}

#[test]
fn a_weight_that_was_not_recorded_is_read_and_set_as_the_hosts_cgroup_version_does() {
    let host = |version: &str, mount: &str| json!({"kernel": {"release": "6.1.0"}, "tasks": [], "hierarchy": {"version": version, "mount": mount}});
    let remedy = |snapshot| {
        let findings = two_hogs().snapshot(snapshot).explain().findings;
        let remedy = findings[0].remedies.iter().find(|remedy| remedy.id.as_str() == "lower-group-weight").cloned();
        (remedy.expect("its weight may be to blame"), findings[0].evidence.join("\n"))
    };
    let (v1, evidence) = remedy(host("v1", "/sys/fs/cgroup/cpu,cpuacct"));
    assert!(
        v1.valid_on.starts_with("cgroup v1")
            && v1.text.starts_with("Bring cpu.shares")
            && v1.text.contains("down to 1024"),
        "{}",
        v1.text
    );
    assert!(evidence.contains("cpu.shares"), "{evidence}");
    let (v2, _) = remedy(host("v2", "/sys/fs/cgroup"));
    assert!(v2.text.starts_with("Bring cpu.weight") && v2.text.contains("down to 100,"), "{}", v2.text);
    // Which hierarchy it is, the command sees by itself.
    for apply in [v1.apply, v2.apply] {
        assert!(apply.contains("/cpu.shares") && apply.contains("/cpu.weight"), "{apply}");
    }
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

/// Groups with their weights, and the tasks 100, 101, … with the groups they are in.
fn host(groups: &[(&str, u32)], tasks: &[(&str, &str)]) -> serde_json::Value {
    let groups: Vec<_> = groups.iter().map(|(path, weight)| json!({"path": path, "weight": weight})).collect();
    let task = |(number, (comm, group)): (usize, &(&str, &str))| json!({"tid": 100 + number, "comm": comm, "policy": "other", "cgroup": group, "start_ticks": 1, "allowed": "0"});
    let tasks: Vec<_> = tasks.iter().enumerate().map(task).collect();
    json!({
        "kernel": {"release": "6.1.0-32-amd64"},
        "hierarchy": {"version": "v2", "mount": "/sys/fs/cgroup"},
        "cgroups": groups, "tasks": tasks,
    })
}

#[test]
fn weights_that_divide_throughput_are_what_somebody_asked_for() {
    let groups = [("/shop", 300), ("/reports", 100)];
    let scene = Scene::new(1000).task('a', "reports", 120).task('b', "shop", 120).cpu(&times(200, "abbb"));
    let scene = scene.snapshot(host(&groups, &[("reports", "/reports"), ("shop", "/shop")]));
    insta::assert_snapshot!(scene.findings(), @"info weight-starvation: reports by shop (weight)");
}

#[test]
fn groups_within_a_group_are_compared_and_can_be_made_equal() {
    let groups = [("/prod", 100), ("/prod/heavy", 1000), ("/prod/light", 10)];
    let scene = two_hogs().snapshot(host(&groups, &[("small", "/prod/light"), ("big", "/prod/heavy")]));
    insta::assert_snapshot!(scene.findings(), @"critical weight-starvation: small by big (weight)");
    let finding = &scene.explain().findings[0];
    assert_eq!(
        finding.evidence[0],
        "big competes with the load weight 10240 of /prod/heavy, small with the load weight 102 of /prod/light"
    );
    let first = &finding.remedies[0];
    assert_eq!(
        first.apply,
        "for f in /sys/fs/cgroup/prod/heavy/cpu.weight /sys/fs/cgroup/prod/light/cpu.weight; do echo 100 > \"$f\"; done"
    );
    assert_eq!(
        first.undo,
        "echo 10 > /sys/fs/cgroup/prod/light/cpu.weight; echo 1000 > /sys/fs/cgroup/prod/heavy/cpu.weight"
    );
}

#[test]
fn what_weighs_little_beside_its_siblings_says_nothing_to_other_groups() {
    // Both top-level groups weigh the same, so the two share as equals, whatever they weigh inside.
    let groups = [("/a", 100), ("/a/x", 10), ("/a/y", 20), ("/b", 100), ("/b/x", 1000), ("/b/y", 20)];
    let row = times(200, "abbb");
    let scene = Scene::new(1000).task('a', "one", 120).task('b', "two", 120).cpu(&row);
    let scene = scene.snapshot(host(&groups, &[("one", "/a/x"), ("two", "/b/x")]));
    assert!(!scene.findings().contains("(weight)"), "{}", scene.findings());
}

/// A daemon that hardly needs the CPU waits once for 1.4 s behind a heavy group; a minute of idling follows.
fn light_daemon(idle_ms: usize) -> Scene {
    let row = format!("d{}d{}{}", times(1400, "b"), times(20, "b"), times(idle_ms, "."));
    let groups = [("/web", 1), ("/batch", 10_000)];
    Scene::new(1000)
        .task('d', "daemon", 120)
        .task('b', "big", 120)
        .cpu(&row)
        .wakes('d', &format!("{}^", times(20, " ")))
        .snapshot(host(&groups, &[("daemon", "/web"), ("big", "/batch")]))
}

#[test]
fn one_long_stall_of_a_task_that_needs_little_counts_whatever_the_length_of_the_trace() {
    for idle in [0, 60_000] {
        insta::allow_duplicates! {
            insta::assert_snapshot!(light_daemon(idle).findings(), @"critical weight-starvation: daemon by big (weight)");
        }
    }
    let remedies = &light_daemon(0).explain().findings[0].remedies;
    let applies = remedies[0].apply.as_str();
    assert_eq!(
        applies,
        "for f in /sys/fs/cgroup/batch/cpu.weight /sys/fs/cgroup/web/cpu.weight; do echo 100 > \"$f\"; done"
    );
}

/// A client of nice 0 asks a server of nice 19 forty times; a hog has the CPU for 30 ms before the server gets it.
fn served_at_nice_19() -> Scene {
    let round = format!("c{}s", times(30, "h"));
    Scene::new(1000)
        .task('c', "client", 120)
        .task('s', "server", 139)
        .task('h', "hog", 120)
        .cpu(&format!("h{}h", times(40, &round)))
        .wakes('c', &format!(" {}", times(40, &format!("^{}", times(31, " ")))))
        .wakes('s', &format!(" {}", times(40, &format!(" ^{}", times(30, " ")))))
}

#[test]
fn a_task_that_is_last_by_choice_is_an_alarm_only_for_those_whom_it_serves() {
    let findings = served_at_nice_19().explain().findings;
    let finding = findings.iter().find(|finding| finding.id.as_str() == "weight-starvation").expect("somebody pays");
    assert!(finding.severity >= unstarve_diagnose::report::Severity::Warning);
    assert_eq!((finding.victim.comm.as_str(), finding.price[0].comm.as_str()), ("server", "client"));
    let raise =
        finding.remedies.iter().find(|remedy| remedy.id.as_str() == "raise-victim").expect("a program is raised");
    assert!(!raise.risk.contains("orker"), "{}", raise.risk);
}

#[test]
fn a_part_of_the_waits_names_what_it_is_a_part_of() {
    let findings = served_at_nice_19().explain().findings;
    let evidence = findings.iter().flat_map(|finding| &finding.evidence);
    let in_stalls: Vec<_> = evidence.filter(|line| line.contains("equals never wait that long")).collect();
    assert!(
        !in_stalls.is_empty() && in_stalls.iter().all(|line| line.contains(" behind threads of more weight ")),
        "{in_stalls:?}"
    );
}

#[test]
fn a_nice_value_excuses_no_stall_that_is_longer_than_its_turns() {
    // Nice −20 weighs 87 times as much as nice 0: turns of 2 ms are 174 ms apart.
    let turn = format!("{}{}", times(2, "a"), times(174, "b"));
    let scene = |row: &str| Scene::new(1000).task('a', "compute", 120).task('b', "heavy", 100).cpu(row);
    insta::assert_snapshot!(scene(&times(40, &turn)).findings(), @"info weight-starvation: compute by heavy (weight)");
    let stalled = scene(&format!("{}{}{}", times(20, &turn), times(1500, "b"), times(20, &turn)));
    insta::assert_snapshot!(stalled.findings(), @"critical weight-starvation: compute by heavy (weight)");
}
