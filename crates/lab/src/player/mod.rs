//! Plays a [`Program`] with real threads, so that the running kernel's own scheduler decides who waits.
//!
//! One process, one thread for each actor with the actor's name and settings, cgroups made for it. All start at one moment,
//! T0, on CLOCK_MONOTONIC, which is the clock of a guest's trace. Nothing is allocated between T0 and the end.

mod costs;
mod groups;
mod own_time;
mod part;
mod stage;
mod tokens;

use std::io;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use unstarve_files::{Limit, ReadError, read_text};
use unstarve_model::{Nanos, Tid};
use unstarve_sim::{Program, ProgramError};

pub use costs::Costs;
pub(crate) use costs::{Shown, calibration, measure};

/// The name by which this program is the player in a guest.
pub(crate) const PLAYER: &str = "play";

/// More threads than this are not played.
pub const MAX_ACTORS: usize = 1_000;

/// The size limit of a program's file.
const PROGRAM_LIMIT: Limit = Limit { bytes: 256 << 20, expected: "a program of `unstarve lab replay` as JSON" };

/// Above all ordinary loads; it sleeps from T0 to the end.
const CONDUCTOR_PRIORITY: u32 = 90;

/// Why a program was not played.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlayError {
    /// The program is not sound.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// Its file cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Its file is no program.
    #[error("{path}: no program as JSON: {source}")]
    Json {
        /// Its name.
        path: String,
        /// Why.
        source: serde_json::Error,
    },
    /// More threads than can be played.
    #[error("{actors} threads: at most {MAX_ACTORS} can be played")]
    TooManyActors {
        /// How many.
        actors: usize,
    },
    /// A cgroup could not be made as it was.
    #[error("cgroup `{path}`: {what}")]
    Cgroup {
        /// Its path.
        path: String,
        /// Why.
        what: String,
    },
    /// A thread could not be given its settings.
    #[error("actor `{comm}`: cannot {doing}: {source}")]
    Actor {
        /// Its name.
        comm: String,
        /// What was attempted.
        doing: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// A system call of the player failed.
    #[error("{doing}: {source}")]
    Io {
        /// What was attempted.
        doing: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

/// What was played.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Played {
    /// When it began, on CLOCK_MONOTONIC.
    pub t0: Nanos,
    /// By [`unstarve_sim::ActorId`].
    pub actors: Vec<PlayedActor>,
}

/// What one actor's thread did.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PlayedActor {
    /// Its thread.
    pub tid: Tid,
    /// When it was done with all of its operations, from T0; `None` if it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished: Option<Nanos>,
    /// How many operations it began.
    pub operations: u64,
    /// When each of its runs reached its length, on CLOCK_MONOTONIC; only where no costs were given, which are measured by this.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub run_ends: Vec<Nanos>,
}

/// Reads a program's file.
///
/// # Errors
/// If it cannot be read or is no sound program of at most [`MAX_ACTORS`] threads.
pub fn read_program(path: &Path) -> Result<Program, PlayError> {
    let text = read_text(path, PROGRAM_LIMIT)?;
    let program: Program =
        serde_json::from_str(&text).map_err(|source| PlayError::Json { path: path.display().to_string(), source })?;
    check(&program)?;
    Ok(program)
}

/// Whether the program is sound, and not too large.
pub(crate) fn check(program: &Program) -> Result<(), PlayError> {
    let actors = program.actors.len();
    if actors > MAX_ACTORS {
        return Err(PlayError::TooManyActors { actors });
    }
    Ok(program.check()?)
}

/// Plays the program until its length is over or all threads are done; makes its cgroups in a guest.
///
/// Threads that are not done then stay: the caller ends the process.
pub fn play(program: &Program, costs: &Costs) -> Result<Played, PlayError> {
    check(program)?;
    let groups = groups::make(program)?;
    let stage = stage::Stage::set(program, costs, groups);
    // Without the right to be real-time or to lock memory it is played less exactly.
    let exact = unstarve_executor::sched::become_realtime(CONDUCTOR_PRIORITY).is_ok();
    if exact {
        lock_memory();
    }
    stage.enter(program)?;
    let t0 = stage.begin();
    stage.wait_for_end(t0, Duration::from_nanos(program.length.0));
    Ok(stage.played(t0))
}

fn lock_memory() {
    use rustix::mm::{MlockAllFlags, mlockall};
    let _ = mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE);
}
