//! `unstarve guard verify` beside loads that suffer: what helps is told from what does not, all is taken back, and the
//! shipped policies do for their cases what they promise. And it has the rails of a guard: budget, priority, dead-man.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use serde_json::Value;
use unstarve_facts::Stat;
use unstarve_model::{SchedPolicy, Tid};
use unstarve_testing::json_schema::JsonSchema;

use crate::process::Running;
use crate::stage::{Ended, Stage, Stop, need};
use crate::starvations::LoopFs;

/// Runs `guard verify`; what it says, and its exit code.
fn verify(stage: &Stage, policy: &Path) -> Result<(Value, Option<i32>), Stop> {
    let mut command = stage.unstarve();
    command.args(["guard", "verify", "--json", "--for", "3", "--policy"]).arg(policy);
    command.arg("--state").arg(stage.path("state"));
    let done = Running::start(&mut command)?.finish(Duration::from_secs(20))?;
    print!("{}", done.err);
    let said = serde_json::from_str(&done.out).map_err(|error| format!("{error}: {}{}", done.out, done.err))?;
    let mut command = stage.unstarve();
    let schema = Running::start(command.args(["schema", "guard"]))?.succeed(Duration::from_secs(20))?;
    let schema = serde_json::from_str(&schema.out).map_err(|error| format!("{error}: {}", schema.out))?;
    JsonSchema::of(schema).takes(&said).map_err(|wrong| format!("{wrong}: {said}"))?;
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
    while all.len() < 2 && all.last() != Some(&expected) {
        let (said, code) = verify(stage, &policy)?;
        all.push(((verdict(&said, 0).to_owned(), verdict(&said, 1).to_owned()), code));
    }
    assert_eq!(all.last(), Some(&expected), "{all:?}");
    assert_eq!(nice(victim.id())?, before, "taken back");
    Ok(())
}

fn nice(pid: u32) -> Result<String, String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).map_err(|error| error.to_string())?;
    Stat::parse(&stat).and_then(|stat| stat.nice).map(|nice| nice.to_string()).ok_or(stat)
}

/// Case A3: a real-time controller on the CPU on which direct I/O completes.
pub fn oplog_policy(stage: &Stage) -> Ended {
    let fs = LoopFs::new(stage)?;
    let _fio = fs.fio(stage, LOADS_LAST)?;
    let _hog = controller(stage)?;
    tried(stage, &shipped(stage, "oplog.toml", "\"2-7\"")?, "direct I/O needs no worker here")
}

/// Seconds; longer than any trial, and the end of one ends them.
const LOADS_LAST: u32 = 50;

/// A policy for a case that is under way: it must help. The kernel chooses where workers run, and what else the machine does
/// decides how often they have to wait: a measurement without enough long waits proves nothing, and is made once more.
fn tried(stage: &Stage, policy: &Path, nothing_to_judge: &str) -> Ended {
    let mut last = None;
    for _ in 0..2 {
        let (said, _) = verify(stage, policy)?;
        let ms = |side| longest(&said, side).map_or(f64::NAN, |ns| ns as f64 / 1e6);
        println!("waited up to {:.3} ms, with the policy {:.3} ms", ms("before"), ms("after"));
        if verdict(&said, 0) == "helped" {
            return Ok(());
        }
        // The controller runs for 80 ms at a time.
        let starved = longest(&said, "before").is_none_or(|wait| wait > 10_000_000);
        last = (starved && verdict(&said, 0) != "too-few").then_some(said);
    }
    match last {
        Some(said) => Err(Stop::Fail(format!("{said:#}"))),
        None => Err(Stop::Skip(nothing_to_judge.to_owned())),
    }
}

/// The longest wait of the first rule's tasks, in ns; `None` without eBPF.
fn longest(said: &Value, side: &str) -> Option<u64> {
    said["rules"][0][side]["waits"]["max_ns"].as_u64()
}

/// Case A2: a real-time monitor on a CPU whose ksoftirqd has something to do. Here that is to complete the requests of a loop
/// device: its worker raises the softirq outside any interrupt, which wakes ksoftirqd.
pub fn network_spike_policy(stage: &Stage) -> Ended {
    let fs = LoopFs::new(stage)?;
    let _fio = fs.fio_on(&format!("0-{}", stage.cpu), LOADS_LAST)?;
    let _hog = controller(stage)?;
    // Else the loop device's workers would leave the CPU that the controller takes, and nothing would wake its ksoftirqd.
    let _elsewhere = match stage.cpu.checked_sub(1) {
        Some(last) => {
            let mut spin = Command::new("taskset");
            spin.args(["-c", &format!("0-{last}")]).arg(stage.myself_as("elsewhere")?);
            spin.args(["load", "spin", "--lasts", "50000", "--threads", &(3 * stage.cpu).to_string()]);
            Some(Running::start(&mut spin)?)
        }
        None => None,
    };
    let policy = shipped(stage, "network-spike.toml", "\"0-1\"")?;
    tried(stage, &policy, "ksoftirqd had too little to do while the CPU was taken")
}

