//! `unstarve explain` and `report` of logs, lists of threads and dumps, as a user meets them.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn log(name: &str) -> String {
    format!("{}/../../testdata/logs/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn unstarve(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_unstarve"));
    command.args(arguments).env("COLUMNS", "80").env("LC_ALL", "C.UTF-8").stdin(Stdio::null());
    command.output().expect("it can be started")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("UTF-8")
}

#[test]
fn a_log_is_one_screen_and_the_exit_code_is_that_of_a_recording() {
    let file = log("rcu-kthread.6.12.log");
    let output = unstarve(&["explain", &file]);
    assert_eq!(output.status.code(), Some(1));
    let screen = text(&output.stdout);
    assert!(screen.starts_with("CRITICAL  rcu_preempt is starved by poller[150] on CPU 1"), "{screen}");
    assert!(screen.lines().count() <= 24, "{screen}");
    assert!(screen.lines().rev().take(5).any(|line| line.starts_with("  ") && line.contains("ps -eLo")), "{screen}");
    assert_eq!(unstarve(&["explain", "--fail-on", "never", &file]).status.code(), Some(0));
    let full = unstarve(&["explain", "--full", &file]);
    assert!(text(&full.stdout).contains("rcu-kthread.6.12.log:"), "{}", text(&full.stdout));
}

#[test]
fn texts_of_one_host_are_one_answer() {
    let [log, ps] = ["hung-flush.6.12.log", "hung-flush.6.12.ps"].map(log);
    let alone = text(&unstarve(&["explain", &log]).stdout).to_owned();
    assert!(alone.contains("blocked, not starved"), "{alone}");
    let both = text(&unstarve(&["explain", &log, &ps]).stdout).to_owned();
    assert!(both.contains("kworker/1:0[28] is starved, most likely by reactor_1[142] FIFO 1"), "{both}");
}

#[test]
fn programs_get_the_same_shape() {
    let output = unstarve(&["explain", "--json", &log("rcu-kthread.6.12.log")]);
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(report["schema"], "unstarve.explain/1");
    assert_eq!(report["findings"][0]["cpus"], serde_json::json!([1]));
    assert_eq!(report["findings"][0]["culprits"][0]["comm"], "poller");
    assert_eq!(report["trace"]["events"], 0);
    assert!(report["evidence"]["next"][0]["command"].is_string(), "{report}");
}

#[test]
fn a_pipe_is_read_like_a_file() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_unstarve"))
        .args(["explain", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it can be started");
    let bytes = std::fs::read(log("rcu-kthread.6.12.log")).expect("readable");
    child.stdin.take().expect("a pipe").write_all(&bytes).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    assert!(text(&output.stdout).contains("rcu_preempt is starved by poller[150]"), "{}", text(&output.stdout));
}

#[test]
fn commands_that_need_a_recording_say_what_reads_a_log() {
    let file = log("hung-flush.6.12.log");
    for command in ["timeline", "top", "compare"] {
        let arguments = if command == "compare" { vec![command, &file, &file] } else { vec![command, &file] };
        let output = unstarve(&arguments);
        assert_eq!(output.status.code(), Some(2), "{command}");
        assert!(text(&output.stderr).contains("unstarve explain"), "{command}: {}", text(&output.stderr));
    }
    let output = unstarve(&["explain", "--from", "1s", &file]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("need a recording"), "{}", text(&output.stderr));
}

#[test]
fn the_page_of_a_log_is_written() {
    let directory = tempfile::tempdir().expect("a directory");
    let page = directory.path().join("log.html");
    let output = unstarve(&["report", &log("rcu-kthread.6.12.log"), "-o", page.to_str().expect("UTF-8")]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let html = std::fs::read_to_string(page).expect("written");
    assert!(html.contains("rcu_preempt is starved by poller[150]"));
}

/// Logs without a word about starvation are an answer; what is no log, and a recording that is damaged, are not.
#[test]
fn a_log_without_trouble_is_healthy() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("dmesg.txt");
    let clean = "Nothing in 2 lines says that a thread is starved.";
    let no_recording = "not a readable recording";
    let table = [
        ("[    0.000000] Linux version 6.12.31\n[    1.5] usb 1-1: new device\n", Some(0), clean),
        ("Nov 22 18:39:41 host-7 kernel: usb 1-1: new device\nNov 22 18:39:42 host-7 sshd[12]: x\n", Some(0), clean),
        ("6,16628,2000000,-;usb 1-1: new device\n6,16629,2100000,-;x\n", Some(0), clean),
        ("Nov 22 18:39:41 host-7 sshd[12]: hello\nNov 22 18:39:42 host-7 sshd[12]: hello\n", Some(2), no_recording),
        ("Dear list,\nmy disk is slow.\n", Some(2), no_recording),
        (
            "            fio-126 [000] d..2    10.166060: sched_switch: prev_comm=fio prev_pid=x\n[    1.5] usb 1-1: x\n",
            Some(2),
            "can be read",
        ),
    ];
    for (log, code, expected) in table {
        std::fs::write(&file, log).expect("writable");
        let output = unstarve(&["explain", file.to_str().expect("UTF-8")]);
        let said = format!("{}{}", text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), code, "{log}{said}");
        assert!(said.contains(expected), "{log}{said}");
    }
}

