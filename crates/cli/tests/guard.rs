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

/// A thread of this test under a name of its choice, until it is dropped.
struct Named {
    done: Option<std::sync::mpsc::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Named {
    fn new(name: &'static std::ffi::CStr) -> Named {
        let (done, wait) = std::sync::mpsc::channel::<()>();
        let (named, ready) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            rustix::thread::set_name(name).expect("a name");
            named.send(()).expect("a listener");
            let _ = wait.recv();
        });
        ready.recv().expect("a name");
        Named { done: Some(done), thread: Some(thread) }
    }
}

impl Drop for Named {
    fn drop(&mut self) {
        drop(self.done.take());
        let _ = self.thread.take().map(std::thread::JoinHandle::join);
    }
}

/// What `plan` says in JSON, and its tasks of that name.
fn planned(rules: &str, comm: &str) -> (serde_json::Value, Vec<serde_json::Value>) {
    let directory = tempfile::tempdir().expect("a directory");
    let output = unstarve(&["guard", "plan", "--json", "--policy", &policy(&directory, rules)]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let page: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let named = page["tasks"].as_array().expect("tasks").iter().filter(|task| task["comm"] == comm).cloned().collect();
    (page, named)
}

#[test]
fn a_program_with_a_kernel_threads_name_is_none() {
    let _impostor = Named::new(c"ksoftirqd/4711");
    let rule = |more: &str| {
        format!("[[rule]]\nname = \"r\"\nmatch = {{ comm = \"ksoftirqd/*\"{more} }}\nset = {{ nice = -5 }}\n")
    };
    let (page, found) = planned(&rule(""), "ksoftirqd/4711");
    assert_eq!((found.len(), &page["rules"][0]["kind_implied"]), (0, &serde_json::json!(true)));
    let (page, found) = planned(&rule(", kind = \"user\""), "ksoftirqd/4711");
    assert_eq!((found.len(), &page["rules"][0]["kind_implied"]), (1, &serde_json::json!(false)));
    assert_eq!((&found[0]["kind"], &found[0]["uid"]), (&"user".into(), &rustix::process::getuid().as_raw().into()));
    let remark = page["rules"][0]["remarks"][0].as_str().expect("a warning");
    assert!(remark.contains("any user can start a process with this name and have it raised"), "{remark}");
}

#[test]
fn tasks_are_selected_by_their_user() {
    let _thread = Named::new(c"whose-am-i");
    let own = rustix::process::getuid().as_raw();
    let rule = |uid: u32| {
        format!("[[rule]]\nname = \"r\"\nmatch = {{ comm = \"whose-am-i\", uid = {uid} }}\nset = {{ nice = -5 }}\n")
    };
    let (page, found) = planned(&rule(own), "whose-am-i");
    assert_eq!((found.len(), &page["rules"][0]["remarks"]), (1, &serde_json::json!([])));
    assert_eq!(planned(&rule(own + 1), "whose-am-i").1.len(), 0);
}

/// Processes that sleep, ended when dropped.
struct Sleepers(Vec<std::process::Child>);

impl Drop for Sleepers {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn rules_that_together_take_most_programs_are_refused() {
    let rule = |name: &str| {
        format!(
            "[[rule]]\nname = \"{name}\"\nmatch = {{ cmdline = \"sleep 77.{name}\" }}\n\
             set = {{ policy = \"rr\", rt-priority = 1 }}\n"
        )
    };
    let rules = rule("1") + &rule("2");
    let programs = |page: &serde_json::Value, field: &str| page[field].as_u64().expect("a count");
    let (page, _) = planned(&rules, "");
    assert_eq!(programs(&page, "programs_realtime"), 0);
    // As many again, and more, since other tests start programs meanwhile.
    let mut sleepers = Sleepers(Vec::new());
    for number in 0..programs(&page, "programs") * 2 + 20 {
        let time = if number % 2 == 0 { "77.1" } else { "77.2" };
        let child = Command::new("sleep").arg(time).stdin(Stdio::null()).spawn().expect("a sleeper");
        sleepers.0.push(child);
    }
    let directory = tempfile::tempdir().expect("a directory");
    let path = policy(&directory, &rules);
    let output = unstarve(&["guard", "plan", "--policy", &path]);
    let page = text(&output.stdout);
    assert!(
        output.status.success() && page.contains("apply, verify and run refuse: the rules of this policy"),
        "{page}"
    );
    if !rustix::process::geteuid().is_root() {
        unstarve_testing::not_possible_here("apply, verify and run need root");
        return;
    }
    let state = directory.path().join("state");
    for command in [&["apply", "--once"][..], &["verify", "--for", "1"], &["run", "--for", "1"]] {
        let arguments =
            [&["guard"], command, &["--policy", &path, "--state", state.to_str().expect("a path")]].concat();
        let output = unstarve(&arguments);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{command:?}: {error}");
        assert!(error.contains("more than half are refused"), "{command:?}: {error}");
    }
    for child in &sleepers.0 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).expect("a sleeper");
        let policy = unstarve_facts::Stat::parse(&stat).and_then(|stat| stat.policy);
        assert_eq!(policy, Some(unstarve_model::SchedPolicy::Other), "{stat}");
    }
}

