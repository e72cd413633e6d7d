use crate::findings::scene::{Scene, times};

#[test]
fn equals_on_one_cpu_are_not_starved() {
    // One column is 4 ms: ten hogs take turns.
    let mut scene = Scene::new(4000).cpu(&times(50, "abcdefghij"));
    for letter in "abcdefghij".chars() {
        scene = scene.task(letter, &format!("cc1-{letter}"), 120);
    }
    assert_eq!(scene.findings(), "");
}

const CROWD: &str = "abcdefghijklmnopqrst";

/// A dispatcher's interrupt wakes twenty threads of one pool at once; each runs for a column of 1 ms. A daemon D is
/// woken with the first and runs last.
fn pool(rounds: usize, rest: usize) -> Scene {
    let length = CROWD.len() + 1 + rest;
    let mut scene = Scene::new(1000).cpu(&times(rounds, &format!("{CROWD}D{}", times(rest, "."))));
    for (index, letter) in CROWD.chars().enumerate() {
        // Nobody is woken before its last call is done.
        let _ = index;
        scene = scene.task(letter, "nfsd", 120).wakes(letter, &times(rounds, &format!("!{}", times(length - 1, " "))));
    }
    scene.task('D', "portmap", 120).wakes('D', &times(rounds, &format!("!{}", times(length - 1, " "))))
}

#[test]
fn a_crowd_that_holds_up_a_bystander_is_a_storm() {
    let scene = pool(60, 4);
    insta::assert_snapshot!(scene.findings(), @"warning wake-storm: nfsd by nfsd (count)");
    let finding = &scene.explain().findings[0];
    assert_eq!(finding.victim.tasks, 20);
    assert!(finding.price.iter().any(|payer| payer.comm == "portmap"), "{:?}", finding.price);
    assert!(finding.remedies.iter().any(|remedy| remedy.apply.contains("; echo 8 > /proc/fs/nfsd/threads")));
}

#[test]
fn a_crowd_of_equals_alone_is_a_remark() {
    let rounds = 60;
    let mut scene = Scene::new(1000).cpu(&times(rounds, CROWD));
    for letter in CROWD.chars() {
        scene = scene.task(letter, "hackbench", 120).wakes(letter, &times(rounds, &format!("!{}", times(19, " "))));
    }
    assert_eq!(scene.alarms(), Vec::<String>::new());
}

/// A compiler c and a task t that is woken every 360 µs for 60 µs. One column is 60 µs.
fn beside_ticker(ticker: &str, by: char) -> Scene {
    let rounds = 3000;
    Scene::new(60)
        .task('c', "cc1", 120)
        .task('t', ticker, 120)
        .cpu(&times(rounds, "tccccc"))
        .wakes('t', &times(rounds, &format!("{by}     ")))
}

#[test]
fn short_wakeups_that_push_a_compiler_off_are_a_thrash() {
    let scene = beside_ticker("ticker", '!');
    insta::assert_snapshot!(scene.findings(), @"warning preemption-thrash: cc1 by ticker (wakeup-preemption)");
    let remedies = scene.kernel("6.1.0-32-amd64").explain().findings[0].remedies.clone();
    let commands: Vec<&str> = remedies.iter().map(|remedy| remedy.apply.as_str()).collect();
    assert!(commands[0].contains("for t in 101;") && commands[0].contains(" --batch --pid 0 $t"), "{commands:?}");
    assert!(commands[1].contains("/sys/kernel/debug/sched/wakeup_granularity_ns"), "{commands:?}");
}

#[test]
fn switches_that_cost_less_than_a_hundredth_are_no_thrash() {
    // The compiler keeps the CPU for 660 µs at a time: 1515 switches for each second that it runs.
    let rounds = 3000;
    let scene = Scene::new(60)
        .task('c', "cc1", 120)
        .task('t', "ticker", 120)
        .cpu(&times(rounds, "tccccccccccc"))
        .wakes('t', &times(rounds, "!           "));
    assert_eq!(scene.alarms(), Vec::<String>::new());
}

#[test]
fn a_partner_and_a_kernel_worker_are_no_thrash() {
    assert_eq!(beside_ticker("consumer", '^').alarms(), Vec::<String>::new(), "woken by the compiler itself");
    assert_eq!(beside_ticker("kworker/0:1", '!').alarms(), Vec::<String>::new(), "somebody's request");
}

#[test]
fn a_compiler_that_keeps_its_slices_is_well() {
    let scene = Scene::new(1000)
        .task('c', "cc1", 120)
        .task('t', "ticker", 120)
        .cpu(&times(500, "tcccc"))
        .wakes('t', &times(500, "!    "));
    assert_eq!(scene.alarms(), Vec::<String>::new());
}
