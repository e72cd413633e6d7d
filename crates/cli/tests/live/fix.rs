//! `fix` on a real hog: what it says is what it does, what it did is taken back, also when it is killed.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use serde_json::Value;

use crate::process::Running;
use crate::stage::{Ended, Stage, Stop};

const TEST_TIMEOUT: Duration = Duration::from_secs(40);

/// A real-time hog, an ordinary program on the same CPU, and a recording of both.
struct Case {
    hog: Running,
    _victim: Running,
    recording: PathBuf,
    state: PathBuf,
}

impl Case {
    fn new(stage: &Stage, lasts: &str) -> Result<Case, Stop> {
        let cpu = stage.cpu.to_string();
        let load = format!("hog --lasts {lasts}");
        let mut hog = stage.load(
            "rt-hog",
            &["taskset", "-c", &cpu, "chrt", "--fifo", "10"],
            &format!("{load} --period 100 --busy 70"),
        )?;
        let hog = Running::start(&mut hog)?;
        let mut victim = stage.load("victim", &["taskset", "-c", &cpu], &format!("{load} --period 10 --busy 95"))?;
        let victim = Running::start(&mut victim)?;
        thread::sleep(Duration::from_millis(200));
        let (recording, state) = (stage.path("unstarve.dat"), stage.path("state"));
        let mut record = stage.unstarve();
        record.args(["record", "--for", "2", "-o"]).arg(&recording);
        let done = Running::start(&mut record)?.finish(TEST_TIMEOUT)?;
        expect(done.status.success(), &done.err)?;
        Ok(Case { hog, _victim: victim, recording, state })
    }

    fn command(&self, stage: &Stage, arguments: &[&str]) -> Command {
        let mut command = stage.unstarve();
        command.arg("fix").args(arguments).arg("--state").arg(&self.state);
        if !arguments.iter().any(|word| ["--undo", "--status", "--check"].contains(word)) {
            command.arg(&self.recording).args(["--finding", "rt-starvation", "--remedy", "intruder-to-fair"]);
        }
        command
    }

    /// Exit code, and what it printed as JSON.
    fn fix(&self, stage: &Stage, arguments: &[&str]) -> Result<(Option<i32>, Value), Stop> {
        let done = Running::start(self.command(stage, arguments).arg("--json"))?.finish(TEST_TIMEOUT)?;
        let said = serde_json::from_str(&done.out).map_err(|error| format!("{error}: {}{}", done.out, done.err))?;
        Ok((done.status.code(), said))
    }

    fn undo(&self, stage: &Stage) -> Result<(Option<i32>, String), Stop> {
        let done = Running::start(&mut self.command(stage, &["--undo", "--all"]))?.finish(TEST_TIMEOUT)?;
        Ok((done.status.code(), done.out + &done.err))
    }

    /// Policy, priority and nice of the hog, as the system's own tool and /proc have them.
    fn hog_is(&self) -> Result<String, Stop> {
        let tid = self.hog.id();
        let chrt = Command::new("chrt").args(["-p", &tid.to_string()]).output().map_err(|error| error.to_string())?;
        let stat = fs::read_to_string(format!("/proc/{tid}/stat")).map_err(|error| error.to_string())?;
        let nice = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_ascii_whitespace().nth(16)).unwrap_or("?");
        Ok(format!("{} nice {nice}", String::from_utf8_lossy(&chrt.stdout)))
    }
}

fn expect(holds: bool, otherwise: &str) -> Ended {
    if holds { Ok(()) } else { Err(Stop::Fail(otherwise.to_owned())) }
}

