//! What the commands print as JSON is what `unstarve schema` says, and has no field that it does not describe.

use std::process::{Command, Stdio};

use serde_json::Value;
use unstarve_testing::json_schema::JsonSchema;
use unstarve_watch::episode::{Episode, Seen, Trigger};

fn unstarve(arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_unstarve"));
    let output = command.args(arguments).env("LC_ALL", "C.UTF-8").stdin(Stdio::null()).output().expect("it starts");
    assert!(output.status.code().is_some_and(|code| code < 2), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn testdata(name: &str) -> String {
    format!("{}/../../testdata/{name}", env!("CARGO_MANIFEST_DIR"))
}

const SCHEMAS: [&str; 14] = [
    "explain",
    "compare",
    "compare-hosts",
    "check",
    "predict",
    "top",
    "timeline",
    "episode",
    "watch",
    "fix",
    "guard",
    "doctor",
    "knobs",
    "snapshot",
];

fn schema(name: &str) -> JsonSchema {
    JsonSchema::of(json(&unstarve(&["schema", name])))
}

#[test]
fn what_commands_print_is_what_their_schemas_say() {
    let sick = testdata("traces/linux-5.10-net-rt.dat");
    let rt = testdata("truth/iouring-rt.6.1.fault.dat.zst");
    let good = testdata("traces/linux-5.10-net-good.dat");
    let weight = testdata("traces/linux-6.1-dio-weight.dat");
    let snapshot = testdata("snapshots/storage-controller-5.10.json");
    let other = testdata("snapshots/kubernetes-node-6.1.json");
    let directory = tempfile::tempdir().expect("a directory");
    let (none, state) = (directory.path().join("none"), directory.path().join("state"));
    let (none, state) = (none.to_str().expect("UTF-8"), state.to_str().expect("UTF-8"));
    let policy = directory.path().join("policy.toml");
    let rules = "version = 1\n[[rule]]\nname = \"r\"\nmatch = { kind = \"kthread\", comm = \"ksoftirqd/*\" }\nset = { nice = -1 }\n\
                 [[cgroup]]\npath = \"/nowhere.slice\"\nweight = 100\n";
    std::fs::write(&policy, rules).expect("a policy");
    let policy = policy.to_str().expect("UTF-8");
    let schema_of_lines = schema("timeline");
    let log = testdata("logs/hung-flush.6.12.log");
    let cases: [(&str, &[&str]); 33] = [
        ("explain", &["explain", "--json", &log]),
        ("explain", &["explain", "--json", &sick]),
        ("explain", &["explain", "--json", &good]),
        ("compare", &["compare", "--json", &good, &sick]),
        ("compare", &["compare", "--json", "--fail-on", "worse", &good, &sick]),
        ("compare", &["compare", "--json", "--fail-on", "never", &good, &weight]),
        ("check", &["check", "--json", "--snapshot", &snapshot]),
        ("check", &["check", "--json", "--snapshot", &snapshot, "--upgrade-to", "6.12"]),
        ("explain", &["explain", "--json", &rt]),
        ("predict", &["predict", "--json", &rt]),
        ("predict", &["predict", "--json", "--victim", "ring*", "--change", "policy:rtpoll=other", &rt]),
        ("top", &["top", "--json", "--once", &sick]),
        ("compare-hosts", &["compare", "--json", &snapshot, &other]),
        ("doctor", &["doctor", "--json"]),
        ("snapshot", &["snapshot"]),
        ("snapshot", &["snapshot", "--redact"]),
        ("knobs", &["knobs", "list", "--json"]),
        ("knobs", &["knobs", "list", "--json", "--changed", "--snapshot", &snapshot]),
        ("knobs", &["knobs", "diff", "--json", "--kernel", "5.10", "--kernel", "6.12"]),
        ("knobs", &["knobs", "diff", "--json", &snapshot, &other]),
        ("guard", &["guard", "plan", "--json", "--policy", policy]),
        ("guard", &["guard", "status", "--json"]),
        ("fix", &["fix", "--json", &sick]),
        ("fix", &["fix", "--json", "--this-boot", &sick]),
        ("fix", &["fix", "--json", &good]),
        ("fix", &["fix", "--json", &sick, "--remedy", "1", "--as", "shell"]),
        ("fix", &["fix", "--json", &weight, "--remedy", "5", "--as", "tmpfiles"]),
        ("fix", &["fix", "--json", &weight, "--remedy", "5", "--as", "guard"]),
        ("fix", &["fix", "--json", &weight, "--this-boot", "--remedy", "no-wakeup-preemption"]),
        ("fix", &["fix", "--json", "--status", "--state", none]),
        ("fix", &["fix", "--json", "--undo", "--state", none]),
        ("fix", &["fix", "--json", "--undo", "--state", state]),
        ("watch", &["watch", "status", "--json", "--state", none]),
    ];
    let lines = unstarve(&["timeline", "--json", &good]);
    assert!(lines.lines().count() > 100);
    for line in lines.lines().take(1000) {
        assert_eq!(schema_of_lines.takes(&json(line)), Ok(()), "{line}");
    }
    for (name, arguments) in cases {
        assert_eq!(schema(name).takes(&json(&unstarve(arguments))), Ok(()), "{arguments:?}");
    }
}

/// Every command with `--json` and a schema of its own is in the test above: `schema --help` has them all.
#[test]
fn every_schema_is_of_some_output() {
    for name in SCHEMAS {
        let printed = json(&unstarve(&["schema", name]));
        assert!(printed["title"].is_string(), "{name}");
    }
    let help = unstarve(&["help", "schema"]);
    let listed: Vec<&str> = help
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("- ")?.split_once(':'))
        .map(|(name, _)| name)
        .collect();
    assert_eq!(listed, SCHEMAS);
    let reference =
        std::fs::read_to_string(format!("{}/../../docs/json.md", env!("CARGO_MANIFEST_DIR"))).expect("docs");
    for name in SCHEMAS {
        assert!(reference.contains(&format!("| `unstarve schema {name}` |")), "{name}");
    }
}

/// The stored recordings have all kinds of findings, losses and remedies.
#[test]
fn every_stored_recording_is_explained_as_the_schema_says() {
    let described = schema("explain");
    let mut explained = 0;
    for entry in std::fs::read_dir(testdata("traces")).expect("the recordings") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|extension| extension == "dat")
            && path.metadata().is_ok_and(|of| of.len() < 16 << 20)
        {
            let report = json(&unstarve(&["explain", "--json", path.to_str().expect("UTF-8")]));
            assert_eq!(described.takes(&report), Ok(()), "{}", path.display());
            explained += 1;
        }
    }
    assert!(explained > 5, "{explained} recordings");
}

#[test]
fn an_episode_is_what_its_schema_says() {
    let seen = Seen {
        trigger: Trigger::Wait { ns: 54_000_000, threshold_ns: 50_000_000 },
        since_mono_ns: None,
        victim: None,
        culprit: None,
        rule: None,
        blamed_ns: Some(1),
    };
    let episode = Episode { trigger: Some(seen), verdict: Some("Nobody is starved.".to_owned()), ..Episode::default() };
    let described = schema("episode");
    assert_eq!(described.takes(&serde_json::to_value(&episode).expect("JSON")), Ok(()));
}

#[test]
fn what_is_wrong_is_seen() {
    let described = schema("explain");
    let mut report = json(&unstarve(&["explain", "--json", &testdata("traces/linux-5.10-net-rt.dat")]));
    report["findings"][0]["culprits"][0]["rule"] = "luck".into();
    assert!(described.takes(&report).is_err_and(|wrong| wrong.starts_with(".findings [0] .culprits [0] .rule")));
    report["findings"][0]["culprits"][0]["rule"] = "class".into();
    assert_eq!(described.takes(&report), Ok(()));
    report["colour"] = "red".into();
    assert_eq!(described.takes(&report), Err("colour is not described".to_owned()));
}
