//! `unstarve watch` on this machine: a planted hog is an episode whose trace names it, the same load without it is none; and
//! with the rights of its unit.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::process::Running;
use crate::stage::{Ended, Stage, Stop};
use crate::starvations::LoopFs;

const TEST_TIMEOUT: Duration = Duration::from_secs(20);

/// A watch at work.
pub struct Watch {
    pub running: Running,
    program: PathBuf,
    config: PathBuf,
    pub state: PathBuf,
}

impl Watch {
    /// Starts one with a store of its own, and waits until its recorder records.
    pub fn start(stage: &Stage, command: Command) -> Result<Watch, Stop> {
        Watch::start_with(stage, command, &stage.path("store"))
    }

    /// The same, with this store.
    pub fn start_with(stage: &Stage, command: Command, store: &Path) -> Result<Watch, Stop> {
        Watch::started(stage, command, store, "[sinks]\nlog = \"stderr\"\n")
    }

    /// One that keeps an episode each second and says so to the journal.
    pub fn start_saying(stage: &Stage, command: Command) -> Result<Watch, Stop> {
        Watch::started(stage, command, &stage.path("store"), "every = \"1s\"\n[sinks]\nlog = \"journal\"\n")
    }

    /// One that keeps an episode each second, and looks at programs only if they are in groups: those of a busy machine are starved now
    /// and then, too.
    pub fn start_for_groups(stage: &Stage) -> Result<Watch, Stop> {
        let more = "every = \"1s\"\n[sinks]\nlog = \"stderr\"\n[thresholds.role.other]\nignore = true\n";
        Watch::started(stage, stage.unstarve(), &stage.path("store"), more)
    }

    /// `more` of its configuration follows on where the store is.
    fn started(stage: &Stage, mut command: Command, store: &Path, more: &str) -> Result<Watch, Stop> {
        if !cfg!(feature = "bpf") {
            return Err(Stop::Skip("built without eBPF".to_owned()));
        }
        let (config, state) = (stage.path("watch.toml"), stage.path("state"));
        let text = format!("[listen]\naddress = \"127.0.0.1:0\"\n[store]\ndirectory = {store:?}\n{more}");
        std::fs::write(&config, text).map_err(|error| error.to_string())?;
        command.args(["watch", "--config"]).arg(&config).arg("--state").arg(&state);
        let program = stage.unstarve().get_program().into();
        let watch = Watch { running: Running::start(&mut command)?, program, config, state };
        let end = Instant::now() + TEST_TIMEOUT;
        loop {
            match watch.status() {
                Some(status) if status["recorder"] == "recording" => return Ok(watch),
                Some(status) if status["recorder"] == "broken" => {
                    return Err(Stop::Skip(format!("no flight recorder here: {}", status["problems"])));
                }
                _ if Instant::now() > end => return watch.why_not(),
                _ => thread::sleep(Duration::from_millis(100)),
            }
        }
    }

    /// It did not come to record in time.
    fn why_not(self) -> Result<Watch, Stop> {
        self.stop();
        let done = self.running.finish(TEST_TIMEOUT)?;
        match done.err.contains("cannot be used here") {
            true => Err(Stop::Skip(done.err)),
            false => Err(Stop::Fail(format!("it does not record: {}{}", done.out, done.err))),
        }
    }

    pub fn stop(&self) {
        self.signal(rustix::process::Signal::TERM);
    }

    pub fn signal(&self, signal: rustix::process::Signal) {
        if let Some(pid) = rustix::process::Pid::from_raw(self.running.id() as i32) {
            let _ = rustix::process::kill_process(pid, signal);
        }
    }

    pub fn ask(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("watch").args(arguments);
        command
    }

    pub fn status(&self) -> Option<Value> {
        let mut command = self.ask(&["status", "--json", "--state"]);
        let done = Running::start(command.arg(&self.state)).ok()?.finish(TEST_TIMEOUT).ok()?;
        serde_json::from_str(&done.out).ok()
    }

    pub fn episodes(&self) -> Result<Vec<Value>, String> {
        let mut command = self.ask(&["episodes", "--json", "--config"]);
        let done = Running::start(command.arg(&self.config))?.succeed(TEST_TIMEOUT)?;
        done.out.lines().map(|line| serde_json::from_str(line).map_err(|error| format!("{line}: {error}"))).collect()
    }
}

