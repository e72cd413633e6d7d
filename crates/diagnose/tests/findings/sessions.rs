//! Where autogroup is on, sessions compete as one each, and nice counts only inside one.

use serde_json::{Value, json};
use unstarve_diagnose::report::{Scope, Severity, verdict};

use crate::findings::scene::{Scene, times};

/// What the snapshot says of the autogroups of a hog of nice −15 and a service of nice 0: number and nice value.
type Autogroups = [Option<(u64, i32)>; 2];

/// The hog gets 28 ms of each 30, the service 2.
fn hog(setting: &str, autogroups: Autogroups) -> Scene {
    let task = |tid: u32, comm: &str, nice: i32, autogroup: Option<(u64, i32)>| -> Value {
        let mut task = json!({"tid": tid, "comm": comm, "policy": "other", "nice": nice, "cgroup": "/", "start_ticks": 1, "allowed": "0"});
        if let Some((id, nice)) = autogroup {
            task["autogroup"] = json!({"id": id, "nice": nice});
        }
        task
    };
    let [of_hog, of_service] = autogroups;
    Scene::new(1000)
        .task('h', "hog", 105)
        .task('s', "service", 120)
        .cpu(&times(40, &format!("{}{}", times(28, "h"), times(2, "s"))))
        .snapshot(json!({
            "kernel": {"release": "6.12.9"},
            "settings": {"/proc/sys/kernel/sched_autogroup_enabled": setting},
            "tasks": [task(100, "hog", -15, of_hog), task(101, "service", 0, of_service)],
        }))
}

fn blames_weight(scene: &Scene) -> bool {
    scene.explain().findings.iter().any(|finding| finding.id.as_str() == "weight-starvation")
}

#[test]
fn nice_counts_inside_a_session() {
    assert!(blames_weight(&hog("1", [Some((7, 0)), Some((7, 0))])));
}

#[test]
fn nice_does_not_count_between_two_sessions() {
    let scene = hog("1", [Some((7, 0)), Some((8, 0))]);
    assert!(!blames_weight(&scene), "{}", scene.findings());
    let rules: Vec<String> = scene.explain().worst_waits[0].blame.iter().map(|row| row.rule.to_string()).collect();
    assert_eq!(rules, ["fair"]);
}

#[test]
fn the_nice_value_of_a_session_counts_between_sessions() {
    let scene = hog("1", [Some((7, -15)), Some((8, 0))]);
    assert!(blames_weight(&scene));
    let report = scene.explain();
    let finding = report.findings.iter().find(|finding| finding.id.as_str() == "weight-starvation").expect("a finding");
    let whose = "hog competes with the load weight 29154 of its session (autogroup, nice −15 in /proc/PID/autogroup), service with";
    assert!(finding.evidence.iter().any(|line| line.starts_with(whose)), "{:?}", finding.evidence);
}

/// The remedies of the one finding about weights.
fn remedies(scene: &Scene) -> Vec<unstarve_diagnose::report::Remedy> {
    let findings = scene.explain().findings;
    findings.into_iter().find(|finding| finding.id.as_str() == "weight-starvation").expect("a finding").remedies
}

#[test]
fn where_sessions_compete_the_nice_of_the_session_is_changed_and_no_task_s() {
    let between = remedies(&hog("1", [Some((7, -15)), Some((8, 0))]));
    let ids: Vec<&str> = between.iter().map(|remedy| remedy.id.as_str()).collect();
    assert_eq!(ids, ["session-to-nice-0"]);
    let line = |check: &str, nice: i32| {
        format!(
            "for t in 100; do case $t:$(tail -n 1 /proc/$t/stat 2> /dev/null | LC_ALL=C sed 's/.*) //' | cut -d ' ' -f 20) in 100:1) {check}echo {nice} > \
             /proc/$t/autogroup ;; *) echo \"thread $t has ended\" >&2 ;; esac; done"
        )
    };
    // The undo gives -15 back, which only root can have given: a recording that says so is not believed.
    let check = "[ \"$(sed -n 's/.* nice //p' /proc/$t/autogroup)\" = -15 ] || { echo \"thread $t is not as it was recorded\" >&2; continue; }; ";
    assert_eq!((&between[0].apply, &between[0].undo), (&line(check, 0), &line("", -15)));
    let inside = remedies(&hog("1", [Some((7, 0)), Some((7, 0))]));
    assert!(inside.iter().any(|remedy| remedy.id.as_str() == "occupant-to-nice-0"), "{inside:?}");
    assert!(inside.iter().all(|remedy| remedy.id.as_str() != "session-to-nice-0"), "{inside:?}");
}

#[test]
fn who_hardly_ran_is_starved_whatever_it_is_called() {
    let mut report = hog("1", [Some((7, -15)), Some((8, 0))]).explain();
    let span = report.trace.end_ns - report.trace.start_ns;
    let worst = &mut report.findings[0];
    (worst.severity, worst.confidence, worst.victim.tasks) = (Severity::Warning, 0.8, 1);
    let mut lead = |waited: f64| {
        report.findings[0].waits.total_ns = (span as f64 * waited) as u64;
        let text = verdict(&report, Scope::Whole).text;
        text.split_inclusive([':', ',']).next().unwrap_or_default().to_owned()
    };
    assert_eq!(lead(0.5), "Nobody is starved outright,");
    assert_eq!(lead(0.95), "Most likely starved:");
    report.findings[0].confidence = 0.95;
    assert!(verdict(&report, Scope::Whole).text.starts_with("Starved: "));
    report.findings[0].confidence = 0.57;
    let text = verdict(&report, Scope::Whole).text;
    assert!(text.starts_with("service ") && text.contains(" Low confidence: "), "{text}");
}

