//! What a CPU did before its first event, and what is believed of one that is not heard.

use insta::assert_snapshot;
use unstarve_model::{CpuId, Tid};
use unstarve_timeline::{Settings, Sink, Wait, World};

use crate::pictures::drawn;
use crate::scene::{self, waits};

#[test]
fn a_cpu_did_before_its_first_event_what_that_finds_it_doing() {
    //  cpu 0   a ████████████          cpu 1   (c) ████████
    //  b's wait    ······                            d's ···
    assert_snapshot!(drawn("
        0 0 switch idle R > a
        5 0 queued d @1
        10 0 wake b @0
        40 1 switch c S > d
        60 0 switch a S > b
    "), @r"
    d wakeup 5..40 cpu 1: c 35 fair
    b wakeup 10..60 cpu 0: a 50 fair
    ");
}

#[test]
fn a_cpu_that_took_nothing_for_long_was_not_idle_before_its_first_event() {
    assert_snapshot!(drawn("
        0 0 switch idle R > a
        10 0 queued d @1
        9000010 1 switch idle S > d
    "), @"d wakeup 10..9000010 cpu 1: unknown 9000000 unknown");
}

#[test]
fn a_cpu_that_must_have_switched_before_its_first_event_is_unknown_until_then() {
    // A real-time task is not kept waiting by a fair one…
    assert_snapshot!(drawn("
        0 0 switch idle R > a
        10 0 queued d! @1
        9000010 1 switch c S > d!
    "), @"d wakeup 10..9000010 cpu 1: unknown 9000000 unknown");
    // …a task that is woken again has run meanwhile…
    assert_snapshot!(drawn("
        0 0 switch idle R > a
        10 0 wake d @1
        200010 0 wake d @1
        200020 1 switch c S > d
    "), @"d wakeup 200010..200020 cpu 1: unknown 10 unknown");
    // …and limits end what real-time tasks may take at a time.
    assert_snapshot!(drawn("
        0 0 switch idle R > a
        10 0 queued d @1
        2500000000 1 switch c! S > d
    "), @"d wakeup 10..2500000000 cpu 1: unknown 2499999990 unknown");
    // True: fair tasks among each other, and real-time ones within those limits.
    assert_snapshot!(drawn("
        0 0 switch idle R > a
        10 0 queued d @1
        1500000000 1 switch c! S > d
    "), @"d wakeup 10..1500000000 cpu 1: c 1499999990 class");
    assert_snapshot!(drawn("
        0 0 switch idle R > a
        10 0 queued d @1
        90000000 1 switch c S > d
    "), @"d wakeup 10..90000000 cpu 1: c 89999990 fair");
}

/// The ring buffer's own format says where events were overwritten.
struct Marked;

impl Settings for Marked {
    fn marks_overwritten(&self) -> bool {
        true
    }
}

#[test]
fn a_recording_that_marks_what_was_overwritten_is_believed_without_a_mark() {
    let hog = "
        0 0 switch idle R > a
        10 0 queued d @1
        2500000000 1 switch c! S > d
    ";
    assert_snapshot!(waits(Box::new(Marked), hog), @"d wakeup 10..2500000000 cpu 1: c 2499999990 class");
}

#[test]
fn a_cpu_whose_first_event_is_there_was_idle_beside_what_waited() {
    let idle = "
        0 0 switch idle R > a
        10 0 queued d @1
        9000010 1 switch idle S > d
    ";
    assert_snapshot!(waits(Box::new(Marked), idle), @"d wakeup 10..9000010 cpu 1: idle 9000000 idle");
    assert_snapshot!(drawn(idle), @"d wakeup 10..9000010 cpu 1: unknown 9000000 unknown");
    // One that is woken again has run there, and no event of the CPU says so.
    let left = "
        0 0 switch idle R > a
        10 0 queued d @1
        200010 0 wake d @1
        9000020 1 switch idle S > d
    ";
    assert_snapshot!(waits(Box::new(Marked), left), @"d wakeup 200010..9000020 cpu 1: unknown 8800010 unknown");
}

/// Idle time elsewhere, and beside which CPU that was not heard of, by wait.
#[derive(Default)]
pub struct Beside(pub Vec<(Tid, Option<u64>, Option<u32>)>);

impl Sink for Beside {
    fn wait(&mut self, world: &World, wait: &Wait<'_>) {
        let tid = world.tasks.get(wait.task).tid;
        self.0.push((tid, wait.idle_elsewhere.map(|idle| idle.0), wait.beside_unheard.map(|cpu| cpu.0)));
    }
}

#[test]
fn a_wait_that_was_held_back_names_the_cpu_that_was_not_heard_too() {
    let mut beside = Beside::default();
    scene::play_on(
        Some(3),
        "
        0 0 switch idle R > b
        0 1 switch idle R > c
        5 0 move b 2>0
        6 0 switch b S > a
        20 0 wake b @0
        2000000 1 switch c S > idle
        2000010 1 move b 0>1
        2000020 1 switch idle R > b
        3000000 0 switch a S > idle
    ",
        &mut beside,
    );
    let of_b: Vec<_> = beside.0.iter().filter(|(tid, ..)| *tid == Tid(2)).map(|(.., cpu)| *cpu).collect();
    assert_eq!(of_b, [Some(2)]);
}

#[test]
fn an_idle_cpu_counts_from_the_start_however_late_it_is_heard() {
    //  cpu 0   a ████████████        b, which has moved before, waits from 20 to 80
    //  cpu 1   idle        ██        its first event comes at 60
    let mut beside = Beside::default();
    let timeline = scene::play_on(
        Some(3),
        "
        0 0 switch idle R > b
        5 0 move b 2>0
        6 0 switch b S > a
        20 0 wake b @0
        60 1 switch idle R > c
        70 1 switch c S > idle
        80 0 switch a S > b
        90 0 switch b S > idle
    ",
        &mut beside,
    );
    assert_eq!(beside.0[0], (Tid(2), Some(40 + 10), Some(2)));
    assert!(timeline.world().idle_until_heard.contains(CpuId(1)));
    assert!(!timeline.world().idle_until_heard.contains(CpuId(2)), "nobody knows");
}

#[test]
fn where_nothing_tells_where_a_task_is_queued_it_waited_where_it_runs() {
    //  cpu 0   a ██ idle                 b ran here before
    //  cpu 1   c ████████████ b
    let timeline_notes = drawn(
        "
        0 0 switch idle R > b
        0 1 switch idle R > c
        10 0 switch b S > a
        20 0 wake b @0
        22 0 switch a S > idle
        9000020 1 switch c S > b
        9000030 1 switch b S > idle
    ",
    );
    assert_snapshot!(timeline_notes, @"b wakeup 20..9000020 cpu 1: c 9000000 fair");
}

#[test]
fn a_task_that_was_fetched_by_an_idle_cpu_waited_where_it_ran_before() {
    assert_snapshot!(drawn("
        0 0 switch idle R > b
        0 1 switch idle R > c
        10 0 switch b S > a
        11 1 switch c S > idle
        20 0 wake b @0
        9000020 1 switch idle S > b
    "), @"b wakeup 20..9000020 cpu 1: a 9000000 fair");
}
