//! What hosts can put where `unstarve sql` reads, and what a statement of somebody else's may reach.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use super::{ALL, FLEET, REAL, below, copy, file_of_blame, has_duckdb, path, rows, sql, text};

/// What a terminal gets, by a pseudo-terminal.
fn on_a_terminal(arguments: &[&str]) -> String {
    const TERMINAL: &str = "import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)";
    let mut command = Command::new("/usr/bin/python3");
    command.args(["-c", TERMINAL, env!("CARGO_BIN_EXE_unstarve"), "sql"]).args(arguments).stdin(Stdio::null());
    let output = command.output().expect("python3 can be started");
    assert!(output.status.success(), "{output:?}");
    text(&output.stdout).replace("\r\n", "\n")
}

/// A terminal is not driven by texts, and a file has what was found.
#[test]
fn texts_drive_no_terminal_and_files_keep_them() {
    if !has_duckdb() {
        return;
    }
    let texts = "select 'a\u{1b}[2Jb' as t, 'c\u{9b}2Jd' as u, '=1+1' as f from blame_rollup limit 1";
    let csv = text(&sql(&["--format", "csv", texts, REAL]).stdout);
    assert_eq!(csv, "t,u,f\n\"a\u{1b}[2Jb\",\"c\u{9b}2Jd\",=1+1\n");
    for format in ["csv", "json", "table"] {
        let shown = on_a_terminal(&["--format", format, texts, REAL]);
        assert!(shown.contains("[2Jb") && !shown.contains(['\u{1b}', '\u{9b}']), "{format}: {shown:?}");
    }
}

/// A statement reads the tables that were named, and no other place: neither a file nor a URL in its text.
#[test]
fn a_statement_reaches_nothing_that_was_not_named() {
    if !has_duckdb() {
        return;
    }
    for from in ["'http://127.0.0.1:9/a.parquet'", "'s3://fleet/a.parquet'", "'/etc/passwd'", "'file:///etc/passwd'"] {
        let asked = [
            format!("select * from {from}"),
            format!("select * from read_parquet({from})"),
            format!("select * from read_text({from})"),
            format!("select * from glob({from})"),
            format!("attach {from} as other"),
            format!("copy hosts to {from}"),
            "load httpfs".to_owned(),
            "install httpfs".to_owned(),
            "pragma enable_external_access".to_owned(),
            ".shell id".to_owned(),
            "select 1;\n.shell id".to_owned(),
            "select getenv('HOME')".to_owned(),
            format!("explain (analyze) copy hosts to {from}"),
            format!("explain  analyze copy hosts to {from}"),
            format!("explain /* */ analyze copy hosts to {from}"),
        ];
        for statement in asked {
            let output = sql(&[&statement, REAL]);
            assert_eq!(output.status.code(), Some(2), "{statement}: {output:?}");
            assert!(output.stdout.is_empty(), "{statement}: {output:?}");
        }
    }
}

/// Also where writing is possible: DuckDB may read the place, and what it may read it may write.
#[test]
fn a_statement_writes_nothing_into_the_place() {
    if !has_duckdb() {
        return;
    }
    let place = copy(REAL);
    let file = file_of_blame(place.path());
    let before = std::fs::read(&file).expect("it is there");
    let copies = format!("copy (select * from blame_rollup limit 0) to '{}'", file.display());
    for explain in [
        "",
        "explain analyze ",
        "explain (analyze) ",
        "explain  analyze ",
        "explain(analyze)",
        "/* */ explain -- \n analyze ",
    ] {
        let output = sql(&[&format!("{explain}{copies}"), path(place.path())]);
        assert_eq!(output.status.code(), Some(2), "{explain}: {output:?}");
        assert!(std::fs::read(&file).expect("it is there") == before, "{explain}");
    }
}

