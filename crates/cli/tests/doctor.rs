//! `unstarve doctor`, on the host that the tests run on.

use std::process::Command;

use serde_json::Value;

fn doctor(command: &mut Command) -> (Option<i32>, Value) {
    let output = command.output().expect("it can be started");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let page = serde_json::from_str(&said)
        .unwrap_or_else(|error| panic!("{error}: {said}{}", String::from_utf8_lossy(&output.stderr)));
    (output.status.code(), page)
}

fn state<'a>(page: &'a Value, id: &str) -> &'a str {
    let all = page["allowed"].as_array().expect("a list");
    let one = all.iter().find(|one| one["id"] == id).unwrap_or_else(|| panic!("no {id} in {page:#}"));
    one["state"].as_str().expect("a word")
}

/// The exit code is about what commands need, and nothing else.
#[test]
fn the_exit_code_says_whether_what_commands_need_is_there() {
    let (code, page) = doctor(Command::new(env!("CARGO_BIN_EXE_unstarve")).args(["doctor", "--json"]));
    assert_eq!(page["schema"], "unstarve.doctor/1");
    let lacks = ["kernel", "record", "count", "change"].into_iter().any(|id| state(&page, id) != "full");
    assert_eq!(code, Some(i32::from(lacks)), "{page:#}");
    for one in page["allowed"].as_array().expect("a list") {
        let is_whole = one["state"] == "full";
        assert_eq!(is_whole, one["without"] == "", "what is missing has a price: {one:#}");
    }
}

/// Root without capabilities is nobody.
#[test]
fn without_rights_nothing_is_allowed_and_the_way_is_said() {
    if !rustix::process::geteuid().is_root() {
        unstarve_testing::not_possible_here("only root can become somebody without rights");
        return;
    }
    let mut nobody = Command::new("setpriv");
    // The program may be in root's directory: it is opened before the rights are gone.
    nobody.args(["--bounding-set=-all", "--inh-caps=-all", env!("CARGO_BIN_EXE_unstarve"), "doctor", "--json"]);
    let (code, page) = doctor(&mut nobody);
    assert_eq!(code, Some(1), "{page:#}");
    for id in ["count", "guard", "change"] {
        assert_eq!(state(&page, id), "none", "{page:#}");
    }
    let guard = page["allowed"].as_array().and_then(|all| all.iter().find(|one| one["id"] == "guard"));
    let says_number = |guard: &Value| guard["found"].as_str().is_some_and(|found| found.contains("(os error "));
    assert!(!cfg!(feature = "bpf") || guard.is_some_and(says_number), "{page:#}");
    let change = page["allowed"].as_array().and_then(|all| all.iter().find(|one| one["id"] == "change"));
    assert!(change.is_some_and(|change| change["get"].as_str().is_some_and(|get| get.contains("sudo"))), "{page:#}");
}
