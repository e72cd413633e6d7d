//! A load of a scenario, ready to start or running.

use std::fs::{self, File};
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group};

use super::cgroup::ROOT;
use super::place;
use super::setup::output_excerpt;
use super::{GuestError, RESULTS_DIR};
use crate::run::{Request, Start};
use crate::scenario::{Load, Placement};

/// A load that is ready to start.
pub(super) struct Planned {
    load: Load,
    pub(super) start: Start,
    command: Command,
}

impl Planned {
    pub(super) fn new(request: &Request, load: Load) -> Result<Planned, GuestError> {
        let argv = request.argv(&load);
        let (program, arguments) =
            argv.split_first().ok_or_else(|| GuestError(format!("load `{}` has no program", load.name)))?;
        let placement = Placement::read(load.policy.as_deref(), load.nice, load.cpus.as_deref())
            .map_err(|what| GuestError(format!("load `{}`: {what}", load.name)))?;
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(output(&load, "out")?).stderr(output(&load, "err")?);
        command.process_group(0);
        let cgroup = load.cgroup.as_ref().map(|cgroup| format!("{ROOT}/{cgroup}/cgroup.procs"));
        let cgroup = cgroup.map(|path| File::options().write(true).open(&path).map_err(GuestError::doing(path)));
        let cgroup = cgroup.transpose()?;
        // SAFETY: between fork and exec only system calls are made; nothing is allocated.
        unsafe {
            command.pre_exec(move || {
                if let Some(cgroup) = &cgroup {
                    rustix::io::write(cgroup, b"0")?;
                }
                place::take(&placement)
            });
        }
        Ok(Planned { start: request.start_of(&load), load, command })
    }

    pub(super) fn start(mut self) -> Result<Running, GuestError> {
        let child =
            self.command.spawn().map_err(GuestError::doing(format_args!("cannot start load `{}`", self.load.name)))?;
        Ok(Running { load: self.load, child, killed: false, reaped: false })
    }
}

fn output(load: &Load, extension: &str) -> Result<File, GuestError> {
    let path = Path::new(RESULTS_DIR).join(format!("{}.{extension}", load.name));
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND | OFlags::CLOEXEC;
    let file = rustix::fs::open(&path, flags, Mode::from_raw_mode(0o644)).map_err(io::Error::from);
    file.map(File::from).map_err(GuestError::doing(path.display()))
}

pub(super) struct Running {
    pub(super) load: Load,
    child: Child,
    killed: bool,
    pub(super) reaped: bool,
}

impl Running {
    pub(super) fn pid(&self) -> Result<Pid, GuestError> {
        Pid::from_raw(self.child.id() as i32).ok_or_else(|| GuestError("a load without a number".into()))
    }

    /// Waits for a measured load, which must end by itself and successfully.
    pub(super) fn wait_until(&self, until: Instant) -> Result<(), GuestError> {
        while self.load.metrics.is_some()
            && !wait_unreaped(self.pid()?, WaitIdOptions::NOHANG)?
            && Instant::now() < until
        {
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Ends the load and its children, if it has not ended by itself.
    pub(super) fn kill(&mut self) {
        if self.killed || self.reaped {
            return;
        }
        if let Ok(pid) = self.pid() {
            self.killed = !wait_unreaped(pid, WaitIdOptions::NOHANG).unwrap_or(false);
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }

    /// Kills its remaining processes and ignores errors.
    pub(super) fn clear(&mut self) {
        self.kill();
        if !self.reaped {
            let _ = self.child.wait();
        }
    }

    /// Reaps it. A load that ended by itself must have succeeded.
    pub(super) fn reap(&mut self) -> Result<(), GuestError> {
        let status = self.child.wait().map_err(GuestError::doing("cannot wait for a load"))?;
        self.reaped = true;
        // Early loads are ended by the starter of the others.
        let ended_for_it = self.killed || self.load.is_early() && status.signal() == Some(Signal::KILL.as_raw());
        if ended_for_it || status.success() || !(self.load.main || self.load.metrics.is_some()) {
            return Ok(());
        }
        let said =
            fs::read_to_string(Path::new(RESULTS_DIR).join(format!("{}.err", self.load.name))).unwrap_or_default();
        Err(GuestError(format!("load `{}` ended with {status}: {}", self.load.name, output_excerpt(&said))))
    }
}

/// Waits for a child's end or checks for it, and leaves the child to be reaped.
pub(super) fn wait_unreaped(pid: Pid, how: WaitIdOptions) -> Result<bool, GuestError> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | how;
    loop {
        match rustix::process::waitid(WaitId::Pid(pid), options) {
            Ok(ended) => return Ok(ended.is_some()),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(GuestError(format!("cannot wait for a load: {errno}"))),
        }
    }
}