/// Waits for an episode that says why its thread waited. Others may begin with it whose own wait the trace did not hold.
fn explained_episode(watch: &Watch) -> Result<Option<Value>, String> {
    let end = Instant::now() + Duration::from_secs(18);
    while Instant::now() < end {
        let found = watch.episodes()?.into_iter();
        let found = found.filter(|episode| episode["stage"] != "begun").find(|episode| !episode["finding"].is_null());
        if found.is_some() {
            return Ok(found);
        }
        thread::sleep(Duration::from_millis(250));
    }
    Ok(None)
}

pub fn a_hog_is_an_episode(stage: &Stage) -> Ended {
    let fs = LoopFs::new(stage)?;
    let watch = Watch::start(stage, stage.unstarve())?;
    let fio = fs.fio(stage, 6)?;
    let mut hog = stage.load("hog", &["chrt", "--fifo", "50"], "hog --lasts 5000 --period 100 --busy 80")?;
    let hog = Running::start(&mut hog)?;
    let episode = explained_episode(&watch)?;
    drop((fio, hog));
    let Some(episode) = episode else {
        return Err(Stop::Fail(format!("no episode; status {:?}", watch.status())));
    };
    if episode["culprit"]["comm"] != "hog" && episode["culprit"]["role"] != "real-time" {
        return Err(Stop::Skip(format!("the machine was starved by something else first: {episode}")));
    }
    assert_eq!(episode["finding"], "rt-starvation", "{episode}");
    assert_eq!(
        (&episode["culprit"]["comm"], &episode["rule"]),
        (&Value::from("hog"), &Value::from("class")),
        "{episode}"
    );
    assert!(episode["remedy"]["text"].as_str().is_some_and(|text| text.contains("hog")), "{episode}");
    let id = episode["id"].as_str().unwrap_or_default();
    let shown = Running::start(watch.ask(&["show", id, "--config"]).arg(&watch.config))?.succeed(TEST_TIMEOUT)?;
    assert!(shown.out.contains("rt-starvation") && shown.out.contains("hog"), "{}", shown.out);
    // Several may begin by one hog; they share a trace, and its report.
    let trace_of = episode["trace_of"].as_str().unwrap_or(id);
    assert!(stage.path("store").join(trace_of).join("report.html").exists(), "{episode}");
    watch.stop();
    let done = watch.running.finish(TEST_TIMEOUT)?;
    assert!(done.status.success(), "{}", done.err);
    // What the counters know comes at once, the rest when it is explained.
    let lines = [format!("episode {id} has begun: "), format!("episode {id}: ")];
    let places = lines.each_ref().map(|line| done.err.find(line));
    assert!(matches!(places, [Some(begun), Some(complete)] if begun < complete), "{}", done.err);
    assert!(lines.iter().all(|line| done.err.matches(line).count() == 1), "each once: {}", done.err);
    Ok(())
}

pub fn direct_io_alone_is_none(stage: &Stage) -> Ended {
    let fs = LoopFs::new(stage)?;
    let watch = Watch::start(stage, stage.unstarve())?;
    fs.fio(stage, 5)?.finish(TEST_TIMEOUT)?;
    // Of other loads on this machine there may be some.
    let of_ours = watch.episodes()?.into_iter().find(|episode| {
        episode["victim"]["role"] == "direct-io"
            || episode["culprit"]["comm"] == "fio"
            || episode["victim"]["comm"] == "fio"
    });
    let by_whom = of_ours.as_ref().and_then(|episode| episode["culprit"]["comm"].as_str());
    if let Some(other) = by_whom.filter(|comm| *comm != "fio" && !comm.starts_with("kworker/")) {
        return Err(Stop::Skip(format!("{other}, which is not of this test, kept direct I/O waiting")));
    }
    assert_eq!(of_ours, None);
    watch.stop();
    let done = watch.running.finish(TEST_TIMEOUT)?;
    assert!(done.status.success(), "{}", done.err);
    Ok(())
}

pub fn with_the_units_rights(stage: &Stage) -> Ended {
    let (manager, socket) = crate::service::manager(stage)?;
    let mut command = crate::service::with_rights_of("unstarve-watch.service")?;
    command.arg(stage.unstarve().get_program()).env("NOTIFY_SOCKET", &socket).env("WATCHDOG_USEC", "4000000");
    let watch = Watch::start(stage, command)?;
    crate::service::wait_for(&manager, "READY=1")?;
    crate::service::wait_for(&manager, "WATCHDOG=1")?;
    let mut dump = watch.ask(&["dump", "--json", "--state"]);
    let dump = Running::start(dump.arg(&watch.state))?.succeed(Duration::from_secs(40))?;
    let episode: Value = serde_json::from_str(&dump.out).map_err(|error| format!("{}: {error}", dump.out))?;
    assert!(episode["trace_bytes"].as_u64().is_some_and(|bytes| bytes > 10_000), "{episode}");
    assert!(episode["problem"].is_null() && episode["verdict"].is_string(), "{episode}");
    watch.stop();
    crate::service::wait_for(&manager, "STOPPING=1")?;
    let done = watch.running.finish(TEST_TIMEOUT)?;
    assert!(done.status.success(), "{}", done.err);
    Ok(())
}

