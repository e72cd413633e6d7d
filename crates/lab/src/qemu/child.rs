//! Runs a guest in QEMU: starts it, follows its console, ends it.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process, kill_process_group, set_parent_process_death_signal};
use rustix::thread::set_no_new_privs;
use unstarve_files::ThisProgram;

use super::hand_over::{add_machine, check_executable};
use super::supervise::{LET_GO, SUPERVISE_ROLE};
use super::{Machine, Qemu, QemuError};
use crate::console::{ConsoleFollower, Stage};

/// The limits of a guest's run time.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Total.
    pub wall: Duration,
    /// Without a console line. Loads print nothing, so this must exceed their time.
    pub stall: Duration,
}

/// How a guest ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It reported that all results are written, or why there are none ([`ConsoleFollower::trouble`]).
    Told,
    /// QEMU ended before the guest reported its end; with QEMU's output.
    Exited(String),
    /// [`Limits::wall`].
    TooLong,
    /// [`Limits::stall`].
    Stalled,
    /// The user asked to stop.
    Interrupted,
}

/// How often the user's request to stop is checked.
const STOP_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// After its last message the guest reboots, which ends QEMU. All results are written by then.
const REBOOT_GRACE: Duration = Duration::from_millis(500);

/// Boots a guest and follows its console, which is stored in `log`, until it ends. Calls `stages` for each stage. QEMU
/// has ended when this returns, also on errors. `supervisor` is this program, which calls
/// [`supervise`](super::supervise()) if its first argument is [`SUPERVISE_ROLE`].
///
/// As root, QEMU and the supervisor run as an unprivileged user with only the guest's files open.
pub fn boot(
    qemu: &Qemu,
    machine: &Machine,
    supervisor: &ThisProgram,
    limits: Limits,
    interrupted: &AtomicBool,
    log: &Path,
    stages: &mut dyn FnMut(Stage),
) -> Result<(Ended, ConsoleFollower), QemuError> {
    let mut command = qemu.command();
    let given = add_machine(&mut command, machine, qemu.user())?;
    let supervised = machine.needs_turns();
    if supervised {
        if qemu.user().is_some() {
            check_executable(supervisor.path(), Path::new("/proc/self/exe"))?;
        }
        command = under(supervisor, qemu.called(), &command);
    }
    qemu.given().iter().chain(&given).for_each(|given| given.to(&mut command));
    if let Some(user) = qemu.user() {
        user.drop_to(&mut command);
    }
    let mut guest =
        Guest::start(command).map_err(|source| QemuError::Start { program: qemu.program().to_owned(), source })?;
    let mut watch = ConsoleFollower::default();
    let logged = |source| QemuError::Log { path: log.to_owned(), source };
    let mut console = Console { log: File::create(log).map_err(logged)?, line: Vec::new() };
    let began = Instant::now();
    let mut heard = began;
    stages(Stage::Boot);
    let ended = loop {
        if interrupted.load(Ordering::Relaxed) {
            break Ended::Interrupted;
        }
        if began.elapsed() > limits.wall {
            break Ended::TooLong;
        }
        if heard.elapsed() > limits.stall {
            break Ended::Stalled;
        }
        match guest.read(STOP_POLL_INTERVAL).map_err(logged)? {
            ConsoleEvent::Nothing => continue,
            ConsoleEvent::End => break Ended::Exited(String::new()),
            ConsoleEvent::Bytes(bytes) => {
                heard = Instant::now();
                let before = watch.stage;
                console.take(&bytes, &mut watch).map_err(logged)?;
                if watch.stage != before {
                    stages(watch.stage);
                    if supervised && watch.stage >= Stage::Collect {
                        guest.let_go();
                    }
                }
            }
        }
        if watch.is_over() {
            break Ended::Told;
        }
    };
    let status = guest.end(matches!(ended, Ended::Told | Ended::Exited(_)).then_some(REBOOT_GRACE));
    let ended = match ended {
        Ended::Exited(_) => Ended::Exited(guest.last_words(status)),
        other => other,
    };
    Ok((ended, watch))
}

