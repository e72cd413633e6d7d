use std::collections::BTreeMap;
use std::time::Duration;

use super::*;
use crate::RoleKind;
use crate::config::{Config, Length};
use crate::episode::{Detector, Seen, Trigger};
use crate::rollup::Rollups;
use crate::testing::{Scene, at};

fn config(directory: &Path) -> Config {
    let tables = Tables {
        directory: directory.join("tables"),
        labels: BTreeMap::from([("site".to_owned(), "fra1".to_owned())]),
        ..Tables::default()
    };
    Config { tables: Some(tables), ..Config::default() }
}

fn files(directory: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut left = vec![directory.to_owned()];
    while let Some(next) = left.pop() {
        for entry in std::fs::read_dir(&next).expect("it is there").map(|entry| entry.expect("an entry").path()) {
            match entry.is_dir() {
                true => left.push(entry),
                false => found.push(entry.strip_prefix(directory).expect("below it").display().to_string()),
            }
        }
    }
    found.sort();
    found
}

fn of_table(files: &[String], table: &str) -> usize {
    files.iter().filter(|file| file.starts_with(&format!("table={table}/"))).count()
}

#[test]
fn intervals_and_episodes_become_files_once() {
    let place = tempfile::tempdir().expect("a place for files");
    let config = config(place.path());
    let board = Arc::new(Board::default());
    for _ in 0..2 {
        // The second one is a watch that starts again and finds the episode in its log.
        let mut rollups = Rollups::start(&config, &board).expect("they can be written");
        let mut detector = Detector::new(config.thresholds.clone());
        let mut scene = Scene::new();
        for minute in 0..12 {
            scene = scene.blame("kworker", RoleKind::RealTime, 900_000_000).wait("kworker", 900_000_000);
            let reading = Arc::new(scene.reading(at(minute * 60_000)));
            for begun in detector.see(Arc::clone(&reading)).begun {
                let mut episode = Episode::begun(crate::episode::id_of(begun.at.wall), begun.at.wall);
                episode.note_counters(&begun);
                board.write(|published| published.list(Arc::new(episode)));
            }
            board.write(|published| published.next(Arc::clone(&reading)));
            rollups.see(&reading, &board.read());
        }
        rollups.finish(&board.read(), Duration::from_secs(60));
    }
    let published = board.read();
    assert!(published.problems.is_empty(), "{:?}", published.problems);
    let episodes = published.episodes.iter().filter(|episode| episode.trigger.is_some()).count();
    assert!(episodes > 0);
    let files = files(&place.path().join("tables"));
    // From 16:03:07 on: to 16:05, 16:10, 16:15 and the end; the same names when it begins at the same moment again.
    assert_eq!(of_table(&files, "wait_rollup"), 3, "{files:#?}");
    assert_eq!((of_table(&files, "blame_rollup"), of_table(&files, "hosts")), (3, 1), "{files:#?}");
    assert_eq!(of_table(&files, "episodes"), episodes, "{files:#?}");
    assert!(
        files.iter().all(|file| file.contains("/date=2025-11-24/hour=16/") && file.ends_with(".parquet")),
        "{files:#?}"
    );
}

#[test]
fn a_directory_that_cannot_be_had_is_a_problem_and_no_end() {
    let place = tempfile::tempdir().expect("a place for files");
    let mut config = config(place.path());
    std::fs::write(place.path().join("file"), b"").expect("it can be written");
    if let Some(tables) = &mut config.tables {
        tables.directory = place.path().join("file/tables");
        tables.every = Length(Duration::from_secs(60));
    }
    let board = Arc::new(Board::default());
    assert!(Rollups::start(&config, &board).is_none());
    let published = board.read();
    let problem = published.problems.get("tables").expect("it is said");
    assert!(problem.contains("/file: Not a directory"), "{problem}");
}

#[test]
fn the_trace_of_an_episode_is_that_of_the_one_it_shares() {
    let place = tempfile::tempdir().expect("a place for files");
    let config = config(place.path()).tables.expect("it is set");
    let shelf = Shelf::open(&config.directory).expect("a directory of our own");
    let limits = Limits { bytes: 1 << 20, age: Duration::from_secs(3600) };
    let host = Host { name: "web1".into(), ..Host::here(&config) };
    let writer = Writer { shelf, limits, host, store: "/store".into(), hour: None };
    let trigger = Some(Seen {
        trigger: Trigger::Oldest { ns: 2, threshold_ns: 1 },
        since_mono_ns: None,
        victim: None,
        culprit: None,
        rule: None,
        blamed_ns: None,
    });
    let episode = Episode { id: "20261123-012345-678".into(), trigger, ..Episode::default() };
    assert_eq!(writer.trace_of(&episode), None);
    let own = Episode { trace_bytes: Some(5), ..episode.clone() };
    assert_eq!(writer.trace_of(&own).as_deref(), Some("file://web1/store/20261123-012345-678/trace.dat"));
    let shared = Episode { trace_of: Some("20261123-012345-600".into()), ..episode };
    assert_eq!(writer.trace_of(&shared).as_deref(), Some("file://web1/store/20261123-012345-600/trace.dat"));
}
