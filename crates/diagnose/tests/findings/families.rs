//! Who belongs together, who counts, and how long a stall is.

use unstarve_diagnose::{Options, explain};
use unstarve_model::{
    Comm, Context, CpuId, Event, EventKind, Issuer, MemorySource, Names, PrevState, Prio, TaskRef, Tid, Time, TraceInfo,
};
use unstarve_testing::grows_with_its_input;

use crate::findings::scene::{Scene, times};

#[test]
fn jobs_with_names_of_their_own_are_one_intruder_and_the_sum_counts() {
    // One column is 4 ms: forty jobs, one after the other, take 8 of every 12 ms from an indexer i, which the first finds
    // asleep.
    let letters: Vec<char> = ('A'..='Z').chain('j'..='x').take(40).collect();
    let mut scene = Scene::new(4000).task('i', "indexer", 120);
    for (number, letter) in letters.iter().enumerate() {
        scene = scene.task(*letter, &format!("job{number}"), 79);
    }
    let row: String = letters.iter().map(|job| format!("{job}{job}i")).collect();
    scene = scene.cpu(&row);
    for (number, letter) in letters.iter().enumerate() {
        scene = scene.wakes(*letter, &format!("{}!", times(number * 3, " ")));
    }
    let report = scene.explain();
    let finding = &report.findings[0];
    assert_eq!((finding.id.as_str(), finding.severity.word(), report.findings.len()), ("rt-starvation", "critical", 1));
    assert!(finding.sentence.contains("job… (39 names)"), "{}", finding.sentence);
    assert!(finding.culprits.iter().map(|row| row.ns).sum::<u64>() >= 39 * 8_000_000);
}

#[test]
fn jobs_of_any_name_belong_to_the_cgroup_that_they_are_in() {
    let names = ["sync", "rotate", "report", "vacuum", "index"];
    let mut scene = Scene::new(1000).task('z', "apisrv", 120);
    let mut row = String::new();
    for (letter, name) in ('a'..).zip(names) {
        scene = scene.task(letter, name, 79);
        row.push_str(&format!("{}{}", letter.to_string().repeat(10), times(5, "z")));
    }
    let tasks: Vec<serde_json::Value> = (101..106)
        .map(|tid| serde_json::json!({"tid": tid, "comm": "job", "policy": "fifo", "rt_priority": 20, "cgroup": "/system.slice/cron.service", "start_ticks": 1}))
        .collect();
    scene = scene.cpu(&times(10, &row)).snapshot(serde_json::json!({"kernel": {"release": "6.1.0"}, "tasks": tasks}));
    for (number, letter) in ('a'..).take(names.len()).enumerate() {
        scene =
            scene.wakes(letter, &times(10, &format!("{}!{}", times(number * 15, " "), times(74 - number * 15, " "))));
    }
    insta::assert_snapshot!(scene.findings(), @"critical rt-starvation: apisrv by index (class)");
    let finding = &scene.explain().findings[0];
    assert_eq!(finding.culprits.len(), 5);
    let told = finding.evidence.iter().any(|line| line.contains("in the cgroup /system.slice/cron.service"));
    assert!(told, "{:?}", finding.evidence);
}

/// Two real-time threads with numbered names take 20 ms of every 100 ms each. One column is 5 ms.
fn numbered(prios: [i32; 2], groups: [&str; 2]) -> Scene {
    let task = |tid: u32, group: &str| serde_json::json!({"tid": tid, "comm": "t", "policy": "fifo", "cgroup": group, "start_ticks": 1});
    let round = |place: usize| times(10, &format!("{}!{}", times(place, " "), times(19 - place, " ")));
    Scene::new(5000)
        .task('v', "victim", 120)
        .task('a', "Thread-1", prios[0])
        .task('b', "Thread-2", prios[1])
        .cpu(&times(10, &format!("aaaa{}bbbb{}", times(6, "v"), times(6, "v"))))
        .wakes('a', &round(0))
        .wakes('b', &round(10))
        .snapshot(
            serde_json::json!({"kernel": {"release": "6.1.0"}, "tasks": [task(101, groups[0]), task(102, groups[1])]}),
        )
}

