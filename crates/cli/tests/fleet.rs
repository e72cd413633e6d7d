//! `unstarve fleet` as a user meets it: killed at any moment, twice at once, beside files that are not what they should be.

use std::collections::BTreeSet;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::time::SystemTime;

use unstarve_fleet::{DecodeLimits, counting, decode};
use unstarve_model::WallTime;
use unstarve_tables::{Cell, HOSTS, Partition, Shelf, parquet_file};

const HOUR: u64 = 3_600_000_000_000;

/// Now, without what is not a whole hour.
fn this_hour() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_nanos() as u64;
    now - now % HOUR
}

struct Fleet {
    _place: tempfile::TempDir,
    path: PathBuf,
    shelf: Shelf,
    hosts: BTreeSet<String>,
    /// The hour in which the test began: the next may begin meanwhile.
    now: u64,
}

impl Fleet {
    fn new() -> Fleet {
        let place = tempfile::tempdir().expect("a place for files");
        let path = place.path().join("store");
        let shelf = Shelf::open(&path.join("hosts")).expect("a directory of our own");
        Fleet { _place: place, path, shelf, hosts: BTreeSet::new(), now: this_hour() }
    }

    /// A row for a new host, so many hours ago.
    fn write(&mut self, ago: u64) -> String {
        let name = format!("host-{:04}", self.hosts.len());
        let at = WallTime(self.now - ago * HOUR + self.hosts.len() as u64);
        let bytes = parquet_file(&HOSTS, |rows| {
            let end = [Cell::Empty; 6];
            rows.row(
                &[
                    &[Cell::Text(&name), Cell::Empty, Cell::Empty, at.0.into(), Cell::Text("6.12")][..],
                    &end[..5],
                    &[Cell::Text("0.1")],
                ]
                .concat(),
            )
        });
        self.shelf
            .put(&Partition::of(HOSTS.name, at), &name, &bytes.expect("it can be encoded"))
            .expect("it can be written");
        self.hosts.insert(name.clone());
        name
    }

    fn hour(&self, ago: u64) -> PathBuf {
        self.tree("hosts", ago)
    }

    /// The directory of an hour in a tree of the store.
    fn tree(&self, tree: &str, ago: u64) -> PathBuf {
        let hour = Partition::of(HOSTS.name, WallTime(self.now - ago * HOUR));
        self.path.join(tree).join("v1").join(hour.path())
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_unstarve"));
        command.arg("fleet").args(arguments).arg(&self.path).stdin(Stdio::null());
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("it can be started")
    }

    fn start(&self) -> Child {
        let mut command = self.command(&["compact", "--settle", "0s", "--grace", "0s"]);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it can be started")
    }

    /// The hosts that a reader sees; each once.
    fn check(&self) {
        let files = counting(&self.path).expect("it can be read").files;
        let seen: Vec<String> = files.iter().flat_map(|file| hosts_in(&file.path)).collect();
        let count = seen.len();
        let seen: BTreeSet<String> = seen.into_iter().collect();
        assert_eq!((count, &seen), (self.hosts.len(), &self.hosts));
    }
}

