//! A gate does not fail on noise, and fails on planted regressions: 20 seeds of each.
//!
//! Each seed makes runs of a made-up service on two CPUs. Runs differ: by how much there is to do, by a neighbour that comes and
//! goes, and by when everything happens.

use std::collections::VecDeque;

use unstarve_diagnose::Options;
use unstarve_diagnose::compare::gate::{Gate, Judgement, Machines, Named, ObstacleKind, Terms, judge};
use unstarve_diagnose::compare::{Change, Metric, Side, compare, side};

use crate::findings::scene::Scene;

const SEEDS: u64 = 20;
/// Noise that may be called worse, and slower programs that may pass, of as many seeds.
const MAX_MISTAKES: usize = 1;
/// 100 µs each: three seconds.
const COLUMNS: usize = 30_000;
const COLUMN_US: u64 = 100;
/// A turn among equals: 3 ms.
const TURN: usize = 30;

const FOREVER_FROM: usize = 10_000;

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0 to 1.
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// About normal: mean 0, deviation 1.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.unit()).sum::<f64>() - 6.0
    }

    /// A time around `mean` columns, at least 2.
    fn columns(&mut self, mean: f64) -> usize {
        (-self.unit().max(1e-9).ln() * mean).round().max(2.0) as usize
    }
}

/// What was changed in the new runs.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Planted {
    Nothing,
    /// A real-time task has CPU 0 for 60 of each 100 ms.
    Hog,
    /// A real-time task has CPU 0 for 80 ms once a second: hardly more waits in all.
    Stall,
    /// A real-time task has CPU 0 from the first second on, and leaves it for a moment ten times a second: what waits there waits until the recording ends.
    Forever,
    /// Each request computes two and a half times as long.
    Slower,
}

struct Thread {
    letter: char,
    name: &'static str,
    prio: i32,
    cpu: usize,
    /// Mean columns of a sleep and of a burst.
    sleep: f64,
    burst: f64,
    left: usize,
    wakes_at: Option<usize>,
}

fn threads(random: &mut Random, planted: Planted) -> Vec<Thread> {
    let work = (0.15 * random.normal()).exp();
    let slower = if planted == Planted::Slower { 2.5 } else { 1.0 };
    let thread = |letter, name, prio, cpu, sleep: f64, burst: f64| Thread {
        letter,
        name,
        prio,
        cpu,
        sleep,
        burst,
        left: 0,
        wakes_at: None,
    };
    let mut threads = vec![
        thread('a', "worker-1", 120, 0, 80.0 / work, 12.0 * slower),
        thread('b', "worker-2", 120, 0, 80.0 / work, 12.0 * slower),
        thread('c', "worker-3", 120, 1, 80.0 / work, 12.0 * slower),
        thread('d', "worker-4", 120, 1, 80.0 / work, 12.0 * slower),
        thread('k', "kworker/0:1", 120, 0, 50.0 / work, 2.0),
        thread('s', "ksoftirqd/0", 120, 0, 400.0, 2.0),
        // A neighbour, in some runs for more and in others for less.
        thread('n', "cc1", 120, 1, 3_000.0 * (0.5 * random.normal()).exp(), 150.0),
    ];
    threads.iter_mut().for_each(|thread| thread.wakes_at = Some(random.columns(thread.sleep)));
    threads
}

/// Columns in which the planted task runs.
fn has_hog(planted: Planted, column: usize) -> bool {
    match planted {
        Planted::Hog => column % 1_000 < 600,
        Planted::Stall => column % 10_000 >= 1_000 && column % 10_000 < 1_800,
        Planted::Forever => column >= FOREVER_FROM && column % 1_000 != 999,
        Planted::Nothing | Planted::Slower => false,
    }
}

const HOG: char = 'h';

