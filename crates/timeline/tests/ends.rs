//! Where what is known of a CPU, a name or a priority ends.

mod scene;

use insta::assert_snapshot;
use scene::{play_on, waits};
use unstarve_model::LossKind;
use unstarve_timeline::{NoSettings, Sink};

fn drawn(text: &str) -> String {
    waits(Box::new(NoSettings), text)
}

struct Deaf;
impl Sink for Deaf {}

/// 20 ms later nothing else has come from CPU 1, and CPU 0 goes on.
const LATER: &str = "
    20000000 0 switch e S > d
    30000000 0 switch d S > e
";

#[test]
fn a_cpu_whose_task_turns_up_elsewhere_is_unknown_since_its_last_event() {
    // b waits for a on CPU 1; a is then seen on CPU 0, and nothing says when it left.
    assert_snapshot!(drawn("
        0 1 switch idle R > a
        10 1 wake b @1
        500 0 switch c S > a
        900 1 switch d S > b
    "), @"b wakeup 10..900 cpu 1: unknown 890 unknown");
}

#[test]
fn a_cpu_that_is_silent_since_its_task_turned_up_elsewhere_ends_there() {
    let scene = format!(
        "
        0 1 switch idle R > a
        10 1 wake b @1
        500 0 switch idle R > e
        20 1 soft+ 3
        30 1 soft- 3
        15000000 0 wake c @1
        16000000 0 switch e S > a
        17000000 0 switch a S > e
        {LATER}
    "
    );
    // c was put on the queue of a CPU of which nobody knows what it did.
    assert_snapshot!(drawn(&scene), @"b wakeup 10..500 cpu 1: a 490 fair (trace ends)");
    let losses = play_on(None, &scene, &mut Deaf).losses();
    assert!(losses.iter().any(|loss| loss.kind == LossKind::EndsEarly), "{losses:?}");
}

#[test]
fn an_idle_cpu_that_does_not_take_a_kernel_thread_has_ended() {
    let scene = format!(
        "
        0 0 switch idle R > e
        0 1 switch a S > idle
        1000 0 wake kworker/0:1 @1
        1001 0 queued kworker/0:1 @1
        {LATER}
    "
    );
    assert_snapshot!(drawn(&scene), @"");
    // One that comes at the very end may still be on its way.
    let late = format!(
        "
        0 0 switch idle R > e
        0 1 switch a S > idle
        {LATER}
        30000001 0 wake kworker/0:1 @1
        30001000 0 switch e S > d
    "
    );
    assert_snapshot!(drawn(&late), @"kworker/0:1 wakeup 30000001..30001000 cpu 1: idle 999 idle (trace ends)");
}

#[test]
fn a_task_that_is_woken_while_it_seems_to_run_has_left() {
    // The real-time task a would be to blame for all that waits on CPU 1.
    let scene = format!(
        "
        0 0 switch idle R > e
        0 1 switch idle R > a!
        1000 0 wake a! @1
        1001 0 queued c @1
        3000 0 wake b @1
        3001 0 queued b @1
        {LATER}
    "
    );
    assert_snapshot!(drawn(&scene), @"");
}

#[test]
fn a_silent_hog_is_believed() {
    // Nothing contradicts: a real-time task may hold a CPU for 30 ms.
    let scene = format!(
        "
        0 0 switch idle R > e
        0 1 switch idle R > a!
        3000 0 wake b @1
        3001 0 queued b @1
        {LATER}
    "
    );
    assert_snapshot!(drawn(&scene), @"b wakeup 3000..30000000 cpu 1: a 29997000 class (trace ends)");
}

#[test]
fn a_wait_that_a_cpu_without_an_end_may_have_taken_over_counts_only_if_most_of_it_was_seen() {
    let ended = "
        0 0 switch idle R > e
        0 1 switch a S > idle
        1000 0 wake kworker/0:1 @1
        1001 0 queued kworker/0:1 @1
    ";
    let waits = |at: u64| drawn(&format!("{ended}\n{at} 0 switch e R > d\n30000000 0 soft+ 3\n30000000 0 soft- 3"));
    assert_snapshot!(waits(2_000_000), @"");
    let pinned = drawn(&format!("{ended}\n30000000 0 soft+ 3\n30000000 0 soft- 3"));
    assert_snapshot!(pinned, @"");
}

#[test]
fn without_switches_no_wait_has_an_end() {
    assert_snapshot!(drawn("
        0 0 wake a @0
        10 0 queued a @0
        900 0 wake b @0
    "), @"");
}

#[test]
fn a_stay_is_split_where_an_event_renames_the_task() {
    // a is chrt, then takes a program, and ends without a switch that would name it.
    assert_snapshot!(drawn("
        0 0 switch idle R > a=chrt
        10 0 wake b @0
        50 0 exec a=prog
        90 0 rename a=worker
        100 1 switch idle R > idle
    "), @"b wakeup 10..100 cpu 0: prog 40 fair, chrt 40 fair, worker 10 fair (trace ends)");
}

#[test]
fn a_task_that_inherits_a_priority_has_it_from_then_on() {
    //  a ███ (nice 0) ███ (real-time) ███ (nice 0)
    //  b    · · · · · · · · · · · · · · · · · · · ██
    assert_snapshot!(drawn("
        0 0 switch idle R > a
        10 0 wake b @0
        50 0 prio a!
        80 0 prio a
        100 0 switch a R > b
        120 0 switch b S > a
    "), @r"
    b wakeup 10..100 cpu 0: a 60 fair, a 30 class
    a preemption 100..120 cpu 0: b 20 fair
    ");
}

#[test]
fn a_wakee_that_changes_keeps_its_stay() {
    // b pushed a off, and is called prog soon after: it is one stay by wakeup preemption.
    assert_snapshot!(drawn("
        0 0 switch idle R > a
        10 0 wake b @0
        20 0 switch a R > b
        30 0 rename b=prog
        60 0 switch b=prog S > a
    "), @r"
    b wakeup 10..20 cpu 0: a 10 fair
    a preemption 20..60 cpu 0: prog 30 wakeup-preemption, b 10 wakeup-preemption
    ");
}

#[test]
fn real_time_equals_go_in_their_order() {
    assert_snapshot!(drawn("
        0 0 switch idle R > a!
        10 0 wake b! @0
        90 0 switch a! S > b!
    "), @"b wakeup 10..90 cpu 0: a 80 order");
}

#[test]
fn without_priorities_no_rule_is_claimed() {
    let scene = "
        0 0 switch idle R > a?
        10 0 wake b? @0
        90 0 switch a? S > b?
        95 0 wake a? @0
    ";
    assert_snapshot!(drawn(scene), @r"
    b wakeup 10..90 cpu 0: a 80 unranked
    a wakeup 95..95 cpu 0:  (trace ends)
    ");
    // Another event tells them.
    let told = scene.replace("wake b?", "wake b").replace("wake a?", "wake a");
    assert!(drawn(&format!("0 1 wake a! @0\n{told}")).contains("a 80 class"), "{}", drawn(&told));
}
