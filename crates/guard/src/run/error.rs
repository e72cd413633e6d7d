//! Why a guard cannot run, or not go on.

use std::io;

use unstarve_executor::state::StateError;
use unstarve_files::TargetError;

use crate::reconciler::ReconcilerError;

/// A guard could not run, or not go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The state directory.
    #[error(transparent)]
    State(#[from] StateError),
    /// Metrics have no place to go to.
    #[error("the metrics cannot be written")]
    Metrics(#[from] TargetError),
    /// The journal or /proc.
    #[error(transparent)]
    Reconciler(#[from] ReconcilerError),
    /// The guard cannot be above what it makes real-time.
    #[error(
        "this policy makes tasks real-time (up to {0}) and the guard itself may not be above them ({1}), so they could starve it; \
             run it with CAP_SYS_NICE. Nothing was changed"
    )]
    Below(u32, io::Error),
    /// The dead-man cannot be started.
    #[error("the dead-man process cannot be started; nothing was changed")]
    DeadMan(#[source] io::Error),
    /// There is no dead-man any more, and no new one can be started.
    #[error("the dead-man process ended and none could be started for {0} s; everything was taken back")]
    NoDeadMan(u64, #[source] io::Error),
    /// What was set starves the machine, or something else does.
    #[error("ordinary tasks did not run for {0} s; everything was taken back")]
    Starving(u64),
    /// Waiting for news failed.
    #[error("waiting for news of tasks")]
    Wait(#[source] io::Error),
}
