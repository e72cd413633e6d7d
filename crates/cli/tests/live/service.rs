//! The guard as its systemd unit runs it: with that unit's capabilities and no others, and with a manager that listens.

use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use unstarve_facts::Stat;
use unstarve_model::SchedPolicy;

use crate::process::Running;
use crate::stage::{Ended, Stage, Stop, need};

const TEST_TIMEOUT: Duration = Duration::from_secs(10);

pub fn with_the_units_rights(stage: &Stage) -> Ended {
    let (manager, socket) = manager(stage)?;
    let sleeper = Running::start(Command::new("sleep").arg(format!("29.{}", std::process::id())))?;
    let policy = stage.path("policy.toml");
    let text = format!(
        "version = 1\n[[rule]]\nname = \"sleeper\"\nmatch = {{ cmdline = \"sleep 29.{}\" }}\nset = {{ policy = \"rr\", rt-priority = 2 }}\n",
        std::process::id()
    );
    std::fs::write(&policy, text).map_err(|error| error.to_string())?;
    let state = stage.path("state");
    let mut command = with_rights_of("unstarve-guard.service")?;
    command.arg(stage.unstarve().get_program()).args(["guard", "run", "--audit", "-", "--policy"]).arg(&policy);
    command.arg("--state").arg(&state).env("NOTIFY_SOCKET", &socket).env("WATCHDOG_USEC", "400000");
    let guard = Running::start(&mut command)?;
    wait_for(&manager, "READY=1")?;
    wait_for(&manager, "WATCHDOG=1")?;
    wait_for(&manager, "WATCHDOG=1")?;
    assert_eq!(policy_of(&sleeper)?, SchedPolicy::Rr, "round robin, while the guard runs");
    let status = std::fs::read_to_string(state.join("guard.status")).map_err(|error| error.to_string())?;
    let pid = rustix::process::Pid::from_raw(guard.id() as i32).ok_or("no pid".to_owned())?;
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).map_err(|error| error.to_string())?;
    wait_for(&manager, "STOPPING=1")?;
    let done = guard.finish(TEST_TIMEOUT)?;
    assert!(done.status.success(), "{}{}", done.out, done.err);
    assert_eq!(policy_of(&sleeper)?, SchedPolicy::Other, "as it was: {}", done.out);
    if cfg!(feature = "bpf") {
        assert!(status.contains("\"ebpf\""), "no eBPF with the unit's capabilities: {status}{}", done.err);
    }
    Ok(())
}

/// A manager that listens, and its socket.
pub fn manager(stage: &Stage) -> Result<(UnixDatagram, PathBuf), Stop> {
    let socket = stage.path("notify");
    let manager = UnixDatagram::bind(&socket).map_err(|error| error.to_string())?;
    manager.set_read_timeout(Some(TEST_TIMEOUT)).map_err(|error| error.to_string())?;
    Ok((manager, socket))
}

/// What runs a program with the capabilities of a unit and no others, where it writes no more of /proc and /sys than the unit does.
pub fn with_rights_of(unit: &str) -> Result<Command, Stop> {
    need("unshare")?;
    let rights = with_rights(&rights_of(unit)?)?;
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c", &sandbox_of(unit)?, "sh"]);
    command.arg(rights.get_program()).args(rights.get_args());
    Ok(command)
}

/// Files for which root needs no capability, and by which it makes the kernel run a program of its own, or stop.
const NEVER_WRITTEN: [&str; 6] = [
    "/proc/sys/kernel/core_pattern",
    "/proc/sys/kernel/modprobe",
    "/proc/sys/vm/drop_caches",
    "/proc/sysrq-trigger",
    "/sys/kernel/uevent_helper",
    "/sys/power/state",
];

/// What only the watch cannot write: the guard is there to do so.
const WRITTEN_BY_THE_GUARD: [&str; 5] = [
    "/proc/sys/kernel/sched_rt_runtime_us",
    "/proc/irq/default_smp_affinity",
    "/sys/devices/virtual/workqueue/cpumask",
    "/sys/fs/cgroup/cgroup.procs",
    "/sys/fs/cgroup/cpu/release_agent",
];

