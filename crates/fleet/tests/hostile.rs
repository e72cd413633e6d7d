//! What a host can put into a directory of many hosts, and what it cannot do with that.

use std::cell::Cell as Flag;
use std::collections::BTreeSet;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, TimestampMicrosecondType, UInt64Type};
use arrow_array::{
    Array, ArrayRef, Float64Array, Int32Array, Int64Array, ListArray, RecordBatch, StringArray,
    TimestampMicrosecondArray, TimestampNanosecondArray, UInt32Array, UInt64Array,
};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use unstarve_fleet::{
    COMMIT_BYTES, Commit, DecodeLimits, Done, Effect, Input, Name, Needed, Options, Problem, Store, compact, decode,
    live, status, verify,
};
use unstarve_model::WallTime;
use unstarve_tables::{Cell, HOSTS, Partition, Shelf, arrow_type, parquet_file};

const HOUR: u64 = 3_600_000_000_000;
const START: u64 = 1_795_305_600_000_000_000;
const NOW: u64 = START + 10 * HOUR;

struct Place {
    place: tempfile::TempDir,
    shelf: Shelf,
}

impl Place {
    fn new() -> Place {
        let place = tempfile::tempdir().expect("a place for files");
        let shelf = Shelf::open(&place.path().join("tables")).expect("a directory of our own");
        Place { place, shelf }
    }

    fn path(&self) -> PathBuf {
        self.place.path().join("tables/v1")
    }

    fn store(&self) -> Store {
        Store::open(&self.path()).expect("it is there")
    }

    /// A row of a host.
    fn write(&self, hour: u64, host: &str) {
        self.shelf.put(&partition(hour), host, &file(host)).expect("it can be written");
    }

    fn hour(&self, hour: u64) -> PathBuf {
        self.path().join(partition(hour).path())
    }

    fn compact(&self) -> Done {
        compact(&self.store(), &options(NOW)).expect("it can be compacted")
    }

    /// The hosts of an hour that a reader sees, sorted.
    fn hosts(&self, hour: u64) -> Vec<String> {
        let mut hosts = Vec::new();
        for (partition, files) in live(&self.store()).expect("it can be read") {
            if partition.begin() != Some(WallTime(START + hour * HOUR)) {
                continue;
            }
            for name in files.outputs.into_iter().map(|output| output.name).chain(files.loose) {
                let bytes = std::fs::read(self.path().join(partition.path()).join(&name)).expect("it counts");
                for batch in decode(bytes, &HOSTS, DecodeLimits::INPUT).expect("rows").batches {
                    let names = batch.column_by_name("host").expect("a column").as_string::<i32>().clone();
                    hosts.extend(names.iter().flatten().map(str::to_owned));
                }
            }
        }
        hosts.sort();
        hosts
    }

    fn merged(&self, hour: u64) -> Vec<String> {
        let all = names(&self.hour(hour));
        all.into_iter().filter(|name| matches!(Name::of(name), Name::Merged(_))).collect()
    }
}

fn options(now: u64) -> Options {
    Options { now: WallTime(now), settle: Duration::ZERO, grace: Duration::from_secs(3600), keep: None }
}

/// A column of a list.
fn list() -> ArrayRef {
    Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>([Some([Some(1)])]))
}

fn partition(hour: u64) -> Partition {
    Partition::of(HOSTS.name, WallTime(START + hour * HOUR))
}

fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).expect("it is there");
    entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8")).collect()
}

fn file(host: &str) -> Vec<u8> {
    let bytes = parquet_file(&HOSTS, |rows| {
        let begin = [Cell::Text(host), Cell::Empty, Cell::Empty, START.into(), Cell::Text("6.12")];
        rows.row(&[&begin[..], &[Cell::Empty; 5], &[Cell::Text("0.1")]].concat())
    });
    bytes.expect("it can be encoded")
}

fn parquet(columns: Vec<(String, ArrayRef)>) -> Vec<u8> {
    let batch = RecordBatch::try_from_iter(columns).expect("columns of one length");
    let mut bytes = Vec::new();
    let mut out = ArrowWriter::try_new(&mut bytes, batch.schema(), None).expect("it can be encoded");
    out.write(&batch).expect("it can be encoded");
    out.close().expect("it can be encoded");
    bytes
}

fn says(done: &Done, words: &[&str]) {
    let is_meant =
        |why: &str, path: &Path| words.iter().all(|word| why.contains(word) || path.to_string_lossy().contains(word));
    assert!(done.problems.iter().any(|problem| is_meant(&problem.why, &problem.path)), "{words:?}: {done:?}");
}

/// Who owns the directory of an hour can bring root's commit of another hour into it, with its files.
#[test]
fn a_commit_of_another_hour_is_passed_over() {
    let place = Place::new();
    place.write(0, "a");
    place.compact();
    place.write(1, "b");
    for name in names(&place.hour(0)) {
        if name != "a.parquet" {
            std::fs::copy(place.hour(0).join(&name), place.hour(1).join(&name)).expect("it can be copied");
        }
    }
    assert_eq!(place.hosts(1), ["b"]);
    let done = place.compact();
    says(&done, &["_commit-00000001.json", "passed over", "hour=00"]);
    assert_eq!((done.hours, place.hosts(0), place.hosts(1)), (1, vec!["a".to_owned()], vec!["b".to_owned()]));
    assert!(place.hour(1).join("_commit-00000002.json").exists());
    // The number 1 is taken, so that what was brought along is garbage.
    assert_eq!(place.merged(1).len(), 1);
    assert!(verify(&place.store()).expect("it can be read").problems.iter().all(|it| it.why.contains("passed over")));
}

