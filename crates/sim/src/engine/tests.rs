//! What the model does in cases whose outcome is known.

use unstarve_model::SchedPolicy;

use super::builder::{Script, deadline, fair, fifo, hog, ms, nice, rr, shares, ticker, us};
use super::*;
use crate::{Class, Op};

/// Kernels of both fair classes, with and without delayed dequeue.
const KERNELS: [&str; 5] = ["5.10.223", "6.1.176", "6.8.12", "6.12.107", "6.18.5"];

#[track_caller]
fn assert_near(played: &Played, expected: &[f64], within: f64, case: &str) {
    let shares = shares(played);
    for (index, expected) in expected.iter().enumerate() {
        assert!((shares[index] - expected).abs() <= within, "{case}: {shares:.2?}, not {expected}");
    }
}

#[test]
fn hogs_share_a_cpu_by_weight() {
    let table: [(&str, &[Class], &[f64]); 6] = [
        ("two equals", &[nice(0), nice(0)], &[50.0, 50.0]),
        ("nice 0 and 5", &[nice(0), nice(5)], &[75.35, 24.65]),
        ("nice -10, 0 and 0", &[nice(-10), nice(0), nice(0)], &[82.34, 8.83, 8.83]),
        ("SCHED_IDLE", &[nice(0), fair(SchedPolicy::Idle)], &[99.71, 0.29]),
        ("SCHED_BATCH is an equal", &[nice(0), fair(SchedPolicy::Batch)], &[50.0, 50.0]),
        ("ten", &[nice(0); 10], &[10.0; 10]),
    ];
    for release in KERNELS {
        for (case, classes, expected) in table {
            let mut script = Script::new(1, ms(20_000));
            for class in classes {
                script.hog(*class);
            }
            assert_near(&script.play(release), expected, 1.0, &format!("{release}: {case}"));
        }
    }
}

#[test]
fn groups_compete_as_one_with_each_other_and_with_tasks_of_the_root_group() {
    //  /           task of nice 0
    //  ├ light 10     2 tasks
    //  └ heavy 1000   3 tasks
    for release in KERNELS {
        let mut script = Script::new(1, ms(30_000));
        let light = script.group(None, 102, None);
        let heavy = script.group(None, 10_240, None);
        script.hog(nice(0));
        for group in [light, light, heavy, heavy, heavy] {
            script.actor(nice(0), "0", Some(group), hog());
        }
        assert_near(&script.play(release), &[9.0, 0.45, 0.45, 30.0, 30.0, 30.0], 1.0, release);
    }
    for release in KERNELS {
        let mut script = Script::new(1, ms(20_000));
        let above = script.group(None, 1024, None);
        let inner = script.group(Some(above), 3072, None);
        script.actor(nice(0), "0", Some(above), hog());
        script.actor(nice(0), "0", Some(inner), hog());
        script.actor(nice(0), "0", Some(inner), hog());
        script.hog(nice(0));
        assert_near(&script.play(release), &[12.5, 18.75, 18.75, 50.0], 1.0, &format!("{release}: nested"));
    }
}

#[test]
fn a_group_on_two_cpus_has_its_weight_once() {
    // A group of 1024 with a hog on each of two CPUs, beside a task of the root group on CPU 0 alone: on CPU 0 the group weighs
    // half of it.
    for release in KERNELS {
        let mut script = Script::new(2, ms(20_000));
        let group = script.group(None, 1024, None);
        script.actor(nice(0), "0", Some(group), hog());
        script.actor(nice(0), "1", Some(group), hog());
        script.hog(nice(0));
        assert_near(&script.play(release), &[33.3, 100.0, 66.7], 2.0, release);
    }
}

