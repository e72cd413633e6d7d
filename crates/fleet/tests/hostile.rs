//! What a host can put into a directory of many hosts, and what it cannot do with that.

use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, TimestampMicrosecondType, UInt64Type};
use arrow_array::{
    Array, ArrayRef, Int32Array, Int64Array, ListArray, RecordBatch, StringArray, TimestampMicrosecondArray,
    TimestampNanosecondArray, UInt32Array, UInt64Array,
};
use parquet::arrow::ArrowWriter;
use unstarve_fleet::{
    DecodeLimits, Done, Effect, FleetError, Name, Needed, Options, Problem, Store, compact, counting, decode, status,
    verify,
};
use unstarve_model::WallTime;
use unstarve_tables::{Cell, HOSTS, Partition, Shelf, WAIT_ROLLUP, arrow_type, parquet_file};

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
        let shelf = Shelf::open(&place.path().join("store/hosts")).expect("a directory of our own");
        Place { place, shelf }
    }

    fn path(&self) -> PathBuf {
        self.place.path().join("store")
    }

    fn store(&self) -> Store {
        Store::open(&self.path()).expect("it is there")
    }

    /// A row of a host.
    fn write(&self, hour: u64, host: &str) {
        self.shelf.put(&partition(hour), host, &file(host)).expect("it can be written");
    }

    /// The directory of an hour in a tree: `hosts`, `merged`, `hourly` or `state`.
    fn tree(&self, tree: &str, hour: u64) -> PathBuf {
        self.path().join(tree).join("v1").join(partition(hour).path())
    }

    fn hour(&self, hour: u64) -> PathBuf {
        self.tree("hosts", hour)
    }

    fn compact(&self) -> Done {
        self.compact_at(NOW)
    }

    fn compact_at(&self, now: u64) -> Done {
        compact(&self.store(), &options(now)).expect("it can be compacted")
    }

    /// The hosts of an hour that a reader sees, sorted.
    fn hosts(&self, hour: u64) -> Vec<String> {
        let mut hosts = Vec::new();
        for file in counting(&self.path()).expect("it can be read").files {
            if file.partition.begin() != Some(WallTime(START + hour * HOUR)) {
                continue;
            }
            let bytes = std::fs::read(&file.path).expect("it counts");
            // One that is refused has no rows.
            for batch in decode(bytes, &HOSTS, DecodeLimits::INPUT).map_or(Vec::new(), |decoded| decoded.batches) {
                let names = batch.column_by_name("host").expect("a column").as_string::<i32>().clone();
                hosts.extend(names.iter().flatten().map(str::to_owned));
            }
        }
        hosts.sort();
        hosts
    }

    /// The names of an hour's merged files.
    fn merged(&self, hour: u64) -> Vec<String> {
        names(&self.tree("merged", hour))
    }

    fn verified(&self) -> Vec<Problem> {
        verify(&self.store()).expect("it can be read").problems
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
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
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
        std::fs::create_dir(place.path().join("hosts/v1").join(OsStr::from_bytes(directory))).expect("it can be made");
    }
    let done = place.compact();
    assert_eq!((done.rows, place.hosts(0)), (1, vec!["a".to_owned()]));
    let hour = partition(0).path().display().to_string();
    let said: Vec<String> = done.problems.iter().map(|it| format!("{}: {}", it.path.display(), it.why)).collect();
    let why = "left alone: its name has control characters or is no UTF-8";
    assert_eq!(
        said,
        [
            format!("hosts/v1/table=\\xff: {why}"),
            format!("hosts/v1/{hour}/b\\u{{1b}}[2J.parquet: {why}, as 3 more beside it"),
            format!("hosts/v1/table=hosts/date=\\t: {why}"),
        ]
    );
    assert!(serde_json::to_string(&done).is_ok());
    for name in strange {
        assert!(place.hour(0).join(OsStr::from_bytes(name)).exists(), "it was left alone");
    }
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