/// What is called like a commit and is none stops neither an hour nor its readers, whatever number it has.
#[test]
fn what_is_only_called_like_a_commit_is_passed_over() {
    for number in [1, 2, 99_999_999, u64::MAX] {
        let place = Place::new();
        place.write(0, "a");
        symlink("/etc/hostname", place.hour(0).join(Name::commit(number))).expect("it can be made");
        std::fs::create_dir(place.hour(0).join(Name::commit(77))).expect("it can be made");
        assert_eq!(place.hosts(0), ["a"]);
        let done = place.compact();
        says(&done, &[&Name::commit(number), "passed over"]);
        says(&done, &[&Name::commit(77), "passed over"]);
        place.write(0, "b");
        assert_eq!((done.hours, place.compact().hours, place.hosts(0).len()), (1, 1, 2), "{number}");
        place.write(0, "c");
        assert_eq!((place.compact().lost, place.hosts(0).len()), (0, 3), "{number}");
    }
}

/// However many there are, few are listed and the rest is counted; and they are not opened, so that an hour takes no longer than looking at its names.
#[test]
fn planted_commits_are_counted_and_cost_little() {
    let place = Place::new();
    place.write(0, "a");
    for number in 1..=3000 {
        symlink("/etc/hostname", place.hour(0).join(Name::commit(number))).expect("it can be made");
    }
    // They hide neither another kind of problem nor another hour's.
    place.shelf.put(&partition(0), "b", b"damaged").expect("it can be written");
    place.shelf.put(&partition(1), "c", b"damaged").expect("it can be written");
    let mut verified = verify(&place.store()).expect("it can be read").problems;
    verified.sort();
    let done = place.compact();
    assert_eq!((done.hours, done.problems.len(), done.rows), (1, 12, 1), "{done:?}");
    assert_eq!(done.problems.iter().map(|problem| problem.more).sum::<u64>(), 2990);
    says(&done, &["b.parquet"]);
    says(&done, &["c.parquet"]);
    assert_eq!(verified, done.problems, "each is said once");
}

/// A name that is no plain text: what `unstarve sql` passes over is not merged, and it is said, harmlessly.
#[test]
fn strange_names_are_left_alone_and_said() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let place = Place::new();
    place.write(0, "a");
    let strange: [&[u8]; 4] = [b"b\x1b[2J.parquet", b"c\n.parquet", b"d\xff.parquet", "e\u{9b}.parquet".as_bytes()];
    for name in strange {
        std::fs::write(place.hour(0).join(OsStr::from_bytes(name)), file("x")).expect("it can be written");
    }
    for directory in [&b"table=\xff"[..], b"table=hosts/date=\t"] {
        std::fs::create_dir(place.path().join(OsStr::from_bytes(directory))).expect("it can be made");
    }
    let done = place.compact();
    assert_eq!((done.rows, place.hosts(0)), (1, vec!["a".to_owned()]));
    let hour = partition(0).path().display().to_string();
    let said: Vec<String> = done.problems.iter().map(|it| format!("{}: {}", it.path.display(), it.why)).collect();
    let why = "left alone: its name has control characters or is no UTF-8";
    assert_eq!(
        said,
        [
            format!("table=\\xff: {why}"),
            format!("{hour}/b\\u{{1b}}[2J.parquet: {why}, as 3 more beside it"),
            format!("table=hosts/date=\\t: {why}"),
        ]
    );
    assert!(serde_json::to_string(&done).is_ok());
    for name in strange {
        assert!(place.hour(0).join(OsStr::from_bytes(name)).exists(), "it was left alone");
    }
}

/// An earlier version merged such files: its commits hold.
#[test]
fn commits_of_early_versions_may_list_strange_names() {
    let place = Place::new();
    place.write(0, "a");
    place.compact();
    let path = place.hour(0).join(Name::commit(1));
    let key = partition(0).path().display().to_string();
    let mut commit = Commit::decode(1, &key, &std::fs::read(&path).expect("it is there")).expect("a commit");
    commit.inputs[0].name = "a\x1b.parquet".to_owned();
    std::fs::rename(place.hour(0).join("a.parquet"), place.hour(0).join("a\x1b.parquet")).expect("ours");
    std::fs::write(&path, commit.encode()).expect("it can be written");
    assert_eq!(place.hosts(0), ["a"]);
    says(&place.compact(), &["left alone", "a\\u{1b}.parquet"]);
    assert_eq!(place.hosts(0), ["a"]);
}

/// The same by a user of its own; and the commit of the store's keeper is an error as before: without it rows would be missing.
#[test]
fn a_commit_of_another_user_is_passed_over_unless_he_keeps_the_store() {
    let place = Place::new();
    place.write(0, "a");
    let fake = place.hour(0).join(Name::commit(99_999_999));
    std::fs::write(&fake, b"{}\n").expect("it can be written");
    if std::os::unix::fs::chown(&fake, Some(65_534), None).is_err() {
        unstarve_testing::not_possible_here("only root can give files away");
        return;
    }
    says(&place.compact(), &["99999999", "passed over", "belongs to user 65534"]);
    place.write(0, "b");
    assert_eq!((place.compact().hours, place.hosts(0).len()), (1, 2));
    let manifest = place.path().join("manifest.parquet");
    std::os::unix::fs::chown(&manifest, Some(65_534), None).expect("root can");
    assert!(live(&place.store()).is_err());
    // Running `compact` does not make its user the keeper, and what the other one's commits list stays.
    let before = names(&place.hour(0));
    says(&place.compact(), &["manifest.parquet", "nothing is removed"]);
    assert_eq!((std::fs::metadata(&manifest).expect("there").uid(), names(&place.hour(0))), (65_534, before));
    assert!(live(&place.store()).is_err());
}

