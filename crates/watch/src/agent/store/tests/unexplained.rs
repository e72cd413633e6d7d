//! Tests of the room for episodes that are not explained yet, and of the marks for those that are.

use super::*;

/// Begins an episode, and leaves it unexplained.
fn leave_unexplained(store: &Store, number: u64, bytes: usize) {
    let unfinished = store.begin(&episode(number), bytes as u64).expect("begun");
    fs::write(unfinished.trace(), vec![7; bytes]).expect("written");
    let sequence = Some(unfinished.sequence());
    let whole = Episode { sequence, trace_bytes: Some(bytes as u64), ..episode(number) };
    unfinished.finish(store, &whole, &[]).expect("finished");
}

#[test]
fn what_a_full_disk_needs_pushes_nothing_out_of_the_limits() {
    let (_around, path) = place();
    let store = Store::open(&path, LIMITS).expect("a store");
    (0..3).for_each(|number| drop(keep(&store, number, 1000).expect("kept")));
    let unfinished = store.begin(&episode(3), Expected { trace: 1000, on_disk: 50_000 }).expect("begun");
    assert!(unfinished.removed().is_empty(), "the trace fits: {:?}", unfinished.removed());
}

#[test]
fn what_is_not_explained_yet_is_not_removed() {
    let (_around, path) = place();
    let store = Store::open(&path, Limits { bytes: u64::MAX, episodes: 1 }).expect("a store");
    let first = store.begin(&episode(1), 10).expect("begun");
    fs::write(first.trace(), [7; 10]).expect("written");
    first.finish(&store, &episode(1), &[]).expect("finished");
    keep(&store, 2, 10).expect("a second one");
    assert!(store.directory_of(&episode(1).id).join(TRACE).exists(), "it is being explained");
    store.is_explained(&episode(1).id);
    keep(&store, 3, 10).expect("a third one");
    assert_eq!(store.ids().expect("ids"), [episode(3).id], "then it goes as any other");
}

#[test]
fn what_is_not_explained_yet_takes_its_part_of_the_limits() {
    let (_around, path) = place();
    let store = Store::open(&path, LIMITS).expect("a store");
    (1..3).for_each(|number| drop(keep(&store, number, 2500).expect("kept")));
    leave_unexplained(&store, 3, 3000);
    assert_eq!(store.kept().expect("counted").unexplained, 1);
    let unfinished = store.begin(&episode(4), 3000).expect("begun");
    assert_eq!(unfinished.removed(), [episode(1).id], "all four are more than the limit");
    drop(unfinished);
    // By number: five are kept.
    (5..7).for_each(|number| leave_unexplained(&store, number, 10));
    keep(&store, 7, 10).expect("kept");
    keep(&store, 8, 10).expect("kept");
    assert_eq!(store.kept().expect("counted").episodes, 5);
}

/// Any user can cause episodes of programs that wait to be explained.
#[test]
fn what_waits_of_programs_pushes_out_none_of_kernel_threads() {
    let (_around, path) = place();
    let store = Store::open(&path, Limits { bytes: u64::MAX, episodes: 9 }).expect("a store");
    let wait = |role: &str, number: u64, bytes: usize| {
        let unfinished = store.begin(&about(role, number), 10_u64).expect("begun");
        fs::write(unfinished.trace(), vec![7; bytes]).expect("written");
        let sequence = Some(unfinished.sequence());
        unfinished.finish(&store, &Episode { sequence, ..about(role, number) }, &[]).expect("finished");
    };
    let removed = |role: &str, expected: u64| {
        store.begin(&about(role, 9), expected).map(|unfinished| unfinished.removed().to_vec())
    };
    let ids = |numbers: &[u64]| -> Vec<String> { numbers.iter().map(|number| episode(*number).id).collect() };
    for number in [1, 2] {
        wait("kworker", number, 10);
        store.is_explained(&episode(number).id);
    }
    (3..6).for_each(|number| wait("other", number, 50_000));
    store.limit(Limits { bytes: u64::MAX, episodes: 3 });
    assert!(matches!(removed("other", 10), Err(StoreError::Reserved(_))), "what waits counts for those of programs");
    assert_eq!(removed("kworker", 10).expect("begun"), ids(&[]), "by number");
    store.limit(Limits { bytes: 100_000, episodes: 99 });
    assert_eq!(removed("kworker", 10).expect("begun"), ids(&[]), "by bytes");
    // Once explained, an episode of programs can be removed.
    store.is_explained(&episode(3).id);
    assert_eq!(removed("kworker", 10).expect("begun"), ids(&[3]));
    // Waiting episodes of kernel threads count.
    store.limit(Limits { bytes: u64::MAX, episodes: 9 });
    wait("kworker", 6, 10);
    store.limit(Limits { bytes: u64::MAX, episodes: 3 });
    assert_eq!(removed("kworker", 10).expect("begun"), ids(&[1]));
}