/// A host's file by a name that is a pattern is one file, and columns that views name are the tables' own.
#[test]
fn a_host_multiplies_and_hides_no_rows() {
    if !has_duckdb() {
        return;
    }
    let place = tempfile::tempdir().expect("a place");
    let hour = place.path().join("v1/table=blame_rollup/date=2026-11-23/hour=08");
    std::fs::create_dir_all(&hour).expect("it can be made");
    let other = file_of_blame(Path::new(REAL));
    std::fs::copy(&other, hour.join("vm-1.parquet")).expect("copied");
    let once = rows("select count(*), sum(ns) from starved", path(place.path()));
    let twice = rows("select count(*) * 2, sum(ns) * 2 from starved", path(place.path()));
    std::fs::copy(&other, hour.join("vm-[0-9]*.parquet")).expect("copied");
    assert_eq!(rows("select count(*), sum(ns) from starved", path(place.path())), twice);
    assert_ne!(once, twice);
    let lie = hour.join("z.parquet");
    let question = "select *, false as is_starved, false as is_kernel_thread from blame_rollup limit 1";
    assert!(sql(&["-o", path(&lie), question, REAL]).status.success());
    let found = rows("select count(*) from marked_hourly where is_starved", path(place.path()));
    assert!(
        found[0].parse::<u64>().expect("a number")
            >= twice[0].split(',').next().expect("one").parse().expect("a number")
    );
}

#[test]
fn links_below_a_place_are_left_out() {
    if !has_duckdb() {
        return;
    }
    let place = tempfile::tempdir().expect("a place");
    let part = place.path().join("blame_rollup-1.parquet");
    std::fs::copy(file_of_blame(Path::new(REAL)), &part).expect("copied");
    let expected = rows(ALL, path(&part));
    symlink(&part, place.path().join("blame_rollup-2.parquet")).expect("it can be made");
    symlink(FLEET, place.path().join("more")).expect("it can be made");
    assert_eq!(rows(ALL, path(place.path())), expected);
    assert_eq!(rows(ALL, path(&place.path().join("*.parquet"))), expected);
    // A place that is a link itself is what its user meant.
    let link = tempfile::tempdir().expect("a place").path().join("link");
    std::fs::create_dir_all(link.parent().expect("one")).expect("made");
    symlink(place.path(), &link).expect("it can be made");
    assert_eq!(rows(ALL, path(&link)), expected);
}

/// Whoever writes into a store makes directories and names.
#[test]
fn strange_names_and_tables_take_no_question_away() {
    if !has_duckdb() {
        return;
    }
    let place = copy(REAL);
    let expected = rows(ALL, REAL);
    let part = file_of_blame(place.path());
    let hour = part.parent().expect("an hour");
    let strange: [&[u8]; 4] = [b"b\x1b[2J.parquet", b"c\n.parquet", b"d\xff.parquet", "e\u{9b}.parquet".as_bytes()];
    for name in strange {
        std::fs::copy(&part, hour.join(OsStr::from_bytes(name))).expect("it can be copied");
    }
    for table in ["Hosts", "a.b", "rules", "information_schema.tables", "\"", "😀", "junk"] {
        let hour = place.path().join(format!("merged/v1/table={table}/date=2026-11-23/hour=08"));
        std::fs::create_dir_all(&hour).expect("it can be made");
        std::fs::write(hour.join("junk.parquet"), b"PAR1 or not").expect("it can be written");
    }
    assert_eq!(rows(ALL, path(place.path())), expected);
    assert_eq!(rows("select count(*) > 0 from rules", path(place.path())), ["true"]);
}

/// A file that only its owner may read: the others are asked, and what is left out is said.
#[test]
fn a_closed_file_does_not_hide_the_others() {
    if !has_duckdb() {
        return;
    }
    let place = copy(REAL);
    for entry in [place.path().to_owned()].into_iter().chain(below(place.path())) {
        let mode = if entry.is_dir() { 0o755 } else { 0o644 };
        std::fs::set_permissions(entry, PermissionsExt::from_mode(mode)).expect("ours");
    }
    // Who asks is not the owner: root is everybody, so somebody else asks.
    let ours = Path::new(env!("CARGO_BIN_EXE_unstarve"));
    let (programs, program) = unstarve_testing::program_for_all(ours).expect("it can be copied");
    let engine = unstarve_testing::tool("duckdb").expect("it is there");
    unstarve_testing::install_program(&engine, &programs.path().join("duckdb")).expect("it can be copied");
    let path_of_engine = format!("{}:/usr/bin:/bin", programs.path().display());
    let nobody = |arguments: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&program).arg("sql").args(arguments);
        command.env("PATH", &path_of_engine).current_dir("/").stdin(Stdio::null()).output()
    };
    let count = ["--format", "csv", "select count(*) from blame_rollup", path(place.path())];
    let whole = match nobody(&count) {
        Ok(output) if output.status.success() => text(&output.stdout),
        other => {
            unstarve_testing::not_possible_here(format!("nobody else can ask here: {other:?}"));
            return;
        }
    };
    let closed = file_of_blame(place.path());
    std::fs::set_permissions(&closed, PermissionsExt::from_mode(0o600)).expect("ours");
    let output = nobody(&count).expect("as before");
    assert!(output.status.success() && text(&output.stdout) != whole, "{output:?}");
    let said = text(&output.stderr);
    assert!(said.contains("1 file left out, this user may not read it") && said.contains(path(&closed)), "{said}");
    for file in below(place.path()).iter().filter(|path| path.is_file()) {
        std::fs::set_permissions(file, PermissionsExt::from_mode(0o600)).expect("ours");
    }
    let output = nobody(&count).expect("as before");
    assert_eq!(output.status.code(), Some(2), "nothing to be read is no answer: {output:?}");
}

