//! Case B on this machine: a heavy group that computes and does direct I/O on the CPU of the workers that complete it, with and
//! without a guard that raises these workers above the group's weight.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use unstarve_guard::scan::{Scanner, Wanted};
use unstarve_guard::{Kind, Task};

use crate::child::{Guard, Running};
use crate::stage::{Ended, Stage, Stop, need};

/// The published group's `cpu.shares`; nice −10 weighs 9548.
const SHARES: u32 = 3072;
const NICE: i32 = -10;
const SECONDS: u32 = 3;
const CPU: &str = "1";

pub fn direct_io(stage: &Stage) -> Ended {
    for command in ["fio", "mkfs.xfs", "losetup", "mount", "umount", "taskset"] {
        need(command)?;
    }
    let disk = Disk::mount(stage)?;
    let group = Group::heavy()?;
    // Lays the file out, so that both sides write to the same blocks.
    fio(&disk, &group, &["--rw=write", "--bs=1M", "--iodepth=4", "--size=96M"])?;
    let policy = stage.policy(
        "p.toml",
        &format!(
            "[[rule]]\nname = \"dio\"\nmatch = {{ workqueue = \"dio/{}\" }}\nset = {{ nice = {NICE} }}\n",
            disk.device
        ),
    )?;
    let (mut without, mut with) = (Sum::default(), Sum::default());
    for round in 0..2 {
        without.add(&measure(&disk, &group)?);
        let guard = Guard::start(stage, &policy, "")?;
        let (watched, measured) = std::thread::scope(|scope| {
            let watcher = scope.spawn(|| watch(&disk));
            let measured = measure(&disk, &group);
            (watcher.join().unwrap_or_default(), measured)
        });
        with.add(&measured?);
        let status = guard.settled_status()?;
        let audit = guard.end()?;
        let raised = audit.lines().filter(|line| line.contains("\"applied\"")).count();
        println!("round {round}: {raised} workers raised by {}; seen at work: {watched:?}", status.source);
        if raised == 0 {
            // A kernel that completes overwrites inline (6.19) has nothing for a worker to do.
            return Err(Stop::Skip(format!("no worker served dio/{} here", disk.device)));
        }
        assert!(watched.values().any(|nice| *nice == NICE), "no worker was seen raised: {audit}");
        let after: Vec<Task> = workers().into_iter().filter(|task| task.attributes.nice == NICE).collect();
        assert!(after.is_empty(), "still raised: {after:?}\n{audit}");
    }
    println!("without a guard: {without}\nwith:            {with}");
    // What was promised: the workers wait less for each I/O.
    assert!(with.wait_per_io() < without.wait_per_io(), "without: {without}; with: {with}");
    Ok(())
}

/// I/O done, and how long the CPU's workers waited for it meanwhile.
#[derive(Default)]
struct Sum {
    ios: f64,
    wait_ns: f64,
    seconds: f64,
}

impl Sum {
    fn add(&mut self, other: &Sum) {
        self.ios += other.ios;
        self.wait_ns += other.wait_ns;
        self.seconds += other.seconds;
    }

    fn wait_per_io(&self) -> f64 {
        self.wait_ns / self.ios.max(1.0)
    }
}

impl std::fmt::Display for Sum {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let rate = self.ios / self.seconds.max(1.0);
        write!(f, "{rate:.0} IOPS, its CPU's workers waited {:.1} µs for each", self.wait_per_io() / 1000.0)
    }
}

fn workers() -> Vec<Task> {
    let tasks = Scanner::new(Wanted::default()).all().unwrap_or_default();
    tasks.into_iter().filter(|task| task.kind == Kind::Kworker).collect()
}

/// How long each worker of the CPU has waited.
fn waits() -> BTreeMap<(u32, u64), u64> {
    let of_cpu = workers().into_iter().filter(|task| task.attributes.affinity.to_string() == CPU);
    of_cpu
        .filter_map(|task| Some(((task.key.tid.0, task.key.start), unstarve_executor::proc::waited(task.key.tid)?.1)))
        .collect()
}

fn measure(disk: &Disk, group: &Group) -> Result<Sum, Stop> {
    let before = waits();
    let seconds = SECONDS.to_string();
    let arguments = [
        "--rw=randwrite",
        "--bs=4k",
        "--iodepth=128",
        "--size=96M",
        "--time_based",
        "--runtime",
        &seconds,
        "--iodepth_batch=128",
    ];
    let computing = group.compute()?;
    let report = fio(disk, group, &arguments)?;
    drop(computing);
    let after = waits();
    let wait: u64 = after.iter().map(|(key, wait)| wait - before.get(key).copied().unwrap_or(0).min(*wait)).sum();
    let ios = report["jobs"][0]["write"]["total_ios"].as_f64().unwrap_or(0.0);
    Ok(Sum { ios, wait_ns: wait as f64, seconds: f64::from(SECONDS) })
}

/// Nice values of workers seen with the file system's workqueue, by thread.
fn watch(disk: &Disk) -> BTreeMap<u32, i32> {
    let mut seen = BTreeMap::new();
    for _ in 0..SECONDS * 10 {
        std::thread::sleep(Duration::from_millis(100));
        for task in workers() {
            let name = format!("dio/{}", disk.device);
            if task.works.iter().any(|work| work.workqueue.as_deref() == Some(&name)) {
                seen.insert(task.key.tid.0, task.attributes.nice);
            }
        }
    }
    seen
}

