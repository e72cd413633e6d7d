//! What each directory is, what a reader takes of it, and how tables of the layout before `v1` get into a store.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use unstarve_fleet::{
    CountingFile, CountingKind, DecodeLimits, FleetError, Migrated, Needed, Options, Store, Sum, compact, counting,
    decode, migrate, verify,
};
use unstarve_model::WallTime;
use unstarve_tables::{Cell, HOSTS, Partition, Shelf, named, parquet_file};

use crate::world::files;

const NOW: WallTime = WallTime(1_795_910_400_000_000_000);

/// By table the rows and their sum, of all files that a reader takes.
type Rows = BTreeMap<String, (u64, Sum)>;

fn rows(path: &Path) -> Rows {
    let mut rows = Rows::new();
    for file in counting(path).expect("it can be read").files {
        add(&mut rows, &file.table, &file.path);
    }
    rows
}

fn add(rows: &mut Rows, table: &str, path: &Path) {
    let limits = DecodeLimits { needed: Needed::Nothing, ..DecodeLimits::OUTPUT };
    let bytes = std::fs::read(path).expect("it counts");
    let decoded = decode(bytes, named(table).expect("a table"), limits).expect("a good file");
    let found = rows.entry(table.to_owned()).or_default();
    *found = (found.0 + decoded.rows, found.1.plus(decoded.sum));
}

fn row() -> Vec<u8> {
    let row = [Cell::Text("a"), Cell::Empty, Cell::Empty, NOW.0.into(), Cell::Empty];
    let row = [&row[..], &[Cell::Empty; 5], &[Cell::Text("0.1")]].concat();
    parquet_file(&HOSTS, |rows| rows.row(&row)).expect("it can be encoded")
}

/// A name; what is there; the files that a reader takes, or a word of its error; a word of a compactor's error.
type Case<'a> = (&'a str, &'a [&'a str], Result<usize, &'a str>, Option<&'a str>);

/// Each kind of directory: the files that count, or why it is refused, by a reader and by a compactor.
#[test]
fn each_kind_of_directory() {
    let hour = Partition::of(HOSTS.name, NOW).path();
    let put = |path: PathBuf| {
        std::fs::create_dir_all(path.parent().expect("a directory")).expect("it can be made");
        std::fs::write(path, row()).expect("it can be written");
    };
    let cases: [Case<'_>; 12] = [
        ("empty", &[], Ok(0), None),
        ("hidden", &[".notes/a.parquet", "lost+found/x"], Ok(0), None),
        ("store", &["hosts/v1/@/a.parquet", "hosts/v1/@/.new-b.parquet", "hosts/v1/@/_c.parquet"], Ok(1), None),
        ("store and what is beside it", &["hosts/v1/@/a.parquet", "v1/@/b.parquet", "@/c.parquet"], Ok(1), None),
        ("copy of merged files", &["merged/v1/@/a.parquet", "hosts/v1/@/b.parquet"], Ok(1), Some("a copy to read")),
        ("of a host", &["v1/@/a.parquet", "v1/@/b.parquet"], Ok(2), Some("tables of one host")),
        ("of a host that was upgraded", &["v1/@/a.parquet", "@/b.parquet"], Ok(2), Some("tables of one host")),
        ("layout before", &["@/a.parquet"], Ok(1), Some("fleet migrate")),
        (
            "layout before, merged",
            &["@/a.parquet", "@/_commit-00000001.json", "@/merged-by-commit-00000001-0000000000000001.parquet"],
            Err("fleet migrate"),
            Some("fleet migrate"),
        ),
        (
            "merged/ of a store",
            &["v1/@/merged-by-commit-00000001-0000000000000001.parquet"],
            Err("has `merged/v1` in it"),
            Some("tables of one host"),
        ),
        (
            "merged/v1 of a store",
            &["@/merged-by-commit-00000001-0000000000000001.parquet"],
            Err("has `merged/v1` in it"),
            Some("fleet migrate"),
        ),
        ("other files", &["notes.txt"], Err("no tables"), Some("no tables")),
    ];
    for (name, there, read, refused) in cases {
        let place = tempfile::tempdir().expect("a place for files");
        for path in there {
            put(place.path().join(path.replace('@', &hour.display().to_string())));
        }
        let before = files(place.path()).len();
        let counted = counting(place.path()).map(|counted| counted.files.len()).map_err(|error| error.to_string());
        match read {
            Ok(count) => assert_eq!(counted, Ok(count), "{name}"),
            Err(word) => assert!(counted.as_ref().is_err_and(|why| why.contains(word)), "{name}: {counted:?}"),
        }
        let store = Store::open(place.path()).expect("it is there");
        let options = Options { now: WallTime(0), settle: Duration::ZERO, grace: Duration::ZERO, keep: None };
        let compacted = compact(&store, &options).map(drop).map_err(|error| error.to_string());
        match refused {
            None => assert_eq!(compacted, Ok(()), "{name}"),
            Some(word) => {
                assert!(compacted.as_ref().is_err_and(|why| why.contains(word)), "{name}: {compacted:?}");
                assert_eq!(files(place.path()).len(), before, "{name}: nothing is written");
            }
        }
    }
    assert!(matches!(counting(Path::new("/nowhere/at/all")), Err(FleetError::Io { .. })));
}

