use crate::findings::scene::{Scene, times};

/// Packets for the echo server e arrive in ksoftirqd k; a monitor h of real-time priority takes the CPU for 90 ms of
/// each second.
fn packets(monitor: &str, prio: i32) -> Scene {
    // One column is 5 ms, one second 200 of them.
    let burst = times(18, "h");
    let second = |row: &str| times(4, row);
    let quiet = times(182 / 2, "k.");
    Scene::new(5000)
        .task('h', monitor, prio)
        .task('k', "ksoftirqd/0", 120)
        .task('e', "echo", 120)
        .cpu(&second(&format!("{burst}{quiet}")))
        .cpu(&second(&format!("{}{}", times(18, "."), times(91, "e."))))
        .wakes('h', &second(&format!("!{}", times(199, " "))))
        .wakes('k', &second(&format!(" !{}{}", times(18, " "), times(90, "! "))))
        .wakes('e', &second(&format!("{}{}", times(18, " "), times(91, "^ "))))
}

#[test]
fn a_periodic_real_time_burst_starves_ksoftirqd() {
    let scene = packets("monitor", 89);
    insta::assert_snapshot!(scene.findings(), @"critical rt-starvation: ksoftirqd/0 by monitor (class)");
    let finding = &scene.explain().findings[0];
    assert_eq!(finding.period_ns, Some(1_000_000_000));
    assert_eq!((finding.waits.max_ns / 1_000_000, finding.cpus.as_slice()), (85, &[0][..]));
    assert_eq!(finding.culprits[0].ns, finding.culprits.iter().map(|row| row.ns).sum::<u64>());
}

#[test]
fn the_same_burst_without_priority_is_none() {
    // A fair task would not keep the CPU for so long, but even then class is not to blame.
    assert!(!packets("monitor", 120).findings().contains("rt-starvation"));
}

#[test]
fn short_real_time_work_is_what_the_class_is_for() {
    // One column is 100 µs: an audio thread a runs for 0.2 ms of every 5 ms beside a compiler c.
    let scene = Scene::new(100)
        .task('a', "pipewire", 88)
        .task('c', "cc1", 120)
        .cpu(&times(200, &format!("aa{}", times(48, "c"))))
        .wakes('a', &times(200, &format!("!{}", times(49, " "))));
    assert_eq!(scene.alarms(), Vec::<String>::new());
}

#[test]
fn one_hog_with_many_victims_is_one_finding_with_the_worker_first() {
    // One column is 1 ms: h runs for 40 ms of every 50, the rest is for k, for a (whom k wakes) and for b.
    let round = format!("{}{}", times(40, "h"), "kkaaabbb..");
    let woken = |offset: usize| times(20, &format!("{}!{}", times(offset, " "), times(49 - offset, " ")));
    let scene = Scene::new(1000)
        .task('h', "controller", 89)
        .task('k', "kworker/0:1", 120)
        .task('a', "app", 120)
        .task('b', "batch", 120)
        .cpu(&times(20, &round))
        .wakes('h', &woken(0))
        .wakes('k', &woken(5))
        .wakes('a', &times(20, &format!("{}^{}", times(42, " "), times(7, " "))))
        .wakes('b', &woken(3))
        .items('k', "iomap_dio_complete_work", &times(20, &format!("{}i{}", times(40, " "), times(9, " "))));
    insta::assert_snapshot!(scene.findings(), @"critical rt-starvation: kworker/0:1 by controller (class)");
    let finding = &scene.explain().findings[0];
    assert_eq!(finding.period_ns, Some(50_000_000));
    let payers: Vec<&str> = finding.price.iter().map(|payer| payer.comm.as_str()).collect();
    assert_eq!(payers, ["batch", "app"]);
    assert_eq!(finding.victim.work.as_ref().map(|work| work.function.as_str()), Some("iomap_dio_complete_work"));
}

#[test]
fn housekeeping_that_runs_later_is_a_remark() {
    // k has 1 ms to do each second and nobody waits for it.
    let scene = |name: &str| {
        Scene::new(1000)
            .task('h', "monitor", 89)
            .task('k', name, 120)
            .cpu(&times(5, &format!("{}k{}", times(90, "h"), times(909, "."))))
            .wakes('h', &times(5, &format!("!{}", times(999, " "))))
            .wakes('k', &times(5, &format!("  !{}", times(997, " "))))
    };
    insta::assert_snapshot!(scene("kworker/0:1").findings(), @"info rt-starvation: kworker/0:1 by monitor (class)");
    insta::assert_snapshot!(scene("kcompactd0").findings(), @"info rt-starvation: kcompactd0 by monitor (class)");
    insta::assert_snapshot!(scene("redis").findings(), @"critical rt-starvation: redis by monitor (class)");
}

