//! The program as a user meets it: exit codes, messages, pipes.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// From the crate's directory.
fn trace(name: &str) -> String {
    format!("{}/../../testdata/traces/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn unstarve(arguments: &[&str]) -> Output {
    run(Command::new(env!("CARGO_BIN_EXE_unstarve")).args(arguments))
}

fn run(command: &mut Command) -> Output {
    command.env_remove("COLUMNS").env("LC_ALL", "C.UTF-8").stdin(Stdio::null()).output().expect("it can be started")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("UTF-8")
}

#[test]
fn the_exit_code_says_whether_something_is_wrong() {
    let (sick, healthy) = (trace("linux-5.10-net-rt.dat"), trace("linux-6.1-idle.dat"));
    let cases: [(&[&str], i32); 10] = [
        (&["explain", &healthy], 0),
        (&["explain", &sick], 1),
        (&["explain", &sick, "--fail-on", "never"], 0),
        // What is not shown is still wrong.
        (&["explain", &sick, "--task", "rcu_sched", "--fail-on", "info"], 1),
        (&["explain", "/nonexistent"], 2),
        (&["explain", "/dev/null"], 2),
        (&["explain"], 2),
        (&["compare", &healthy, &healthy], 0),
        (&["compare", &healthy, &sick], 1),
        (&["compare", &healthy, "/nonexistent"], 2),
    ];
    for (arguments, code) in cases {
        let output = unstarve(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", text(&output.stderr));
    }
}

#[test]
fn errors_name_the_file_and_the_reason_once() {
    let message = |arguments: &[&str]| text(&unstarve(arguments).stderr).trim_end().to_owned();
    assert_eq!(
        message(&["explain", "/nonexistent"]),
        "unstarve: cannot read /nonexistent: No such file or directory (os error 2)"
    );
    assert_eq!(
        message(&["timeline", "/dev"]),
        "unstarve: /dev: is a directory; expected a recording, for example its trace.dat"
    );
    assert_eq!(
        message(&["explain", "/dev/null"]),
        "unstarve: /dev/null is empty: the recording was not finished, or wrote elsewhere"
    );
    let wrong = message(&["timeline", "x", "--from", "yesterday"]);
    assert!(
        wrong.contains("not a time; expected 812.5 (as in the trace), or +1.2s or 1200ms (from its start)"),
        "{wrong}"
    );
    let wrong = message(&["timeline", "x", "--cpu", "all"]);
    assert!(wrong.contains("not a list of CPUs; expected one like 0,2-3"), "{wrong}");
}

#[test]
fn json_is_the_report_of_the_page() {
    let output = unstarve(&["explain", "--json", &trace("linux-5.10-net-rt.dat")]);
    let report: unstarve_diagnose::report::Report = serde_json::from_slice(&output.stdout).expect("a report");
    assert_eq!(report.schema, "unstarve.explain/1");
    assert_eq!(report.findings[0].id, "rt-starvation");
    let page = unstarve(&["explain", &trace("linux-5.10-net-rt.dat")]);
    assert!(text(&page.stdout).contains(&report.findings[0].sentence[..40]));
}

#[test]
fn a_selection_narrows_what_is_told() {
    let lines = |arguments: &[&str]| {
        let file = trace("linux-5.10-net-rt.dat");
        let output = unstarve(&[&["timeline", &file], arguments].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout).lines().skip(3).map(str::to_owned).collect::<Vec<_>>()
    };
    let all = lines(&[]);
    let workers = lines(&["--task", "ksoftirqd/*", "--cpu", "1"]);
    assert!(all.len() > 10_000 && workers.len() < 200);
    assert!(workers.iter().all(|line| line.contains("[0001]  ksoftirqd/1[18]")));
    // The same moment, by the trace's clock and from its start, which is at 6.495002820 s.
    assert_eq!(lines(&["--from", "7.495002820", "--to", "7.6"]), lines(&["--from", "+1s", "--to", "1104997180ns"]));
    let table = lines(&["-s", "--task", "18"]);
    assert_eq!(table.len(), 3, "{table:#?}");
}

#[test]
fn standard_input_is_read_as_a_file_is() {
    let file = trace("linux-6.1-idle.dat");
    let mut child = Command::new(env!("CARGO_BIN_EXE_unstarve"))
        .args(["explain", "-"])
        .env("LC_ALL", "C.UTF-8")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("it can be started");
    let bytes = std::fs::read(Path::new(&file)).expect("testdata");
    child.stdin.take().expect("piped").write_all(&bytes).expect("it reads");
    let piped = child.wait_with_output().expect("it ends");
    assert_eq!(text(&piped.stdout), text(&unstarve(&["explain", &file]).stdout));
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let output = run(Command::new("sh").args([
        "-c",
        "{ \"$0\" timeline \"$1\"; echo \"status $?\" >&2; } | head -n 5",
        env!("CARGO_BIN_EXE_unstarve"),
        &trace("linux-6.1-dio-weight.dat"),
    ]));
    assert_eq!(text(&output.stdout).lines().count(), 5);
    assert_eq!(text(&output.stderr), "status 0\n");
}

#[test]
fn output_that_cannot_be_written_is_an_error() {
    let full = std::fs::File::options().write(true).open("/dev/full").expect("Linux has it");
    let output = Command::new(env!("CARGO_BIN_EXE_unstarve"))
        .args(["explain", &trace("linux-6.1-idle.dat")])
        .stdin(Stdio::null())
        .stdout(full)
        .stderr(Stdio::piped())
        .spawn()
        .and_then(|child| child.wait_with_output())
        .expect("it can be started");
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(text(&output.stderr), "unstarve: standard output: No space left on device (os error 28)\n");
}

#[test]
fn without_a_utf8_locale_the_page_is_ascii() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_unstarve"));
    command.args(["explain", &trace("linux-6.1-pool.dat")]).env("LC_ALL", "C").stdin(Stdio::null());
    let output = command.output().expect("it can be started");
    assert!(output.stdout.is_ascii());
    assert!(text(&output.stdout).contains("####"));
}

#[test]
fn every_command_has_help_with_an_example() {
    for command in ["record", "explain", "timeline", "compare", "export"] {
        let output = unstarve(&[command, "--help"]);
        assert!(output.status.success());
        let help = text(&output.stdout);
        assert!(help.contains("Example") && help.contains(&format!("unstarve {command}")), "{help}");
    }
}

#[test]
fn an_export_is_whole_or_not_there() {
    let directory = tempfile::tempdir().expect("a place for files");
    let file = directory.path().join("x.csv").display().to_string();
    let refused = unstarve(&["export", "/dev/null", "-o", &file]);
    assert_eq!(refused.status.code(), Some(2));
    assert_eq!(std::fs::read_dir(directory.path()).expect("it is there").count(), 0, "nothing is left");

    let output = unstarve(&["export", &trace("linux-6.1-idle.dat"), "-o", &file]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let piped = unstarve(&["export", &trace("linux-6.1-idle.dat"), "--format", "csv", "-o", "-"]);
    assert_eq!(std::fs::read(&file).expect("written"), piped.stdout);
    assert!(piped.stdout.starts_with(b"wait,start_ns,end_ns,wait_ns,"));

    // Renaming over a device would replace it.
    let device = unstarve(&["export", &trace("linux-6.1-idle.dat"), "--format", "folded", "-o", "/dev/null"]);
    assert!(device.status.success(), "{}", text(&device.stderr));
    assert!(!std::fs::metadata("/dev/null").expect("Linux has it").is_file());

    let nameless = unstarve(&["export", &trace("linux-6.1-idle.dat"), "-o", "x.xyz"]);
    assert!(text(&nameless.stderr).contains("x.xyz: its name does not tell the format; say --format"));
}

#[test]
fn an_export_takes_what_is_selected() {
    let lines = |arguments: &[&str]| {
        let file = trace("linux-5.10-net-rt.dat");
        let output = unstarve(&[&["export", &file, "--format", "csv", "-o", "-"], arguments].concat());
        text(&output.stdout).lines().skip(1).map(str::to_owned).collect::<Vec<_>>()
    };
    let chosen = lines(&["--task", "ksoftirqd/*", "--cpu", "1"]);
    assert_eq!(chosen.len(), 150, "as explain counts them");
    assert!(chosen.iter().all(|line| line.contains(",ksoftirqd/1,18,ksoftirqd,")));
}
