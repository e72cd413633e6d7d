//! Tests of the trace writer without its thread.

use std::sync::mpsc::channel;

use rustix::io::Errno;

use super::*;
use crate::agent::config::{Config, Syslog};
use crate::agent::outputs::Deliveries;
use crate::agent::store::{Expected, Limits, read_log};
use crate::engine::reading::{Role, RoleKind};
use crate::episode::{Detector, id_of};
use crate::testing::{Scene, at};

/// A writer that is not running.
struct Rig {
    writer: TraceWriter,
    events: Receiver<Event>,
    tasks: Receiver<Task>,
    place: tempfile::TempDir,
}

impl Rig {
    fn new() -> Rig {
        let (place, store) = crate::testing::store(Limits { bytes: u64::MAX, episodes: 99 });
        let store = Arc::new(store);
        let mut config = Config::default();
        config.sinks.log = Syslog::Off;
        let board = Arc::new(Board::default());
        let outputs = Outputs::open(&config, &board, &Deliveries::default()).expect("outputs");
        let (sender, events) = channel();
        let (explainer, tasks) = channel();
        let outbox = store.outbox();
        let (expected, retry) = (ExpectedByRank::both(FIRST_EXPECTED), Retry::default());
        let writer = TraceWriter { store, outbox, outputs, board, events: sender, tasks: explainer, expected, retry };
        Rig { writer, events, tasks, place }
    }

    fn problem(&self) -> Option<String> {
        self.writer.board.read().problems.get("store").cloned()
    }
}

fn begun() -> Begun {
    let scene = |ms: u64| Scene::new().blame("ksoftirqd", RoleKind::RealTime, ms * 1_000_000);
    let mut detector = Detector::new(Config::default().thresholds);
    detector.see(Arc::new(scene(0).reading(at(0))));
    let step = detector.see(Arc::new(scene(85).wait("ksoftirqd", 85_000_000).reading(at(250))));
    step.begun.into_iter().next().expect("an episode")
}

fn begun_of(rank: Rank) -> Begun {
    match rank {
        Rank::Dump | Rank::Kernel => begun(),
        Rank::Programs => Begun { victim: Role::fixed(RoleKind::Other), ..begun() },
    }
}

#[test]
fn what_could_not_be_kept_begins_again_once_there_is_room() {
    let mut rig = Rig::new();
    let store = rig.place.path().join("store");
    // A file is in the way: no directory can be created there.
    std::fs::rename(&store, rig.place.path().join("away")).expect("moved");
    std::fs::write(&store, "").expect("written");
    let episode = Episode::begun(id_of(at(500).wall), at(500).wall);
    rig.writer.store.logbook().add(&episode).expect_err("it cannot be written");
    rig.writer.board.store_problem("no room");
    rig.writer.put_off(vec![begun()]);
    rig.writer.try_again();
    assert!(rig.events.try_recv().is_err(), "not before its time");
    let now = |rig: &mut Rig| rig.writer.retry.next = Instant::now();
    now(&mut rig);
    rig.writer.try_again();
    assert!(rig.events.try_recv().is_err() && rig.problem().is_some(), "it still cannot");

    std::fs::remove_file(&store).expect("removed");
    now(&mut rig);
    rig.writer.try_again();
    let again = rig.events.try_recv();
    assert!(matches!(&again, Ok(Event::Room(again)) if *again == [begun()]), "what could not be kept may begin");
    assert_eq!(rig.problem(), None, "and nothing is wrong any more");
    assert_eq!(read_log(&store).expect("a log").episodes, [episode], "the line that waited is there");
    now(&mut rig);
    rig.writer.try_again();
    assert!(rig.events.try_recv().is_err(), "once");
}

#[test]
fn a_store_that_fails_again_and_again_is_tried_less_often() {
    let mut rig = Rig::new();
    let mut pauses = Vec::new();
    for _ in 0..6 {
        let before = Instant::now();
        rig.writer.put_off(vec![begun(); 20]);
        pauses.push((rig.writer.retry.next - before).as_secs());
    }
    assert_eq!(pauses, [5, 10, 20, 40, 60, 60]);
    assert_eq!(rig.writer.retry.begun.len(), MOST_BEGUN);
}