/// Killed while it writes an episode, at moments all over: what is in the store is whole, and the next one finishes it.
pub fn killed_while_it_writes(stage: &Stage) -> Ended {
    let store = stage.path("store");
    for round in 0..5 {
        let watch = Watch::start(stage, stage.unstarve())?;
        let mut dump = watch.ask(&["dump", "--state"]);
        let dump = Running::start(dump.arg(&watch.state))?;
        thread::sleep(Duration::from_millis(40 + round * 170));
        drop(watch.running);
        drop(dump);
        let episodes =
            Running::start(Command::new(&watch.program).args(["watch", "episodes", "--json", "--store"]).arg(&store))?;
        episodes.succeed(TEST_TIMEOUT)?;
    }
    let watch = Watch::start(stage, stage.unstarve())?;
    let whole = |store: &Path| -> Result<Vec<String>, String> {
        let names = std::fs::read_dir(store).map_err(|error| error.to_string())?.flatten();
        let names = names.filter_map(|entry| entry.file_name().into_string().ok());
        Ok(names.filter(|name| !name.starts_with("episodes") && name != "store.lock").collect())
    };
    let ids = whole(&store)?;
    assert!(ids.iter().all(|id| !id.starts_with('.')), "nothing unfinished stays: {ids:?}");
    let end = Instant::now() + TEST_TIMEOUT;
    let mut missing = ids.clone();
    while !missing.is_empty() && Instant::now() < end {
        let logged = watch.episodes()?;
        missing
            .retain(|id| !logged.iter().any(|episode| episode["id"] == id.as_str() && episode["verdict"].is_string()));
        thread::sleep(Duration::from_millis(100));
    }
    assert!(missing.is_empty(), "not explained by the next one: {missing:?} of {ids:?}");
    watch.stop();
    watch.running.succeed(TEST_TIMEOUT)?;
    Ok(())
}

/// A store on a disk that is too small: no trace, and a watch that goes on and says so, until there is room again.
pub fn a_full_disk(stage: &Stage) -> Ended {
    let disk = crate::results::Disk::mount(stage, "size=600k,mode=700")?;
    let watch = Watch::start_with(stage, stage.unstarve(), &disk.0.join("store"))?;
    let mut dump = watch.ask(&["dump", "--state"]);
    let done = Running::start(dump.arg(&watch.state))?.finish(TEST_TIMEOUT)?;
    assert_eq!(done.status.code(), Some(2), "{}{}", done.out, done.err);
    assert!(done.err.contains("no trace"), "{}", done.err);
    let names: Vec<_> = std::fs::read_dir(disk.0.join("store")).map_err(|error| error.to_string())?.flatten().collect();
    let is_expected = |name: &std::ffi::OsStr| name == "episodes.jsonl" || name == "store.lock";
    assert!(names.iter().all(|name| is_expected(&name.file_name())), "{names:?}");
    let status = watch.status().unwrap_or_default();
    assert_eq!(status["recorder"], "recording", "it goes on: {status}");
    assert!(status["problems"].to_string().contains("store: "), "{status}");
    let mut command = Command::new("mount");
    Running::start(command.args(["-o", "remount,size=256m"]).arg(&disk.0))?.succeed(TEST_TIMEOUT)?;
    crate::watch_days::wait_for(&watch, "nothing is wrong with the store any more", |status| {
        !status["problems"].to_string().contains("store: ")
    })?;
    let mut dump = watch.ask(&["dump", "--json", "--state"]);
    let dump = Running::start(dump.arg(&watch.state))?.succeed(Duration::from_secs(40))?;
    let episode: Value = serde_json::from_str(&dump.out).map_err(|error| format!("{}: {error}", dump.out))?;
    assert!(episode["trace_bytes"].as_u64().is_some_and(|bytes| bytes > 10_000), "{episode}");
    watch.stop();
    watch.running.succeed(TEST_TIMEOUT)?;
    Ok(())
}