/// Numbers below zero where a column counts or measures: one such row would take away what other hosts add up to.
#[test]
fn numbers_below_zero_are_left_alone() {
    let wait = |name: &str, cell: ArrayRef| {
        let number = |number: i64| -> ArrayRef { Arc::new(Int64Array::from(vec![number])) };
        let role: ArrayRef = Arc::new(StringArray::from(vec!["rcu"]));
        let mut columns: Vec<(String, ArrayRef)> = needed("x").into_iter().take(2).collect();
        for (name, cell) in [
            ("span_ns", number(1)),
            ("victim_role", Arc::clone(&role)),
            ("victim_kind", role),
            ("n", number(0)),
            ("sum_ns", number(i64::MAX)),
            ("max_ns", Arc::new(Int64Array::new_null(1))),
            ("buckets", list()),
        ] {
            columns.push((name.to_owned(), cell));
        }
        columns.iter_mut().filter(|(column, _)| column == name).for_each(|column| column.1 = Arc::clone(&cell));
        parquet(columns)
    };
    let lists = |numbers: Vec<Option<i64>>| -> ArrayRef {
        Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>([Some(numbers)]))
    };
    let hidden = Int64Array::new(vec![-1].into(), Some(vec![false].into()));
    let cases: [(&str, ArrayRef, bool); 9] = [
        ("", list(), true),
        ("sum_ns", Arc::new(Int64Array::from(vec![-1])), false),
        ("n", Arc::new(Int64Array::from(vec![i64::MIN])), false),
        ("span_ns", Arc::new(Int32Array::from(vec![-1])), false),
        // An earlier version's, which is kept at the largest.
        ("sum_ns", Arc::new(UInt64Array::from(vec![u64::MAX])), true),
        ("max_ns", Arc::new(hidden), true),
        ("max_ns", Arc::new(Int64Array::from(vec![-5])), false),
        ("buckets", lists(vec![Some(3), Some(-1)]), false),
        ("buckets", lists(Vec::new()), true),
    ];
    for (name, cell, is_good) in cases {
        let bytes = wait(name, cell);
        let found = decode(bytes.clone(), &WAIT_ROLLUP, DecodeLimits::INPUT).map(|found| found.rows);
        match is_good {
            true => assert_eq!(found, Ok(1), "{name}"),
            false => assert_eq!(found, Err(format!("column `{name}` has numbers below zero, which it cannot have"))),
        }
        // DuckDB, which reads such a file itself, makes an error of larger numbers.
        let asked = DecodeLimits { needed: Needed::Asked, ..DecodeLimits::INPUT };
        let is_large = name == "sum_ns" && is_good;
        assert_eq!(decode(bytes.clone(), &WAIT_ROLLUP, asked).is_ok(), is_good && !is_large, "{name}");
        // What was merged before counts, and is verified.
        assert_eq!(decode(bytes, &WAIT_ROLLUP, DecodeLimits::MERGED).map(|found| found.rows), Ok(1), "{name}");
    }
    let place = Place::new();
    place.write(0, "a");
    let bytes = odd("odd", &[("cpus", Arc::new(Int64Array::from(vec![-4])))]);
    place.shelf.put(&partition(0), "odd", &bytes).expect("it can be written");
    let done = place.compact();
    assert_eq!((done.inputs, done.problems.len()), (1, 1), "{done:?}");
    says(&done, &["odd.parquet", "column `cpus` has numbers below zero"]);
}