/// A damaged file makes no wrong rows; the error says how to find it.
#[test]
fn a_damaged_file_is_an_error() {
    if !has_duckdb() {
        return;
    }
    let place = copy(REAL);
    let file = file_of_blame(place.path());
    let mut bytes = std::fs::read(&file).expect("it is there");
    let middle = 4..bytes.len() / 2;
    bytes[middle].fill(0xff);
    std::fs::write(&file, bytes).expect("it can be written");
    let output = sql(&[ALL, path(place.path())]);
    let said = text(&output.stderr);
    assert!(
        output.status.code() == Some(2) && said.contains("fleet verify") && said.contains("--merged"),
        "{output:?}"
    );
}

/// SIGTERM in the middle of a statement: neither a half file nor a hidden one is left, nor what did not fit into memory.
#[test]
fn an_interrupted_statement_leaves_nothing() {
    if !has_duckdb() {
        return;
    }
    let (place, spill) = (tempfile::tempdir().expect("a place"), tempfile::tempdir().expect("a place"));
    // A hundred megabytes, if nothing stops it.
    let endless = "select a.ns from blame_rollup a, blame_rollup b, blame_rollup c, blame_rollup d limit 10000000";
    let out = place.path().join("out.csv");
    let mut command = Command::new(env!("CARGO_BIN_EXE_unstarve"));
    command.args(["sql", "-o", path(&out), endless, REAL]).env("TMPDIR", spill.path()).stdin(Stdio::null());
    let mut child = command.spawn().expect("started");
    let begun = std::time::Instant::now();
    while std::fs::read_dir(place.path()).expect("there").count() == 0 && begun.elapsed().as_secs() < 60 {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert!(Command::new("kill").args(["-TERM", &child.id().to_string()]).status().expect("kill").success());
    let status = child.wait().expect("it ends");
    assert_eq!(status.code(), Some(2), "{status:?}");
    assert_eq!(below(place.path()).len() + below(spill.path()).len(), 0);
}

/// Root's temporary files are not written where another user could lead them elsewhere.
#[test]
fn a_directory_of_somebody_else_is_not_spilled_into() {
    if !has_duckdb() {
        return;
    }
    let place = tempfile::tempdir().expect("a place for files");
    if std::os::unix::fs::chown(place.path(), Some(65_534), None).is_err() {
        unstarve_testing::not_possible_here("only root gives a directory away");
        return;
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_unstarve"));
    let output = command.args(["sql", "select 1", REAL]).env("TMPDIR", place.path()).stdin(Stdio::null()).output();
    let output = output.expect("it can be started");
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(text(&output.stderr).contains("belongs to user 65534"), "{output:?}");
    assert_eq!(below(place.path()).len(), 0);
}

/// A program whose output nobody takes ends all the same, and one that was started to ignore SIGHUP goes on.
#[test]
fn a_signal_ends_what_nobody_reads() {
    if !has_duckdb() {
        return;
    }
    let endless = "select a.ns from blame_rollup a, blame_rollup b, blame_rollup c";
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' HUP; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_unstarve"), "sql", "--format", "csv"]);
    let mut child = command.args([endless, REAL]).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("started");
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
    assert!(!status.success() && begun.elapsed().as_secs() < 60, "{status:?}");
}
