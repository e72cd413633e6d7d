//! A finding names the main reason of the waits that it is about, and what somebody asked for is no alarm.

use unstarve_diagnose::report::{Finding, Severity};
use unstarve_model::EventType;

use crate::findings::scene::{Scene, times};

/// A build of nice 10 gets 4 ms beside 44 ms of a hog. A daemon is woken in each of the build's turns, by a mark of the scene.
fn niced_build(mark: &str) -> Scene {
    let round = format!("{}bbbbd", times(44, "h"));
    Scene::new(1000)
        .task('h', "server", 120)
        .task('b', "cc1", 130)
        .task('d', "daemon", 120)
        .cpu(&times(40, &round))
        .wakes('d', &times(40, &format!("{}{mark}", times(48, " "))))
}

#[test]
fn an_interrupt_in_a_turn_of_a_niced_build_makes_it_no_alarm() {
    // The events show that the build wakes the daemon, which sleeps for it.
    insta::assert_snapshot!(niced_build("^").findings(), @"critical weight-starvation: cc1 by server (weight)");
    // A timer does, and the events say so, or leave it open.
    for mark in ["!", "?"] {
        let scene = niced_build(mark);
        assert_eq!(scene.alarms(), Vec::<String>::new(), "{mark}");
    }
}

/// A hundred threads of one user take turns of 4 ms. A daemon of nice −10 has 8 % of the CPU, and each of them waits behind it for
/// 36 ms now and then, of 400 ms.
fn crowd() -> Scene {
    let letters: Vec<char> = ('\u{100}'..).take(100).collect();
    let mut row = String::new();
    for turn in 0..300 {
        row.extend([letters[turn % 100]; 4]);
        if turn % 11 == 10 {
            row.push_str("rrrr");
        }
    }
    let scene = Scene::new(1000).task('r', "backupd", 110).cpu(&row);
    letters.iter().fold(scene, |scene, letter| scene.task(*letter, "crowd", 120))
}

#[test]
fn a_crowd_that_keeps_itself_waiting_accuses_nobody_of_it() {
    let findings = crowd().explain().findings;
    let accuses = |finding: &&Finding| {
        let named = finding.culprits.iter().any(|culprit| culprit.comm == "backupd");
        let touched =
            finding.remedies.iter().any(|remedy| remedy.apply.contains(" 100") || remedy.text.contains("backupd"));
        finding.id.as_str() == "weight-starvation" || named && finding.severity > Severity::Info || touched
    };
    assert_eq!(findings.iter().find(accuses), None);
}

/// Twenty take turns of 4 ms and all but the first weigh half more. The first gets `turns` of them in a row.
fn twenty_with_one_lighter(turns: usize) -> Scene {
    let heavier: Vec<char> = ('\u{100}'..).take(19).collect();
    let round: String =
        "a".repeat(4 * turns) + &heavier.iter().map(|c| times(4 * turns, &c.to_string())).collect::<String>();
    let scene = Scene::new(1000).task('a', "guest", 120).cpu(&times(24 / turns, &round));
    heavier.iter().fold(scene, |scene, letter| scene.task(*letter, "rustc", 118))
}

#[test]
fn in_a_crowd_a_turn_is_long_in_coming_and_that_is_no_weight() {
    let scene = twenty_with_one_lighter(1);
    assert_eq!(scene.alarms(), Vec::<String>::new());
    // The same shares, and waits three times as long as turns of these many take.
    let scene = twenty_with_one_lighter(6);
    insta::assert_snapshot!(scene.findings(), @"critical weight-starvation: guest by rustc (weight)");
}