#[test]
fn real_time_goes_before_fair_but_for_its_limit_or_the_fair_server() {
    for (release, fair_share) in [("6.1.176", 5.0), ("6.12.107", 5.0)] {
        let mut script = Script::new(1, ms(20_000));
        script.hog(fifo(10));
        script.hog(nice(0));
        script.hog(nice(0));
        let played = script.play(release);
        assert_near(&played, &[100.0 - fair_share, fair_share / 2.0], 0.5, release);
    }
    let mut script = Script::new(1, ms(20_000));
    script.program.knobs = vec![("sysctl.kernel.sched_rt_runtime_us".to_owned(), "-1".to_owned())];
    script.hog(fifo(10));
    script.hog(nice(0));
    assert_near(&script.play("6.1.176"), &[100.0, 0.0], 0.0, "no limit");
    assert_near(&script.play("6.12.107"), &[95.0, 5.0], 0.5, "it is no limit since 6.12");
}

#[test]
fn the_limit_stops_real_time_at_the_tick_after_950_ms_and_the_server_starts_after_950_ms() {
    for (release, ends) in [("6.1.176", ms(1000)), ("6.12.107", ms(1000))] {
        let mut script = Script::new(1, ms(1100));
        script.hog(fifo(10));
        let worker = script.actor(nice(0), "0", None, vec![Op::Run(ms(40)), Op::Block]);
        let played = script.play(release);
        let felt = played.felt.actors[worker.index()];
        assert!(felt.longest >= ms(950) && felt.longest <= ms(956), "{release}: {felt:?}");
        assert!(felt.waited + felt.ran <= ends, "{release}: {felt:?}");
    }
}

#[test]
fn fifo_keeps_the_cpu_and_rr_takes_turns() {
    let mut script = Script::new(1, ms(900));
    script.hog(fifo(10));
    script.hog(fifo(10));
    script.hog(fifo(20));
    let played = script.play("6.1.176");
    assert_near(&played, &[0.0, 0.0, 100.0], 0.0, "the highest priority alone");
    let mut script = Script::new(1, ms(900));
    script.hog(rr(10));
    script.hog(rr(10));
    script.hog(rr(10));
    let played = script.play("6.1.176");
    assert_near(&played, &[33.3, 33.3, 33.3], 0.5, "turns");
    let switches: Vec<u64> = played.felt.actors.iter().map(|felt| felt.switches).collect();
    assert_eq!(switches, [3, 3, 3], "of 100 ms");
}

#[test]
fn a_real_time_actor_that_wakes_up_runs_at_once() {
    for release in KERNELS {
        let mut script = Script::new(1, ms(900));
        script.hog(nice(-20));
        let high = script.actor(fifo(1), "0", None, ticker(ms(10), us(100), 80));
        let felt = script.play(release).felt.actors[high.index()];
        assert_eq!((felt.wakeups, felt.waited, felt.ran), (80, Nanos::ZERO, ms(8)), "{release}");
    }
}

#[test]
fn deadline_tasks_have_their_runtime_and_no_more() {
    for release in KERNELS {
        let mut script = Script::new(1, ms(10_000));
        script.hog(deadline(10, 100, 100));
        script.hog(deadline(20, 50, 50));
        script.hog(nice(0));
        let played = script.play(release);
        assert_near(&played, &[10.0, 40.0, 50.0], 0.6, release);
    }
}

#[test]
fn the_earliest_deadline_goes_first() {
    // Both wake up at 100 ms; the second one's deadline is earlier.
    let mut script = Script::new(1, ms(200));
    let ops = || vec![Op::SleepUntil(ms(100)), Op::Run(ms(9)), Op::Block];
    let late = script.actor(deadline(10, 100, 100), "0", None, ops());
    let early = script.actor(deadline(10, 50, 100), "0", None, ops());
    let felt = script.play("6.1.176").felt.actors;
    assert_eq!((felt[late.index()].waited, felt[early.index()].waited), (ms(9), Nanos::ZERO));
}