/// Merged rows that somebody copied without their commits: nobody knows which of them count, and nothing may take them away.
#[test]
fn merged_rows_without_their_commit_are_said_and_kept() {
    let place = Place::new();
    place.write(0, "a");
    place.compact();
    let merged = place.merged(0);
    for name in names(&place.hour(0)).iter().filter(|name| !merged.contains(name)) {
        std::fs::remove_file(place.hour(0).join(name)).expect("ours");
    }
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(3 * 24 * 3600);
    let file = std::fs::File::options().write(true).open(place.hour(0).join(&merged[0])).expect("there");
    file.set_modified(long_ago).expect("ours");
    assert_eq!(place.compact().hours, 0);
    assert_eq!(names(&place.hour(0)), merged, "it is still there");
    let verified = unstarve_fleet::verify(&place.store()).expect("it can be read");
    let said: Vec<&str> = verified.problems.iter().map(|problem| problem.why.as_str()).collect();
    assert!(said.iter().any(|why| why.contains("no commit that lists them")), "{said:?}");
}

/// A directory that is called like merged rows stops nothing.
#[test]
fn a_directory_called_like_merged_rows_stops_no_sweep() {
    let place = Place::new();
    place.write(0, "a");
    std::fs::create_dir(place.hour(0).join("merged-by-commit-00000001-0000000000000000.parquet")).expect("made");
    place.compact();
    let before = names(&place.hour(0)).len();
    compact(&place.store(), &options(NOW + 2 * HOUR)).expect("it can be compacted");
    assert_eq!(names(&place.hour(0)).len(), before - 1, "the host's file is gone");
    assert_eq!(place.hosts(0), ["a"]);
}

/// Early versions did not say the hour. Where only the owner can bring files, their commits hold, and get it; elsewhere they are an error.
#[test]
fn a_commit_without_its_hour_holds_where_nobody_else_can_bring_one() {
    let place = Place::new();
    place.write(0, "a");
    place.compact();
    let commit = place.hour(0).join(Name::commit(1));
    let text = std::fs::read(&commit).expect("it is there");
    let mut early = Commit::decode(1, &partition(0).path().display().to_string(), &text).expect("a commit");
    early.head.hour = None;
    std::fs::write(&commit, early.encode()).expect("it can be written");
    std::fs::set_permissions(place.hour(0), PermissionsExt::from_mode(0o777)).expect("ours");
    says(&place.compact(), &["_commit-00000001.json", "does not say its hour", "755"]);
    assert!(live(&place.store()).is_err());
    std::fs::set_permissions(place.hour(0), PermissionsExt::from_mode(0o755)).expect("ours");
    assert_eq!(place.hosts(0), ["a"]);
    let done = place.compact();
    assert_eq!((done.problems, done.hours, place.hosts(0)), (Vec::new(), 0, vec!["a".to_owned()]));
    let text = std::fs::read_to_string(place.hour(0).join(Name::commit(2))).expect("it was renewed");
    assert!(text.contains("\"hour\":\"table=hosts/"), "{text}");
}

/// What a file announces is refused before it is read; what is left for a decoder to find out is the child's (crates/cli/tests).
#[test]
fn files_that_announce_too_much_are_refused() {
    let place = Place::new();
    place.write(0, "good");
    let hosts = |rows: usize| ("host".to_owned(), Arc::new(StringArray::from(vec!["x"; rows])) as ArrayRef);
    let number = |name: String| (name, Arc::new(Int64Array::from(vec![1])) as ArrayRef);
    let many = (0..40).map(|at| number(format!("c{at}"))).chain([hosts(1)]).collect();
    let long = vec![hosts(1), number("n".repeat(65))];
    // As many columns as the table may have with those of a newer version, but none of them is the table's.
    let foreign = (0..HOSTS.columns.len() + 16).map(|at| number(format!("c{at}"))).collect();
    for (name, bytes, why) in [
        ("many", parquet(many), "columns"),
        ("foreign", parquet(foreign), "columns that hosts does not have; expected at most 16"),
        ("hollow", hollow(), "it has no column"),
        ("long", parquet(long), "a name of 65 bytes"),
        ("rows", announcing(parquet(vec![hosts(1)])), "rows"),
    ] {
        place.shelf.put(&partition(0), name, &bytes).expect("it can be written");
        let done = place.compact();
        says(&done, &[name, why]);
        std::fs::remove_file(place.hour(0).join(format!("{name}.parquet"))).expect("it was left alone");
    }
    assert_eq!(place.hosts(0), ["good"]);
    // What the end announces, and what the rows then take though it announced less: texts that a dictionary repeats.
    let different: Vec<String> = (0..64).map(|at| format!("{at}{}", "x".repeat(1 << 16))).collect();
    for texts in [different, vec!["x".repeat(1 << 16); 64]] {
        let large: ArrayRef = Arc::new(StringArray::from(texts));
        let most = DecodeLimits { memory: 1 << 20, needed: Needed::Nothing, ..DecodeLimits::INPUT };
        let why = decode(parquet(vec![("host".to_owned(), large)]), &HOSTS, most).expect_err("refused");
        assert!(why.contains("1048576 bytes of memory"), "{why}");
    }
}

/// A file without a column that announces as many rows as one may have.
fn hollow() -> Vec<u8> {
    const END: &[u8] = b"\x15\x02\x19\x1cH\x06schema\x15\x00\x00\x16\x80\x80\x80\x02\x19\x1c\x19\x0c\x16\x00\x16\x80\x80\x80\x02\x00\x00";
    [b"PAR1", END, &(END.len() as u32).to_le_bytes(), b"PAR1"].concat()
}

