//! What is made of events that are missing or come out of order.

use insta::assert_snapshot;

use crate::pictures::drawn;

#[test]
fn lost_events_leave_an_unknown_occupant_from_the_last_event_on() {
    assert_snapshot!(drawn("
        0 0 switch idle R > a
        10 0 wake b @0
        50 0 lost
        60 0 switch a S > b
    "), @"b wakeup 10..60 cpu 0: unknown 50 unknown");
}

#[test]
fn a_missing_switch_gives_the_wait_up() {
    assert_snapshot!(drawn("
        0 0 switch idle R > a
        10 0 wake b @0
        30 0 switch b S > c
        40 0 switch c S > idle
    "), @"");
}

#[test]
fn who_is_woken_again_has_run_meanwhile() {
    // The kernel wakes nobody who is woken: b's run between 10 and 500,000 is not in the trace. (The scene's times are
    // nanoseconds, and clocks of CPUs may differ by some.)
    assert_snapshot!(drawn("
        0 0 switch idle R > a
        10 0 wake b @0
        20 0 wake b @0
        500000 0 wake b @0
        500040 0 switch a S > b
        500050 0 switch b S > idle
    "), @"b wakeup 500000..500040 cpu 0: a 40 fair");
}

#[test]
fn where_switches_are_missing_an_idle_cpu_is_no_proof_of_a_limit() {
    let limited = "
        10 0 switch idle R > a
        20 0 switch a R+ > idle
        60 0 switch idle R > a
        70 0 switch a S > idle
    ";
    assert_snapshot!(drawn(limited), @"a preemption 20..60 cpu 0: idle 40 throttled");
    let contradicted = format!("0 0 switch b S > c\n5 0 switch b S > idle\n{limited}");
    assert_snapshot!(drawn(&contradicted), @"a preemption 20..60 cpu 0: idle 40 unknown");
}

#[test]
fn what_still_waits_at_the_end_is_told() {
    assert_snapshot!(drawn("
        0 0 switch idle R > a!
        10 0 new b @0
        500 0 wake c @0
    "), @r"
    b new 10..500 cpu 0: a 490 class (trace ends)
    c wakeup 500..500 cpu 0:  (trace ends)
    ");
}

#[test]
fn a_wakeup_that_overtakes_the_switch_to_sleep_counts_from_the_sleep() {
    //  CPU 1 wakes a while a is on its way to sleep on CPU 0
    assert_snapshot!(drawn("
        0 0 switch idle R > a
        0 1 switch idle R > b
        10 1 wake a @0
        12 0 switch a S > c
        13 1 queued a @0
        20 0 switch c S > a
    "), @"a wakeup 12..20 cpu 0: c 8 fair");
}

#[test]
fn a_spurious_wakeup_of_a_running_task_is_no_wait() {
    assert_snapshot!(drawn("
        0 0 switch idle R > a
        10 0 wake a @0
        10 0 queued a @0
        12 0 switch a S > b
        20 0 switch b S > a
    "), @"");
}

#[test]
fn a_reused_pid_is_a_new_task() {
    assert_snapshot!(drawn("
        0 0 switch idle R > a
        10 0 switch a X > b
        20 0 new a @0
        30 0 switch b S > a
    "), @"a new 20..30 cpu 0: b 10 fair");
}

#[test]
fn a_task_woken_while_it_falls_asleep_shows_as_runnable_and_is_not_throttled() {
    //  as Linux 5.10 prints it: the waker has changed the state before the switch is traced
    assert_snapshot!(drawn("
        0 0 switch idle R > a
        0 1 switch idle R > b
        10 1 wake a @0
        12 0 switch a R > idle
        13 1 queued a @0
        20 0 switch idle R > a
    "), @"a wakeup 12..20 cpu 0: idle 8 idle");
}

#[test]
fn a_real_time_task_that_a_lower_one_replaces_is_stopped_by_a_limit() {
    assert_snapshot!(drawn("
        0 0 switch idle R > a!
        950 0 switch a! R > b
        970 0 irq+ 5
        975 0 irq- 5
        980 0 switch b S > idle
        1000 0 switch idle R > a!
        1010 0 switch a! S > idle
    "), @"a preemption 950..1000 cpu 0: b 25 throttled, idle 20 throttled, irq5 5 irq");
}

#[test]
fn one_that_is_woken_while_it_is_stopped_is_stopped_too_and_a_higher_one_ends_it() {
    assert_snapshot!(drawn("
        0 0 switch idle R > a!
        950 0 switch a! R > b
        960 0 wake c! @0
        961 0 queued c! @0
        970 0 switch b R > d
        1000 0 switch d R > a!
        1010 0 switch a! S > c!
        1020 0 switch c! S > b
    "), @r"
    a preemption 950..1000 cpu 0: d 30 throttled, b 20 throttled
    c wakeup 960..1010 cpu 0: d 30 throttled, b 10 throttled, a 10 order
    b preemption 970..1020 cpu 0: d 30 fair, c 10 class, a 10 class
    d preemption 1000..1020 cpu 0: c 10 class, a 10 class (trace ends)
    ");
}

#[test]
fn a_task_that_is_late_to_be_preempted_is_no_limit() {
    assert_snapshot!(drawn("
        0 0 switch idle R > b
        10 0 wake a! @0
        11 0 queued a! @0
        20 0 switch b R > a!
        30 0 switch a! S > b
    "), @r"
    a wakeup 10..20 cpu 0: b 10 not-preempted
    b preemption 20..30 cpu 0: a 10 class
    ");
}

#[test]
fn a_task_that_left_its_class_was_not_stopped() {
    assert_snapshot!(drawn("
        0 0 switch idle R > a!
        50 0 switch a! R > b
        90 0 switch b S > a
    "), @"a preemption 50..90 cpu 0: b 40 not-preempted");
}

#[test]
fn kernel_threads_have_no_limit() {
    assert_snapshot!(drawn("
        0 0 switch idle R > kworker/0:1
        10 0 switch kworker/0:1 R > idle
        50 0 switch idle R > kworker/0:1
    "), @"kworker/0:1 preemption 10..50 cpu 0: idle 40 idle");
}

#[test]
fn a_task_that_turns_up_elsewhere_was_moved_and_not_stopped() {
    let scene = "
        0 0 switch idle R > a
        0 1 switch idle R > b
        10 0 switch a R > idle
        60 1 switch b S > a
    ";
    assert!(!drawn(scene).contains("throttled"), "{}", drawn(scene));
    // Moves are recorded, but this one is missing.
    let moved = format!("0 0 move c 0>1\n{scene}");
    assert!(!drawn(&moved).contains("throttled"), "{}", drawn(&moved));
}
