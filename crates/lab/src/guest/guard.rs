//! Runs `unstarve guard` in the guest.

use std::fs::{self, File};
use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::setup::output_excerpt;
use super::{GuestError, RESULTS_DIR};
use crate::scenario::Action;

/// The guard's policy file.
const GUARD_POLICY_FILE: &str = "/run/guard.toml";

/// The socket on which the guard reports readiness (`NOTIFY_SOCKET`).
const GUARD_READY_SOCKET: &str = "/run/guard-ready";

/// Loading eBPF programs is slow at one instruction a nanosecond.
const START_LIMIT: Duration = Duration::from_secs(20);

/// Time for the guard to restore everything.
const END_LIMIT: Duration = Duration::from_secs(10);

/// `unstarve guard run`, as a host would run it.
pub(super) struct Guard(Child);

impl Guard {
    /// Starts the guard if `actions` has a `guard` step, and waits until it reports that its policy is applied.
    pub(super) fn start<'a>(actions: impl Iterator<Item = &'a Action>) -> Result<Option<Guard>, GuestError> {
        let step = actions
            .filter_map(|action| match action {
                Action::Guard { policy, source } => Some((policy, source)),
                _ => None,
            })
            .last();
        let Some((policy, source)) = step else { return Ok(None) };
        super::write(GUARD_POLICY_FILE, policy)?;
        let ready = UnixDatagram::bind(GUARD_READY_SOCKET).map_err(GuestError::doing(GUARD_READY_SOCKET))?;
        let child = command(source.as_deref())?.spawn().map_err(GuestError::doing("cannot start the guard"))?;
        let mut guard = Guard(child);
        guard.wait_until_ready(&ready).map_err(|what| GuestError(format!("the guard {what}: {}", guard_output())))?;
        Ok(Some(guard))
    }

    fn wait_until_ready(&mut self, ready: &UnixDatagram) -> Result<(), String> {
        let until = Instant::now() + START_LIMIT;
        let _ = ready.set_read_timeout(Some(Duration::from_millis(100)));
        let mut message = [0; 256];
        while Instant::now() < until {
            if let Ok(length) = ready.recv(&mut message)
                && message[..length].split(|byte| *byte == b'\n').any(|line| line == b"READY=1")
            {
                return Ok(());
            }
            if let Ok(Some(status)) = self.0.try_wait() {
                return Err(format!("ended with {status}"));
            }
        }
        self.kill();
        Err(format!("was not ready after {} s", START_LIMIT.as_secs()))
    }

    /// Ends the guard, which restores everything first.
    pub(super) fn end(mut self) -> Result<(), GuestError> {
        let pid = Pid::from_child(&self.0);
        kill_process(pid, Signal::TERM).map_err(|errno| GuestError(format!("cannot end the guard: {errno}")))?;
        match self.wait(END_LIMIT) {
            Ok(Some(status)) if status.success() => Ok(()),
            Ok(Some(status)) => Err(GuestError(format!("the guard ended with {status}: {}", guard_output()))),
            Ok(None) => {
                self.kill();
                Err(GuestError(format!("the guard did not end within {} s: {}", END_LIMIT.as_secs(), guard_output())))
            }
            Err(error) => Err(GuestError(format!("cannot wait for the guard: {error}"))),
        }
    }

    fn wait(&mut self, limit: Duration) -> io::Result<Option<ExitStatus>> {
        let until = Instant::now() + limit;
        loop {
            match self.0.try_wait()? {
                None if Instant::now() < until => std::thread::sleep(Duration::from_millis(10)),
                ended => return Ok(ended),
            }
        }
    }

    fn kill(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn command(source: Option<&str>) -> Result<Command, GuestError> {
    let result = |name: &str| Path::new(RESULTS_DIR).join(name);
    // Under its own name, so that a trace shows what the guard itself costs.
    let mut command = Command::new("/usr/bin/unstarve");
    command.args(["guard", "run", "--policy", GUARD_POLICY_FILE, "--audit"]).arg(result("guard.audit"));
    command.arg("--metrics").arg(result("guard.metrics"));
    if let Some(source) = source {
        command.args(["--source", source]);
    }
    let errors = result("guard.err");
    let errors = File::create(&errors).map_err(GuestError::doing(errors.display()))?;
    command.env("NOTIFY_SOCKET", GUARD_READY_SOCKET).env("PATH", "/usr/bin");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors);
    Ok(command)
}

/// The guard's output.
fn guard_output() -> String {
    output_excerpt(&fs::read_to_string(Path::new(RESULTS_DIR).join("guard.err")).unwrap_or_default())
}
