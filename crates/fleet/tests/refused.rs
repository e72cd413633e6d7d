//! Files that were refused are not read again as long as they are the same.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use unstarve_fleet::{
    Asked, CountingKind, DecodeLimits, Done, Examine, Examined, InProcessDecode, Options, Store, Take, Verdicts,
    WhyLeftOut, compact, counting, examine_unmerged,
};
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

    fn read(&self, asked: &Asked<'_>, turn: &dyn Fn() -> bool, take: Take<'_>) {
        self.0.fetch_add(asked.files.len(), Ordering::Relaxed);
        InProcessDecode.read(asked, turn, take);
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

/// What a reader leaves out, as the names of files with a word of why, and how many files it read.
fn left_out(place: &Place, known: &mut Verdicts, (hours, time): (u64, Duration)) -> (BTreeMap<String, String>, usize) {
    let before = place.read.load(Ordering::Relaxed);
    let store = Store::open(&place.path()).expect("it is there").examined_by(Box::new(Counting(place.read.clone())));
    let mut files = counting(&place.path()).expect("it can be read").files;
    files.retain(|file| file.kind == CountingKind::OfHost);
    let now = WallTime(START + (3 + hours) * HOUR);
    let left = examine_unmerged(&store, &files, known, (now, Instant::now() + time)).expect("it can be examined");
    let name = |at: usize| files[at].path.file_stem().expect("a name").to_string_lossy().into_owned();
    let why = |why: WhyLeftOut| match why {
        WhyLeftOut::Refused(why) => why,
        WhyLeftOut::NotExamined(why) => format!("not examined: {why}"),
    };
    let left = left.into_iter().map(|left| (name(left.at), why(left.why))).collect();
    (left, place.read.load(Ordering::Relaxed) - before)
}

const LONG: Duration = Duration::from_secs(600);

/// A reader takes what a compactor would merge, and reads each file once: what it found is kept as text.
#[test]
fn a_reader_examines_each_file_once() {
    let place = Place::new();
    let later = |known: &Verdicts| Verdicts::decode(&known.encode().expect("something new"));
    let mut known = Verdicts::default();
    let (left, read) = left_out(&place, &mut known, (0, LONG));
    assert_eq!((left.len(), read), (BAD, BAD + 1));
    assert!(left["bad0"].contains("Corrupt footer") && !left.contains_key("good"), "{left:?}");
    let mut known = later(&known);
    assert_eq!(left_out(&place, &mut known, (1, LONG)), (left.clone(), 0));
    assert_eq!(known.encode(), None, "nothing is new");
    // One that was repaired, one that was damaged, one that has gone, one that is new.
    for (name, bytes) in [("bad1", row("one")), ("good", b"PAR1 damaged".to_vec()), ("more", row("more"))] {
        place.put(name, &bytes);
    }
    let hour = place.path().join("hosts/v1").join(Partition::of(HOSTS.name, WallTime(START)).path());
    std::fs::remove_file(hour.join("bad2.parquet")).expect("ours");
    let (changed, read) = left_out(&place, &mut known, (1, LONG));
    assert_eq!((changed.len(), read), (BAD - 1, 3));
    assert!(changed.contains_key("good") && !["bad1", "bad2", "more"].iter().any(|name| changed.contains_key(*name)));
    // What was changed just now may change again within one tick of its clock: it is read again, and kept when that has passed.
    place.settle();
    assert_eq!(left_out(&place, &mut known, (1, LONG)), (changed.clone(), 3));
    assert_eq!(left_out(&place, &mut later(&known), (1, LONG)), (changed, 0));
    // Another version may read what this one refuses, and a day later there may be memory.
    let text = String::from_utf8(known.encode().expect("it has changed")).expect("JSON");
    let other = text.replace(env!("CARGO_PKG_VERSION"), "other");
    assert_eq!(left_out(&place, &mut Verdicts::decode(other.as_bytes()), (1, LONG)).1, BAD + 1);
    assert_eq!(left_out(&place, &mut known, (30, LONG)).1, BAD - 1, "good ones stay good");
}

/// What a compactor refused is not read by a reader, who knows nothing yet.
#[test]
fn a_reader_leaves_out_what_a_compactor_refused() {
    let place = Place::new();
    place.compact(0);
    let (left, read) = left_out(&place, &mut Verdicts::default(), (1, LONG));
    assert_eq!((left.len(), read), (BAD, 0), "the good file is merged");
    // A day later it asks for itself, as the compactor does.
    assert_eq!(left_out(&place, &mut Verdicts::default(), (30, LONG)).1, BAD);
    // What follows is another file.
    place.put("bad7", &row("seven"));
    let (left, read) = left_out(&place, &mut Verdicts::default(), (1, LONG));
    assert_eq!((left.len(), left.contains_key("bad7"), read), (BAD - 1, false, 1));
}

/// Without time nothing is examined, and nothing that was not examined is taken.
#[test]
fn a_reader_takes_nothing_that_it_had_no_time_for() {
    let place = Place::new();
    let (left, read) = left_out(&place, &mut Verdicts::default(), (0, Duration::ZERO));
    assert_eq!((left.len(), read), (BAD + 1, 0));
    assert!(left.values().all(|why| why.starts_with("not examined")), "{left:?}");
}