/// The same file; its end says that it has as many rows as a number can be. They are the third field of what a Parquet file ends with, behind its
/// version and its schema: before the groups of rows, whose own count of the same value comes later.
fn announcing(bytes: Vec<u8>) -> Vec<u8> {
    let length = bytes.len();
    let end = u32::from_le_bytes(bytes[length - 8..length - 4].try_into().expect("four bytes")) as usize;
    let (data, metadata) = (&bytes[..length - 8 - end], &bytes[length - 8 - end..length - 8]);
    // `16 02`: the next field, a number of 64 bits, 1 as it is written there.
    let at = metadata.windows(2).position(|pair| pair == [0x16, 0x02]).expect("the rows");
    let most = [0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
    let metadata = [&metadata[..at + 1], &most, &metadata[at + 2..]].concat();
    [data, &metadata, &(metadata.len() as u32).to_le_bytes(), b"PAR1"].concat()
}

/// A row of a host with columns that the table does not have.
fn odd(host: &str, more: &[(&str, ArrayRef)]) -> Vec<u8> {
    let more = more.iter().map(|(name, column)| ((*name).to_owned(), Arc::clone(column)));
    parquet(needed(host).into_iter().chain(more).collect())
}

/// The columns that each file of `hosts` has, of one row.
fn needed(host: &str) -> Vec<(String, ArrayRef)> {
    let ts = TimestampMicrosecondArray::from(vec![(START / 1000) as i64]).with_timezone("UTC");
    vec![
        ("host".to_owned(), Arc::new(StringArray::from(vec![host]))),
        ("ts".to_owned(), Arc::new(ts)),
        ("unstarve".to_owned(), Arc::new(StringArray::from(vec!["0.1"]))),
    ]
}

/// Rows that nobody can place stay where they are: those without a host or a time, and those with empty cells where none is ever empty. What an older version did not know is empty.
#[test]
fn rows_that_cannot_be_placed_are_left_alone() {
    let place = Place::new();
    place.shelf.put(&partition(0), "older", &parquet(needed("older"))).expect("it can be written");
    let without = |name: &str| parquet(needed("x").into_iter().filter(|(column, _)| column != name).collect());
    let with = |name: &str, cells: ArrayRef| {
        let columns = needed("x").into_iter();
        parquet(
            columns.map(|(column, old)| if column == name { (column, cells.clone()) } else { (column, old) }).collect(),
        )
    };
    let no_time: ArrayRef = Arc::new(TimestampMicrosecondArray::new_null(1).with_timezone("UTC"));
    // The name of a host may be unknown: a snapshot of another machine has none.
    let no_host: ArrayRef = Arc::new(StringArray::new_null(1));
    place.shelf.put(&partition(0), "unknown", &with("host", no_host)).expect("it can be written");
    let refused = [
        ("no-host", without("host"), "no column `host`"),
        ("no-ts", without("ts"), "no column `ts`"),
        ("no-version", without("unstarve"), "no column `unstarve`"),
        ("empty-ts", with("ts", no_time), "column `ts` has empty cells"),
    ];
    for (name, bytes, _) in &refused {
        place.shelf.put(&partition(0), name, bytes).expect("it can be written");
    }
    let done = place.compact();
    assert_eq!((done.inputs, done.rows, done.problems.len()), (2, 2, 4), "{done:?}");
    let verified = verify(&place.store()).expect("it can be read");
    assert_eq!(verified.problems, done.problems, "they are named again");
    for (name, bytes, why) in refused {
        says(&done, &[name, why]);
        let path = place.hour(0).join(format!("{name}.parquet"));
        assert_eq!(std::fs::read(path).expect("it is there"), bytes);
    }
}

/// Merged rows of an early version, which merged whatever it was given, are read and merged again.
#[test]
fn merged_rows_may_lack_columns() {
    let place = Place::new();
    let bytes = parquet(needed("a").into_iter().take(1).collect());
    assert!(decode(bytes.clone(), &HOSTS, DecodeLimits::INPUT).is_err());
    assert_eq!(decode(bytes, &HOSTS, DecodeLimits::OUTPUT).expect("rows").rows, 1);
    place.write(0, "b");
    assert_eq!((place.compact().problems, place.hosts(0)), (Vec::new(), vec!["b".to_owned()]));
}

/// Files that are in no hour are named, each directory's in one line, and stay.
#[test]
fn files_in_no_hour_are_named() {
    let place = Place::new();
    place.write(0, "a");
    let table = format!("table={}", HOSTS.name);
    let date = partition(0).path().parent().expect("a date").display().to_string();
    let hour = partition(0).path().display().to_string();
    let strays = [
        format!("{table}/b.parquet"),
        format!("{table}/a.parquet"),
        format!("{date}/c.parquet"),
        format!("{date}/07/d.parquet"),
        format!("{hour}/deeper/e.parquet"),
        "waits.parquet".to_owned(),
        format!("web1/{table}/f.parquet"),
    ];
    let others = ["notes.txt".to_owned(), format!("{table}/_SUCCESS"), format!("{date}/.g.parquet.Xq3")];
    for path in strays.iter().chain(&others).map(|path| place.path().join(path)) {
        std::fs::create_dir_all(path.parent().expect("a directory")).expect("it can be made");
        std::fs::write(path, file("x")).expect("it can be written");
    }
    let done = place.compact();
    let named: Vec<String> = done.problems.iter().map(|problem| problem.path.display().to_string()).collect();
    assert_eq!(named, [format!("{table}/a.parquet"), format!("{date}/07"), format!("{hour}/deeper")]);
    assert!(done.problems.iter().take(2).all(|problem| problem.why.ends_with("as 1 more beside it")), "{done:?}");
    assert_eq!(done.beside, [PathBuf::from("waits.parquet"), PathBuf::from("web1")]);
    assert_eq!((done.rows, place.hosts(0)), (1, vec!["a".to_owned()]));
    for path in &strays {
        assert!(place.path().join(path).exists(), "{path}");
    }
    let verified = verify(&place.store()).expect("it can be read");
    let status = status(&place.store()).expect("it can be read");
    // Each goes its own way through the directory.
    let sorted = |problems: &[Problem]| {
        let mut said: Vec<_> = problems.iter().map(|problem| (problem.path.clone(), problem.why.clone())).collect();
        said.sort();
        said
    };
    assert_eq!((sorted(&verified.problems), &verified.beside), (sorted(&done.problems), &done.beside));
    assert_eq!((sorted(&status.problems), &status.beside), (sorted(&done.problems), &done.beside));
}

/// The columns of each merged file of an hour that the table does not have.
fn more_columns(place: &Place, hour: u64) -> Vec<Vec<String>> {
    let columns = |name: &String| {
        let bytes = std::fs::read(place.hour(hour).join(name)).expect("it is there");
        let schema = decode(bytes, &HOSTS, DecodeLimits::OUTPUT).expect("rows").batches[0].schema();
        let names = schema.fields().iter().map(|field| field.name().clone());
        names.filter(|name| HOSTS.columns.iter().all(|column| column.name != name)).collect::<Vec<_>>()
    };
    let mut all: Vec<_> = place.merged(hour).iter().map(columns).collect();
    all.sort();
    all
}

/// One host takes all columns that a file may have, others have another type where a newer version has a column of its own: each finds its place, none keeps another one out, and no
/// merged file has thousands of columns.
#[test]
fn odd_columns_keep_out_nobody_elses() {
    let place = Place::new();
    let number: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let text: ArrayRef = Arc::new(StringArray::from(vec!["x"]));
    let names: Vec<String> = (0..16).map(|at| format!("a{at:02}")).collect();
    let many: Vec<(&str, ArrayRef)> = names.iter().map(|name| (name.as_str(), Arc::clone(&number))).collect();
    for (host, bytes) in [
        ("a", odd("a", &many)),
        ("b", odd("b", &[("nice", Arc::clone(&text))])),
        ("newer", odd("newer", &[("nice", Arc::clone(&number))])),
        ("today", file("today")),
    ] {
        place.shelf.put(&partition(0), host, &bytes).expect("it can be written");
    }
    let done = place.compact();
    assert_eq!((done.problems, done.rows, place.hosts(0).len()), (Vec::new(), 4, 4));
    let nice = || vec!["nice".to_owned()];
    assert_eq!(more_columns(&place, 0), [Vec::new(), names.clone(), nice(), nice()]);
    assert_eq!(verify(&place.store()).expect("it can be read").problems, []);
    // Files that can never be one are not tried again and again; those that can, are one in the end.
    for host in ["c", "d", "e", "f", "g"] {
        let bytes = odd(host, &[("nice", Arc::clone(&number))]);
        place.shelf.put(&partition(0), host, &bytes).expect("it can be written");
        assert_eq!(place.compact().problems, []);
    }
    let numbers = || names_of_commits(&place);
    place.compact();
    let before = numbers();
    assert_eq!((place.compact().hours, numbers()), (0, before));
    // Of the seven with the same column four became one; these are still there for those who read them.
    assert_eq!((place.hosts(0).len(), counting(&place).len(), place.merged(0).len()), (9, 6, 10));
    assert_eq!(verify(&place.store()).expect("it can be read").problems, []);
}

/// The merged files of an hour that count.
fn counting(place: &Place) -> Vec<String> {
    let live = live(&place.store()).expect("it can be read");
    live.into_iter().flat_map(|(_, files)| files.outputs).map(|output| output.name).collect()
}

/// A host that names files of odd columns between those of others splits only its own.
#[test]
fn odd_columns_split_nobody_elses_rows() {
    let place = Place::new();
    let odd_ones: [ArrayRef; 3] = [Arc::new(Int64Array::from(vec![1])), Arc::new(StringArray::from(vec!["x"])), list()];
    for (at, column) in odd_ones.iter().cycle().take(12).enumerate() {
        place.write(0, &format!("{at:02}-a"));
        let bytes = odd("odd", &[("nice", Arc::clone(column))]);
        place.shelf.put(&partition(0), &format!("{at:02}-b"), &bytes).expect("it can be written");
    }
    let done = place.compact();
    assert_eq!((done.problems, done.rows, done.outputs), (Vec::new(), 24, 13));
    assert_eq!(more_columns(&place, 0).iter().filter(|columns| columns.is_empty()).count(), 1);
}

/// Files that are said to fit together, and do not, are not written again in each run: so whoever makes two sets of columns that are called the same has nothing of it.
#[test]
fn merged_files_are_written_again_only_to_become_fewer() {
    let place = Place::new();
    let columns: [ArrayRef; 4] = [
        Arc::new(Int64Array::from(vec![1])),
        Arc::new(StringArray::from(vec!["x"])),
        list(),
        Arc::new(Float64Array::from(vec![1.0])),
    ];
    for (host, column) in ["a", "b", "c", "d"].iter().zip(columns) {
        place.shelf.put(&partition(0), host, &odd(host, &[("nice", column)])).expect("it can be written");
    }
    assert_eq!((place.compact().problems, place.merged(0).len()), (Vec::new(), 4));
    let path = place.hour(0).join(Name::commit(1));
    let key = partition(0).path().display().to_string();
    let mut commit = Commit::decode(1, &key, &std::fs::read(&path).expect("it is there")).expect("a commit");
    let different: BTreeSet<String> = commit.head.outputs.iter().map(|output| output.columns.clone()).collect();
    assert_eq!(different.len(), 4);
    commit.head.outputs.iter_mut().for_each(|output| output.columns = "the same".to_owned());
    std::fs::write(&path, commit.encode()).expect("it can be written");
    let before: BTreeSet<String> = names(&place.hour(0)).into_iter().collect();
    let done = place.compact();
    let after: BTreeSet<String> = names(&place.hour(0)).into_iter().collect();
    assert_eq!((done.hours, done.problems, after), (0, Vec::new(), before));
    // Nor with a file that is merged meanwhile.
    place.write(0, "e");
    let done = place.compact();
    assert_eq!((done.hours, done.outputs, done.problems, counting(&place).len()), (1, 1, Vec::new(), 5));
}

fn names_of_commits(place: &Place) -> BTreeSet<String> {
    names(&place.hour(0)).into_iter().filter(|name| matches!(Name::of(name), Name::Commit(_))).collect()
}

/// A commit that would be too large to be read again is not made.
#[test]
fn a_full_commit_takes_no_more_files() {
    let place = Place::new();
    place.write(0, "a");
    place.compact();
    let path = place.hour(0).join(Name::commit(1));
    let key = partition(0).path().display().to_string();
    let mut commit = Commit::decode(1, &key, &std::fs::read(&path).expect("it is there")).expect("a commit");
    let (mut bytes, mut at) = (0, 0);
    while bytes < COMMIT_BYTES {
        let input = Input {
            name: format!("{at}-{}.parquet", "x".repeat(200)),
            rows: 0,
            sum: Default::default(),
            ..commit.inputs[0].clone()
        };
        (bytes, at) = (bytes + input.line_bytes(), at + 1);
        commit.inputs.push(input);
    }
    std::fs::write(&path, commit.encode()).expect("it can be written");
    place.write(0, "b");
    says(&place.compact(), &["1 files are not merged", "fewer and larger"]);
    assert_eq!(place.hosts(0), ["a", "b"]);
}

/// A compaction that fails leaves none of the files behind that it wrote.
#[test]
fn a_failed_merge_leaves_nothing_behind() {
    for failing in ["commit", "name"] {
        let place = Place::new();
        place.write(0, "a");
        let before = move |effect: Effect<'_>| match effect {
            Effect::Commit(_) if failing == "commit" => Err(io::Error::other("the disk is full")),
            Effect::Name(name) if failing == "name" && name.starts_with("merged") => {
                Err(io::Error::other("the disk is full"))
            }
            _ => Ok(()),
        };
        let store = Store::watched(&place.path(), Box::new(before)).expect("it is there");
        says(&compact(&store, &options(NOW)).expect("the rest went on"), &["the disk is full"]);
        assert_eq!(
            (names(&place.hour(0)), place.hosts(0)),
            (vec!["a.parquet".to_owned()], vec!["a".to_owned()]),
            "{failing}"
        );
        assert_eq!(place.compact().hours, 1);
    }
}