/// Spark refuses a table with two columns whose names differ in upper and lower case only, and takes one that is written otherwise for ours.
#[test]
fn columns_that_differ_in_case_only_are_left_alone() {
    let number: ArrayRef = Arc::new(Int64Array::from(vec![4]));
    let place = Place::new();
    place.write(0, "a");
    let refused: [(&str, &[&str], &[&str]); 4] = [
        ("ours", &["CPUS"], &["column `CPUS`: expected `cpus`"]),
        ("both", &["cpus", "Cpus"], &["columns `cpus` and `Cpus` differ in upper and lower case only"]),
        ("strange", &["more", "MORE"], &["columns `more` and `MORE` differ"]),
        ("letters", &["größe", "GRÖßE"], &["differ in upper and lower case only"]),
    ];
    for (name, columns, _) in refused {
        let columns: Vec<(&str, ArrayRef)> = columns.iter().map(|name| (*name, Arc::clone(&number))).collect();
        place.shelf.put(&partition(0), name, &odd(name, &columns)).expect("it can be written");
    }
    // Of two hosts, each is good alone: they do not get into one file.
    for column in ["nice", "Nice"] {
        place
            .shelf
            .put(&partition(1), column, &odd(column, &[(column, Arc::clone(&number))]))
            .expect("it can be written");
    }
    let done = place.compact();
    assert_eq!((done.inputs, done.problems.len()), (3, 4), "{done:?}");
    for (name, _, why) in refused {
        says(&done, &[&[name], why].concat());
    }
    assert_eq!(more_columns(&place, 1), [["Nice"], ["nice"]]);
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

/// The columns of each merged file of an hour that the table does not have.
fn more_columns(place: &Place, hour: u64) -> Vec<Vec<String>> {
    let columns = |name: &String| {
        let bytes = std::fs::read(place.tree("merged", hour).join(name)).expect("it is there");
        let schema = decode(bytes, &HOSTS, DecodeLimits::OUTPUT).expect("rows").batches[0].schema();
        let names = schema.fields().iter().map(|field| field.name().clone());
        names.filter(|name| HOSTS.columns.iter().all(|column| column.name != name)).collect::<Vec<_>>()
    };
    let mut all: Vec<_> = place.merged(hour).iter().map(columns).collect();
    all.sort();
    all
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
    std::fs::create_dir_all(place.path().join("hosts/v1").join(Partition::of(HOSTS.name, WallTime(later)).path()))
        .expect("ours");
    let done = compact(&place.store(), &kept(later + HOUR)).expect("it can be compacted");
    assert_eq!((done.dropped, place.hosts(90)), (1, vec!["a".to_owned()]), "only the oldest: {done:?}");
    says(&done, &["keep.json", "far ahead"]);
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
    // What cannot be read drops nothing.
    std::fs::write(place.path().join("state/keep.json"), "{").expect("ours");
    let done = compact(&place.store(), &kept(later + HOUR)).expect("it can be compacted");
    says(&done, &["keep.json", "no hour is dropped"]);
    assert_eq!((done.dropped, place.hosts(90)), (0, vec!["a".to_owned()]));
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
        let merged = std::fs::read(place.tree("merged", 0).join(&name)).expect("it is there");
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
    let of_list = |list: &ListArray| format!("{:?}", list.value(0).as_primitive::<Int64Type>().values().to_vec());
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

/// Whoever may write hosts' files puts among them what a compactor writes elsewhere: it is neither believed nor merged, and stops nothing.
#[test]
fn what_hosts_call_like_a_compactors_files_is_nothing() {
    let place = Place::new();
    place.write(0, "a");
    place.compact();
    place.write(1, "b");
    // A commit of another hour, and one of this one that drops it.
    let commit = place.tree("state", 0).join(Name::commit(1));
    std::fs::copy(&commit, place.hour(1).join(Name::commit(1))).expect("it can be copied");
    let key = partition(1).path().display().to_string();
    let dropped = unstarve_fleet::Commit::dropped(2, &key, NOW).encode();
    std::fs::write(place.hour(1).join(Name::commit(2)), dropped).expect("it can be written");
    symlink("/etc/hostname", place.hour(1).join("link.parquet")).expect("it can be made");
    std::fs::create_dir(place.hour(1).join("directory.parquet")).expect("it can be made");
    // Merged rows without the commit that says which of them count.
    for merged in place.merged(0) {
        std::fs::copy(place.tree("merged", 0).join(&merged), place.hour(1).join(&merged)).expect("it can be copied");
    }
    assert_eq!(place.hosts(1), ["b"]);
    let done = place.compact();
    assert_eq!((done.hours, done.problems.len()), (1, 3), "{done:?}");
    says(&done, &["link.parquet", "not a regular file"]);
    says(&done, &["directory.parquet", "not a regular file"]);
    says(&done, &["merged-by-commit", "copy hosts' files"]);
    assert_eq!((place.hosts(0), place.hosts(1)), (vec!["a".to_owned()], vec!["b".to_owned()]));
    assert_eq!(place.verified().len(), 3);
}

/// Who else can write where only a compactor does: then nothing there is believed, by nobody who reads or writes. Generated from the table of
/// directories and of what is wrong with one.
#[test]
fn what_others_can_write_is_not_believed() {
    let hour = partition(0).path();
    let below = |tree: &str| [PathBuf::from(tree), Path::new(tree).join("v1"), Path::new(tree).join("v1").join(&hour)];
    let directories =
        [PathBuf::new()].into_iter().chain(["state", "merged", "hourly"].iter().flat_map(|tree| below(tree)));
    for directory in directories {
        for wrong in ["mode 777", "mode 775", "owner", "link"] {
            let place = Place::new();
            place.write(0, "a");
            place.compact();
            std::fs::create_dir_all(place.tree("hourly", 0)).expect("ours");
            let path = place.path().join(&directory);
            let is_top = directory.as_os_str().is_empty();
            match wrong {
                "mode 777" | "mode 775" => {
                    let mode = if wrong == "mode 777" { 0o777 } else { 0o775 };
                    std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).expect("ours");
                }
                // Who owns the store is believed, and whoever names it may name it by a link.
                "owner" | "link" if is_top => continue,
                "owner" => {
                    if std::os::unix::fs::chown(&path, Some(65_534), None).is_err() {
                        unstarve_testing::not_possible_here("only root can give files away");
                        continue;
                    }
                }
                _ => {
                    std::fs::rename(&path, place.place.path().join("moved")).expect("ours");
                    symlink(place.place.path().join("moved"), &path).expect("ours");
                }
            }
            let case = format!("{} {wrong}", directory.display());
            let is_refused = |error: &FleetError| match wrong {
                "link" => matches!(error, FleetError::Io { .. }),
                _ => matches!(error, FleetError::Untrusted { .. }),
            };
            let read = counting(&place.path());
            assert!(read.as_ref().is_err_and(is_refused), "{case}: {read:?}");
            // One hour's is a problem of that hour.
            let compacted = compact(&place.store(), &options(NOW));
            let is_said =
                |problem: &Problem| problem.why.contains("not believed") || problem.why.contains("cannot open");
            let is_refused = match &compacted {
                Err(error) => is_refused(error),
                Ok(done) => done.problems.iter().any(is_said),
            };
            assert!(is_refused, "{case}: {compacted:?}");
            assert!(verify(&place.store()).map_or(true, |verified| verified.problems.iter().any(is_said)), "{case}");
        }
    }
}

/// A directory that all may write is none to keep a store in, unless only owners may remove what is there.
#[test]
fn a_sticky_directory_holds_a_store() {
    let place = Place::new();
    place.write(0, "a");
    std::fs::set_permissions(place.path(), PermissionsExt::from_mode(0o1777)).expect("ours");
    assert_eq!((place.compact().problems, place.hosts(0)), (Vec::new(), vec!["a".to_owned()]));
}

/// However many bad files there are, few are listed and the rest is counted; each directory and kind by itself.
#[test]
fn bad_files_are_counted_and_hide_nothing() {
    let place = Place::new();
    place.write(0, "a");
    for number in 1..=3000 {
        symlink("/etc/hostname", place.hour(0).join(format!("{number:04}.parquet"))).expect("it can be made");
    }
    place.shelf.put(&partition(0), "b", b"damaged").expect("it can be written");
    place.shelf.put(&partition(1), "c", b"damaged").expect("it can be written");
    let done = place.compact();
    assert_eq!((done.hours, done.problems.len(), done.rows), (1, 12, 1), "{done:?}");
    assert_eq!(done.problems.iter().map(|problem| problem.more).sum::<u64>(), 2990);
    says(&done, &["b.parquet"]);
    says(&done, &["c.parquet"]);
    let mut verified = place.verified();
    verified.sort();
    assert_eq!(verified, done.problems, "each is said once");
}

/// Merged rows without their commits: an engine that lists the directory sees them, so they are said; nothing takes them away.
#[test]
fn merged_rows_without_their_commit_are_said_and_kept() {
    let place = Place::new();
    place.write(0, "a");
    place.compact();
    let merged = place.merged(0);
    std::fs::remove_dir_all(place.path().join("state/v1")).expect("ours");
    std::fs::remove_dir_all(place.path().join("hosts")).expect("ours");
    let done = place.compact();
    says(&done, &["no commit lists it", &merged[0]]);
    assert_eq!((done.hours, place.merged(0), place.hosts(0).len()), (0, merged, 0));
    assert_eq!(place.verified(), done.problems);
}

/// A merged file that somebody took away: its hosts' files count as long as they are there, stay, and are merged nowhere else.
#[test]
fn a_commit_without_its_files_does_not_hold() {
    let place = Place::new();
    for host in ["a", "b"] {
        place.write(0, host);
    }
    place.compact();
    std::fs::remove_file(place.tree("merged", 0).join(&place.merged(0)[0])).expect("it is there");
    for later in [0, 2, 4] {
        let done = place.compact_at(NOW + later * HOUR);
        says(&done, &["a commit lists it, and it is not there"]);
        assert_eq!((done.hours, done.removed, place.hosts(0)), (0, 0, vec!["a".to_owned(), "b".to_owned()]));
    }
    place.write(0, "c");
    let done = place.compact_at(NOW + 5 * HOUR);
    assert_eq!((done.inputs, place.hosts(0).len()), (1, 3), "{done:?}");
    assert!(place.verified().iter().any(|problem| problem.why.contains("it is not there")));
}

/// One of two merged files is missing: with all hosts' files these count, else the other merged file, and it is said.
#[test]
fn a_missing_merged_file_takes_no_other_rows_away() {
    let place = Place::new();
    for (host, mode) in [("a", 0o644), ("b", 0o600)] {
        place.write(0, host);
        // Rows with different readers get different files.
        let path = place.hour(0).join(format!("{host}.parquet"));
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("ours");
    }
    place.compact();
    let mut merged = place.merged(0);
    merged.sort();
    assert_eq!(merged.len(), 2);
    let missing = place.tree("merged", 0).join(&merged[0]);
    let bytes = std::fs::read(&missing).expect("it is there");
    std::fs::remove_file(&missing).expect("ours");
    let problems = || counting(&place.path()).expect("it can be read").problems;
    says(&place.compact(), &["its hosts' files stay, and count"]);
    assert_eq!((place.hosts(0), problems()), (vec!["a".to_owned(), "b".to_owned()], Vec::new()));
    // One of the hosts' files has gone, too: the rest of them may be in the merged file that is there.
    for gone in ["a", "b"] {
        std::fs::remove_file(place.hour(0).join(format!("{gone}.parquet"))).expect("ours");
        assert_eq!((place.hosts(0).len(), problems().len()), (1, 1), "{gone}");
        assert!(problems()[0].path.ends_with(&merged[0]) && problems()[0].why.contains("rows are lost"));
        says(&place.compact(), &["rows are lost"]);
    }
    // One that is cut short is missing, too; and one that is copied back counts.
    std::fs::write(&missing, b"PAR1").expect("ours");
    assert_eq!((place.hosts(0).len(), problems().len(), place.compact().finished), (1, 1, 0));
    std::fs::write(&missing, bytes).expect("ours");
    assert_eq!((place.hosts(0).len(), problems(), place.compact().problems), (2, Vec::new(), Vec::new()));
}

/// Nobody but its owner can hold the lock, also that of an earlier version.
#[test]
fn nobody_else_can_hold_the_lock() {
    let place = Place::new();
    place.write(0, "a");
    let lock = place.path().join("state/lock");
    for mode in [0o644, 0o666] {
        place.compact();
        assert_eq!(lock.metadata().expect("it is there").permissions().mode() & 0o777, 0o600);
        std::fs::set_permissions(&lock, PermissionsExt::from_mode(mode)).expect("ours");
    }
}

/// A run that is killed anywhere leaves no directory that readers of the store cannot open.
#[test]
fn a_killed_run_leaves_no_closed_directory() {
    fn directories(path: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(path).expect("it is there").flatten() {
            if entry.path().is_dir() {
                found.push(entry.path());
                directories(&entry.path(), found);
            }
        }
    }
    for stop in 0..40 {
        let place = Place::new();
        std::fs::set_permissions(place.path(), PermissionsExt::from_mode(0o755)).expect("ours");
        place.write(0, "a");
        let effects = std::cell::Cell::new(0);
        let stopping = move |_: Effect<'_>| {
            effects.set(effects.get() + 1);
            if effects.get() > stop { Err(io::Error::other("stopped")) } else { Ok(()) }
        };
        let killed = Store::watched(&place.path(), Box::new(stopping)).expect("it is there");
        let _ = compact(&killed, &options(NOW));
        drop(killed);
        for run in 0..2 {
            let mut found = Vec::new();
            for tree in
                ["state", "merged", "hourly"].map(|tree| place.path().join(tree)).iter().filter(|it| it.exists())
            {
                found.push(tree.clone());
                directories(tree, &mut found);
            }
            for path in found {
                let is_hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
                let mode = path.metadata().expect("it is there").permissions().mode() & 0o777;
                assert!(mode == 0o755 || (is_hidden && run == 0), "{stop} {run}: {}: {mode:o}", path.display());
            }
            place.compact();
        }
    }
}