fn fio(disk: &Disk, group: &Group, arguments: &[&str]) -> Result<serde_json::Value, Stop> {
    let output = disk.directory.join("out.json");
    let mut command = group.command();
    command.args(["fio", "--name=job", "--ioengine=libaio", "--direct=1", "--output-format=json"]);
    command.arg("--output").arg(&output).arg(format!("--filename={}", disk.mount.join("file").display()));
    command.args(arguments).stderr(Stdio::null());
    let mut running = Running::start(&mut command)?;
    if !running.has_ended(Duration::from_secs(20)) {
        return Err(Stop::Fail("fio does not end".to_owned()));
    }
    let text = fs::read_to_string(&output).map_err(|error| format!("fio's report: {error}"))?;
    let json = text.find('{').map_or("", |at| &text[at..]);
    serde_json::from_str(json).map_err(|error| Stop::Fail(format!("fio's report: {error}: {text}")))
}

/// An XFS of our own, on a loop device, unmounted on drop.
struct Disk {
    directory: PathBuf,
    mount: PathBuf,
    device: String,
}

fn succeed(command: &mut Command) -> Result<Output, String> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        return Ok(output);
    }
    Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr)))
}

impl Disk {
    fn mount(stage: &Stage) -> Result<Disk, Stop> {
        let directory = stage.path("disk");
        let (image, mount) = (directory.join("image"), directory.join("mount"));
        fs::create_dir_all(&mount).map_err(|error| error.to_string())?;
        let file = fs::File::create(&image).map_err(|error| error.to_string())?;
        file.set_len(400 << 20).map_err(|error| error.to_string())?;
        let skip = Stop::Skip;
        succeed(Command::new("mkfs.xfs").args(["-q", "-f"]).arg(&image)).map_err(skip)?;
        let loop_device = succeed(Command::new("losetup").args(["--find", "--show"]).arg(&image)).map_err(skip)?;
        let path = String::from_utf8_lossy(&loop_device.stdout).trim().to_owned();
        let device = path.trim_start_matches("/dev/").to_owned();
        let disk = Disk { directory, mount: mount.clone(), device };
        // Completes on the CPU that submitted, so that the workers stand beside the load and not beside the loop device's.
        let same_cpu = Path::new("/sys/block").join(&disk.device).join("queue/rq_affinity");
        fs::write(&same_cpu, "2").map_err(|error| format!("{}: {error}", same_cpu.display()))?;
        succeed(Command::new("mount").args(["-t", "xfs", &path]).arg(&mount)).map_err(skip)?;
        Ok(disk)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = succeed(Command::new("umount").arg(&self.mount));
        let _ = succeed(Command::new("losetup").arg("-d").arg(Path::new("/dev").join(&self.device)));
    }
}

/// A heavy group below the root of the CPU controller, removed on drop.
pub struct Group {
    path: PathBuf,
    file: &'static str,
}

impl Group {
    pub fn heavy() -> Result<Group, Stop> {
        let roots =
            [("/sys/fs/cgroup/cpu", "cpu.shares", SHARES), ("/sys/fs/cgroup/cpu,cpuacct", "cpu.shares", SHARES)];
        let v2 = ("/sys/fs/cgroup", "cpu.weight", SHARES * 100 / 1024);
        let found = roots.into_iter().chain([v2]).find_map(|(root, file, weight)| {
            let path = Path::new(root).join(format!("unstarve-{}-heavy", std::process::id()));
            fs::create_dir(&path).ok()?;
            let group = Group { path, file };
            fs::write(group.path.join(file), weight.to_string()).ok()?;
            Some(group)
        });
        found.ok_or_else(|| Stop::Skip("no cgroup with a CPU controller can be made here".to_owned()))
    }

    pub fn name(&self) -> String {
        self.path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    }

    /// Gives it another name, and makes another group at the one it had; `None` where the hierarchy refuses that, as version 2 does.
    pub fn renamed(&mut self) -> Option<Group> {
        let other = self.path.with_file_name(format!("{}-moved", self.name()));
        fs::rename(&self.path, &other).ok()?;
        let path = std::mem::replace(&mut self.path, other);
        fs::create_dir(&path).ok()?;
        Some(Group { path, file: self.file })
    }

    pub fn weight_file(&self) -> PathBuf {
        self.path.join(self.file)
    }

    /// A `cpu.weight` as this hierarchy has it.
    pub fn written(&self, weight: u32) -> String {
        if self.file == "cpu.shares" { weight * 1024 / 100 } else { weight }.to_string()
    }

    /// Runs its arguments in the group, on the CPU.
    fn command(&self) -> Command {
        let mut command = Command::new("sh");
        // Into the group first, so that all threads are in it.
        command.arg("-c").arg("echo $$ > \"$0\" && exec \"$@\"").arg(self.path.join("cgroup.procs"));
        command.args(["taskset", "-c", CPU]);
        command
    }

    /// Computes until dropped, or for some seconds of CPU time.
    fn compute(&self) -> Result<Running, Stop> {
        let mut command = self.command();
        command.args(["sh", "-c", &format!("ulimit -t {}; while :; do :; done", 3 * SECONDS)]);
        Running::start(&mut command)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        crate::stage::eventually(Duration::from_secs(1), || fs::remove_dir(&self.path).is_ok());
    }
}