#[test]
fn numbered_names_of_two_programs_are_two_intruders() {
    let intruders =
        |scene: Scene| scene.explain().findings.iter().filter(|finding| finding.id.as_str() == "rt-starvation").count();
    assert_eq!(intruders(numbered([79, 79], ["/audio", "/audio"])), 1);
    assert_eq!(intruders(numbered([79, 79], ["/audio", "/fieldbus"])), 2);
    assert_eq!(intruders(numbered([79, 49], ["/audio", "/audio"])), 2, "not of one process, as far as is known");
    assert_eq!(intruders(numbered([79, 79], ["/", "/"])), 1, "nothing speaks against it");
}

#[test]
fn short_stays_within_one_long_wait_are_no_stall() {
    // One column is 300 µs: an audio thread a runs every 6 ms; b gets a turn of 6 ms only after 400 ms of a compiler c.
    let compiler = times(66, &format!("a{}", times(19, "c")));
    let scene = Scene::new(300)
        .task('a', "pipewire", 88)
        .task('b', "batch", 120)
        .task('c', "cc1", 120)
        .cpu(&times(10, &format!("{compiler}{}", times(20, "b"))))
        .wakes('a', &times(10, &format!("{}{}", times(66, &format!("!{}", times(19, " "))), times(20, " "))));
    let report = scene.explain();
    let by_audio = report.findings.iter().find(|finding| finding.id.as_str() == "rt-starvation");
    assert!(by_audio.is_none(), "{:?}", by_audio.map(|finding| &finding.sentence));
}

#[test]
fn one_stay_after_the_other_without_a_gap_is_one_stall() {
    // One column is 1 ms: a and b take 10 ms each, one right after the other, of every 50 ms.
    let scene = Scene::new(1000)
        .task('a', "rx-0", 79)
        .task('b', "rx-1", 79)
        .task('v', "victim", 120)
        .cpu(&times(10, &format!("{}{}{}", times(10, "a"), times(10, "b"), times(30, "v"))))
        .wakes('a', &times(10, &format!("!{}", times(49, " "))))
        .wakes('b', &times(10, &format!("!{}", times(49, " "))));
    let finding = &scene.explain().findings[0];
    assert!(finding.sentence.contains("up to 20.0 ms at a time"), "{}", finding.sentence);
}

#[test]
fn a_stretch_that_another_family_made_longer_is_not_this_familys_stall() {
    // One column is 1 ms: pulsehog takes 250 ms of each second; once, another real-time task follows it for 450 ms.
    let alone = format!("{}{}", times(250, "p"), times(750, "v"));
    let followed = format!("{}{}{}", times(250, "p"), times(450, "q"), times(300, "v"));
    let scene = Scene::new(1000)
        .task('p', "pulsehog", 49)
        .task('q', "sh", 59)
        .task('v', "victim", 120)
        .cpu(&format!("{}{followed}{}", times(3, &alone), times(2, &alone)))
        .wakes('p', &times(6, &format!("!{}", times(999, " "))))
        .wakes('q', &format!("{}!{}", times(3250, " "), times(2749, " ")));
    let report = scene.explain();
    let by = |name: &str| {
        let finding = report.findings.iter().find(|finding| finding.culprits.iter().any(|row| row.comm == name));
        finding.map(|finding| finding.sentence.as_str()).unwrap_or("-")
    };
    assert!(by("pulsehog").contains("up to 250 ms at a time"), "{}", by("pulsehog"));
    assert!(by("sh").contains("up to 450 ms at a time"), "{}", by("sh"));
}

