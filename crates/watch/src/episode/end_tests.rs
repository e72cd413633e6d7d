//! Tests of until when episodes last, and of what is waited meanwhile.

use std::sync::Arc;
use std::time::Duration;

use unstarve_model::{ClockPair, Comm, Nanos, Tid};
use unstarve_sched::Rule;

use super::settings::Thresholds;
use super::{Begun, Detector, EndReason, Ended, Said, Step};
use crate::engine::reading::{RoleKind, TaskId};
use crate::testing::{Scene, at};

const MS: u64 = 1_000_000;
const STEP: u64 = 250;

/// Plays one scene every 250 ms; returns what began and ended.
fn play(detector: &mut Detector, scenes: &[Scene]) -> (Vec<Begun>, Vec<Ended>) {
    let (mut begun, mut ended) = (Vec::new(), Vec::new());
    for (index, scene) in scenes.iter().enumerate() {
        let step = detector.see(Arc::new(scene.reading(at(index as u64 * STEP))));
        begun.extend(step.begun);
        ended.extend(step.ended);
    }
    (begun, ended)
}

fn detector() -> Detector {
    Detector::new(Thresholds::default())
}

/// `/a` waits behind a real-time task for so many ms of each interval, and `fair` ms behind others; each row is one interval.
fn waits(rows: &[(u64, u64)]) -> Vec<Scene> {
    let mut scene = Scene::new().group("/a");
    let mut scenes = vec![scene.clone()];
    for (class, fair) in rows {
        if class + fair > 0 {
            scene = scene.blame("/a", RoleKind::RealTime, class * MS).blame_group("/a", "other", Rule::Fair, fair * MS);
            scene = scene.wait("/a", (class + fair) * MS);
        }
        scenes.push(scene.clone());
    }
    scenes
}

/// Rows of one kind, then calm ones.
fn then_calm(rows: &[(u64, u64)]) -> Vec<(u64, u64)> {
    rows.iter().copied().chain(std::iter::repeat_n((0, 0), 30)).collect()
}

#[test]
fn an_episode_lasts_from_its_first_wait_to_its_last_and_has_all_waits_between() {
    //  /a   ....wwwwwwwwwwwwwwwwwwww....    200 of each 250 ms behind a real-time task, 20 more in turns, for five seconds
    let mut rows = vec![(0, 0); 4];
    rows.extend([(200, 20); 20]);
    let (begun, ended) = play(&mut detector(), &waits(&then_calm(&rows)));
    let [ended] = &ended[..] else { panic!("{ended:?}") };
    // A worse one goes on as the same, and has the whole.
    assert!(begun.iter().any(|begun| begun.number == ended.number));
    assert_eq!(ended.reason, EndReason::Calm);
    assert_eq!((ended.totals.by_cause, ended.totals.waited), (Some(Nanos(4_000 * MS)), Some(Nanos(4_400 * MS))));
    assert_eq!(ended.at.trace.0, at(24 * STEP).trace.0 - 50 * MS, "the last of its waits, not the end of `calm`");
    assert_eq!(ended.duration, Nanos(4_950 * MS));
}

/// The last part of a starvation falls between two readings, of which only the first one is above the threshold.
#[test]
fn what_is_waited_after_the_last_reading_above_the_threshold_belongs_to_it() {
    let mut rows = vec![(240, 0); 20];
    rows.push((40, 0));
    let (_, ended) = play(&mut detector(), &waits(&then_calm(&rows)));
    let [ended] = &ended[..] else { panic!("{ended:?}") };
    assert_eq!(ended.totals.by_cause, Some(Nanos(4_840 * MS)));
    assert_eq!(ended.at.trace.0, at(20 * STEP).trace.0 + 40 * MS);
    assert_eq!(ended.at.wall.0, at(20 * STEP).wall.0 + 40 * MS);
}

#[test]
fn what_pauses_for_less_than_calm_is_one_episode_with_one_sum() {
    let mut rows = vec![(240, 0); 8];
    rows.extend([(0, 0); 16]);
    rows.extend([(240, 0); 8]);
    let (_, ended) = play(&mut detector(), &waits(&then_calm(&rows)));
    let [whole] = &ended[..] else { panic!("{ended:?}") };
    assert_eq!(whole.totals.by_cause, Some(Nanos(16 * 240 * MS)));
    // After `calm` it is another one, and no wait is counted twice.
    let mut rows = vec![(240, 0); 8];
    rows.extend([(0, 0); 24]);
    rows.extend([(240, 0); 8]);
    let (_, ended) = play(&mut detector(), &waits(&then_calm(&rows)));
    let sums: Vec<_> = ended.iter().map(|ended| ended.totals.by_cause).collect();
    assert_eq!(sums, [Some(Nanos(8 * 240 * MS)); 2]);
}

