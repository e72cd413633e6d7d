//! `unstarve guard` as users without rights, with wrong policies and among hostile names meet it.

use std::process::{Command, Output, Stdio};

fn unstarve(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_unstarve")).args(arguments).stdin(Stdio::null()).output().expect("it runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn policy(directory: &tempfile::TempDir, rules: &str) -> String {
    let path = directory.path().join("p.toml");
    std::fs::write(&path, format!("version = 1\n{rules}")).expect("a policy");
    path.to_str().expect("a path").to_owned()
}

#[test]
fn a_wrong_policy_is_told_with_its_place_and_nothing_is_changed() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = policy(&directory, "[[rule]]\nname = \"r\"\nmatch = { comm = \"x\" }\nset = { nise = 1 }\n");
    let state = directory.path().join("state");
    let output = unstarve(&["guard", "apply", "--once", "--policy", &path, "--state", state.to_str().expect("a path")]);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("p.toml:5:9: unknown field `nise`") && error.contains("nothing was changed"), "{error}");
    assert!(!state.exists());
}

#[test]
fn a_hostile_name_does_not_reach_the_terminal() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = policy(&directory, "[[rule]]\nname = \"r\"\nmatch = { comm = \"*evil*\" }\nset = { nice = 1 }\n");
    let (done, wait) = std::sync::mpsc::channel::<()>();
    let (named, ready) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        rustix::thread::set_name(c"\x1b[31mevil\n\r).").expect("a name");
        named.send(()).expect("a listener");
        let _ = wait.recv();
    });
    ready.recv().expect("a name");
    for arguments in [vec!["guard", "plan", "--policy", &path], vec!["guard", "plan", "--json", "--policy", &path]] {
        let output = unstarve(&arguments);
        let page = text(&output.stdout);
        assert!(output.status.success() && page.contains("evil"), "{page}");
        assert!(page.chars().all(|c| c == '\n' || !c.is_control()), "{page:?}");
        assert!(page.lines().filter(|line| line.contains("evil")).count() >= 1, "{page}");
    }
    drop(done);
    thread.join().expect("its end");
}

#[test]
fn who_may_not_is_told_what_is_missing() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = policy(&directory, "[[rule]]\nname = \"r\"\nmatch = { comm = \"x\" }\nset = { nice = 1 }\n");
    let state = directory.path().join("state");
    // Root without that capability stands for an ordinary user, who has none.
    let mut command = Command::new(env!("CARGO_BIN_EXE_unstarve"));
    if rustix::process::geteuid().is_root() {
        command = Command::new("setpriv");
        command.args(["--bounding-set", "-sys_nice", "--inh-caps", "-sys_nice", env!("CARGO_BIN_EXE_unstarve")]);
    }
    command.args(["guard", "run", "--policy", &path, "--state"]).arg(&state).stdin(Stdio::null());
    let Ok(output) = command.output() else {
        println!("skipped: there is no setpriv");
        return;
    };
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("missing: CAP_SYS_NICE") && error.contains("Nothing was changed"), "{error}");
    assert!(!state.exists());
}

#[test]
fn the_policies_that_scenarios_of_the_lab_hold_are_sound() {
    use unstarve_lab::scenario::Action;

    let directory = tempfile::tempdir().expect("a directory");
    let mut policies = 0;
    for name in unstarve_lab::catalogue::names() {
        let scenario = unstarve_lab::catalogue::find(name).expect("a scenario");
        for action in scenario.remedy.iter().flat_map(|remedy| &remedy.steps) {
            let Action::Guard { policy, .. } = action else { continue };
            let path = directory.path().join(format!("{name}.toml"));
            std::fs::write(&path, policy).expect("a policy");
            let output = unstarve(&["guard", "plan", "--policy", path.to_str().expect("a path")]);
            assert!(output.status.success(), "{name}: {}", text(&output.stderr));
            policies += 1;
        }
    }
    assert!(policies >= 5, "{policies} policies");
}
