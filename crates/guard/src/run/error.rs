//! Errors of a running guard.

use std::io;

use unstarve_executor::state::StateError;
use unstarve_files::TargetError;

use crate::reconciler::ReconcilerError;

/// The guard could not start, or had to stop.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The state directory cannot be used.
    #[error(transparent)]
    State(#[from] StateError),
    /// The metrics file cannot be written.
    #[error("the metrics cannot be written")]
    Metrics(#[from] TargetError),
    /// The journal or `/proc` failed.
    #[error(transparent)]
    Reconciler(#[from] ReconcilerError),
    /// The guard cannot get a priority above those that it sets.
    #[error(
        "this policy makes tasks real-time (up to {0}) and the guard itself may not be above them ({1}), so they could starve it; \
             run it with CAP_SYS_NICE. Nothing was changed"
    )]
    Below(u32, io::Error),
    /// The dead-man process cannot be started.
    #[error("the dead-man process cannot be started; nothing was changed")]
    DeadMan(#[source] io::Error),
    /// The dead-man process is gone, and no new one can be started.
    #[error("the dead-man process ended and none could be started for {0} s; everything was taken back")]
    NoDeadMan(u64, #[source] io::Error),
    /// Ordinary tasks were starved, by what was set or by something else.
    #[error("ordinary tasks did not run for {0} s; everything was taken back")]
    Starving(u64),
    /// Waiting for events failed.
    #[error("waiting for news of tasks")]
    Wait(#[source] io::Error),
}