/// What a killed compactor left goes when its number is taken, a day later also without anything to merge.
#[test]
fn what_a_killed_compactor_left_goes_in_the_end() {
    let place = Place::new();
    place.write(0, "a");
    place.compact();
    let left = Name::merged(2, 7);
    std::fs::write(place.hour(0).join(&left), b"whatever").expect("it can be written");
    let written = std::time::SystemTime::now().duration_since(std::time::SystemTime::UNIX_EPOCH).expect("after 1970");
    let (written, day) = (written.as_nanos() as u64, 24 * HOUR);
    compact(&place.store(), &options(written + day / 2)).expect("it can be compacted");
    assert!(place.hour(0).join(&left).exists(), "somebody may be writing it");
    let done = compact(&place.store(), &options(written + 2 * day)).expect("it can be compacted");
    assert_eq!((done.hours, done.problems.len(), place.hosts(0)), (0, 0, vec!["a".to_owned()]));
    assert!(!place.hour(0).join(&left).exists());
}

/// Files that any host can name as if a killed compactor had left them, with whatever time, make a commit a day, not one in each run.
#[test]
fn planted_names_do_not_make_commits_without_end() {
    let place = Place::new();
    place.write(0, "a");
    place.compact();
    let plant = |number| {
        let path = place.hour(0).join(Name::merged(number, number));
        let file = std::fs::File::create(&path).expect("it can be made");
        file.set_modified(std::time::UNIX_EPOCH).expect("ours");
    };
    (2..40).for_each(plant);
    let commits = || names(&place.hour(0)).iter().filter(|name| matches!(Name::of(name), Name::Commit(_))).count();
    for _ in 0..5 {
        assert_eq!(place.compact().problems, []);
    }
    assert_eq!(commits(), 1, "the newest commit is of today");
    for day in 1..4 {
        for hour in 0..3 {
            let options =
                Options { grace: Duration::from_secs(30 * 24 * 3600), ..options(NOW + (day * 24 + hour) * HOUR) };
            compact(&place.store(), &options).expect("it can be compacted");
        }
    }
    assert_eq!((commits(), place.hosts(0)), (4, vec!["a".to_owned()]), "one a day");
    // What has come meanwhile is merged nevertheless, over the planted names.
    place.write(0, "b");
    let done = compact(&place.store(), &options(NOW + 80 * HOUR)).expect("it can be compacted");
    assert_eq!((done.hours, place.hosts(0)), (1, vec!["a".to_owned(), "b".to_owned()]));
}