/// A bundle: what `uname -a`, `sysctl -a` and a cgroup say, and a log in which RCU's thread is starved.
fn bundle() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
        std::fs::write(path, text).expect("a file");
    };
    file("uname", "Linux db7 6.1.0-18-amd64 #1 SMP PREEMPT_DYNAMIC Debian 6.1.76-1 (2024-02-01) x86_64 GNU/Linux\n");
    file("sysctl", "kernel.sched_rt_period_us = 1000000\nkernel.sched_rt_runtime_us = -1\n");
    file("sys/fs/cgroup/kubepods.slice/cpu.weight", "2500\n");
    file(
        "dmesg",
        "[  100.5] rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:
[  100.5] rcu: rcu_preempt kthread starved for 5252 jiffies! g5 f0x0 RCU_GP_WAIT_FQS(5) ->state=0x0 ->cpu=1
[  100.6] NMI backtrace for cpu 1
[  100.6] CPU: 1 PID: 900 Comm: poller Not tainted 6.1.0-18-amd64 #1
[  100.6] RIP: 0033:0x55d0
",
    );
    directory
}

#[test]
fn a_bundle_s_settings_are_checked_as_far_as_it_has_them() {
    let directory = bundle();
    let path = directory.path().to_str().expect("UTF-8");
    let output = unstarve(&["check", "--json", "--fail-on", "never", path]);
    let audit: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output.stderr)));
    assert_eq!(audit["host"]["kernel"], "6.1.0-18-amd64");
    let rules: Vec<&str> =
        audit["hits"].as_array().expect("hits").iter().filter_map(|hit| hit["rule"].as_str()).collect();
    assert!(rules.contains(&"rt-throttling-off") && rules.contains(&"heavy-cgroup"), "{rules:?}");
    let shown = audit.to_string();
    assert!(shown.contains("which threads are in it was not collected"), "{shown}");
    assert!(shown.contains("whether there are real-time tasks was not collected"), "{shown}");
    assert!(shown.contains("64.0 CPUs that pods may request"), "{shown}");
    let missing: Vec<&str> =
        audit["missing"].as_array().expect("missing").iter().filter_map(|one| one["what"].as_str()).collect();
    assert!(missing.contains(&"threads") && !missing.contains(&"settings"), "{missing:?}");
}

#[test]
fn what_check_finds_in_a_bundle_is_said_where_it_bears_on_the_victim() {
    let directory = bundle();
    let path = directory.path().to_str().expect("UTF-8");
    let full = unstarve(&["explain", "--full", path]);
    let shown = text(&full.stdout);
    assert!(shown.contains("check (heavy-cgroup): Tasks of /kubepods.slice (cpu.weight 2500) outweigh"), "{shown}");
    assert!(shown.contains(&format!("unstarve check {path}")), "{shown}");
}

#[test]
fn a_text_without_a_kernel_cannot_be_checked() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("ps");
    std::fs::write(&file, "    PID CLS COMMAND\n      1  TS systemd\n").expect("a file");
    let output = unstarve(&["check", file.to_str().expect("UTF-8")]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("does not name its kernel; add `uname -a`"), "{}", text(&output.stderr));
}
