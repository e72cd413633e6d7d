//! Tests of the store.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::PathBuf;

use proptest::prelude::*;

use super::*;
use crate::episode::id_of;

mod durable;
mod unexplained;

const LIMITS: Limits = Limits { bytes: 10_000, episodes: 5 };

fn place() -> (tempfile::TempDir, PathBuf) {
    let directory = crate::testing::private_directory();
    let path = directory.path().join("store");
    (directory, path)
}

fn episode(number: u64) -> Episode {
    let at = unstarve_model::WallTime(1_764_000_187_000_000_000 + number * 1_000_000_000);
    Episode::begun(id_of(at), at)
}

fn keep(store: &Store, number: u64, bytes: usize) -> Result<String, StoreError> {
    let mut episode = episode(number);
    let unfinished = store.begin(&episode, bytes as u64)?;
    episode.id = unfinished.id().to_owned();
    episode.sequence = Some(unfinished.sequence());
    fs::write(unfinished.trace(), vec![7; bytes]).map_err(StoreError::io(store.path()))?;
    episode.trace_bytes = Some(bytes as u64);
    unfinished.finish(store, &episode, &[])?;
    store.is_explained(&episode.id);
    store.logbook().add(&episode)?;
    Ok(episode.id)
}

/// An episode triggered by waits of this role.
fn about(role: &str, number: u64) -> Episode {
    let victim = crate::episode::Party { role: Some(role.to_owned()), ..Default::default() };
    let trigger = crate::episode::Trigger::Oldest { ns: 2, threshold_ns: 1 };
    let seen = crate::episode::Seen {
        trigger,
        since_mono_ns: None,
        victim: Some(victim),
        culprit: None,
        rule: None,
        blamed_ns: None,
    };
    Episode { trigger: Some(seen), ..episode(number) }
}

fn keep_whole(store: &Store, episode: &Episode) -> Result<(), StoreError> {
    let unfinished = store.begin(episode, 10)?;
    fs::write(unfinished.trace(), [7; 10]).map_err(StoreError::io(store.path()))?;
    let sequence = Some(unfinished.sequence());
    unfinished.finish(store, &Episode { sequence, trace_bytes: Some(10), ..episode.clone() }, &[])?;
    store.is_explained(&episode.id);
    Ok(())
}

#[test]
fn an_episode_of_programs_pushes_out_none_of_kernel_threads() {
    let (_around, path) = place();
    let store = Store::open(&path, Limits { bytes: u64::MAX, episodes: 3 }).expect("a store");
    for (number, role) in [(1, "other"), (2, "kworker"), (3, "kworker"), (4, "ksoftirqd")] {
        keep_whole(&store, &about(role, number)).expect("kept");
    }
    let ids = |numbers: [u64; 3]| numbers.map(|number| episode(number).id);
    assert_eq!(store.ids().expect("ids"), ids([2, 3, 4]), "that of programs went first");
    let refused = keep_whole(&store, &about("other", 5)).expect_err("it would push one out");
    assert!(matches!(&refused, StoreError::Reserved(_)), "{refused:?}");
    assert!(refused.to_string().contains("store.episodes"), "{refused}");
    assert_eq!(store.ids().expect("ids"), ids([2, 3, 4]));
    keep_whole(&store, &about("kworker", 6)).expect("one of its own rank");
    assert_eq!(store.ids().expect("ids"), ids([3, 4, 6]));
    // A dump takes the place of none that was seen to starve, and is the first to be removed.
    let refused = keep_whole(&store, &episode(7)).expect_err("it would push one out");
    assert!(matches!(&refused, StoreError::Reserved(_)), "{refused:?}");
    store.limit(Limits { bytes: u64::MAX, episodes: 4 });
    keep_whole(&store, &episode(7)).expect("a dump, where there is room");
    store.limit(Limits { bytes: u64::MAX, episodes: 3 });
    keep_whole(&store, &about("other", 8)).expect_err("there is none for programs");
    store.limit(Limits { bytes: u64::MAX, episodes: 4 });
    keep_whole(&store, &about("other", 8)).expect("in the place of the dump");
    assert_eq!(store.ids().expect("ids"), [3, 4, 6, 8].map(|number| episode(number).id));
}