/// Who may read a file may read its rows when they are merged, and nobody else; a file that few may read hides none of the others.
#[test]
fn rows_keep_their_readers() {
    let place = Place::new();
    let mode = |name: &str| place.hour(0).join(name).metadata().expect("it is there").permissions().mode() & 0o777;
    let write = |host: &str, mode: u32| {
        place.write(0, host);
        let path = place.hour(0).join(format!("{host}.parquet"));
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("ours");
    };
    let modes = || {
        let mut modes: Vec<u32> = place.merged(0).iter().map(|name| mode(name)).collect();
        modes.sort_unstable();
        modes
    };
    write("a", 0o644);
    write("b", 0o600);
    write("c", 0o644);
    assert_eq!((place.compact().problems, modes()), (Vec::new(), vec![0o600, 0o644]));
    assert_eq!(mode(&Name::commit(1)), 0o644, "all read which files there are");
    // A later commit of a file that only its owner may read hides nothing either.
    write("d", 0o600);
    assert_eq!((place.compact().problems, modes()), (Vec::new(), vec![0o600, 0o600, 0o644]));
    assert_eq!(mode(&Name::commit(2)), 0o644);
    // Four small files are merged, with their equals.
    for (host, mode) in [("e", 0o600), ("f", 0o640), ("g", 0o604)] {
        write(host, mode);
        place.compact();
    }
    assert_eq!(modes(), [0o600, 0o600, 0o600, 0o604, 0o640, 0o644]);
    let commits = names(&place.hour(0)).len();
    assert_eq!((place.compact().hours, names(&place.hour(0)).len()), (0, commits), "nothing is merged again and again");
    write("h", 0o600);
    place.compact();
    for later in [2, 4] {
        assert_eq!(compact(&place.store(), &options(NOW + later * HOUR)).expect("it can be compacted").problems, []);
    }
    assert_eq!(modes(), [0o600, 0o604, 0o640, 0o644]);
    assert_eq!(place.hosts(0), ["a", "b", "c", "d", "e", "f", "g", "h"]);
}

