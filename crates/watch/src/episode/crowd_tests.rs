//! Episodes of roles with many tasks waiting at once.

use std::sync::Arc;

use unstarve_model::{Comm, CpuId, Nanos, Tid};
use unstarve_sched::Rule;

use super::{Begun, Detector, Trigger};
use crate::engine::reading::{OldestWait, RoleKind, TaskId};
use crate::episode::settings::Thresholds;
use crate::testing::{Scene, at};

const MS: u64 = 1_000_000;

/// Thresholds only: the table of verdicts has tests of its own for sums.
fn by_keys() -> Thresholds {
    Thresholds { verdict: false, ..Thresholds::default() }
}

/// Between two readings.
const STEP: u64 = 250;

/// What begins in eight readings with the same events in each.
fn begun(scene: &Scene, happens: impl Fn(u64, Scene) -> Scene) -> Vec<Begun> {
    begun_in(8, scene, happens)
}

/// The same for a given number of readings.
fn begun_in(readings: u64, scene: &Scene, happens: impl Fn(u64, Scene) -> Scene) -> Vec<Begun> {
    let mut detector = Detector::new(by_keys());
    detector.see(Arc::new(scene.reading(at(0))));
    let mut scene = scene.clone();
    let mut begun = Vec::new();
    for step in 1..=readings {
        scene = happens(step, scene);
        begun.extend(detector.see(Arc::new(scene.reading(at(step * STEP)))).begun);
    }
    begun
}

/// So many tasks of one role wait all the time; in each of their waits a preferred task of another role ran for this long.
fn crowd(tasks: u64, preferred_percent: u64, rule: Rule) -> Vec<Begun> {
    let scene = Scene::new().group("/crowd").group("/other");
    begun(&scene, |step, scene| {
        let unfair = tasks * STEP * MS * preferred_percent / 100;
        let scene = scene.blame_group("/crowd", "/other", rule, unfair);
        let scene = scene.blame_group("/crowd", "/crowd", Rule::Fair, tasks * STEP * MS - unfair);
        // A turn takes as long as those of all other tasks together.
        (0..tasks / 10).fold(scene, |scene, _| scene.wait("/crowd", 2_500 * MS)).lasts(
            "/crowd",
            7,
            "/other",
            step * STEP * MS,
        )
    })
}

#[test]
fn a_short_turn_that_many_equals_wait_for_is_not_one_wait_as_long() {
    //  300 equals on two CPUs, and a task of nice -5 that takes 1 % of one
    for rule in [Rule::Weight, Rule::WakeupPreemption, Rule::Class] {
        assert_eq!(crowd(300, 1, rule), [], "{rule}");
    }
    // A task that has most of a CPU keeps each of them waiting.
    for rule in [Rule::Weight, Rule::Class] {
        let begun = crowd(300, 80, rule);
        assert_eq!(begun.len(), 1, "{rule}");
        assert_eq!(begun[0].rule, Some(rule));
    }
}

#[test]
fn a_kernel_threads_wait_is_its_own() {
    //  nfsd ×100  wwwwwwww      each waits for its turn among the others; ksoftirqd of nice -20 takes 1 % before them
    let scene = Scene::new();
    let step = |unfair: u64| {
        begun(&scene, |_, scene| {
            let scene = scene.blame_group("nfsd", "ksoftirqd", Rule::Weight, unfair * MS);
            scene.blame_group("nfsd", "nfsd", Rule::Fair, (25_000 - unfair) * MS).wait("nfsd", 210 * MS)
        })
    };
    // Together they lost 0.25 s of each second, which is below the threshold `share`.
    assert_eq!(step(62), []);
}

#[test]
fn threads_of_a_pool_that_push_each_other_off_are_not_starved_by_others() {
    //  nfsd ×16  wRwRwR      each wakes the next, which preempts it briefly
    let begun = |occupant: &str| {
        begun(&Scene::new(), |_, scene| scene.blame_group("nfsd", occupant, Rule::WakeupPreemption, 100 * MS))
    };
    assert_eq!(begun("nfsd"), []);
    let by_programs = begun("other");
    assert_eq!(by_programs.len(), 1);
    assert!(matches!(by_programs[0].trigger, Trigger::Share { .. }), "{:?}", by_programs[0]);
}