/// One long wait: it is waited in each reading, and blamed in the one after its end.
#[test]
fn a_wait_that_is_blamed_when_it_ends_is_counted_from_its_begin() {
    let mut scene = Scene::new().group("/a");
    let mut scenes = vec![scene.clone(); 5];
    for _ in 0..5 {
        scene = scene.waits_on("/a", 250 * MS);
        scenes.push(scene.clone());
    }
    scene = scene.blame_late("/a", RoleKind::RealTime, 1_250 * MS).wait("/a", 1_250 * MS);
    scenes.push(scene.clone());
    scenes.extend(std::iter::repeat_n(scene, 40));
    let (_, ended) = play(&mut detector(), &scenes);
    let [ended] = &ended[..] else { panic!("{ended:?}") };
    assert_eq!((ended.totals.by_cause, ended.totals.waited), (Some(Nanos(1_250 * MS)), Some(Nanos(1_250 * MS))));
    assert!(ended.duration >= Nanos(1_250 * MS) && ended.duration <= Nanos(1_500 * MS), "{ended:?}");
}

/// A burst that lies within one interval, after others in an interval long before.
#[test]
fn what_pauses_for_less_than_calm_lasts_until_its_last_wait() {
    let mut scene = Scene::new();
    let mut scenes = vec![scene.clone()];
    for step in 1..70 {
        if [4, 20, 36].contains(&step) {
            scene = scene.blame("ksoftirqd", RoleKind::RealTime, 70 * MS).wait("ksoftirqd", 70 * MS);
        }
        scenes.push(scene.clone());
    }
    let (_, ended) = play(&mut detector(), &scenes);
    let [ended] = &ended[..] else { panic!("{ended:?}") };
    let end = at(36 * STEP - 180);
    assert_eq!((ended.at, ended.totals.by_cause), (end, Some(Nanos(210 * MS))));
    assert!(ended.duration >= Nanos(8_000 * MS), "{ended:?}");
}

/// Of several lines about one starvation, the last has the duration and the sums.
#[test]
fn an_episode_that_gets_worse_goes_on_as_the_next_one() {
    //  /a   a warning at first, critical later
    let mut scene = Scene::new().group("/a");
    let mut scenes = vec![scene.clone()];
    for step in 0..12 {
        let ms = if step < 4 { 1_300 } else { 9_000 };
        scene = scene.blame("/a", RoleKind::RealTime, ms * MS).wait("/a", ms * MS);
        scenes.push(scene.clone());
    }
    scenes.extend(std::iter::repeat_n(scene, 30));
    let (begun, ended) = play(&mut detector(), &scenes);
    let numbers: Vec<_> = begun.iter().map(|begun| (begun.number, begun.continues)).collect();
    assert_eq!(numbers, [(1, None), (2, Some(1))]);
    let [ended] = &ended[..] else { panic!("{ended:?}") };
    let all = (4 * 1_300 + 8 * 9_000) * MS;
    assert_eq!((ended.number, ended.totals.by_cause), (2, Some(Nanos(all))));
}

#[test]
fn an_episode_without_a_line_gets_one_later_for_its_whole_time() {
    let scenes = waits(&then_calm(&[(240, 0); 20]));
    let mut detector = detector();
    let (mut begun, mut ended) = (Vec::new(), Vec::new());
    for (index, scene) in scenes.iter().enumerate() {
        let step = detector.see(Arc::new(scene.reading(at(index as u64 * STEP))));
        for new in step.begun {
            if begun.is_empty() {
                detector.postpone(&new, Duration::from_secs(2), Said::Nothing);
            }
            begun.push((index, new.number, new.continues));
        }
        ended.extend(step.ended);
    }
    let first = begun[0];
    assert_eq!(begun[1], (first.0 + 8, first.1, None), "two seconds later, as the same");
    let [ended] = &ended[..] else { panic!("{ended:?}") };
    assert_eq!(ended.totals.by_cause, Some(Nanos(20 * 240 * MS)));
}

