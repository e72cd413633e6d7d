//! `unstarve check`, `snapshot` and `knobs` as a user meets them: exit codes, files, messages.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use unstarve_testing::host_tree::HostTree;

fn case(name: &str) -> String {
    format!("{}/../../testdata/snapshots/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn unstarve(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_unstarve"));
    command.args(arguments).env_remove("COLUMNS").env("LC_ALL", "C.UTF-8").stdin(Stdio::null());
    command.output().expect("it can be started")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("UTF-8")
}

#[test]
fn the_exit_code_is_by_severity() {
    let sick = case("storage-controller-5.10.json");
    let cases: [(&[&str], i32); 8] = [
        (&["check", "--snapshot", &sick], 1),
        (&["check", "--snapshot", &sick, "--fail-on", "never"], 0),
        (&["check", "--snapshot", &sick, "--sarif", "--fail-on", "warning"], 1),
        (&["check", "--rules"], 0),
        (&["check", "--snapshot", "/nonexistent"], 2),
        (&["check", "--upgrade-to", "soon"], 2),
        (&["check", "--upgrade-to", "6.99"], 2),
        (&["lab", "kernel", "add", "6.6"], 2),
    ];
    for (arguments, code) in cases {
        let output = unstarve(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", text(&output.stderr));
    }
}

#[test]
fn the_page_and_the_machine_forms_say_the_same() {
    let file = case("kubernetes-node-6.1.json");
    let page = unstarve(&["check", "--snapshot", &file]);
    let json: Value =
        serde_json::from_slice(&unstarve(&["check", "--snapshot", &file, "--json"]).stdout).expect("JSON");
    let sarif: Value =
        serde_json::from_slice(&unstarve(&["check", "--snapshot", &file, "--sarif"]).stdout).expect("JSON");
    assert_eq!((&json["schema"], &sarif["version"]), (&"unstarve.check/1".into(), &"2.1.0".into()));
    let sentence = json["hits"][0]["sentence"].as_str().expect("a sentence");
    assert!(text(&page.stdout).contains(sentence), "{}", text(&page.stdout));
    assert!(sarif["runs"][0]["results"][0]["message"]["text"].as_str().is_some_and(|text| text.starts_with(sentence)));
}

#[test]
fn a_snapshot_of_this_host_can_be_written_and_checked() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("host.json");
    let shown = file.to_str().expect("UTF-8");
    let written = unstarve(&["snapshot", "--redact", "-o", shown]);
    assert!(written.status.success(), "{}", text(&written.stderr));
    let names: Vec<_> = std::fs::read_dir(directory.path()).expect("it is there").flatten().collect();
    assert_eq!(names.len(), 1, "nothing is left beside it");
    let checked = unstarve(&["check", "--snapshot", shown, "--fail-on", "never", "--upgrade-to", "7.2"]);
    assert!(checked.status.success(), "{}", text(&checked.stderr));
    assert!(unstarve(&["knobs", "diff", shown, shown]).status.success());
    assert_eq!(unstarve(&["snapshot", "-o", "/nonexistent/host.json"]).status.code(), Some(2));
}

#[test]
fn errors_say_which_file_where_and_what_to_do() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let broken = directory.path().join("broken.json");
    std::fs::write(&broken, "{\"schema\":\"unstarve.snapshot/1\",\n \"kernel\":{},\n \"tasks\":[{\"tid\":\"x\"}]}")
        .expect("a file");
    let shown = broken.to_str().expect("UTF-8");
    let error = unstarve(&["check", "--snapshot", shown]);
    let said = text(&error.stderr);
    assert!(said.contains(shown) && said.contains("line 3 column") && said.contains("unstarve snapshot -o"), "{said}");
    let trace = format!("{}/../../testdata/traces/linux-6.1-idle.dat", env!("CARGO_MANIFEST_DIR"));
    assert_eq!(unstarve(&["check", "--snapshot", &trace]).status.code(), Some(2));
    let lost = unstarve(&["check", "--root", directory.path().to_str().expect("UTF-8")]);
    assert!(text(&lost.stderr).contains("there is no proc in it"), "{}", text(&lost.stderr));
}

