//! Tests of when episodes begin and end.

use std::collections::BTreeSet;

use proptest::prelude::*;
use unstarve_model::{Comm, Nanos, Severity, Tid};
use unstarve_sched::Rule;

use super::*;
use crate::engine::reading::{Role, RoleKind, TaskId, is_precedence};
use crate::episode::end::Totals;
use crate::episode::settings::RoleThresholds;
use crate::episode::trigger::Trigger;
use crate::testing::{Scene, at};

const MS: u64 = 1_000_000;

/// The steps for a script of scenes, one every 250 ms.
fn steps(scenes: impl IntoIterator<Item = Scene>) -> Vec<Step> {
    steps_by(Thresholds::default(), scenes)
}

fn steps_by(thresholds: Thresholds, scenes: impl IntoIterator<Item = Scene>) -> Vec<Step> {
    let mut detector = Detector::new(thresholds);
    let scenes = scenes.into_iter().enumerate();
    scenes.map(|(index, scene)| detector.see(Arc::new(scene.reading(at(index as u64 * 250))))).collect()
}

fn begun(steps: &[Step]) -> Vec<&Begun> {
    steps.iter().flat_map(|step| &step.begun).collect()
}

/// `count` readings without events.
fn calm(scene: &Scene, count: usize) -> impl Iterator<Item = Scene> {
    std::iter::repeat_n(scene.clone().over(), count)
}

/// The same, if the watch skips readings while nothing happens, at most the time of four.
fn rested(scenes: impl IntoIterator<Item = Scene>) -> Vec<Step> {
    let mut detector = Detector::new(Thresholds::default());
    let (mut last, mut passed_over) = (None, 0);
    let scenes = scenes.into_iter().enumerate();
    let step = |(index, scene): (usize, Scene)| {
        let reading = scene.reading(at(index as u64 * 250));
        if last.as_ref() == Some(&reading.waits) && passed_over < 3 {
            passed_over += 1;
            detector.note_rest(&Quiet { at: reading.at, real_time: reading.real_time });
            return Step::default();
        }
        (last, passed_over) = (Some(reading.waits.clone()), 0);
        detector.see(Arc::new(reading))
    };
    scenes.map(step).collect()
}

#[test]
fn what_comes_after_a_rest_is_not_spread_over_it() {
    let mut scene = Scene::new();
    for before in 3..8 {
        // Much of a second within half of it, and a long wait in progress.
        let mut scenes: Vec<Scene> = calm(&scene, before).collect();
        for _ in 0..2 {
            let waits = (0..16).fold(scene.clone(), |scene, _| scene.wait("direct-io", 10 * MS));
            scene = waits.blame("direct-io", RoleKind::RealTime, 160 * MS);
            scenes.push(scene.clone());
        }
        scenes.extend(calm(&scene, 30));
        scene = scene.blame("ksoftirqd", RoleKind::RealTime, 85 * MS).wait("ksoftirqd", 85 * MS);
        scenes.push(scene.clone());
        scenes.extend(calm(&scene, before));
        let (all, some) = (steps(scenes.clone()), rested(scenes));
        let words =
            |steps: &[Step]| begun(steps).into_iter().map(|begun| (begun.at, begun.clone())).collect::<Vec<_>>();
        assert_eq!(words(&all).len(), 2, "after {before} calm readings: {all:?}");
        assert_eq!(words(&all), words(&some), "after {before} calm readings");
    }
}

#[test]
fn a_long_wait_behind_real_time_is_one_episode_and_names_who_had_the_cpu() {
    //  ksoftirqd  ........wwww|          a wait of 85 ms, seen when it is over
    //  real-time        ####
    let quiet = Scene::new();
    let starved = quiet.clone().blame("ksoftirqd", RoleKind::RealTime, 85 * MS).wait("ksoftirqd", 85 * MS);
    let again = starved.clone().blame("ksoftirqd", RoleKind::RealTime, 90 * MS).wait("ksoftirqd", 90 * MS);
    let scenes = calm(&quiet, 3).chain([starved, again.clone()]).chain(calm(&again, 25)).collect::<Vec<_>>();
    let steps = steps(scenes);
    let begun = begun(&steps);
    assert_eq!(begun.len(), 1, "the second wait is of the same episode");
    let first = begun[0];
    assert_eq!(
        (first.victim.kind, first.culprit.as_ref().map(|role| role.kind)),
        (RoleKind::Ksoftirqd, Some(RoleKind::RealTime))
    );
    assert_eq!((first.rule, first.ns), (Some(Rule::Class), Nanos(85 * MS)));
    assert!(matches!(first.trigger, Trigger::Wait { ns, threshold_ns } if ns > 70 * MS && threshold_ns == 50 * MS));
    assert_eq!(steps.iter().filter(|step| !step.ended.is_empty()).count(), 1);
    let last_above = 4;
    let ended = steps.iter().position(|step| !step.ended.is_empty()).expect("it ended");
    assert_eq!(ended - last_above, 20, "five calm seconds later");
}