/// A clock that jumps ahead, and a directory for an hour to come, which any host can make: both together drop a part of what is kept in each run, and
/// say so.
#[test]
fn a_clock_that_jumps_does_not_drop_everything() {
    let place = Place::new();
    let kept = |now: u64| Options { keep: Some(Duration::from_secs(4 * 24 * 3600)), ..options(now) };
    for hour in [0, 90] {
        place.write(hour, "a");
    }
    let now = START + 91 * HOUR;
    assert_eq!(compact(&place.store(), &kept(now)).expect("it can be compacted").dropped, 0);
    let later = START + 20_000 * HOUR;
    std::fs::create_dir_all(place.path().join(Partition::of(HOSTS.name, WallTime(later)).path())).expect("ours");
    let done = compact(&place.store(), &kept(later + HOUR)).expect("it can be compacted");
    assert_eq!((done.dropped, place.hosts(90)), (1, vec!["a".to_owned()]), "only the oldest: {done:?}");
    says(&done, &["_keep.json", "far ahead"]);
    // The clock is right again.
    let done = compact(&place.store(), &kept(now + HOUR)).expect("it can be compacted");
    assert_eq!((done.dropped, done.problems), (0, Vec::new()));
    // A clock that was far behind for one run costs nothing afterwards.
    let done = compact(&place.store(), &kept(START - 2_000 * HOUR)).expect("it can be compacted");
    assert_eq!((done.dropped, done.problems), (0, Vec::new()));
    let done = compact(&place.store(), &kept(now + HOUR)).expect("it can be compacted");
    assert_eq!((done.dropped, done.problems), (0, Vec::new()));
    // Runs by a clock that is ahead do not add up if the clock is right in between.
    for _ in 0..6 {
        compact(&place.store(), &kept(later + HOUR)).expect("it can be compacted");
        assert_eq!(compact(&place.store(), &kept(now + HOUR)).expect("it can be compacted").dropped, 0);
    }
    assert_eq!(place.hosts(90), ["a"]);
    // Nobody else can say from when is counted.
    std::fs::remove_file(place.path().join("_keep.json")).expect("it is there");
    symlink("/etc/hostname", place.path().join("_keep.json")).expect("it can be made");
    let done = compact(&place.store(), &kept(later + HOUR)).expect("it can be compacted");
    says(&done, &["_keep.json", "no hour is dropped"]);
    assert_eq!((done.dropped, place.hosts(90)), (0, vec!["a".to_owned()]));
}

/// Programs that read the manifest find what it lists: a file goes only after the manifest has stopped to list it.
#[test]
fn the_manifest_never_lists_what_is_removed() {
    let place = Place::new();
    for round in 0..4 {
        place.write(0, &format!("host{round}"));
        place.compact();
    }
    let listed = |path: &Path| -> BTreeSet<String> {
        let file = std::fs::File::open(path.join("manifest.parquet")).expect("it is there");
        let rows = ParquetRecordBatchReaderBuilder::try_new(file).expect("Parquet").build().expect("rows");
        let batches = rows.map(|batch| batch.expect("rows").column(0).as_string::<i32>().clone());
        let file_name = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
        batches.flat_map(|files| files.iter().flatten().map(file_name).collect::<Vec<_>>()).collect()
    };
    assert_eq!(listed(&place.path()).len(), 4);
    // Killed between the commit that merges the four and the manifest.
    let is_over = Flag::new(false);
    let before = move |effect: Effect<'_>| {
        is_over.set(is_over.get() || effect == Effect::Name("manifest.parquet"));
        if is_over.get() { Err(io::Error::other("killed")) } else { Ok(()) }
    };
    let store = Store::watched(&place.path(), Box::new(before)).expect("it is there");
    assert!(compact(&store, &options(NOW)).is_err());
    let (path, removed) = (place.path(), std::rc::Rc::new(Flag::new(0)));
    let count = std::rc::Rc::clone(&removed);
    let before = move |effect: Effect<'_>| {
        if let Effect::Remove(name) = effect
            && name.starts_with("merged")
        {
            assert!(!listed(&path).contains(name), "{name}");
            count.set(count.get() + 1);
        }
        Ok(())
    };
    let store = Store::watched(&place.path(), Box::new(before)).expect("it is there");
    compact(&store, &options(NOW + 2 * HOUR)).expect("it can be compacted");
    assert_eq!((removed.get(), place.hosts(0).len()), (4, 4));
}