#[test]
fn a_quota_is_what_a_group_has_of_each_period() {
    for release in KERNELS {
        let mut script = Script::new(1, ms(10_000));
        let limited = script.group(None, 1024, Some((ms(20), ms(100))));
        script.actor(nice(0), "0", Some(limited), hog());
        assert_near(&script.play(release), &[20.0], 0.5, release);
        script.hog(nice(0));
        assert_near(&script.play(release), &[20.0, 80.0], 0.5, &format!("{release}: beside a task"));
    }
    let mut script = Script::new(2, ms(10_000));
    let limited = script.group(None, 1024, Some((ms(50), ms(100))));
    let inner = script.group(Some(limited), 1024, Some((ms(30), ms(100))));
    script.actor(nice(0), "0", Some(limited), hog());
    script.actor(nice(0), "1", Some(inner), hog());
    assert_near(&script.play("6.12.107"), &[25.0, 25.0], 3.0, "one limit for both CPUs");
}

#[test]
fn a_throttled_group_stays_throttled_when_its_tasks_wake_up() {
    let mut script = Script::new(1, ms(1000));
    let limited = script.group(None, 1024, Some((ms(10), ms(100))));
    script.actor(nice(0), "0", Some(limited), hog());
    let sleeper = script.actor(nice(0), "0", Some(limited), ticker(ms(50), us(10), 20));
    for release in KERNELS {
        let felt = script.play(release).felt.actors[sleeper.index()];
        assert!(felt.longest >= ms(40) && felt.longest <= ms(100), "{release}: {felt:?}");
    }
}

