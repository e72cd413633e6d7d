//! Tests of merging the files of an hour.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Float64Array, Int64Array, ListArray, RecordBatch, StringArray, TimestampMicrosecondArray};
use bytes::Bytes;
use parquet::arrow::ArrowWriter;
use unstarve_model::WallTime;
use unstarve_tables::{HOSTS, LAYOUT_NAME, Partition, Shelf};

use super::*;
use crate::commit::{COMMIT_BYTES, Commit};
use crate::decode::{Asked, Examine, InProcessDecode, Run};
use crate::merge::chunk::{Chunk, FULL_MEMORY};
use crate::store::{Depth, Readers, Store, Tree};

const START: u64 = 1_795_305_600_000_000_000;

fn partition() -> Partition {
    Partition::of(HOSTS.name, WallTime(START))
}

/// A row of a host, with a column that the table does not have.
fn file(host: &str, odd: Option<ArrayRef>) -> Vec<u8> {
    let name: ArrayRef = Arc::new(StringArray::from(vec![host]));
    let ts: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![(START / 1000) as i64]).with_timezone("UTC"));
    let version: ArrayRef = Arc::new(StringArray::from(vec!["0.1"]));
    let needed = [("host", name), ("ts", ts), ("unstarve", version)];
    let columns = needed.into_iter().chain(odd.map(|odd| ("nice", odd)));
    let batch = RecordBatch::try_from_iter(columns).expect("columns of one length");
    let mut bytes = Vec::new();
    let mut out = ArrowWriter::try_new(&mut bytes, batch.schema(), None).expect("memory");
    out.write(&batch).expect("memory");
    out.close().expect("memory");
    bytes
}

fn i64s() -> Option<ArrayRef> {
    Some(Arc::new(Int64Array::from(vec![1])))
}

fn lists() -> Option<ArrayRef> {
    Some(Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>([Some([Some(1)])])))
}

fn f64s() -> Option<ArrayRef> {
    Some(Arc::new(Float64Array::from(vec![1.0])))
}

fn texts() -> Option<ArrayRef> {
    Some(Arc::new(StringArray::from(vec!["x"])))
}

/// An hour with the files of these hosts.
struct Place {
    place: tempfile::TempDir,
    shelf: Shelf,
}

impl Place {
    fn with(files: &[(&str, Option<ArrayRef>)]) -> Place {
        let place = tempfile::tempdir().expect("a place for files");
        let shelf = Shelf::open(&place.path().join("store/hosts")).expect("a directory of our own");
        for (host, odd) in files {
            shelf.put(&partition(), host, &file(host, odd.clone())).expect("it can be written");
        }
        Place { place, shelf }
    }

    fn path(&self, host: &str) -> PathBuf {
        self.shelf.path().join(LAYOUT_NAME).join(partition().path()).join(format!("{host}.parquet"))
    }

    fn store(&self) -> Store {
        Store::open(&self.place.path().join("store")).expect("it is there")
    }

    /// Number of merged files in an hour that may have this many, and the reasons for hosts' files that were refused.
    fn merged(&self, most_outputs: usize) -> (usize, Vec<(String, String)>) {
        let (commit, problems) = self.commit(most_outputs, COMMIT_BYTES);
        (commit.head.outputs.len(), problems)
    }

    fn commit(&self, most_outputs: usize, commit_bytes: u64) -> (Commit, Vec<(String, String)>) {
        let (store, mut done) = (self.store(), Done::default());
        let hour = Hour::read(&store, &partition(), Depth::Whole, &mut done.problems).expect("it can be read");
        let state = store.make(Tree::State, &partition()).expect("it can be made");
        let (now, grace) = (WallTime(2 * START), Duration::ZERO);
        let options = Options { now, settle: grace, grace, keep: None };
        let mut refusals = Refusals::read(&store, options.now, &mut done.problems);
        let mut files = OutputFiles::of(&hour, &state, &HOSTS, most_outputs);
        files.commit_bytes = commit_bytes;
        let made = merge_into(files, &state, &options, &mut refusals, &mut done).expect("it can be written");
        let host = |path: &PathBuf| path.file_stem().expect("a name").to_string_lossy().into_owned();
        let problems = done.problems.iter().map(|problem| (host(&problem.path), problem.why.clone())).collect();
        (made.expect("something to merge"), problems)
    }
}

/// Files whose columns fit, and files without extra columns, are merged however full the hour is.
#[test]
fn a_full_hour_leaves_out_only_what_needs_one_more_file() {
    let files = [("a", i64s()), ("b", texts()), ("c", lists()), ("d", f64s()), ("e", lists()), ("f", None)];
    let (outputs, problems) = Place::with(&files).merged(3);
    let [(host, why)] = &problems[..] else { panic!("{problems:?}") };
    assert_eq!((outputs, host.as_str()), (4, "d"), "{problems:?}");
    assert!(why.contains("the hour has 3 merged files already"), "{why}");
}

