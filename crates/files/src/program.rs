//! What is executed: which file, and in which environment.
//!
//! A program is run only if every component of its path and the file itself belong to root or to the user that this process is, and
//! nobody else can write them: the rule of [`crate::trust`], asked before the first byte of it runs. Root gives its rights to
//! whatever it runs, so a program is believed no further than a policy.
//!
//! A child gets an environment that is made for it ([`clean_environment`]): variables by which the loader, a shell, an interpreter or QEMU
//! load code or read configuration (`LD_*`, `GLIBC_TUNABLES`, `GCONV_PATH`, `BASH_ENV`, `ENV`, `PERL5*`, `PYTHON*`, `QEMU_*`) are
//! not on the list, and neither is what nobody has thought of yet. As sudo's `env_reset`.
//!
//! This is the only module that starts programs: `tests/executed.rs` finds others, and lists the exceptions with their reasons.

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

pub use environment::{PROXIES, SYSTEM_PATH, clean_environment, keep, without_loaders};

/// Where the system keeps programs, in the order in which they are looked for. `/usr/local` may be its administrators' group's.
pub const SYSTEM_DIRECTORIES: [&str; 4] = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// Why a program is not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramError {
    /// Which file it is would depend on the current directory.
    #[error("{}: not run: the path is relative; give the program's absolute path", path.display())]
    Relative {
        /// The path.
        path: PathBuf,
    },
    /// It is not where programs are looked for.
    #[error("{name} is not installed: it is in none of {}", looked_in.join(", "))]
    Absent {
        /// Its name.
        name: String,
        /// Where it was looked for.
        looked_in: Vec<String>,
    },
    /// Somebody else could have written it, or it cannot be opened.
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

/// A program that nobody but root and we can have written, open.
#[derive(Clone, Debug)]
pub struct Program {
    path: PathBuf,
    called: OsString,
    file: Handed,
}

impl Program {
    /// The program at an absolute path. Symbolic links are followed if only root and we can have made them.
    ///
    /// # Errors
    /// If the path is relative, or the program cannot be opened, executed or trusted; says which component is at fault.
    pub fn at(path: &Path) -> Result<Program, ProgramError> {
        if !path.is_absolute() {
            return Err(ProgramError::Relative { path: path.to_owned() });
        }
        let (directory, name) = trust::parent(path)?;
        let file = directory.program(&name)?;
        // Some are one file of many names, and look at how they were called.
        let called = path.file_name().unwrap_or(&name).to_owned();
        Ok(Program { path: directory.path().join(&name), called, file: Handed::from(file) })
    }

    /// One of the system's own: `PATH` is not asked.
    ///
    /// # Errors
    /// As [`Program::find`].
    pub fn of_system(name: &str) -> Result<Program, ProgramError> {
        first_of(name, SYSTEM_DIRECTORIES.map(PathBuf::from).to_vec())
    }

    /// The first in the absolute directories of `PATH`, and then in the system's for root, that can be trusted. An absolute path is that
    /// program.
    ///
    /// # Errors
    /// If there is none; where there is one that cannot be trusted, why not.
    pub fn find(name: &str) -> Result<Program, ProgramError> {
        if name.starts_with('/') {
            return Program::at(Path::new(name));
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        // A user's PATH, and a daemon's, may have no sbin.
        let for_root = ["/usr/sbin", "/sbin"].map(PathBuf::from);
        first_of(name, absolute_directories(&path).chain(for_root).collect())
    }

    /// Its path without symbolic links.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it was called by.
    #[must_use]
    pub fn called(&self) -> &OsStr {
        &self.called
    }

    /// The file itself, for a child that starts it.
    #[must_use]
    pub fn file(&self) -> &Handed {
        &self.file
    }

    /// What starts it, with a clean environment. Only root and we can change what the path leads to.
    #[must_use]
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        command.arg0(&self.called);
        clean_environment(&mut command);
        command
    }

    /// What goes on as it: a command of the user's own that another program of ours does. It keeps the environment, but for what makes a
    /// loader or an interpreter load code.
    #[must_use]
    pub fn command_in_our_environment(&self) -> Command {
        let mut command = Command::new(&self.path);
        command.arg0(&self.called);
        without_loaders(&mut command);
        command
    }

    /// What starts the very file that was checked, by its descriptor: also a child that may not pass the directories above it. With
    /// a clean environment.
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

/// What a shell passes over when it looks for a program, too.
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

/// An empty element of `PATH` is the current directory, and a relative one depends on it: whose that is, nobody knows.
fn absolute_directories(path: &OsStr) -> impl Iterator<Item = PathBuf> + '_ {
    std::env::split_paths(path).filter(|place| place.is_absolute())
}

/// This program, to be started again: the file that runs already, whatever has its name meanwhile.
///
/// A package that was replaced, or a directory that others can write, makes no difference: the kernel leads `/proc/self/exe` to the file
/// itself.
#[derive(Clone, Debug)]
pub struct ThisProgram {
    called: PathBuf,
}

/// What the kernel makes of a task's name when it executes `/proc/self/exe`.
const NAME_BY_LINK: &[u8] = b"exe";

impl ThisProgram {
    /// # Errors
    /// If `/proc` does not say which file this process runs.
    pub fn find() -> io::Result<ThisProgram> {
        let path = std::env::current_exe()?.into_os_string().into_vec();
        let called = path.strip_suffix(b" (deleted)").map_or_else(|| path.clone(), <[u8]>::to_vec);
        Ok(ThisProgram { called: OsString::from_vec(called).into() })
    }

    /// Its path when this process began; it may be another file's by now.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.called
    }

    /// What starts it, with a clean environment. It should call [`ThisProgram::take_name`].
    #[must_use]
    pub fn command(&self) -> Command {
        let mut command = Command::new("/proc/self/exe");
        command.arg0(&self.called);
        clean_environment(&mut command);
        command
    }

    /// In a process that was started so: what `ps` and traces call it.
    pub fn take_name() {
        let name = rustix::thread::name();
        if name.is_ok_and(|name| name.to_bytes() == NAME_BY_LINK)
            && let Some(called) = std::env::args_os().next()
            && let Some(called) = Path::new(&called).file_name()
            && let Ok(called) = std::ffi::CString::new(called.as_bytes())
        {
            // Else it is called `exe`.
            let _ = rustix::thread::set_name(&called);
        }
    }
}

/// Something open that a child gets, and names by its descriptor.
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
    /// The descriptor's number, here and in the child.
    #[must_use]
    pub fn number(&self) -> RawFd {
        self.descriptor.as_raw_fd()
    }

    /// What the child calls it. Opened so, a file asks for the child's right to it and not for any to the directories above.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.number()))
    }

    /// Gives it to a child, and to what the child starts.
    pub fn to(&self, command: &mut Command) {
        let given = self.clone();
        // SAFETY: between fork and exec only a system call is made.
        unsafe {
            command.pre_exec(move || Ok(fcntl_setfd(&given.descriptor, FdFlags::empty())?));
        }
    }
}

#[cfg(test)]
mod tests;
