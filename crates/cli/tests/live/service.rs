//! The guard as its systemd unit runs it: with that unit's capabilities and no others, and with a manager that listens.

use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use unstarve_facts::Stat;
use unstarve_model::SchedPolicy;

use crate::process::Running;
use crate::stage::{Ended, Stage, Stop, need};

const PATIENCE: Duration = Duration::from_secs(10);

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
    let done = guard.finish(PATIENCE)?;
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
    manager.set_read_timeout(Some(PATIENCE)).map_err(|error| error.to_string())?;
    Ok((manager, socket))
}

/// What runs a program with the capabilities of a unit and no others.
pub fn with_rights_of(unit: &str) -> Result<Command, Stop> {
    with_rights(&rights_of(unit)?)
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
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging").join(unit);
    let text = std::fs::read_to_string(&unit).map_err(|error| format!("{}: {error}", unit.display()))?;
    let line = text.lines().find_map(|line| line.strip_prefix("CapabilityBoundingSet="));
    let line = line.ok_or_else(|| format!("{}: no CapabilityBoundingSet", unit.display()))?;
    Ok(line.split_whitespace().map(|name| name.trim_start_matches("CAP_").to_lowercase()).collect())
}

/// Reads what the manager is told, up to this.
pub fn wait_for(manager: &UnixDatagram, message: &str) -> Result<(), Stop> {
    let mut buffer = [0; 256];
    let end = Instant::now() + PATIENCE;
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