#[test]
fn a_set_user_id_program_is_nobodys() {
    use std::os::unix::fs::PermissionsExt;

    if !rustix::process::geteuid().is_root() {
        unstarve_testing::not_possible_here("only root can make a set-user-ID program of root");
        return;
    }
    // A user's name for a program of root's: what a symlink to sudo gives him.
    let directory = tempfile::tempdir().expect("a directory");
    let program = directory.path().join("suidsleep");
    std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o755)).expect("its mode");
    unstarve_testing::install_program(std::path::Path::new("/bin/sleep"), &program).expect("a copy");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o4755)).expect("its mode");
    let Some(setpriv) = unstarve_testing::tool("setpriv") else { return };
    let mut child = Command::new(setpriv)
        .args(["--reuid", "4242", "--regid", "4242", "--clear-groups"])
        .arg(&program)
        .arg("30")
        .spawn()
        .expect("setpriv");
    let status = || std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
    let begun = std::time::Instant::now();
    while !status().contains("Name:\tsuidsleep") && begun.elapsed().as_secs() < 10 {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let ids = status().lines().find(|line| line.starts_with("Uid:")).map(str::to_owned).unwrap_or_default();
    let found = |by: &str| {
        let rule = format!("[[rule]]\nname = \"r\"\nmatch = {{ comm = \"suidsleep\"{by} }}\nset = {{ nice = 1 }}\n");
        planned(&rule, "suidsleep").1
    };
    let (all, root, starter, both) =
        (found(""), found(", user = \"root\""), found(", uid = 4242"), found(", uid = \"0,4242\""));
    let _ = child.kill();
    let _ = child.wait();
    if ids != "Uid:\t4242\t0\t0\t0" {
        let why = format!("the directory for temporary files takes no set-user-ID programs ({ids})");
        unstarve_testing::not_possible_here(why);
        return;
    }
    assert_eq!((all.len(), root.len(), starter.len(), both.len()), (1, 0, 0, 1));
    assert_eq!(all[0]["user"], "4242 as root");
}

#[test]
fn who_may_not_is_told_what_is_missing() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = policy(&directory, "[[rule]]\nname = \"r\"\nmatch = { comm = \"x\" }\nset = { nice = 1 }\n");
    let state = directory.path().join("state");
    // Root without that capability stands for an ordinary user, who has none.
    let mut command = Command::new(env!("CARGO_BIN_EXE_unstarve"));
    if rustix::process::geteuid().is_root() {
        let Some(setpriv) = unstarve_testing::tool("setpriv") else { return };
        command = Command::new(setpriv);
        command.args(["--bounding-set", "-sys_nice", "--inh-caps", "-sys_nice", env!("CARGO_BIN_EXE_unstarve")]);
    }
    command.args(["guard", "run", "--policy", &path, "--state"]).arg(&state).stdin(Stdio::null());
    let output = command.output().expect("started");
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("missing: CAP_SYS_NICE") && error.contains("Nothing was changed"), "{error}");
    assert!(!state.exists());
}

#[test]
fn a_mistyped_directory_is_not_made_by_undo() {
    let directory = tempfile::tempdir().expect("a directory");
    let state = directory.path().join("typo");
    let output = unstarve(&["guard", "undo", "--state", state.to_str().expect("a path")]);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains(&format!("no journal in {}", state.display())) && !state.exists(), "{error}");
}

#[test]
fn what_a_rule_is_refused_is_said_and_is_an_exit_code() {
    if !rustix::process::geteuid().is_root() {
        unstarve_testing::not_possible_here("apply and run need root");
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let path = policy(
        &directory,
        "[[rule]]\nname = \"r\"\nmatch = { kind = \"kthreadd\" }\nset = { policy = \"idle\" }\n\
         [[cgroup]]\npath = \"/not-here\"\nweight = 50\n",
    );
    let state = directory.path().join("state");
    for command in [&["apply", "--once"][..], &["run", "--for", "100ms"]] {
        let arguments =
            [&["guard"], command, &["--policy", &path, "--state", state.to_str().expect("a path")]].concat();
        let output = unstarve(&arguments);
        let said = text(&output.stdout) + &text(&output.stderr);
        if said.contains("another guard is at work") {
            unstarve_testing::not_possible_here("a guard is at work on this machine");
            return;
        }
        assert_eq!(output.status.code(), Some(i32::from(command[0] == "apply")), "{said}");
        assert!(said.contains("kthreadd[2]") && said.contains("refused: "), "{said}");
        assert!(said.contains("/not-here") && said.contains("not here"), "{said}");
    }
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
