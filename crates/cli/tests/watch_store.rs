//! `unstarve watch episodes` and `show`: what a store says, of a watch that does not run.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use unstarve_watch::episode::{Episode, Party, Seen, Trigger};

fn watch(arguments: &[&str], store: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_unstarve"));
    command.arg("watch").args(arguments).arg("--store").arg(store).stdin(Stdio::null()).env("LC_ALL", "C.UTF-8");
    command.output().expect("it can be started")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("UTF-8")
}

const ID: &str = "20261123-012345-678";

/// What the counters saw, in a recording that shows nobody starved.
fn episode() -> Episode {
    let party = |comm: &str, tid| Party { comm: comm.to_owned(), tid: Some(tid), ..Party::default() };
    let trigger = Seen {
        trigger: Trigger::Wait { ns: 54_000_000, threshold_ns: 50_000_000 },
        since_mono_ns: None,
        victim: Some(party("ksoftirqd/1", 18)),
        culprit: Some(party("cc1", 4711)),
        rule: Some(serde_json::from_value("weight".into()).expect("a rule")),
        blamed_ns: Some(54_400_000),
    };
    Episode {
        id: ID.to_owned(),
        at: "2026-11-23T01:23:45.678000000Z".to_owned(),
        trigger: Some(trigger),
        verdict: Some("Nobody is starved.".to_owned()),
        ..Episode::default()
    }
}

#[test]
fn an_episode_is_shown_before_what_explain_says_of_its_trace() {
    let store = tempfile::tempdir().expect("a store");
    let directory = store.path().join(ID);
    fs::create_dir(&directory).expect("it can be made");
    let trace = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/traces/linux-6.1-idle.dat");
    fs::copy(trace, directory.join("trace.dat")).expect("a trace");
    let line = serde_json::to_string(&episode()).expect("JSON");
    fs::write(store.path().join("episodes.jsonl"), format!("{line}\n")).expect("a log");
    let output = watch(&["show", ID], store.path());
    let page = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let (about, report) = page.split_once("\nWhat explain says of its trace:\n\n").expect(page);
    assert!(about.starts_with(&format!("2026-11-23T01:23:45Z  episode {ID}: ")), "{about}");
    assert!(
        about.contains("began when ksoftirqd/1[18] waited 54.4 ms while cc1[4711] had the CPU (weight): one wait took 54.0 ms or more; the threshold is wait = 50.0 ms\n"),
        "{about}"
    );
    assert!(report.contains("trace.dat v"), "{report}");
    // The JSON is the report alone, as before.
    let output = watch(&["show", ID, "--json"], store.path());
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(json["schema"], "unstarve.explain/1");
    // The trace itself, for another machine.
    let bytes = fs::read(trace).expect("a trace");
    let output = watch(&["show", ID, "--trace", "-"], store.path());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(output.stdout == bytes, "{} bytes instead of {}", output.stdout.len(), bytes.len());
    let copied = store.path().join("copy.dat");
    let output = watch(&["show", ID, "--trace", copied.to_str().expect("UTF-8")], store.path());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(fs::read(&copied).expect("a copy") == bytes);
    // Another user's store may have anything in a trace's place.
    fs::remove_file(directory.join("trace.dat")).expect("it goes");
    std::os::unix::fs::symlink(trace, directory.join("trace.dat")).expect("a link");
    let output = watch(&["show", ID, "--trace", "-"], store.path());
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{output:?}");
}

/// The log has them in the order in which they were explained.
#[test]
fn episodes_are_listed_by_when_they_began_in_utc() {
    let store = tempfile::tempdir().expect("a store");
    let line = |second: u64| {
        let at = format!("2026-11-23T01:23:{second:02}.678000000Z");
        let episode = Episode { id: format!("20261123-0123{second:02}-678"), at, at_ns: second, ..episode() };
        serde_json::to_string(&episode).expect("JSON") + "\n"
    };
    fs::write(store.path().join("episodes.jsonl"), [52, 50, 15, 51].map(line).concat()).expect("a log");
    let output = watch(&["episodes"], store.path());
    let times: Vec<&str> = text(&output.stdout).lines().filter_map(|line| line.split("  ").next()).collect();
    assert_eq!(times, [15, 50, 51, 52].map(|second| format!("2026-11-23T01:23:{second}Z")), "{output:?}");
}

/// Before a subcommand an option of the running watch would be without effect.
#[test]
fn an_option_before_a_subcommand_is_told_its_place() {
    let output = Command::new(env!("CARGO_BIN_EXE_unstarve")).args(["watch", "--state", "/nowhere", "status"]).output();
    let output = output.expect("it can be started");
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let said = text(&output.stderr);
    assert!(said.contains("--state stands before the subcommand") && said.contains("status --state DIR"), "{said}");
}

/// That there are no episodes can be said of a store alone.
#[test]
fn a_store_that_is_not_there_is_an_error() {
    let place = tempfile::tempdir().expect("a directory");
    assert_eq!(watch(&["episodes"], place.path()).status.code(), Some(0), "an empty one has none");
    let file = place.path().join("file");
    fs::write(&file, "").expect("a file");
    for (store, why) in [(place.path().join("nowhere"), "no such directory"), (file, "not a directory")] {
        for arguments in [&["episodes"][..], &["show", ID]] {
            let output = watch(arguments, &store);
            assert_eq!(output.status.code(), Some(2), "{arguments:?}: {output:?}");
            assert!(text(&output.stderr).contains(why), "{output:?}");
            assert!(output.stdout.is_empty(), "{output:?}");
        }
    }
}

/// The word of a watch that is gone on an episode that had just begun.
#[test]
fn what_no_watch_will_finish_is_not_said_to_go_on() {
    use unstarve_watch::episode::Stage;
    use unstarve_watch::store::{Limits, Store};
    let place = tempfile::Builder::new()
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700))
        .tempdir()
        .expect("a directory");
    let path = place.path().join("store");
    let store = Store::open(&path, Limits { bytes: 1 << 20, episodes: 9 }).expect("a store");
    let begun = Episode { stage: Stage::Begun, ..episode() };
    store.logbook().add(&begun).expect("a line");
    let listed = || {
        let output = watch(&["episodes"], &path);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        text(&output.stdout).to_owned()
    };
    assert!(listed().starts_with(&format!("2026-11-23T01:23:45Z  episode {ID} has begun: ")), "{}", listed());
    drop(store);
    let said = format!("2026-11-23T01:23:45Z  episode {ID} was not finished (no watch has its store): ");
    assert!(listed().starts_with(&said), "{}", listed());
    let json = watch(&["episodes", "--json"], &path);
    let line: serde_json::Value = serde_json::from_slice(&json.stdout).expect("JSON");
    assert_eq!((&line["stage"], &line["unfinished"]), (&"begun".into(), &true.into()));
}

#[test]
fn the_state_directory_of_a_watch_names_its_store() {
    let state = tempfile::tempdir().expect("a directory");
    for command in [&["episodes"][..], &["show", ID]] {
        let mut unstarve = Command::new(env!("CARGO_BIN_EXE_unstarve"));
        unstarve.arg("watch").args(command).arg("--state").arg(state.path()).stdin(Stdio::null());
        let output = unstarve.output().expect("it can be started");
        let expected = format!(
            "unstarve: no watch runs with the state directory {}: --store or --config name the store of one that has ended\n",
            state.path().display()
        );
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(2), expected.as_str()));
    }
}