#[test]
fn a_wait_that_lasts_is_seen_before_it_ends() {
    let mut scene = Scene::new();
    let mut scenes = vec![scene.clone()];
    for step in 1..5 {
        scene =
            scene.blame("ksoftirqd", RoleKind::RealTime, 250 * MS).lasts("ksoftirqd", 18, "real-time", step * 250 * MS);
        scenes.push(scene.clone());
    }
    let steps = steps(scenes);
    let begun = begun(&steps);
    assert_eq!(begun.len(), 1);
    assert!(!steps[1].begun.is_empty(), "250 ms are more than ksoftirqd has to bear");
    assert_eq!(begun[0].victim_task.map(|task| task.tid.0), Some(18));
    assert_eq!(begun[0].culprit_task.map(|task| task.tid.0), Some(4711));
    assert!(matches!(begun[0].trigger, Trigger::Oldest { ns, .. } if ns == 250 * MS));
}

/// Who is named once the wait is over, by what the counters remember: of the CPU on which the role lost most.
///
/// | the role waited on | a program had most of that CPU | named |
/// |---|---|---|
/// | known CPUs | yes | it |
/// | known CPUs | no, though of another CPU | nobody |
/// | unknown CPUs | of the only CPU that such programs had | it |
/// | unknown CPUs | no | nobody |
#[test]
fn the_real_time_program_of_a_wait_that_is_over_is_known_by_its_cpu() {
    let hog = task(7, 7, "hog");
    for (waited_on, of_cpu, expected) in
        [(Some(1), 1, Some(7)), (Some(1), 2, None), (None, 1, Some(7)), (None, 2, None)]
    {
        let scene = Scene::new();
        let starved = scene.clone().blame("ksoftirqd", RoleKind::RealTime, 200 * MS).wait("ksoftirqd", 200 * MS);
        let starved = match waited_on {
            Some(cpu) => starved.on_cpu("ksoftirqd", cpu, 200 * MS, 0),
            None => starved,
        };
        let starved = starved.real_time(1, 200 * MS).real_time(2, 10 * MS).mostly(of_cpu, hog);
        let scene = scene.on_cpu("ksoftirqd", 1, 1, 0).real_time(1, 0).real_time(2, 0);
        let steps = steps([scene, starved]);
        let begun = begun(&steps);
        let [begun] = begun[..] else { panic!("waited on {waited_on:?}, most of {of_cpu}: {steps:?}") };
        let named = begun.culprit_task.map(|task| task.tid.0);
        assert_eq!(named, expected, "waited on {waited_on:?}, most of {of_cpu}");
    }
}

/// | name | process | the same culprit |
/// |---|---|---|
/// | same | same | yes |
/// | same | another: the program has restarted | yes |
/// | another: renamed | same | yes |
/// | another | another | no |
#[test]
fn a_real_time_culprit_is_known_by_its_name_or_its_process() {
    let first = task(7, 7, "hog");
    for (second, episodes) in
        [(task(7, 7, "hog"), 1), (task(8, 8, "hog"), 1), (task(9, 7, "h0"), 1), (task(8, 8, "poller"), 2)]
    {
        let mut scene = Scene::new();
        let mut scenes = vec![scene.clone().on_cpu("kworker", 1, 1, 0)];
        for step in 0..16 {
            scene = scene.blame("kworker", RoleKind::RealTime, 200 * MS).wait("kworker", 200 * MS);
            scene = scene.on_cpu("kworker", 1, 200 * MS, 0).mostly(1, if step < 8 { first } else { second });
            scenes.push(scene.clone());
        }
        let steps = steps(scenes);
        let begun = begun(&steps);
        let anew = begun.iter().filter(|begun| begun.continues.is_none()).count();
        assert_eq!(anew, episodes, "{second:?}: {begun:#?}");
    }
}

fn task(tid: u32, tgid: u32, comm: &str) -> TaskId {
    TaskId { tid: Tid(tid), tgid: Tid(tgid), comm: Comm::from(comm) }
}

#[test]
fn an_open_episode_of_programs_hides_no_kernel_thread() {
    //  /a       wwwwwwww            two tasks of a user, all the time
    //  /b         wwwwww            by the same culprit: in the first one, once
    //  kworker        ww
    let mut scene = Scene::new().group("/a").group("/b");
    let mut scenes = vec![scene.clone()];
    for step in 1..=8 {
        scene = scene.blame("/a", RoleKind::RealTime, 2_500 * MS).wait("/a", 2_500 * MS);
        if step >= 3 {
            scene = scene.blame("/b", RoleKind::RealTime, 2_500 * MS).wait("/b", 2_500 * MS);
        }
        if step >= 7 {
            scene = scene.blame("kworker", RoleKind::RealTime, 900 * MS).wait("kworker", 900 * MS);
        }
        scenes.push(scene.clone());
    }
    let steps = steps(scenes);
    let names: Vec<String> = begun(&steps).iter().map(|begun| begun.victim.name()).collect();
    assert_eq!(names, ["/a", "kworker"]);
    assert_eq!(steps[7].begun.len(), 1, "as soon as it waits");
    let first = begun(&steps)[0].number;
    let joined: Vec<_> = steps.iter().flat_map(|step| &step.joined).collect();
    let joined: Vec<_> = joined.iter().map(|joined| (joined.number, joined.begun.victim.name())).collect();
    assert_eq!(joined, [(Some(first), "/b".to_owned())]);
}

