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
use std::path::PathBuf;

pub use add::{Wanted, add};
pub use cache::Cache;
pub use kernel::{Kernel, KernelInfo, list, remove};
pub use modules::ModuleError;
pub use qemu::{OwnQemu, add_qemu};
pub use runs::{KeptRun, RUNS_LIMIT, Removed, clean_runs, kept_runs};

pub(crate) use cache::{PartialEntry, digest, digest_of_file};

/// Errors of the store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Neither `XDG_CACHE_HOME` nor `HOME` is set.
    #[error("no cache directory: set XDG_CACHE_HOME or HOME")]
    NoCacheDirectory,
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
    /// A program failed.
    #[error("`{command}` failed: {message}")]
    Failed {
        /// The command, shortened.
        command: String,
        /// Its error output, or its exit status.
        message: String,
    },
    /// apt has no Debian archive configured.
    #[error(
        "no Debian archive among this machine's apt sources, so no kernel can be fetched; give a kernel file instead: \
         `unstarve lab kernel add FILE --modules DIR`"
    )]
    NoArchive,
    /// The keyring that signs Debian's archive is missing.
    #[error("{0} is missing: install the package debian-archive-keyring")]
    NoKeyring(PathBuf),
    /// apt fetched no package list, which it does not report as an error.
    #[error("no package list of {suites} came from {archive}: is the network there? Try `apt-get update` by hand")]
    NoLists {
        /// The suites.
        suites: String,
        /// The archive's address.
        archive: String,
    },
    /// The archive holds no such package.
    #[error("no package that fits `{pattern}` in {suite}")]
    NoPackage {
        /// The pattern.
        pattern: String,
        /// The suite.
        suite: String,
    },
    /// A package or file has unexpected content.
    #[error("{path}: {what}")]
    Malformed {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The store has no such kernel.
    #[error("no kernel `{name}` in the store (there {have}); add it with `unstarve lab kernel add {name}`")]
    NoKernel {
        /// Its name.
        name: String,
        /// The existing kernels.
        have: String,
    },
    /// A name that cannot be a directory of the store.
    #[error("`{0}` cannot name a kernel: letters, digits, `.`, `_`, `+` and `-` can")]
    Name(String),
    /// The archive's QEMU is too old as well.
    #[error("the archive's newest QEMU is {found}, and several CPUs in virtual time need {needed} or later")]
    QemuTooOld {
        /// Its version.
        found: String,
        /// What is needed.
        needed: u32,
    },
    /// A module could not be read.
    #[error(transparent)]
    Module(#[from] ModuleError),
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
}
