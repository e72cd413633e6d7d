//! The lines and the table of `unstarve timeline`, from a scene that can be drawn.

use insta::assert_snapshot;
use unstarve_model::{Comm, Context, CpuId, Event, EventKind, Issuer, PrevState, Prio, TaskRef, Tid, Time};
use unstarve_term::{Lines, Summary, Timehist};
use unstarve_timeline::{NoSettings, Selection, Sink, TaskPattern, Timeline};

fn task(tid: u32, comm: &str, prio: i32) -> TaskRef {
    TaskRef::new(Tid(tid), Comm::from(comm), Some(Prio(prio)))
}

/// ```text
/// CPU 0, ms:  0    1    2    3    4    5    6
/// hog (RT)    ······██████████████·········      woken by the timer, sleeps at 4
/// fio         ·█████--------------█████····      woken at 0, pushed off at 1, back at 4, sleeps at 5
/// worker      ·········~~~~~~~~~~~-----████      woken at 2, has the CPU at 5 and at the end
/// late        ·················~~~~~~~~~~~~      woken at 3, never runs
/// ```
fn scene(sink: &mut impl Sink) {
    let idle = task(0, "swapper/0", 120);
    let fio = task(128, "fio", 120);
    let hog = task(231, "hog", 89);
    let worker = task(47, "kworker/0:2", 120);
    let late = task(300, "\x1b[31mlate", 120);
    let cpu = CpuId(0);
    let waking = |task| EventKind::Waking { task, target_cpu: cpu };
    let switch = |prev, prev_state, next| EventKind::Switch { prev, prev_state, next };
    let events = [
        (0, waking(fio)),
        (10, switch(idle, PrevState::Runnable, fio)),
        (990, waking(hog)),
        (1_000, switch(fio, PrevState::Preempted, hog)),
        (2_000, waking(worker)),
        (3_000, waking(late)),
        (4_000, switch(hog, PrevState::Sleeping, fio)),
        (5_000, switch(fio, PrevState::Sleeping, worker)),
        (6_000, waking(fio)),
    ];
    let mut timeline = Timeline::new(Some(1), None, Box::new(NoSettings));
    for (us, kind) in events {
        let time = Time(812_000_000_000 + us * 1_000);
        timeline.push(&Event { time, cpu, issuer: Issuer::new(None, Context::Hardirq), kind }, sink);
    }
    timeline.finish(sink);
}

fn lines(selection: Selection) -> String {
    written(selection, Lines::Text)
}

fn written(selection: Selection, form: Lines) -> String {
    let mut out = Vec::new();
    let mut timehist = Timehist::new(&mut out, selection, form);
    scene(&mut timehist);
    timehist.finish().expect("memory can be written");
    String::from_utf8(out).expect("text")
}

#[test]
fn each_run_has_a_line_with_the_wait_before_it_and_who_ran_meanwhile() {
    assert_snapshot!("lines", lines(Selection::default()));
}

/// As JSON each run has the same numbers, and who had the CPU adds up to the wait.
#[test]
fn each_run_is_an_object_of_json_too() {
    let text = written(Selection::default(), Lines::Json);
    let rows: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(rows.len(), lines(Selection::default()).lines().count() - 3);
    for wait in rows.iter().filter_map(|row| row.get("wait")) {
        let blame = wait["blame"].as_array().expect("pieces");
        let sum: u64 = blame.iter().filter_map(|piece| piece["ns"].as_u64()).sum();
        assert_eq!(Some(sum), wait["ns"].as_u64(), "{wait}");
    }
}

#[test]
fn a_wait_that_was_held_back_has_a_line_of_its_own() {
    //  cpu 0   a ████████████      until its stay is over, nobody knows what b waited for first
    //  cpu 1         b ██
    let (idle, a, b) = (task(0, "swapper/0", 120), task(1, "a", 120), task(2, "b", 120));
    let switch = |prev, prev_state, next| EventKind::Switch { prev, prev_state, next };
    let events = [
        (0, 0, switch(idle, PrevState::Runnable, a)),
        (0, 1, EventKind::Waking { task: b, target_cpu: CpuId(0) }),
        (5_000, 1, EventKind::Migrate { task: b, orig_cpu: CpuId(0), dest_cpu: CpuId(1) }),
        (5_000, 1, switch(idle, PrevState::Runnable, b)),
        (6_000, 1, switch(b, PrevState::Sleeping, idle)),
        (9_000, 0, switch(task(1, "prog", 89), PrevState::Sleeping, idle)),
    ];
    let mut out = Vec::new();
    let mut timehist = Timehist::new(&mut out, Selection::default(), Lines::Text);
    let mut timeline = Timeline::new(Some(2), None, Box::new(NoSettings));
    for (us, cpu, kind) in events {
        let time = Time(us * 1_000);
        timeline.push(&Event { time, cpu: CpuId(cpu), issuer: Issuer::new(None, Context::Task), kind }, &mut timehist);
    }
    timeline.finish(&mut timehist);
    timehist.finish().expect("memory can be written");
    let text = String::from_utf8(out).expect("text");
    let lines: Vec<&str> = text.lines().skip(3).collect();
    assert!(lines[0].contains("b[2]") && lines[0].trim_end().ends_with("1.000"), "{text}");
    assert!(lines[1].contains("b[2]") && lines[1].ends_with("prog class 5000000"), "{text}");
}

#[test]
fn the_table_adds_up_runs_and_waits_of_each_task() {
    let mut summary = Summary::new(Selection::default());
    scene(&mut summary);
    let mut out = Vec::new();
    summary.write(&mut out).expect("memory can be written");
    assert_snapshot!("summary", String::from_utf8(out).expect("text"));
}

#[test]
fn a_selection_leaves_the_rest_out() {
    let text = lines(Selection { tasks: vec![TaskPattern::Tid(Tid(47))], ..Selection::default() });
    let shown: Vec<&str> = text.lines().skip(3).collect();
    assert_eq!(shown.len(), 1, "{text}");
    assert!(shown[0].contains("kworker/0:2[47]"));
}