#[test]
fn a_process_that_is_left_out_is_never_the_culprit() {
    //  ksoftirqd  wwwwwwww        the watch (process 4711 here) has the CPU while it reads
    //  real-time  #######
    let quiet = Scene::new();
    let scene = quiet.clone().blame("ksoftirqd", RoleKind::RealTime, 250 * MS);
    let scene = scene.lasts("ksoftirqd", 18, "real-time", 250 * MS);
    let mut detector = Detector::new(Thresholds::default());
    detector.see(Arc::new(quiet.reading(at(0))));
    let step = detector.see(Arc::new(scene.reading(at(250)).without_occupant(unstarve_model::Tid(4711))));
    let begun = step.begun.into_iter().next().expect("an episode");
    assert_eq!(begun.culprit.map(|role| role.kind), Some(RoleKind::RealTime), "its role stays");
    assert_eq!((begun.victim_task.map(|task| task.tid.0), begun.culprit_task), (Some(18), None));
}

#[test]
fn many_short_waits_are_an_episode_by_their_sum() {
    let mut scene = Scene::new();
    let mut scenes = vec![scene.clone()];
    for _ in 0..8 {
        // 100 ms of each 250, in waits of 2 ms.
        for _ in 0..50 {
            scene = scene.blame_group("direct-io", "real-time", Rule::Weight, 2 * MS).wait("direct-io", 2 * MS);
        }
        scenes.push(scene.clone());
    }
    let steps = steps(scenes);
    let begun = begun(&steps);
    assert_eq!(begun.len(), 1);
    assert!(
        matches!(begun[0].trigger, Trigger::Share { share, .. } if (0.35..0.45).contains(&share)),
        "{:?}",
        begun[0]
    );
}

#[test]
fn a_role_may_be_ignored_and_an_engine_that_begins_anew_is_no_episode() {
    let mut thresholds = Thresholds::default();
    thresholds.role.insert("kworker".into(), RoleThresholds { ignore: true, ..RoleThresholds::default() });
    let starved = Scene::new().blame("kworker", RoleKind::RealTime, 900 * MS).wait("kworker", 900 * MS);
    let mut detector = Detector::new(thresholds);
    assert_eq!(detector.see(Arc::new(Scene::new().reading(at(0)))), Step::default());
    assert_eq!(detector.see(Arc::new(starved.reading(at(250)))), Step::default());

    let mut detector = Detector::new(Thresholds::default());
    detector.see(Arc::new(Scene::new().reading(at(0))));
    let mut other = starved.reading(at(250));
    other.since = at(200);
    assert_eq!(detector.see(Arc::new(other)), Step::default(), "its sums do not count from the same moment");
    // The machine was suspended for two minutes.
    let mut detector = Detector::new(Thresholds::default());
    detector.see(Arc::new(Scene::new().reading(at(0))));
    assert_eq!(detector.see(Arc::new(starved.reading(at(120_000)))), Step::default());
}

/// An event between two readings.
#[derive(Clone, Debug)]
struct Act {
    victim: &'static str,
    occupant: &'static str,
    rule: Rule,
    ns: u64,
    waits: u64,
}

fn act(rules: &'static [Rule]) -> impl Strategy<Value = Act> {
    let victims = prop::sample::select(vec!["ksoftirqd", "kworker", "direct-io", "other", "/a"]);
    let occupants = prop::sample::select(vec!["real-time", "other", "/a", "idle", "unknown"]);
    (victims, occupants, prop::sample::select(rules), 0..2_000 * MS, 1..20_u64)
        .prop_map(|(victim, occupant, rule, ns, waits)| Act { victim, occupant, rule, ns, waits })
}

fn play(acts: &[Vec<Act>]) -> Vec<Scene> {
    let mut scene = Scene::new().group("/a");
    let mut scenes = vec![scene.clone()];
    for acts in acts {
        for act in acts {
            scene = scene.blame_group(act.victim, act.occupant, act.rule, act.ns);
            for _ in 0..act.waits {
                scene = scene.wait(act.victim, act.ns / act.waits);
            }
        }
        scenes.push(scene.clone());
    }
    scenes
}

