//! `unstarve guard verify` beside loads that suffer: what helps is told from what does not, all is taken back, and the
//! shipped policies do for their cases what they promise.

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::process::Running;
use crate::stage::{Ended, Stage, Stop, need};
use crate::starvations::LoopFs;

/// Runs `guard verify`; what it says, and its exit code.
fn verify(stage: &Stage, policy: &Path) -> Result<(Value, Option<i32>), Stop> {
    let mut command = stage.unstarve();
    command.args(["guard", "verify", "--json", "--for", "3", "--policy"]).arg(policy);
    command.arg("--state").arg(stage.path("state"));
    let done = Running::start(&mut command)?.finish(Duration::from_secs(20))?;
    let said = serde_json::from_str(&done.out).map_err(|error| format!("{error}: {}{}", done.out, done.err))?;
    Ok((said, done.status.code()))
}

fn verdict(said: &Value, rule: usize) -> &str {
    said["rules"][rule]["verdict"].as_str().unwrap_or_default()
}

pub fn tells_what_helps(stage: &Stage) -> Ended {
    need("taskset")?;
    let cpu = stage.cpu.to_string();
    let pinned = ["taskset", "-c", &cpu];
    let load = |name: &str| Running::start(&mut stage.load(name, &pinned, "spin --lasts 29000")?).map_err(Stop::Fail);
    let victim = load("verify-victim")?;
    let _others = [load("verify-other")?, load("verify-other")?];
    let before = nice(victim.id())?;
    let policy = stage.path("policy.toml");
    let rule = |name: &str, nice: i32| {
        format!("[[rule]]\nname = \"{name}\"\nmatch = {{ comm = \"{name}\" }}\nset = {{ nice = {nice} }}\n")
    };
    let text = format!("version = 1\n{}{}", rule("verify-victim", -10), rule("verify-other", 1));
    fs::write(&policy, text).map_err(|error| error.to_string())?;
    // What else runs on the CPU may outweigh them all for a while.
    let mut all = Vec::new();
    let expected = (("helped".to_owned(), "did-not-help".to_owned()), Some(1));
    while all.len() < 3 && all.last() != Some(&expected) {
        let (said, code) = verify(stage, &policy)?;
        all.push(((verdict(&said, 0).to_owned(), verdict(&said, 1).to_owned()), code));
    }
    assert_eq!(all.last(), Some(&expected), "{all:?}");
    assert_eq!(nice(victim.id())?, before, "taken back");
    Ok(())
}

fn nice(pid: u32) -> Result<String, String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).map_err(|error| error.to_string())?;
    // The 19th field; the name before it holds no blank.
    stat.split_whitespace().nth(18).map(str::to_owned).ok_or(stat)
}

/// Case A3: a real-time controller on the CPU on which direct I/O completes.
pub fn oplog_policy(stage: &Stage) -> Ended {
    let fs = LoopFs::new(stage)?;
    let _fio = fs.fio(stage, 12)?;
    let _hog = controller(stage)?;
    let (said, _) = verify(stage, &shipped(stage, "oplog.toml", "\"2-7\"")?)?;
    // The controller runs for 80 ms at a time.
    if longest(&said, "before").is_some_and(|wait| wait < 10_000_000) {
        return Err(Stop::Skip("direct I/O needs no worker here".to_owned()));
    }
    assert_eq!(verdict(&said, 0), "helped", "{said:#}");
    Ok(())
}

/// The longest wait of the first rule's tasks, in ns; `None` without eBPF.
fn longest(said: &Value, side: &str) -> Option<u64> {
    said["rules"][0][side]["waits"]["max_ns"].as_u64()
}

/// Case A2: a real-time monitor on a CPU whose ksoftirqd has something to do. Here that is to complete the requests of a loop
/// device: its worker raises the softirq outside any interrupt, which wakes ksoftirqd.
pub fn network_spike_policy(stage: &Stage) -> Ended {
    let fs = LoopFs::new(stage)?;
    let _fio = fs.fio_on(&format!("0-{}", stage.cpu), 12)?;
    let _hog = controller(stage)?;
    let (said, _) = verify(stage, &shipped(stage, "network-spike.toml", "\"0-1\"")?)?;
    let waited = longest(&said, "before").is_none_or(|wait| wait > 10_000_000);
    let ms = |side| longest(&said, side).map_or(f64::NAN, |ns| ns as f64 / 1e6);
    println!("ksoftirqd waited up to {:.3} ms, with the policy {:.3} ms", ms("before"), ms("after"));
    match verdict(&said, 0) {
        "helped" => Ok(()),
        "did-not-help" if waited => Err(Stop::Fail(format!("{said:#}"))),
        _ => Err(Stop::Skip("ksoftirqd had nothing to do while the CPU was taken".to_owned())),
    }
}

/// Runs for 80 of every 100 ms above all ordinary tasks, and below what the policies give.
fn controller(stage: &Stage) -> Result<Running, Stop> {
    let cpu = stage.cpu.to_string();
    let before = ["taskset", "-c", &cpu, "chrt", "--rr", "1"];
    let mut hog = stage.load("controller", &before, "hog --lasts 12000 --period 100 --busy 80")?;
    Ok(Running::start(&mut hog)?)
}

/// A policy of `examples/`, for the stage's CPU instead of those of its example.
fn shipped(stage: &Stage, name: &str, cpus: &str) -> Result<std::path::PathBuf, Stop> {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/policies").join(name);
    let text = fs::read_to_string(&example).map_err(|error| format!("{}: {error}", example.display()))?;
    assert!(text.contains(cpus), "{name} names other CPUs now");
    let policy = stage.path(name);
    fs::write(&policy, text.replace(cpus, &format!("\"{}\"", stage.cpu))).map_err(|error| error.to_string())?;
    Ok(policy)
}
