//! Runs other programs safely: which file, and with which environment.
//!
//! A program is run only if every component of its path and the file itself belong to root or to this process's user,
//! and nobody else can write them: the rule of [`crate::trust`], checked before it runs. Root gives its rights to every
//! program it runs, so a program needs as much trust as a policy.
//!
//! A child gets a new environment ([`clean_environment`]). Variables that make the loader, a shell, an interpreter or
//! QEMU load code or read configuration (`LD_*`, `GLIBC_TUNABLES`, `GCONV_PATH`, `BASH_ENV`, `ENV`, `PERL5*`,
//! `PYTHON*`, `QEMU_*`) are not passed on, and neither are unknown ones; compare sudo's `env_reset`.
//!
//! This is the only module that starts programs: `tests/executed.rs` finds others, and lists the exceptions with their
//! reasons.

mod environment;

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use rustix::io::{FdFlags, fcntl_setfd};

use crate::trust::{self, TrustError};

pub use environment::{PROXY_VARIABLES, SYSTEM_PATH, clean_environment, keep, without_loaders};

/// Where the system's programs are, in search order. `/usr/local` may be writable by a group of administrators.
pub const SYSTEM_DIRECTORIES: [&str; 4] = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// Why a program is not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramError {
    /// The path is relative, so it would depend on the current directory.
    #[error("{}: not run: the path is relative; give the program's absolute path", path.display())]
    Relative {
        /// The path.
        path: PathBuf,
    },
    /// It is in none of the directories searched.
    #[error("{name} is not installed: it is in none of {}", looked_in.join(", "))]
    Absent {
        /// Its name.
        name: String,
        /// The directories searched.
        looked_in: Vec<String>,
    },
    /// Another user could have written it, or it cannot be opened.
    #[error("not run: {}", in_full(.0))]
    Untrusted(#[from] TrustError),
}

fn in_full(error: &TrustError) -> String {
    match error {
        TrustError::Io { source, .. } => format!("{error}: {source}"),
        _ => error.to_string(),
    }
}

impl ProgramError {
    /// Whether there is no such program.
    pub fn is_absent(&self) -> bool {
        match self {
            ProgramError::Absent { .. } => true,
            ProgramError::Untrusted(error) => error.is_absent(),
            ProgramError::Relative { .. } => false,
        }
    }
}

/// An open program that only root and this process's user can have written.
#[derive(Clone, Debug)]
pub struct Program {
    path: PathBuf,
    called: OsString,
    file: Handed,
}

impl Program {
    /// The program at an absolute path. Symbolic links are followed only if no other user can have created them.
    ///
    /// # Errors If the path is relative, or the program cannot be opened, executed or trusted; names the component at
    /// fault.
    pub fn at(path: &Path) -> Result<Program, ProgramError> {
        if !path.is_absolute() {
            return Err(ProgramError::Relative { path: path.to_owned() });
        }
        let (directory, name) = trust::parent(path)?;
        let file = directory.program(&name)?;
        // Some programs have several names and behave according to the one used.
        let called = path.file_name().unwrap_or(&name).to_owned();
        Ok(Program { path: directory.path().join(&name), called, file: Handed::from(file) })
    }

    /// One of the system's own programs; `PATH` is not used.
    ///
    /// # Errors As [`Program::find`].
    pub fn of_system(name: &str) -> Result<Program, ProgramError> {
        first_of(name, SYSTEM_DIRECTORIES.map(PathBuf::from).to_vec())
    }

    /// The first trusted program of this name in the absolute directories of `PATH` and, for root, in the system's
    /// directories. An absolute path names the program itself.
    ///
    /// # Errors If there is none; if there are only untrusted ones, why the first is not trusted.
    pub fn find(name: &str) -> Result<Program, ProgramError> {
        if name.starts_with('/') {
            return Program::at(Path::new(name));
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        // A user's or daemon's PATH may lack sbin.
        let for_root = ["/usr/sbin", "/sbin"].map(PathBuf::from);
        first_of(name, absolute_directories(&path).chain(for_root).collect())
    }

    /// Its path without symbolic links.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The name it was requested by.
    #[must_use]
    pub fn called(&self) -> &OsStr {
        &self.called
    }

    /// The open file, for a child that executes it.
    #[must_use]
    pub fn file(&self) -> &Handed {
        &self.file
    }

    /// A command that runs it with a clean environment. Only root and this process's user can change what the path
    /// leads to.
    #[must_use]
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        command.arg0(&self.called);
        clean_environment(&mut command);
        command
    }