fn run(seed: u64, planted: Planted) -> Side {
    let mut random = Random(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ 0x5eed);
    let mut threads = threads(&mut random, planted);
    let mut rows = [String::with_capacity(COLUMNS), String::with_capacity(COLUMNS)];
    let mut marks: Vec<String> = threads.iter().map(|_| String::with_capacity(COLUMNS)).collect();
    let mut hog_marks = String::with_capacity(COLUMNS);
    let mut queues: [VecDeque<usize>; 2] = Default::default();
    let mut turns = [0_usize; 2];
    for column in 0..COLUMNS {
        for (index, thread) in threads.iter_mut().enumerate() {
            let wakes = thread.wakes_at == Some(column);
            marks[index].push(if wakes { '!' } else { '.' });
            if wakes {
                thread.wakes_at = None;
                thread.left = random.columns(thread.burst);
                queues[thread.cpu].push_back(index);
            }
        }
        let (hog, before) = (has_hog(planted, column), column > 0 && has_hog(planted, column - 1));
        hog_marks.push(if hog && !before && column > 0 { '!' } else { '.' });
        for cpu in 0..2 {
            if cpu == 0 && hog {
                rows[0].push(HOG);
                continue;
            }
            let Some(&index) = queues[cpu].front() else {
                rows[cpu].push('.');
                continue;
            };
            let thread = &mut threads[index];
            rows[cpu].push(thread.letter);
            thread.left -= 1;
            turns[cpu] += 1;
            if thread.left == 0 {
                thread.wakes_at = Some(column + 1 + random.columns(thread.sleep));
                queues[cpu].pop_front();
                turns[cpu] = 0;
            } else if turns[cpu] >= TURN {
                queues[cpu].rotate_left(1);
                turns[cpu] = 0;
            }
        }
    }
    let mut scene = Scene::new(COLUMN_US).kernel("6.1.0-test").task(HOG, "rt-hog", 79);
    for thread in &threads {
        scene = scene.task(thread.letter, thread.name, thread.prio);
    }
    scene = scene.cpu(&rows[0]).cpu(&rows[1]).wakes(HOG, &hog_marks);
    for (thread, marks) in threads.iter().zip(&marks) {
        scene = scene.wakes(thread.letter, marks);
    }
    side(Box::new(scene.source()), &Options::default(), |_| {}).expect("it has events")
}

const PLANTED_CHANGES: [Planted; 5] =
    [Planted::Nothing, Planted::Hog, Planted::Stall, Planted::Forever, Planted::Slower];
/// How many recordings the base has.
const BASES: [usize; 3] = [1, 3, 5];

/// The verdicts of one seed: about what was planted, by so many runs of the base.
fn verdicts(seed: u64) -> Vec<((usize, Planted), Gate)> {
    let base: Vec<Side> = (0..5).map(|index| run(seed * 1_000 + index, Planted::Nothing)).collect();
    let base: Vec<Named<'_>> = base.iter().map(|side| Named { name: "base", side }).collect();
    let mut gates = Vec::new();
    for planted in PLANTED_CHANGES {
        let new = run(seed * 1_000 + 500, planted);
        let new = [Named { name: "new", side: &new }];
        gates.extend(BASES.map(|bases| ((bases, planted), judge(&base[..bases], &new, &Terms::default()))));
    }
    gates
}

#[test]
fn noise_is_not_worse_and_what_is_planted_is() {
    let gates: Vec<((usize, Planted), Gate)> = (1..=SEEDS).flat_map(verdicts).collect();
    for (bases, planted) in BASES.into_iter().flat_map(|bases| PLANTED_CHANGES.map(|planted| (bases, planted))) {
        let of = || gates.iter().filter(|(about, _)| *about == (bases, planted)).map(|(_, gate)| gate);
        let [better, same, worse, undecided] =
            Judgement::ALL.map(|one| of().filter(|gate| gate.verdict == one).count());
        let found = format!("{bases} of the base, {planted:?}: {better} {same} {worse} {undecided}");
        assert_eq!(better + same + worse + undecided, SEEDS as usize);
        match planted {
            Planted::Nothing => assert!(worse <= MAX_MISTAKES, "{found}"),
            Planted::Hog | Planted::Stall | Planted::Forever => assert_eq!(worse, SEEDS as usize, "{found}"),
            Planted::Slower => assert!(better + same <= MAX_MISTAKES, "{found}"),
        }
    }
}