#[test]
fn a_short_sleeper_beside_a_hog_runs_soon_unless_the_kernel_protects_the_hogs_slice() {
    // It wakes up every 20 ms for 50 µs. CFS places it half a latency behind: it preempts. Under EEVDF it waits for a tick if the
    // hog's deadline (0.7 ms after a tick) is earlier than its own; but then it is owed 2 ms, for which it preempts at its next 40
    // wakeups. SCHED_BATCH preempts nobody.
    let mut table = String::new();
    for release in KERNELS {
        for (case, class) in [("nice 0", nice(0)), ("batch", fair(SchedPolicy::Batch)), ("nice 19", nice(19))] {
            let mut script = Script::new(1, ms(10_000));
            script.hog(nice(0));
            let sleeper = script.actor(class, "0", None, ticker(us(20_011), us(50), 499));
            let felt = script.play(release).felt.actors[sleeper.index()];
            let mean = Nanos(felt.waited.0 / felt.wakeups);
            table += &format!("{release} {case}: mean {mean}, longest {}\n", felt.longest);
        }
    }
    insta::assert_snapshot!(table, @"
    5.10.223 nice 0: mean 0 ns, longest 0 ns
    5.10.223 batch: mean 2.34 ms, longest 4.00 ms
    5.10.223 nice 19: mean 2.34 ms, longest 4.00 ms
    6.1.176 nice 0: mean 0 ns, longest 0 ns
    6.1.176 batch: mean 2.34 ms, longest 4.00 ms
    6.1.176 nice 19: mean 2.34 ms, longest 4.00 ms
    6.8.12 nice 0: mean 52.4 µs, longest 4.70 ms
    6.8.12 batch: mean 2.89 ms, longest 4.74 ms
    6.8.12 nice 19: mean 3.41 ms, longest 7.27 ms
    6.12.107 nice 0: mean 16.0 µs, longest 4.00 ms
    6.12.107 batch: mean 2.34 ms, longest 4.00 ms
    6.12.107 nice 19: mean 1.94 ms, longest 4.00 ms
    6.18.5 nice 0: mean 16.0 µs, longest 4.00 ms
    6.18.5 batch: mean 2.34 ms, longest 4.00 ms
    6.18.5 nice 19: mean 1.94 ms, longest 4.00 ms
    ");
}

#[test]
fn a_shorter_slice_shortens_the_wait_since_6_12() {
    let wait = |release: &str, slice: Option<Nanos>| {
        let mut script = Script::new(1, ms(10_000));
        script.program.knobs = vec![("debugfs.sched/base_slice_ns".to_owned(), "20000000".to_owned())];
        script.hog(nice(0));
        script.hog(nice(0));
        let sleeper = script.actor(nice(0), "0", None, ticker(us(40_011), us(2_000), 240));
        script.program.actors[sleeper.index()].placement.slice = slice;
        script.play(release).felt.actors[sleeper.index()].waited
    };
    for release in ["6.12.107", "6.18.5"] {
        let (short, usual) = (wait(release, Some(us(500))), wait(release, None));
        assert!(short.0 * 3 < usual.0 * 2, "{release}: {short}, {usual}");
    }
    assert_eq!(wait("6.8.12", Some(us(500))), wait("6.8.12", None), "not known yet");
}

#[test]
fn a_new_task_waits_its_turn_where_a_sleeper_preempts() {
    // Every 10 ms a task is created, or wakes up from its only sleep, beside a hog, and computes for 0.1 ms.
    let waits = |release: &str, is_born: bool| {
        let mut script = Script::new(1, ms(1_000));
        script.hog(nice(0));
        for turn in 1..90 {
            let ops = vec![Op::SleepUntil(ms(turn * 10) + us(turn * 40)), Op::Run(us(100))];
            let id = script.actor(nice(0), "0", None, ops);
            script.program.actors[id.index()].is_born = is_born;
        }
        script.play(release).felt.actors[1..].iter().map(|felt| felt.waited).sum::<Nanos>()
    };
    for release in ["5.10.223", "6.1.176"] {
        assert_eq!(waits(release, false), Nanos::ZERO, "{release}: half a latency of credit");
        assert!(waits(release, true) > ms(180), "{release}: a slice of 3 ms behind (START_DEBIT)");
    }
    // Half a slice: the new task's deadline is before that of the hog more often.
    assert!(waits("6.12.107", true) < waits("6.12.107", false));
}

#[test]
fn sched_idle_gives_way_at_once() {
    for release in KERNELS {
        let mut script = Script::new(1, ms(2_000));
        script.hog(fair(SchedPolicy::Idle));
        let normal = script.actor(nice(0), "0", None, ticker(ms(10), us(100), 190));
        let felt = script.play(release).felt.actors[normal.index()];
        // Before delayed dequeue, a sleeper that owes a microsecond waits until SCHED_IDLE had its part: once, a tick.
        let most = if release == "6.8.12" { ms(4) } else { Nanos::ZERO };
        assert!(felt.waited <= most, "{release}: {felt:?}");
    }
}

#[test]
fn tokens_are_kept_while_an_actor_is_awake() {
    //  waker    R 1 W W R 1 W
    //  sleeper  R 5 (by the clock, on another CPU) B B B B
    let mut script = Script::new(2, ms(100));
    let sleeper = ActorId(1);
    let wake = Op::Wake(sleeper);
    script.actor(nice(0), "0", None, vec![Op::Run(ms(1)), wake, wake, Op::Run(ms(1)), wake]);
    let block = Op::Block;
    script.actor(nice(0), "1", None, vec![Op::RunByClock(ms(5)), block, block, block, Op::Run(ms(1)), block]);
    let played = script.play("6.1.176");
    let felt = played.felt.actors[sleeper.index()];
    assert_eq!((felt.wakeups, felt.ran), (0, ms(6)), "three tokens for three blocks");
    assert_eq!(played.finished, [Some(ms(2)), None], "the fourth block lasts");
}

#[test]
fn a_sleep_until_the_past_is_none_and_a_relative_one_is_from_now() {
    let mut script = Script::new(1, ms(100));
    let ops = vec![Op::Run(ms(10)), Op::SleepUntil(ms(5)), Op::SleepFor(ms(20)), Op::Run(ms(1)), Op::SleepFor(ms(0))];
    script.actor(nice(0), "0", None, ops);
    let played = script.play("6.12.107");
    assert_eq!((played.finished[0], played.slept[0]), (Some(ms(31)), ms(20)));
}

#[test]
fn computing_by_the_clock_goes_on_without_the_cpu() {
    let mut script = Script::new(1, ms(100));
    script.actor(fifo(1), "0", None, vec![Op::SleepUntil(ms(5)), Op::Run(ms(20)), Op::Block]);
    script.actor(nice(0), "0", None, vec![Op::RunByClock(ms(10)), Op::RunByClock(ms(30))]);
    let played = script.play("6.1.176");
    assert_eq!(played.finished[1], Some(ms(55)), "10 ms were over at 25, when it got the CPU back");
    assert_eq!(played.felt.actors[1].ran, ms(35));
}

#[test]
fn a_device_answers_after_its_time() {
    let mut script = Script::new(1, ms(100));
    let ops =
        vec![Op::WakeAfter(ActorId(0), ms(3)), Op::Block, Op::Run(ms(1)), Op::WakeAfter(ActorId(0), ms(0)), Op::Block];
    script.actor(nice(0), "0", None, ops);
    let played = script.play("6.12.107");
    assert_eq!((played.finished[0], played.slept[0]), (Some(ms(4)), ms(3)));
}

#[test]
fn runs_are_shorter_where_no_switch_is_needed() {
    let mut script = Script::new(2, ms(100));
    script.actor(nice(0), "0", None, vec![Op::Run(ms(1)), Op::Wake(ActorId(1)), Op::Run(ms(1))]);
    script.actor(nice(0), "1", None, vec![Op::Run(ms(10)), Op::Block, Op::Run(ms(10))]);
    for actor in &mut script.program.actors {
        (actor.costs.wake, actor.costs.sleep) = (us(10), us(20));
    }
    let played = script.play("6.1.176");
    assert_eq!(played.finished, [Some(ms(2) - us(10)), Some(ms(20) - us(20))], "it was awake, and did not sleep");
    script.program.actors[0].ops = vec![Op::Run(ms(15)), Op::Wake(ActorId(1)), Op::Run(ms(1))];
    script.program.actors[1].ops[1] = Op::Take;
    let finished = script.play("6.1.176").finished;
    assert_eq!(finished, [Some(ms(16)), Some(ms(25) + us(20))], "it slept, though not in the recording");
}

#[test]
fn two_actors_pass_work_on() {
    // Each gives the other a token and sleeps; 100 rounds of 2 × 100 µs.
    for (cpus, places) in [(1, ["0", "0"]), (2, ["0", "1"])] {
        for release in KERNELS {
            let mut script = Script::new(cpus, ms(100));
            let round = |other| [Op::Run(us(100)), Op::Wake(ActorId(other)), Op::Block];
            let first = (0..100).flat_map(|_| round(1)).collect();
            let second = (0..100).flat_map(|_| [Op::Block, Op::Run(us(100)), Op::Wake(ActorId(0))]).collect();
            script.actor(nice(0), places[0], None, first);
            script.actor(nice(0), places[1], None, second);
            let played = script.play(release);
            let felt = &played.felt.actors;
            assert_eq!((felt[0].ran, felt[1].ran, felt[1].wakeups), (ms(10), ms(10), 100), "{release}");
            assert!(
                played.finished.iter().all(|at| at.is_some_and(|at| at <= ms(21))),
                "{release}: {:?}",
                played.finished
            );
        }
    }
}

#[test]
fn free_actors_use_idle_cpus_and_pinned_ones_stay() {
    for release in KERNELS {
        let mut script = Script::new(4, ms(1000));
        for _ in 0..3 {
            script.actor(nice(0), "0-3", None, hog());
        }
        let sleeper = script.actor(nice(0), "0-3", None, ticker(ms(10), ms(1), 90));
        let played = script.play(release);
        assert_near(&played, &[100.0, 100.0, 100.0, 9.0], 0.1, release);
        assert_eq!(played.felt.actors[sleeper.index()].waited, Nanos::ZERO);
        let mut script = Script::new(4, ms(1000));
        script.actor(nice(0), "2", None, hog());
        script.actor(nice(0), "2", None, hog());
        let played = script.play(release);
        assert_near(&played, &[50.0, 50.0], 1.0, release);
        assert_eq!(played.cpus.iter().filter(|cpu| cpu.idle == ms(1000)).count(), 3, "{release}");
    }
}

#[test]
fn an_idle_cpu_pulls_and_a_real_time_actor_looks_for_a_lower_one() {
    for release in KERNELS {
        // Two wait on CPU 0 behind a hog, while CPU 1 is busy until 100 ms.
        let mut script = Script::new(2, ms(300));
        script.actor(nice(0), "0", None, hog());
        script.actor(nice(0), "1", None, vec![Op::Run(ms(100)), Op::Block]);
        let free = script.actor(nice(0), "0-1", None, hog());
        let ran = script.play(release).felt.actors[free.index()].ran;
        assert!(ran >= ms(240), "{release}: {ran}");
        let mut script = Script::new(2, ms(300));
        script.actor(fifo(10), "0", None, hog());
        script.actor(nice(0), "1", None, hog());
        script.actor(fifo(5), "0-1", None, hog());
        assert_near(&script.play(release), &[100.0, 0.0, 100.0], 0.5, release);
    }
}

#[test]
fn costs_are_part_of_waits_and_of_work() {
    let mut script = Script::new(1, ms(100));
    let worker = script.actor(nice(0), "0", None, ticker(ms(10), ms(1), 9));
    let played = script.play_with("6.1.176", |model| {
        model.costs = Costs { switch: us(2), wake: us(3), preemption: us(4) };
    });
    let felt = played.felt.actors[worker.index()];
    assert_eq!((felt.waited, felt.longest, felt.ran), (us(45), us(5), ms(9)));
    assert_eq!(played.cpus[0].switching, us(45));
    let mut script = Script::new(1, ms(1000));
    script.actor(nice(0), "0", None, vec![Op::Run(ms(100))]);
    script.actor(fifo(1), "0", None, ticker(ms(10), ms(1), 50));
    let played = script.play_with("6.1.176", |model| model.costs.preemption = us(4));
    let felt = played.felt.actors[0];
    assert_eq!(felt.ran, ms(100) + Nanos(felt.preemptions * 4_000));
}

#[test]
fn the_end_of_a_program_cuts_what_lasts() {
    let mut script = Script::new(1, us(1_001));
    script.hog(fifo(1));
    script.hog(nice(0));
    script.actor(nice(0), "0", None, vec![Op::SleepFor(Nanos(u64::MAX))]);
    script.actor(nice(0), "0", None, Vec::new());
    script.actor(nice(0), "0", None, vec![Op::SleepUntil(us(1_000)), Op::Run(ms(1))]);
    let played = script.play_with("6.12.107", |model| model.costs.switch = us(5));
    assert_eq!(played.finished, [None, None, None, Some(Nanos::ZERO), None]);
    assert_eq!(played.felt.actors[4].waited, us(1), "it still waits");
    assert_eq!(Script::new(3, Nanos::ZERO).play("6.1.176").cpus.len(), 3);
}

#[test]
fn a_replica_is_the_same_each_time_and_another_with_another_seed() {
    let mut script = Script::new(1, ms(1000));
    script.hog(nice(0));
    script.actor(nice(0), "0", None, ticker(ms(7), us(300), 140));
    script.actor(nice(3), "0", None, ticker(ms(7), us(500), 140));
    let model = SchedulerModel::of_kernel("6.12.107", 1, &[]).expect("a known kernel");
    let wait = |replica| play(&script.program, &model, replica).expect("it can be played");
    assert_eq!(wait(Replica::seeded(1)), wait(Replica::seeded(1)));
    let waits: std::collections::BTreeSet<u64> =
        (0..8).map(|seed| wait(Replica::seeded(seed)).felt.actors[1].waited.0).collect();
    assert!(waits.len() >= 6, "{waits:?}");
}

#[test]
fn what_cannot_be_played_is_refused_in_words() {
    let model = SchedulerModel::of_kernel("6.12.107", 1, &[]).expect("a known kernel");
    let mut broken: Vec<Program> = vec![Program::default()];
    let mut add = |change: fn(&mut Script)| {
        let mut script = Script::new(1, ms(10));
        script.hog(nice(0));
        change(&mut script);
        broken.push(script.program);
    };
    add(|script| script.program.length = Nanos(u64::MAX));
    add(|script| script.program.actors[0].ops = vec![Op::Wake(ActorId(7))]);
    add(|script| script.program.actors[0].placement.cgroup = Some(3));
    add(|script| {
        script.group(Some(0), 1024, None);
    });
    add(|script| script.program.actors[0].placement.class = fair(SchedPolicy::Ext));
    add(|script| script.program.actors[0].placement.class = fifo(0));
    add(|script| script.program.actors[0].placement.class = deadline(5, 1, 1));
    let refused = broken.iter().map(|program| match play(program, &model, Replica::AS_RECORDED) {
        Ok(_) => panic!("played: {program:?}"),
        Err(error) => format!("{error}\n"),
    });
    insta::assert_snapshot!(refused.collect::<String>(), @"
    the program has no CPU to run on
    the program lasts 18446744074 s, and at most a day can be played
    actor 0 names an actor 7 that the program does not have
    actor 0 names a cgroup 3 that the program does not have
    cgroup 0 (/0) names a cgroup 0 above it that the program does not have
    actor 0 has the policy ext in a class or with parameters for which no kernel takes it
    actor 0 has the policy fifo in a class or with parameters for which no kernel takes it
    actor 0 has the policy deadline in a class or with parameters for which no kernel takes it
    ");
}

#[test]
fn a_model_that_does_not_come_to_an_end_says_so() {
    let mut script = Script::new(1, ms(60_000));
    script.hog(nice(0));
    script.hog(nice(0));
    let mut model = SchedulerModel::of_kernel("6.12.107", 1, &[]).expect("a known kernel");
    model.hrtick = true;
    if let FairRules::Eevdf(tunables) = &mut model.fair {
        tunables.base_slice = 1;
    }
    let error = play(&script.program, &model, Replica::AS_RECORDED).map_err(|error| error.to_string());
    insta::assert_snapshot!(error.err().unwrap_or_default(), @"stopped after 1960128 events, 1.96 ms into the program: far more than its 2 operations should take; this is a fault of the model, or its slices are far too short");
}

#[test]
fn an_operation_takes_few_events() {
    // Actors that wake each other and sleep: the most switches for an operation. An event takes 0.3 to 0.5 µs (release build).
    for release in KERNELS {
        let mut script = Script::new(2, ms(60_000));
        let pods = script.group(None, 2048, None);
        for index in 0..20_u32 {
            let group = (index % 2 == 0).then_some(pods);
            let place = if index % 4 < 2 { "0" } else { "1" };
            let next = Op::Wake(ActorId((index + 2) % 20));
            let round = [Op::Run(us(20 + u64::from(index))), next, Op::Run(us(5)), Op::Block];
            script.actor(nice(index as i32 % 5), place, group, round.repeat(1_000));
        }
        let played = script.play(release);
        let operations = script.program.operations() as u64;
        assert!(played.finished.iter().flatten().count() >= 18, "{release}: {:?}", played.finished);
        assert!(played.events <= operations * 5 / 2, "{release}: {} events, {operations} operations", played.events);
    }
}