#[test]
fn a_store_that_is_replaced_is_locked_before_anything_is_written() {
    let (around, path) = place();
    let store = Store::open(&path, LIMITS).expect("a store");
    keep(&store, 1, 10).expect("kept");
    assert!(!store.was_replaced());
    fs::rename(&path, around.path().join("before")).expect("moved away");
    fs::DirBuilder::new().mode(0o700).create(&path).expect("made");
    // Another watch has started there meanwhile.
    let other = Store::open(&path, LIMITS).expect("a store");
    assert!(matches!(store.begin(&episode(2), 10), Err(StoreError::Busy(_))));
    assert!(matches!(store.logbook().add(&episode(2)), Err(StoreError::Busy(_))));
    assert!(matches!(store.outbox().note(&Unsent::default()), Err(StoreError::Busy(_))));
    assert!(read_log(&path).expect("read").episodes.is_empty(), "nothing is written beside the other one");
    drop(other);
    keep(&store, 3, 10).expect("now it is ours");
    assert!(store.was_replaced() && !store.was_replaced(), "said once");
    assert!(matches!(Store::open(&path, LIMITS), Err(StoreError::Busy(_))), "and nobody else's");
    let logged: Vec<String> = read_log(&path).expect("read").episodes.into_iter().map(|episode| episode.id).collect();
    assert_eq!(logged, [2, 3].map(|number| episode(number).id), "with the line that waited");
    // A store whose lock was removed.
    fs::remove_file(path.join("store.lock")).expect("removed");
    let other = Store::open(&path, LIMITS).expect("a store");
    assert!(matches!(store.begin(&episode(4), 10), Err(StoreError::Busy(_))));
    drop(other);
    // A store that was removed.
    fs::remove_dir_all(&path).expect("removed");
    keep(&store, 5, 10).expect("made anew");
    assert!(matches!(Store::open(&path, LIMITS), Err(StoreError::Busy(_))));
}

#[test]
fn lines_wait_for_a_disk_that_cannot_be_written() {
    let (_around, path) = place();
    let store = Store::open(&path, LIMITS).expect("a store");
    // A directory of this name cannot be opened for writing.
    fs::create_dir(path.join("episodes.jsonl")).expect("made");
    for number in 1..4 {
        store.logbook().add(&episode(number)).expect_err("it cannot be written");
    }
    assert!(store.try_again(10).is_err());
    assert_eq!(store.logbook().waiting(), 3);
    fs::remove_dir(path.join("episodes.jsonl")).expect("removed");
    store.try_again(10).expect("now it can");
    let logged: Vec<String> = read_log(&path).expect("read").episodes.into_iter().map(|episode| episode.id).collect();
    assert_eq!(logged, [1, 2, 3].map(|number| episode(number).id));
    assert_eq!(store.logbook().waiting(), 0);
    assert!(names_in(&path).expect("listed").iter().all(|name| !name.starts_with('.')), "nothing of the try stays");
}

#[test]
fn the_oldest_go_first_by_number_and_by_size() {
    let (_around, path) = place();
    let store = Store::open(&path, LIMITS).expect("a store");
    for number in 0..8 {
        keep(&store, number, 100).expect("kept");
    }
    let kept = store.kept().expect("counted");
    assert_eq!(kept.episodes, 5);
    assert_eq!(store.ids().expect("ids"), (3..8).map(|number| episode(number).id).collect::<Vec<_>>());
    keep(&store, 9, 8_000).expect("kept");
    assert!(store.kept().expect("counted").bytes <= 10_000, "{:?}", store.kept());
    // A single episode larger than the limit is kept: it was requested.
    keep(&store, 10, 20_000).expect("kept");
    assert_eq!(store.ids().expect("ids"), [episode(10).id]);
    assert_eq!(read_log(&path).expect("a log").episodes.len(), 10, "the log has them all");
}

#[test]
fn what_goes_is_said_and_a_full_disk_takes_nothing() {
    let (_around, path) = place();
    let store = Store::open(&path, Limits { bytes: u64::MAX, episodes: 2 }).expect("a store");
    for number in 0..2 {
        keep(&store, number, 100).expect("kept");
    }
    let unfinished = store.begin(&episode(2), 100).expect("begun");
    assert_eq!(unfinished.removed(), [episode(0).id]);
    // More than any disk has, as if it were full.
    let refused = store.begin(&episode(3), 1 << 60).expect_err("no room");
    assert!(
        matches!(&refused, StoreError::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull),
        "{refused:?}"
    );
    assert_eq!(store.ids().expect("ids"), [episode(1).id]);
}

