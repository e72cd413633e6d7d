//! `unstarve compare --fail-on worse`: exit codes, files, and what it refuses.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const GOOD: &str = "traces/linux-5.10-net-good.dat";
const WORSE: &str = "traces/linux-5.10-net-rt.dat";
const OTHER_KERNEL: &str = "traces/linux-6.1-idle.dat";

fn testdata(name: &str) -> String {
    format!("{}/../../testdata/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn compare(arguments: &[&str]) -> Output {
    let mut command = Command::new("timeout");
    command.args(["-k", "5", "60", env!("CARGO_BIN_EXE_unstarve"), "compare"]).args(arguments);
    command.env("LC_ALL", "C.UTF-8").stdin(Stdio::null()).output().expect("it can be started")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("UTF-8")
}

#[test]
fn exit_codes_are_those_of_the_page() {
    let (good, worse, other) = (testdata(GOOD), testdata(WORSE), testdata(OTHER_KERNEL));
    let place = tempfile::tempdir().expect("a directory");
    let (like_good, link) = (place.path().join("like-good.dat"), place.path().join("link.dat"));
    fs::copy(&good, &like_good).expect("copied");
    std::os::unix::fs::symlink(&good, &link).expect("a link");
    let [like_good, link] = [like_good, link].map(|path| path.to_str().expect("text").to_owned());
    let cases: [(&[&str], i32, &str); 12] = [
        (&[&good, &like_good, "--fail-on", "worse"], 0, "Same. No thread waits 2 times as long"),
        (&[&good, &worse, "--fail-on", "worse"], 1, "Worse. ksoftirqd/1 is starved by wl (real-time)"),
        (&[&good, &worse, "--fail-on", "never"], 0, "Worse. "),
        (&[&worse, &good, "--fail-on", "worse"], 0, "Better. "),
        (&["--base", &good, "--base", &like_good, &worse], 1, "Worse. "),
        (&["--base", &good, &like_good, &worse], 1, "Worse. "),
        // One recording is one run, by whatever name.
        (&["--base", &good, "--base", &link, &worse], 2, ""),
        (&["--base", &good, &worse, &link], 2, ""),
        (&[&good, &other, "--fail-on", "worse"], 3, "it is another machine"),
        (&[&good, "/nonexistent", "--fail-on", "worse"], 2, ""),
        (&[&good, &like_good, "--fail-on", "worse", "--task", "nobody"], 2, ""),
        (&[&good, &like_good, "--margin", "1"], 2, ""),
    ];
    for (arguments, code, expected) in cases {
        let output = compare(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", text(&output.stderr));
        let page = text(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(page.contains(expected.trim_end()), "{arguments:?}: {page}");
    }
}

#[test]
fn a_directory_is_the_recordings_in_it() {
    let place = tempfile::tempdir().expect("a directory");
    let base = place.path().join("base");
    fs::create_dir(&base).expect("created");
    let named = base.to_str().expect("text");
    let empty = compare(&["--base", named, &testdata(GOOD)]);
    assert_eq!(empty.status.code(), Some(2));
    assert!(text(&empty.stderr).contains("there is no recording in it"), "{}", text(&empty.stderr));
    for name in ["a.dat", "b.dat", "c.dat.old", ".d.dat"] {
        fs::copy(testdata(GOOD), base.join(name)).expect("copied");
    }
    let judged = compare(&["--base", named, &testdata(GOOD), "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&judged.stdout).expect("JSON");
    assert_eq!((judged.status.code(), &json["gate"]["verdict"]), (Some(0), &"same".into()));
    let names: Vec<&str> =
        json["gate"]["base"].as_array().expect("names").iter().filter_map(|one| one.as_str()).collect();
    assert!(names.len() == 2 && names[0].ends_with("a.dat") && names[1].ends_with("b.dat"), "{names:?}");
    for index in 0..20 {
        fs::copy(testdata("traces/linux-6.1-idle.dat"), base.join(format!("{index}.dat"))).expect("copied");
    }
    let many = compare(&["--base", named, &testdata(GOOD)]);
    assert!(many.status.code() == Some(2) && text(&many.stderr).contains("at most 16"), "{}", text(&many.stderr));
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("a directory");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("text")).collect();
    names.sort();
    names
}

#[test]
fn files_are_whole_or_not_there() {
    let place = tempfile::tempdir().expect("a directory");
    let file = |name: &str| place.path().join(name).to_str().expect("text").to_owned();
    let (good, worse) = (testdata(GOOD), testdata(WORSE));
    let outputs = [file("gate.xml"), file("gate.sarif"), file("comment.md")];
    let [junit, sarif, markdown] = &outputs;
    let written = compare(&[&good, &worse, "--junit", junit, "--sarif", sarif, "--markdown", markdown]);
    assert_eq!(written.status.code(), Some(1), "{}", text(&written.stderr));
    assert_eq!(names(place.path()), ["comment.md", "gate.sarif", "gate.xml"]);
    assert!(fs::read_to_string(junit).expect("XML").ends_with("</testsuites>\n"));
    let log: serde_json::Value = serde_json::from_str(&fs::read_to_string(sarif).expect("SARIF")).expect("JSON");
    assert_eq!(log["runs"][0]["properties"]["verdict"], "worse");
    assert!(
        fs::read_to_string(markdown).expect("a comment").starts_with("<!-- unstarve compare -->\n### unstarve: worse")
    );
    for name in &outputs {
        fs::remove_file(name).expect("removed");
    }
    // One that cannot be written, and an input that cannot be read: then there is none.
    let failed = compare(&[&good, &worse, "--junit", junit, "--sarif", &file("none/gate.sarif")]);
    assert_eq!((failed.status.code(), names(place.path())), (Some(2), vec![]));
    let failed = compare(&[&good, "/dev/null", "--junit", junit]);
    assert_eq!((failed.status.code(), names(place.path())), (Some(2), vec![]));
    // An input is not replaced.
    let own = file("own.dat");
    fs::copy(&good, &own).expect("copied");
    let refused = compare(&[&good, &own, "--junit", &own]);
    assert!(refused.status.code() == Some(2) && text(&refused.stderr).contains("is an input recording"));
    assert_eq!(fs::read(&own).expect("it is there"), fs::read(&good).expect("it is there"));
}

#[test]
fn what_has_no_verdict_is_refused() {
    let good = testdata(GOOD);
    let snapshot = testdata("snapshots/storage-controller-5.10.json");
    for (arguments, expected) in [
        (&[good.as_str(), &good, "--fail-on", "worse", "-o", "page.html"][..], "a verdict has no page"),
        (&[good.as_str(), &snapshot, "--fail-on", "worse"], ""),
        (&[good.as_str(), "--fail-on", "worse"], "required"),
    ] {
        let output = compare(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains(expected), "{arguments:?}: {}", text(&output.stderr));
    }
}
