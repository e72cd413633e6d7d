//! The program as a user meets it: exit codes, messages, pipes.

use std::io::Write;
use std::os::unix::ffi::OsStrExt;
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
    let cases: [(&[&str], i32); 11] = [
        (&["explain", &healthy], 0),
        (&["explain", &sick], 1),
        (&["explain", &sick, "--fail-on", "never"], 0),
        // The culprit's part of it is as wrong as the victim's; the part of one who has nothing to do with it is not.
        (&["explain", &sick, "--task", "wl", "--fail-on", "info"], 1),
        (&["explain", &sick, "--task", "rcu_sched", "--fail-on", "info"], 0),
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
fn the_example_needs_no_file() {
    let output = unstarve(&["explain", "--example"]);
    let first = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert!(first.contains("kworker/0:1 (iomap_dio_complete_work"), "{first}");
    assert!(first.contains("unstarve fix FILE "), "it is no file that `fix` could read: {first}");
    let output = unstarve(&["explain", "--example", "--full"]);
    let page = text(&output.stdout);
    assert!(page.contains("rt-starvation") && page.contains("unstarve fix FILE --remedy"), "{page}");
    assert_eq!(unstarve(&["explain", "--example", "a.dat"]).status.code(), Some(2));
}

#[test]
fn a_file_whose_name_cannot_be_printed_is_not_called_otherwise() {
    let directory = tempfile::tempdir().expect("a place for files");
    let file = directory.path().join(std::ffi::OsStr::from_bytes(b"\xff.dat"));
    std::fs::copy(trace("linux-5.10-net-rt.dat"), &file).expect("copied");
    let output = run(Command::new(env!("CARGO_BIN_EXE_unstarve")).arg("explain").arg(&file));
    let page = text(&output.stdout);
    assert!(page.contains("unstarve fix FILE ") && !page.contains('\u{fffd}'), "{page}");
}

#[test]
fn help_knows_commands_and_the_words_of_reports() {
    let help = |arguments: &[&str]| {
        let output = unstarve(&[&["help"], arguments].concat());
        (output.status.code(), text(&output.stdout).to_owned() + text(&output.stderr))
    };
    let asked = |arguments: &[&str], expected: &str| {
        let (code, page) = help(arguments);
        assert!(code == Some(0) && page.contains(expected), "{arguments:?}: {page}");
    };
    asked(&[], "Start here");
    asked(&["guard", "plan"], "Usage: unstarve guard plan");
    asked(&["weight-starvation"], "a heavier task or cgroup takes the CPU");
    asked(&["topics"], "victim-above-intruder");
    asked(&["heavy-cgroup"], "A rule of check");
    asked(&["Remedies"], "victim-above-intruder");
    asked(&["RT-starvation"], "real-time");
    for (word, expected) in [
        ("role", "`direct-io`"),
        ("episode", "`calm`"),
        ("kworker", "workqueue"),
        ("confidence", "severity"),
        ("lab-line", "`only a part of it could be applied there`"),
        ("words", "confidence"),
        ("victim-above-intruder", "`unstarve help lab-line`"),
        ("direct-io", "kernel workers that complete direct I/O"),
        ("storage", "`unstarve help role`"),
        ("real-time", "in any cgroup"),
        ("kworker", "all other kernel workers"),
        ("roles", "`direct-io`"),
        ("R04", "R04, a reported regression"),
        ("r04", "Linux 6.6 to 6.16 have it"),
        ("rt-push-ipi", "rt-push-ipi, a bug"),
        ("base_slice_ns", "base_slice_ns, a setting"),
    ] {
        asked(&[word], expected);
    }
    assert!(!help(&["rules"]).1.contains("victim-above-intruder"));
    assert!(help(&["throttl"]).1.contains("(like it: throttled, "), "{:?}", help(&["throttl"]));
    assert!(help(&["rt-starvaton"]).1.contains("(like it: rt-starvation,"));
    assert_eq!(help(&["fleet compact"]), help(&["fleet", "compact"]));
    assert_eq!(help(&["fleet compact"]).0, Some(0));
    assert_eq!(
        help(&["weight-starv"]),
        (Some(2), "unstarve: no command, finding, rule, remedy or other word is called \"weight-starv\" (like it: weight-starvation); `unstarve help topics` lists them\n".to_owned())
    );
}

/// Who may not record has no use for another directory.
#[test]
fn who_is_not_root_hears_that_before_all_else() {
    let Some(setpriv) = unstarve_testing::tool("setpriv") else { return };
    if !rustix::process::geteuid().is_root() {
        return unstarve_testing::not_possible_here("only root can be somebody else");
    }
    let (_place, program) =
        unstarve_testing::program_for_all(env!("CARGO_BIN_EXE_unstarve").as_ref()).expect("a copy for all");
    let mut command = Command::new(setpriv);
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"]).arg(program);
    let output = run(command.args(["record", "--for", "1s"]).current_dir("/"));
    let said = text(&output.stderr);
    assert!(output.status.code() == Some(2) && said.contains("recording needs root"), "{said}");
    assert!(!said.contains("cannot write"), "{said}");
}

#[test]
fn errors_name_the_file_and_the_reason_once() {
    let message = |arguments: &[&str]| text(&unstarve(arguments).stderr).trim_end().to_owned();
    assert_eq!(
        message(&["explain", "/nonexistent"]),
        "unstarve: cannot read /nonexistent: No such file or directory (os error 2)"
    );
    assert_eq!(
        message(&["record", "--salvage", "/nonexistent"]),
        "unstarve: the directory /nonexistent does not exist"
    );
    assert_eq!(
        message(&["snapshot", "-o", "/nonexistent/x"]),
        "unstarve: cannot write /nonexistent/x: the directory /nonexistent does not exist"
    );
    assert!(text(&unstarve(&["--version"]).stdout).starts_with("unstarve 0."), "not the name of the package");
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
    assert!(wrong.contains("`all` is not a list of CPUs such as 0-3,8"), "{wrong}");
}

#[test]
fn json_is_the_report_of_the_page() {
    let output = unstarve(&["explain", "--json", &trace("linux-5.10-net-rt.dat")]);
    let report: unstarve_diagnose::report::Report = serde_json::from_slice(&output.stdout).expect("a report");
    assert_eq!(report.schema, "unstarve.explain/1");
    assert_eq!(report.findings[0].id.as_str(), "rt-starvation");
    let page = unstarve(&["explain", &trace("linux-5.10-net-rt.dat")]);
    assert!(text(&page.stdout).contains(&report.findings[0].sentence[..40]));
}

#[test]
fn the_kinds_of_findings_and_remedies_are_listed() {
    let list = unstarve(&["explain", "--list"]);
    assert!(list.status.success(), "{}", text(&list.stderr));
    let ids = unstarve_diagnose::FINDINGS
        .iter()
        .map(|kind| kind.id)
        .chain(unstarve_diagnose::REMEDIES.iter().map(|kind| kind.id));
    for id in ids {
        assert!(text(&list.stdout).lines().any(|line| line.split(' ').next() == Some(id)), "{id} is not in the list");
    }
    assert_eq!(unstarve(&["explain"]).status.code(), Some(2), "a recording or --list");
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

/// An empty answer would pass for a healthy task.
#[test]
fn a_task_that_is_not_in_the_recording_is_an_error() {
    let file = trace("linux-5.10-net-rt.dat");
    let directory = tempfile::tempdir().expect("a place for files");
    let export = directory.path().join("x.csv").display().to_string();
    for command in [
        &["timeline", &file, "--task", "nosuch"][..],
        &["timeline", "-s", &file, "--task", "nosuch,424242"],
        &["explain", &file, "--task", "nosuch"],
        &["export", &file, "--task", "nosuch", "-o", &export],
    ] {
        let output = unstarve(command);
        assert_eq!(output.status.code(), Some(2), "{command:?}");
        let error = text(&output.stderr);
        assert!(error.contains("no task called nosuch") && error.contains("timeline -s"), "{error}");
    }
    assert_eq!(std::fs::read_dir(directory.path()).expect("it is there").count(), 0, "nothing is left");
    let one_of_two = unstarve(&["timeline", "-s", &file, "--task", "ksoftirqd/1,nosuch"]);
    assert!(one_of_two.status.success());
    assert!(text(&one_of_two.stderr).contains("no task called nosuch"));
}

/// Who waited longest comes first, as the question is.
#[test]
fn the_table_of_tasks_is_sorted_by_wait() {
    let output = unstarve(&["timeline", "-s", &trace("linux-5.10-net-rt.dat")]);
    let waited = |line: &str| line.split_whitespace().nth(6).and_then(|column| column.parse::<f64>().ok());
    let table = text(&output.stdout);
    let rows: Vec<f64> = table.lines().skip(3).take_while(|line| !line.starts_with('-')).filter_map(waited).collect();
    assert!(rows.len() > 10 && rows.is_sorted_by(|a, b| a >= b), "{table}");
}

/// A recording of perf lacks a dozen kinds of events.
#[test]
fn missing_events_are_one_line() {
    let output = unstarve(&["export", &trace("linux-6.18-perf-messaging.data.zst"), "--format", "folded", "-o", "-"]);
    assert_eq!(text(&output.stderr).matches("events were not recorded").count(), 1, "{}", text(&output.stderr));
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
fn a_reader_that_has_seen_enough_is_no_complaint() {
    let output = run(Command::new("sh").args([
        "-c",
        "{ \"$0\" timeline \"$1\"; echo \"status $?\" >&2; } | head -n 5",
        env!("CARGO_BIN_EXE_unstarve"),
        &trace("linux-6.1-dio-weight.dat"),
    ]));
    assert_eq!(text(&output.stdout).lines().count(), 5);
    assert_eq!(text(&output.stderr), "status 141\n", "as of a tool that SIGPIPE has ended");
}

#[test]
fn nobody_who_reads_changes_no_exit_code_that_is_known() {
    let (one, other) = (trace("linux-5.10-net-rt.dat"), trace("linux-5.10-net-good.dat"));
    let snapshot = trace("../snapshots/kubernetes-node-6.1.json");
    let policy = trace("../../examples/policies/dio-workers.toml");
    let state = tempfile::tempdir().expect("a directory");
    let state = state.path().display().to_string();
    // The command's own where it is known before the output, else that of a program which SIGPIPE has ended.
    let commands: [&[&str]; 21] = [
        &["explain", "--fail-on", "never", &one],
        &["fix", "--check", "--state", &state],
        &["fix", "--json", "--this-boot", &one],
        &["explain", &one],
        &["explain", "--json", &one],
        &["explain", "--list"],
        &["timeline", &one],
        &["timeline", "--summary", &one],
        &["report", &one, "-o", "-"],
        &["export", &one, "--format", "folded", "-o", "-"],
        &["compare", &one, &other],
        &["compare", "--json", &one, &other],
        &["check", "--rules"],
        &["check", "--snapshot", &snapshot],
        &["check", "--sarif", "--snapshot", &snapshot],
        &["knobs", "list"],
        &["guard", "plan", "--policy", &policy],
        &["lab", "list"],
        &["lab", "kernel", "list"],
        &["top", "--once", &one],
        &["--help"],
    ];
    for arguments in commands {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut command = Command::new(env!("CARGO_BIN_EXE_unstarve"));
        let output = command.args(arguments).stdin(Stdio::null()).stdout(writer).stderr(Stdio::piped()).spawn();
        let output = output.and_then(|child| child.wait_with_output()).expect("it can be started");
        let complaint = text(&output.stderr);
        let is_known = ["explain", "fix", "check", "--help"].contains(&arguments[0]) && !arguments.contains(&"--list");
        let with_a_reader = unstarve(arguments);
        // Who has nothing to print, as the list of kernels on a new machine, notices nothing.
        let is_silent = with_a_reader.stdout.is_empty();
        let is_own = is_known && arguments != ["check", "--rules"] || is_silent;
        let expected = if is_own { with_a_reader.status.code() } else { Some(141) };
        assert_eq!(output.status.code(), expected, "{arguments:?}: {complaint}");
        assert!(!complaint.contains("anick") && !complaint.contains("ipe"), "{arguments:?}: {complaint}");
    }
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
    for command in ["record", "explain", "timeline", "compare", "export", "top"] {
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
    assert!(text(&nameless.stderr).contains("x.xyz: unknown output format; add --format"));
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

#[test]
fn top_replays_a_recording_without_a_terminal() {
    let output = unstarve(&["top", &trace("linux-5.10-net-rt.dat"), "--once"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let lines: Vec<&str> = text(&output.stdout).lines().collect();
    assert!(
        lines[2].contains("CPU 0") && lines[3].starts_with("TASK") && lines[4].starts_with("ksoftirqd/1[18]"),
        "{lines:#?}"
    );
    assert_eq!(lines[0].trim(), "wl[117] RT 10 starves ksoftirqd/1[18] on CPU 1, up to 90.0 ms");
    let output = unstarve(&["top", &trace("linux-5.10-net-rt.dat"), "--json", "--interval", "500ms"]);
    let views: Vec<serde_json::Value> =
        text(&output.stdout).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(views.len(), 5, "2.02 s in steps of half a second");
    assert_eq!((&views[0]["schema"], &views[4]["events"]), (&"unstarve.top/1".into(), &97_887.into()));
}

/// The filter of all commands, in `top`.
#[test]
fn top_takes_what_is_selected() {
    let file = trace("linux-5.10-net-rt.dat");
    let view = |arguments: &[&str]| {
        let output = unstarve(&[&["top", &file, "--once", "--json"], arguments].concat());
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        serde_json::from_str::<serde_json::Value>(text(&output.stdout)).expect("JSON")
    };
    let rows = |view: &serde_json::Value| view["rows"].as_array().cloned().unwrap_or_default();
    let chosen = view(&["--task", "ksoftirqd/*", "--cpu", "1"]);
    assert_eq!(rows(&chosen).iter().map(|row| row["tid"].as_u64()).collect::<Vec<_>>(), [Some(18)]);
    assert_eq!(rows(&chosen)[0]["waits"], 149, "as explain counts them, without the one that still lasts at the end");
    // The second of the two long waits alone.
    let later = view(&["--task", "18", "--from", "+1.5s"]);
    let waited = rows(&later)[0]["wait_ns"].as_u64().expect("a sum");
    assert!((80_000_000..100_000_000).contains(&waited), "{later}");
    let early = view(&["--to", "+500ms"]);
    assert!(early["since_start_ns"].as_u64().is_some_and(|ns| ns <= 500_000_000), "{}", early["since_start_ns"]);
    let nobody = unstarve(&["top", &file, "--once", "--task", "nosuch"]);
    assert_eq!(nobody.status.code(), Some(2));
    assert!(text(&nobody.stderr).contains("no task called nosuch"), "{}", text(&nobody.stderr));
    for (arguments, why) in [
        (&["top", "--once", "--from", "+1s"][..], "--from and --to need a recording"),
        (&["top", "--once", "--by", "role", "--task", "nfsd"], "--task and --cpu need --by task"),
    ] {
        let refused = unstarve(arguments);
        assert_eq!(refused.status.code(), Some(2), "{arguments:?}");
        assert!(text(&refused.stderr).contains(why), "{}", text(&refused.stderr));
    }
}

/// The filter of all commands, in `compare`: on both sides, of recordings alone.
#[test]
fn compare_takes_what_is_selected() {
    let (good, bad) = (trace("linux-5.10-net-good.dat"), trace("linux-5.10-net-rt.dat"));
    let run = |arguments: &[&str]| unstarve(&[&["compare", &good, &bad], arguments].concat());
    let json = |arguments: &[&str]| {
        let output = run(&[&["--json"], arguments].concat());
        (output.status.code(), serde_json::from_str::<serde_json::Value>(text(&output.stdout)).expect("JSON"))
    };
    let roles = |comparison: &serde_json::Value| {
        let waits = comparison["waits"].as_array().cloned().unwrap_or_default();
        waits.iter().map(|wait| wait["role"].to_string()).collect::<std::collections::BTreeSet<_>>()
    };
    let (code, whole) = json(&[]);
    assert_eq!((code, roles(&whole).len() > 4), (Some(1), true));
    let (code, workers) = json(&["--task", "ksoftirqd/*"]);
    assert_eq!((code, roles(&workers).len()), (Some(1), 2), "ksoftirqd, and the sum: {:?}", roles(&workers));
    let (code, before) = json(&["--task", "ksoftirqd/*", "--to", "+500ms"]);
    assert_eq!(code, Some(0), "the hog comes later: {before:#}");
    let (_, elsewhere) = json(&["--cpu", "0"]);
    assert!(elsewhere["findings"].as_array().is_some_and(Vec::is_empty), "{elsewhere:#}");
    let output = run(&["--task", "nosuch"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("no task called nosuch"), "{}", text(&output.stderr));

    let directory = tempfile::tempdir().expect("a place for files");
    let snapshot = directory.path().join("a.json");
    std::fs::write(&snapshot, r#"{"schema": "unstarve.snapshot/1"}"#).expect("written");
    let snapshot = snapshot.display().to_string();
    let refused = unstarve(&["compare", &snapshot, &snapshot, "--cpu", "0"]);
    assert_eq!(refused.status.code(), Some(2));
    let why = "--task, --cpu, --from and --to select waits of recordings; a snapshot is compared as a whole";
    assert!(text(&refused.stderr).contains(why), "{}", text(&refused.stderr));

    // A page of a selection.
    let page = directory.path().join("x.html").display().to_string();
    let output = run(&["--task", "ksoftirqd/*", "-o", &page]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
}

/// Each form of an export says what opens it; `-o` is as optional as in other commands.
#[test]
fn an_export_says_what_opens_it() {
    let directory = tempfile::tempdir().expect("a place for files");
    let file = trace("linux-6.1-idle.dat");
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_unstarve"));
        let output = command.args(["export", &file]).args(arguments).current_dir(directory.path()).output();
        let output = output.expect("it can be started");
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        text(&output.stderr).lines().filter(|line| line.contains("wrote")).map(str::to_owned).collect::<Vec<_>>()
    };
    for (arguments, wrote) in [
        (&["-o", "t.pftrace"][..], "wrote t.pftrace: open it at ui.perfetto.dev"),
        (&[], "wrote trace.pftrace: open it at ui.perfetto.dev"),
        (&["--format", "firefox"], "wrote profile.json: open it at profiler.firefox.com"),
        (&["--format", "folded"], "wrote stacks.folded: draw it with inferno-flamegraph"),
        (
            &["--format", "csv", "--table", "blame"],
            "wrote blame.csv: open it in a spreadsheet; for pandas write Parquet",
        ),
        (
            &["--format", "csv", "-o", "tables/"],
            "wrote tables/waits.csv, tables/pieces.csv, tables/blame.csv, tables/findings.csv: open it",
        ),
    ] {
        let said = run(arguments);
        assert!(said.len() == 1 && said[0].contains(wrote), "{arguments:?}: {said:?}");
    }
    for name in ["t.pftrace", "trace.pftrace", "profile.json", "stacks.folded", "blame.csv", "tables/waits.csv"] {
        assert!(directory.path().join(name).is_file(), "{name}");
    }
    assert!(run(&["--format", "csv", "-o", "-"]).is_empty(), "nothing was written to a file");
    assert!(run(&["--format", "csv", "-o", "/dev/null"]).is_empty());
}

#[test]
fn top_leaves_the_terminal_as_it_was_when_it_is_told_to_end() {
    let directory = tempfile::tempdir().expect("a place for files");
    let log = directory.path().join("log");
    let inside = format!(
        "stty rows 24 cols 80; stty -g >before; timeout --foreground -s TERM 3 {} top {}; echo \"status $?\"; stty -g >after",
        env!("CARGO_BIN_EXE_unstarve"),
        trace("linux-5.10-net-rt.dat"),
    );
    let Some(script) = unstarve_testing::tool("script") else { return };
    let mut command = Command::new(script);
    command.args(["-qfec", &inside]).arg(&log).current_dir(directory.path()).env("TERM", "xterm-256color");
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status().expect("script(1)");
    assert!(status.success(), "script(1): {status}");
    let said = String::from_utf8_lossy(&std::fs::read(&log).expect("script writes it")).into_owned();
    let (enter, leave) = (said.find("\x1b[?1049h"), said.find("\x1b[?1049l"));
    assert!(enter.is_some() && enter < leave, "{said:?}");
    assert!(said.contains(" q quit  Enter look"), "{said:?}");
    let modes = |name: &str| std::fs::read_to_string(directory.path().join(name)).expect("stty writes it");
    assert_eq!(modes("before"), modes("after"), "raw mode is over");
}

/// A directory as `lab run` keeps it, with a recording of another origin and metrics of its own.
fn lab_result(directory: &Path, recording: &str, seed: u64, iops: f64) {
    let scenario = unstarve_lab::catalogue::find("kubepods").expect("it comes with the program");
    let request = unstarve_lab::run::Request::faulty(scenario, "6.1", seed);
    std::fs::create_dir_all(directory).expect("a place for files");
    std::fs::copy(trace(recording), directory.join("trace.dat")).expect("testdata");
    let outcome = serde_json::json!({
        "request": request, "kernel_release": "6.1.0", "directory": "/elsewhere", "trace_digest": format!("{iops}"),
        "wall_seconds": 1.0, "metrics": [{"name": "fio.iops", "value": iops, "unit": "/s", "better": "higher"}],
    });
    std::fs::write(directory.join("outcome.json"), outcome.to_string()).expect("a place for files");
}

#[test]
fn lab_results_and_snapshots_are_compared_as_what_they_are() {
    let directory = tempfile::tempdir().expect("a place for files");
    let place = |name: &str| directory.path().join(name);
    for seed in 1..=3 {
        lab_result(
            &place("good").join(seed.to_string()),
            "linux-6.1-dio-good.dat",
            seed,
            38_000.0 + seed as f64 * 10.0,
        );
        lab_result(
            &place("weight").join(seed.to_string()),
            "linux-6.1-dio-weight.dat",
            seed,
            30_000.0 + seed as f64 * 9.0,
        );
    }
    let shown = |name: &str| place(name).display().to_string();
    let labs = unstarve(&["compare", "--json", &shown("good"), &shown("weight")]);
    let labs_: serde_json::Value =
        serde_json::from_slice(&labs.stdout).unwrap_or_else(|_| panic!("{}", text(&labs.stderr)));
    assert_eq!((labs.status.code(), &labs_["schema"]), (Some(1), &"unstarve.compare-labs/1".into()));
    assert_eq!((&labs_["metrics"]["pairs"], &labs_["metrics"]["rows"][0]["metric"]), (&3.into(), &"fio.iops".into()));
    assert_eq!(labs_["recordings"]["findings"][0]["id"], "completion-ping-pong");
    let mixed = unstarve(&["compare", &directory.path().display().to_string(), &shown("good")]);
    assert!(text(&mixed.stderr).contains("several runs of seed 1"), "{}", text(&mixed.stderr));

    let snapshot = |name: &str| format!("{}/../../testdata/snapshots/{name}", env!("CARGO_MANIFEST_DIR"));
    let (a, b) = (snapshot("kubernetes-node-6.1.json"), snapshot("storage-controller-5.10.json"));
    let hosts = unstarve(&["compare", &a, &b]);
    assert_eq!(hosts.status.code(), Some(1));
    assert!(text(&hosts.stdout).contains("Gone in B\n  critical heavy-cgroup"), "{}", text(&hosts.stdout));
    assert_eq!(unstarve(&["compare", &a, &a]).status.code(), Some(0));
    let unlike = unstarve(&["compare", &a, &trace("linux-6.1-idle.dat")]);
    assert!(text(&unlike.stderr).contains("is a snapshot and"), "{}", text(&unlike.stderr));
}

#[test]
fn latency_is_set_against_the_waits_of_its_side() {
    let directory = tempfile::tempdir().expect("a place for files");
    let log = directory.path().join("ping.csv").display().to_string();
    let sick = trace("linux-5.10-net-rt.dat");
    let report = unstarve(&["explain", "--json", &sick]).stdout;
    let report: unstarve_diagnose::report::Report = serde_json::from_slice(&report).expect("a report");
    let worst = &report.worst_waits[0];
    let line = |end: u64, ns: u64| format!("{end},{ns}\n");
    let usual: String = (1..100).map(|i| line(report.trace.start_ns + i * 10_000_000, 40_000)).collect();
    let text_ = format!("time_ns,latency_ns\n{usual}{}", line(worst.end_ns, worst.end_ns - worst.start_ns));
    std::fs::write(&log, text_).expect("a place for files");
    let good = trace("linux-5.10-net-good.dat");
    let output = unstarve(&["compare", &good, &sick, "--latency-b", &log]);
    let page = text(&output.stdout);
    assert!(page.contains("coincide with waits"), "{page}{}", text(&output.stderr));
    assert!(page.contains("90.0 ms  ksoftirqd/1[18] waited 90.0 ms of it for wl (class)"), "{page}");
    let json = unstarve(&["compare", "--json", &good, &sick, "--latency-b", &log]).stdout;
    let json: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
    assert_eq!((&json["schema"], json["latency_a"].is_null()), (&"unstarve.compare/1".into(), true));
    assert_eq!(json["latency_b"][0]["stats"]["count"], 100);
    let wrong = unstarve(&["compare", &good, &sick, "--latency-b", &sick]);
    assert!(!wrong.status.success());
    let both = unstarve(&["compare", &good, &sick, "--latency-b", &log, "--shift", "1s"]);
    assert!(text(&both.stderr).contains("--shift needs --align first"));
}

#[test]
fn fix_and_explain_without_a_recording_say_how_to_make_one() {
    let directory = tempfile::tempdir().expect("a directory");
    let said = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_unstarve"));
        let output = run(command.args(arguments).current_dir(directory.path()));
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        text(&output.stderr).trim_end().to_owned()
    };
    let make = |command: &str| {
        format!(
            "unstarve: name a recording. To make one of this machine: sudo unstarve record --for 10s && unstarve {command} unstarve.dat"
        )
    };
    for (arguments, command) in [
        (&["fix"][..], "fix"),
        (&["fix", "--apply"], "fix"),
        (&["explain"], "explain"),
        (&["explain", "--json"], "explain"),
    ] {
        assert_eq!(said(arguments), make(command));
    }
    std::fs::write(directory.path().join("unstarve.dat"), "x").expect("written");
    for command in ["fix", "explain"] {
        let expected = format!("unstarve: name a recording; there is one here: unstarve {command} unstarve.dat");
        assert_eq!(said(&[command]), expected);
    }
}

/// An option without effect is a mistake of who wrote it.
#[test]
fn an_undo_takes_no_choice_of_a_remedy() {
    for what in ["--undo", "--status", "--check"] {
        for option in [&["--remedy", "1"][..], &["--finding", "1"], &["--this-boot"]] {
            let output = unstarve(&[&["fix", what], option].concat());
            let said = text(&output.stderr);
            assert!(
                output.status.code() == Some(2) && said.contains("cannot be used with"),
                "{what} {option:?}: {said}"
            );
        }
    }
}

/// That a setting may not be seen is not that it is not there.
#[test]
fn who_may_not_look_below_debugfs_hears_that() {
    if !rustix::process::geteuid().is_root() || !std::path::Path::new("/sys/kernel/debug/sched").is_dir() {
        return unstarve_testing::not_possible_here("root, and debugfs with the scheduler's settings");
    }
    let Some(setpriv) = unstarve_testing::tool("setpriv") else { return };
    let (_place, program) =
        unstarve_testing::program_for_all(env!("CARGO_BIN_EXE_unstarve").as_ref()).expect("a copy for all");
    for name in ["base_slice_ns", "RUN_TO_PARITY"] {
        let mut command = Command::new(&setpriv);
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"]).arg(&program);
        let output = run(command.args(["knobs", "get", name]).current_dir("/"));
        let said = text(&output.stderr);
        assert!(
            said.contains("only root may look below /sys/kernel/debug") && !said.contains("does not have it"),
            "{said}"
        );
    }
    if !std::fs::read("/sys/kernel/debug/sched/features").is_err_and(|error| error.raw_os_error() == Some(1)) {
        return unstarve_testing::not_possible_here("a kernel that is locked down");
    }
    let output = unstarve(&["knobs", "set", "base_slice_ns", "abc", "--dry-run"]);
    let said = text(&output.stderr);
    assert!(said.contains("(os error 1): the kernel is locked down"), "{said}");
}

#[test]
fn a_comparison_that_says_nothing_begins_with_that() {
    let directory = tempfile::tempdir().expect("a directory");
    let short = directory.path().join("short.txt");
    let line = "a 7 [000] 1.000000: sched:sched_switch: prev_comm=a prev_pid=7 prev_prio=120 prev_state=S ==> next_comm=b next_pid=8 next_prio=120\n";
    std::fs::write(&short, line).expect("written");
    let output = unstarve(&["compare", &short.display().to_string(), &trace("linux-6.1-idle.dat")]);
    let page = text(&output.stdout);
    assert!(page.starts_with("Too little was recorded in A to compare: it has only 1 sched_switch event."), "{page}");
}

#[test]
fn an_undo_and_a_look_make_no_directory() {
    let directory = tempfile::tempdir().expect("a directory");
    let none = directory.path().join("typo");
    let state = none.display().to_string();
    for (arguments, said) in [
        (["fix", "--undo", "--state", &state], format!("nothing to undo: there is no {state}\n")),
        (["fix", "--status", "--state", &state], "no fix is in force\n".to_owned()),
    ] {
        let output = unstarve(&arguments);
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), said.as_str()), "{}", text(&output.stderr));
        assert!(!none.exists(), "{arguments:?}");
    }
    let output = unstarve(&["fix", "--undo", "--json", "--state", &state]);
    let page: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((page["undone"]["restored"].as_u64(), none.exists()), (Some(0), false), "{page}");
}

#[test]
fn what_only_root_may_read_says_so() {
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::process::CommandExt as _;
    if !rustix::process::geteuid().is_root() {
        unstarve_testing::not_possible_here("only root can become somebody else");
        return;
    }
    let (place, program) =
        unstarve_testing::program_for_all(Path::new(env!("CARGO_BIN_EXE_unstarve"))).expect("a program");
    let closed = place.path().join("closed");
    std::fs::create_dir(&closed).expect("a directory");
    std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o700)).expect("a mode");
    for what in ["--status", "--check"] {
        let output = run(Command::new(&program).uid(65534).args(["fix", what, "--state"]).arg(closed.join("state")));
        let said = text(&output.stderr).trim_end();
        assert!(said.ends_with("Permission denied (os error 13); run it as root"), "{what}: {said}");
        assert_eq!(output.status.code(), Some(2), "{what}");
    }
}

#[test]
fn the_plan_of_a_fix_says_how_to_apply_it_and_how_to_take_it_back() {
    let file = trace("linux-5.10-net-rt.dat");
    let output = unstarve(&["fix", &file, "--this-boot", "--state", "/tmp/it's", "--json"]);
    let page: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let (apply, undo) = (&page["commands"]["apply"], &page["commands"]["undo"]);
    assert_eq!(undo.as_str(), Some(r"sudo unstarve fix --undo --state '/tmp/it'\''s'"), "{page:#}");
    let apply = apply.as_str().expect("a command");
    assert!(apply.contains(r" --this-boot --state '/tmp/it'\''s' --apply --verify 10s"), "{apply}");
}

/// Thread 117 of this host is another one than the recorded `wl`.
#[test]
fn a_fix_for_threads_that_have_ended_names_what_can_be_kept_and_that_works() {
    let file = trace("linux-5.10-net-rt.dat");
    for remedy in ["intruder-to-fair", "move-intruder"] {
        let plan = unstarve(&["fix", &file, "--this-boot", "--remedy", remedy]);
        let page = text(&plan.stdout);
        assert_eq!(plan.status.code(), Some(1), "{page}{}", text(&plan.stderr));
        let said = page.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains("wl has ended, so nothing can be changed now. For the next time it starts:"), "{page}");
        assert!(!page.contains("skipped") && !page.contains("Other remedies"), "{page}");
        let command = page.lines().last().expect("a line").trim();
        assert!(command.starts_with("unstarve fix ") && command.ends_with(" --as guard"), "{page}");
        let words: Vec<&str> = command.split_whitespace().skip(1).collect();
        let kept = unstarve(&words);
        let policy = text(&kept.stdout);
        assert_eq!(kept.status.code(), Some(0), "{command}: {}", text(&kept.stderr));
        assert!(policy.contains("[[rule]]") && policy.contains("wl"), "{policy}");
        // With --apply the answer is the same.
        let applied = unstarve(&["fix", &file, "--this-boot", "--remedy", remedy, "--apply"]);
        assert_eq!(applied.status.code(), Some(1), "{}", text(&applied.stderr));
        assert!(text(&applied.stdout).contains("--as guard"), "{}", text(&applied.stdout));
    }
    let json = unstarve(&["fix", &file, "--this-boot", "--remedy", "intruder-to-fair", "--json"]);
    let page: serde_json::Value = serde_json::from_slice(&json.stdout).expect("JSON");
    assert_eq!(page["ended"]["names"], serde_json::json!(["wl"]), "{page}");
}

#[test]
fn lines_of_the_journal_that_cannot_be_read_are_reported() {
    let directory = tempfile::tempdir().expect("a directory");
    let state = directory.path().display().to_string();
    let journal = directory.path().join("changes.journal");
    std::fs::write(&journal, "not a line of a journal\n").expect("written");
    for (what, code) in [("--status", 0), ("--check", 1), ("--undo", 0)] {
        let output = unstarve(&["fix", what, "--state", &state]);
        let said = [text(&output.stdout), text(&output.stderr)].concat();
        if said.contains("root") && !rustix::process::geteuid().is_root() {
            unstarve_testing::not_possible_here("the lock needs root");
            return;
        }
        assert!(said.contains("1 line of the journal in ") && said.contains("could not be read"), "{what}: {said}");
        assert_eq!(output.status.code(), Some(code), "{what}: {said}");
    }
    let output = unstarve(&["fix", "--status", "--json", "--state", &state]);
    let page: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(page["unreadable_lines"], 1, "{page}");
}

#[test]
fn an_undo_of_nothing_lets_the_journal_be() {
    if !rustix::process::geteuid().is_root() {
        unstarve_testing::not_possible_here("the lock needs root");
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let state = directory.path().display().to_string();
    let journal = directory.path().join("changes.journal");
    let mut lengths = Vec::new();
    for _ in 0..3 {
        let output = unstarve(&["fix", "--undo", "--state", &state]);
        assert_eq!(text(&output.stdout), "nothing to undo\n", "{}", text(&output.stderr));
        lengths.push(std::fs::metadata(&journal).map_or(0, |found| found.len()));
    }
    assert_eq!([lengths[1], lengths[2]], [lengths[0]; 2], "{lengths:?}");
}

#[test]
fn a_fix_of_nothing_is_json_if_asked_for() {
    let output = unstarve(&["fix", "--json", &trace("linux-6.1-idle.dat")]);
    let page: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(page, serde_json::json!({ "schema": "unstarve.fix/1", "finding": null }));
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_printed_fix_finds_its_file_and_its_boot() {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::copy(trace("linux-5.10-net-rt.dat"), directory.path().join("-x.dat")).expect("copied");
    let explain = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_unstarve"));
        text(&run(command.current_dir(directory.path()).arg("explain").args(arguments)).stdout).to_owned()
    };
    for (arguments, condition) in [
        (&["--", "-x.dat"][..], "if it has not been rebooted since"),
        (&["--full", "--", "-x.dat"], "--this-boot asserts that this is the host"),
    ] {
        let page = explain(arguments);
        // This recording does not say where it is from.
        let lines = page.lines().filter(|line| line.contains("unstarve fix ./-x.dat ") && !line.contains("--as shell"));
        assert!(lines.clone().count() > 0 && lines.clone().all(|line| line.contains(" --this-boot")), "{page}");
        assert!(page.contains(condition), "{page}");
    }
}

#[test]
fn that_no_setting_differs_is_said() {
    let root = tempfile::tempdir().expect("a directory");
    let snapshot = root.path().join("host.json");
    std::fs::write(&snapshot, r#"{"schema":"unstarve.snapshot/1","kernel":{"release":"6.12.0"}}"#).expect("written");
    let snapshot = snapshot.display().to_string();
    let said = |more: &[&str]| {
        let output = unstarve(&[&["knobs", "list", "--changed", "--snapshot", &snapshot], more].concat());
        text(&output.stdout).to_owned()
    };
    assert_eq!(said(&[]), "No setting differs from its default, as far as defaults are known.\n");
    assert_eq!(said(&["--json"]), "[]\n");
}

#[test]
fn settings_that_cannot_be_read_have_the_reason_that_holds_here() {
    let root = tempfile::tempdir().expect("a directory");
    let debug = root.path().join("sys/kernel/debug");
    std::fs::create_dir_all(&debug).expect("made");
    std::fs::create_dir(root.path().join("proc")).expect("made");
    let directory = root.path().display().to_string();
    let said = || text(&unstarve(&["knobs", "list", "--root", &directory]).stderr).to_owned();
    assert!(said().contains("debugfs is not mounted on /sys/kernel/debug; mount it as root"), "{}", said());
    // It is mounted: to mount it is no advice.
    std::fs::create_dir(debug.join("block")).expect("made");
    assert!(said().contains("CONFIG_SCHED_DEBUG") && !said().contains("mount"), "{}", said());
}