#[test]
fn a_session_that_is_nice_and_has_its_turns_is_not_starved() {
    // 1024 to 526: a turn of 4 ms for each two of five others.
    let task = |tid: u32, comm: &str, session: u64, nice: i32| json!({"tid": tid, "comm": comm, "policy": "other", "nice": 0, "cgroup": "/", "start_ticks": 1, "allowed": "0", "autogroup": {"id": session, "nice": nice}});
    let others = ['a', 'b', 'c', 'd', 'e'];
    let turns: String = others.iter().map(|letter| times(8, &letter.to_string())).collect();
    let tasks = others.iter().zip(101..).map(|(_, tid)| task(tid, "rustc", u64::from(tid), 0));
    let scene =
        Scene::new(1000).task('g', "guest", 120).cpu(&times(24, &format!("gggggggg{turns}{turns}"))).snapshot(json!({
            "kernel": {"release": "6.12.9"},
            "settings": {"/proc/sys/kernel/sched_autogroup_enabled": "1"},
            "tasks": tasks.chain([task(100, "guest", 7, 3)]).collect::<Vec<_>>(),
        }));
    let scene = others.iter().fold(scene, |scene, letter| scene.task(*letter, "rustc", 120));
    assert_eq!(scene.alarms(), Vec::<String>::new());
}

/// A hog in a session of its own, and in another a SCHED_IDLE task beside `rival`; the SCHED_IDLE task gets 1 ms of each 240.
fn last_by_policy(rival: char) -> Scene {
    let task = |tid: u32, comm: &str, policy: &str, session: u64| json!({"tid": tid, "comm": comm, "policy": policy, "nice": 0, "cgroup": "/", "start_ticks": 1, "allowed": "0", "autogroup": {"id": session, "nice": 0}});
    let turns = format!("{}{}", times(4, "h"), times(4, &rival.to_string()));
    Scene::new(1000)
        .task('h', "hog", 120)
        .task('n', "normal", 120)
        .task('i', "last", 120)
        .cpu(&times(12, &format!("i{}", times(30, &turns))))
        .snapshot(json!({
            "kernel": {"release": "6.12.9"},
            "settings": {"/proc/sys/kernel/sched_autogroup_enabled": "1"},
            "tasks": [task(100, "hog", "other", 7), task(101, "normal", "other", 8), task(102, "last", "idle", 8)],
        }))
}

#[test]
fn one_that_asked_to_be_last_of_its_session_gives_no_doubt_beside_another_session() {
    let beside = last_by_policy('n').explain();
    assert_eq!(beside.trace.too_little, None, "{:?}", beside.verdict);
    assert_eq!(beside.worst_waits[0].comm, "last");
    // Alone in its session it would have had the session's turns.
    let alone = last_by_policy('h').explain().trace.too_little;
    assert!(alone.as_ref().is_some_and(|why| why.contains("behind hog, its equal by priority")), "{alone:?}");
}

#[test]
fn nice_counts_where_autogroup_is_off() {
    assert!(blames_weight(&hog("0", [None, None])));
}

#[test]
fn where_the_sessions_are_not_known_nice_is_less_sure() {
    let confidence = |setting: &str| hog(setting, [None, None]).explain().findings[0].confidence;
    assert!(confidence("1") <= 0.6 && confidence("0") > 0.9, "{} {}", confidence("1"), confidence("0"));
}

#[test]
fn of_a_task_that_ended_before_the_settings_were_read_nice_is_less_sure() {
    let finding = |known: &[(u32, &str, i32)]| {
        let task = |&(tid, comm, nice): &(u32, &str, i32)| {
            json!({"tid": tid, "comm": comm, "policy": "other", "nice": nice, "cgroup": "/", "start_ticks": 1,
                   "allowed": "0", "autogroup": {"id": 7, "nice": 0}})
        };
        let scene = hog("1", [None, None]).snapshot(json!({
            "kernel": {"release": "6.12.9"},
            "settings": {"/proc/sys/kernel/sched_autogroup_enabled": "1"},
            "tasks": known.iter().map(task).collect::<Vec<_>>(),
        }));
        scene.explain().findings.remove(0)
    };
    let (service, shell) = ((101, "service", 0), (99, "sh", 0));
    for (known, says) in [(&[service, shell][..], "of which session hog was"), (&[shell], "who is of which session")] {
        let finding = finding(known);
        assert_eq!(finding.id.as_str(), "weight-starvation");
        assert!(finding.confidence <= 0.6, "{says}: {}", finding.confidence);
        assert!(finding.evidence.iter().any(|line| line.contains(says)), "{:?}", finding.evidence);
    }
}