/// Which merged files have rows by the hour, and that a reader goes without them where they are missing.
#[test]
fn rows_by_the_hour_are_given_where_they_are() {
    let place = tempfile::tempdir().expect("a place for files");
    let new = place.path().join("new");
    std::fs::create_dir(&new).expect("it can be made");
    migrated(&early("hourly"), &new);
    merge(&new);
    let hourly = || {
        let files = counting(&new).expect("it can be read").files.into_iter();
        files.filter(|file| matches!(&file.kind, CountingKind::Merged { hourly: Some(path) } if path.exists())).count()
    };
    let there = files(&new.join("hourly")).len();
    assert!(there > 0);
    assert_eq!(hourly(), there);
    let all = rows(&new);
    let copy = place.path().join("copy");
    for tree in ["merged", "hourly"] {
        std::fs::create_dir_all(&copy).expect("it can be made");
        let copied = std::process::Command::new("cp").args(["-r", "--"]).arg(new.join(tree)).arg(&copy).status();
        assert!(copied.expect("cp can be started").success());
    }
    let is_merged = |file: &CountingFile| matches!(file.kind, CountingKind::Merged { .. });
    let merged = counting(&new).expect("it can be read").files.into_iter().filter(is_merged).count();
    let of_copy = counting(&copy).expect("it can be read").files;
    assert_eq!((of_copy.len(), of_copy.iter().all(is_merged)), (merged, true), "all rows that are merged");
    assert!(of_copy.iter().any(|file| matches!(&file.kind, CountingKind::Merged { hourly: Some(_) })));
    std::fs::remove_dir_all(new.join("hourly")).expect("ours");
    assert_eq!((hourly(), rows(&new)), (0, all));
}

fn early(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(format!("early_{name}"))
}

fn migrated(old: &Path, new: &Path) -> Migrated {
    let (old, new) = [old, new].map(|path| Store::open(path).expect("it is there")).into();
    migrate(&old, &new).expect("it can be copied")
}

fn merge(new: &Path) {
    for now in [NOW.0, NOW.0 + 7_200_000_000_000] {
        let options =
            Options { now: WallTime(now), settle: Duration::ZERO, grace: Duration::from_secs(3600), keep: None };
        let done = compact(&Store::open(new).expect("it is there"), &options).expect("it can be compacted");
        assert_eq!(done.problems, []);
    }
    assert_eq!(verify(&Store::open(new).expect("it is there")).expect("it can be read").problems, []);
}

/// What counts in an old directory, by the text of its commits, read here by other means.
fn expected(old: &Path) -> Rows {
    let mut rows = Rows::new();
    let all = files(old);
    let parquet =
        all.iter().filter(|path| path.extension().is_some_and(|it| it == "parquet") && path.parent() != Some(old));
    for path in parquet {
        let hour = path.parent().expect("an hour");
        let mut commits: Vec<&PathBuf> =
            all.iter().filter(|it| it.parent() == Some(hour) && it.to_string_lossy().contains("/_commit-")).collect();
        commits.sort();
        let text = commits.last().map(|path| std::fs::read_to_string(path).expect("it is there")).unwrap_or_default();
        let (head, inputs) = text.split_once('\n').unwrap_or_default();
        let head: serde_json::Value = serde_json::from_str(head).unwrap_or_default();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        let is_named = |text: &str| text.contains(&format!("\"name\":\"{name}\""));
        let is_output = head["outputs"].as_array().is_some_and(|all| all.iter().any(|it| it["name"] == name.as_str()));
        let is_loose = !name.starts_with("merged-by-commit-") && !is_named(inputs);
        if head["dropped"] != true && (is_output || is_loose) {
            let table = path.strip_prefix(old).expect("below").iter().next().expect("a table").to_string_lossy();
            add(&mut rows, table.strip_prefix("table=").expect("a table"), path);
        }
    }
    rows
}

