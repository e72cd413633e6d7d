use std::io;
use std::path::PathBuf;

use crate::commit::BadCommit;

/// Why something cannot be done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FleetError {
    /// The system refuses.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// Read, write, remove.
        action: &'static str,
        /// What.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Nothing in the directory is a table.
    #[error("{}: holds no table=… directory; expected the directory into which hosts write with `unstarve watch --tables`", path.display())]
    NoTables {
        /// The directory.
        path: PathBuf,
    },
    /// A commit is not what this program writes.
    #[error("{}: not a commit", path.display())]
    Commit {
        /// The file.
        path: PathBuf,
        /// Why.
        source: BadCommit,
    },
    /// Somebody else wrote a commit.
    #[error("{}: not believed: it belongs to user {owner}; expected root, this user, or the owner of the whole directory", path.display())]
    Owner {
        /// The file.
        path: PathBuf,
        /// Its owner.
        owner: u32,
    },
    /// Something else than a file is called like a commit.
    #[error("{}: not a regular file; links are not followed", path.display())]
    NoFile {
        /// What.
        path: PathBuf,
    },
    /// Others than the owner of a commit may write it.
    #[error("{}: not believed: others than its owner may write it; expected mode 644 or less", path.display())]
    Writable {
        /// The file.
        path: PathBuf,
    },
    /// An early version made a commit without its hour, and others can bring files here.
    #[error("{}: not believed: it does not say its hour, and others than its owner may write the directories above it; give these to one user, mode 755, and run `unstarve fleet compact`", path.display())]
    Unbound {
        /// The file.
        path: PathBuf,
    },
    /// Rows cannot be written as Parquet, or would not be those that were read.
    #[error("{}: {why}", path.display())]
    Rows {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// Others commit to the same hour again and again.
    #[error("{}: other compactors were faster {tries} times; run this again", path.display())]
    Busy {
        /// The hour.
        path: PathBuf,
        /// How often.
        tries: u32,
    },
}

impl FleetError {
    /// Whether a commit is not believed, or cannot be read as one: which files count is not known then.
    pub(crate) fn is_of_commit(&self) -> bool {
        match self {
            FleetError::Commit { .. }
            | FleetError::Owner { .. }
            | FleetError::Writable { .. }
            | FleetError::Unbound { .. } => true,
            FleetError::Io { .. }
            | FleetError::NoFile { .. }
            | FleetError::Rows { .. }
            | FleetError::NoTables { .. }
            | FleetError::Busy { .. } => false,
        }
    }
}

/// What is wrong, and why, in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let cause = std::iter::successors(error.source(), |cause| cause.source());
    cause.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