#[test]
fn what_many_wait_at_once_behind_one_heavier_task_counts_once() {
    //  kworker (nice -20)   H.......H.......     12 % of the CPU
    //  nfsd ×6              wRwwwwwwwRwwwwww     each of them waits for it
    let begun = |heavier_ms: u64| {
        begun(&Scene::new(), |_, scene| {
            let scene = scene.blame_group("nfsd", "kworker", Rule::Weight, 6 * heavier_ms * MS);
            scene.blame_group("nfsd", "nfsd", Rule::Fair, 200 * MS).preferred("nfsd", heavier_ms * MS)
        })
    };
    assert_eq!(begun(30), []);
    // If it has a third of the CPU, they starve, many or few.
    let begun = begun(85);
    assert_eq!(begun.len(), 1);
    assert!(matches!(begun[0].trigger, Trigger::Share { share, .. } if share < 0.4), "{:?}", begun[0]);
}

#[test]
fn who_is_preferred_by_two_rules_is_preferred_by_both_together() {
    //  fio      (kubepods)       woken by the worker, and heavier: 37 ms and 26 ms of each 250 ms
    //  kworker  (nice -20)       41 ms
    let begun = begun(&Scene::new().group("/kubepods"), |_, scene| {
        let scene = scene.blame_group("direct-io", "/kubepods", Rule::WakeupPreemption, 37 * MS);
        let scene = scene.blame_group("direct-io", "/kubepods", Rule::Weight, 26 * MS);
        scene.blame_group("direct-io", "kworker", Rule::Weight, 41 * MS)
    });
    assert_eq!(begun.len(), 1);
    assert_eq!(begun[0].culprit.as_ref().and_then(|role| role.cgroup.as_deref()), Some("/kubepods"));
    assert_eq!((begun[0].rule, begun[0].ns), (Some(Rule::WakeupPreemption), Nanos(4 * 37 * MS)));
}

/// Eighty busy loops of one role on two CPUs, and a FIFO task that has one of them for 80 of each 100 ms.
fn beside_a_hog(hog_ms: u64, waiting_there: u64) -> Vec<Begun> {
    let elsewhere = 80 - waiting_there;
    begun(&Scene::new().group("/loops"), |_, scene| {
        let by_class = waiting_there * hog_ms * MS;
        let turns = waiting_there * (STEP - hog_ms) * MS;
        let scene = scene.blame("/loops", RoleKind::RealTime, by_class);
        let scene = scene.blame_group("/loops", "/loops", Rule::Fair, turns + elsewhere * STEP * MS);
        let scene = scene.on_cpu("/loops", 0, by_class, turns).on_cpu("/loops", 1, 0, elsewhere * STEP * MS);
        let scene = scene.real_time(0, hog_ms * MS);
        (0..20).fold(scene, |scene, _| scene.wait("/loops", 300 * MS))
    })
}

#[test]
fn a_crowd_elsewhere_hides_no_real_time_task_that_takes_most_of_a_cpu() {
    for waiting_there in [1, 2, 10, 15, 40] {
        let begun = beside_a_hog(200, waiting_there);
        assert_eq!(begun.len(), 1, "{waiting_there} of 80 wait for that CPU");
        let first = &begun[0];
        assert!(matches!(first.trigger, Trigger::Stalled { threshold: 0.5, .. }), "{first:?}");
        assert_eq!(
            (first.rule, first.culprit.as_ref().map(|role| role.kind)),
            (Some(Rule::Class), Some(RoleKind::RealTime))
        );
    }
    // A task with a tenth of the CPU does not starve them, however many wait.
    assert_eq!(beside_a_hog(25, 40), []);
}

#[test]
fn one_burst_of_a_real_time_task_before_a_crowd_is_none() {
    let scene = Scene::new().group("/loops");
    let begun = begun(&scene, |step, scene| {
        let by_class = if step % 4 == 0 { 40 * 30 * MS } else { 0 };
        let scene = scene.blame("/loops", RoleKind::RealTime, by_class).on_cpu("/loops", 0, by_class, 1);
        let scene = scene.blame_group("/loops", "/loops", Rule::Fair, 10_000 * MS);
        (0..40).fold(scene, |scene, _| scene.wait("/loops", 200 * MS))
    });
    assert_eq!(begun, []);
}