/// The rates of a recording in which tasks wait when it ends are those of its report.
#[test]
fn waits_that_last_until_the_end_are_in_the_rates() {
    let (base, new) = (run(1, Planted::Nothing), run(2, Planted::Forever));
    let comparison = compare(&base, &new);
    let all = |change: &&Change| change.role.kind == "all" && change.metric == Metric::Waited;
    let all = comparison.changes.iter().find(all).expect("everybody waits");
    let trace = &new.report.trace;
    let expected = trace.waits_total_ns as f64 / (trace.end_ns - trace.start_ns) as f64 * 1e9;
    assert!((all.b - expected).abs() < 0.05 * expected, "{all:?}, {expected} ns/s by the report");
    assert!(expected > 0.5e9, "{expected} ns/s");
}

#[test]
fn another_machine_is_undecided_unless_it_is_meant() {
    let base = run(1, Planted::Nothing);
    let mut new = run(2, Planted::Hog);
    new.report.trace.kernel = Some("6.12.0-test".to_owned());
    let judged = |machines| {
        let terms = Terms { machines, ..Terms::default() };
        judge(&[Named { name: "base", side: &base }], &[Named { name: "new", side: &new }], &terms)
    };
    let strict = judged(Machines::MustBeAlike);
    assert_eq!((strict.verdict, strict.obstacles[0].kind), (Judgement::Undecided, ObstacleKind::OtherMachine));
    assert!(strict.sentence.contains("6.12.0-test") && strict.advice.is_some(), "{strict:?}");
    assert_eq!(judged(Machines::MayDiffer).verdict, Judgement::Worse);
}

#[test]
fn what_cannot_show_sameness_says_what_to_record() {
    /// What is done to a recording.
    type Spoil = fn(&mut Side);
    let (base, new) = (run(1, Planted::Nothing), run(2, Planted::Nothing));
    let judged = |change: Spoil| {
        let mut new = Side { report: new.report.clone(), profile: run(2, Planted::Nothing).profile };
        change(&mut new);
        judge(&[Named { name: "base", side: &base }], &[Named { name: "new", side: &new }], &Terms::default())
    };
    let cases: [(Spoil, ObstacleKind); 3] = [
        (|side| side.report.trace.lost = 1, ObstacleKind::LostEvents),
        (|side| side.report.trace.end_ns = side.report.trace.start_ns + 1_900_000_000, ObstacleKind::TooShort),
        (|side| side.report.trace.too_little = Some("it has no sched_switch events".into()), ObstacleKind::TooLittle),
    ];
    for (change, kind) in cases {
        let gate = judged(change);
        assert_eq!((gate.verdict, gate.obstacles[0].kind), (Judgement::Undecided, kind));
        assert!(gate.advice.is_some_and(|advice| advice.starts_with("To decide: ")));
    }
}

#[test]
fn a_run_without_its_load_is_not_better() {
    let base = run(1, Planted::Slower);
    let idle = Scene::new(COLUMN_US)
        .kernel("6.1.0-test")
        .task('a', "worker-1", 120)
        .cpu(&"a...".repeat(COLUMNS / 4))
        .cpu(&".".repeat(COLUMNS))
        .wakes('a', &"!...".repeat(COLUMNS / 4));
    let idle = side(Box::new(idle.source()), &Options::default(), |_| {}).expect("it has events");
    let gate = judge(&[Named { name: "base", side: &base }], &[Named { name: "new", side: &idle }], &Terms::default());
    assert!(gate.obstacles.iter().any(|obstacle| obstacle.kind == ObstacleKind::LessWork), "{gate:?}");
    assert_eq!(gate.verdict, Judgement::Undecided);
}
