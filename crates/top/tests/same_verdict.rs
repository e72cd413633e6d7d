//! `explain`, `watch replay` and `top` on the whole product of who waits, because of what, and for how long: they say the same, but for what one
//! table lists, with the reason.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::scene_row::{row, source};

use unstarve_diagnose::report::Severity;
use unstarve_diagnose::{Options as ExplainOptions, explain};
use unstarve_model::Nanos;
use unstarve_testing::verdict_scene::{
    DEADLINE, EQUAL, HEAVY, HIGHER, HOG, HOUSEKEEPING, IDLE, LAST, LAST_TOO, LENGTHS_MS, PEER, PROGRAMS, REAL_TIME,
    SERVING, Scenario, Task, behind_a_crowd, beside_another_idle_cpu, in_pieces, interrupted_by_packets, limited,
    on_a_stopped_cpu, pushed_off,
};
use unstarve_watch::config::Thresholds;
use unstarve_watch::episode::{Begun, Detector};
use unstarve_watch::run::INTERVAL;
use unstarve_watch::{Engine as _, EngineError, Options, Recording};

/// A recording, and whom it is about.
struct Case {
    victims: &'static str,
    cause: &'static str,
    shape: String,
    text: String,
    name: &'static str,
    tid: u32,
}

fn explained(case: &Case) -> Option<Severity> {
    let report = explain(source(&case.text), &ExplainOptions::default(), |_| {}).expect("events");
    let of_victim = report.findings.iter().filter(|finding| is_about(&finding.victim.tids, case));
    of_victim.map(|finding| finding.severity).max()
}

fn is_about(tids: &[u32], case: &Case) -> bool {
    tids.contains(&case.tid)
}

fn watched(case: &Case) -> Option<Severity> {
    let step = Nanos(INTERVAL.as_nanos() as u64);
    let mut recording = Recording::new(source(&case.text), step, Options::default()).expect("a beginning");
    let mut detector = Detector::new(Thresholds::default());
    let mut begun: Vec<Begun> = Vec::new();
    loop {
        match recording.read() {
            Ok(reading) => begun.extend(detector.see(Arc::new(reading)).begun),
            Err(EngineError::Ended) => break,
            Err(error) => panic!("{}: {error}", case.shape),
        }
    }
    begun.iter().map(Begun::severity).max()
}

/// As bad as the row of the task is at the end, all of the recording being in the window; whether a wait that lasts is shown.
fn shown(case: &Case) -> Option<Severity> {
    row(&case.text, case.tid).and_then(|row| row.severity)
}

const WAITERS: [(&str, &[Task]); 5] = [
    ("serving", &SERVING),
    ("housekeeping", &HOUSEKEEPING),
    ("real-time", &REAL_TIME),
    ("program", &PROGRAMS),
    ("last", &LAST),
];
const OCCUPANTS: [(&str, Task); 8] = [
    ("real-time", HOG),
    ("higher", HIGHER),
    ("deadline", DEADLINE),
    ("peer", PEER),
    ("equal", EQUAL),
    ("heavy", HEAVY),
    ("last", LAST_TOO),
    ("idle", IDLE),
];
/// Many short stays: so long, in each of these times.
const PIECES_US: [(u64, u64); 8] = [
    (300, 1_000),
    (950, 1_000),
    (2_200, 4_000),
    (3_500, 4_000),
    (3_900, 4_200),
    (7_000, 100_000),
    (27_000, 100_000),
    (60_000, 100_000),
];

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (victims, tasks) in WAITERS {
        for victim in tasks {
            cases.extend(alone(victims, *victim));
            cases.extend(many(victims, *victim));
        }
    }
    cases
}

