//! Tests of the tables that a watch writes.

use std::time::Duration;

use super::*;
use crate::agent::config::{Config, Length};
use crate::agent::rollup::Rollups;
use crate::engine::reading::RoleKind;
use crate::episode::{Detector, Seen, Trigger};
use crate::testing::{Scene, at};

fn config(directory: &Path) -> Config {
    let tables = Tables { directory: directory.join("tables"), ..Tables::default() };
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
    files.iter().filter(|file| file.starts_with(&format!("v1/table={table}/"))).count()
}

#[test]
fn intervals_and_episodes_become_files_once() {
    let place = tempfile::tempdir().expect("a place for files");
    let config = config(place.path());
    let board = Arc::new(Board::default());
    for _ in 0..2 {
        // The second watch is a restart that finds the episode in its log.
        let mut rollups = Rollups::start(&config, &board).expect("they can be written").expect("they are asked for");
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
            rollups.see(&reading, &board);
        }
        rollups.finish(&board, Duration::from_secs(60));
    }
    let published = board.read();
    assert!(published.problems.is_empty(), "{:?}", published.problems);
    let episodes = published.episodes.iter().filter(|episode| episode.trigger.is_some()).count();
    assert!(episodes > 0);
    let files = files(&place.path().join("tables"));
    // From 16:03:07 on: until 16:05, 16:10, 16:15 and the end; the same names if it starts at the same time again.
    assert_eq!(of_table(&files, "wait_rollup"), 3, "{files:#?}");
    assert_eq!((of_table(&files, "blame_rollup"), of_table(&files, "hosts")), (3, 1), "{files:#?}");
    assert_eq!(of_table(&files, "episodes"), episodes, "{files:#?}");
    assert!(
        files.iter().all(|file| file.contains("/date=2025-11-24/hour=16/") && file.ends_with(".parquet")),
        "{files:#?}"
    );
}

#[test]
fn why_a_directory_cannot_be_had_is_known() {
    let place = tempfile::tempdir().expect("a place for files");
    let mut config = config(place.path());
    std::fs::write(place.path().join("file"), b"").expect("it can be written");
    if let Some(tables) = &mut config.tables {
        tables.directory = place.path().join("file/tables");
        tables.every = Length(Duration::from_secs(60));
    }
    let board = Arc::new(Board::default());
    let problem = Rollups::start(&config, &board).err().expect("it cannot be had");
    assert!(problem.contains("/file: Not a directory"), "{problem}");
}

fn writer(place: &Path) -> Writer {
    let config = config(place).tables.expect("it is set");
    let shelf = Shelf::open(&config.directory).expect("a directory of our own");
    let limits = Limits { bytes: 1 << 20, age: Duration::from_secs(3600) };
    let labels = BTreeMap::from([("site".to_owned(), "fra1".to_owned())]);
    let host = Host::here(&Machine { named: Some("web1".into()), labels, ..Machine::default() });
    Writer::new(shelf, limits, host, Path::new("/store"))
}

fn episode(number: u64) -> Episode {
    let trigger = Some(Seen {
        trigger: Trigger::Oldest { ns: 2, threshold_ns: 1 },
        since_mono_ns: None,
        victim: None,
        culprit: None,
        rule: None,
        blamed_ns: None,
    });
    let at = at(number * 3_600_000).wall;
    Episode { trigger, ..Episode::begun(crate::episode::id_of(at), at) }
}

fn work(scene: &Scene, minute: u64, episodes: &[Episode]) -> Work {
    let reading = scene.reading(at(minute * 60_000));
    let episodes = episodes.iter().cloned().map(Arc::new).collect();
    Work { begun: Sums::at_the_start(&reading), now: Sums::of(&reading), episodes }
}