/// What becomes of open episodes when nobody reads the counters for a while, or any more.
#[test]
fn where_readings_stop_episodes_end_at_the_last_one() {
    let rows = [(240, 0); 8];
    let scenes = waits(&rows);
    let after = |lasts: u64| scenes[8].clone().blame("/a", RoleKind::RealTime, lasts * MS);
    let total = Some(Nanos(8 * 240 * MS));
    let check = |ended: &[Ended], reason: EndReason, what: &str| {
        let [ended] = ended else { panic!("{what}: {ended:?}") };
        let end: ClockPair = at(8 * STEP - 10);
        assert_eq!((ended.reason, ended.totals.by_cause, ended.at), (reason, total, end), "{what}");
    };
    let open = || {
        let mut detector = detector();
        play(&mut detector, &scenes);
        assert!(detector.is_open());
        detector
    };
    check(&open().end_all(EndReason::WatchEnded), EndReason::WatchEnded, "the watch ends");
    let mut slept = open();
    check(&slept.forget(), EndReason::MachineStood, "the machine slept");
    assert_eq!(slept.see(Arc::new(after(60_000).reading(at(62_000)))), Step::default());
    let gap = open().see(Arc::new(after(70_000).reading(at(80_000))));
    check(&gap.ended, EndReason::MachineStood, "a gap that nobody explains");
    let mut anew = after(1).reading(at(9 * STEP));
    anew.since = at(1);
    check(&open().see(Arc::new(anew)).ended, EndReason::MachineStood, "the engine began anew");
    // Only this process was stopped: the waits of that time count.
    let mut stopped = open();
    stopped.span_gap();
    let step = stopped.see(Arc::new(after(58_000).wait("/a", 58_000 * MS).reading(at(60_000))));
    assert!(step.ended.is_empty(), "{step:?}");
    let [ended] = &stopped.end_all(EndReason::WatchEnded)[..] else { panic!("it is open") };
    assert_eq!(ended.totals.by_cause, Some(Nanos((8 * 240 + 58_000) * MS)));
}

/// All real-time programs are one role; their names say whose fault it is.
#[test]
fn each_real_time_culprit_has_its_own_episode_and_a_group_has_one() {
    for (occupant, expected) in [("real-time", 3), ("/build", 1)] {
        let mut scene = Scene::new().group("/build");
        let mut detector = detector();
        detector.see(Arc::new(scene.reading(at(0))));
        let mut begun = 0;
        for (index, name) in ["poller", "poller", "hog", "poller", "hog", "third"].into_iter().enumerate() {
            let ms = (index as u64 + 1) * STEP;
            let rule = if occupant == "/build" { Rule::Weight } else { Rule::Class };
            scene = scene.blame_group("kworker", occupant, rule, 250 * MS).lasts("kworker", 7, occupant, 250 * MS);
            let mut reading = scene.reading(at(ms));
            for wait in &mut reading.oldest {
                wait.occupant = wait.occupant.map(|task| named(task, name));
            }
            begun += detector.see(Arc::new(reading)).begun.len();
        }
        assert_eq!(begun, expected, "{occupant}");
    }
}

fn named(task: TaskId, name: &str) -> TaskId {
    TaskId { comm: Comm::from(name), tgid: Tid(name.len() as u32), ..task }
}

/// A user can make groups, and limit them, as many as it likes.
#[test]
fn as_many_as_are_open_at_most_and_the_others_are_counted() {
    let group = |number: u64| format!("/pods/{number:03}");
    let mut scene = (0..200).fold(Scene::new().group("/pods"), |scene, number| scene.stopped(&group(number), 0.1, 0));
    let mut detector = detector();
    detector.see(Arc::new(scene.reading(at(0))));
    let (mut begun, mut left_out, mut ended) = (0, 0, 0);
    for step in 1..40 {
        scene = (0..200).fold(scene, |scene, number| scene.stopped(&group(number), 0.1, 225 * MS));
        let step = detector.see(Arc::new(scene.reading(at(step * STEP))));
        begun += step.begun.len();
        ended += step.ended.len();
        left_out = step.joined.iter().filter(|joined| joined.number.is_none()).count();
    }
    assert_eq!((begun, ended, left_out), (64, 0, 136));
}

#[test]
fn a_limits_total_is_what_the_kernel_counted() {
    let mut scene = Scene::new().group("/pods").stopped("/pods/a", 0.1, 0);
    let mut scenes = vec![scene.clone()];
    for _ in 0..20 {
        scene = scene.stopped("/pods/a", 0.1, 225 * MS);
        scenes.push(scene.clone());
    }
    scenes.extend(std::iter::repeat_n(scene, 40));
    let (_, ended) = play(&mut detector(), &scenes);
    let [ended] = &ended[..] else { panic!("{ended:?}") };
    assert_eq!((ended.totals.by_cause, ended.totals.waited), (Some(Nanos(20 * 225 * MS)), None));
}

/// Its sums are moved to `gone`, and another group may get its name.
#[test]
fn of_a_group_that_is_removed_the_sums_until_then_are_known() {
    let scenes = waits(&[(240, 0); 8]);
    let mut detector = detector();
    play(&mut detector, &scenes);
    let mut ended = Vec::new();
    for step in 9..40 {
        let mut reading = scenes[8].reading(at(step * STEP));
        if let Some(Some(role)) = reading.roles.last_mut() {
            role.generation += 1;
        }
        reading.blame.clear();
        ended.extend(detector.see(Arc::new(reading)).ended);
    }
    let [ended] = &ended[..] else { panic!("{ended:?}") };
    assert_eq!(ended.totals.by_cause, Some(Nanos(8 * 240 * MS)));
}