/// An explanation can take minutes; the next trace does not wait for it.
#[test]
fn an_episode_is_handed_on_while_nobody_explains() {
    let mut rig = Rig::new();
    for number in 0..3 {
        let episode = Box::new(Episode::begun(id_of(at(number).wall), at(number).wall));
        let (along, seen) = (Vec::new(), Instant::now());
        rig.writer.keep(Keep { episode, along, begun: Vec::new(), frozen: None, seen, reply: None });
    }
    let ids: Vec<String> = rig
        .tasks
        .try_iter()
        .map(|task| match task {
            Task::Publish(written) => written.episode.id,
            _ => panic!("no episode"),
        })
        .collect();
    assert_eq!(ids, [0, 1, 2].map(|number| id_of(at(number).wall)), "in their order");
}

#[test]
fn only_a_full_disk_makes_the_next_trace_need_more_room() {
    let mut rig = Rig::new();
    let failed = |errno: Errno| RecordError::Output { path: "trace.dat".into(), source: errno.into() };
    let kernels = |rig: &Rig| rig.writer.expected.of(Rank::Kernel);
    for errno in [Errno::IO, Errno::BUSY, Errno::MFILE] {
        rig.writer.note_failure(Rank::Kernel, &failed(errno));
        assert_eq!(kernels(&rig), FIRST_EXPECTED.into(), "{errno} says nothing about room");
    }
    for (errno, times) in [(Errno::NOSPC, 2), (Errno::DQUOT, 4)] {
        rig.writer.note_failure(Rank::Kernel, &failed(errno));
        let wanted = Expected { trace: FIRST_EXPECTED, on_disk: FIRST_EXPECTED * times };
        assert_eq!(kernels(&rig), wanted, "{errno}");
    }
    (0..20).for_each(|_| rig.writer.note_failure(Rank::Kernel, &failed(Errno::NOSPC)));
    assert_eq!(kernels(&rig), Expected { trace: FIRST_EXPECTED, on_disk: MOST_EXPECTED });
    assert_eq!(rig.writer.expected.of(Rank::Programs), FIRST_EXPECTED.into(), "of those nothing was seen");
}

/// Any user can cause large traces: no episode of kernel threads is removed for that.
#[test]
fn how_large_a_trace_of_programs_was_says_nothing_of_the_next_one_of_kernel_threads() {
    let mut rig = Rig::new();
    let store = Arc::clone(&rig.writer.store);
    store.limit(Limits { bytes: 3 * FIRST_EXPECTED, episodes: 99 });
    let kernels = keep_of(Rank::Kernel, 0, &rig);
    store.is_explained(&kernels);
    rig.writer.note_size(Rank::Programs, 9 * FIRST_EXPECTED);
    let begin = |rank: Rank, rig: &Rig| {
        let mut episode = Episode::begun(id_of(at(5000).wall), at(5000).wall);
        episode.note_counters(&begun_of(rank));
        store.begin(&episode, rig.writer.expected.of(Rank::of(&episode)))
    };
    assert!(matches!(begin(Rank::Programs, &rig), Err(StoreError::Reserved(_))), "it would push one out");
    let unfinished = begin(Rank::Kernel, &rig).expect("begun");
    assert_eq!(unfinished.removed(), [""; 0], "there is room for both");
    // The same if only programs wait for room on the disk.
    rig.writer.retry.begun = vec![begun_of(Rank::Programs)];
    assert_eq!(rig.writer.retry.rank(), Rank::Programs);
    rig.writer.retry.begun.push(begun());
    assert_eq!(rig.writer.retry.rank(), Rank::Kernel, "what counts more is not kept waiting for it");
}

/// Writes an episode of this rank, and passes it on.
fn keep_of(rank: Rank, second: u64, rig: &Rig) -> String {
    let (store, at) = (&rig.writer.store, at(second * 1000).wall);
    let mut episode = Episode::begun(id_of(at), at);
    episode.note_counters(&begun_of(rank));
    let unfinished = store.begin(&episode, 10).expect("begun");
    std::fs::write(unfinished.trace(), [7; 10]).expect("written");
    (episode.sequence, episode.trace_bytes) = (Some(unfinished.sequence()), Some(10));
    unfinished.finish(store, &episode, &[]).expect("finished");
    rig.writer.hand_on(Written { episode: episode.clone(), along: Vec::new(), reply: None });
    episode.id
}