#[test]
fn an_interval_in_which_nobody_waited_says_so() {
    let place = tempfile::tempdir().expect("a place for files");
    let mut writer = writer(place.path());
    let calm = Scene::new();
    assert_eq!(writer.write(&work(&calm, 5, &[])), Ok(()));
    assert_eq!(writer.write(&work(&calm, 10, &[])), Ok(()));
    let files = files(&place.path().join("tables"));
    assert_eq!((of_table(&files, "wait_rollup"), of_table(&files, "blame_rollup")), (2, 0), "{files:#?}");
}

#[test]
fn what_could_not_be_written_is_part_of_the_next_interval() {
    let place = tempfile::tempdir().expect("a place for files");
    let mut writer = writer(place.path());
    let in_the_way = place.path().join("tables/v1/table=blame_rollup");
    std::fs::create_dir_all(in_the_way.parent().expect("a directory")).expect("it can be made");
    std::fs::write(&in_the_way, b"").expect("it can be written");
    let scene = Scene::new().blame("kworker", RoleKind::RealTime, 5).wait("kworker", 5);
    let first = work(&scene, 5, &[]);
    let why = writer.write(&first).expect_err("something is in the way");
    assert!(why.contains("table=blame_rollup"), "{why}");
    assert_eq!(writer.last, None, "not as if it were written");
    std::fs::remove_file(&in_the_way).expect("it is there");
    let second = work(&scene.blame("kworker", RoleKind::RealTime, 7).wait("kworker", 7), 10, &[]);
    let whole = second.begun.until(&second.now);
    assert_eq!((whole.at, whole.waits[0].ns, whole.blame[0].ns), (at(0).wall, 12, 12));
    assert_eq!(writer.write(&second), Ok(()));
    assert_eq!(writer.last, Some(second.now));
    let files = files(&place.path().join("tables"));
    // Rows of the first interval are not duplicated.
    assert_eq!((of_table(&files, "wait_rollup"), of_table(&files, "blame_rollup")), (1, 1), "{files:#?}");
}

#[test]
fn an_episode_that_cannot_be_written_keeps_no_other_from_it() {
    let place = tempfile::tempdir().expect("a place for files");
    let mut writer = writer(place.path());
    writer.limits.age = Duration::from_secs(10 * 3600);
    let episodes = [episode(0), episode(1), episode(2)];
    let in_the_way = place.path().join("tables").join(Partition::of(EPISODES.name, at(3_600_000).wall).path());
    std::fs::create_dir_all(in_the_way.parent().expect("above it")).expect("made");
    std::fs::write(&in_the_way, b"").expect("it can be written");
    assert!(writer.write(&work(&Scene::new(), 180, &episodes)).is_err());
    let tables = place.path().join("tables");
    let of_episodes = || of_table(&files(&tables), "episodes") - usize::from(in_the_way.is_file());
    assert_eq!(of_episodes(), 2);
    std::fs::remove_file(&in_the_way).expect("it is there");
    assert_eq!(writer.write(&work(&Scene::new(), 185, &episodes)), Ok(()));
    assert_eq!(of_episodes(), 3);
}

/// Rows as text.
#[derive(Default)]
struct Shown(Vec<Vec<String>>);