/// A real-time daemon has 5 % of CPU 1, for which 100 threads of a user wait meanwhile. As many other threads wait for CPU 0, where they take
/// turns; one of their waits ends in each step.
fn beside_a_daemon(elsewhere: u64, turn: u64) -> Vec<Begun> {
    // Until one of their waits ends.
    let readings = 8.max(turn / (STEP * MS) + 4);
    begun_in(readings, &Scene::new().group("/user"), |step, scene| {
        let daemon = STEP * MS / 20;
        let (by_class, turns) = (100 * daemon, elsewhere * STEP * MS);
        let scene = scene.blame("/user", RoleKind::RealTime, by_class).on_cpu("/user", 1, by_class, MS);
        let scene = scene.blame_group("/user", "/user", Rule::Fair, turns + MS).on_cpu("/user", 0, 0, turns);
        let scene = (0..250).fold(scene.real_time(1, daemon), |scene, _| scene.wait("/user", 5 * MS));
        let ended = turns / turn;
        let scene = (0..ended.max(1)).fold(scene, |scene, _| scene.wait("/user", turn));
        scene.lasts("/user", 7, "/user", turn.min(step * STEP * MS))
    })
}

#[test]
fn short_waits_for_a_daemon_make_no_long_waits_elsewhere_its_doing() {
    // 50 busy loops: the crowd mostly waits for turns of its own, but not on the daemon's CPU.
    assert_eq!(beside_a_daemon(50, 150 * MS), []);
    // Two waiting tasks: most of their waits are behind the daemon.
    assert_eq!(beside_a_daemon(2, 30 * MS), []);
    // Waits as long as a threshold.
    for turn in [1_200, 2_500] {
        assert_eq!(beside_a_daemon(2, turn * MS), [], "{turn} ms");
    }
    // Waits so long that a twentieth of one exceeds a threshold (equals with long slices).
    for turn in [11_000, 21_000] {
        assert_eq!(beside_a_daemon(110, turn * MS), [], "{turn} ms");
        assert_eq!(beside_a_daemon(2, turn * MS), [], "{turn} ms");
    }
}

#[test]
fn real_time_tasks_on_many_cpus_are_not_one_that_keeps_a_wait() {
    //  sixteen CPUs with 4 % real time each, behind which a few tasks wait; on CPU 0 twenty loops take turns of two seconds
    let begun = begun_in(16, &Scene::new().group("/user"), |step, scene| {
        let scene = (1..16).fold(scene, |scene, cpu| {
            let scene = scene.blame("/user", RoleKind::RealTime, 12 * 10 * MS).on_cpu("/user", cpu, 12 * 10 * MS, 0);
            scene.real_time(cpu, 10 * MS)
        });
        let turns = 20 * STEP * MS;
        let scene = scene.blame_group("/user", "/user", Rule::Fair, turns).on_cpu("/user", 0, 0, turns);
        scene.wait("/user", 2_000 * MS).lasts("/user", 7, "/user", (step * STEP * MS).min(2_000 * MS))
    });
    assert!(
        !begun.iter().any(|begun| matches!(begun.trigger, Trigger::Wait { .. } | Trigger::Oldest { .. })),
        "{begun:?}"
    );
}

#[test]
fn a_task_that_has_half_of_a_long_wait_is_named_for_it() {
    //  /user  waits for CPU 1 for 2.4 s, of which a real-time task has half
    let begun = begun_in(12, &Scene::new().group("/user"), |step, scene| {
        let half = STEP / 2 * MS;
        let scene = scene.blame("/user", RoleKind::RealTime, half).blame_group("/user", "/user", Rule::Fair, half);
        let scene = scene.on_cpu("/user", 1, half, half).real_time(1, half);
        if step == 11 { scene.wait("/user", 2_400 * MS) } else { scene }
    });
    let named = begun.iter().find(|begun| matches!(begun.trigger, Trigger::Wait { .. }));
    assert_eq!(named.and_then(|begun| begun.rule), Some(Rule::Class), "{begun:?}");
}

#[test]
fn a_crowd_behind_a_daemon_gives_it_no_part_in_what_a_heavier_group_does() {
    //  /user  one task waits seconds behind a heavier group on CPU 0, and a hundred wait briefly behind a real-time daemon on CPU 1
    let begun = begun(&Scene::new().group("/user").group("/heavy"), |_, scene| {
        let scene = scene.blame("/user", RoleKind::RealTime, 1_250 * MS).on_cpu("/user", 1, 1_250 * MS, MS);
        let scene = scene.blame_group("/user", "/heavy", Rule::Weight, 500 * MS).real_time(1, 12 * MS);
        scene.wait("/user", 2_400 * MS)
    });
    assert_eq!(begun.len(), 1);
    assert_eq!(
        (begun[0].rule, begun[0].culprit.as_ref().map(crate::engine::reading::Role::name).as_deref()),
        (Some(Rule::Weight), Some("/heavy"))
    );
}