/// Plan, trial, status, undo.
pub fn helps_and_is_taken_back(stage: &Stage) -> Ended {
    let case = Case::new(stage, "40000")?;
    let before = case.hog_is()?;
    let (code, plan) = case.fix(stage, &[])?;
    expect(code == Some(0), &format!("{plan:#}"))?;
    let steps = &plan["plan"][0]["steps"][0];
    expect(
        steps["old"]["class"]["policy"] == "fifo" && steps["new"]["class"]["policy"] == "other",
        &format!("{plan:#}"),
    )?;
    expect(case.hog_is()? == before, "a plan changes nothing")?;
    let (code, tried) = case.fix(stage, &["--apply", "--verify", "3"])?;
    let said = format!("{:#}", tried["came"]);
    if tried["came"]["helped"] == true {
        expect(code == Some(0), &said)?;
    } else {
        // Beside other load the victim waits for others than the hog, and it need not help. Then it is taken back, and made
        // without a trial.
        expect(!had_what_the_hog_leaves(&tried), &said)?;
        println!("the trial could not be judged: {}", tried["came"]["reason"]);
        expect(code == Some(1) && case.hog_is()? == before, &said)?;
        let (code, applied) = case.fix(stage, &["--apply"])?;
        expect(code == Some(0), &format!("{applied:#}"))?;
    }
    expect(case.hog_is()?.contains("SCHED_OTHER"), "it stays because it helped")?;
    let (_, status) = case.fix(stage, &["--status"])?;
    expect(status["in_force"].as_array().is_some_and(|fixes| fixes.len() == 1), &format!("{status:#}"))?;
    let (code, checked) = case.fix(stage, &["--check"])?;
    expect(code == Some(0) && checked["in_force"][0]["states"][0] == "in-force", &format!("{checked:#}"))?;
    let pid = case.hog.id().to_string();
    let renice = |nice: &str| Command::new("renice").args(["-n", nice, "-p", &pid]).output().is_ok();
    expect(renice("3"), "renice")?;
    let (code, checked) = case.fix(stage, &["--check"])?;
    expect(code == Some(1) && format!("{checked}").contains("changed"), &format!("{checked:#}"))?;
    expect(renice("-10"), "renice")?;
    let (code, again) = case.fix(stage, &["--apply"])?;
    expect(code == Some(0) && again["plan"][0]["already"] == 1, &format!("{again:#}"))?;
    let (code, undone) = case.fix(stage, &["--undo", "--all"])?;
    let fixes = undone["undone"]["fixes"].as_array().map(Vec::len);
    expect(code == Some(0) && fixes == Some(1), &format!("{undone:#}"))?;
    expect(case.hog_is()? == before, &format!("{before} then {}", case.hog_is()?))?;
    let (code, said) = case.undo(stage)?;
    expect(code == Some(0) && said.contains("nothing to undo"), &said)?;
    let (code, _) = case.fix(stage, &["--check"])?;
    expect(code == Some(1), "nothing is in force")
}

/// Whether nobody but the hog kept the victim from running without the change: it leaves 30 % of 3 s.
fn had_what_the_hog_leaves(tried: &Value) -> bool {
    let ran = |side: usize| tried["came"]["measured"][side]["ran_ns"].as_u64();
    [ran(0), ran(2)].iter().all(|ran| ran.is_some_and(|ran| ran >= 750_000_000))
}

/// Killed at every step of a trial, and of a plain apply.
pub fn killed_leaves_nothing(stage: &Stage) -> Ended {
    let case = Case::new(stage, "90000")?;
    let before = case.hog_is()?;
    let is_before = || Ok::<bool, Stop>(case.hog_is()? == before);
    let mut changed = 0;
    for step in 0..9_u64 {
        let mut trial = case.command(stage, &["--apply", "--verify", "1"]);
        let trial = Running::start(&mut trial)?;
        thread::sleep(Duration::from_millis(300 + 350 * step));
        changed += u32::from(!is_before()?);
        kill(&trial);
        let end = Instant::now() + Duration::from_secs(8);
        while !is_before()? && Instant::now() < end {
            thread::sleep(Duration::from_millis(20));
        }
        expect(is_before()?, &format!("killed at step {step}, the dead-man left {}", case.hog_is()?))?;
        drop(trial.finish(TEST_TIMEOUT));
    }
    println!("in force at {changed} of 9 kills");
    expect(changed > 0, "no kill came while the change was in force")?;
    for step in 0..12_u64 {
        let mut apply = case.command(stage, &["--apply"]);
        let apply = Running::start(&mut apply)?;
        thread::sleep(Duration::from_millis(15 * step));
        kill(&apply);
        drop(apply.finish(TEST_TIMEOUT));
        let (code, said) = case.undo(stage)?;
        expect(code == Some(0), &said)?;
        expect(is_before()?, &format!("killed at step {step}, the undo left {}: {said}", case.hog_is()?))?;
    }
    Ok(())
}

/// Thread ids of another boot name nobody here.
pub fn refuses_another_boot(stage: &Stage) -> Ended {
    let case = Case::new(stage, "12000")?;
    let before = case.hog_is()?;
    let bytes = fs::read(&case.recording).map_err(|error| error.to_string())?;
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").map_err(|error| error.to_string())?;
    let (boot, other) = (boot.trim().as_bytes(), b"00000000-0000-4000-8000-000000000000");
    let at = bytes.windows(boot.len()).position(|part| part == boot);
    let at = at.ok_or_else(|| "the recording does not say of which boot it is".to_owned())?;
    let mut bytes = bytes.clone();
    bytes[at..at + boot.len()].copy_from_slice(other);
    fs::write(&case.recording, bytes).map_err(|error| error.to_string())?;
    for arguments in [&["--apply"][..], &["--apply", "--this-boot"]] {
        let (code, said) = case.fix(stage, arguments)?;
        let obstacle = said["plan"][0]["obstacle"].as_str().unwrap_or_default();
        expect(code == Some(1) && obstacle.contains("another host or boot"), &format!("{said:#}"))?;
        expect(said["came"]["applied"] == false && case.hog_is()? == before, &format!("{said:#}"))?;
    }
    Ok(())
}

fn kill(process: &Running) {
    if let Some(pid) = Pid::from_raw(process.id() as i32) {
        let _ = rustix::process::kill_process(pid, Signal::KILL);
    }
}