/// Stores with commits, rows by the hour and dropped hours, and the directory of a host: all rows, once, whenever the run is killed, and the old
/// directory as it was.
#[test]
fn tables_of_the_layout_before_get_into_a_store() {
    for name in ["store", "hourly", "host"] {
        let old = early(name);
        let (before, expected) = (contents(&old), expected(&old));
        assert!(expected.values().map(|(rows, _)| rows).sum::<u64>() > 100, "{name}: {expected:?}");
        for stop in [None, Some(0), Some(2), Some(5), Some(9), Some(20)] {
            let place = tempfile::tempdir().expect("a place for files");
            let new = place.path().join("new");
            std::fs::create_dir(&new).expect("it can be made");
            let effects = std::cell::Cell::new(0);
            let stopping = move |_: unstarve_fleet::Effect<'_>| {
                let effect = effects.replace(effects.get() + 1);
                if stop.is_some_and(|stop| stop <= effect) { Err(io::Error::other("stopped")) } else { Ok(()) }
            };
            let killed = Store::watched(&new, Box::new(stopping)).expect("it is there");
            let _ = migrate(&Store::open(&old).expect("it is there"), &killed);
            drop(killed);
            // Merged in between, as by a timer.
            if stop.is_some_and(|stop| stop > 5) {
                merge(&new);
            }
            let done = migrated(&old, &new);
            assert_eq!(done.problems, [], "{name} {stop:?}");
            assert_eq!(rows(&new), expected, "{name} {stop:?}");
            merge(&new);
            assert_eq!(rows(&new), expected, "{name} {stop:?}, merged");
            // Once more, after all was merged and removed.
            migrated(&old, &new);
            assert_eq!(rows(&new), expected, "{name} {stop:?}, again");
            merge(&new);
            assert_eq!(rows(&new), expected, "{name} {stop:?}, again and merged");
        }
        assert_eq!(contents(&old), before, "{name}");
    }
}

fn contents(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    files(directory).into_iter().map(|path| (path.clone(), std::fs::read(path).expect("it is there"))).collect()
}

/// What a migration refuses.
#[test]
fn a_migration_mixes_no_two_directories() {
    let place = tempfile::tempdir().expect("a place for files");
    let new = place.path().join("new");
    std::fs::create_dir(&new).expect("it can be made");
    let open = |path: &Path| Store::open(path).expect("it is there");
    migrated(&early("host"), &new);
    let why = migrate(&open(&early("store")), &open(&new)).expect_err("refused").to_string();
    assert!(why.contains("expected another new store"), "{why}");
    let why = migrate(&open(&new), &open(&new)).expect_err("refused").to_string();
    assert!(why.contains("no tables of the layout before"), "{why}");
    let shelf = place.path().join("shelf");
    Shelf::open(&shelf).expect("ours").put(&Partition::of(HOSTS.name, NOW), "a", &row()).expect("it can be written");
    let why = migrate(&open(&early("host")), &open(&shelf)).expect_err("refused").to_string();
    assert!(why.contains("tables of one host"), "{why}");
}

/// What a commit of an old store says only counts if it is whole and the store's own users wrote it.
#[test]
fn commits_of_early_stores_are_checked() {
    use std::os::unix::fs::PermissionsExt;
    let place = tempfile::tempdir().expect("a place for files");
    let old = place.path().join("old");
    for (path, bytes) in contents(&early("store")) {
        let to = old.join(path.strip_prefix(early("store")).expect("below"));
        std::fs::create_dir_all(to.parent().expect("a directory")).expect("it can be made");
        std::fs::write(to, bytes).expect("it can be written");
    }
    let all = rows_after(&old);
    let hour = old.join("table=wait_rollup/date=2026-11-23/hour=08");
    // Planted: others may write it.
    let planted = hour.join("_commit-00000009.json");
    std::fs::write(&planted, "{\"format\":1,\"dropped\":true,\"outputs\":[],\"inputs\":0}\n").expect("ours");
    std::fs::set_permissions(&planted, PermissionsExt::from_mode(0o666)).expect("ours");
    assert_eq!(rows_after(&old), all);
    // Of another hour.
    std::fs::write(
        &planted,
        "{\"hour\":\"table=hosts/date=2026-11-23/hour=08\",\"dropped\":true,\"outputs\":[],\"inputs\":0}\n",
    )
    .expect("ours");
    std::fs::set_permissions(&planted, PermissionsExt::from_mode(0o644)).expect("ours");
    assert_eq!(rows_after(&old), all);
    // Damaged: nobody knows what counts.
    std::fs::write(&planted, "{\"dropped\":false,\"outputs\":[],\"inputs\":3}\n").expect("ours");
    let new = place.path().join("damaged");
    std::fs::create_dir(&new).expect("it can be made");
    let [from, to] = [&old, &new].map(|path| Store::open(path).expect("it is there"));
    assert!(migrate(&from, &to).expect_err("refused").to_string().contains("not a commit"));
}