const FAIR: &[Rule] = &[Rule::Fair, Rule::Idle, Rule::Unknown];
const NOBODY: &[Rule] = &[Rule::Idle, Rule::Unknown];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Waits for an idle CPU that cannot be confirmed any more, or behind an unknown occupant, however long.
    #[test]
    fn nobody_is_starved_where_nobody_is_preferred(acts in prop::collection::vec(prop::collection::vec(act(NOBODY), 0..4), 0..30)) {
        prop_assert!(steps(play(&acts)).iter().all(|step| *step == Step::default()));
    }

    /// Waits for fair turns of any length up to a second. A program may have asked for a low priority.
    #[test]
    fn turns_of_less_than_a_second_are_no_episode(acts in prop::collection::vec(prop::collection::vec(act(FAIR), 0..4), 0..30)) {
        let may_be_turns = |act: &Act| act.ns / act.waits < 1_000 * MS || !act.victim.starts_with(['k', 'd']);
        prop_assume!(acts.iter().flatten().all(may_be_turns));
        prop_assert!(steps_by(by_keys(), play(&acts)).iter().all(|step| *step == Step::default()));
        // Behind a crowd, a kernel thread's turns take too long if they do so repeatedly.
        let is_crowd = |begun: &&Begun| {
            let is_long = matches!(begun.trigger, Trigger::Verdict { ns, lost_ns, .. } if ns >= 96 * MS && lost_ns >= 125 * MS);
            is_long && begun.rule == Some(Rule::Fair) && begun.victim.kind.is_kernel()
        };
        prop_assert!(begun(&steps(play(&acts))).iter().all(is_crowd));
    }

    /// The task named as victim was kept waiting by tasks with precedence, for at least half of the time that triggered the episode; episodes begin
    /// and end alternately.
    #[test]
    fn an_episode_has_its_reason(acts in prop::collection::vec(prop::collection::vec(act(&Rule::ALL), 0..4), 0..40)) {
        let scenes = play(&acts);
        let readings: Vec<Reading> = scenes.iter().map(|scene| scene.reading(at(0))).collect();
        let mut open = BTreeSet::new();
        for (index, step) in steps(scenes).iter().enumerate() {
            for ended in &step.ended {
                prop_assert!(open.remove(&ended.number));
                let Totals { by_cause, waited } = ended.totals;
                prop_assert!(by_cause.is_none_or(|ns| Some(ns) <= waited) && ended.at.trace <= at(index as u64 * 250).trace);
            }
            for begun in &step.begun {
                if let Some(former) = begun.continues {
                    prop_assert!(open.remove(&former));
                }
                prop_assert!(open.insert(begun.number));
                let reading = &readings[index];
                let id = reading.find(begun.victim.kind, begun.victim.cgroup.as_deref()).expect("the victim's role");
                let preferred = reading.blame.iter().filter(|row| row.victim == id && is_precedence(row.rule));
                let preferred: u64 = preferred.map(|row| row.ns.0).sum();
                let needed = match begun.trigger {
                    Trigger::Wait { threshold_ns, .. } | Trigger::Oldest { threshold_ns, .. } => threshold_ns / 2,
                    Trigger::Verdict { ns, .. } => ns,
                    Trigger::Share { threshold, .. } | Trigger::Stalled { threshold, .. } => {
                        (threshold * 0.75e9) as u64
                    }
                    // Here no group has a quota, no wait is in progress, and no task is a real-time task.
                    Trigger::Stopped { .. }
                    | Trigger::Stuck { .. }
                    | Trigger::NotPreempted { .. }
                    | Trigger::Idle { .. } => u64::MAX,
                };
                if begun.rule == Some(Rule::Fair) {
                    // So long that turns count too.
                    let is_crowd = matches!(begun.trigger, Trigger::Verdict { ns, .. } if ns >= 96 * MS);
                    let is_long = matches!(begun.trigger, Trigger::Wait { ns, .. } if ns >= 1_000 * MS);
                    prop_assert!(is_long || is_crowd, "{begun:?}");
                    continue;
                }
                prop_assert!(preferred >= needed, "{begun:?}");
                prop_assert!(begun.rule.is_some_and(is_precedence) && begun.ns.0 > 0);
            }
            prop_assert!(open.is_empty() || step.armed);
        }
    }
}

#[test]
fn the_walls_clock_decides_nothing() {
    //  wall     set back by an hour between the second and the third reading
    //  ksoftirqd  ....www|....
    let quiet = Scene::new();
    let starved = quiet.clone().blame("ksoftirqd", RoleKind::RealTime, 85 * MS).wait("ksoftirqd", 85 * MS);
    let run = |back: u64| {
        let mut detector = Detector::new(Thresholds::default());
        let scenes = [&quiet, &quiet, &starved, &starved, &starved].into_iter().enumerate();
        let steps: Vec<Step> = scenes
            .map(|(index, scene)| {
                let mut now = at(index as u64 * 250);
                if index >= 2 {
                    now.wall = unstarve_model::WallTime(now.wall.0 - back);
                }
                detector.see(Arc::new(scene.reading(now)))
            })
            .collect();
        let begun = begun(&steps).into_iter().map(|begun| (begun.at.trace, begun.since, begun.ns)).collect::<Vec<_>>();
        (begun, detector.is_open())
    };
    let (begun, is_open) = run(3_600_000 * MS);
    assert_eq!((begun.len(), is_open), (1, true));
    assert_eq!((begun, is_open), run(0), "the same episode, of the same time");
}

