//! What hosts can put where `unstarve sql` reads: links, tables in tables, files that are called like commits. None of it adds or hides a row, and none stops a
//! question.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const STORE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/store");
const REAL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/real");
const ALL: &str = "select * from blame_rollup order by ts, victim_role, occupant, rule, ns";

fn sql(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_unstarve-sql"));
    command.args(arguments).stdin(Stdio::null()).output().expect("it can be started")
}

/// The rows, and what was said beside them.
fn asked(places: &[&str]) -> (Vec<String>, String) {
    let output = sql(&[&["--format", "csv", ALL][..], places].concat());
    assert!(output.status.success(), "{places:?}: {output:?}");
    let rows = String::from_utf8(output.stdout).expect("UTF-8").lines().skip(1).map(str::to_owned).collect();
    (rows, String::from_utf8(output.stderr).expect("UTF-8"))
}

fn copy(of: &str) -> tempfile::TempDir {
    let place = tempfile::tempdir().expect("a place for files");
    let copied = Command::new("cp").arg("-r").arg(format!("{of}/.")).arg(place.path()).status();
    assert!(copied.expect("cp can be started").success());
    place
}

fn hour(place: &Path) -> PathBuf {
    place.join("table=blame_rollup/date=2026-11-23/hour=08")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

#[test]
fn links_below_a_place_are_left_out() {
    let place = copy(REAL);
    let expected = asked(&[REAL]).0;
    let part = hour(place.path()).join("vm-c05a1cd7-1795421990359013721.parquet");
    assert!(part.exists());
    symlink(&part, hour(place.path()).join("again.parquet")).expect("it can be made");
    symlink(place.path().join("table=blame_rollup"), place.path().join("more")).expect("it can be made");
    for glob in ["", "/table=*", "/**/*.parquet", "/*"] {
        let (rows, said) = asked(&[&format!("{}{glob}", place.path().display())]);
        assert_eq!(rows, expected, "{glob}");
        assert!(said.contains("links are not followed"), "{glob}: {said}");
    }
    // A place that is a link itself is what its user meant.
    let link = place.path().join("place");
    symlink(REAL, &link).expect("it can be made");
    assert_eq!(asked(&[text(&link)]).0, expected);
    assert_eq!(asked(&[text(&link), REAL]).0, expected, "one place by two names");
    assert_eq!(asked(&[&format!("{}/*/*/*/*.parquet", link.display())]).0, expected);
}

#[test]
fn a_table_in_a_table_is_not_read() {
    let place = copy(REAL);
    let expected = asked(&[REAL]).0;
    for nested in
        ["table=hosts/date=2026-11-23/hour=08/table=blame_rollup/date=2026-11-23/hour=09", "table=blame_rollup/more"]
    {
        let nested = place.path().join(nested);
        std::fs::create_dir_all(&nested).expect("it can be made");
        let part = hour(place.path()).join("vm-c05a1cd7-1795421990359013721.parquet");
        std::fs::copy(part, nested.join("nested.parquet")).expect("it can be copied");
    }
    let (rows, said) = asked(&[text(place.path())]);
    assert_eq!(rows, expected);
    assert_eq!(said.matches("no place for files of a table").count(), 2, "{said}");
}

/// A directory is what a table is called after, and whoever writes into a store makes directories.
#[test]
fn strange_tables_take_no_question_away() {
    let place = copy(REAL);
    let expected = asked(&[REAL]).0;
    let part = hour(place.path()).join("vm-c05a1cd7-1795421990359013721.parquet");
    for table in ["Hosts", "a.b", "rules", "information_schema.tables", "\"", "😀"] {
        let table = place.path().join(format!("table={table}"));
        std::fs::create_dir(&table).expect("it can be made");
        std::fs::copy(&part, table.join("part.parquet")).expect("it can be copied");
    }
    std::fs::create_dir(place.path().join("table=junk")).expect("it can be made");
    std::fs::write(place.path().join("table=junk/junk.parquet"), b"PAR1 or not").expect("it can be written");
    let (rows, said) = asked(&[text(place.path())]);
    assert_eq!(rows, expected);
    for left_out in ["\"rules\" left out: a view has this name", "\"junk\" left out"] {
        assert!(said.contains(left_out), "{said}");
    }
    let output = sql(&[
        "--format",
        "csv",
        "select count(*) from \"a.b\" union all select count(*) from rules",
        text(place.path()),
    ]);
    assert!(output.status.success(), "{output:?}");
    assert!(output.stdout.starts_with(b"count(*)\n"), "{output:?}");
}

/// A link, a directory, a commit of another hour, and root's file that somebody else owns.
#[test]
fn what_is_only_called_like_a_commit_is_passed_over() {
    let place = copy(STORE);
    let expected = asked(&[STORE]).0;
    symlink("/etc/hostname", hour(place.path()).join("_commit-99999999.json")).expect("it can be made");
    std::fs::create_dir(hour(place.path()).join("_commit-99999998.json")).expect("it can be made");
    let commit = std::fs::read_to_string(hour(place.path()).join("_commit-00000001.json")).expect("it is there");
    let other = commit.replacen("\"number\":1", "\"number\":2", 1).replacen("hour=08", "hour=09", 1);
    std::fs::write(hour(place.path()).join("_commit-00000002.json"), other).expect("it can be written");
    let (rows, said) = asked(&[text(place.path())]);
    assert_eq!(rows, expected);
    assert!(said.contains("_commit-99999999.json: left out, links are not followed"), "{said}");
    assert_eq!(said.matches("passed over").count(), 1, "{said}");
    let fake = hour(place.path()).join("_commit-00000003.json");
    std::fs::write(&fake, "{}\n").expect("it can be written");
    if std::os::unix::fs::chown(&fake, Some(65_534), None).is_ok() {
        let (rows, said) = asked(&[text(place.path())]);
        assert_eq!(rows, expected);
        assert_eq!(said.matches("passed over").count(), 2, "{said}");
    }
}

/// A commit of an early version does not say its hour: it holds where nobody else can have brought it.
#[test]
fn a_commit_without_its_hour_holds_where_nobody_else_can_bring_one() {
    use std::os::unix::fs::PermissionsExt;
    let place = copy(STORE);
    let commit = hour(place.path()).join("_commit-00000001.json");
    let whole = std::fs::read_to_string(&commit).expect("it is there");
    let early = whole.replacen("\"hour\":\"table=blame_rollup/date=2026-11-23/hour=08\",", "", 1);
    assert_ne!(early, whole);
    std::fs::write(&commit, early).expect("it can be written");
    for directory in hour(place.path()).ancestors().take(4) {
        std::fs::set_permissions(directory, PermissionsExt::from_mode(0o755)).expect("ours");
    }
    assert_eq!(asked(&[text(place.path())]).0, asked(&[STORE]).0);
    std::fs::set_permissions(hour(place.path()), PermissionsExt::from_mode(0o777)).expect("ours");
    let output = sql(&[ALL, text(place.path())]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("does not say its hour"), "{output:?}");
}

/// A file that only its owner may read: the others are asked, and what is left out is said.
#[test]
fn one_hosts_closed_file_does_not_hide_an_hour() {
    use std::os::unix::fs::PermissionsExt;
    let place = copy(REAL);
    for entry in [place.path().to_owned()].into_iter().chain(below(place.path())) {
        let mode = if entry.is_dir() { 0o755 } else { 0o644 };
        std::fs::set_permissions(entry, PermissionsExt::from_mode(mode)).expect("ours");
    }
    // Who asks is not the owner: root is everybody, so somebody else asks.
    let nobody = |arguments: &[&str]| {
        let program = place.path().join("unstarve-sql");
        if !program.exists() {
            std::fs::copy(env!("CARGO_BIN_EXE_unstarve-sql"), &program).expect("it can be copied");
        }
        let mut command = Command::new("setpriv");
        command
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .arg(program)
            .args(arguments)
            .current_dir("/");
        command.stdin(Stdio::null()).output()
    };
    let count = ["--format", "csv", "select count(*) from blame_rollup", text(place.path())];
    match nobody(&count) {
        Ok(output) if output.status.success() => {}
        other => {
            unstarve_testing::not_possible_here(format!("nobody else can ask here: {other:?}"));
            return;
        }
    }
    let parts: Vec<PathBuf> = below(&hour(place.path())).into_iter().filter(|path| path.is_file()).collect();
    std::fs::set_permissions(&parts[0], PermissionsExt::from_mode(0o600)).expect("ours");
    let rest = asked(&parts[1..].iter().map(|part| text(part)).collect::<Vec<_>>()).0.len();
    let output = nobody(&count).expect("as before");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout).lines().nth(1), Some(rest.to_string().as_str()));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("1 file left out, this user may not read") && said.contains(text(&parts[0])), "{said}");
    // Nothing to be read is no answer.
    for file in below(place.path()).iter().filter(|path| path.extension().is_some_and(|ending| ending == "parquet")) {
        std::fs::set_permissions(file, PermissionsExt::from_mode(0o600)).expect("ours");
    }
    let output = nobody(&count).expect("as before");
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("may not read it"), "{output:?}");
}