    /// A command that replaces this program by another of unstarve's, as requested by the same user. Keeps the
    /// environment, except for variables that make a loader or an interpreter load code.
    #[must_use]
    pub fn command_in_our_environment(&self) -> Command {
        let mut command = Command::new(&self.path);
        command.arg0(&self.called);
        without_loaders(&mut command);
        command
    }

    /// A command that runs the checked file itself, by its descriptor, with a clean environment. Works also for a child
    /// that may not access the directories above it.
    #[must_use]
    pub fn command_by_descriptor(&self) -> Command {
        let mut command = Command::new(self.file.path());
        command.arg0(&self.called);
        clean_environment(&mut command);
        self.file.to(&mut command);
        command
    }
}

fn first_of(name: &str, places: Vec<PathBuf>) -> Result<Program, ProgramError> {
    let mut refused = None;
    for place in &places {
        match Program::at(&place.join(name)) {
            Ok(program) => return Ok(program),
            Err(error) if is_nothing_there(&error) => {}
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    let shown = || places.iter().map(|place| place.display().to_string()).collect();
    Err(refused.unwrap_or_else(|| ProgramError::Absent { name: name.to_owned(), looked_in: shown() }))
}

/// Errors at which a shell, too, continues its search for a program.
fn is_nothing_there(error: &ProgramError) -> bool {
    match error {
        ProgramError::Untrusted(TrustError::Io { source, .. }) => {
            matches!(source.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
        }
        ProgramError::Untrusted(TrustError::Untrusted { why, .. }) => {
            matches!(why, trust::Distrust::NoProgram { .. } | trust::Distrust::NoFile)
        }
        _ => false,
    }
}

/// Empty and relative elements of `PATH` depend on the current directory, which may be another user's.
fn absolute_directories(path: &OsStr) -> impl Iterator<Item = PathBuf> + '_ {
    std::env::split_paths(path).filter(|place| place.is_absolute())
}

/// This program, to be started again: the file that is running, whatever has its path by now.
///
/// Replaced packages and directories writable by others do not matter: `/proc/self/exe` leads to the file itself.
#[derive(Clone, Debug)]
pub struct ThisProgram {
    called: PathBuf,
}

/// The task name that the kernel derives from `/proc/self/exe`.
const NAME_BY_LINK: &[u8] = b"exe";

impl ThisProgram {
    /// # Errors
    /// If `/proc` does not say which file this process runs.
    pub fn find() -> io::Result<ThisProgram> {
        let path = std::env::current_exe()?.into_os_string().into_vec();
        let called = path.strip_suffix(b" (deleted)").map_or_else(|| path.clone(), <[u8]>::to_vec);
        Ok(ThisProgram { called: OsString::from_vec(called).into() })
    }

    /// Its path when this process started. Another file may be there by now.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.called
    }

    /// A command that starts it with a clean environment. The child should call [`ThisProgram::take_name`].
    #[must_use]
    pub fn command(&self) -> Command {
        let mut command = Command::new("/proc/self/exe");
        command.arg0(&self.called);
        clean_environment(&mut command);
        command
    }

    /// Called by a process started this way: sets the name that `ps` and traces show.
    pub fn take_name() {
        let name = rustix::thread::name();
        if name.is_ok_and(|name| name.to_bytes() == NAME_BY_LINK)
            && let Some(called) = std::env::args_os().next()
            && let Some(called) = Path::new(&called).file_name()
            && let Ok(called) = std::ffi::CString::new(called.as_bytes())
        {
            // Otherwise its name is `exe`.
            let _ = rustix::thread::set_name(&called);
        }
    }
}

/// An open file that a child inherits, and refers to by its descriptor.
#[derive(Clone, Debug)]
pub struct Handed {
    descriptor: Arc<OwnedFd>,
}

impl<T: Into<OwnedFd>> From<T> for Handed {
    fn from(opened: T) -> Handed {
        Handed { descriptor: Arc::new(opened.into()) }
    }
}

impl Handed {
    /// The descriptor's number, in this process and in the child.
    #[must_use]
    pub fn number(&self) -> RawFd {
        self.descriptor.as_raw_fd()
    }

    /// The path for the child. It needs access to the file, but not to the directories above it.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.number()))
    }

    /// Passes the descriptor to a child, and to the programs the child starts.
    pub fn to(&self, command: &mut Command) {
        let given = self.clone();
        // SAFETY: only a system call is made between fork and exec.
        unsafe {
            command.pre_exec(move || Ok(fcntl_setfd(&given.descriptor, FdFlags::empty())?));
        }
    }
}

#[cfg(test)]
mod tests;
