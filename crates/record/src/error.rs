use std::io;
use std::path::{Path, PathBuf};

use unstarve_readers::trace_dat_write::WriteError;

/// Why nothing was recorded, or why what was recorded could not be kept. The system's own words are in the `source`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// Tracing is only for root.
    #[error("recording needs root: run it with sudo (in a container: with --privileged)")]
    NotRoot,
    /// Kernel lockdown forbids tracing.
    #[error("the kernel is locked down for confidentiality, which forbids tracing even to root")]
    LockedDown,
    /// The kernel cannot trace.
    #[error("this kernel has no tracefs: it was built without CONFIG_TRACING")]
    NoTracefs,
    /// The kernel lacks the one event without which nothing can be explained.
    #[error("this kernel has no sched_switch event: it was built without CONFIG_EVENT_TRACING")]
    NoSwitchEvent,
    /// A tracefs file could not be used.
    #[error("cannot use tracefs {path}")]
    Tracefs {
        /// The file, relative to the mount.
        path: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// The output could not be written; what had been written is removed.
    #[error("cannot write {}{}", path.display(), full_disk(source))]
    Output {
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The output exists and is a directory or a device.
    #[error("{} is not a regular file", .0.display())]
    NotAFile(PathBuf),
    /// The command could not be started.
    #[error("cannot run {program}")]
    Command {
        /// What was to be run.
        program: String,
        /// What the system said.
        source: io::Error,
    },
    /// The file could not be put together for another reason than the system's.
    #[error(transparent)]
    Write(WriteError),
    /// Something that should never fail did.
    #[error("{action}")]
    System {
        /// What was tried.
        action: &'static str,
        /// What the system said.
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

    /// The writer knows only the place where the file is put together; people know where it was to be.
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