/// A real-time task that never sleeps: for 50 ms of each second the kernel lets a filler run.
fn never_sleeps(class: i32) -> Scene {
    let second = format!("{}{}", times(950, "r"), times(50, "f"));
    Scene::new(1000).task('r', "rtaudio", class).task('f', "filler", 120).cpu(&format!(
        "{}{}",
        times(2, &second),
        times(300, "r")
    ))
}

#[test]
fn the_limit_on_real_time_tasks_is_told_of_the_one_that_used_it_up() {
    insta::assert_snapshot!(never_sleeps(49).findings(), @r"
    critical rt-starvation: filler by rtaudio (class)
    info throttled: rtaudio by filler (throttled)
    ");
    let findings = never_sleeps(49).kernel("6.1.0").explain().findings;
    let ids: Vec<&str> = findings[1].remedies.iter().map(|remedy| remedy.id.as_str()).collect();
    assert_eq!(ids, ["leave-room"], "what the limit leaves to the others is all that they have");
    let findings = never_sleeps(49).kernel("6.12.9").explain().findings;
    assert!(findings[1].evidence.iter().any(|line| line.contains("fair server")), "{:?}", findings[1].evidence);
}

#[test]
fn where_no_limit_is_set_nothing_is_called_one() {
    let snapshot = serde_json::json!({
        "kernel": {"release": "6.1.0"},
        "settings": {"/proc/sys/kernel/sched_rt_runtime_us": "-1", "/proc/sys/kernel/sched_rt_period_us": "1000000"},
    });
    assert!(!never_sleeps(49).snapshot(snapshot).findings().contains("throttled"));
    // States are misread: the task sleeps, and the trace says that it is runnable. It never ran for what it may.
    let row = times(40, &format!("{}{}", times(5, "r"), times(45, "f")));
    let scene = Scene::new(1000).task('r', "rtaudio", 49).task('f', "filler", 120).cpu(&row);
    assert!(!scene.findings().contains("throttled"), "{}", scene.findings());
}

#[test]
fn a_deadline_task_has_a_runtime_of_its_own() {
    let findings = never_sleeps(-1).kernel("6.12.9").explain().findings;
    assert_eq!((findings[1].id.as_str(), findings[1].severity.word()), ("throttled", "info"));
    // The fair server is a deadline entity itself and does not hold it back.
    let ids: Vec<&str> = findings[0].remedies.iter().map(|remedy| remedy.id.as_str()).collect();
    assert!(ids.contains(&"less-deadline-runtime") && !ids.contains(&"fair-server"), "{ids:?}");
}

/// Two real-time tasks of one priority: the hog has the CPU for `stay` ms at a time.
fn equals(stay: usize) -> Scene {
    let round = format!("{}v", times(stay, "h"));
    let rounds = 1200 / (stay + 1);
    Scene::new(1000)
        .task('h', "hog", 49)
        .task('v', "control", 49)
        .cpu(&format!("v{}", times(rounds, &round)))
        .wakes('v', &format!("! {}", times(rounds, &format!("!{}", times(stay, " ")))))
}

#[test]
fn a_fifo_task_that_holds_on_starves_its_equal() {
    insta::assert_snapshot!(equals(400).findings(), @"critical rt-starvation: control by hog (order)");
}

#[test]
fn slices_among_real_time_equals_make_late_who_answers_and_starve_nobody_who_computes() {
    // It needs 1 ms at a time.
    insta::assert_snapshot!(equals(100).findings(), @"warning rt-starvation: control by hog (order)");
    assert_eq!(equals(20).alarms(), Vec::<String>::new());
    // Both compute for as long as they may.
    let turns = format!("{}{}", times(100, "h"), times(100, "v"));
    let scene = Scene::new(1000).task('h', "hog", 49).task('v', "control", 49).cpu(&times(8, &turns));
    assert_eq!(scene.alarms(), Vec::<String>::new());
}

#[test]
fn the_fair_server_is_that_of_the_cpu_where_somebody_starved() {
    // The victim waits for long on CPU 1 only; on CPU 0 it was once, for a moment.
    let scene = Scene::new(1000)
        .task('h', "hog", 49)
        .task('v', "server", 120)
        .task('o', "other", 120)
        .kernel("6.12.1")
        .cpu(&format!("ooov{}", times(2000, "o")))
        .cpu(&format!("....{}vv{}", times(950, "h"), times(1048, "h")))
        .wakes('v', "! ")
        .wakes('h', "    !");
    let report = scene.explain();
    let remedies: Vec<_> =
        report.findings[0].remedies.iter().filter(|remedy| remedy.id.as_str() == "fair-server").collect();
    assert!(remedies.is_empty() || remedies[0].apply.contains("fair_server/cpu1/"), "{remedies:?}");
}

#[test]
fn the_fair_server_is_that_of_the_hogs_only_cpu_wherever_the_wait_ended() {
    // The victim waits behind the hog on CPU 1 until it is moved to CPU 0.
    let member = |tid: u32, comm: &str, cpus: &str| serde_json::json!({"tid": tid, "comm": comm, "policy": "other", "cgroup": "/", "start_ticks": 1, "allowed": cpus});
    let snapshot = serde_json::json!({
        "kernel": {"release": "6.12.1"},
        "tasks": [member(100, "hog", "1"), member(101, "server", "0-1"), member(102, "other", "0")],
    });
    let scene = Scene::new(1000)
        .task('h', "hog", 49)
        .task('v', "server", 120)
        .task('o', "other", 120)
        .snapshot(snapshot)
        .cpu(&format!("{}vvvv{}", times(900, "o"), times(96, "o")))
        .cpu(&format!("vv{}", times(998, "h")))
        .wakes('h', " !");
    let report = scene.explain();
    let finding = report.findings.iter().find(|finding| finding.id.as_str() == "rt-starvation").expect("898 ms");
    let remedy = finding.remedies.iter().find(|remedy| remedy.id.as_str() == "fair-server").expect("6.12 has one");
    assert!(remedy.apply.contains("fair_server/cpu1/") && !remedy.apply.contains("cpu0"), "{}", remedy.apply);
}

#[test]
fn the_price_of_a_crowds_other_waits_names_no_victim() {
    // c waits for its equals nearly all the time, and others sleep for it; behind the hog h waits v.
    let scene = Scene::new(1000)
        .task('h', "hog", 49)
        .task('v', "server", 120)
        .task('c', "compiler", 120)
        .task('d', "linker", 120)
        .task('p', "make", 120)
        .cpu(&format!("{}{}", times(100, "ddddcp"), times(400, "h")))
        .cpu(&format!("{}{}v", times(600, "."), times(399, "h")))
        .wakes('c', &times(100, "!     "))
        .wakes('p', &times(100, "     ^"))
        .wakes('v', &format!("{}!", times(610, " ")));
    let finding = scene.explain().findings.remove(0);
    assert_eq!((finding.id.as_str(), finding.victim.comm.as_str()), ("rt-starvation", "server"));
}

#[test]
fn where_both_have_one_name_the_sentence_has_their_ids() {
    let scene = Scene::new(1000).task('h', "app", 49).task('v', "app", 120).cpu(&format!(
        "v{}{}",
        times(300, "h"),
        times(100, "v")
    ));
    let finding = scene.explain().findings.remove(0);
    assert!(
        finding.sentence.starts_with("app[101] is starved by app[100] (real-time): waited 300 ms"),
        "{}",
        finding.sentence
    );
}

/// A control thread c and a hog h of one priority. Each 100 ms the control thread runs for 20, and the hog waits for 19 of them; once the
/// hog keeps the control thread off for 900 ms. `g` is an ordinary task, woken in so many of the rounds.
fn short_turns_and_one_long_stay(woken: usize) -> Scene {
    let round = |g: bool| format!("{}h{}", times(20, "c"), if g { times(79, "g") } else { times(79, ".") });
    let before = |rounds: usize, row: &str| times(rounds, &format!("{row}{}", times(100 - row.len(), " ")));
    let quiet = 190 - woken;
    Scene::new(1000)
        .task('h', "hog", 49)
        .task('c', "control", 49)
        .task('g', "filler", 120)
        .cpu(&format!("{}{}{}c", times(woken, &round(true)), times(quiet, &round(false)), times(902, "h")))
        .wakes('c', &format!("{}  !", before(190, "!")))
        .wakes('h', &format!("{}!", before(190, " !")))
        .wakes('g', &before(woken, "               !"))
}

#[test]
fn short_turns_of_the_victim_excuse_no_long_stay_of_its_equal() {
    let findings = short_turns_and_one_long_stay(1).findings();
    assert!(findings.starts_with("critical rt-starvation: control by hog (order)"), "{findings}");
    let findings = short_turns_and_one_long_stay(190).findings();
    assert!(findings.contains("critical rt-starvation: control by hog (order)"), "{findings}");
}

/// Equals that hold on to the CPU: a has it for 600 ms while b waits, b for 300 ms while a waits; then this.
fn both_hold_on(a: &str, b: &str, more: &str) -> Scene {
    let round = format!("{}{}", times(60, "a"), times(30, "b"));
    Scene::new(10_000)
        .task('a', a, 49)
        .task('b', b, 49)
        .task('B', b, 9)
        .cpu(&format!("{}{more}a", times(5, &round)))
        .wakes('B', &format!("{}!", times(450, " ")))
}

#[test]
fn what_a_higher_priority_took_is_no_turn() {
    // `right` has a thread of priority 90, too, which keeps `left` off for 2.9 s.
    let findings = both_hold_on("left", "right", &times(290, "B")).findings();
    assert!(findings.contains("critical rt-starvation: left by right (priority)"), "{findings}");
    assert!(findings.contains("critical rt-starvation: right by left (order)"), "{findings}");
}

#[test]
fn a_kernel_worker_takes_no_turns() {
    let findings = both_hold_on("irq/50-eth0", "hog", "").findings();
    assert!(findings.contains("rt-starvation: irq/50-eth0 by hog (order)"), "{findings}");
}

/// An ordinary task waits for 100 ms again and again, so many of them behind a real-time task and the rest behind two of its equals,
/// which are woken when it is their turn.
fn partly_behind_real_time(by_hog: usize) -> Scene {
    let rest = (100 - by_hog) / 2;
    let woken_at = |column: usize| times(20, &format!("{}!{}", times(column, " "), times(100 - column, " ")));
    Scene::new(1000)
        .task('h', "hog", 49)
        .task('v', "server", 120)
        .task('a', "one", 120)
        .task('b', "two", 120)
        .cpu(&times(20, &format!("v{}{}{}", times(by_hog, "h"), times(rest, "a"), times(rest, "b"))))
        .wakes('h', &woken_at(1))
        .wakes('a', &woken_at(1 + by_hog))
        .wakes('b', &woken_at(1 + by_hog + rest))
}

#[test]
fn the_worst_moments_are_those_that_were_mostly_the_culprits() {
    let moments = |by_hog: usize| {
        let findings = partly_behind_real_time(by_hog).explain().findings;
        let finding =
            findings.iter().find(|finding| finding.id.as_str() == "rt-starvation").expect("it is long enough");
        assert_eq!(finding.victim.comm, "server");
        finding.worst.len()
    };
    assert_eq!(moments(60), 8);
    assert_eq!(moments(40), 0, "each of the others had less, both together more");
}

/// A hog takes seven of eight half milliseconds, in pieces shorter than a turn: for ten seconds on end of a minute, or for as much of it in
/// all, spread evenly.
#[test]
fn a_small_part_of_a_long_recording_may_be_all_of_ten_seconds() {
    let minute = |turn: &str, wake_h: &str, wake_p: &str, turns: usize, rest: usize| {
        Scene::new(500)
            .task('h', "hog", 49)
            .task('p', "app", 120)
            .task('s', "sshd", 120)
            .cpu(&format!("{}{}", times(turns, turn), times(rest, ".")))
            .cpu(&times(12, &format!(".s{}", times(9_998, "."))))
            .wakes('s', &times(12, &format!("! {}", times(9_998, " "))))
            .wakes('h', &times(turns, wake_h))
            .wakes('p', &times(turns, wake_p))
    };
    let on_end = minute("hhhhhhhp", "!       ", " !      ", 2_500, 100_000);
    let alarms = on_end.alarms();
    assert!(alarms.iter().any(|alarm| alarm.starts_with("rt-starvation")), "{alarms:?}");
    let evidence = on_end.explain().findings.remove(0).evidence;
    assert!(evidence.iter().any(|line| line.ends_with("of its worst ten seconds")), "{evidence:?}");
    let pause = times(40, ".");
    let none = times(40, " ");
    let spread = minute(&format!("hhhhhhhp{pause}"), &format!("!       {none}"), &format!(" !      {none}"), 2_500, 0);
    assert_eq!(spread.alarms(), Vec::<String>::new());
}

/// The stop class is shown with priority 0, as SCHED_FIFO 99 is.
#[test]
fn no_name_hides_who_takes_the_cpu_for_long() {
    for (name, prio) in [("migration/0", 0), ("migration/0", 49), ("unstarve-1", 49)] {
        let alarms = packets(name, prio).alarms();
        assert!(alarms.iter().any(|alarm| alarm.starts_with("rt-starvation")), "{name}, {prio}: {alarms:?}");
    }
}
