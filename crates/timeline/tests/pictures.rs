//! What the timeline makes of small scenes: each rule, each way a wait begins, moves and ends.

mod scene;

use insta::assert_snapshot;
use scene::waits;
use unstarve_model::{CpuId, CpuSet, Tid};
use unstarve_timeline::{GroupId, Groups, NoSettings, Settings, Sink, Throughout, Timeline, Wait, World};

fn drawn(text: &str) -> String {
    waits(Box::new(NoSettings), text)
}

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
    c wakeup 10..12 cpu 0: a 2 fair
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
    fn groups(&self) -> Groups {
        Groups::default()
    }
    fn group(&self, _: Tid) -> Option<GroupId> {
        None
    }
    fn own_weight(&self, _: Tid) -> Option<u32> {
        None
    }
    fn allowed_cpus(&self, _: Tid) -> Option<CpuSet> {
        None
    }
    fn has_bandwidth_limit(&self, _: Tid) -> Option<bool> {
        None
    }
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

/// Idle time elsewhere, and beside which CPU that was not heard of, by wait.
#[derive(Default)]
struct Beside(Vec<(Tid, Option<u64>, Option<u32>)>);

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

/// Waits that fill the whole trace, by task and how that is known.
#[derive(Default)]
struct Whole(Vec<(Tid, Option<Throughout>, u64, u64)>);

impl Sink for Whole {
    fn wait(&mut self, world: &World, wait: &Wait<'_>) {
        let tid = world.tasks.get(wait.task).tid;
        self.0.push((tid, wait.throughout, wait.start.0, wait.length().0));
    }
}

/// The host shows b as runnable at both ends, and c has weight 10 where a has 102400.
struct Starving(Groups, GroupId, GroupId);

impl Starving {
    fn timeline() -> Timeline {
        let mut groups = Groups::default();
        let (light, heavy) = (groups.add(None, 10), groups.add(None, 102_400));
        Timeline::new(Some(1), None, Box::new(Starving(groups, light, heavy)))
    }
}

impl Settings for Starving {
    fn groups(&self) -> Groups {
        self.0.clone()
    }
    fn group(&self, tid: Tid) -> Option<GroupId> {
        Some(if tid == Tid(1) { self.2 } else { self.1 })
    }
    fn own_weight(&self, _: Tid) -> Option<u32> {
        None
    }
    fn allowed_cpus(&self, _: Tid) -> Option<CpuSet> {
        None
    }
    fn has_only_waited(&self, tid: Tid) -> bool {
        tid == Tid(2)
    }
    fn is_idle_if_silent(&self, _: CpuId) -> bool {
        false
    }
    fn has_bandwidth_limit(&self, _: Tid) -> Option<bool> {
        Some(false)
    }
}

#[test]
fn who_was_runnable_before_the_trace_waits_from_its_start() {
    //  a ████████████████████
    //  b ····················   seen as runnable at both ends, and no event names it
    //  c ··········██           seen as runnable at the beginning, and gets the CPU at 60
    //  d          ·             seen as runnable, but that was after it woke
    let mut timeline = Starving::timeline();
    for name in ["a", "b", "c", "d", "e"] {
        timeline.runnable_before(scene::task(name), CpuId(0));
    }
    let mut whole = Whole::default();
    scene::run(
        timeline,
        "
        10 0 switch a R > a
        50 0 wake d @0
        60 0 switch a R > c
        70 0 switch c S > d
        80 0 switch d S > a
        1010 0 switch a R > a
    ",
        &mut whole,
    );
    whole.0.sort_by_key(|wait| (wait.0, wait.2));
    let b = (Tid(2), Some(Throughout::Seen), 10, 1000);
    assert_eq!(whole.0, [(Tid(1), None, 60, 20), b, (Tid(3), None, 10, 50), (Tid(4), None, 50, 20)]);
}