/// Files that are in no hour are named, each directory's in one line, and stay.
#[test]
fn files_in_no_hour_are_named() {
    let place = Place::new();
    place.write(0, "a");
    let table = format!("hosts/v1/table={}", HOSTS.name);
    let hour = Path::new("hosts/v1").join(partition(0).path());
    let date = hour.parent().expect("a date").display().to_string();
    let hour = hour.display().to_string();
    let strays = [
        format!("{table}/b.parquet"),
        format!("{table}/a.parquet"),
        format!("{date}/c.parquet"),
        format!("{date}/07/d.parquet"),
        format!("{hour}/deeper/e.parquet"),
        "waits.parquet".to_owned(),
        "hosts/table=hosts/f.parquet".to_owned(),
        "web1/v1/f.parquet".to_owned(),
    ];
    let others = [".notes.txt".to_owned(), format!("{table}/_SUCCESS"), format!("{date}/.g.parquet.Xq3")];
    for path in strays.iter().chain(&others).map(|path| place.path().join(path)) {
        std::fs::create_dir_all(path.parent().expect("a directory")).expect("it can be made");
        std::fs::write(path, file("x")).expect("it can be written");
    }
    let done = place.compact();
    let named: Vec<String> = done.problems.iter().map(|problem| problem.path.display().to_string()).collect();
    assert_eq!(named, [format!("{table}/a.parquet"), format!("{date}/07"), format!("{hour}/deeper")]);
    assert_eq!(
        done.problems.iter().filter(|problem| problem.why.ends_with("as 1 more beside it")).count(),
        2,
        "{done:?}"
    );
    assert_eq!(done.beside, ["hosts/table=hosts", "waits.parquet", "web1"].map(PathBuf::from));
    assert_eq!((done.rows, place.hosts(0)), (1, vec!["a".to_owned()]));
    for path in &strays {
        assert!(place.path().join(path).exists(), "{path}");
    }
    let status = status(&place.store()).expect("it can be read");
    let sorted = |problems: &[Problem]| {
        let mut said: Vec<_> = problems.iter().map(|problem| (problem.path.clone(), problem.why.clone())).collect();
        said.sort();
        said
    };
    assert_eq!(sorted(&place.verified()), sorted(&done.problems));
    assert_eq!((sorted(&status.problems), &status.beside), (sorted(&done.problems), &done.beside));
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
    assert_eq!(place.verified(), []);
}

