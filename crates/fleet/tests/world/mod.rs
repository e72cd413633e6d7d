//! A store, and a model of what must be in it.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, RecordBatch, StringArray, UInt64Array};
use parquet::arrow::ArrowWriter;
use unstarve_fleet::{
    CountingKind, DecodeLimits, FleetError, Options, Status, Store, compact, counting, decode, status, verify,
};
use unstarve_model::WallTime;
use unstarve_tables::{BLAME_ROLLUP, Cell as Value, Partition, Shelf, parquet_file};

/// What happens.
#[derive(Clone, Debug)]
pub enum Event {
    /// A host writes a file of some rows.
    Write { hour: u8, form: Form, rows: u8 },
    /// A file that a host wrote is copied once more, whatever has become of it.
    CopyAgain { which: proptest::sample::Index },
    /// The first of them is.
    CopyFirstAgain,
    /// A compactor runs, and is stopped before an effect; before another effect a second one runs from begin to end.
    Compact { other: Option<u32>, stop: Option<u32> },
    /// A compactor drops hours that are older than some hours.
    Drop { keep: u8, stop: Option<u32> },
    /// Time passes.
    Wait { hours: u8 },
}

/// How a file is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// As this version does.
    Today,
    /// Without the last columns.
    Older,
    /// With a column more.
    Newer,
    /// With a column of another type: it is left alone.
    Wrong,
}

const HOUR: u64 = 3_600_000_000_000;
const START: u64 = 1_795_305_600_000_000_000;
const GRACE: Duration = Duration::from_secs(3600);

/// The hour of a file, its name, its bytes and its form.
type Written = (u64, String, Vec<u8>, Form);

/// Of an hour by its number, the rows by theirs.
type Rows = BTreeMap<u64, BTreeSet<u64>>;

/// A store with its model.
pub struct World {
    place: tempfile::TempDir,
    shelf: Shelf,
    now: Cell<u64>,
    next: Cell<u64>,
    expected: RefCell<Rows>,
    dropped: RefCell<BTreeSet<u64>>,
    written: RefCell<Vec<Written>>,
    /// Files never change, so each is read once.
    read: RefCell<BTreeMap<String, Option<Vec<u64>>>>,
}

impl World {
    pub fn new() -> World {
        let place = tempfile::tempdir().expect("a place for files");
        let shelf = Shelf::open(&place.path().join("store/hosts")).expect("a directory of our own");
        World {
            place,
            shelf,
            now: Cell::new(START + 5 * HOUR),
            next: Cell::new(0),
            expected: RefCell::default(),
            dropped: RefCell::default(),
            written: RefCell::default(),
            read: RefCell::default(),
        }
    }

    fn path(&self) -> PathBuf {
        self.place.path().join("store")
    }

    pub fn happen(self: &Rc<World>, event: &Event) {
        match event {
            Event::Write { hour, form, rows } => self.write(u64::from(*hour), *form, *rows),
            Event::CopyAgain { which } => {
                let written = self.written.borrow();
                if !written.is_empty() {
                    let (hour, name, bytes, _) = which.get(&written);
                    self.shelf.put(&partition(*hour), name, bytes).expect("it can be written");
                }
            }
            Event::CopyFirstAgain => {
                let written = self.written.borrow();
                let (hour, name, bytes, _) = written.first().expect("a file");
                self.shelf.put(&partition(*hour), name, bytes).expect("it can be written");
            }
            Event::Compact { other, stop } => self.compact(*other, *stop),
            Event::Drop { keep, stop } => self.drop_hours(u64::from(*keep), *stop),
            Event::Wait { hours } => self.now.set(self.now.get() + u64::from(*hours) * HOUR),
        }
    }