/// An explanation can take minutes, and the trace keeps its room until then.
#[test]
fn where_too_many_wait_to_be_explained_the_next_one_is_told_at_once() {
    let rig = Rig::new();
    let store = &rig.writer.store;
    let told_at_once = |rank: Rank, second: u64, why: &str| {
        let id = keep_of(rank, second, &rig);
        assert!(rig.tasks.try_recv().is_err(), "too many wait");
        let told = read_log(store.path()).expect("a log").episodes;
        let problem = told.iter().find(|told| told.id == id).and_then(|told| told.problem.as_deref());
        assert!(problem.is_some_and(|text| text.starts_with(why)), "{told:?}");
        assert!(store.directory_of(&id).join(TRACE).exists(), "its trace stays");
    };
    let waits = |rank: Rank, second: u64| {
        keep_of(rank, second, &rig);
        assert!(matches!(rig.tasks.try_recv(), Ok(Task::Publish(_))), "{rank:?} {second} waits for its turn");
    };
    (0..4).for_each(|second| waits(Rank::Programs, second));
    told_at_once(Rank::Programs, 10, "not explained: too many wait (4)");
    // Any user can cause those: kernel threads still have eight places.
    (20..28).for_each(|second| waits(Rank::Kernel, second));
    told_at_once(Rank::Kernel, 30, "not explained: too many wait (8)");
    told_at_once(Rank::Programs, 40, "not explained: too many wait (4)");
    assert_eq!(store.kept().expect("counted").unexplained, 12, "those that were told do not wait");
}

/// The episode that began first has the trace; this does not cause kernel threads that share it to be published unexplained.
#[test]
fn a_trace_that_kernel_threads_share_waits_in_their_places() {
    let rig = Rig::new();
    (0..4).for_each(|second| drop(keep_of(Rank::Programs, second, &rig)));
    let mut kernels = Episode::begun(id_of(at(9000).wall), at(9000).wall);
    kernels.note_counters(&begun());
    let mut first = Episode { trace_bytes: Some(10), ..Episode::begun(id_of(at(8000).wall), at(8000).wall) };
    first.note_counters(&begun_of(Rank::Programs));
    let store = &rig.writer.store;
    let unfinished = store.begin(&first, 10).expect("begun");
    std::fs::write(unfinished.trace(), [7; 10]).expect("written");
    unfinished.finish(store, &first, &[kernels.clone()]).expect("finished");
    let before = rig.tasks.try_iter().count();
    rig.writer.hand_on(Written { episode: first, along: vec![kernels], reply: None });
    assert_eq!((before, rig.tasks.try_iter().count()), (4, 1));
}

#[test]
fn that_the_store_is_full_of_what_counts_more_is_said_until_there_is_room() {
    let mut rig = Rig::new();
    let store = Arc::clone(&rig.writer.store);
    store.limit(Limits { bytes: u64::MAX, episodes: 1 });
    let mut kernels = Episode::begun(id_of(at(500).wall), at(500).wall);
    kernels.note_counters(&begun());
    let unfinished = store.begin(&kernels, 10).expect("begun");
    std::fs::write(unfinished.trace(), [7; 10]).expect("written");
    unfinished.finish(&store, &kernels, &[]).expect("finished");
    store.is_explained(&kernels.id);
    let reserved = |rig: &Rig| rig.writer.board.read().problems.contains_key(RESERVED);

    let error = StoreError::Reserved(store.path().to_owned());
    rig.writer.reserved(&error_chain(&error));
    assert!(reserved(&rig) && rig.problem().is_none());
    rig.writer.retry.next = Instant::now();
    rig.writer.board.store_problem("full");
    let look = |rig: &mut Rig| {
        rig.writer.retry.next_look = Instant::now();
        rig.writer.try_again();
        rig.writer.look_for_room();
    };
    look(&mut rig);
    assert_eq!(rig.problem(), None, "it can be written");
    assert!(reserved(&rig), "and there is no room for programs all the same");
    store.limit(Limits { bytes: u64::MAX, episodes: 2 });
    look(&mut rig);
    assert!(!reserved(&rig), "now there is");
}