#[test]
fn a_clock_that_was_set_back_makes_nothing_older() {
    let (_around, path) = place();
    let store = Store::open(&path, Limits { bytes: u64::MAX, episodes: 3 }).expect("a store");
    // An episode from before sequence numbers existed.
    let mut first = episode(50);
    let unfinished = store.begin(&first, 10).expect("begun");
    first.trace_bytes = Some(10);
    fs::write(unfinished.trace(), [7; 10]).expect("written");
    unfinished.finish(&store, &first, &[]).expect("kept");
    store.is_explained(&first.id);
    for number in [60, 2, 1, 70] {
        keep(&store, number, 10).expect("kept");
    }
    assert_eq!(store.ids().expect("ids"), [2, 1, 70].map(|number| episode(number).id));
}

#[test]
fn an_id_that_is_taken_gets_a_number() {
    let (_around, path) = place();
    let store = Store::open(&path, LIMITS).expect("a store");
    let ids: Vec<String> = (0..3).map(|_| keep(&store, 1, 10).expect("kept")).collect();
    assert_eq!(ids, [episode(1).id, format!("{}-2", episode(1).id), format!("{}-3", episode(1).id)]);
    assert!(ids.iter().all(|id| is_id(id)));
}

#[test]
fn a_directory_of_somebody_else_is_not_used() {
    let (_around, path) = place();
    fs::create_dir(&path).expect("made");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).expect("open to all");
    assert!(matches!(Store::open(&path, LIMITS), Err(StoreError::Untrusted(_))));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The log is cut at any byte by a kill or a full disk: all lines before are read, one partial line is counted, and the next line starts on a
    /// line of its own.
    #[test]
    fn a_torn_line_costs_itself_alone(cut in 0..2000_usize) {
        let (_around, path) = place();
        let store = Store::open(&path, LIMITS).expect("a store");
        let mut ends = Vec::new();
        let log = path.join("episodes.jsonl");
        for number in 0..4 {
            store.logbook().add(&episode(number)).expect("added");
            ends.push(fs::metadata(&log).expect("there").len() as usize);
        }
        let cut = cut % (ends[3] + 1);
        fs::OpenOptions::new().write(true).open(&log).and_then(|file| file.set_len(cut as u64)).expect("cut");
        store.logbook().add(&episode(9)).expect("added");
        let read = read_log(&path).expect("read");
        // A line that lacks only its newline is complete.
        let whole = ends.iter().filter(|end| **end <= cut + 1).count();
        let numbers: Vec<u64> = (0..whole as u64).chain([9]).collect();
        prop_assert_eq!(read.episodes, numbers.into_iter().map(episode).collect::<Vec<_>>());
        let is_torn = cut > 0 && !ends.contains(&cut) && !ends.contains(&(cut + 1));
        prop_assert_eq!(read.torn, u64::from(is_torn));
    }
}

#[test]
fn what_a_killed_watch_left_is_removed_or_explained() {
    let (_around, path) = place();
    let store = Store::open(&path, LIMITS).expect("a store");
    keep(&store, 1, 10).expect("kept");
    // Killed while a trace was written…
    let unfinished = store.begin(&episode(2), 10).expect("begun");
    fs::write(unfinished.trace(), "half").expect("written");
    std::mem::forget(unfinished);
    // … and after it, before it was logged.
    let third = store.begin(&episode(3), 10).expect("begun");
    fs::write(third.trace(), "whole").expect("written");
    let waiting = Episode { trace_bytes: Some(5), ..episode(3) };
    let along = [episode(4), episode(5)];
    third.finish(&store, &waiting, &along).expect("finished");
    // One of those that share its trace was logged before the kill.
    store.logbook().add(&along[0]).expect("added");
    let mut log = fs::OpenOptions::new().append(true).open(path.join("episodes.jsonl")).expect("the log");
    log.write_all(b"{\"schema\":\"unst").expect("torn");
    drop(store);

    let store = Store::open(&path, LIMITS).expect("a store");
    let names = names_in(&path).expect("listed");
    assert!(names.iter().all(|name| !name.starts_with('.')), "{names:?}");
    let left = Left { episode: waiting.clone(), along: vec![along[1].clone()] };
    assert_eq!(store.unexplained().expect("read"), [left]);
    store.logbook().add(&waiting).expect("added");
    assert!(store.unexplained().expect("read").is_empty());
    assert_eq!(read_log(&path).expect("read").torn, 1);
}

#[test]
fn a_store_has_one_watch() {
    let (_around, path) = place();
    let first = Store::open(&path, LIMITS).expect("a store");
    assert!(matches!(Store::open(&path, LIMITS), Err(StoreError::Busy(_))));
    drop(first);
    assert!(Store::open(&path, LIMITS).is_ok());
}