/// One wait.
fn alone(victims: &'static str, victim: Task) -> Vec<Case> {
    let mut cases = Vec::new();
    for (cause, occupant) in OCCUPANTS {
        for (ms, is_open, has_payer) in
            LENGTHS_MS.into_iter().flat_map(|ms| [(ms, false, false), (ms, true, false), (ms, false, true)])
        {
            let text = Scenario { victim, occupant, ms, is_open, has_payer }.text();
            let end = if is_open { "open" } else { "ended" };
            let shape = format!("{ms} ms {end}{}", if has_payer { " paid" } else { "" });
            cases.push(Case { victims, cause, shape, text, name: victim.comm, tid: victim.tid });
        }
    }
    for ms in LENGTHS_MS.into_iter().filter(|ms| *ms <= 3_000) {
        let case = |cause, text| Case {
            victims,
            cause,
            shape: format!("{ms} ms ended"),
            text,
            name: victim.comm,
            tid: victim.tid,
        };
        cases.push(case("stopped CPU", on_a_stopped_cpu(victim, EQUAL, ms)));
        if victims != "real-time" {
            cases.push(case("pushed off", pushed_off(victim, EQUAL, ms)));
            cases.push(case("crowd", behind_a_crowd(victim, ms)));
        }
        if victims == "program" {
            cases.push(case("limit", limited(victim, ms)));
            cases.push(case("packets", interrupted_by_packets(victim, ms, true)));
            cases.push(case("own packets", interrupted_by_packets(victim, ms, false)));
            cases.push(case("another idle", beside_another_idle_cpu(victim, EQUAL, ms)));
        }
    }
    cases
}

/// Many.
fn many(victims: &'static str, victim: Task) -> Vec<Case> {
    let occupants = [("real-time", HOG), ("higher", HIGHER)].into_iter();
    let preempts = occupants.filter(|(_, by)| by.prio < victim.prio);
    let pieces = preempts.flat_map(|by| PIECES_US.map(|piece| (by, piece)));
    let case = |((cause, by), (piece, every)): ((&'static str, Task), (u64, u64))| {
        let (shape, text) = (format!("{piece} of {every} us"), in_pieces(victim, by, piece, every));
        Case { victims, cause, shape, text, name: victim.comm, tid: victim.tid }
    };
    pieces.map(case).collect()
}

/// How what counters say may differ from what `explain` says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Differs {
    /// Nothing begins, or what begins is not as bad.
    Milder,
    /// It is worse.
    Worse,
}
use Differs::{Milder, Worse};

/// What counters do not know, and why.
struct Exception {
    /// Groups of waiters, or names.
    who: &'static [&'static str],
    because: &'static [&'static str],
    /// Parts of the shape, of which each has to be there.
    shapes: &'static [&'static [&'static str]],
    differs: Differs,
    why: &'static str,
}

const PREFERRED: &[&str] = &["real-time", "higher", "deadline", "peer", "heavy"];
const ANY: &[&[&str]] = &[&[]];