/// A compaction that fails leaves none of the files behind that it wrote; one that is killed leaves them to the next one.
#[test]
fn a_failed_merge_leaves_nothing_behind() {
    let is_hidden = |name: &str| name.starts_with(".fleet-");
    type Failing = fn(Effect<'_>) -> bool;
    let failing: [(&str, Failing, usize); 4] = [
        ("the file's name", |effect| matches!(effect, Effect::Name(name) if name.starts_with("merged")), 0),
        ("the commit's name", |effect| matches!(effect, Effect::Name(name) if name.starts_with("commit")), 0),
        ("writing", |effect| matches!(effect, Effect::Write(_)), 0),
        // It is committed: the next run moves it.
        ("its place", |effect| matches!(effect, Effect::Place(_)), 2),
    ];
    for (what, failing, left) in failing {
        let place = Place::new();
        place.write(0, "a");
        let before = move |effect: Effect<'_>| match failing(effect) {
            true => Err(io::Error::other("the disk is full")),
            false => Ok(()),
        };
        let store = Store::watched(&place.path(), Box::new(before)).expect("it is there");
        says(&compact(&store, &options(NOW)).expect("the rest went on"), &["the disk is full"]);
        drop(store);
        assert_eq!((names(&place.tree("state", 0)).len(), place.merged(0).len()), (left, 0), "{what}");
        assert_eq!(place.hosts(0), ["a"], "{what}");
        // Killed: what it wrote is there.
        for name in
            [".fleet-0123456789abcdef".to_owned(), Name::merged(9, 9), Name::waiting_hourly(&Name::merged(9, 9))]
        {
            std::fs::create_dir_all(place.tree("state", 0)).expect("ours");
            std::fs::write(place.tree("state", 0).join(name), b"whatever").expect("it can be written");
        }
        assert_eq!(status(&place.store()).expect("it can be read").tables["hosts"].garbage, 3, "{what}");
        let done = place.compact();
        assert_eq!((done.problems, done.hours + done.finished, done.removed), (Vec::new(), 1, 3), "{what}");
        let state = names(&place.tree("state", 0));
        assert!(state.iter().all(|name| !is_hidden(name)) && state == [Name::commit(1)], "{what}: {state:?}");
        assert_eq!((place.hosts(0), place.verified()), (vec!["a".to_owned()], Vec::new()), "{what}");
    }
}

