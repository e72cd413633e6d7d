use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use libtest_mimic::{Completion, Failed};
use tempfile::TempDir;
use unstarve_diagnose::report::Report;

use crate::process::Running;

/// No trial lasts longer.
pub const LIMIT: Duration = Duration::from_secs(45);

/// How a trial ended early.
#[derive(Debug)]
pub enum Stop {
    /// Something that it needs is not there: why.
    Skip(String),
    /// It failed: how.
    Fail(String),
}

impl From<String> for Stop {
    fn from(text: String) -> Stop {
        Stop::Fail(text)
    }
}

pub type Ended = Result<(), Stop>;

/// Where trials play: a directory of their own, the CPU that they crowd, and the program under test.
pub struct Stage {
    directory: TempDir,
    /// The last CPU that we may use: the first often serves the interrupts.
    pub cpu: u32,
}

/// Runs a trial, for so long at most.
pub fn run(trial: fn(&Stage) -> Ended) -> Result<Completion, Failed> {
    let (done, result) = mpsc::channel();
    let worker = thread::spawn(move || {
        // Nobody listens any more once the limit is over.
        let _ = done.send(Stage::set().and_then(|stage| trial(&stage)));
    });
    let ended = match result.recv_timeout(LIMIT) {
        Ok(ended) => ended,
        Err(mpsc::RecvTimeoutError::Timeout) => return Err(format!("took longer than {LIMIT:?}").into()),
        Err(mpsc::RecvTimeoutError::Disconnected) => Err(Stop::Fail(panic_text(worker.join()))),
    };
    match ended {
        Ok(()) => Ok(Completion::Completed),
        Err(Stop::Skip(reason)) => Ok(Completion::ignored_with(reason)),
        Err(Stop::Fail(text)) => Err(text.into()),
    }
}

fn panic_text(result: thread::Result<()>) -> String {
    match result {
        Ok(()) => "ended without a word".to_owned(),
        Err(panic) => panic.downcast_ref::<String>().cloned().unwrap_or_else(|| "panicked".to_owned()),
    }
}

impl Stage {
    fn set() -> Result<Stage, Stop> {
        if !rustix::process::geteuid().is_root() {
            return Err(Stop::Skip("needs root".to_owned()));
        }
        let filesystems = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
        if !filesystems.contains("tracefs") {
            return Err(Stop::Skip("this kernel has no tracefs".to_owned()));
        }
        for command in ["chrt", "taskset"] {
            need(command)?;
        }
        let directory = tempfile::Builder::new().prefix("unstarve-live-").tempdir().map_err(|e| e.to_string())?;
        Ok(Stage { directory, cpu: last_cpu()? })
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// One of our loads under a name of its own, on the stage's CPU; `before` may be `chrt --fifo 50`.
    pub fn load(&self, name: &str, before: &[&str], arguments: &str) -> Result<Command, Stop> {
        let mut command = Command::new("taskset");
        command.args(["-c", &self.cpu.to_string()]).args(before).arg(self.myself_as(name)?).arg("load");
        command.args(arguments.split(' '));
        Ok(command)
    }

    /// This program under another name, which the kernel takes for the task's.
    pub fn myself_as(&self, name: &str) -> Result<PathBuf, Stop> {
        let link = self.path(name);
        if !link.exists() {
            let myself = std::env::current_exe().map_err(|error| error.to_string())?;
            symlink(myself, &link).map_err(|error| error.to_string())?;
        }
        Ok(link)
    }

    /// The program under test.
    pub fn unstarve(&self) -> Command {
        Command::new(env!("CARGO_BIN_EXE_unstarve"))
    }

    /// Starts a recording and waits until it is under way.
    pub fn record(&self, file: &Path, lasts: Duration) -> Result<Running, Stop> {
        let mut command = self.unstarve();
        command.arg("record").arg("-o").arg(file).arg("--for").arg(format!("{}ms", lasts.as_millis()));
        let recording = Running::start(&mut command)?;
        thread::sleep(Duration::from_millis(400));
        Ok(recording)
    }

    /// What `unstarve explain --json` says.
    pub fn explain(&self, file: &Path) -> Result<Report, Stop> {
        let mut command = self.unstarve();
        command.args(["explain", "--json", "--fail-on", "never"]).arg(file);
        let done = Running::start(&mut command)?.succeed(Duration::from_secs(20))?;
        serde_json::from_str(&done.out).map_err(|error| Stop::Fail(format!("{error} in {}", done.out)))
    }
}

/// Skips the trial if a command is not there.
pub fn need(command: &str) -> Ended {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found =
        std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]).any(|d| d.join(command).exists());
    if found { Ok(()) } else { Err(Stop::Skip(format!("there is no {command} here"))) }
}

fn last_cpu() -> Result<u32, Stop> {
    let mine = rustix::thread::sched_getaffinity(None).map_err(|error| error.to_string())?;
    let last = (0..rustix::thread::CpuSet::MAX_CPU).rev().find(|cpu| mine.is_set(*cpu));
    last.map(|cpu| cpu as u32).ok_or_else(|| Stop::Fail("no CPU may be used".to_owned()))
}