#[test]
fn other_thresholds_hold_from_the_next_reading_on() {
    let quiet = Scene::new();
    let starved = quiet.clone().blame("ksoftirqd", RoleKind::RealTime, 85 * MS).wait("ksoftirqd", 85 * MS);
    let run = |wait: Option<&str>| {
        let mut detector = Detector::new(Thresholds::default());
        detector.see(Arc::new(quiet.reading(at(0))));
        if let Some(wait) = wait {
            let mut thresholds = Thresholds::default();
            let own = RoleThresholds { wait: wait.parse().ok(), share: None, ..RoleThresholds::default() };
            thresholds.role.insert("ksoftirqd".to_owned(), own);
            detector.judge_by(thresholds);
        }
        detector.see(Arc::new(starved.reading(at(250)))).begun.len()
    };
    assert_eq!([run(None), run(Some("200ms")), run(Some("20ms"))], [1, 0, 1]);
}

#[test]
fn nobody_is_named_for_what_the_kernel_counts_as_stopped() {
    //  /limited   wwwwwwwww#      quota 3 ms of a second; the kernel counts the throttling when it ends
    //  /innocent  #########.
    let mut scene = Scene::new().group("/limited").group("/innocent").stopped("/limited", 0.003, 0);
    let mut scenes = vec![scene.clone()];
    for _ in 0..6 {
        scene = scene.blame_group("/limited", "/innocent", Rule::Weight, 249 * MS);
        scenes.push(scene.clone());
    }
    scene = scene.stopped("/limited", 0.003, 1490 * MS).wait("/limited", 1490 * MS);
    scenes.push(scene);
    let steps = steps(scenes);
    let begun = begun(&steps);
    assert_eq!(begun.len(), 1);
    assert_eq!((begun[0].rule, &begun[0].culprit), (Some(Rule::Throttled), &None), "{:?}", begun[0]);
}

/// `/a` waits slightly above its threshold behind real-time tasks, all the time; `worse` changes the scene at some steps.
fn beside_a_mild_one(count: u64, worse: impl Fn(u64, Scene) -> Scene) -> Vec<Scene> {
    let mut scene = Scene::new().group("/a").group("/b").group("/hog");
    let mut scenes = vec![scene.clone()];
    for step in 1..=count {
        scene = scene.blame("/a", RoleKind::RealTime, 1_300 * MS).wait("/a", 1_300 * MS);
        scene = worse(step, scene);
        scenes.push(scene.clone());
    }
    scenes
}

#[test]
fn a_mild_episode_that_lasts_hides_no_worse_one_of_its_class() {
    //  /a  wwwwwwwwwwww         slightly above its threshold behind real-time tasks
    //  /b      W W  W           behind another group, then behind real-time tasks for more than four times as long, then again
    let scenes = beside_a_mild_one(12, |step, scene| match step {
        4 => scene.blame_group("/b", "/hog", Rule::Weight, 3_000 * MS).wait("/b", 3_000 * MS),
        6 => scene.blame("/b", RoleKind::RealTime, 9_000 * MS).wait("/b", 9_000 * MS),
        9 => scene.blame("/b", RoleKind::RealTime, 9_500 * MS).wait("/b", 9_500 * MS),
        _ => scene,
    });
    let steps = steps(scenes);
    let began: Vec<(usize, String)> = steps
        .iter()
        .enumerate()
        .flat_map(|(at, step)| {
            step.begun.iter().map(move |begun| (at, format!("{} {:?}", begun.victim.name(), begun.rule)))
        })
        .collect();
    let expected = [(1, "/a Some(Class)"), (4, "/b Some(Weight)"), (6, "/b Some(Class)")];
    assert_eq!(began, expected.map(|(at, what)| (at, what.to_owned())));
    assert!(steps.iter().all(|step| step.joined.is_empty()), "each has its own");
}

#[test]
fn an_episode_that_was_not_kept_begins_again_if_it_lasts() {
    let scenes = beside_a_mild_one(24, |step, scene| match step {
        4.. => scene.blame_group("/b", "/hog", Rule::Weight, 3_000 * MS).wait("/b", 3_000 * MS),
        _ => scene,
    });
    let mut detector = Detector::new(Thresholds::default());
    let mut began = Vec::new();
    for (index, scene) in scenes.iter().enumerate() {
        let step = detector.see(Arc::new(scene.reading(at(index as u64 * 250))));
        for begun in &step.begun {
            began.push((index, begun.victim.name()));
            if index == 4 {
                detector.postpone(begun, Duration::from_secs(3), Said::Line);
            }
        }
    }
    assert_eq!(began, [(1, "/a".to_owned()), (4, "/b".to_owned()), (16, "/b".to_owned())]);
}