/// Runs for 80 of every 100 ms above all ordinary tasks, and below what the policies give.
fn controller(stage: &Stage) -> Result<Running, Stop> {
    let cpu = stage.cpu.to_string();
    let before = ["taskset", "-c", &cpu, "chrt", "--rr", "1"];
    let mut hog = stage.load("controller", &before, "hog --lasts 50000 --period 100 --busy 80")?;
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

/// A process that has a child every 50 ms, all in a process group of their own.
struct Family {
    parent: Running,
}

impl Family {
    fn start() -> Result<Family, Stop> {
        // The children have the name in their command lines, too: of one that has not, the rule's value is taken back while the guard runs.
        let child = "sh -c 'sleep 29; : verify-family' &";
        let script = format!(": verify-family; i=0; while [ $i -lt 400 ]; do {child} sleep 0.05; i=$((i+1)); done");
        let parent = Running::start(Command::new("sh").args(["-c", &script]).process_group(0))?;
        Ok(Family { parent })
    }

    fn policy(stage: &Stage) -> Result<std::path::PathBuf, Stop> {
        let policy = stage.path("family.toml");
        let text = "version = 1\n[limits]\ndead-man = 2\n[[rule]]\nname = \"family\"\nmatch = { cmdline = \"*verify-family*\" }\n\
                    set = { nice = -7, policy = \"batch\", reset-on-fork = false }\n";
        fs::write(&policy, text).map_err(|error| error.to_string())?;
        Ok(policy)
    }

    /// How many are of a nice, and how many there are.
    fn count(&self, nice: &str) -> (usize, usize) {
        let group = Some(Tid(self.parent.id()));
        let (mut like, mut all) = (0, 0);
        for entry in fs::read_dir("/proc").expect("/proc").flatten() {
            let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
            let Some(stat) = Stat::parse(&stat).filter(|stat| stat.group == group) else { continue };
            // One that has ended has no nice that matters.
            if !stat.has_ended() {
                all += 1;
                like += usize::from(stat.nice.map(|nice| nice.to_string()).as_deref() == Some(nice));
            }
        }
        (like, all)
    }

    /// Waits until so many have a nice.
    fn until(&self, limit: Duration, nice: &str, is_so: impl Fn(usize, usize) -> bool) -> Result<(), Stop> {
        let end = Instant::now() + limit;
        loop {
            let (like, all) = self.count(nice);
            if is_so(like, all) {
                return Ok(());
            }
            if Instant::now() > end {
                return Err(Stop::Fail(format!("{like} of {all} have nice {nice} after {limit:?}")));
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Family {
    fn drop(&mut self) {
        if let Some(group) = Pid::from_raw(self.parent.id() as i32) {
            let _ = rustix::process::kill_process_group(group, Signal::KILL);
        }
    }
}

fn start(stage: &Stage, policy: &Path, more: &[&str]) -> Result<Running, Stop> {
    let mut command = stage.unstarve();
    command.args(["guard", "verify", "--policy"]).arg(policy).arg("--state").arg(stage.path("state")).args(more);
    Ok(Running::start(&mut command)?)
}

fn signal(process: &Running, signal: Signal) {
    if let Some(pid) = Pid::from_raw(process.id() as i32) {
        let _ = rustix::process::kill_process(pid, signal);
    }
}

/// What is waited for comes within a second or two, and later on a machine that has more to do.
const SOON: Duration = Duration::from_secs(60);

pub fn killed(stage: &Stage) -> Ended {
    let family = Family::start()?;
    for how in [Signal::KILL, Signal::INT, Signal::STOP] {
        let verify = start(stage, &Family::policy(stage)?, &["--for", "2"])?;
        // Children that were born with it, too.
        family.until(SOON, "-7", |like, _| like > 3)?;
        signal(&verify, how);
        family.until(SOON, "0", |like, all| like == all && all > 3)?;
        if how == Signal::INT {
            let done = verify.finish(SOON)?;
            assert_eq!(done.status.code(), Some(2), "{}", done.err);
            assert!(done.err.contains("ended before there was a verdict; everything was taken back"), "{}", done.err);
        }
        thread::sleep(Duration::from_millis(200));
        family.until(Duration::ZERO, "0", |like, all| like == all)?;
    }
    Ok(())
}

pub fn over_budget(stage: &Stage) -> Ended {
    let cpu = stage.cpu.to_string();
    let mut hog = stage.load("verify-hog", &["taskset", "-c", &cpu], "hog --lasts 30000 --busy 60")?;
    let hog = Running::start(&mut hog)?;
    let policy = stage.path("hog.toml");
    let text = "version = 1\n[limits]\nrt-budget = 30\n[[rule]]\nname = \"hog\"\nmatch = { comm = \"verify-hog\" }\n\
                set = { policy = \"fifo\", rt-priority = 1 }\n";
    fs::write(&policy, text).map_err(|error| error.to_string())?;
    let verify = start(stage, &policy, &["--for", "4", "--json"])?;
    let is_fifo = || {
        let stat = fs::read_to_string(format!("/proc/{}/stat", hog.id())).unwrap_or_default();
        Stat::parse(&stat).and_then(|stat| stat.policy) == Some(SchedPolicy::Fifo)
    };
    let until = |wanted: bool| {
        let end = Instant::now() + SOON;
        while is_fifo() != wanted && Instant::now() < end {
            thread::sleep(Duration::from_millis(20));
        }
        is_fifo() == wanted
    };
    assert!(until(true), "never real-time");
    assert!(until(false), "over its budget and never taken back");
    let done = verify.finish(SOON)?;
    assert_eq!(done.status.code(), Some(1), "{}{}", done.out, done.err);
    let said: Value = serde_json::from_str(&done.out).map_err(|error| format!("{error}: {}", done.out))?;
    assert_eq!(verdict(&said, 0), "did-not-help");
    // The budget ended it: at the end of the measurement there would be another reason.
    assert!(said["rules"][0]["reason"].as_str().is_some_and(|reason| reason.contains("rt-budget")), "{said:#}");
    Ok(())
}

/// Root of a user namespace has every capability there, and none that the scheduler asks for.
pub fn not_above(stage: &Stage) -> Ended {
    need("unshare")?;
    let policy = stage.path("above.toml");
    let text = "version = 1\n[[rule]]\nname = \"r\"\nmatch = { comm = \"nobody-has-this\" }\n\
                set = { policy = \"fifo\", rt-priority = 3 }\n";
    fs::write(&policy, text).map_err(|error| error.to_string())?;
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user"]).arg(stage.unstarve().get_program());
    command.args(["guard", "verify", "--for", "1", "--policy"]).arg(&policy).arg("--state").arg(stage.path("state"));
    let done = Running::start(&mut command)?.finish(SOON)?;
    if done.err.contains("unshare:") {
        return Err(Stop::Skip(done.err));
    }
    assert_eq!(done.status.code(), Some(2), "{}{}", done.out, done.err);
    assert!(done.err.contains("the guard itself may not be above them"), "{}", done.err);
    Ok(())
}

pub fn keeps_what_helped(stage: &Stage) -> Ended {
    need("taskset")?;
    let cpu = stage.cpu.to_string();
    let load = |name: &str| {
        Running::start(&mut stage.load(name, &["taskset", "-c", &cpu], "spin --lasts 24000")?).map_err(Stop::Fail)
    };
    let victim = load("verify-victim")?;
    let _others = [load("verify-other")?, load("verify-other")?];
    let policy = stage.path("policy.toml");
    let rule = |name: &str, nice: i32| {
        format!("[[rule]]\nname = \"{name}\"\nmatch = {{ comm = \"{name}\" }}\nset = {{ nice = {nice} }}\n")
    };
    let text = format!("version = 1\n{}{}", rule("verify-victim", -10), rule("verify-other", 1));
    fs::write(&policy, text).map_err(|error| error.to_string())?;
    let done = start(stage, &policy, &["--for", "4", "--keep"])?.finish(Duration::from_secs(20))?;
    if !done.out.contains("helped; left in place") {
        return Err(Stop::Skip(format!("other load is in the way: {}", done.out)));
    }
    assert_eq!(nice(victim.id())?, "-10", "{}", done.out);
    assert_eq!(nice(_others[0].id())?, "0", "{}", done.out);
    let mut undo = stage.unstarve();
    undo.args(["guard", "undo", "--state"]).arg(stage.path("state"));
    let undone = Running::start(&mut undo)?.succeed(SOON)?;
    // Its nice, and the flag by which its children do not inherit that.
    assert!(undone.err.starts_with("2 restored"), "{}", undone.err);
    assert_eq!(nice(victim.id())?, "0");
    Ok(())
}
