//! Where what is known of a CPU, a name or a priority ends.

use crate::scene::{go_on, name, play_on, waits};
use insta::assert_snapshot;
use unstarve_model::{Coverage, CpuId, LossKind, ProvedBy, Tid, Time, Until};
use unstarve_timeline::{NoSettings, OpenWait, Sink, Timeline, Unproved, Wait, World};

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

/// Writes down what is known of waits that have no end: `b 3000: 2 to 9 behind a by class, proved`.
#[derive(Default)]
struct Open(Vec<String>);

impl Open {
    fn note(&mut self, world: &World, actor: unstarve_timeline::ActorId, start: Time, open: OpenWait) {
        let OpenWait { proved, possible, end, holder, rule } = open;
        let (who, holder) = (name(world, actor), name(world, holder));
        self.0.push(format!(
            "{who} {}: {} to {} behind {holder} by {rule}, {}",
            start.0,
            proved.0,
            possible.0,
            end.word()
        ));
    }
}

impl Sink for Open {
    fn wait(&mut self, world: &World, wait: &Wait<'_>) {
        if let Some(open) = wait.open {
            assert!(open.proved <= wait.length() && wait.length() <= open.possible, "{wait:?}");
            self.note(world, wait.actor, wait.start, open);
        }
    }

    fn unproved(&mut self, world: &World, wait: &Unproved) {
        self.note(world, wait.actor, wait.start, wait.open);
    }
}

/// The waits that have no end in a scene of which this is proved.
fn open(scene: &str, coverage: Coverage) -> (String, Timeline) {
    let (mut timeline, mut open) = (Timeline::new(None, None, Box::new(NoSettings)), Open::default());
    go_on(&mut timeline, scene, &mut open);
    timeline.covered_by(coverage);
    timeline.finish(&mut open);
    (open.0.join("\n"), timeline)
}

/// A real-time task takes CPU 1, and what waits for it there is woken before its last event and after. CPU 0 goes on for 9 s.
const HOG: &str = "
    0 0 switch idle R > e
    0 1 switch idle R > a!
    3000 1 wake b @1
    3001 1 queued b @1
    4000 0 wake c @1
    4001 0 queued c @1
    9000000000 0 switch e S > d
";

#[test]
fn a_silent_hog_is_believed_for_as_long_as_is_proved() {
    // Nothing is proved: throttling would have let b in.
    let (waits, timeline) = open(HOG, Coverage::default());
    assert_snapshot!(waits, @r"
    b 3000: 1 to 8999997000 behind a by class, doubted
    c 4000: 0 to 8999996000 behind a by class, doubted
    ");
    assert!(timeline.losses().iter().any(|loss| loss.kind == LossKind::EndsEarly));
    // The text has all that the buffers held.
    let mut whole = Coverage::default();
    whole.prove(CpuId(1), Until::End, ProvedBy::EntryCount);
    let (waits, timeline) = open(HOG, whole.clone());
    assert_snapshot!(waits, @r"
    b 3000: 8999997000 to 8999997000 behind a by class, proved
    c 4000: 8999996000 to 8999996000 behind a by class, proved
    ");
    assert_eq!(timeline.losses(), []);
    // Up to some moment: from there on, throttling may have ended it, or not yet.
    let until = |time| {
        let mut coverage = Coverage::default();
        coverage.prove_all(Until::At(Time(time)), ProvedBy::EmptiedBuffer);
        open(HOG, coverage).0
    };
    assert_snapshot!(until(6_000_000_000), @r"
    b 3000: 5999997000 to 8999997000 behind a by class, doubted
    c 4000: 5999996000 to 8999996000 behind a by class, doubted
    ");
    assert_snapshot!(until(8_000_000_000), @r"
    b 3000: 7999997000 to 8999997000 behind a by class, believed
    c 4000: 7999996000 to 8999996000 behind a by class, believed
    ");
    // Its buffer was full.
    whole.note_dropped(CpuId(1));
    assert!(open(HOG, whole).0.contains("b 3000: 1 to 8999997000 behind a by class, buffer-full"));
}

#[test]
fn an_event_that_is_not_read_shows_who_has_the_cpu() {
    let seen = |time, tid| {
        let mut coverage = Coverage::default();
        coverage.note_presence(CpuId(1), Time(time), Some(Tid(tid)));
        open(HOG, coverage).0
    };
    // The recording ends where the last event is, read or not.
    assert_snapshot!(seen(9_500_000_000, 1), @r"
    b 3000: 9499997000 to 9499997000 behind a by class, proved
    c 4000: 9499996000 to 9499996000 behind a by class, proved
    ");
    // Another task has it: a left, and nobody knows when.
    assert_snapshot!(seen(5_000_000_000, 4), @"b 3000: 1 to 1 behind a by class, refuted");
    // An event from within the switch to a.
    assert!(seen(4_500, 4).contains("doubted"));
}

#[test]
fn what_other_cpus_show_is_stronger_than_a_proof() {
    let mut whole = Coverage::default();
    whole.prove_all(Until::End, ProvedBy::BufferCounters);
    let elsewhere = HOG.replace("0 switch e S > d", "0 switch e S > a!");
    assert_snapshot!(open(&elsewhere, whole).0, @"b 3000: 1 to 1 behind unknown by unknown, refuted");
}

#[test]
fn an_idle_cpu_is_idle_to_the_end() {
    let scene = "
        0 0 switch idle R > e
        0 1 switch a S > idle
        9000000000 0 switch e S > d
    ";
    let mut whole = Coverage::default();
    whole.prove_all(Until::End, ProvedBy::BufferCounters);
    for coverage in [Coverage::default(), whole] {
        let (waits, timeline) = open(scene, coverage);
        assert_eq!((waits.as_str(), timeline.losses()), ("", vec![]));
        assert_eq!(timeline.silent_cpus().map(|silent| silent.cpu).collect::<Vec<_>>(), [CpuId(1)]);
    }
}