fn hosts_in(file: &Path) -> Vec<String> {
    use arrow_array::cast::AsArray;
    let bytes = std::fs::read(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let Ok(decoded) = decode(bytes, &HOSTS, DecodeLimits::INPUT) else { return Vec::new() };
    let names = |batch: &arrow_array::RecordBatch| {
        let column = batch.column_by_name("host").expect("a column").as_string::<i32>().clone();
        column.iter().flatten().map(str::to_owned).collect::<Vec<_>>()
    };
    decoded.batches.iter().flat_map(names).collect()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("UTF-8")
}

/// SIGKILL after a time that grows from run to run, so that all of a run is met; hosts write meanwhile.
#[test]
fn killed_at_any_moment_no_row_is_lost_or_doubled() {
    let mut fleet = Fleet::new();
    for ago in 1..4 {
        for _ in 0..4 {
            fleet.write(ago);
        }
    }
    let begun = std::time::Instant::now();
    assert!(fleet.start().wait().expect("it ends").success());
    let whole = begun.elapsed();
    for round in 0..40_u32 {
        fleet.write(u64::from(round % 3) + 1);
        let mut child = fleet.start();
        std::thread::sleep(whole * round / 32);
        let _ = child.kill();
        child.wait().expect("it ends");
        fleet.check();
    }
    assert!(fleet.start().wait().expect("it ends").success());
    fleet.check();
    let output = fleet.run(&["verify"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let output = fleet.run(&["status", "--json"]);
    let status: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let hosts = &status["tables"]["hosts"];
    assert_eq!((hosts["rows"].as_u64(), hosts["loose"].as_u64()), (Some(52), Some(0)), "{status}");
}

#[test]
fn compactors_side_by_side_agree() {
    let mut fleet = Fleet::new();
    for round in 0..8 {
        for ago in 1..4 {
            fleet.write(ago);
        }
        let children: Vec<Child> = (0..3).map(|_| fleet.start()).collect();
        let codes: Vec<Option<i32>> =
            children.into_iter().map(|mut child| child.wait().expect("it ends").code()).collect();
        // Those that find another one at work say so and end.
        assert!(codes.contains(&Some(0)) && codes.iter().all(|code| matches!(code, Some(0 | 2))), "{codes:?}");
        fleet.check();
        assert!(fleet.start().wait().expect("it ends").success());
        fleet.check();
        assert_eq!(fleet.run(&["verify"]).status.code(), Some(0), "round {round}");
    }
}

#[test]
fn what_is_not_as_it_should_be_is_named_and_left_alone() {
    let mut fleet = Fleet::new();
    fleet.write(1);
    let hour = fleet.hour(1);
    std::fs::write(hour.join("torn.parquet"), b"PAR1 and no more").expect("it can be written");
    symlink("/etc/hostname", hour.join("link.parquet")).expect("it can be made");
    symlink("/", fleet.path.join("hosts/v1/table=hosts/date=2020-01-01")).expect("it can be made");
    let output = fleet.run(&["compact", "--settle", "0s"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(text(&output.stdout).contains("1 hour merged: 1 files of hosts, 1 rows"), "{output:?}");
    for name in ["torn.parquet", "link.parquet", "table=hosts/date=2020-01-01"] {
        assert!(text(&output.stderr).contains(name), "{name}: {output:?}");
    }
    assert!(hour.join("torn.parquet").exists() && hour.join("link.parquet").exists());
    assert_eq!(fleet.run(&["verify"]).status.code(), Some(1));
    assert_eq!(fleet.run(&["status"]).status.code(), Some(1));
    assert_eq!(std::fs::read_dir(fleet.tree("merged", 1)).expect("it is there").count(), 1);
}

#[test]
fn verify_finds_what_was_changed_or_lost() {
    let mut fleet = Fleet::new();
    let name = fleet.write(1);
    fleet.write(1);
    assert_eq!(fleet.run(&["compact", "--settle", "0s"]).status.code(), Some(0));
    assert_eq!(fleet.run(&["verify"]).status.code(), Some(0));
    let hour = fleet.hour(1);
    // Another file under the name of one that was merged: its rows do not count, and it is not removed.
    let other = std::fs::read(hour.join("host-0001.parquet")).expect("it is kept for readers");
    std::fs::write(hour.join(format!("{name}.parquet")), other).expect("it can be written");
    fleet.check();
    let output = fleet.run(&["compact", "--settle", "0s", "--grace", "0s"]);
    assert!(output.status.code() == Some(1) && text(&output.stderr).contains("another file now"), "{output:?}");
    assert!(hour.join(format!("{name}.parquet")).exists() && !hour.join("host-0001.parquet").exists());
    fleet.check();
    std::fs::remove_file(hour.join(format!("{name}.parquet"))).expect("it is there");
    assert_eq!(fleet.run(&["verify"]).status.code(), Some(0));
    let merged =
        std::fs::read_dir(fleet.tree("merged", 1)).expect("it is there").map(|entry| entry.expect("an entry").path());
    let merged =
        merged.into_iter().find(|path| path.to_string_lossy().contains("merged-by-commit")).expect("an output");
    std::fs::remove_file(merged).expect("it is there");
    let output = fleet.run(&["verify"]);
    assert!(output.status.code() == Some(1) && text(&output.stderr).contains("it is not there"), "{output:?}");
}

#[test]
fn old_hours_are_dropped_and_stay_so() {
    let mut fleet = Fleet::new();
    for ago in [1, 1, 30, 50] {
        fleet.write(ago);
    }
    let output = fleet.run(&["compact", "--settle", "0s", "--grace", "0s", "--keep", "1d"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(text(&output.stdout).contains("2 hours dropped"), "{output:?}");
    fleet.hosts = BTreeSet::from(["host-0000".to_owned(), "host-0001".to_owned()]);
    fleet.check();
    let late = fleet.now - 50 * HOUR;
    fleet.shelf.put(&Partition::of(HOSTS.name, WallTime(late)), "late", b"whatever").expect("it can be written");
    fleet.check();
    let output = fleet.run(&["compact", "--settle", "0s", "--grace", "0s", "--keep", "1d"]);
    assert!(output.status.code() == Some(0) && !fleet.hour(50).join("late.parquet").exists(), "{output:?}");
}

/// A small file whose rows take much memory: one long text, again and again by its dictionary.
fn repeated(text: String, times: usize) -> Vec<u8> {
    use arrow_array::{DictionaryArray, Int32Array, RecordBatch, StringArray};
    use parquet::arrow::ArrowWriter;
    use parquet::file::properties::WriterProperties;
    let texts = Arc::new(StringArray::from(vec![text]));
    let column = DictionaryArray::new(Int32Array::from(vec![0; times]), texts);
    let [ts, version] = needed(times);
    let batch = RecordBatch::try_from_iter([("host", Arc::new(column) as arrow_array::ArrayRef), ts, version]);
    let batch = batch.expect("columns of one length");
    let (mut bytes, properties) = (Vec::new(), WriterProperties::builder().set_dictionary_page_size_limit(64 << 20));
    let mut out =
        ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties.build())).expect("it can be encoded");
    out.write(&batch).expect("it can be encoded");
    out.close().expect("it can be encoded");
    bytes
}

/// The other columns that each file has.
fn needed(rows: usize) -> [(&'static str, arrow_array::ArrayRef); 2] {
    use arrow_array::{StringArray, TimestampMicrosecondArray};
    let ts = TimestampMicrosecondArray::from(vec![0; rows]).with_timezone("UTC");
    [("ts", Arc::new(ts)), ("unstarve", Arc::new(StringArray::from(vec![""; rows])))]
}

/// One that takes more than it may.
fn bomb() -> Vec<u8> {
    repeated("x".repeat(4 << 20), 400)
}

/// What a file does to its decoder happens to a child: the file is named and left alone, and the rest is merged.
#[test]
fn a_file_that_ends_its_decoder_ends_nothing_else() {
    let mut fleet = Fleet::new();
    for ago in [1, 1, 2] {
        fleet.write(ago);
    }
    std::fs::write(fleet.hour(1).join("bomb.parquet"), bomb()).expect("it can be written");
    let output = fleet.run(&["compact", "--settle", "0s"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(text(&output.stdout).contains("2 hours merged: 3 files of hosts, 3 rows"), "{output:?}");
    let said = text(&output.stderr);
    assert!(said.contains("bomb.parquet") && said.contains("ended the process"), "{said}");
    assert!(fleet.hour(1).join("bomb.parquet").exists());
    let output = fleet.run(&["verify"]);
    assert!(output.status.code() == Some(1) && text(&output.stderr).contains("bomb.parquet"), "{output:?}");
    assert!(text(&output.stdout).contains("3 merged rows in 2 files"), "{output:?}");
}

/// Bytes of memory that belong to a process and its children, and to nobody else.
fn memory_of_tree(process: u32) -> u64 {
    let read = |path: String| std::fs::read_to_string(path).unwrap_or_default();
    let own = read(format!("/proc/{process}/status"));
    let own =
        own.lines().find_map(|line| line.strip_prefix("RssAnon:")?.split_whitespace().next()?.parse::<u64>().ok());
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let children = threads.map(|thread| read(format!("{}/children", thread.path().display())));
    let children = children.flat_map(|text| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
    own.unwrap_or(0) * 1024 + children.filter_map(|child| child.parse().ok()).map(memory_of_tree).sum::<u64>()
}

/// What docs/fleet.md says that a compaction takes at most.
const MOST_MEMORY: u64 = 5 << 28;

/// Two million rows without any column, in 45 bytes.
const HOLLOW: &[u8] = b"PAR1\x15\x02\x19\x1cH\x06schema\x15\x00\x00\x16\x80\x80\x80\x02\x19\x1c\x19\x0c\x16\x00\x16\x80\x80\x80\x02\x00\x00\x21\x00\x00\x00PAR1";

/// Files whose rows are as large as they may be, such that end their decoder, rows in which is nothing, and rows without a column: many of each, in all groups that are read side by side.
#[test]
fn hostile_files_together_have_a_limit_of_memory() {
    let mut fleet = Fleet::new();
    fleet.write(1);
    let hour = fleet.hour(1);
    if !Path::new("/proc/self/task").join(std::process::id().to_string()).join("children").exists() {
        return unstarve_testing::not_possible_here("the kernel does not list children (CONFIG_PROC_CHILDREN)");
    }
    let (large, ending) = (repeated("x".repeat(1 << 20), 120), bomb());
    let nothing = {
        use arrow_array::{ArrayRef, RecordBatch, StringArray};
        let none: ArrayRef = Arc::new(StringArray::new_null(2 << 20));
        let [ts, version] = needed(2 << 20);
        let batch = RecordBatch::try_from_iter([("host", none), ts, version]).expect("columns of one length");
        let mut bytes = Vec::new();
        let mut out = parquet::arrow::ArrowWriter::try_new(&mut bytes, batch.schema(), None).expect("memory");
        out.write(&batch).expect("memory");
        out.close().expect("memory");
        bytes
    };
    for number in 0..4 {
        for (name, bytes) in [("large", &large), ("ending", &ending), ("nothing", &nothing)] {
            if name != "nothing" || number < 2 {
                std::fs::write(hour.join(format!("{name}-{number}.parquet")), bytes).expect("it can be written");
            }
        }
    }
    // As many as are read at once.
    for number in 0..32 {
        std::fs::write(hour.join(format!("hollow-{number}.parquet")), HOLLOW).expect("it can be written");
    }
    let mut command = fleet.command(&["compact", "--settle", "0s"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it can be started");
    let mut most = 0;
    while child.try_wait().expect("it can be waited for").is_none() {
        most = memory_of_tree(child.id()).max(most);
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    let output = child.wait_with_output().expect("it ended");
    assert!(output.status.code() == Some(1) && text(&output.stdout).contains("7 files of hosts"), "{output:?}");
    assert!((100 << 20..MOST_MEMORY).contains(&most), "{} MiB", most >> 20);
}

/// The hour that goes on is left alone: how many files wait, and until when.
#[test]
fn files_of_an_hour_that_has_not_ended_are_counted() {
    let mut fleet = Fleet::new();
    fleet.write(0);
    fleet.write(0);
    let output = fleet.run(&["compact", "--settle", "30m"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let until = WallTime(fleet.now + HOUR + HOUR / 2);
    let expected = format!(
        "nothing to merge\n2 files of hours that go on or have just ended left for a later run, the first from {} {} UTC on (--settle)\n",
        until.date(),
        &until.to_string()[11..16]
    );
    assert_eq!(text(&output.stdout), expected);
    let output = fleet.run(&["verify"]);
    let expected = "read: 0 merged rows in 0 files of 0 hours\n2 files of hosts not merged yet: read\nno row is lost, none is there twice\n";
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), expected));
}

#[test]
fn errors_say_what_is_expected() {
    let output = Command::new(env!("CARGO_BIN_EXE_unstarve")).args(["fleet", "status", "/nowhere/at/all"]).output();
    let output = output.expect("it can be started");
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(text(&output.stderr).contains("/nowhere/at/all"), "{output:?}");
    let fleet = Fleet::new();
    for arguments in [["compact", "--keep", "5m"], ["compact", "--settle", "soon"]] {
        let output = fleet.run(&arguments);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(text(&output.stderr).contains("expected"), "{output:?}");
    }
}

/// A new user's first tries: nothing there yet, and another directory than was meant.
#[test]
fn a_directory_without_tables_is_said_and_left_as_it_is() {
    let fleet = Fleet::new();
    std::fs::remove_dir_all(fleet.path.join("hosts")).expect("it is ours");
    for command in ["compact", "verify", "status"] {
        let output = fleet.run(&[command]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && said.contains("no tables yet"), "{command}: {output:?}");
    }
    assert_eq!(std::fs::read_dir(&fleet.path).expect("it is there").count(), 0, "nothing was written");
    std::fs::write(fleet.path.join("notes.txt"), "of somebody").expect("it can be written");
    for command in ["compact", "verify", "status"] {
        let output = fleet.run(&[command]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let is_said = said.contains("holds other files, and no tables") && said.contains("expected a store");
        assert!(output.status.code() == Some(2) && is_said, "{command}: {output:?}");
    }
    assert_eq!(std::fs::read_dir(&fleet.path).expect("it is there").count(), 1, "nothing was written");
}

/// Tables of the layout before `v1`, as a store of that version has them.
#[test]
fn old_tables_are_copied_into_a_store() {
    let fleet = Fleet::new();
    let old = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fleet/tests/early_store");
    let unstarve = |arguments: &[&Path]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_unstarve"));
        command.arg("fleet").args(arguments).stdin(Stdio::null()).output().expect("it can be started")
    };
    let output = unstarve(&[Path::new("compact"), &old]);
    assert!(output.status.code() == Some(2) && text(&output.stderr).contains("unstarve fleet migrate"), "{output:?}");
    for expected in ["4 files copied, ", "0 files copied, 0 rows\n4 files copied by an earlier run\n"] {
        let output = unstarve(&[Path::new("migrate"), &old, &fleet.path]);
        assert!(output.status.success() && text(&output.stdout).starts_with(expected), "{output:?}");
    }
    let output = fleet.run(&["compact", "--settle", "0s"]);
    assert!(
        output.status.success() && text(&output.stdout).starts_with("2 hours merged: 4 files of hosts"),
        "{output:?}"
    );
    assert_eq!(fleet.run(&["verify"]).status.code(), Some(0));
}