/// Of `watch`; docs/watch-design.md has the same table in words.
const OF_WATCH: [Exception; 16] = [
    Exception {
        who: &["serving", "housekeeping", "real-time", "last"],
        because: PREFERRED,
        shapes: &[&["paid"]],
        differs: Milder,
        why: "what a wait cost others",
    },
    Exception {
        who: &["kworker/3:1", "kworker/3:2", "kcompactd0"],
        because: &["real-time", "higher"],
        shapes: &[&["of"]],
        differs: Milder,
        why: "whether a kernel thread of unknown work had much to do itself",
    },
    Exception {
        who: &["kworker/3:1"],
        because: PREFERRED,
        shapes: &[&["60 ms ended"], &["150 ms ended"]],
        differs: Milder,
        why: "what a worker works at, before it has",
    },
    Exception {
        who: &["irq/27-eth0"],
        because: &["real-time", "higher", "deadline", "peer", "equal", "heavy", "last", "stopped CPU"],
        shapes: ANY,
        differs: Milder,
        why: "priorities in the role of all other kernel threads",
    },
    Exception {
        who: &["serving", "housekeeping"],
        because: &["equal", "last"],
        shapes: &[&["300 ms ended"]],
        differs: Milder,
        why: "whether an equal that has left took one turn or several did",
    },
    Exception {
        who: &["serving", "housekeeping", "real-time", "program", "last"],
        because: &["idle"],
        shapes: &[&["60 ms"], &["ended"]],
        differs: Milder,
        why: "whether a wait beside an idle CPU is one: two readings have to find it",
    },
    Exception {
        who: &["program"],
        because: &["equal", "last", "pushed off", "crowd"],
        shapes: ANY,
        differs: Milder,
        why: "weights below a top-level group, and nice values",
    },
    Exception {
        who: &["program"],
        because: &["heavy"],
        shapes: &[&["60 ms"], &["150 ms"], &["300 ms"]],
        differs: Milder,
        why: "whether the weight of programs was meant",
    },
    Exception {
        who: &["program"],
        because: &["another idle"],
        shapes: ANY,
        differs: Milder,
        why: "which other CPUs a program may use",
    },
    Exception {
        who: &["program"],
        because: &["packets"],
        shapes: ANY,
        differs: Milder,
        why: "what interrupts take from who has the CPU: that is no wait",
    },
    Exception {
        who: &["program"],
        because: &["limit"],
        shapes: &[&["60 ms"], &["150 ms"], &["300 ms"]],
        differs: Milder,
        why: "stops by a limit that a recording does not have; a group has a threshold of its own",
    },
    Exception {
        who: &["program"],
        because: &["limit"],
        shapes: &[&["3000 ms"]],
        differs: Worse,
        why: "that the limit is inferred",
    },
    Exception {
        who: &["program", "irq/27-eth0"],
        because: &["stopped CPU"],
        shapes: ANY,
        differs: Milder,
        why: "that the CPU itself did not run",
    },
    Exception {
        who: &["real-time"],
        because: &["stopped CPU"],
        shapes: ANY,
        differs: Worse,
        why: "that the CPU itself did not run: it looks as if who has it stayed",
    },
    Exception {
        who: &["kcompactd0"],
        because: &["crowd"],
        shapes: ANY,
        differs: Milder,
        why: "which of all other kernel threads asked to be last",
    },
    Exception {
        who: &["motor-ctl"],
        because: &["peer"],
        shapes: &[&["ended"]],
        differs: Milder,
        why: "whether an equal real-time task that has left took one turn or several did",
    },
];

impl Exception {
    fn is_of(&self, case: &Case, differs: Differs) -> bool {
        let has = |parts: &&[&str]| parts.iter().all(|part| case.shape.contains(part));
        let is_who = self.who.contains(&case.victims) || self.who.contains(&case.name);
        self.differs == differs && is_who && self.because.contains(&case.cause) && self.shapes.iter().any(has)
    }
}

fn word(severity: Option<Severity>) -> &'static str {
    severity.map_or("-", |severity| severity.word())
}

/// Whether the recording is of a wait that `top` does not show yet: it lasts, for less than 10 ms.
fn is_too_short_to_show(case: &Case) -> bool {
    case.shape == "3 ms open"
}

#[test]
fn all_three_say_the_same() {
    let (mut wrong, mut used) = (BTreeSet::new(), BTreeSet::new());
    for case in cases() {
        let (said, begun, row) = (explained(&case), watched(&case), shown(&case));
        let loud = said.filter(|severity| *severity > Severity::Info);
        let differs = if begun < loud { Milder } else { Worse };
        let why = OF_WATCH.iter().find(|exception| exception.is_of(&case, differs)).map(|exception| exception.why);
        let what = |of: &str, is: Option<Severity>| {
            let Case { name, cause, shape, .. } = &case;
            format!("{name} by {cause}, {shape}: explain says {}, {of} {}", word(said), word(is))
        };
        match why {
            _ if begun == loud => {}
            Some(why) => drop(used.insert(why)),
            None => drop(wrong.insert(what("watch", begun))),
        }
        if row != said && !is_too_short_to_show(&case) {
            wrong.insert(what("top", row));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.into_iter().collect::<Vec<_>>().join("\n"));
    let all: BTreeSet<&str> = OF_WATCH.iter().map(|exception| exception.why).collect();
    assert_eq!(all.difference(&used).collect::<Vec<_>>(), Vec::<&&str>::new(), "these are none");
}
