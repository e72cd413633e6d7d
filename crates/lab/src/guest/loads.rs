use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group};

use super::place::{Place, Policy};
use super::setup::{CGROUPS, in_short};
use super::{GuestError, RESULTS, read_request, say};
use crate::console::{Message, Stage};
use crate::counters::{Counters, Moment};
use crate::run::Request;
use crate::scenario::{Load, Placement};

/// A load that is measured may take this long after the main one to end and print.
const GRACE: Duration = Duration::from_secs(2);

/// The starter sleeps all the time, but has to start loads at their moment, whatever runs then.
const PRIORITY: i32 = 70;

/// Starts the loads, waits for the main one, and ends the others.
pub(super) fn run() -> Result<(), GuestError> {
    let request = read_request()?;
    Policy::fifo_alone(PRIORITY).give(0).map_err(GuestError::doing("cannot raise the starter of the loads"))?;
    let mut planned: Vec<Planned<'_>> =
        request.loads().map(|load| Planned::new(&request, load)).collect::<Result<_, _>>()?;
    // At the same moment in the file's order.
    planned.sort_by_key(|planned| planned.at);
    say(&Message::stage(Stage::Load));
    let began = Instant::now();
    let before = moment()?;
    let mut running = Vec::new();
    for planned in planned {
        std::thread::sleep(planned.at.saturating_sub(began.elapsed()));
        running.push(planned.start()?);
    }
    let result = wait_for_all(&mut running, before);
    for running in &mut running {
        running.kill();
        if !running.reaped {
            let _ = running.child.wait();
        }
    }
    result
}

/// Nobody is reaped while we are real-time: from 6.12 on (seen on 6.12.107) the kernel then takes the dead process out of
/// /proc and spins until whoever else is at it has let go, and who is preempted by us never does. A second of it looked
/// like a real-time intruder, or the guest hung.
fn wait_for_all(running: &mut [Running<'_>], before: Moment) -> Result<(), GuestError> {
    let main =
        running.iter().find(|running| running.load.main).ok_or_else(|| GuestError("no main load".into()))?.pid()?;
    wait_unreaped(main, WaitIdOptions::empty())?;
    let counters = Counters { before, after: moment()? };
    let until = Instant::now() + GRACE;
    for other in running.iter().filter(|running| !running.load.main) {
        other.wait_until(until)?;
    }
    running.iter_mut().for_each(Running::kill);
    Policy::fair().give(0).map_err(GuestError::doing("cannot lower the starter of the loads"))?;
    // If several failed, the main one's reason.
    running.sort_by_key(|running| !running.load.main);
    running.iter_mut().try_for_each(Running::reap)?;
    let text = serde_json::to_string(&counters).map_err(|error| GuestError(error.to_string()))?;
    super::write(Path::new(RESULTS).join(crate::counters::FILE), &text)
}

/// Waits for the end of a child, or looks for it, and leaves it to be reaped.
fn wait_unreaped(pid: Pid, how: WaitIdOptions) -> Result<bool, GuestError> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | how;
    loop {
        match rustix::process::waitid(WaitId::Pid(pid), options) {
            Ok(ended) => return Ok(ended.is_some()),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(GuestError(format!("cannot wait for a load: {errno}"))),
        }
    }
}

fn moment() -> Result<Moment, GuestError> {
    let read = |path: &str| fs::read_to_string(path).map_err(GuestError::doing(path));
    Ok(Moment { at_ns: crate::counters::monotonic_ns(), stat: read("/proc/stat")?, softirqs: read("/proc/softirqs")? })
}

/// A load that is ready to start.
struct Planned<'a> {
    load: &'a Load,
    at: Duration,
    command: Command,
}

impl<'a> Planned<'a> {
    fn new(request: &Request, load: &'a Load) -> Result<Planned<'a>, GuestError> {
        let argv = request.argv(load);
        let (program, arguments) =
            argv.split_first().ok_or_else(|| GuestError(format!("load `{}` has no program", load.name)))?;
        let placement = Placement::read(load.policy.as_deref(), load.nice, load.cpus.as_deref())
            .map_err(|what| GuestError(format!("load `{}`: {what}", load.name)))?;
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(output(load, "out")?).stderr(output(load, "err")?);
        command.process_group(0);
        let place = Place::of(&placement);
        let cgroup = load.cgroup.as_ref().map(|cgroup| format!("{CGROUPS}/{cgroup}/cgroup.procs"));
        let cgroup = cgroup.map(|path| File::options().write(true).open(&path).map_err(GuestError::doing(path)));
        let cgroup = cgroup.transpose()?;
        // SAFETY: between fork and exec only system calls are made; nothing is allocated.
        unsafe {
            command.pre_exec(move || {
                if let Some(cgroup) = &cgroup {
                    rustix::io::write(cgroup, b"0")?;
                }
                place.give(0)
            });
        }
        Ok(Planned { load, at: request.start_of(load), command })
    }

    fn start(mut self) -> Result<Running<'a>, GuestError> {
        let child =
            self.command.spawn().map_err(GuestError::doing(format_args!("cannot start load `{}`", self.load.name)))?;
        Ok(Running { load: self.load, child, killed: false, reaped: false })
    }
}

fn output(load: &Load, extension: &str) -> Result<File, GuestError> {
    let path = Path::new(RESULTS).join(format!("{}.{extension}", load.name));
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND | OFlags::CLOEXEC;
    let file = rustix::fs::open(&path, flags, Mode::from_raw_mode(0o644)).map_err(io::Error::from);
    file.map(File::from).map_err(GuestError::doing(path.display()))
}

struct Running<'a> {
    load: &'a Load,
    child: Child,
    killed: bool,
    reaped: bool,
}

impl Running<'_> {
    fn pid(&self) -> Result<Pid, GuestError> {
        Pid::from_raw(self.child.id() as i32).ok_or_else(|| GuestError("a load without a number".into()))
    }

    /// Only a load that is measured has to end by itself, and well.
    fn wait_until(&self, until: Instant) -> Result<(), GuestError> {
        while self.load.metrics.is_some()
            && !wait_unreaped(self.pid()?, WaitIdOptions::NOHANG)?
            && Instant::now() < until
        {
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Ends it, if it has not ended by itself, and all that it started.
    fn kill(&mut self) {
        if self.killed || self.reaped {
            return;
        }
        if let Ok(pid) = self.pid() {
            self.killed = !wait_unreaped(pid, WaitIdOptions::NOHANG).unwrap_or(false);
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }

    /// Waits for its end. What ended by itself must have ended well.
    fn reap(&mut self) -> Result<(), GuestError> {
        let status = self.child.wait().map_err(GuestError::doing("cannot wait for a load"))?;
        self.reaped = true;
        if self.killed || status.success() || !(self.load.main || self.load.metrics.is_some()) {
            return Ok(());
        }
        let said = fs::read_to_string(Path::new(RESULTS).join(format!("{}.err", self.load.name))).unwrap_or_default();
        Err(GuestError(format!("load `{}` ended with {status}: {}", self.load.name, in_short(&said))))
    }
}