/// Who may read a file may read its rows when they are merged, and nobody else; a file that few may read hides none of the others.
#[test]
fn rows_keep_their_readers() {
    let place = Place::new();
    let mode = |path: PathBuf| path.metadata().expect("it is there").permissions().mode() & 0o777;
    let modes = || {
        let merged = place.merged(0);
        let mut modes: Vec<u32> = merged.iter().map(|name| mode(place.tree("merged", 0).join(name))).collect();
        modes.sort_unstable();
        modes
    };
    std::fs::set_permissions(place.path(), PermissionsExt::from_mode(0o755)).expect("ours");
    for (host, mode) in [("a", 0o644), ("b", 0o600), ("c", 0o644), ("d", 0o640), ("e", 0o604)] {
        place.write(0, host);
        let path = place.hour(0).join(format!("{host}.parquet"));
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("ours");
    }
    assert_eq!((place.compact().problems, modes()), (Vec::new(), vec![0o600, 0o604, 0o640, 0o644]));
    assert_eq!(place.hosts(0), ["a", "b", "c", "d", "e"]);
    // Whoever may list the store may know what is in it, and enter the trees.
    assert_eq!(mode(place.tree("state", 0).join(Name::commit(1))), 0o644);
    for tree in ["state", "merged"] {
        assert!(place.tree(tree, 0).ancestors().take(5).all(|path| mode(path.to_owned()) == 0o755), "{tree}");
    }
}

