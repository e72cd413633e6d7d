use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::process::Running;
use crate::stage::{Ended, Stage, Stop, need};

/// A cgroup of our own below the root of the CPU controller, removed on drop.
pub struct Cgroup {
    path: PathBuf,
}

impl Cgroup {
    /// Makes one whose load weight is `tenths` tenths of the default.
    pub fn new(name: &str, tenths: u32) -> Result<Cgroup, Stop> {
        let (root, file, default) = controller()?;
        let path = root.join(format!("unstarve-{}-{name}", std::process::id()));
        fs::create_dir(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let group = Cgroup { path };
        group.write(file, &(default * tenths / 10).to_string())?;
        Ok(group)
    }

    /// Puts a process and all its threads into it.
    pub fn add(&self, pid: u32) -> Result<(), Stop> {
        self.write("cgroup.procs", &pid.to_string())
    }

    /// Lets it have no more than so many µs of each 100 ms, all its CPUs together.
    pub fn limit(&self, quota_us: u32) -> Result<(), Stop> {
        if self.path.join("cpu.max").exists() {
            return self.write("cpu.max", &format!("{quota_us} 100000"));
        }
        if !self.path.join("cpu.cfs_quota_us").exists() {
            return Err(Stop::Skip("this kernel has no CPU limits of groups".to_owned()));
        }
        self.write("cpu.cfs_period_us", "100000")?;
        self.write("cpu.cfs_quota_us", &quota_us.to_string())
    }

    /// Its directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its path below the root of the controller, as the host names it.
    pub fn name(&self) -> String {
        format!("/{}", self.path.file_name().unwrap_or_default().to_string_lossy())
    }

    /// For how many ns the kernel says that its limit has stopped it.
    pub fn stopped_ns(&self) -> Result<u64, Stop> {
        let text = fs::read_to_string(self.path.join("cpu.stat")).map_err(|error| error.to_string())?;
        let value = |name: &str| -> Option<u64> {
            let line = text.lines().find_map(|line| line.strip_prefix(name))?;
            line.trim().parse().ok()
        };
        let ns = value("throttled_time ").or_else(|| value("throttled_usec ").map(|us| us * 1000));
        ns.ok_or_else(|| Stop::Fail(format!("cpu.stat does not say what a limit stopped: {text}")))
    }

    fn write(&self, file: &str, value: &str) -> Result<(), Stop> {
        let file = self.path.join(file);
        fs::write(&file, value).map_err(|error| Stop::Fail(format!("{}: {error}", file.display())))
    }
}

/// In a cgroup namespace of its own, as container runtimes make one, the program shows groups by their paths on the host.
pub fn in_a_namespace(stage: &Stage) -> Ended {
    need("unshare")?;
    let (own, other) = (Cgroup::new("own", 10)?, Cgroup::new("other", 10)?);
    let sleeper = Running::start(Command::new("sleep").arg("30"))?;
    other.add(sleeper.id())?;
    let mut command = Command::new("sh");
    command.args(["-c", "echo $$ > \"$1/cgroup.procs\" && shift && exec unshare --cgroup \"$@\"", "sh"]);
    command.arg(&own.path).arg(stage.unstarve().get_program()).args(["snapshot", "-o", "-"]);
    let done = Running::start(&mut command)?.finish(Duration::from_secs(30))?;
    if done.err.contains("unshare:") {
        return Err(Stop::Skip(format!("no cgroup namespace can be made here: {}", done.err)));
    }
    let snapshot: Value = serde_json::from_str(&done.out).map_err(|error| format!("{error}: {}", done.err))?;
    let task = |tid: u32| snapshot["tasks"].as_array().into_iter().flatten().find(move |task| task["tid"] == tid);
    assert_eq!(task(sleeper.id()).map(|task| &task["cgroup"]), Some(&Value::from(other.name())));
    assert!(task(1).is_some_and(|task| task["cgroup"].as_str().is_some_and(|path| !path.contains(".."))));
    assert_eq!(snapshot["view"]["all_cgroups"], true, "{}", snapshot["view"]);
    Ok(())
}

/// The mount point of the CPU controller, the file of its weight and the default weight: v2 where the controller is
/// there, else v1.
fn controller() -> Result<(PathBuf, &'static str, u32), Stop> {
    let mounts = fs::read_to_string("/proc/self/mounts").map_err(|error| error.to_string())?;
    let mounts = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ');
        let point = fields.nth(1)?;
        Some((point.to_owned(), fields.next()?.to_owned(), fields.next()?.to_owned()))
    });
    let mut v1 = None;
    for (point, kind, options) in mounts {
        let point = Path::new(&point);
        let controllers = fs::read_to_string(point.join("cgroup.subtree_control")).unwrap_or_default();
        if kind == "cgroup2" && controllers.split_whitespace().any(|name| name == "cpu") {
            return Ok((point.to_owned(), "cpu.weight", 100));
        }
        if kind == "cgroup" && options.split(',').any(|option| option == "cpu") {
            v1 = Some((point.to_owned(), "cpu.shares", 1024));
        }
    }
    v1.ok_or_else(|| Stop::Skip("no cgroup with a CPU controller can be made here".to_owned()))
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // A killed process takes a moment to leave its cgroup.
        for _ in 0..50 {
            if fs::remove_dir(&self.path).is_ok() {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}