#[test]
fn the_trace_of_an_episode_may_be_anothers() {
    let (_around, path) = place();
    let store = Store::open(&path, LIMITS).expect("a store");
    let first = keep(&store, 1, 10).expect("kept");
    let shared = Episode { trace_of: Some(first.clone()), ..episode(2) };
    let evil = Episode { trace_of: Some("../..".into()), ..episode(3) };
    for episode in [&shared, &evil, &episode(4)] {
        store.logbook().add(episode).expect("added");
    }
    let of = |id: &str| trace_directory(&path, id).expect("read");
    assert_eq!(of(&first), Some(path.join(&first)));
    assert_eq!(of(&shared.id), Some(path.join(&first)));
    assert_eq!([of(&evil.id), of(&episode(4).id), of("20200101-000000-000")], [None, None, None]);
}

#[test]
fn what_cannot_be_read_is_not_called_written() {
    let (around, _) = place();
    let file = around.path().join("file");
    fs::write(&file, "").expect("written");
    for error in [read_log(&file).expect_err("no directory"), trace_directory(&file, "x").expect_err("no directory")] {
        assert!(error.to_string().starts_with(&format!("cannot read {}", file.display())), "{error}");
    }
}

#[test]
fn a_store_of_somebody_else_hangs_nobody() {
    let (around, _) = place();
    let id = episode(1).id;
    let mode = rustix::fs::Mode::RUSR;
    for (number, name) in ["episodes.jsonl", "episodes.1.jsonl"].into_iter().enumerate() {
        let fifo = around.path().join(number.to_string());
        fs::create_dir(&fifo).expect("made");
        rustix::fs::mkfifoat(rustix::fs::CWD, fifo.join(name), mode).expect("a FIFO");
        let device = around.path().join(format!("{number}-device"));
        fs::create_dir(&device).expect("made");
        std::os::unix::fs::symlink("/dev/zero", device.join(name)).expect("a link");
        for store in [fifo, device] {
            assert!(matches!(read_log(&store), Err(StoreError::Unreadable { .. })), "{}", store.display());
            assert!(trace_directory(&store, &id).is_err());
        }
    }
    // An episode elsewhere does not belong to this store.
    let lured = around.path().join("lured");
    fs::create_dir(&lured).expect("made");
    std::os::unix::fs::symlink(around.path(), lured.join(&id)).expect("a link");
    fs::write(around.path().join(TRACE), "x").expect("written");
    assert!(trace_directory(&lured, &id).is_err());
}

#[test]
fn no_name_breaks_a_line_of_the_log() {
    let (_around, path) = place();
    let store = Store::open(&path, LIMITS).expect("a store");
    let evil = "a\"b\\c\n{\"schema\":1}\r\u{1b}[31m\u{2028}\0";
    let party = crate::episode::Party { comm: evil.into(), cgroup: Some(evil.into()), ..Default::default() };
    let wanted =
        Episode { victim: Some(party.clone()), culprit: Some(party), problem: Some(evil.into()), ..episode(1) };
    store.logbook().add(&wanted).expect("added");
    let text = fs::read_to_string(path.join("episodes.jsonl")).expect("the log");
    assert_eq!(text.matches('\n').count(), 1, "{text:?}");
    assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{text:?}");
    assert_eq!(read_log(&path).expect("read").episodes, [wanted]);
}

#[test]
fn a_sequence_is_greater_than_that_of_any_before_though_all_of_them_have_gone() {
    let (_around, path) = place();
    let one = Limits { bytes: u64::MAX, episodes: 1 };
    let store = Store::open(&path, one).expect("a store");
    let mut last = None;
    for number in 0..4 {
        // The only one is removed to make room for the next.
        let unfinished = store.begin(&episode(number), 10).expect("begun");
        assert!(Some(unfinished.sequence()) > last, "{last:?}");
        last = Some(unfinished.sequence());
        drop(unfinished);
        keep(&store, number, 10).expect("kept");
        let kept = store.episode(&store.ids().expect("ids")[0]).expect("there");
        assert!(kept.sequence > last);
        last = kept.sequence;
    }
    drop(store);
    // All directories were removed; the log exists.
    for number in 0..4 {
        let _ = fs::remove_dir_all(path.join(episode(number).id));
    }
    let store = Store::open(&path, one).expect("a store");
    assert!(store.ids().expect("ids").is_empty());
    assert!(Some(store.begin(&episode(9), 10).expect("begun").sequence()) > last);
}
