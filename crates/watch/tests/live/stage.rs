use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use libtest_mimic::{Completion, Failed};
use unstarve_watch::{Engine, EngineError, Reading};

/// No trial lasts longer.
const LIMIT: Duration = Duration::from_secs(60);

/// How a trial ended early.
#[derive(Debug)]
pub enum Stop {
    /// Something that it needs is not there, or the machine gave it nothing to judge: why.
    Skip(String),
    /// It failed: how.
    Fail(String),
}

impl From<String> for Stop {
    fn from(text: String) -> Stop {
        Stop::Fail(text)
    }
}

impl From<EngineError> for Stop {
    fn from(error: EngineError) -> Stop {
        match error {
            EngineError::Unavailable { .. } => Stop::Skip(error.to_string()),
            error => Stop::Fail(format!("{error:?}")),
        }
    }
}

pub type Ended = Result<(), Stop>;

/// The kernel's own sums of a task, in nanoseconds: on a CPU, and waiting for one.
pub fn ran_and_waited(pid: u32) -> Option<(u64, u64)> {
    let text = fs::read_to_string(format!("/proc/{pid}/schedstat")).ok()?;
    let mut numbers = text.split_ascii_whitespace().map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// Runs a trial, for so long at most.
pub fn run(trial: fn() -> Ended) -> Result<Completion, Failed> {
    let (done, result) = mpsc::channel();
    if !rustix::process::geteuid().is_root() {
        return Ok(Completion::ignored_with("needs root"));
    }
    let worker = thread::spawn(move || {
        // The loads keep CPU 1 for themselves. Where it is the only one, the trial says so.
        let mut own = rustix::thread::CpuSet::new();
        own.set(0);
        let _ = rustix::thread::sched_setaffinity(None, &own);
        // Nobody listens any more once the limit is over.
        let _ = done.send(trial());
    });
    match result.recv_timeout(LIMIT) {
        Ok(Ok(())) => Ok(Completion::Completed),
        Ok(Err(Stop::Skip(reason))) => Ok(Completion::ignored_with(reason)),
        Ok(Err(Stop::Fail(text))) => Err(text.into()),
        Err(mpsc::RecvTimeoutError::Timeout) => Err(format!("took longer than {LIMIT:?}").into()),
        Err(mpsc::RecvTimeoutError::Disconnected) => {
            let panic = worker.join().err();
            let text = panic.and_then(|panic| panic.downcast_ref::<String>().cloned());
            Err(text.unwrap_or_else(|| "panicked".to_owned()).into())
        }
    }
}

/// The engine in the kernel.
#[cfg(feature = "bpf")]
pub fn engine() -> Result<impl Engine, Stop> {
    Ok(unstarve_watch::Ebpf::open(unstarve_watch::Options::default())?)
}

#[cfg(not(feature = "bpf"))]
pub fn engine() -> Result<unstarve_watch::Tracefs, Stop> {
    Err(Stop::Skip("built without the feature `bpf`".to_owned()))
}

/// A reading, which must be sound in itself.
pub fn read(engine: &mut impl Engine) -> Result<Reading, Stop> {
    let reading = engine.read()?;
    assert!(reading.roles.len() <= unstarve_watch::RoleId::LIMIT);
    for (index, waits) in reading.waits.iter().enumerate() {
        let role = unstarve_watch::RoleId(index as u8);
        assert_eq!(reading.blamed(role), waits.waited, "to the nanosecond: {:?}", reading.role(role));
    }
    Ok(reading)
}

/// This program as a load on CPU 1, killed if a test gives up on it.
pub struct Load(pub Child);

impl Load {
    /// Spins for so long, started by a command (`chrt -f 10`), which may be none.
    pub fn spin(by: &[&str], lasts: Duration) -> Result<Load, Stop> {
        Load::start(by, &["spin"], lasts)
    }

    /// Wakes up every 10 ms and runs for half of them.
    pub fn wake(by: &[&str], lasts: Duration) -> Result<Load, Stop> {
        Load::start(by, &["hog", "--period", "10", "--busy", "50"], lasts)
    }

    /// Has its CPU for a part in percent of each period in ms.
    pub fn hog(by: &[&str], (period, busy): (u32, u32), lasts: Duration) -> Result<Load, Stop> {
        let (period, busy) = (period.to_string(), busy.to_string());
        Load::start(by, &["hog", "--period", &period, "--busy", &busy], lasts)
    }

    fn start(by: &[&str], what: &[&str], lasts: Duration) -> Result<Load, Stop> {
        let myself = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut words: Vec<String> = by.iter().map(ToString::to_string).collect();
        words.extend(["taskset", "-c", "1"].map(str::to_owned));
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).arg(myself).arg("load").args(what).args(["--lasts", &lasts.as_millis().to_string()]);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        child.map(Load).map_err(|error| Stop::Skip(format!("{command:?}: {error}")))
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A top-level cgroup of the test's own, removed at the end.
pub struct Group {
    path: PathBuf,
    pub name: String,
}

impl Group {
    /// One with this weight, where the one of others is 1024.
    pub fn make(name: &str, weight: u32) -> Result<Group, Stop> {
        Group::below(&format!("unstarve-watch-{}-{name}", std::process::id()), weight)
    }

    /// Groups above others, from the innermost to the outermost, unless the machine has them.
    pub fn above(names: &[&str]) -> Result<Vec<Group>, Stop> {
        let v1 = Path::new("/sys/fs/cgroup/cpu");
        if !v1.join("cpu.shares").exists() {
            return Err(Stop::Skip("groups below groups need cgroup v1 here".to_owned()));
        }
        let is_new = |name: &&&str| !v1.join(name).exists();
        let mut groups: Vec<Group> =
            names.iter().filter(is_new).map(|name| Group::below(name, 1024)).collect::<Result<_, _>>()?;
        groups.reverse();
        Ok(groups)
    }

    /// A group of any name, in groups that exist.
    pub fn below(name: &str, weight: u32) -> Result<Group, Stop> {
        let v1 = Path::new("/sys/fs/cgroup/cpu");
        let mount = if v1.join("cpu.shares").exists() { v1 } else { Path::new("/sys/fs/cgroup") };
        let path = mount.join(name);
        let group = Group { path, name: format!("/{name}") };
        fs::create_dir(&group.path).map_err(|error| Stop::Skip(format!("{}: {error}", group.path.display())))?;
        let (file, weight) =
            if mount == v1 { ("cpu.shares", weight) } else { ("cpu.weight", (weight * 100).div_ceil(1024)) };
        let written = fs::write(group.path.join(file), weight.to_string());
        written.map_err(|error| Stop::Skip(format!("{file}: {error}")))?;
        Ok(group)
    }

    /// So much CPU time in each period, both in µs.
    pub fn limit(&self, quota: u32, period: u32) -> Result<(), Stop> {
        let v1 = self.path.join("cpu.cfs_quota_us");
        let written = match v1.exists() {
            true => fs::write(self.path.join("cpu.cfs_period_us"), period.to_string())
                .and_then(|()| fs::write(v1, quota.to_string())),
            false => fs::write(self.path.join("cpu.max"), format!("{quota} {period}")),
        };
        written.map_err(|error| Stop::Skip(format!("no limit: {error}")))
    }

    pub fn add(&self, load: &Load) -> Result<(), Stop> {
        let added = fs::write(self.path.join("cgroup.procs"), load.0.id().to_string());
        added.map_err(|error| Stop::Skip(format!("cgroup.procs: {error}")))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The kernel takes a moment to let go of the last task.
        for _ in 0..200 {
            if fs::remove_dir(&self.path).is_ok() {
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
}