#[test]
fn who_was_runnable_and_turns_out_to_run_had_the_cpu_from_the_start() {
    let mut timeline = Starving::timeline();
    timeline.runnable_before(scene::task("a"), CpuId(1));
    timeline.runnable_before(scene::task("b"), CpuId(1));
    let mut whole = Whole::default();
    let timeline = scene::run(
        timeline,
        "
        10 0 switch idle S > c
        40 1 switch a S > b
        90 0 switch c S > idle
    ",
        &mut whole,
    );
    assert_eq!(whole.0, [(Tid(2), None, 10, 30)]);
    assert!(!timeline.world().idle_until_heard.contains(CpuId(1)));
    assert_snapshot!(waits_of(Starving::timeline(), "
        10 0 switch idle S > c
        40 1 switch a S > b
    "), @"b preemption 10..40 cpu 1: a 30 weight");
}

fn waits_of(mut timeline: Timeline, text: &str) -> String {
    timeline.runnable_before(scene::task("a"), CpuId(1));
    timeline.runnable_before(scene::task("b"), CpuId(1));
    scene::notes(timeline, text)
}

#[test]
fn who_could_not_have_had_a_turn_may_have_waited_all_the_time() {
    let whole = |text: &str| {
        let mut timeline = Starving::timeline();
        timeline.quiet_before(scene::task("c"), CpuId(0));
        let mut whole = Whole::default();
        scene::run(timeline, text, &mut whole);
        whole.0.retain(|wait| wait.1.is_some());
        whole.0
    };
    let guessed = (Tid(3), Some(Throughout::Guessed), 10, 1_000_000_000);
    assert_eq!(
        whole(
            "
        10 0 switch a R > a
        1000000010 0 switch a R > a
    "
        ),
        [guessed]
    );
    assert_eq!(
        whole(
            "
        10 0 switch a S > idle
        20 0 switch idle R > a
        1000000010 0 switch a R > a
    "
        ),
        [],
        "the CPU was idle for a moment"
    );
    assert_eq!(
        whole(
            "
        10 0 switch a R > a
        900000010 0 switch a R > d
        1000000010 0 switch d S > a
    "
        ),
        [],
        "others of its weight had turns"
    );
    assert_eq!(
        whole(
            "
        10 0 switch a R > a
        1000000010 0 wake c @0
    "
        ),
        [],
        "it slept"
    );
}

/// `a` is in a top-level cgroup of weight 10240, and its cgroup has a bandwidth limit.
struct Container(Groups, GroupId);

impl Container {
    fn new() -> Box<Container> {
        let mut groups = Groups::default();
        let heavy = groups.add(None, 10240);
        Box::new(Container(groups, heavy))
    }
}

impl Settings for Container {
    fn groups(&self) -> Groups {
        self.0.clone()
    }
    fn group(&self, tid: Tid) -> Option<GroupId> {
        (tid == Tid(1)).then_some(self.1)
    }
    fn own_weight(&self, _: Tid) -> Option<u32> {
        None
    }
    fn allowed_cpus(&self, _: Tid) -> Option<CpuSet> {
        None
    }
    fn has_only_waited(&self, _: Tid) -> bool {
        false
    }
    fn is_idle_if_silent(&self, _: CpuId) -> bool {
        false
    }
    fn has_bandwidth_limit(&self, tid: Tid) -> Option<bool> {
        Some(tid == Tid(1))
    }
}

#[test]
fn a_worker_in_the_root_cgroup_loses_to_a_heavy_container_by_weight() {
    assert_snapshot!(waits(Container::new(), "
        0 0 switch idle R > a
        10 0 wake kworker/0:1 @0
        30 0 switch a R > kworker/0:1
        40 0 switch kworker/0:1 S > a
    "), @r"
    kworker/0:1 wakeup 10..30 cpu 0: a 20 weight
    a preemption 30..40 cpu 0: kworker/0:1 10 wakeup-preemption
    ");
}

#[test]
fn a_limited_task_passed_over_by_an_idle_cpu_is_throttled() {
    assert_snapshot!(waits(Container::new(), "
        0 0 switch idle R > a
        50 0 switch a R > idle
        100 0 switch idle R > a
    "), @"a preemption 50..100 cpu 0: idle 50 throttled");
    assert_snapshot!(waits(Container::new(), "
        0 0 switch idle R > b
        50 0 switch b R > idle
        100 0 switch idle R > b
    "), @"b preemption 50..100 cpu 0: idle 50 idle");
}

#[test]
fn waking_an_idle_cpu_is_idle_exit_and_not_throttling() {
    assert_snapshot!(drawn("
        0 0 switch a S > idle
        5 1 switch idle R > b
        10 1 wake a @0
        11 0 queued a @0
        14 0 switch idle R > a
    "), @"a wakeup 10..14 cpu 0: idle 4 idle");
}

#[test]
fn a_remote_wakeup_that_meets_a_cpu_going_idle_is_not_throttling() {
    //  cpu 0: c ████ idle ▁▁ a      the wakeup is on its way (waking at 10, queued at 14)
    assert_snapshot!(drawn("
        0 0 switch a S > c
        5 1 switch idle R > b
        10 1 wake a @0
        12 0 switch c S > idle
        14 0 queued a @0
        16 0 switch idle R > a
    "), @"a wakeup 10..16 cpu 0: idle 4 idle, c 2 fair");
}

#[test]
fn interrupts_are_taken_out_of_the_task_below_them() {
    assert_snapshot!(drawn("
        0 0 switch idle R > a
        10 0 wake b @0
        12 0 irq+ 5
        15 0 irq- 5
        15 0 soft+ 3
        18 0 irq+ 6
        19 0 irq- 6
        22 0 soft- 3
        30 0 switch a S > b
    "), @"b wakeup 10..30 cpu 0: a 10 fair, softirq3 6 softirq, irq5 3 irq, irq6 1 irq");
}

#[test]
fn softirqs_of_ksoftirqd_are_its_own_work() {
    assert_snapshot!(drawn("
        0 0 switch idle R > ksoftirqd/0
        10 0 soft+ 3
        12 0 wake b @0
        20 0 soft- 3
        30 0 switch ksoftirqd/0 S > b
    "), @"b wakeup 12..30 cpu 0: ksoftirqd/0 18 fair");
}

#[test]
fn a_migrated_wait_follows_the_task() {
    assert_snapshot!(drawn("
        0 0 switch idle R > a
        0 1 switch idle R > b
        10 0 wake c @0
        15 1 move c 0>1
        40 1 switch b S > c
        50 1 switch c S > idle
    "), @"c wakeup 10..40 cpu 1: b 25 fair, a 5 fair");
}

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
    c wakeup 960..1010 cpu 0: d 30 throttled, b 10 fair, a 10 order
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
    a wakeup 10..20 cpu 0: b 10 fair
    b preemption 20..30 cpu 0: a 10 class
    ");
}

#[test]
fn a_task_that_left_its_class_was_not_stopped() {
    assert_snapshot!(drawn("
        0 0 switch idle R > a!
        50 0 switch a! R > b
        90 0 switch b S > a
    "), @"a preemption 50..90 cpu 0: b 40 fair");
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