pub fn the_units_write_only_what_they_have_to(_: &Stage) -> Ended {
    // Looked at by opening them: nothing is written.
    let probe = "for file; do if [ -e \"$file\" ] && (: >>\"$file\") 2>/dev/null; then echo \"$file\"; fi; done";
    let opened = |mut command: Command, files: &[&str]| -> Result<Vec<String>, Stop> {
        let done = Running::start(command.args(["sh", "-c", probe, "sh"]).args(files))?.finish(TEST_TIMEOUT)?;
        if done.err.contains("unshare:") || done.err.contains("mount:") {
            return Err(Stop::Skip(format!("a unit's mounts cannot be made here: {}", done.err)));
        }
        assert!(done.status.success(), "{}", done.err);
        Ok(done.out.lines().map(str::to_owned).collect())
    };
    let all = [&NEVER_WRITTEN[..], &WRITTEN_BY_THE_GUARD[..]].concat();
    let without = opened(with_rights(&rights_of("unstarve-watch.service")?)?, &all)?;
    if !without.iter().any(|file| file == NEVER_WRITTEN[0]) {
        return Err(Stop::Skip(format!("these cannot be written here at all; only {without:?} can")));
    }
    let none: [&str; 0] = [];
    assert_eq!(opened(with_rights_of("unstarve-watch.service")?, &all)?, none, "the watch writes");
    assert_eq!(opened(with_rights_of("unstarve-guard.service")?, &NEVER_WRITTEN)?, none, "the guard writes");
    let guard = opened(with_rights_of("unstarve-guard.service")?, &WRITTEN_BY_THE_GUARD)?;
    assert!(guard.iter().any(|file| file == WRITTEN_BY_THE_GUARD[0]), "the guard sets settings: {guard:?}");
    Ok(())
}

/// What systemd makes of a unit's `ReadOnlyPaths`, `ReadWritePaths` and `InaccessiblePaths` below /proc and /sys, in a mount namespace: each
/// a mount point, what is mounted below them included; of two that hold a path the longer one decides.
fn sandbox_of(unit: &str) -> Result<String, Stop> {
    let text = text_of(unit)?;
    let paths = |key: &str| {
        let lines = text.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        let all = lines.flat_map(str::split_whitespace).map(|path| path.trim_start_matches('-').to_owned());
        all.filter(|path| path.starts_with("/proc") || path.starts_with("/sys")).collect::<Vec<String>>()
    };
    let (fixed, written, hidden) = (paths("ReadOnlyPaths"), paths("ReadWritePaths"), paths("InaccessiblePaths"));
    let mut decided: Vec<(&String, &str)> = fixed.iter().chain(&hidden).map(|path| (path, "ro")).collect();
    decided.extend(written.iter().map(|path| (path, "rw")));
    decided.sort_by_key(|(path, _)| path.len());
    let mut script = "set -e\nnull=$(mktemp)\nchmod 000 \"$null\"\n".to_owned();
    for (path, _) in &decided {
        let what = if hidden.contains(path) { "--bind \"$null\"".to_owned() } else { format!("--rbind {path}") };
        script += &format!("if [ -e {path} ]; then mount {what} {path}; fi\n");
    }
    script += "rm \"$null\"\ncut -d' ' -f2 /proc/self/mounts | sort -u | while read -r at; do case \"$at\" in\n";
    for (path, how) in decided.iter().rev() {
        script += &format!("{path}|{path}/*) mount -o remount,bind,{how} \"$at\";;\n");
    }
    let mask = text.lines().find_map(|line| line.strip_prefix("UMask=")).unwrap_or("0022");
    Ok(format!("{script}esac; done\numask {mask}\nexec \"$@\"\n"))
}

/// What runs a program with these capabilities and no others.
pub fn with_rights(rights: &[String]) -> Result<Command, Stop> {
    need("setpriv")?;
    let set = rights.iter().map(|name| format!(",+{name}")).collect::<String>();
    let mut command = Command::new("setpriv");
    command.args(["--no-new-privs", "--bounding-set", &format!("-all{set}")]);
    Ok(command)
}

/// `CapabilityBoundingSet` of the unit, in the words of setpriv.
pub fn rights_of(unit: &str) -> Result<Vec<String>, Stop> {
    let text = text_of(unit)?;
    let line = text.lines().find_map(|line| line.strip_prefix("CapabilityBoundingSet="));
    let line = line.ok_or_else(|| format!("{unit}: no CapabilityBoundingSet"))?;
    Ok(line.split_whitespace().map(|name| name.trim_start_matches("CAP_").to_lowercase()).collect())
}

fn text_of(unit: &str) -> Result<String, Stop> {
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging").join(unit);
    Ok(std::fs::read_to_string(&unit).map_err(|error| format!("{}: {error}", unit.display()))?)
}

/// Reads what the manager is told, up to this.
pub fn wait_for(manager: &UnixDatagram, message: &str) -> Result<(), Stop> {
    let mut buffer = [0; 256];
    let end = Instant::now() + TEST_TIMEOUT;
    while Instant::now() < end {
        let length = manager.recv(&mut buffer).map_err(|error| format!("waiting for {message}: {error}"))?;
        if String::from_utf8_lossy(&buffer[..length]).lines().any(|line| line == message) {
            return Ok(());
        }
    }
    Err(Stop::Fail(format!("the manager was never told {message}")))
}

fn policy_of(task: &Running) -> Result<SchedPolicy, String> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", task.id())).map_err(|error| error.to_string())?;
    Stat::parse(&stat).and_then(|stat| stat.policy).ok_or(stat)
}
