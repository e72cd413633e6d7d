//! The lab's store: kernels, and a QEMU if the host has no suitable one.
//!
//! Packages come from the archive that the machine itself uses, through apt with separate state: apt verifies
//! signatures and digests, and the host's package state is only read.

mod add;
mod apt;
mod cache;
mod kernel;
mod modinfo;
mod modules;
mod qemu;
pub(crate) mod runs;
mod version;

use std::io;
use std::path::{Path, PathBuf};

pub use add::{Wanted, add, available, is_point_release};
pub use cache::Cache;
pub use kernel::{Kernel, KernelInfo, list, remove};
pub use qemu::{OwnQemu, add_qemu};
pub use runs::{KeptRun, RUNS_LIMIT, Removed, clean_runs, kept_runs};
pub use version::dpkg_order;

pub(crate) use cache::{PartialEntry, check_way, digest, digest_of_file};

/// Errors of the store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// A file could not be read or written.
    #[error("{path}: {source}")]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A required program is missing, or others could have written it.
    #[error(transparent)]
    NotRun(#[from] unstarve_files::ProgramError),
    /// Root's store would be in another user's directory.
    #[error(
        "the lab's cache is not used: {}. Root's lab runs what is in it; unset XDG_CACHE_HOME, or set it to a directory that only \
         root can write",
        in_full(.0)
    )]
    NotRoots(unstarve_files::TrustError),
    /// A required program could not be started.
    #[error("cannot run `{program}`: {source}")]
    Program {
        /// Which.
        program: String,
        /// Why.
        source: io::Error,
    },
    /// Anything else: what happened, and what to do.
    #[error("{0}")]
    Other(String),
}

fn in_full(error: &unstarve_files::TrustError) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

impl StoreError {
    pub(crate) fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> StoreError {
        let path = path.into();
        move |source| StoreError::File { path, source }
    }

    /// A package or file has unexpected content.
    pub(crate) fn malformed(path: &Path, what: impl std::fmt::Display) -> StoreError {
        StoreError::Other(format!("{}: {what}", path.display()))
    }

    /// The archive holds no such package.
    pub(crate) fn no_package(pattern: &str, suite: &str) -> StoreError {
        StoreError::Other(format!("no package that fits `{pattern}` in {suite}"))
    }
}