/// Eight readings with the same events in each.
fn again(scene: Scene, happens: impl Fn(u64, Scene) -> Scene) -> Vec<Step> {
    again_by(Thresholds::default(), scene, happens)
}

/// Thresholds only: the table of verdicts has tests of its own for sums.
fn by_keys() -> Thresholds {
    Thresholds { verdict: false, ..Thresholds::default() }
}

fn again_by(thresholds: Thresholds, scene: Scene, happens: impl Fn(u64, Scene) -> Scene) -> Vec<Step> {
    let mut scenes = vec![scene.clone()];
    let mut scene = scene;
    for step in 1..=8 {
        scene = happens(step, scene);
        scenes.push(scene.clone());
    }
    steps_by(thresholds, scenes)
}

#[test]
fn a_group_that_its_limit_stops_most_of_the_time_is_an_episode_of_its_own() {
    //  /kubepods/pod1  #.........#.........   10 ms of 100, and it would have used all of them
    //  /kubepods/pod2  ####################
    let (pod, role) = ("/kubepods/pod1", "/kubepods");
    let of = |limit: f64, ms: u64| {
        let scene = Scene::new().group(role).stopped(pod, limit, 0);
        again(scene, |_, scene| scene.stopped(pod, limit, ms * MS))
    };
    let stopped = of(0.1, 225);
    let begun = begun(&stopped);
    assert_eq!(begun.len(), 1, "it lasts");
    let first = begun[0];
    assert_eq!((first.group.as_deref(), first.victim.cgroup.as_deref()), (Some(pod), Some(role)));
    assert_eq!((first.rule, &first.culprit), (Some(Rule::Throttled), &None), "nobody else is to blame");
    assert!(
        matches!(first.trigger, Trigger::Stopped { share, threshold: 0.65 } if (0.89..0.91).contains(&share)),
        "{first:?}"
    );
    assert_eq!(first.ns, Nanos(675 * MS), "three quarters of a second");
    // Half of what it would use, or a whole CPU and more.
    for (limit, ms) in [(0.5, 125), (1.0, 1000), (4.0, 2000)] {
        assert!(self::begun(&of(limit, ms)).is_empty(), "{limit}");
    }
}

#[test]
fn each_stopped_group_is_a_cause_by_itself() {
    let scene = Scene::new().group("/a").group("/b").stopped("/a", 0.1, 0).stopped("/b", 0.01, 0);
    let steps = again(scene, |step, scene| {
        let scene = scene.stopped("/a", 0.1, 225 * MS);
        if step >= 4 { scene.stopped("/b", 0.01, 247 * MS) } else { scene }
    });
    let groups: Vec<_> = begun(&steps).into_iter().map(|begun| begun.group.as_deref()).collect();
    assert_eq!(groups, [Some("/a"), Some("/b")]);
}

#[test]
fn a_group_of_which_real_time_tasks_take_most_of_the_time_is_an_episode() {
    //  /a         wwwwwwwww#wwwwwwwww#    90 of each 100 ms: no single wait is long
    //  real-time  #########.#########.
    let scene = Scene::new().group("/a");
    let stalled = again_by(by_keys(), scene.clone(), |_, scene| {
        scene.blame("/a", RoleKind::RealTime, 225 * MS).wait("/a", 90 * MS).wait("/a", 90 * MS)
    });
    let found = begun(&stalled);
    assert_eq!(found.len(), 1);
    assert!(matches!(found[0].trigger, Trigger::Stalled { share, threshold: 0.5 } if share > 0.5), "{:?}", found[0]);
    assert_eq!(found[0].culprit.as_ref().map(|role| role.kind), Some(RoleKind::RealTime));
    // Forty tasks that wait for one burst of 30 ms in each second.
    let burst = again_by(by_keys(), scene.clone(), |step, scene| match step % 4 {
        0 => (0..40).fold(scene.blame("/a", RoleKind::RealTime, 1_200 * MS), |scene, _| scene.wait("/a", 30 * MS)),
        _ => scene,
    });
    assert!(begun(&burst).is_empty(), "{:?}", begun(&burst));
    // Many short ones, or long ones that are mostly turns of equals.
    let short = again_by(by_keys(), scene.clone(), |_, scene| {
        (0..20).fold(scene.blame("/a", RoleKind::RealTime, 225 * MS), |scene, _| scene.wait("/a", 11 * MS))
    });
    let turns = again_by(by_keys(), scene.group("/b"), |_, scene| {
        let scene = scene.blame("/a", RoleKind::RealTime, 225 * MS).blame_group("/a", "/b", Rule::Fair, 600 * MS);
        (0..9).fold(scene, |scene, _| scene.wait("/a", 90 * MS))
    });
    assert!(begun(&short).is_empty() && begun(&turns).is_empty());
}

