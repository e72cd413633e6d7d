//! What `unstarve watch` says of an episode: at once and in full, to a real journal, and beside a guard.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::process::Running;
use crate::stage::{Ended, Stage, Stop, need};
use crate::watch::Watch;

const TEST_TIMEOUT: Duration = Duration::from_secs(20);

/// Programs are starved by a real-time task of this name: 80 ms of each 100.
fn starve(stage: &Stage, name: &str) -> Result<[Running; 2], Stop> {
    let mut victim = stage.load("spinner", &[], "hog --lasts 9000 --period 1000 --busy 1000")?;
    let mut hog = stage.load(name, &["chrt", "--fifo", "50"], "hog --lasts 9000 --period 100 --busy 80")?;
    Ok([Running::start(&mut victim)?, Running::start(&mut hog)?])
}

/// A journal of our own in a mount namespace of its own.
struct Journal {
    daemon: Running,
}

impl Journal {
    const DAEMON: &'static str = "/usr/lib/systemd/systemd-journald";

    fn start() -> Result<Journal, Stop> {
        for command in ["unshare", "nsenter", "journalctl", "mount"] {
            need(command)?;
        }
        if !Path::new(Journal::DAEMON).exists() || !Path::new("/etc/machine-id").exists() {
            return Err(Stop::Skip("there is no systemd-journald here, or no /etc/machine-id".to_owned()));
        }
        let script = format!(
            "mount -t tmpfs -o mode=755 none /run && mkdir -p /run/systemd/journal && exec {}",
            Journal::DAEMON
        );
        let mut command = Command::new("unshare");
        let daemon = Running::start(command.args(["--mount", "--propagation", "private", "sh", "-c", &script]))?;
        let journal = Journal { daemon };
        let end = Instant::now() + TEST_TIMEOUT;
        while !journal.path("run/systemd/journal/socket").exists() {
            if Instant::now() > end {
                let done = journal.daemon.finish(Duration::ZERO);
                let why = done.map_or_else(|error| error, |done| done.err);
                return Err(Stop::Skip(format!("systemd-journald does not run here: {why}")));
            }
            thread::sleep(Duration::from_millis(50));
        }
        Ok(journal)
    }

    /// A path as the journal's daemon sees it.
    fn path(&self, path: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root/{path}", self.daemon.id()))
    }

    /// What runs a program where the journal is.
    fn command(&self) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--mount=/proc/{}/ns/mnt", self.daemon.id()));
        command
    }

    /// What the watch has said there, as `journalctl` prints it.
    fn entries(&self) -> Result<Vec<Value>, Stop> {
        let mut command = Command::new("journalctl");
        command.args(["-o", "json", "-t", "unstarve-watch", "-D"]).arg(self.path("run/log/journal"));
        let done = Running::start(&mut command)?.succeed(TEST_TIMEOUT)?;
        let lines = done.out.lines().filter(|line| line.starts_with('{'));
        let parse = |line: &str| serde_json::from_str(line).map_err(|error| Stop::Fail(format!("{line}: {error}")));
        lines.map(parse).collect()
    }
}

