//! Each rule by which a wait goes on.

use insta::assert_snapshot;

use crate::pictures::drawn;

#[test]
fn a_woken_task_waits_for_its_equal() {
    //  a ████████████
    //  b       ·······███
    assert_snapshot!(drawn("
        0 0 switch idle R > a
        10 0 wake b @0
        30 0 switch a S > b
        40 0 switch b S > idle
    "), @"b wakeup 10..30 cpu 0: a 20 fair");
}

#[test]
fn a_real_time_task_goes_first_by_class() {
    assert_snapshot!(drawn("
        0 0 switch idle R > a
        10 0 wake c! @0
        12 0 switch a R > c!
        90 0 switch c! S > a
        95 0 switch a S > idle
    "), @r"
    c wakeup 10..12 cpu 0: a 2 not-preempted
    a preemption 12..90 cpu 0: c 78 class
    ");
}

#[test]
fn a_wakee_that_pushes_its_waker_off_does_so_by_wakeup_preemption_until_it_leaves() {
    //  a ███ (wakes b) ···············███
    //  b               ███
    //  c                  ███
    assert_snapshot!(drawn("
        0 0 switch idle R > a
        10 0 wake b @0
        11 0 switch a R+ > b
        20 0 wake c @0
        30 0 switch b S > c
        45 0 switch c S > a
        50 0 switch a S > idle
    "), @r"
    b wakeup 10..11 cpu 0: a 1 fair
    c wakeup 20..30 cpu 0: b 10 fair
    a preemption 11..45 cpu 0: b 19 wakeup-preemption, c 15 fair
    ");
}

#[test]
fn the_end_of_a_slice_is_not_a_wakeup_preemption() {
    assert_snapshot!(drawn("
        0 0 switch idle R > a
        10 0 wake b @0
        4000010 0 switch a R > b
        4000020 0 switch b S > a
    "), @r"
    b wakeup 10..4000010 cpu 0: a 4000000 fair
    a preemption 4000010..4000020 cpu 0: b 10 fair
    ");
}

#[test]
fn a_nicer_task_loses_by_weight() {
    assert_snapshot!(drawn("
        0 0 switch idle R > a+-5
        10 0 wake b @0
        30 0 switch a+-5 S > b
        40 0 switch b S > idle
    "), @"b wakeup 10..30 cpu 0: a 20 weight");
}