    fn write(&self, hour: u64, form: Form, rows: u8) {
        // A file without rows has no column of a wrong type.
        let form = if rows == 0 { Form::Today } else { form };
        let first = self.next.get();
        let ids: Vec<u64> = (first..first + u64::from(rows)).collect();
        self.next.set(first + u64::from(rows) + 1);
        let (name, bytes) = (format!("host-{form:?}-{first}"), file(hour, &ids, form));
        self.shelf.put(&partition(hour), &name, &bytes).expect("it can be written");
        self.written.borrow_mut().push((hour, name, bytes, form));
        if form != Form::Wrong && !self.dropped.borrow().contains(&hour) {
            self.expected.borrow_mut().entry(hour).or_default().extend(ids);
        }
    }

    fn options(&self) -> Options {
        Options { now: WallTime(self.now.get()), settle: Duration::ZERO, grace: GRACE, keep: None }
    }

    fn compact(self: &Rc<World>, other: Option<u32>, stop: Option<u32>) {
        let (world, effects) = (Rc::clone(self), Cell::new(0));
        let before = move |_: unstarve_fleet::Effect<'_>| {
            let effect = effects.replace(effects.get() + 1);
            world.check();
            if other == Some(effect) {
                // Late, and another compactor that is not let in once there is a lock: the first one makes the directory for it.
                world.write(0, Form::Today, 2);
                let has_lock = world.path().join("state/lock").exists();
                let store = Store::open(&world.path()).expect("it is there");
                let refused = compact(&store, &world.options());
                assert!(matches!(refused, Err(FleetError::Busy { .. })) || !has_lock, "{refused:?}");
                world.check();
            }
            // As after SIGKILL: nothing more happens.
            if stop.is_some_and(|stop| stop <= effect) { Err(io::Error::other("stopped")) } else { Ok(()) }
        };
        let store = Store::watched(&self.path(), Box::new(before)).expect("it is there");
        let done = compact(&store, &self.options());
        assert!(done.is_ok() || stop.is_some(), "{done:?}");
    }

    fn drop_hours(self: &Rc<World>, keep: u64, stop: Option<u32>) {
        let (world, effects) = (Rc::clone(self), Cell::new(0));
        let before = move |_: unstarve_fleet::Effect<'_>| {
            let effect = effects.replace(effects.get() + 1);
            // An engine that lists the directory meanwhile sees no row twice.
            world.listed();
            if stop.is_some_and(|stop| stop <= effect) { Err(io::Error::other("stopped")) } else { Ok(()) }
        };
        let newest = self.written.borrow().iter().map(|(hour, ..)| START + hour * HOUR).max();
        let oldest = newest.map_or(self.now.get(), |newest| newest.min(self.now.get())) - keep * HOUR;
        let store = Store::watched(&self.path(), Box::new(before)).expect("it is there");
        let options = Options { keep: Some(Duration::from_secs(keep * 3600)), ..self.options() };
        let done = compact(&store, &options);
        assert!(done.is_ok() || stop.is_some(), "{done:?}");
        let found = self.found();
        for hour in (0..3).filter(|hour| START + hour * HOUR < oldest) {
            // All of an hour or nothing of it; nothing if nobody stopped it.
            if found.get(&hour).is_none_or(BTreeSet::is_empty) && self.is_dropped(hour) {
                self.expected.borrow_mut().remove(&hour);
                self.dropped.borrow_mut().insert(hour);
            } else {
                assert!(
                    stop.is_some() || !self.written.borrow().iter().any(|(other, ..)| *other == hour),
                    "hour {hour} is still there"
                );
            }
        }
    }

    /// By the text of its commits; one that was written and has no name yet does not count.
    fn is_dropped(&self, hour: u64) -> bool {
        let commits = files(&self.path().join("state/v1").join(partition(hour).path()));
        let commits = commits.into_iter().filter(|path| path.to_string_lossy().ends_with(".json"));
        let mut texts = commits.filter_map(|path| std::fs::read_to_string(path).ok());
        texts.any(|text| text.contains("\"dropped\":true")) || self.is_folded(hour)
    }

    /// By the file of all hours that were dropped long ago.
    fn is_folded(&self, hour: u64) -> bool {
        let text = std::fs::read_to_string(self.path().join("state/dropped.json")).unwrap_or_default();
        let file: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
        let ranges = file["tables"][BLAME_ROLLUP.name].as_array().cloned().unwrap_or_default();
        let number = START / HOUR + hour;
        ranges.iter().any(|range| {
            let bound = |at: usize| range[at].as_u64().expect("an hour");
            (bound(0)..=bound(1)).contains(&number)
        })
    }

    /// The rows that a reader gets.
    fn found(&self) -> Rows {
        let mut found = Rows::new();
        for file in counting(&self.path()).expect("it can be read").files {
            assert!(file.path.exists(), "{} counts and is not there", file.path.display());
            let ids = self.ids(&file.path).unwrap_or_default();
            if let CountingKind::Merged { hourly: Some(hourly) } = &file.kind {
                self.check_hourly(&file.path, hourly);
            }
            add(&mut found, number_of(&file.partition), ids);
        }
        found
    }

    /// The rows that an engine gets that lists the tree of merged rows and knows nothing of commits: none twice, and none that is not in the store.
    fn listed(&self) -> Rows {
        let mut listed = Rows::new();
        let tree = self.path().join("merged/v1");
        for path in files(&tree) {
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            assert!(name.ends_with(".parquet") && !name.starts_with(['.', '_']), "{name}: nothing else is in the tree");
            let hour = (0..3).find(|hour| path.starts_with(tree.join(partition(*hour).path()))).expect("an hour");
            add(&mut listed, hour, self.ids(&path).expect("merged rows"));
        }
        listed
    }

    /// The rows by the hour beside a merged file are fewer and add up to the same.
    fn check_hourly(&self, merged: &Path, hourly: &Path) {
        let sum = |path: &Path| {
            let ids = self.ids(path).expect("a good file");
            (ids.len(), ids.into_iter().sum::<u64>())
        };
        let (all, folded) = (sum(merged), sum(hourly));
        assert_eq!(all.1, folded.1, "{hourly:?}");
        assert!(folded.0 * 2 <= all.0, "{hourly:?}");
    }

    fn ids(&self, path: &Path) -> Option<Vec<u64>> {
        let mut read = self.read.borrow_mut();
        // By its tree, too: rows by the hour have the name of the merged ones.
        let key = path.strip_prefix(self.path()).expect("in the store").display().to_string();
        read.entry(key)
            .or_insert_with(|| {
                let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
                let decoded = decode(bytes, &BLAME_ROLLUP, DecodeLimits::INPUT).ok()?;
                let ids = |batch: &RecordBatch| {
                    let ns = batch.column_by_name("ns").expect("a column").as_primitive::<Int64Type>();
                    ns.values().iter().map(|id| id.unsigned_abs()).collect::<Vec<_>>()
                };
                Some(decoded.batches.iter().flat_map(ids).collect())
            })
            .clone()
    }

    /// A reader gets the rows of the model.
    pub fn check(&self) {
        let mut found = self.found();
        found.retain(|_, ids| !ids.is_empty());
        let mut expected = self.expected.borrow().clone();
        expected.retain(|_, ids| !ids.is_empty());
        assert_eq!(found, expected);
        for (hour, ids) in self.listed() {
            // A run that was stopped has said that the hour is dropped; the next one takes it away.
            let is_going = self.dropped.borrow().contains(&hour);
            assert!(is_going || expected.get(&hour).is_some_and(|it| ids.is_subset(it)), "{hour}: {ids:?}");
        }
    }

    /// Some runs later nothing is left to be done, and all is as it was.
    pub fn settle(self: &Rc<World>) {
        for _ in 0..3 {
            self.happen(&Event::Compact { other: None, stop: None });
            self.happen(&Event::Wait { hours: 2 });
        }
        self.happen(&Event::Compact { other: None, stop: None });
        self.check();
        let mut expected = self.expected.borrow().clone();
        expected.retain(|_, ids| !ids.is_empty());
        assert_eq!(self.listed(), expected, "an engine that lists the directory sees all rows");
        let wrong: BTreeSet<String> = {
            let (written, dropped) = (self.written.borrow(), self.dropped.borrow());
            let wrong = written.iter().filter(|(hour, .., form)| *form == Form::Wrong && !dropped.contains(hour));
            wrong.map(|(_, name, ..)| format!("{name}.parquet")).collect()
        };
        let store = Store::open(&self.path()).expect("it is there");
        let verified = verify(&store).expect("it can be read");
        let problems = verified.problems.iter().map(|problem| {
            assert!(problem.why.contains("column `ns` is Utf8; expected Int64"), "{problem:?}");
            problem.path.file_name().expect("a name").to_string_lossy().into_owned()
        });
        assert_eq!(problems.collect::<BTreeSet<_>>(), wrong, "named, and nothing else is wrong");
        for table in self.status().tables.into_values() {
            assert_eq!(table.loose, wrong.len() as u64, "{table:?}");
            // A hidden file is kept for an hour of the real clock.
            assert_eq!(
                (table.superseded, table.rows),
                (0, self.expected.borrow().values().map(|ids| ids.len() as u64).sum())
            );
        }
    }

    pub fn status(&self) -> Status {
        status(&Store::open(&self.path()).expect("it is there")).expect("it can be read")
    }
}

