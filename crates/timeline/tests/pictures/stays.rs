//! What a stay was: by its end, by an exec, while it is still under way.

use insta::assert_snapshot;
use unstarve_model::{Prio, Tid, Time};
use unstarve_timeline::{NoSettings, Settings, Sink, Timeline, Wait, World};

use crate::pictures::beginnings::Beside;
use crate::pictures::drawn;
use crate::scene;

#[test]
fn a_stay_is_what_it_was_at_its_end_where_nothing_tells_when_that_began() {
    //  a is chrt, and then prog of SCHED_FIFO
    //  b   ·······················███
    assert_snapshot!(drawn("
        0 0 switch idle R > a
        10 0 wake b @0
        900 0 switch a=prog! S > b
        950 0 switch b S > idle
    "), @"b wakeup 10..900 cpu 0: prog 890 class");
}

#[test]
fn an_exec_tells_when() {
    assert_snapshot!(drawn("
        0 0 switch idle R > a
        10 0 wake b @0
        100 0 exec a
        110 0 irq+ 5
        120 0 irq- 5
        900 0 switch a=prog! S > b
        950 0 switch b S > idle
    "), @"b wakeup 10..900 cpu 0: prog 790 class, a 90 fair, irq5 10 irq");
}

#[test]
fn who_pushed_another_one_off_did_so_under_both_its_names() {
    assert_snapshot!(drawn("
        0 0 switch idle R > b
        10 0 wake a @0
        11 0 switch b R > a
        50 0 exec a
        90 0 switch a=prog S > b
        99 0 switch b S > idle
    "), @r"
    a wakeup 10..11 cpu 0: b 1 fair
    b preemption 11..90 cpu 0: prog 40 wakeup-preemption, a 39 wakeup-preemption
    ");
}

#[test]
fn who_goes_down_in_its_stay_did_so_at_the_end() {
    // A lock with priority inheritance: given back, and the CPU with it.
    assert_snapshot!(drawn("
        0 0 switch idle R > a!
        10 0 wake b @0
        900 0 switch a R > b
    "), @r"
    b wakeup 10..900 cpu 0: a 890 class
    a preemption 900..900 cpu 0:  (trace ends)
    ");
}

#[test]
fn a_wait_that_ended_elsewhere_is_reported_when_the_stay_that_it_is_part_of_is_over() {
    //  cpu 0   a (chrt, then prog of SCHED_FIFO) ████████████████
    //  b's wait                               ·········
    //  cpu 1                                           b ███       b is moved there
    assert_snapshot!(drawn("
        0 1 switch idle R > c
        0 0 switch idle R > a
        10 0 wake b @0
        2000000 1 switch c S > idle
        2000010 1 move b 0>1
        2000020 1 switch idle R > b
        2500000 1 switch b X > idle
        2600000 1 new d @1
        2600010 1 switch idle R > d
        3000000 0 switch a=prog! S > idle
    "), @r"
    d new 2600000..2600010 cpu 1: idle 10 idle
    b wakeup 10..2000020 cpu 1: prog 2000000 class, idle 10 idle
    ");
}

#[test]
fn a_part_in_which_a_limit_stopped_the_task_is_corrected_too() {
    //  cpu 0   a! ███ b (then prog) █████████████      a is stopped by a limit, moved to cpu 1, and runs there
    assert_snapshot!(drawn("
        0 1 switch idle R > e
        0 0 switch idle R > a!
        1000000 0 switch a! R > b
        3000000 1 switch e S > idle
        3000010 1 move a! 0>1
        3000020 1 switch idle R > a!
        4000000 0 switch b=prog S > idle
        4100000 1 switch a! S > idle
    "), @"a preemption 1000000..3000020 cpu 1: prog 2000010 throttled, idle 10 idle");
}

#[test]
fn a_wait_in_progress_is_reported_when_asked_and_goes_on() {
    let mut timeline = Timeline::new(None, None, Box::new(NoSettings));
    let mut rest = Beside::default();
    scene::go_on(
        &mut timeline,
        "
        0 0 switch idle R > a!
        10 0 wake b @0
        500 0 irq+ 5
        510 0 irq- 5
    ",
        &mut rest,
    );
    assert_snapshot!(scene::so_far(&timeline), @"b wakeup 10..510 cpu 0: a 490 class, irq5 10 irq (trace ends)");
    assert_eq!(scene::so_far(&timeline), scene::so_far(&timeline), "it only looks");
    assert!(rest.0.is_empty(), "it goes on");
    scene::go_on(&mut timeline, "900 0 switch a! S > b", &mut rest);
    assert_eq!((rest.0.len(), scene::so_far(&timeline).as_str()), (1, ""));
}

/// What each wait was owed.
#[derive(Default)]
struct Owed(Vec<(Tid, u64)>);

impl Sink for Owed {
    fn wait(&mut self, world: &World, wait: &Wait<'_>) {
        self.0.push((world.tasks.get(wait.task).tid, wait.owed.0));
    }
}

#[test]
fn who_is_made_nice_is_due_little_from_then_on() {
    let mut owed = Owed::default();
    scene::play(
        Box::new(NoSettings),
        "
        0 0 switch idle R > b
        0 0 wake a @0
        4000 0 switch b R > a
        8000 0 switch a+19 R > b
        108000 0 switch b R > a+19
        108100 0 switch a+19 S > b
    ",
        &mut owed,
    );
    // 15 of 1039 of 100 µs, where an equal would be due 50.
    assert_eq!(owed.0[2], (Tid(1), 1444));
}

/// A host that was read at this moment, and showed this priority of `a`.
struct HostRead(u64, &'static str);

impl Settings for HostRead {
    fn read_prio(&self, tid: Tid) -> Option<(Time, Prio)> {
        let HostRead(time, shown) = *self;
        let shown = scene::task(shown);
        shown.prio().filter(|_| tid == shown.tid()).map(|prio| (Time(time), prio))
    }
}

/// What the event of the switch shows, what the host shows and when, and how `b` waits then.
#[test]
fn a_run_that_goes_on_is_what_the_host_shows_if_that_is_more_and_was_read_in_it() {
    let rule = |event: &str, time, shown| {
        //  a (cpu 0)    100 ██████████████████ 910
        //  b            110 ·················· 910
        //  the host   50?        500?
        let scene = format!(
            "
            0 1 switch idle R > c
            100 0 switch idle R > {event}
            110 0 wake b @0
            900 1 irq+ 5
            910 1 irq- 5
        "
        );
        let waits = scene::waits(Box::new(HostRead(time, shown)), &scene);
        let (_, what) = waits.rsplit_once("a 800 ").unwrap_or_else(|| panic!("{waits}"));
        what.replace(" (trace ends)", "")
    };
    let (before, within) = (50, 500);
    for (event, time, shown, expected) in [
        // It raised itself, by class or by weight.
        ("a", within, "a!", "class"),
        ("a", within, "a+-10", "weight"),
        // The event is later than that.
        ("a", before, "a!", "fair"),
        ("a", before, "a+-10", "fair"),
        ("a?", before, "a!", "unranked"),
        // Both show the same, or the host shows less: a lock's owner inherits, and the host does not show that.
        ("a", within, "a", "fair"),
        ("a", within, "a+5", "fair"),
        ("a!", within, "a", "class"),
        ("a!", within, "a!", "class"),
        // Only the host shows anything.
        ("a?", within, "a!", "class"),
        ("a?", within, "a", "fair"),
        ("a?", within, "a?", "unranked"),
    ] {
        assert_eq!(rule(event, time, shown), expected, "{event}, at {time} {shown}");
    }
}

#[test]
fn what_the_host_shows_counts_from_the_exec_on() {
    let scene = "
        0 1 switch idle R > c
        0 0 switch idle R > a
        10 0 wake b @0
        100 0 exec a
        900 1 irq+ 5
        910 1 irq- 5
    ";
    assert_snapshot!(
        scene::waits(Box::new(HostRead(910, "a!")), scene),
        @"b wakeup 10..910 cpu 0: a 810 class, a 90 fair (trace ends)"
    );
}