/// All rows of a dropped hour go at once from what an engine lists, and late files of it do not come back.
#[test]
fn a_dropped_hour_goes_at_once() {
    let place = Place::new();
    for (host, mode) in [("a", 0o644), ("b", 0o600)] {
        place.write(0, host);
        let path = place.hour(0).join(format!("{host}.parquet"));
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("ours");
    }
    place.write(30, "c");
    place.compact_at(START + 32 * HOUR);
    assert_eq!(place.merged(0).len(), 2);
    let (hour, seen) = (place.tree("merged", 0), std::rc::Rc::new(std::cell::RefCell::new(Vec::new())));
    let seen_here = std::rc::Rc::clone(&seen);
    let before = move |_: Effect<'_>| {
        seen_here.borrow_mut().push(names(&hour).len());
        Ok(())
    };
    let store = Store::watched(&place.path(), Box::new(before)).expect("it is there");
    let kept = Options { keep: Some(Duration::from_secs(24 * 3600)), ..options(START + 33 * HOUR) };
    assert_eq!(compact(&store, &kept).expect("it can be compacted").dropped, 1);
    drop(store);
    assert!(seen.borrow().iter().all(|files| [0, 2].contains(files)), "{seen:?}");
    assert!(!place.tree("merged", 0).exists());
    place.write(0, "late");
    assert_eq!((place.hosts(0).len(), place.hosts(30)), (0, vec!["c".to_owned()]));
    let kept = Options { keep: Some(Duration::from_secs(24 * 3600)), ..options(START + 36 * HOUR) };
    let done = compact(&place.store(), &kept).expect("it can be compacted");
    assert_eq!(
        (done.dropped, done.problems, names(&place.hour(0)).len()),
        (0, Vec::new(), 0),
        "late files are removed after the grace period"
    );
    assert_eq!(names(&place.tree("state", 0)), [Name::commit(2)]);
}