fn add(rows: &mut Rows, hour: u64, ids: Vec<u64>) {
    for id in ids {
        assert!(rows.entry(hour).or_default().insert(id), "row {id} is there twice");
    }
}

fn number_of(partition: &Partition) -> u64 {
    (partition.begin().expect("an hour").0 - START) / HOUR
}

/// All files below a directory.
pub fn files(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let below = |path: PathBuf| if path.is_dir() { files(&path) } else { vec![path] };
    paths.flat_map(below).collect()
}

fn partition(hour: u64) -> Partition {
    Partition::of(BLAME_ROLLUP.name, WallTime(START + hour * HOUR))
}

fn file(hour: u64, ids: &[u64], form: Form) -> Vec<u8> {
    let today = parquet_file(&BLAME_ROLLUP, |rows| {
        ids.iter().try_for_each(|id| {
            let victim = if id % 2 == 0 { "rcu" } else { "kworker" };
            rows.row(&[
                Value::Text("host"),
                Value::Empty,
                Value::Empty,
                (START + hour * HOUR + id).into(),
                300_000_000_000_u64.into(),
                Value::Text(victim),
                Value::Text(victim),
                Value::Text("idle"),
                Value::Text("weight"),
                (*id).into(),
                Value::Text("6.12"),
                Value::Empty,
            ])
        })
    });
    let today = today.expect("it can be encoded");
    if form == Form::Today {
        return today;
    }
    let decoded = decode(today, &BLAME_ROLLUP, DecodeLimits::INPUT).expect("what was just encoded");
    let Some(batch) = decoded.batches.first() else {
        return parquet_file(&BLAME_ROLLUP, |_| Ok(())).expect("it can be encoded");
    };
    let fields = batch.schema();
    let names = fields.fields().iter().map(|field| field.name().clone());
    let mut columns: Vec<(String, ArrayRef)> = names.zip(batch.columns().iter().cloned()).collect();
    match form {
        Form::Today => {}
        Form::Older => columns.truncate(10),
        Form::Newer => columns.push(("nice".to_owned(), std::sync::Arc::new(UInt64Array::from(ids.to_vec())))),
        Form::Wrong => {
            let texts: Vec<String> = ids.iter().map(u64::to_string).collect();
            columns[9].1 = std::sync::Arc::new(StringArray::from(texts));
        }
    }
    let batch = RecordBatch::try_from_iter(columns).expect("columns of one length");
    let mut bytes = Vec::new();
    let mut out = ArrowWriter::try_new(&mut bytes, batch.schema(), None).expect("it can be encoded");
    out.write(&batch).expect("it can be encoded");
    out.close().expect("it can be encoded");
    bytes
}