/// A commit that would be too large to be read again is not made: what does not fit is left to the next run.
#[test]
fn a_full_commit_takes_no_more_files() {
    let place = Place::with(&[("a", None), ("b", None), ("c", None)]);
    let line = crate::commit::Input::most_line_bytes("a.parquet");
    let (commit, problems) = place.commit(9, 2 * line);
    let [(_, why)] = &problems[..] else { panic!("{problems:?}") };
    assert!(commit.inputs.len() == 2 && why.contains("1 files are left to the next run"), "{why}");
}

/// If other readers require a new file anyway, columns need no further one.
#[test]
fn other_readers_have_a_file_in_a_full_hour() {
    let place = Place::with(&[("a", i64s()), ("b", texts()), ("c", lists())]);
    for (host, mode) in [("a", 0o600), ("b", 0o644), ("c", 0o644)] {
        std::fs::set_permissions(place.path(host), PermissionsExt::from_mode(mode)).expect("ours");
    }
    let (outputs, problems) = place.merged(1);
    let refused: Vec<&str> = problems.iter().map(|(host, _)| host.as_str()).collect();
    assert_eq!((outputs, refused), (2, vec!["c"]), "{problems:?}");
}

/// A group that may read a host's file may read the merged file, and no other group may.
#[test]
fn rows_of_one_group_are_not_anothers() {
    if !rustix::process::geteuid().is_root() {
        // Written past the test harness, which hides the output of passed tests.
        let said = b"\nskipped: rows_of_one_group: it takes root to give files to any group\n";
        std::io::Write::write_all(&mut std::io::stdout(), said).expect("it can be said");
        return;
    }
    // In a directory that only root may enter.
    let place = Place::with(&[("a", None), ("b", None), ("c", None)]);
    for (host, group) in [("a", 3001), ("b", 3002), ("c", 3001)] {
        std::fs::set_permissions(place.path(host), PermissionsExt::from_mode(0o640)).expect("ours");
        std::os::unix::fs::chown(place.path(host), None, Some(group)).expect("root may");
    }
    let (outputs, problems) = place.merged(8);
    assert_eq!((outputs, problems.len()), (2, 0), "{problems:?}");
    let hour = place.place.path().join("store/state").join(LAYOUT_NAME).join(partition().path());
    let merged = std::fs::read_dir(hour).expect("it is there").map(|entry| entry.expect("it is there"));
    let merged = merged.filter(|entry| entry.file_name().to_string_lossy().starts_with("merged-"));
    let found = merged.map(|entry| entry.metadata().expect("it is there"));
    let mut readers: Vec<_> = found.map(|found| (found.mode() & 0o777, found.gid())).collect();
    readers.sort_unstable();
    assert_eq!(readers, [(0o640, 3001), (0o640, 3002)]);
}

/// Rows with and without extra columns are held at the same time, within the memory of one file.
#[test]
fn both_chunks_together_have_the_memory_of_one() {
    let (place, mut done) = (Place::with(&[("a", None)]), Done::default());
    let store = place.store();
    let hour = Hour::read(&store, &partition(), Depth::Whole, &mut done.problems).expect("it can be read");
    let state = store.make(Tree::State, &partition()).expect("it can be made");
    let readers = Readers::default();
    let mut merge = OutputFiles::of(&hour, &state, &HOSTS, 1);
    let mut push = |odd: Option<ArrayRef>, mib: usize| {
        let mut run = None;
        let files = [Bytes::from(file("a", odd))];
        let asked = Asked { table: &HOSTS, files: &files, most: DecodeLimits::INPUT, wants: Wants::Rows };
        InProcessDecode.read(&asked, &|| true, &mut |answer| {
            run = answer.ok();
            true
        });
        let run = Run { memory: mib << 20, ..run.expect("a good file") };
        assert!(merge.push(run, readers).is_ok());
        let memory = merge.chunks.iter().map(Chunk::memory).sum::<usize>();
        assert!(memory <= FULL_MEMORY, "{} MiB", memory >> 20);
        (merge.outputs.len(), merge.chunks.each_ref().map(|chunk| chunk.rows))
    };
    assert_eq!(push(None, 100), (0, [1, 0]));
    assert_eq!(push(i64s(), 100), (0, [1, 1]));
    // The larger chunk is written, whichever kind of rows is added.
    assert_eq!(push(i64s(), 60), (1, [1, 1]));
    assert_eq!(push(i64s(), 20), (1, [1, 2]));
    assert_eq!(push(i64s(), 100), (2, [1, 1]));
    assert_eq!(push(None, 250), (4, [1, 0]));
}