#[test]
fn who_lost_most_gives_the_finding_its_name_kernel_thread_or_not() {
    // One column is 1 ms. The hog takes 40 of 50 ms; rcu_preempt waits longer than the program p, and nobody is seen to pay for it.
    let scene = Scene::new(1000)
        .task('h', "hog", 79)
        .task('r', "rcu_preempt", 120)
        .task('p', "filler", 120)
        .cpu(&times(10, &format!("{}rpppp{}", times(40, "h"), times(5, "."))))
        .wakes('h', &times(10, &format!("!{}", times(49, " "))))
        .wakes('r', &times(10, &format!("  !{}", times(47, " "))))
        .wakes('p', &times(10, &format!("{}!{}", times(20, " "), times(29, " "))));
    insta::assert_snapshot!(scene.findings(), @"critical rt-starvation: rcu_preempt by hog (class)");
}

#[test]
fn equals_among_real_time_tasks_starve_nobody() {
    // Round robin: 100 ms each. One column is 20 ms.
    let scene = Scene::new(20_000).task('a', "left", 79).task('b', "right", 79).cpu(&times(10, "aaaaabbbbb"));
    assert_eq!(scene.alarms(), Vec::<String>::new());
}

#[test]
fn a_part_of_a_short_trace_is_no_alarm() {
    // One column is 100 µs, the trace 2.6 ms long: a control thread ran for 1.5 ms of it.
    let scene = Scene::new(100)
        .task('r', "control", 49)
        .task('v', "victim", 120)
        .cpu(&format!("vvvv{}{}", times(15, "r"), times(7, "v")))
        .wakes('r', "    !");
    assert_eq!(scene.alarms(), Vec::<String>::new());
}

#[test]
fn who_only_watches_is_no_victim_and_no_payer() {
    // One column is 1 ms: the hog takes 40 of 50 ms from a thread of the recorder, and from the lab's runner of loads.
    let scene = |name: &str, main: &str| {
        Scene::new(1000)
            .task('h', "hog", 79)
            .task('r', name, 120)
            .cpu(&times(10, &format!("{}rr{}", times(40, "h"), times(8, "."))))
            .wakes('h', &times(10, &format!("!{}", times(49, " "))))
            .wakes('r', &times(10, &format!("  !{}", times(47, " "))))
            .snapshot(serde_json::json!({"kernel": {"release": "6.1.0"}, "tasks": [
                {"tid": 80, "comm": main, "policy": "other", "start_ticks": 1},
                {"tid": 81, "tgid": 80, "comm": "unstarve-record", "policy": "other", "start_ticks": 1},
            ]}))
    };
    assert_eq!(scene("unstarve-record", "unstarve").findings(), "");
    assert_eq!(scene("init", "init").findings(), "", "the lab's program records and starts the loads");
    insta::assert_snapshot!(scene("init", "unstarve").findings(), @"critical rt-starvation: init by hog (class)");
}

/// A hog may call itself anything, and give a thread of its own any name.
#[test]
fn who_calls_itself_the_recorder_is_a_hog_all_the_same() {
    let scene = |name: &str, snapshot: serde_json::Value| {
        Scene::new(1000)
            .task('h', name, 79)
            .task('v', "service", 120)
            .cpu(&times(10, &format!("{}vv{}", times(40, "h"), times(8, "."))))
            .wakes('h', &times(10, &format!("!{}", times(49, " "))))
            .wakes('v', &times(10, &format!("  !{}", times(47, " "))))
            .snapshot(snapshot)
    };
    let nothing = serde_json::json!({"kernel": {"release": "6.1.0"}});
    for name in ["unstarve-record", "unstarve-x", "lab-keeper", "trace-cmd"] {
        let findings = scene(name, nothing.clone()).findings();
        assert_eq!(findings.trim(), format!("critical rt-starvation: service by {name} (class)"));
    }
    // A thread that only has the recorder's name makes its process no recorder.
    let named = serde_json::json!({"kernel": {"release": "6.1.0"}, "tasks": [
        {"tid": 80, "comm": "hog", "policy": "fifo", "start_ticks": 1},
        {"tid": 81, "tgid": 80, "comm": "unstarve-record", "policy": "other", "start_ticks": 1},
    ]});
    assert_eq!(scene("hog", named).findings().trim(), "critical rt-starvation: service by hog (class)");
}