/// Everything in a directory and below.
fn below(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).expect("it is there").map(|entry| entry.expect("an entry").path());
    let mut all: Vec<PathBuf> = entries.collect();
    let deeper: Vec<PathBuf> = all.iter().filter(|path| path.is_dir()).flat_map(|path| below(path)).collect();
    all.extend(deeper);
    all.sort();
    all
}

/// A damaged file makes no wrong rows; the error says how to find it, and how to ask without it.
#[test]
fn a_damaged_file_can_be_found_and_left_out() {
    let place = copy(STORE);
    let merged = "select count(*) from blame_rollup where ts > timestamp '2026-11-21T00:00:00Z'";
    let count = |arguments: &[&str]| {
        let output = sql(&[arguments, &["--format", "csv", merged, text(place.path())]].concat());
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned(), output)
    };
    let (code, whole, _) = count(&["--merged"]);
    assert_eq!((code, whole.lines().nth(1)), (Some(0), Some("137")));
    let file = hour(place.path()).join("damaged.parquet");
    let mut bytes = std::fs::read(hour(place.path()).join("vm-late-1795422010120222850.parquet")).expect("it is there");
    let middle = 4..bytes.len() / 2;
    bytes[middle].fill(0xff);
    std::fs::write(file, bytes).expect("it can be written");
    let output = sql(&[ALL, text(place.path())]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.code() == Some(2) && said.contains("fleet verify") && said.contains("--merged"),
        "{output:?}"
    );
    assert_eq!(count(&["--merged"]).1, whole);
}