#[test]
fn what_waited_while_the_machine_stood_still_is_no_episode() {
    //  kworker  ....wwwwwwwwww|w        the clock of a virtual machine that was paused for ten seconds
    let scene = Scene::new();
    let paused = scene.clone().blame("kworker", RoleKind::RealTime, 10_000 * MS);
    let lasting = paused.clone().lasts("kworker", 7, "real-time", 10_000 * MS);
    let after = paused.blame("kworker", RoleKind::RealTime, 20 * MS).wait("kworker", 10_020 * MS).over();
    let run = |stood_still: bool| {
        let mut detector = Detector::new(Thresholds::default());
        detector.see(Arc::new(scene.reading(at(0))));
        if stood_still {
            detector.forget();
        }
        let readings = [lasting.reading(at(10_250)), after.reading(at(10_500)), after.reading(at(10_750))];
        readings.into_iter().map(|reading| detector.see(Arc::new(reading)).begun.len()).sum::<usize>()
    };
    assert_eq!([run(false), run(true)], [1, 0]);
}

/// A kernel thread behind an equal that keeps the CPU: no task is preferred.
fn behind_an_equal(victim: &str, each: u64, count: u64) -> Vec<Scene> {
    let mut scene = Scene::new();
    let mut scenes = vec![scene.clone()];
    for step in 1..=count {
        scene = scene.blame_group(victim, "other", Rule::Fair, each).lasts(victim, 18, "other", step * each);
        scenes.push(scene.clone());
    }
    scenes
}

#[test]
fn an_equal_that_does_not_leave_begins_an_episode_and_turns_do_not() {
    for victim in ["ksoftirqd", "kworker", "direct-io", "rcu", "storage", "nfsd", "kernel"] {
        let steps = steps(behind_an_equal(victim, 250 * MS, 2));
        let begun = begun(&steps);
        assert_eq!(begun.len(), 1, "{victim}");
        assert!(matches!(begun[0].trigger, Trigger::Stuck { ns, .. } if ns == 250 * MS), "{:?}", begun[0]);
        assert_eq!((begun[0].rule, begun[0].severity()), (Some(Rule::Fair), Severity::Warning));
        assert_eq!(begun[0].culprit_task.map(|task| task.tid.0), Some(4711));
    }
    // A program can be in a group of low weight below its top-level group, which the counters do not show.
    assert!(begun(&steps(behind_an_equal("other", 250 * MS, 8))).is_empty());
    let mut turns = behind_an_equal("kworker", 250 * MS, 3);
    turns.iter_mut().for_each(|scene| scene.turn(3 * MS));
    assert!(begun(&steps(turns)).is_empty(), "who has the CPU has just come");
}

#[test]
fn a_kernel_threads_wait_of_a_second_counts_whatever_turns_it_is_made_of() {
    for (victim, expected) in [("kworker", 1), ("nfsd", 1), ("kernel", 0), ("other", 0)] {
        let quiet = Scene::new();
        let waited = quiet.clone().blame_group(victim, "other", Rule::Fair, 1_500 * MS).wait(victim, 1_500 * MS);
        let steps = steps([quiet, waited]);
        let begun = begun(&steps);
        assert_eq!(begun.len(), expected, "{victim}: khugepaged and programs may have asked to be last");
        assert!(begun.iter().all(|begun| begun.rule == Some(Rule::Fair) && begun.severity() == Severity::Warning));
    }
}

#[test]
fn a_real_time_task_that_is_not_preempted_for_is_late_after_5_ms() {
    for (ms, expected) in [(4, None), (7, Some(Severity::Warning)), (80, Some(Severity::Critical))] {
        let quiet = Scene::new();
        let waited =
            quiet.clone().blame_group("real-time", "other", Rule::NotPreempted, ms * MS).wait("real-time", ms * MS);
        let steps = steps([quiet, waited]);
        let severity: Vec<Severity> = begun(&steps).iter().map(|begun| begun.severity()).collect();
        assert_eq!(severity, Vec::from_iter(expected), "{ms} ms");
    }
    // Behind a higher priority, waiting is intended.
    let quiet = Scene::new();
    let waited =
        quiet.clone().blame_group("real-time", "real-time", Rule::Priority, 15 * MS).wait("real-time", 15 * MS);
    assert!(begun(&steps([quiet, waited])).is_empty());
}

