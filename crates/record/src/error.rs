//! Errors of recording.

use std::io;
use std::path::{Path, PathBuf};

use unstarve_files::TargetError;
use unstarve_readers::trace_dat_write::WriteError;

/// Why nothing was recorded, or why the recording could not be stored. The system's error is the `source`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// Tracing is only for root.
    #[error("recording needs root: run it with sudo (in a container: with --privileged)")]
    NotRoot,
    /// Kernel lockdown forbids tracing.
    #[error("the kernel is locked down for confidentiality, which forbids tracing even to root")]
    LockedDown,
    /// The kernel has no tracing.
    #[error("this kernel has no tracefs: it was built without CONFIG_TRACING")]
    NoTracefs,
    /// The kernel lacks `sched_switch`, without which nothing can be explained.
    #[error("this kernel has no sched_switch event: it was built without CONFIG_EVENT_TRACING")]
    NoSwitchEvent,
    /// A tracefs file could not be read or written.
    #[error("cannot use tracefs {path}")]
    Tracefs {
        /// The file, relative to the mount.
        path: String,
        /// The system's error.
        source: io::Error,
    },
    /// The output could not be written; the incomplete output has been removed.
    #[error("cannot write {}{}", path.display(), full_disk(source))]
    Output {
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The output exists and is a directory, a device, or an open file of a process.
    #[error("{} is a {what}; a recording needs a regular file, because its tables say where the data is", path.display())]
    NotAFile {
        /// The output.
        path: PathBuf,
        /// What it is instead of a file.
        what: &'static str,
    },
    /// The output's directory cannot be used.
    #[error(transparent)]
    Target(TargetError),
    /// The disk is too full to begin.
    #[error(
        "no room for {}: {} MB are free there, and a recording needs at least {} MB to leave space for others \
         (use -o to write to another file system)",
        path.display(), free / 1_000_000, needed / 1_000_000
    )]
    NoRoom {
        /// The output.
        path: PathBuf,
        /// Bytes that are free.
        free: u64,
        /// Bytes needed.
        needed: u64,
    },
    /// The leftovers of a killed recorder cannot be read.
    #[error("cannot read the leftovers of a killed recorder in {}", path.display())]
    Leftover {
        /// The directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The directory does not exist.
    #[error("the directory {} does not exist", .0.display())]
    NoDirectory(PathBuf),
    /// There is nothing that a recording can be made from.
    #[error("{}: there are no leftovers of a killed recorder to salvage", .0.display())]
    NothingLeft(PathBuf),
    /// There is more than one leftover.
    #[error("{}: there are leftovers of several killed recorders: name one of them, or leave out the output file", .0.display())]
    SeveralLeft(PathBuf),
    /// The command could not be started.
    #[error("cannot run {program}")]
    Command {
        /// The program.
        program: String,
        /// The system's error.
        source: io::Error,
    },
    /// The file could not be assembled for a reason other than a system error.
    #[error(transparent)]
    Write(WriteError),
    /// A system call failed that should not fail.
    #[error("{action}")]
    System {
        /// What was attempted.
        action: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

fn full_disk(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::StorageFull => " (record for less long, or with -o onto another filesystem)",
        _ => "",
    }
}

impl RecordError {
    pub(crate) fn output(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> RecordError {
        let path = path.into();
        move |source| RecordError::Output { path, source }
    }

    /// Replaces the temporary path, where the file is assembled, by the path that the user asked for.
    pub(crate) fn written(output: &Path) -> impl FnOnce(WriteError) -> RecordError {
        move |error| match error {
            WriteError::Io { source, .. } => RecordError::Output { path: output.to_owned(), source },
            other => RecordError::Write(other),
        }
    }

    pub(crate) fn system(action: &'static str) -> impl Fn(io::Error) -> RecordError {
        move |source| RecordError::System { action, source }
    }
}