#[test]
fn what_is_waited_nobody_knows_where_is_no_more_than_real_time_tasks_had_of_all_cpus() {
    let of = |real_time: u64| {
        begun(&Scene::new().group("/user"), |_, scene| {
            let scene = scene.blame("/user", RoleKind::RealTime, 1_000 * MS);
            let scene = scene.real_time(0, real_time * MS).real_time(3, real_time * MS);
            (0..5).fold(scene, |scene, _| scene.wait("/user", 40 * MS))
        })
    };
    assert_eq!(of(10), []);
    let begun = of(75);
    assert!(matches!(begun[0].trigger, Trigger::Stalled { share, .. } if (0.59..0.61).contains(&share)), "{begun:?}");
}

/// A wait of this role for a CPU that another task has had for this long.
fn waits(scene: Scene, role: &str, occupant: &str, ns: u64, occupied: u64) -> crate::engine::reading::Reading {
    let id = |name: &str| {
        let reading = scene.reading(at(0));
        let is = |role: &Option<crate::engine::reading::Role>| role.as_ref().is_some_and(|role| role.name() == name);
        crate::engine::reading::RoleId(reading.roles.iter().position(is).expect("a role") as u8)
    };
    let task = |tid: u32| TaskId { tid: Tid(tid), tgid: Tid(tid), comm: Comm::from("loop") };
    let wait = OldestWait {
        cpu: CpuId(0),
        task: task(7),
        role: id(role),
        ns: Nanos(ns),
        occupant: Some(task(4711)),
        occupant_role: id(occupant),
        occupied: Nanos(occupied),
    };
    crate::engine::reading::Reading { oldest: vec![wait], ..scene.reading(at(250)) }
}

#[test]
fn whoever_runs_at_the_moment_is_not_the_culprit() {
    //  /a  wwwwwwww     behind a heavier task of the same group; at this moment an equal has the CPU
    let scene = Scene::new().group("/a");
    let starved = scene.clone().blame_group("/a", "/a", Rule::Weight, 2_500 * MS).wait("/a", 2_500 * MS);
    let named = |occupied: u64| {
        let mut detector = Detector::new(by_keys());
        detector.see(Arc::new(scene.reading(at(0))));
        let reading = waits(starved.clone(), "/a", "/a", 2_500 * MS, occupied);
        let begun = detector.see(Arc::new(reading)).begun;
        assert_eq!(begun.len(), 1);
        assert_eq!(
            begun[0].culprit.as_ref().map(crate::engine::reading::Role::name).as_deref(),
            Some("/a"),
            "the group is known"
        );
        begun[0].culprit_task.map(|task| task.tid.0)
    };
    assert_eq!(named(3 * MS), None, "it has just come to the CPU");
    assert_eq!(named(2_000 * MS), Some(4711), "it has had it for most of the wait");
}

#[test]
fn who_waits_at_the_moment_is_not_the_one_whose_wait_has_ended() {
    //  ksoftirqd  wwww|....   behind a real-time task; now another thread waits for its turn
    let scene = Scene::new();
    let ended = scene.clone().blame("ksoftirqd", RoleKind::RealTime, 85 * MS).wait("ksoftirqd", 85 * MS);
    let of = |ns: u64, fair: u64| {
        let scene_now = ended.clone().blame_group("ksoftirqd", "other", Rule::Fair, fair * MS);
        let mut detector = Detector::new(by_keys());
        detector.see(Arc::new(scene.reading(at(0))));
        let reading = waits(scene_now, "ksoftirqd", "other", ns * MS, ns * MS);
        let begun = detector.see(Arc::new(reading)).begun;
        assert_eq!(begun.len(), 1, "{ns} ms");
        (begun[0].victim_task.map(|task| task.tid.0), begun[0].culprit_task)
    };
    assert_eq!(of(12, 12), (None, None), "a turn is no starvation");
    assert_eq!(of(60, 5), (Some(7), None), "who has the CPU now is of another role than who had it");
}
