//! Errors of a guest's run.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use unstarve_files::ReadError;

use crate::console::{Stage, Trouble};
use crate::image::ImageError;
use crate::metric::MetricError;
use crate::qemu::QemuError;
use crate::store::StoreError;

/// Why a run has no outcome.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The kernel is not there or damaged.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The guest's file system could not be made.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// QEMU is not there, too old, or cannot be started.
    #[error(transparent)]
    Qemu(#[from] QemuError),
    /// The trace from which remedies were to be taken cannot be explained.
    #[error("{path}: {source}")]
    Unexplained {
        /// The trace.
        path: PathBuf,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The request cannot be run: why.
    #[error("{0}")]
    Refused(String),
    /// The guest or its kernel reported a failure.
    #[error("the guest failed in stage `{stage}`: {trouble}{console}")]
    Guest {
        /// The stage.
        stage: Stage,
        /// What went wrong.
        trouble: Trouble,
        /// The last console lines.
        console: String,
    },
    /// QEMU ended before the guest did.
    #[error("QEMU ended in stage `{stage}`, before the guest was done ({said}){console}")]
    Exited {
        /// The stage.
        stage: Stage,
        /// What QEMU said, and its exit status.
        said: String,
        /// The last console lines.
        console: String,
    },
    /// The guest hangs.
    #[error("the guest hangs in stage `{stage}`: nothing on its console for {} s{console}", seconds.as_secs())]
    Stalled {
        /// The stage.
        stage: Stage,
        /// The limit.
        seconds: Duration,
        /// The last console lines.
        console: String,
    },
    /// The guest took too long.
    #[error("the guest was still in stage `{stage}` after {} s{console}", seconds.as_secs())]
    TooLong {
        /// The stage.
        stage: Stage,
        /// The limit.
        seconds: Duration,
        /// The last console lines.
        console: String,
    },
    /// With the host's clock no kernel booted.
    #[error(
        "{0}\nwith --kvm the guest's kernel did not even come up: KVM on this host does not run ordinary kernels (it may \
         itself be a guest, or restrict its guests). Without --kvm no KVM is needed, and runs are repeatable."
    )]
    NotWithKvm(Box<RunError>),
    /// The user asked to stop.
    #[error("interrupted; nothing was kept")]
    Interrupted,
    /// A file is of another kind than expected.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A file could not be read or written.
    #[error("{path}: {source}")]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A result is missing.
    #[error("the guest returned no {0}")]
    Incomplete(&'static str),
    /// A load's output is not what the scenario says.
    #[error(transparent)]
    Metric(#[from] MetricError),
    /// A file of the results is damaged.
    #[error("{path}: {source}")]
    Json {
        /// Which.
        path: PathBuf,
        /// Why.
        source: serde_json::Error,
    },
}

impl RunError {
    pub(super) fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> RunError {
        let path = path.into();
        move |source| RunError::File { path, source }
    }
}