#[test]
fn a_program_that_gets_what_its_nice_is_worth_got_what_was_asked() {
    // 1024 to 9548, and to 88761: a turn of 4 ms for each 37 and each 347.
    for (nice, others) in [(110, 37), (100, 347)] {
        let row = times(20, &format!("aaaa{}", times(others, "b")));
        let scene = Scene::new(1000).task('a', "job", 120).task('b', "server", nice).cpu(&row);
        assert_eq!(scene.alarms(), Vec::<String>::new(), "priority {nice}");
    }
    // It waits for ten times as long as these weights explain.
    let row = times(5, &format!("{}{}", times(40, "a"), times(370, "b")));
    let scene = Scene::new(1000).task('a', "job", 120).task('b', "server", 110).cpu(&row);
    insta::assert_snapshot!(scene.findings(), @"critical weight-starvation: job by server (weight)");
}

#[test]
fn real_time_equals_that_hold_on_in_turns_are_one_finding() {
    let row = times(4, &format!("{}{}", times(300, "a"), times(400, "b")));
    let scene = Scene::new(1000).task('a', "left", 49).task('b', "right", 49).cpu(&row);
    insta::assert_snapshot!(scene.findings(), @"critical rt-starvation: left by right (order)");
    let evidence = scene.explain().findings[0].evidence.join("\n");
    assert!(evidence.contains("right waited 900 ms behind the victim, too: they take turns"), "{evidence}");
}

#[test]
fn the_worst_moments_are_those_of_the_findings_culprit() {
    // v waits for 50 ms behind the real-time hog h three times, and for 90 ms behind the crowd of its equals in between.
    let crowd = |turns: usize| {
        (0..turns).map(|turn| ['x', 'y', 'z'][turn % 3]).map(|c| times(3, &c.to_string())).collect::<String>()
    };
    let round = format!("v{}v{}", times(50, "h"), crowd(30));
    let scene = Scene::new(1000)
        .task('v', "victim", 120)
        .task('h', "hog", 49)
        .task('x', "one", 120)
        .task('y', "two", 120)
        .task('z', "three", 120)
        .cpu(&format!("{}v", times(3, &round)))
        .wakes('h', &times(3, &format!(" ^{}", times(round.len() - 2, " "))));
    let findings = scene.explain().findings;
    let finding = findings.iter().find(|finding| finding.id.as_str() == "rt-starvation").expect("the hog is found");
    let of_victim =
        |finding: &Finding| finding.worst.iter().map(|at| (at.end_ns - at.start_ns) / 1_000_000).collect::<Vec<_>>();
    assert_eq!(finding.victim.comm, "victim");
    assert_eq!(of_victim(finding), [50, 50, 50]);
}

#[test]
fn a_starved_worker_comes_before_the_sum_of_a_crowd() {
    // On one CPU a real-time task keeps a worker waiting for 100 ms of each 200, and on the other one, forty threads.
    let threads: Vec<char> = ('\u{100}'..).take(40).collect();
    let mut crowd = String::new();
    for turn in 0..40 {
        crowd.push_str(&times(100, "o"));
        (0..25).for_each(|of| crowd.extend([threads[(turn * 25 + of) % 40]; 4]));
    }
    let scene = Scene::new(1000)
        .task('h', "hog", 49)
        .task('o', "other", 49)
        .task('k', "kworker/0:1", 120)
        .task('c', "client", 120)
        .cpu(&times(40, &format!("{}k{}c", times(100, "h"), times(98, "."))))
        .cpu(&crowd)
        .wakes('h', &times(40, &format!("!{}", times(199, " "))))
        .wakes('k', &times(40, &format!(" !{}", times(198, " "))))
        .wakes('c', &times(40, &format!("{}^{}", times(101, " "), times(98, " "))))
        .wakes('o', &times(40, &format!("!{}", times(199, " "))));
    let scene = threads.iter().fold(scene, |scene, letter| scene.task(*letter, "crowd", 120));
    let findings = scene.without(EventType::Migrate).explain().findings;
    let loud: Vec<&str> = findings.iter().map(|finding| finding.victim.comm.as_str()).collect();
    assert_eq!(loud[..2], ["kworker/0:1", "crowd"]);
}