/// Of hours that were dropped long ago nothing is left but their numbers, and they stay dropped; a run may be stopped before any effect.
#[test]
fn of_hours_dropped_long_ago_only_their_numbers_are_left() {
    let keep = |now: u64| Options { keep: Some(Duration::from_secs(24 * 3600)), ..options(START + now * HOUR) };
    for stop in 0..60 {
        let place = Place::new();
        for (hour, host) in [(0, "a"), (1, "b"), (3, "d"), (40, "new")] {
            place.write(hour, host);
        }
        compact(&place.store(), &options(START + 42 * HOUR)).expect("it can be compacted");
        assert_eq!(compact(&place.store(), &keep(43)).expect("it can be compacted").dropped, 3);
        compact(&place.store(), &keep(45)).expect("it can be compacted");
        // Both may come before or after the numbers are written.
        place.write(0, "late");
        let reads = place.path();
        let effects = std::cell::Cell::new(0);
        let before = move |_: Effect<'_>| {
            let files = counting(&reads).expect("it can be read").files;
            assert!(files.iter().all(|file| file.partition == partition(40)), "{files:?}");
            let effect = effects.replace(effects.get() + 1);
            if effect >= stop { Err(io::Error::other("stopped")) } else { Ok(()) }
        };
        let store = Store::watched(&place.path(), Box::new(before)).expect("it is there");
        let stopped = compact(&store, &keep(47));
        assert!(stopped.is_ok() || stop < 10, "{stopped:?}");
        for now in [49, 51] {
            let done = compact(&place.store(), &keep(now)).expect("it can be compacted");
            assert_eq!(done.problems, [], "stopped at {stop}");
        }
        for hour in [0, 1, 3] {
            for tree in ["hosts", "merged", "hourly", "state"] {
                assert!(!place.tree(tree, hour).exists(), "{tree}, hour {hour}, stopped at {stop}");
            }
        }
        let numbers = std::fs::read_to_string(place.path().join("state/dropped.json")).expect("it is there");
        let first = START / HOUR;
        let expected = format!("[[{first},{}],[{},{}]]", first + 1, first + 3, first + 3);
        assert!(numbers.contains(&expected), "{numbers}");
        // Files that come later still do not count, and are removed; the hour between was never there.
        for (hour, host) in [(1, "later"), (2, "between")] {
            place.write(hour, host);
        }
        let count = |hour: u64| place.hosts(hour).len();
        assert_eq!([0, 1, 2, 3, 40].map(count), [0, 0, 1, 0, 1]);
        assert_eq!(status(&place.store()).expect("it can be read").tables["hosts"].dropped, 3);
        assert_eq!(compact(&place.store(), &options(START + 53 * HOUR)).expect("it can be compacted").removed, 1);
        assert!(!place.hour(1).exists());
        assert_eq!((place.hosts(2), place.verified()), (vec!["between".to_owned()], Vec::new()));
    }
}

/// A list of dropped hours that cannot be read stops readers: rows that were dropped would count again.
#[test]
fn a_damaged_list_of_dropped_hours_is_an_error() {
    let place = Place::new();
    place.write(0, "a");
    place.compact();
    for text in ["", "{", r#"{"format":9,"tables":{}}"#] {
        std::fs::write(place.path().join("state/dropped.json"), text).expect("ours");
        let why = counting(&place.path()).expect_err("it is damaged").to_string();
        assert!(why.contains("dropped.json"), "{why}");
    }
}

/// One directory at a time is open, however many dates there are.
#[test]
fn there_may_be_more_dates_than_descriptors() {
    let place = Place::new();
    place.write(0, "a");
    for day in 0..most_descriptors() + 50 {
        let at = Partition::of(HOSTS.name, WallTime(START + day * 24 * HOUR));
        std::fs::create_dir_all(place.path().join("hosts/v1").join(at.path())).expect("it can be made");
    }
    assert_eq!(status(&place.store()).expect("it can be read").tables["hosts"].hours, most_descriptors() + 50);
    assert_eq!(place.hosts(0), ["a"]);
}

/// Late files wait until the hour is twice as old, unless nobody wants to wait.
#[test]
fn late_files_wait_for_others() {
    let place = Place::new();
    let settled =
        |minutes: u64| Options { settle: Duration::from_secs(600), ..options(START + HOUR + minutes * 60_000_000_000) };
    place.write(0, "a");
    for (minutes, late, waiting, merged) in [
        (5, None, 1, 0),
        (10, None, 0, 1),
        (12, Some("b"), 1, 1),
        (20, None, 0, 2),
        (39, Some("c"), 1, 2),
        (40, None, 0, 3),
    ] {
        if let Some(late) = late {
            place.write(0, late);
        }
        let done = compact(&place.store(), &settled(minutes)).expect("it can be compacted");
        assert_eq!(
            (done.waiting, place.merged(0).len(), done.problems),
            (waiting, merged, Vec::new()),
            "{minutes} min"
        );
    }
    place.write(0, "d");
    assert_eq!((place.compact_at(START + HOUR + 41 * 60_000_000_000).waiting, place.merged(0).len()), (0, 4));
    assert_eq!(place.hosts(0), ["a", "b", "c", "d"]);
}
