//! Files that were refused are not read again as long as they are the same.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use unstarve_fleet::{DecodeLimits, Done, Examine, Examined, InProcessDecode, Options, Store, Take, compact};
use unstarve_model::WallTime;
use unstarve_tables::{Cell, HOSTS, Partition, Schema, Shelf, parquet_file};

const HOUR: u64 = 3_600_000_000_000;
const START: u64 = 1_795_305_600_000_000_000;
const BAD: usize = 300;

/// Counts the files that are read.
struct Counting(Arc<AtomicUsize>);

impl Examine for Counting {
    fn examine(&self, table: &'static Schema, bytes: &Bytes, most: DecodeLimits) -> Result<Examined, String> {
        InProcessDecode.examine(table, bytes, most)
    }

    fn rows(
        &self,
        table: &'static Schema,
        files: &[Bytes],
        most: DecodeLimits,
        turn: &dyn Fn() -> bool,
        take: Take<'_>,
    ) {
        self.0.fetch_add(files.len(), Ordering::Relaxed);
        InProcessDecode.rows(table, files, most, turn, take);
    }
}

struct Place {
    place: tempfile::TempDir,
    read: Arc<AtomicUsize>,
}

impl Place {
    /// An hour with bad files and one good file, all of them old enough that a change of one shows.
    fn new() -> Place {
        let place = Place { place: tempfile::tempdir().expect("a place for files"), read: Arc::default() };
        for host in 0..BAD {
            place.put(&format!("bad{host}"), b"PAR1 damaged");
        }
        place.put("good", &row("good"));
        place.settle();
        place
    }

    fn settle(&self) {
        std::thread::sleep(Duration::from_millis(2_200));
    }

    fn path(&self) -> PathBuf {
        self.place.path().join("store")
    }

    fn put(&self, name: &str, bytes: &[u8]) {
        let shelf = Shelf::open(&self.place.path().join("store/hosts")).expect("a directory of our own");
        shelf.put(&Partition::of(HOSTS.name, WallTime(START)), name, bytes).expect("it can be written");
    }

    /// What a run did, so many hours later, and how many files it read.
    fn compact(&self, hours: u64) -> (Done, usize) {
        let before = self.read.load(Ordering::Relaxed);
        let store = Store::open(&self.path()).expect("it is there").examined_by(Box::new(Counting(self.read.clone())));
        let now = WallTime(START + (3 + hours) * HOUR);
        let options = Options { now, settle: Duration::ZERO, grace: Duration::from_secs(3600), keep: None };
        let done = compact(&store, &options).expect("it can be compacted");
        (done, self.read.load(Ordering::Relaxed) - before)
    }

    fn noted(&self) -> PathBuf {
        self.path().join("state/refused.json")
    }
}

fn row(host: &str) -> Vec<u8> {
    let bytes = parquet_file(&HOSTS, |rows| {
        let begin = [Cell::Text(host), Cell::Empty, Cell::Empty, START.into(), Cell::Text("6.12")];
        rows.row(&[&begin[..], &[Cell::Empty; 5], &[Cell::Text("0.1")]].concat())
    });
    bytes.expect("it can be encoded")
}

#[test]
fn bad_files_are_read_once_as_long_as_they_are_the_same() {
    let place = Place::new();
    let (first, read) = place.compact(0);
    assert_eq!((first.inputs, first.refused_before), (1, 0));
    assert!(read > BAD, "{read} files were read");
    let (second, read) = place.compact(1);
    assert_eq!((second.refused_before, read), (BAD as u64, 0));
    let said = &second.problems[0].why;
    assert!(said.starts_with("refused in an earlier run and not changed since"), "{said}");
    assert!(
        said.ends_with(&format!("so were {} more files of this hour, each for a reason of its own", BAD - 1)),
        "{said}"
    );
    // One that is another file by now is read.
    place.put("bad7", &row("seven"));
    let (third, read) = place.compact(2);
    assert_eq!((third.inputs, third.refused_before, read), (1, BAD as u64 - 1, 1));
    // What ended a child may do so no longer: after a day all are read.
    let (later, read) = place.compact(30);
    assert_eq!(later.refused_before, 0);
    assert!(read >= BAD - 1, "{read} files were read");
}

/// Only a compactor writes there, so what is in it was damaged, or is another version's.
#[test]
fn notes_that_cannot_be_read_are_not_used() {
    let place = Place::new();
    place.compact(0);
    let noted = place.noted();
    assert!(noted.exists());
    for text in ["", "{", "[1]", r#"{"version":"0","hours":{}}"#] {
        std::fs::write(&noted, text).expect("it is ours");
        assert_eq!(place.compact(1).0.refused_before, 0, "{text}");
    }
}

#[test]
fn a_file_that_has_just_been_written_is_not_noted() {
    let place = Place::new();
    place.put("bad1", b"PAR1 just now");
    place.compact(0);
    let (done, read) = place.compact(1);
    assert_eq!((done.refused_before, read), (BAD as u64 - 1, 1));
}