/// One directory at a time is open, however many dates there are.
#[test]
fn there_may_be_more_dates_than_descriptors() {
    let place = Place::new();
    let limit = most_descriptors();
    for day in 0..limit + 50 {
        let at = Partition::of(HOSTS.name, WallTime(START + day * 24 * HOUR));
        std::fs::create_dir_all(place.path().join(at.path())).expect("it can be made");
    }
    let mut problems = Vec::new();
    assert_eq!(place.store().hours(&mut problems).expect("it can be read").len() as u64, limit + 50);
    assert_eq!(problems, []);
}

/// The soft limit of descriptors, where it is small enough to be reached in a test.
fn most_descriptors() -> u64 {
    let limits = std::fs::read_to_string("/proc/self/limits").expect("/proc is there");
    let line = limits.lines().find(|line| line.starts_with("Max open files")).expect("a line");
    let soft = line.split_whitespace().nth(3).and_then(|number| number.parse().ok());
    soft.unwrap_or(1024).min(1024)
}

/// Types of versions before layout `v1`, and of programs that write with other libraries: each is read as the type of a table, of the table's
/// columns and of others.
#[test]
fn types_of_earlier_versions_are_converted() {
    let moment = (START + 1_999) as i64;
    let microseconds = (START / 1000 + 1).to_string();
    let cells: [(&str, ArrayRef, &str); 9] = [
        ("u64", Arc::new(UInt64Array::from(vec![7])), "7"),
        ("u64 most", Arc::new(UInt64Array::from(vec![u64::MAX])), "9223372036854775807"),
        ("u32", Arc::new(UInt32Array::from(vec![u32::MAX])), "4294967295"),
        ("i32", Arc::new(Int32Array::from(vec![-5])), "-5"),
        ("i64", Arc::new(Int64Array::from(vec![i64::MIN])), "-9223372036854775808"),
        ("ns", Arc::new(TimestampNanosecondArray::from(vec![moment]).with_timezone("UTC")), &microseconds),
        ("us", Arc::new(TimestampMicrosecondArray::from(vec![moment / 1000]).with_timezone("UTC")), &microseconds),
        ("list", list(), "[1]"),
        (
            "lists",
            Arc::new(ListArray::from_iter_primitive::<UInt64Type, _, _>([Some([Some(u64::MAX)])])),
            "[9223372036854775807]",
        ),
    ];
    let place = Place::new();
    let more: Vec<(&str, ArrayRef)> = cells.iter().map(|(name, cell, _)| (*name, Arc::clone(cell))).collect();
    place.shelf.put(&partition(0), "odd", &odd("odd", &more)).expect("it can be written");
    // The table's own.
    let cpus: ArrayRef = Arc::new(UInt32Array::from(vec![8]));
    let mut early = needed("early");
    early[1].1 = Arc::new(TimestampNanosecondArray::from(vec![START as i64]).with_timezone("UTC"));
    early.push(("cpus".to_owned(), cpus));
    place.shelf.put(&partition(0), "early", &parquet(early)).expect("it can be written");
    assert_eq!((place.compact().problems, place.hosts(0).len()), (Vec::new(), 2));
    let mut found = std::collections::BTreeMap::new();
    for name in place.merged(0) {
        let merged = std::fs::read(place.hour(0).join(&name)).expect("it is there");
        for batch in decode(merged, &HOSTS, DecodeLimits::OUTPUT).expect("rows").batches {
            for (field, column) in batch.schema_ref().fields().iter().zip(batch.columns()) {
                assert!(
                    unstarve_tables::COLUMN_KINDS.iter().any(|kind| arrow_type(*kind) == *field.data_type()),
                    "{field}"
                );
                if column.is_valid(0) {
                    found.insert(field.name().clone(), shown(column));
                }
            }
        }
    }
    for (name, _, expected) in cells {
        assert_eq!(found.get(name).map(String::as_str), Some(expected), "{name}");
    }
    assert_eq!(found.get("cpus").map(String::as_str), Some("8"));
}

/// The first cell.
fn shown(column: &ArrayRef) -> String {
    let of_list = |list: &ListArray| format!("{:?}", list.value(0).as_primitive::<Int64Type>().values());
    let number = column.as_primitive_opt::<Int64Type>().map(|column| column.value(0).to_string());
    let moment = || Some(column.as_primitive_opt::<TimestampMicrosecondType>()?.value(0).to_string());
    let list = || column.as_list_opt::<i32>().map(of_list);
    number.or_else(moment).or_else(list).unwrap_or_default()
}

/// Large files of hosts are compressed, small ones are not, and before they all were: they are merged together.
#[test]
fn compressed_files_are_merged_with_others() {
    let place = Place::new();
    place.write(0, "small");
    let large = parquet_file(&HOSTS, |rows| {
        let begin = [Cell::Text("large"), Cell::Empty, Cell::Empty, START.into(), Cell::Text("6.12")];
        let row = [&begin[..], &[Cell::Empty; 5], &[Cell::Text("0.1")]].concat();
        (0..3000).try_for_each(|_| rows.row(&row))
    });
    place.shelf.put(&partition(0), "large", &large.expect("it can be encoded")).expect("it can be written");
    assert_eq!((place.compact().problems, place.hosts(0).len(), place.merged(0).len()), (Vec::new(), 3001, 1));
    assert_eq!(verify(&place.store()).expect("it can be read").problems, []);
}