/// The journal has an episode at once, with what the counters know, and again when it is explained; no name adds a field.
pub fn a_real_journal(stage: &Stage) -> Ended {
    let journal = Journal::start()?;
    let mut command = journal.command();
    command.arg(stage.unstarve().get_program());
    let watch = Watch::start_saying(stage, command)?;
    let name = "hog\nPRIORITY=0";
    let loads = starve(stage, name)?;
    let shown = name.replace('\n', "\\n");
    let end = Instant::now() + TEST_TIMEOUT;
    let (begun, complete) = loop {
        let entries = journal.entries()?;
        let is = |entry: &Value, stage: &str| entry["UNSTARVE_STAGE"] == stage;
        // Others may starve each other on this machine, too. And ksoftirqd of that CPU may wait behind the hog: its episode names the
        // finding of the hog's main victim beside its own.
        let is_of_the_hog =
            |entry: &Value| entry["UNSTARVE_CULPRIT_COMM"] == *shown && entry["UNSTARVE_VICTIM_ROLE"] != "ksoftirqd";
        let complete = entries.iter().find(|entry| is(entry, "complete") && is_of_the_hog(entry));
        if let Some(complete) = complete {
            let is_its = |entry: &&Value| entry["UNSTARVE_EPISODE"] == complete["UNSTARVE_EPISODE"];
            let begun = entries.iter().filter(|entry| is(entry, "begun")).find(is_its);
            break (begun.cloned().unwrap_or_default(), complete.clone());
        }
        if Instant::now() > end {
            return Err(match entries.is_empty() {
                true => Stop::Fail(format!("nothing is said; status {:?}", watch.status())),
                false => Stop::Skip(format!("the machine was starved by something else: {entries:?}")),
            });
        }
        thread::sleep(Duration::from_millis(250));
    };
    drop(loads);
    assert_eq!(begun["UNSTARVE_EPISODE"], complete["UNSTARVE_EPISODE"], "{begun} {complete}");
    let moment = |entry: &Value| entry["__REALTIME_TIMESTAMP"].as_str().and_then(|text| text.parse::<u64>().ok());
    assert!(moment(&begun) < moment(&complete), "{begun} {complete}");
    for entry in [&begun, &complete] {
        assert_eq!((&entry["PRIORITY"], &entry["_TRANSPORT"]), (&"4".into(), &"journal".into()), "{entry}");
        assert!(entry["MESSAGE_ID"].is_string() && entry["UNSTARVE_NS"].is_string(), "{entry}");
        assert!(entry["MESSAGE"].as_str().is_some_and(|text| !text.contains('\n')), "{entry}");
    }
    assert!(begun["UNSTARVE_FINDING"].is_null(), "it is not explained yet: {begun}");
    assert_eq!(complete["UNSTARVE_RULE"], "class", "{complete}");
    assert_eq!(complete["UNSTARVE_FINDING"], "rt-starvation", "{complete}");
    watch.signal(rustix::process::Signal::TERM);
    watch.running.succeed(TEST_TIMEOUT)?;
    Ok(())
}

/// Each episode says whether the policy of the guard that runs beside the watch held.
pub fn beside_a_guard(stage: &Stage) -> Ended {
    let (manager, socket) = crate::service::manager(stage)?;
    let argument = format!("27.{}", std::process::id());
    let sleeper = Running::start(Command::new("sleep").arg(&argument))?;
    let policy = stage.path("policy.toml");
    let text = format!(
        "version = 1\n[[rule]]\nname = \"sleeper\"\nmatch = {{ cmdline = \"sleep {argument}\" }}\nset = {{ policy = \"rr\", rt-priority = 2 }}\n"
    );
    std::fs::write(&policy, text).map_err(|error| error.to_string())?;
    let watch = Watch::start(stage, stage.unstarve())?;
    let dump = || -> Result<Value, Stop> {
        let mut command = watch.ask(&["dump", "--json", "--state"]);
        let done = Running::start(command.arg(&watch.state))?.succeed(TEST_TIMEOUT * 2)?;
        serde_json::from_str(&done.out).map_err(|error| Stop::Fail(format!("{}: {error}", done.out)))
    };
    let without = dump()?;
    if !without["guard"].is_null() {
        return Err(Stop::Skip(format!("another guard runs on this machine: {}", without["guard"])));
    }
    let mut command = stage.unstarve();
    command.args(["guard", "run", "--audit", "-", "--policy"]).arg(&policy);
    command.arg("--state").arg(stage.path("guard")).env("NOTIFY_SOCKET", &socket);
    let guard = Running::start(&mut command)?;
    crate::service::wait_for(&manager, "READY=1")?;
    let held = dump()?["guard"].clone();
    assert_eq!((held["pid"].as_u64(), &held["held"]), (Some(u64::from(guard.id())), &true.into()), "{held}");
    // Somebody else changes what a rule has set; by default the guard leaves it.
    let mut other = Command::new("chrt");
    other.args(["--other", "--pid", "0", &sleeper.id().to_string()]);
    Running::start(&mut other)?.succeed(TEST_TIMEOUT)?;
    let end = Instant::now() + TEST_TIMEOUT;
    loop {
        let word = dump()?["guard"].clone();
        if word["held"] == false {
            assert!(word["but"].to_string().contains("changed by others and left"), "{word}");
            break;
        }
        if Instant::now() > end {
            return Err(Stop::Fail(format!("it says that the policy held: {word}")));
        }
        thread::sleep(Duration::from_millis(500));
    }
    // What was said once is not said again.
    assert_eq!(dump()?["guard"]["held"], true);
    for running in [guard.id(), watch.running.id()] {
        if let Some(pid) = rustix::process::Pid::from_raw(running as i32) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
    }
    guard.finish(TEST_TIMEOUT)?;
    watch.running.succeed(TEST_TIMEOUT)?;
    Ok(())
}