/// The command under the supervisor.
fn under(supervisor: &ThisProgram, called: &OsStr, command: &Command) -> Command {
    let mut outer = supervisor.command();
    outer.arg(SUPERVISE_ROLE).arg(called).arg(command.get_program()).args(command.get_args()).current_dir("/");
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => outer.env(name, value),
            None => outer.env_remove(name),
        };
    }
    outer
}

struct Console {
    log: File,
    line: Vec<u8>,
}

/// Longer console lines are cut: a guest may print without end.
const LONGEST_LINE: usize = 4096;

impl Console {
    fn take(&mut self, bytes: &[u8], watch: &mut ConsoleFollower) -> io::Result<()> {
        self.log.write_all(bytes)?;
        for &byte in bytes {
            if byte == b'\n' || self.line.len() == LONGEST_LINE {
                watch.feed(&String::from_utf8_lossy(&self.line));
                self.line.clear();
            }
            if byte != b'\n' {
                self.line.push(byte);
            }
        }
        Ok(())
    }
}

enum ConsoleEvent {
    Nothing,
    Bytes(Vec<u8>),
    End,
}

/// A running QEMU; dropping it kills all its threads.
struct Guest {
    child: Child,
    errors: Option<std::process::ChildStderr>,
}

impl Guest {
    fn start(mut command: Command) -> io::Result<Guest> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // In a separate process group, so that Ctrl-C reaches only this process, which ends QEMU in order.
        command.process_group(0);
        let parent = rustix::process::getpid();
        // SAFETY: between fork and exec only system calls are made that are async-signal-safe.
        unsafe {
            command.pre_exec(move || {
                set_no_new_privs(true)?;
                // After the change of user, which would clear it (prctl(2)).
                set_parent_process_death_signal(Some(Signal::KILL))?;
                // The parent may have died before the call above.
                if rustix::process::getppid() != Some(parent) {
                    return Err(io::Error::from(Errno::SRCH));
                }
                Ok(())
            });
        }
        let mut child = command.spawn()?;
        let errors = child.stderr.take();
        Ok(Guest { child, errors })
    }

    fn read(&mut self, limit: Duration) -> io::Result<ConsoleEvent> {
        let Some(output) = self.child.stdout.as_mut() else { return Ok(ConsoleEvent::End) };
        let timeout = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: limit.subsec_nanos().into() };
        let mut sources = [PollFd::new(&*output, PollFlags::IN)];
        match poll(&mut sources, Some(&timeout)) {
            Ok(0) | Err(Errno::INTR) => return Ok(ConsoleEvent::Nothing),
            Ok(_) => {}
            Err(errno) => return Err(errno.into()),
        }
        let mut bytes = vec![0; 16 << 10];
        let length = output.read(&mut bytes)?;
        bytes.truncate(length);
        Ok(if length == 0 { ConsoleEvent::End } else { ConsoleEvent::Bytes(bytes) })
    }

    fn let_go(&self) {
        // The child has not been reaped, so its id is valid. If it has ended it needs no signal.
        let _ = kill_process(Pid::from_child(&self.child), LET_GO);
    }

    /// Ends it, after `grace` if given.
    fn end(&mut self, grace: Option<Duration>) -> Option<ExitStatus> {
        let until = Instant::now() + grace.unwrap_or_default();
        while Instant::now() < until {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Some(status);
            }
            std::thread::sleep(STOP_POLL_INTERVAL / 5);
        }
        self.kill();
        self.child.wait().ok()
    }

    fn kill(&mut self) {
        if let Ok(None) = self.child.try_wait()
            && let Some(group) = Pid::from_raw(self.child.id() as i32)
        {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }

    /// Its output at the end.
    fn last_words(&mut self, status: Option<ExitStatus>) -> String {
        let mut said = String::new();
        if let Some(errors) = self.errors.as_mut() {
            // It has ended, so the pipe ends.
            let _ = errors.take(16 << 10).read_to_string(&mut said);
        }
        let lines: Vec<&str> = said.lines().rev().take(5).collect();
        let said = lines.into_iter().rev().collect::<Vec<_>>().join("; ");
        match status {
            Some(status) if said.is_empty() => status.to_string(),
            Some(status) => format!("{status}: {said}"),
            None => said,
        }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.kill();
        let _ = self.child.wait();
    }
}
