//! Tests of the shelf.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

const HOUR_NS: u64 = 3_600_000_000_000;
const START_TIME: WallTime = WallTime(1_764_000_187_000_000_000);

fn shelf() -> (tempfile::TempDir, Shelf) {
    let place = tempfile::tempdir().expect("a place for files");
    let shelf = Shelf::open(&place.path().join("tables")).expect("a directory of our own");
    (place, shelf)
}

fn at(hour: u64) -> WallTime {
    WallTime(START_TIME.0 + hour * HOUR_NS)
}

fn all(shelf: &Shelf) -> BTreeSet<String> {
    let parts = shelf.parts().expect("it can be read");
    let relative = |part: &Part| part.path.strip_prefix(shelf.path()).expect("below it").display().to_string();
    parts.iter().map(relative).collect()
}

#[test]
fn a_part_is_below_its_table_day_and_hour() {
    let (_place, shelf) = shelf();
    let partition = Partition::of("wait_rollup", START_TIME);
    shelf.put(&partition, "web1-1", b"old and longer").expect("it can be written");
    shelf.put(&partition, "web1-1", b"new").expect("it can be written again");
    let only = "v1/table=wait_rollup/date=2025-11-24/hour=16/web1-1.parquet";
    assert_eq!(all(&shelf), BTreeSet::from([only.to_owned()]));
    assert_eq!(fs::read(shelf.path().join(only)).expect("it is there"), b"new");
    assert!(shelf.has(&partition, "web1-1") && !shelf.has(&partition, "web1-2"));
}

/// A process killed while writing leaves a file that is not counted, and that the next write of the same part replaces.
#[test]
fn what_was_not_finished_is_no_part() {
    let (_place, shelf) = shelf();
    let partition = Partition::of("hosts", START_TIME);
    shelf.put(&partition, "a", b"whole").expect("it can be written");
    let directory = shelf.path().join(LAYOUT_NAME).join(partition.path());
    fs::write(directory.join(".new-b.parquet"), b"to").expect("it can be written");
    assert_eq!(all(&shelf).len(), 1);
    shelf.put(&partition, "b", b"x").expect("it can be written");
    assert_eq!(fs::read(directory.join("b.parquet")).expect("it is there"), b"x");
    assert!(!directory.join(".new-b.parquet").exists());
}

#[test]
fn old_hours_go_and_then_the_oldest_parts() {
    let (_place, shelf) = shelf();
    for hour in 0..10 {
        shelf.put(&Partition::of("hosts", at(hour)), "a", &[0; 100]).expect("it can be written");
    }
    let stranger = shelf.path().join("v1/table=hosts/date=2025-11-24/hour=16/notes.txt");
    fs::write(&stranger, b"mine").expect("it can be written");
    let limits = Limits { bytes: 10_000, age: Duration::from_secs(5 * 3600) };
    assert_eq!(shelf.trim(limits, at(9)).expect("it can be trimmed"), 4);
    assert_eq!(shelf.trim(limits, at(9)).expect("it can be trimmed"), 0);
    let limits = Limits { bytes: 250, ..limits };
    assert_eq!(shelf.trim(limits, at(9)).expect("it can be trimmed"), 4);
    let left = all(&shelf);
    assert!(left.len() == 2 && left.iter().all(|path| path.contains("date=2025-11-25")), "{left:?}");
    assert!(stranger.exists(), "not ours");
    assert!(!shelf.path().join("v1/table=hosts/date=2025-11-24/hour=17").exists(), "an empty directory");
}

/// Tables of the layout before `v1` stay where they are, count, and go by the same limits.
#[test]
fn parts_of_the_layout_before_are_kept_and_removed_as_others() {
    let (_place, shelf) = shelf();
    for hour in 0..10 {
        let partition = Partition::of("hosts", at(hour));
        if hour < 5 {
            let directory = shelf.path().join(partition.path());
            fs::create_dir_all(&directory).expect("it can be made");
            fs::write(directory.join("a.parquet"), [0; 100]).expect("it can be written");
        } else {
            shelf.put(&partition, "a", &[0; 100]).expect("it can be written");
        }
        assert!(shelf.has(&partition, "a"), "{hour}");
    }
    let limits = Limits { bytes: 10_000, age: Duration::from_secs(7 * 3600) };
    assert_eq!(shelf.trim(limits, at(9)).expect("it can be trimmed"), 2, "by age");
    assert_eq!(shelf.trim(Limits { bytes: 600, ..limits }, at(9)).expect("it can be trimmed"), 2, "by size");
    let left = all(&shelf);
    let of_v1 = left.iter().filter(|path| path.starts_with("v1/")).count();
    assert_eq!((left.len(), of_v1), (6, 5), "{left:?}");
}

#[test]
fn a_shelf_that_others_can_write_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let place = tempfile::tempdir().expect("a place for files");
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o777)).expect("it is ours");
    assert!(matches!(Shelf::open(&place.path().join("tables")), Err(ShelfError::Untrusted(_))));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the host's name, its part is a single file in its directory, and plain names are unchanged.
    #[test]
    fn names_lead_nowhere(words in proptest::collection::vec(".{0,80}", 1..4)) {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let name = part_name(&words);
        prop_assert!(name.len() <= MAX_PART_NAME && !name.starts_with('.') && !name.contains(['/', '\0', '=']));
        prop_assert_eq!(part_name(&["web-1.example", "x"]), "web_1.example-x");
    }
}

#[test]
fn a_clock_that_is_ahead_makes_nothing_old() {
    let (_place, shelf) = shelf();
    for hour in 0..10 {
        shelf.put(&Partition::of("hosts", at(hour)), "a", &[0; 100]).expect("it can be written");
    }
    let limits = Limits { bytes: 10_000, age: Duration::from_secs(5 * 3600) };
    let years = at(24 * 365 * 30);
    assert_eq!(
        shelf.trim(limits, years).expect("it can be trimmed"),
        4,
        "those that are older than the newest by as much"
    );
    assert_eq!(all(&shelf).len(), 6);
    assert_eq!(shelf.trim(limits, at(9)).expect("it can be trimmed"), 0);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_hour_begins_where_its_names_do(ns in any::<u64>()) {
        let begin = Partition::of("hosts", WallTime(ns)).begin();
        prop_assert_eq!(begin, Some(WallTime(ns - ns % HOUR_NS)));
    }
}
