//! Errors of a store.

use std::io;
use std::path::PathBuf;

use crate::commit::BadCommit;

/// An error of a store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FleetError {
    /// A system call failed.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// Read, write, remove.
        action: &'static str,
        /// The path.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// The directory is no store.
    #[error("{}: {found}; expected a store, a directory that has `hosts/v1`, into which the `v1` of each host is copied", path.display())]
    NoStore {
        /// The directory.
        path: PathBuf,
        /// What it is.
        found: &'static str,
    },
    /// A commit is malformed.
    #[error("{}: not a commit", path.display())]
    Commit {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: BadCommit,
    },
    /// Others may have written what a compactor writes.
    #[error("{}: not believed: {why}; expected a directory of root, this user or the owner of the store, mode 755 or less", path.display())]
    Untrusted {
        /// The directory.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// Rows cannot be written as Parquet, or would differ from those read.
    #[error("{}: {why}", path.display())]
    Rows {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// Another process has the store's lock.
    #[error("{}: another `unstarve fleet` works on this store; run this again when it has ended", path.display())]
    Busy {
        /// The lock.
        path: PathBuf,
    },
}

/// An error and its causes in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let cause = std::iter::successors(error.source(), |cause| cause.source());
    cause.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
