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
    /// The directory has no table.
    #[error("{}: holds no table=… directory; expected the directory into which hosts write with `unstarve watch --tables`", path.display())]
    NoTables {
        /// The directory.
        path: PathBuf,
    },
    /// A commit is malformed.
    #[error("{}: not a commit", path.display())]
    Commit {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: BadCommit,
    },
    /// An untrusted user wrote a commit.
    #[error("{}: not believed: it belongs to user {owner}; expected root, this user, or the owner of the whole directory", path.display())]
    Owner {
        /// The file.
        path: PathBuf,
        /// Its owner.
        owner: u32,
    },
    /// A file with a commit's name is not a regular file.
    #[error("{}: not a regular file; links are not followed", path.display())]
    NoFile {
        /// Its path.
        path: PathBuf,
    },
    /// Other users may write a commit.
    #[error("{}: not believed: others than its owner may write it; expected mode 644 or less", path.display())]
    Writable {
        /// The file.
        path: PathBuf,
    },
    /// A commit of an early version does not name its hour, and untrusted users can put files here.
    #[error("{}: not believed: it does not say its hour, and others than its owner may write the directories above it; give these to one user, mode 755, and run `unstarve fleet compact`", path.display())]
    Unbound {
        /// The file.
        path: PathBuf,
    },
    /// Rows cannot be written as Parquet, or would differ from those read.
    #[error("{}: {why}", path.display())]
    Rows {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// Other compactors keep committing to the same hour.
    #[error("{}: other compactors were faster {tries} times; run this again", path.display())]
    Busy {
        /// The hour's directory.
        path: PathBuf,
        /// Number of attempts.
        tries: u32,
    },
}

impl FleetError {
    /// Whether a commit is not trusted or cannot be read: then it is not known which files count.
    pub(crate) fn is_of_commit(&self) -> bool {
        use FleetError::{Commit, Owner, Unbound, Writable};
        matches!(self, Commit { .. } | Owner { .. } | Writable { .. } | Unbound { .. })
    }
}

/// An error and its causes in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let cause = std::iter::successors(error.source(), |cause| cause.source());
    cause.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