#[test]
fn an_idle_cpu_begins_an_episode_once_the_wait_is_confirmed_twice() {
    let mut scene = Scene::new();
    let mut scenes = vec![scene.clone()];
    for step in 1..=3 {
        scene =
            scene.blame_group("kworker", "idle", Rule::Idle, 250 * MS).lasts("kworker", 18, "idle", step * 250 * MS);
        scenes.push(scene.clone());
    }
    let found = steps(scenes);
    assert_eq!(found.iter().map(|step| step.begun.len()).collect::<Vec<_>>(), [0, 0, 1, 0]);
    let begun = begun(&found)[0];
    assert_eq!((begun.rule, begun.severity()), (Some(Rule::Idle), Severity::Warning));
    // Another wait each time: a switch event was omitted.
    let mut scene = Scene::new();
    let mut scenes = vec![scene.clone()];
    for _ in 0..4 {
        scene = scene.blame_group("kworker", "idle", Rule::Idle, 250 * MS).lasts("kworker", 18, "idle", 100 * MS);
        scenes.push(scene.clone());
    }
    assert!(super::tests::begun(&steps(scenes)).is_empty());
}

#[test]
fn thresholds_begin_an_episode_and_the_table_says_how_bad_it_is() {
    let severity = |victim: &str, rule, ms: u64| {
        let quiet = Scene::new();
        let waited = quiet.clone().blame_group(victim, "real-time", rule, ms * MS).wait(victim, ms * MS);
        begun(&steps([quiet, waited])).first().map(|begun| begun.severity())
    };
    use Severity::{Critical, Warning};
    assert_eq!(
        [60, 300, 1_100].map(|ms| severity("ksoftirqd", Rule::Class, ms)),
        [Warning, Warning, Critical].map(Some)
    );
    // The work item of the kworker is unknown, and 60 ms of housekeeping are a remark, which begins no episode.
    assert_eq!([60, 300, 1_100].map(|ms| severity("kworker", Rule::Class, ms)), [None, Some(Warning), Some(Critical)]);
    assert_eq!([30, 1_100].map(|ms| severity("real-time", Rule::Priority, ms)), [Warning, Critical].map(Some));
    assert_eq!(severity("other", Rule::Class, 1_100), Some(Critical));
}

#[test]
fn the_table_is_asked_unless_somebody_has_set_what_a_wait_may_take() {
    //  /a  w.w.w.w.     behind a real-time task that has 3.5 of each 4 ms: no wait is long
    let begins = |write: &dyn Fn(&mut Thresholds)| {
        let mut thresholds = Thresholds::default();
        write(&mut thresholds);
        let steps = again_by(thresholds, Scene::new().group("/a"), |_, scene| {
            (0..62).fold(scene.blame("/a", RoleKind::RealTime, 217 * MS), |scene, _| scene.wait("/a", 3_500_000))
        });
        begun(&steps).first().map(|begun| begun.severity())
    };
    let of_role = |thresholds: &mut Thresholds, wait: Option<&str>, verdict: Option<bool>| {
        let wait = wait.and_then(|wait| wait.parse().ok());
        thresholds.role.insert("/a".to_owned(), RoleThresholds { wait, verdict, ..RoleThresholds::default() });
    };
    assert_eq!(begins(&|_| {}), Some(Severity::Warning));
    assert_eq!(begins(&|thresholds| thresholds.verdict = false), None);
    assert_eq!(begins(&|thresholds| thresholds.wait = "500ms".parse().ok()), None);
    assert_eq!(begins(&|thresholds| of_role(thresholds, Some("500ms"), None)), None);
    assert_eq!(begins(&|thresholds| of_role(thresholds, Some("500ms"), Some(true))), Some(Severity::Warning));
}

#[test]
fn a_share_that_is_over_keeps_nothing_open() {
    //  /a  wwww|........    half a second behind a real-time task, then nothing: that is a share of the last ten seconds
    let scene = Scene::new().group("/a");
    let starved = scene.clone().blame("/a", RoleKind::RealTime, 500 * MS).wait("/a", 500 * MS);
    let steps = steps([scene].into_iter().chain(calm(&starved, 30)));
    assert_eq!(begun(&steps).len(), 1);
    let ended = steps.iter().position(|step| !step.ended.is_empty()).expect("it ended");
    assert_eq!(ended - 1, 20, "five calm seconds later");
}

#[test]
fn a_thread_waits_behind_a_crowd_of_others() {
    let behind = |waiting: u64, ms: u64| {
        let steps = again(Scene::new().group("/crowd"), |_, scene| {
            let scene = scene.blame_group("/crowd", "/crowd", Rule::Fair, waiting * 250 * MS);
            scene.blame_group("ksoftirqd", "/crowd", Rule::Fair, ms * MS).wait("ksoftirqd", ms * MS)
        });
        begun(&steps).first().map(|begun| (begun.severity(), begun.rule, begun.culprit.as_ref().map(Role::name)))
    };
    assert_eq!(behind(100, 200), Some((Severity::Critical, Some(Rule::Fair), Some("/crowd".to_owned()))));
    assert_eq!(behind(100, 60), None, "turns among equals may take so long (decision 0220)");
    assert_eq!(behind(2, 200), None, "two are no crowd");
}