#[test]
fn hostile_names_reach_no_terminal() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("hostile.json");
    let good = std::fs::read_to_string(case("storage-controller-5.10.json")).expect("testdata");
    let hostile =
        good.replace("\"stargate\"", "\"\\u001b[2Jgone\\n\\u202e\"").replace("\"5.10.0\"", "\"5.10.0\\u001b[31m\"");
    std::fs::write(&file, hostile).expect("a file");
    let shown = file.to_str().expect("UTF-8");
    for form in [&["--color", "never"][..], &["--json"], &["--sarif"], &["--upgrade-to", "7.2", "--color", "never"]] {
        let output = unstarve(&[&["check", "--snapshot", shown], form].concat());
        let said = text(&output.stdout);
        assert!(said.contains("[2Jgone"), "{form:?}: {said}");
        assert!(!said.contains('\u{1b}') && !said.contains('\u{202e}'), "{form:?}");
    }
    let diff = unstarve(&["knobs", "diff", shown, shown]);
    assert!(!text(&diff.stdout).contains('\u{1b}'));
}

#[test]
fn knobs_explain_and_differ() {
    let explained = unstarve(&["knobs", "explain", "sched_wakeup_granularity_ns"]);
    let said = text(&explained.stdout);
    assert!(said.contains("/sys/kernel/debug/sched/wakeup_granularity_ns") && said.contains("Source"), "{said}");
    let unknown = unstarve(&["knobs", "explain", "granularity\u{1b}"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(!text(&unknown.stderr).contains('\u{1b}'));
    let diff = unstarve(&["knobs", "diff", "--kernel", "5.10", "--kernel", "6.12", "--json"]);
    let diff: Value = serde_json::from_slice(&diff.stdout).expect("JSON");
    let changes = diff["changes"].as_array().expect("changes");
    let kind = |name: &str| changes.iter().find(|change| change["name"] == name).map(|change| change["kind"].clone());
    assert_eq!(kind("sched_wakeup_granularity_ns"), Some("gone".into()));
    assert_eq!(kind("base_slice_ns"), Some("new".into()));
    assert_eq!(kind("sched_migration_cost_ns"), Some("moved".into()));
    assert_eq!(kind("sched_rt_runtime_us"), Some("redefined".into()));
    assert_eq!(kind("PLACE_LAG"), Some("new".into()));
    assert_eq!(unstarve(&["knobs", "diff", "--kernel", "5.10"]).status.code(), Some(2));
    // A worker as /proc shows it; a number alone as the lab takes it; what no level says is named, not called gone.
    let worker = unstarve(&["knobs", "explain", "kworker/0:1-dio/nvme0n1"]);
    let worker = text(&worker.stdout);
    assert!(worker.contains("a kind of kernel thread") && worker.contains("Direct I/O"), "{worker}");
    let newest = unstarve(&["knobs", "diff", "--kernel", "6.12", "--kernel", "7", "--color", "never"]);
    let newest = text(&newest.stdout);
    assert!(newest.contains("Linux 7.2"), "{newest}");
    assert!(newest.contains("Not compared") && newest.contains("RT_PUSH_IPI"), "{newest}");
    let known = unstarve(&["knobs", "diff", "--kernel", "6.12.107", "--kernel", "7.2.8"]);
    assert!(!text(&known.stdout).contains("Not compared"), "{}", text(&known.stdout));
    assert_eq!(unstarve(&["knobs", "diff", "--kernel", "6.12", "--kernel", "8"]).status.code(), Some(2));
    assert_eq!(unstarve(&["knobs", "diff"]).status.code(), Some(2));
}

/// Of a file that somebody wrote nothing is gone but what its kernel is known to lack.
#[test]
fn what_only_one_of_two_files_has_is_not_called_gone() {
    let place = tempfile::tempdir().expect("a place for files");
    let host = |name: &str, release: &str, settings: &[(&str, &str)]| {
        let settings: std::collections::BTreeMap<_, _> = settings.iter().copied().collect();
        let json = serde_json::json!({
            "schema": "unstarve.snapshot/1", "kernel": { "release": release }, "settings": settings,
        });
        let path = place.path().join(name);
        std::fs::write(&path, json.to_string()).expect("a snapshot");
        path.to_str().expect("UTF-8").to_owned()
    };
    let all = [("/proc/sys/kernel/sched_latency_ns", "1"), ("/proc/sys/kernel/sched_rt_runtime_us", "0")];
    let (old, new) = (host("old.json", "5.10.223", &all), host("new.json", "6.12.30", &[]));
    for command in [&["knobs", "diff"][..], &["compare"]] {
        let output = unstarve(&[command, &[old.as_str(), new.as_str()]].concat());
        let page = text(&output.stdout);
        assert!(page.contains("0 in the first; not in the second") && !page.contains("was 0"), "{page}");
        assert!(page.contains("was 1"), "6.12 is known to lack it: {page}");
    }
}

#[test]
fn a_made_up_host_is_set_and_undone() {
    let tree = HostTree::new(&[("proc/sys/kernel/sched_rr_timeslice_ms", "100\n")]);
    let file = tree.join("proc/sys/kernel/sched_rr_timeslice_ms");
    let (root, journal) = (tree.path().to_str().expect("UTF-8"), tree.path().join("journal"));
    let journal = journal.to_str().expect("UTF-8");
    let knobs = |arguments: &[&str]| {
        let output = unstarve(&[&["knobs"], arguments, &["--root", root, "--journal", journal]].concat());
        (output.status.code(), format!("{}{}", text(&output.stdout), text(&output.stderr)))
    };
    let (code, said) = knobs(&["undo"]);
    assert!(code == Some(2) && said.ends_with(&format!("no journal at {journal}\n")), "{said}");
    let (code, said) = knobs(&["set", "sched_rr_timeslice_ms", "050", "--dry-run"]);
    assert!(code == Some(0) && said.ends_with("100 -> 050 (not written)\n"), "{said}");
    assert!(!Path::new(journal).exists());
    let (code, said) = knobs(&["set", "sched_rr_timeslice_ms", "050"]);
    let undo = format!("undo: unstarve knobs undo --journal {journal} --root {root}\n");
    assert!(code == Some(0) && said.ends_with(&undo), "{said}");
    assert_eq!(std::fs::read_to_string(&file).expect("a file"), "050\n");
    assert_eq!(knobs(&["undo"]).0, Some(0));
    assert_eq!(std::fs::read_to_string(&file).expect("a file"), "100\n");
    assert_eq!(knobs(&["undo"]), (Some(0), "nothing to undo\n".into()));
}

#[test]
fn every_command_has_help_with_an_example() {
    for command in ["check", "snapshot", "knobs"] {
        let output = unstarve(&[command, "--help"]);
        assert!(output.status.success());
        let help = text(&output.stdout);
        assert!(help.contains("Example") && help.contains(&format!("unstarve {command}")), "{help}");
    }
}

/// What an older kernel would bring is no upgrade's doing.
#[test]
fn an_older_kernel_is_called_one_before_all_else() {
    let file = case("kubernetes-node-6.1.json");
    let page = |version: &str| {
        let output = unstarve(&["check", "--snapshot", &file, "--fail-on", "never", "--upgrade-to", version]);
        text(&output.stdout).to_owned()
    };
    let older = page("5.10");
    assert!(older.starts_with("Linux 5.10 is older than 6.1.0, which runs"), "{older}");
    assert!(!older.contains("the upgrade") && older.contains("the older kernel"), "{older}");
    let newer = page("6.12");
    assert!(!newer.contains("older") && newer.contains("the upgrade"), "{newer}");
    let json = unstarve(&["check", "--snapshot", &file, "--upgrade-to", "5.10", "--json"]);
    let json: Value = serde_json::from_slice(&json.stdout).expect("JSON");
    assert_eq!(json["is_downgrade"], true);
}
