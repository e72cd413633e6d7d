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

/// Names that are no plain text are passed over and said harmlessly, as `unstarve fleet compact` does; others that a store of files has a use of its own for are read.
#[test]
fn strange_names_take_no_question_away() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let place = copy(REAL);
    let part = hour(place.path()).join("vm-c05a1cd7-1795421990359013721.parquet");
    let expected = asked(&[REAL]).0;
    let strange: [&[u8]; 4] = [b"b\x1b[2J.parquet", b"c\n.parquet", b"d\xff.parquet", "e\u{9b}.parquet".as_bytes()];
    for name in strange {
        std::fs::copy(&part, hour(place.path()).join(OsStr::from_bytes(name))).expect("it can be copied");
    }
    for directory in
        [&b"table=\xff"[..], b"table=hosts/date=\t", b"more#1", b"table=hosts/date=2026-11-23/hour=08/deep#2"]
    {
        std::fs::create_dir(place.path().join(OsStr::from_bytes(directory))).expect("it can be made");
    }
    let (rows, said) = asked(&[text(place.path())]);
    assert_eq!(rows, expected);
    for shown in
        ["b\\u{1b}[2J.parquet", "c\\n.parquet", "d\\xff.parquet", "e\\u{9b}.parquet", "table=\\xff", "date=\\t"]
    {
        let line = format!("{shown}: left out, its name has control characters or is no UTF-8");
        assert!(said.contains(&line), "{shown}: {said}");
    }
    std::fs::copy(&part, place.path().join("more#1/a#2.parquet")).expect("it can be copied");
    let output = sql(&["--format", "csv", "select count(*) from a_2", text(place.path())]);
    assert!(output.status.success(), "{output:?}");
}

/// However many there are, few are said.
#[test]
fn planted_commits_are_counted() {
    let place = copy(STORE);
    for number in 2..3000 {
        let name = format!("_commit-{number:08}.json");
        std::fs::create_dir(hour(place.path()).join(&name)).expect("it can be made");
        symlink("/etc/hostname", hour(place.path()).join(format!("_commit-{:08}.json", number + 10_000)))
            .expect("made");
    }
    let (rows, said) = asked(&[text(place.path())]);
    assert_eq!(rows, asked(&[STORE]).0);
    assert!(said.lines().count() < 20 && said.contains("and 2988 more links left out"), "{said}");
}

/// What a terminal gets, by a pseudo-terminal.
fn on_a_terminal(arguments: &[&str]) -> String {
    const TERMINAL: &str = "import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)";
    let mut command = Command::new("/usr/bin/python3");
    command.args(["-c", TERMINAL, env!("CARGO_BIN_EXE_unstarve-sql")]).args(arguments).stdin(Stdio::null());
    let output = command.output().expect("python3 can be started");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("UTF-8").replace("\r\n", "\n")
}

/// Texts are hosts' own word: a terminal is not driven by them, a cell is not taken for another row, and a file has what was found.
#[test]
fn texts_drive_no_terminal_and_files_keep_them() {
    let texts = "select 'a\u{1b}[2Jb' as t, 'c\nd' as \"n\u{1b}n\", '=1+1' as f from blame_rollup limit 1";
    let table = String::from_utf8(sql(&[texts, STORE]).stdout).expect("UTF-8");
    assert!(table.contains("a\\u{1b}[2Jb") && table.contains("| c\\nd ") && table.contains("n\\u{1b}n"), "{table}");
    assert_eq!(table.lines().count(), 6, "{table}");
    let plan = String::from_utf8(sql(&[&format!("explain {texts}"), STORE]).stdout).expect("UTF-8");
    assert!(plan.lines().count() > 6 && !plan.contains('\u{1b}'), "{plan}");
    let csv = String::from_utf8(sql(&["--format", "csv", texts, STORE]).stdout).expect("UTF-8");
    assert_eq!(csv, "t,n\u{1b}n,f\na\u{1b}[2Jb,\"c\nd\",=1+1\n");
    assert_eq!(on_a_terminal(&["--format", "csv", texts, STORE]), "t,n\\u{1b}n,f\na\\u{1b}[2Jb,c\\nd,=1+1\n");
    let json = on_a_terminal(&["--format", "json", "select '\u{9b}2J\u{7f}' as t from blame_rollup limit 1", STORE]);
    assert_eq!(json, "[{\"t\":\"\\u009b2J\\u007f\"}]\n");
}