/// A trace begun for a program also counts as a kernel thread's, if that starved before the trace was written.
#[test]
fn a_trace_that_an_episode_of_a_kernel_thread_shares_counts_as_one_of_its() {
    let (_around, path) = place();
    let store = Store::open(&path, Limits { bytes: u64::MAX, episodes: 1 }).expect("a store");
    let keep = |number: u64, along: &[Episode]| {
        let episode = about("other", number);
        store.begin_with(&episode, along, 10).map(|unfinished| {
            fs::write(unfinished.trace(), [7; 10]).expect("written");
            let sequence = Some(unfinished.sequence());
            unfinished.finish(&store, &Episode { sequence, ..episode.clone() }, along).expect("finished");
            store.is_explained(&episode.id);
        })
    };
    keep(1, &[about("kworker", 2)]).expect("kept");
    assert!(matches!(keep(3, &[]), Err(StoreError::Reserved(_))), "one of programs does not push it out");
    keep(4, &[about("kworker", 5)]).expect("kept");
    assert_eq!(store.ids().expect("listed"), [episode(4).id]);
}

#[test]
fn what_a_killed_watch_left_stays_until_it_is_explained() {
    let (_around, path) = place();
    let one = Limits { bytes: u64::MAX, episodes: 1 };
    let store = Store::open(&path, one).expect("a store");
    leave_unexplained(&store, 1, 10);
    drop(store);
    let store = Store::open(&path, one).expect("a store");
    store.is_to_be_explained(&episode(1).id);
    assert_eq!((store.kept().expect("counted").unexplained, store.unexplained_now(Rank::Programs)), (1, 0));
    keep(&store, 2, 10).expect("kept");
    assert!(store.directory_of(&episode(1).id).join(TRACE).exists(), "it is going to be explained");
    store.is_explained(&episode(1).id);
    keep(&store, 3, 10).expect("kept");
    assert_eq!(store.ids().expect("ids"), [episode(3).id]);
}

#[test]
fn of_what_was_left_that_of_kernel_threads_comes_first() {
    let left = |episode: Episode| Left { episode, along: Vec::new() };
    let mut all = vec![left(about("kworker", 0))];
    all.extend((1..5).map(|number| left(about("other", number))));
    all.push(Left { along: vec![about("ksoftirqd", 6)], ..left(about("other", 5)) });
    let first: Vec<String> = Left::first(all, 3).into_iter().map(|left| left.episode.id).collect();
    assert_eq!(first, [5, 0, 4].map(|number| episode(number).id));
}

#[test]
fn an_episode_that_fell_out_of_the_log_is_not_explained_again() {
    let (_around, path) = place();
    let store = Store::open(&path, LIMITS).expect("a store");
    for number in 0..2 {
        keep(&store, number, 10).expect("kept");
    }
    leave_unexplained(&store, 2, 10);
    // Rotated twice.
    fs::write(path.join("episodes.jsonl"), "").expect("written");
    let left: Vec<String> = store.unexplained().expect("read").into_iter().map(|left| left.episode.id).collect();
    assert_eq!(left, [episode(2).id]);
}

/// Otherwise the next watch would explain it and post it again.
#[test]
fn a_line_that_waited_is_noted_where_its_episode_is() {
    let (_around, path) = place();
    let store = Store::open(&path, LIMITS).expect("a store");
    (1..4).for_each(|number| leave_unexplained(&store, number, 10));
    let log = path.join("episodes.jsonl");
    fs::create_dir(&log).expect("made");
    let whole = |number: u64| store.episode(&episode(number).id).expect("there");
    for number in 1..4 {
        store.logbook().add(&whole(number)).expect_err("it cannot be written");
    }
    // An episode that has been removed needs no mark.
    fs::remove_dir_all(store.directory_of(&episode(2).id)).expect("removed");
    fs::remove_dir(&log).expect("removed");
    store.logbook().add_waiting().expect("now it can");
    let is_noted = |number: u64| store.directory_of(&episode(number).id).join(LOGGED).exists();
    assert_eq!([1, 2, 3].map(is_noted), [true, false, true]);
    // The log may be rotated.
    fs::write(&log, "").expect("written");
    assert_eq!(store.unexplained().expect("read"), []);
}
