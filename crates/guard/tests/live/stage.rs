use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use libtest_mimic::{Completion, Failed};
use tempfile::TempDir;

/// No trial lasts longer.
pub const LIMIT: Duration = Duration::from_secs(60);

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

/// A directory of the trial's own.
pub struct Stage {
    directory: TempDir,
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
        Err(mpsc::RecvTimeoutError::Disconnected) => match worker.join() {
            Ok(()) => Err(Stop::Fail("ended without a word".to_owned())),
            Err(panic) => {
                let text = panic.downcast_ref::<String>().cloned();
                let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
                Err(Stop::Fail(text.unwrap_or_else(|| "panicked".to_owned())))
            }
        },
    };
    match ended {
        Ok(()) => Ok(Completion::Completed),
        Err(Stop::Skip(reason)) => Ok(Completion::ignored_with(reason)),
        Err(Stop::Fail(text)) => Err(text.into()),
    }
}

impl Stage {
    fn set() -> Result<Stage, Stop> {
        if !rustix::process::geteuid().is_root() {
            return Err(Stop::Skip("needs root".to_owned()));
        }
        // In memory, as the real one: a disk's fsync is not what is to be tested.
        let name = format!("unstarve-{}-", std::process::id());
        let memory = ["/run", "/dev/shm"].into_iter().find(|path| in_memory(path));
        let memory = memory.ok_or_else(|| Stop::Skip("neither /run nor /dev/shm is in memory".to_owned()))?;
        let directory = tempfile::Builder::new().prefix(&name).tempdir_in(memory).map_err(|e| e.to_string())?;
        Ok(Stage { directory })
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn state(&self) -> PathBuf {
        self.path("state")
    }

    /// Writes a policy and gives its path.
    pub fn policy(&self, name: &str, text: &str) -> Result<PathBuf, Stop> {
        let path = self.path(name);
        std::fs::write(&path, format!("version = 1\n{text}"))
            .map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(path)
    }
}

fn in_memory(path: &str) -> bool {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    mounts.lines().any(|line| {
        let mut fields = line.split(' ').skip(1);
        fields.next() == Some(path) && fields.next() == Some("tmpfs")
    })
}

/// Asks until it holds, for so long at most.
pub fn eventually(limit: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + limit;
    while Instant::now() < end {
        if holds() {
            return true;
        }
        thread::sleep(Duration::from_millis(10));
    }
    holds()
}

/// Whether a command is there; a trial that needs it is skipped.
pub fn need(command: &str) -> Result<(), Stop> {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let mut places: Vec<PathBuf> = std::env::split_paths(&paths).collect();
    places.extend(["/usr/sbin", "/sbin"].map(PathBuf::from));
    let found = places.iter().any(|place| Path::new(&place.join(command)).exists());
    if found { Ok(()) } else { Err(Stop::Skip(format!("there is no {command}"))) }
}