/// A copy of an early directory.
fn early_copy(name: &str, old: &Path) {
    for (path, bytes) in contents(&early(name)) {
        let to = old.join(path.strip_prefix(early(name)).expect("below"));
        std::fs::create_dir_all(to.parent().expect("a directory")).expect("it can be made");
        std::fs::write(to, bytes).expect("it can be written");
    }
}

/// Merged rows that are not copied because their commits are not believed, or because there are none, are said in each run.
#[test]
fn merged_files_that_are_not_copied_are_said() {
    use std::os::unix::fs::PermissionsExt;
    let place = tempfile::tempdir().expect("a place for files");
    let (old, new) = (place.path().join("old"), place.path().join("new"));
    early_copy("store", &old);
    std::fs::create_dir(&new).expect("it can be made");
    let is_commit = |path: &Path| path.to_string_lossy().contains("/_commit-");
    let commits: Vec<PathBuf> = files(&old).into_iter().filter(|path| is_commit(path)).collect();
    for path in &commits {
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o664)).expect("ours");
    }
    for run in 0..2 {
        let problems = migrated(&old, &new).problems;
        assert!(problems.iter().any(|it| it.why.contains("not believed")), "{run}: {problems:?}");
        assert!(
            problems.iter().any(|it| it.why.contains("no commit that is believed lists it")),
            "{run}: {problems:?}"
        );
    }
    // Merged files alone, as in `merged/v1` of a store.
    for path in &commits {
        std::fs::remove_file(path).expect("ours");
    }
    let another = place.path().join("another");
    std::fs::create_dir(&another).expect("it can be made");
    assert_ne!(migrated(&old, &another).problems, []);
}

/// What comes into the old directory after the migration began is said in each run: a plan is made once.
#[test]
fn files_that_come_after_the_migration_began_are_said() {
    let place = tempfile::tempdir().expect("a place for files");
    let (old, new) = (place.path().join("old"), place.path().join("new"));
    early_copy("host", &old);
    std::fs::create_dir(&new).expect("it can be made");
    assert_eq!(migrated(&old, &new).problems, []);
    let hour = old.join(Partition::of(HOSTS.name, NOW).path());
    std::fs::create_dir_all(&hour).expect("it can be made");
    std::fs::write(hour.join("late.parquet"), row()).expect("it can be written");
    for run in 0..2 {
        let problems = migrated(&old, &new).problems;
        let is_said =
            |it: &unstarve_fleet::Problem| it.path.ends_with("late.parquet") && it.why.contains("after the migration");
        assert!(matches!(&problems[..], [only] if is_said(only)), "{run}: {problems:?}");
    }
}

/// A host's directory in which a watch of today has begun: what lies in the old layout is copied, and nothing else.
#[test]
fn the_old_part_of_an_upgraded_host_is_copied() {
    let place = tempfile::tempdir().expect("a place for files");
    let (old, new) = (place.path().join("old"), place.path().join("new"));
    early_copy("host", &old);
    std::fs::create_dir(&new).expect("it can be made");
    Shelf::open(&old).expect("ours").put(&Partition::of(HOSTS.name, NOW), "a", &row()).expect("it can be written");
    assert!(old.join("v1").exists());
    assert_eq!(migrated(&old, &new).problems, []);
    assert_eq!(rows(&new), expected(&early("host")));
}

fn rows_after(old: &Path) -> Rows {
    let place = tempfile::tempdir().expect("a place for files");
    migrated(old, place.path());
    rows(place.path())
}