#[test]
fn a_payer_pays_for_its_sleep_and_for_its_own_wait() {
    // One column is 1 ms. Of each 50 ms h takes 20; k waits behind it and wakes f, which burns the rest and so waits
    // behind h, too, when it is runnable.
    let round = format!("{}kk{}", times(20, "h"), times(28, "f"));
    let scene = Scene::new(1000)
        .task('h', "hog", 79)
        .task('k', "kworker/0:1", 120)
        .task('f', "fio", 120)
        .cpu(&times(20, &round))
        .wakes('h', &times(20, &format!("!{}", times(49, " "))))
        .wakes('k', &times(20, &format!(" !{}", times(48, " "))));
    let finding = &scene.explain().findings[0];
    assert_eq!(finding.victim.comm, "kworker/0:1");
    let fio = finding.price.iter().find(|payer| payer.comm == "fio").expect("fio pays");
    assert!(fio.waited_ns >= 19 * 20_000_000 && fio.ns >= fio.waited_ns, "{fio:?}");
}

#[test]
fn many_short_stays_are_as_bad_as_what_the_victim_lost() {
    // One column is 200 µs: a codec takes two of five columns from a program that only computes…
    let codec = |row: &str| Scene::new(200).task('c', "codec", 79).task('v', "victim", 120).cpu(&times(1000, row));
    let computes = codec("cvvcvv").wakes('c', &times(1000, "!  !  "));
    insta::assert_snapshot!(computes.findings(), @"info rt-starvation: victim by codec (class)");
    let sentence = &computes.explain().findings[0].sentence;
    assert!(sentence.contains("less than 1 ms at a time") || sentence.contains("200 µs at a time"), "{sentence}");
    // …and from one for whose answers a client sleeps: it pays for the waits.
    let serves = Scene::new(200)
        .task('c', "codec", 79)
        .task('v', "victim", 120)
        .task('a', "client", 120)
        .cpu(&times(1000, "vcvva"))
        .wakes('c', &times(1000, " !   "))
        .wakes('v', &times(1000, "^    "))
        .wakes('a', &times(1000, "    ^"));
    insta::assert_snapshot!(serves.findings(), @"warning rt-starvation: victim by codec (class)");
}

/// Real-time tasks of so many names, each of which runs for 200 µs and takes the CPU from a victim.
fn many_names(count: u32) -> MemorySource {
    let victim = TaskRef::new(Tid(50), Comm::from("victim"), Some(Prio::NORMAL));
    let mut events = Vec::new();
    for number in 0..count {
        let letters: String = (0..5).map(|place| char::from(b'a' + (number / 26u32.pow(place) % 26) as u8)).collect();
        let job = TaskRef::new(Tid(1000 + number), Comm::from(letters.as_str()), Some(Prio(89)));
        let start = 1_000_000_000 + u64::from(number) * 500_000;
        let mut push = |time, current: TaskRef, kind| {
            events.push(Event {
                time: Time(time),
                cpu: CpuId(0),
                issuer: Issuer::new(Some(current.tid()), Context::Task),
                kind,
            });
        };
        push(start, victim, EventKind::Waking { task: job, target_cpu: CpuId(0) });
        push(start + 2, victim, EventKind::Switch { prev: victim, prev_state: PrevState::Preempted, next: job });
        push(start + 200_000, job, EventKind::Switch { prev: job, prev_state: PrevState::Sleeping, next: victim });
    }
    let info = TraceInfo { format: "scene".into(), cpus: Some(1), ..TraceInfo::default() };
    MemorySource::new(info, events, Names::default())
}

#[test]
fn thousands_of_names_are_not_compared_each_with_each() {
    let explained = |names| {
        explain(Box::new(many_names(names)), &Options::default(), |_| {}).expect("it has events");
    };
    grows_with_its_input(8, || explained(2_000), || explained(16_000));
}