impl Rows for Shown {
    fn row(&mut self, cells: &[Cell<'_>]) -> Result<(), TableError> {
        self.0.push(cells.iter().map(|cell| format!("{cell:?}")).collect());
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<(), TableError> {
        Ok(())
    }
}

#[test]
fn an_episode_has_the_kernel_of_its_own_time() {
    let place = tempfile::tempdir().expect("a place for files");
    let writer = writer(place.path());
    let mut shown = Shown::default();
    // As read from a log that another kernel's watch has written, and one from before this field existed.
    let of_another_boot = Episode { kernel: Some("5.10.0-before".into()), boot_id: Some("b".into()), ..episode(0) };
    let text = serde_json::to_string(&of_another_boot).expect("JSON");
    let read: Episode = serde_json::from_str(&text).expect("an episode");
    for episode in [read, episode(1), crate::agent::machine::on_this_machine(episode(2), &Board::default())] {
        writer.episode_row(&mut shown, &episode).expect("a row");
    }
    let column = EPISODES.columns.iter().position(|column| column.name == "kernel").expect("a column");
    assert_eq!(shown.0[0].len(), EPISODES.columns.len());
    let kernels: Vec<&str> = shown.0.iter().map(|row| row[column].as_str()).collect();
    assert_eq!(kernels, [r#"Text("5.10.0-before")"#, "Empty", &*format!("Text({:?})", writer.host.kernel)]);
}

#[test]
fn the_trace_of_an_episode_is_that_of_the_one_it_shares() {
    let place = tempfile::tempdir().expect("a place for files");
    let writer = writer(place.path());
    let episode = Episode { id: "20261123-012345-678".into(), ..episode(0) };
    assert_eq!(writer.trace_of(&episode), None);
    let own = Episode { trace_bytes: Some(5), ..episode.clone() };
    assert_eq!(writer.trace_of(&own).as_deref(), Some("file://web1/store/20261123-012345-678/trace.dat"));
    let shared = Episode { trace_of: Some("20261123-012345-600".into()), ..episode };
    assert_eq!(writer.trace_of(&shared).as_deref(), Some("file://web1/store/20261123-012345-600/trace.dat"));
}

/// A log outlasts names and labels: a restart under others reads it, and writes no episode a second time.
#[test]
fn an_episode_has_the_names_of_its_own_time() {
    let place = tempfile::tempdir().expect("a place for files");
    let mut writer = writer(place.path());
    writer.limits.age = Duration::from_secs(10 * 3600);
    let labels = BTreeMap::from([("site".to_owned(), "before".to_owned())]);
    let (host, machine_id) = (Some("before".to_owned()), Some("m".to_owned()));
    let own = Episode { host, machine_id, labels, ..episode(0) };
    let unlabelled = Episode { labels: BTreeMap::new(), ..own.clone() };
    let mut shown = Shown::default();
    for episode in [&own, &unlabelled, &episode(1)] {
        writer.episode_row(&mut shown, episode).expect("a row");
    }
    let column = |name: &str| EPISODES.columns.iter().position(|column| column.name == name).expect("a column");
    let columns = ["host", "machine_id", "labels"].map(column);
    let of = |row: &Vec<String>| columns.map(|column| row[column].clone());
    let [before, id] = [r#"Text("before")"#, r#"Text("m")"#];
    assert_eq!(of(&shown.0[0]), [before, id, r#"Text("site=before")"#]);
    assert_eq!(of(&shown.0[1]), [before, id, "Empty"]);
    assert_eq!(
        of(&shown.0[2]),
        [r#"Text("web1")"#, "Empty", r#"Text("site=fra1")"#],
        "the present ones where it has none"
    );
    for name in ["web1", "web2"] {
        writer.is_called(Host { name: name.to_owned(), ..writer.host.clone() });
        assert_eq!(writer.write(&work(&Scene::new(), 5, std::slice::from_ref(&own))), Ok(()));
    }
    let files = files(&place.path().join("tables"));
    let of_it: Vec<&String> = files.iter().filter(|file| file.contains("table=episodes/")).collect();
    assert!(matches!(&of_it[..], [one] if one.contains("before")), "{files:#?}");
}

#[test]
fn a_host_that_gets_its_name_after_the_start_has_it_from_then_on() {
    let place = tempfile::tempdir().expect("a place for files");
    let board = Board::default();
    let machine = Machine { named: Some("late".into()), ..Machine::default() };
    board.write(|published| published.machine = Arc::new(machine));
    let (work_to, jobs) = channel();
    work_to.send(work(&Scene::new(), 5, &[])).expect("it is open");
    drop(work_to);
    writer(place.path()).run(&jobs, &board);
    let files = files(&place.path().join("tables"));
    assert!(!files.is_empty() && files.iter().all(|file| file.contains("late")), "{files:#?}");
}