/// A statement reads the tables that were named, and no other place: neither a file nor a URL in its text.
#[test]
fn a_statement_reaches_nothing_that_was_not_named() {
    for from in ["'http://127.0.0.1:9/a.parquet'", "'s3://fleet/a.parquet'", "'/etc/passwd'", "'file:///etc/passwd'"] {
        for statement in [format!("select * from {from}"), format!("select * from read_parquet({from})")] {
            let output = sql(&[&statement, STORE]);
            assert_eq!(output.status.code(), Some(2), "{statement}: {output:?}");
        }
        let made = format!("create external table t stored as parquet location {from}");
        let copied = format!("copy hosts to {from}");
        for statement in [made.as_str(), copied.as_str()] {
            let output = sql(&[statement, STORE]);
            assert_eq!(output.status.code(), Some(2), "{statement}: {output:?}");
        }
    }
}

/// Ctrl-C in the middle of a statement: neither a half file nor a hidden one is left.
#[test]
fn an_interrupted_statement_leaves_no_file() {
    let place = tempfile::tempdir().expect("a place for files");
    let endless = "select a.ns from blame_rollup a, blame_rollup b, blame_rollup c, blame_rollup d, blame_rollup e";
    let out = place.path().join("out.csv");
    let mut command = Command::new(env!("CARGO_BIN_EXE_unstarve-sql"));
    let mut child = command.args(["-o", text(&out), endless, STORE]).stdin(Stdio::null()).spawn().expect("started");
    let begun = std::time::Instant::now();
    while std::fs::read_dir(place.path()).expect("there").count() == 0 && begun.elapsed().as_secs() < 60 {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill").success());
    let status = child.wait().expect("it ends");
    assert_eq!(status.code(), Some(2), "{status:?}");
    assert_eq!(std::fs::read_dir(place.path()).expect("there").count(), 0);
}

/// A program whose output nobody takes ends all the same, and one that was started to ignore SIGHUP goes on.
#[test]
fn a_signal_ends_what_nobody_reads() {
    // Ten million rows, far more than a pipe takes.
    let endless = "select a.ns from blame_rollup a, blame_rollup b, blame_rollup c";
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' HUP; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_unstarve-sql"), "--format", "csv"]);
    let mut child =
        command.args([endless, STORE]).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("started");
    let mut begin = [0; 1];
    std::io::Read::read_exact(child.stdout.as_mut().expect("a pipe"), &mut begin).expect("it begins");
    let id = child.id().to_string();
    let kill = |signal: &str| assert!(Command::new("kill").args([signal, &id]).status().expect("kill").success());
    kill("-HUP");
    std::thread::sleep(std::time::Duration::from_millis(500));
    assert!(child.try_wait().expect("it can be asked").is_none(), "it goes on");
    kill("-TERM");
    let begun = std::time::Instant::now();
    let status = child.wait().expect("it ends");
    assert!(status.code() == Some(2) && begun.elapsed().as_secs() < 60, "{status:?}");
}

/// The history of the prompt is its user's alone; where another user could lead it elsewhere it is not kept.
#[test]
fn the_history_is_kept_where_nobody_else_leads_it() {
    use std::os::unix::fs::PermissionsExt;
    let prompt = |state: &Path| {
        // What is typed before the prompt is there would be lost.
        const TERMINAL: &str = "
import os, pty, signal, sys
signal.alarm(60)
pid, terminal = pty.fork()
if not pid:
    os.execv(sys.argv[1], sys.argv[1:])
said, typed = b'', [b'\\\\q\\r', b'\\\\?\\r']
while True:
    try:
        said += os.read(terminal, 4096)
    except OSError:
        break
    if typed and said.count(b'unstarve> ') > 2 - len(typed):
        os.write(terminal, typed.pop())
os.waitpid(pid, 0)
sys.stdout.write(said.decode())
";
        let mut command = Command::new("/usr/bin/python3");
        command.args(["-c", TERMINAL, env!("CARGO_BIN_EXE_unstarve-sql"), STORE]);
        command.env("XDG_STATE_HOME", state).stdin(Stdio::null());
        String::from_utf8_lossy(&command.output().expect("python3 can be started").stdout).into_owned()
    };
    let state = tempfile::tempdir().expect("a place for files");
    let kept = state.path().join("unstarve/sql_history");
    let said = prompt(state.path());
    assert!(said.contains("Ctrl-D") && kept.exists(), "{said}");
    assert_eq!(kept.metadata().expect("there").permissions().mode() & 0o777, 0o600);
    let other = tempfile::tempdir().expect("a place for files");
    std::fs::set_permissions(other.path(), PermissionsExt::from_mode(0o777)).expect("ours");
    std::fs::create_dir(other.path().join("unstarve")).expect("it can be made");
    symlink(state.path().join("victim"), other.path().join("unstarve/sql_history")).expect("it can be made");
    let said = prompt(other.path());
    assert!(said.contains("neither read nor kept") && !state.path().join("victim").exists(), "{said}");
}
