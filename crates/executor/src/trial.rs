//! Tries changes: measures without them, with them, and without them again. They are always reverted, also if this process is
//! killed.

use std::io;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::act::{self, Outcome, Undone};
use crate::audit::Audit;
use crate::deadman::{Canary, DeadMan};
use crate::host::Watched;
use crate::journal::{JournalError, Step};
use crate::manual_changes::{ByHandError, check_guard, check_unchanged, named};
use crate::registry::Registry;
use crate::state::{Role, State, StateError};

/// There is no result. All changes were reverted, except as the error says.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrialError {
    /// The directory or the lock failed.
    #[error(transparent)]
    State(#[from] StateError),
    /// The journal failed; nothing was changed.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A guard keeps the value.
    #[error(transparent)]
    Guarded(#[from] ByHandError),
    /// Another program changed the value during the trial.
    #[error(
        "somebody else changed {0} of these values during the trial, so it proves nothing; everything else was taken back"
    )]
    Disturbed(usize),
    /// The dead-man process is gone.
    #[error("{0}; everything was taken back")]
    Alone(String),
    /// Changes of an earlier trial cannot be reverted.
    #[error("an earlier trial left {} values that the system does not let us take back", .0.failed.len())]
    Earlier(Box<Undone>),
    /// The dead-man process cannot be started.
    #[error("the dead-man process cannot be started; nothing was changed")]
    DeadMan(#[source] io::Error),
    /// The waits cannot be measured.
    #[error("the waits cannot be measured; everything was taken back")]
    Measure(#[source] io::Error),
    /// Ended by a signal.
    #[error("ended before there was a verdict; everything was taken back")]
    Ended,
    /// A system call failed.
    #[error("{what}: {new}: {error}. Everything was taken back")]
    Refused {
        /// What would be changed.
        what: String,
        /// The value to set.
        new: String,
        /// The error.
        error: io::Error,
    },
    /// Ordinary tasks did not run any more.
    #[error("no ordinary task ran for {} s with the change in force; everything was taken back", .0.as_secs())]
    Starved(Duration),
    /// Some changes could not be reverted.
    #[error("not everything could be taken back ({} values); `unstarve fix --undo` tries it again", .0.failed.len())]
    Left(Box<Undone>),
}

/// Options of a trial.
pub struct Options<'a> {
    /// The journal's directory.
    pub directory: &'a Path,
    /// Starts the dead-man process, given its real-time priority.
    pub dead_man: &'a dyn Fn(u32) -> Command,
    /// How long ordinary tasks may be starved before everything is reverted.
    pub patience: Duration,
    /// Ends it early.
    pub stop: Arc<AtomicBool>,
}

/// Reverts what a killed trial left. Returns the outcome, which is almost always empty.
///
/// # Errors
/// If another process holds the lock, or the journal is not trusted.
pub fn clear(directory: &Path) -> Result<Undone, StateError> {
    let mut state = State::lock_as(Role::Trial, directory, "fix --undo")?;
    Ok(state.undo_left(&mut Audit::none())?.0)
}

/// The measurements without the changes, with them, and without them again.
pub type Measured<T> = [T; 3];

/// Runs the trial. `measure` is called three times in a thread of ordinary priority, and returns when its flag is set.
///
/// # Errors
/// See [`TrialError`].
pub fn run<T: Send + 'static>(
    options: &Options<'_>,
    audit: &mut Audit,
    steps: &mut [Step],
    measure: impl Fn(Arc<AtomicBool>) -> io::Result<T> + Clone + Send + 'static,
) -> Result<Measured<T>, TrialError> {
    // Excludes manual changes meanwhile: trial and manual change would not see each other's values.
    let _by_hand = State::lock_as(Role::ByHand, options.directory, "fix --verify")?;
    let mut state = State::lock_as(Role::Trial, options.directory, "fix --verify")?;
    check_guard(steps)?;
    let (earlier, _) = state.undo_left(audit)?;
    if !earlier.is_complete() {
        return Err(TrialError::Earlier(Box::new(earlier)));
    }
    let before = wait(options, None, measure.clone())?;
    let mut host = Watched { registry: Registry::pinned(), at_work: false };
    check_unchanged(&host, steps)?;
    act::name_processes(&host, steps);
    let mut journal = state.journal()?;
    let highest = steps.iter().map(|step| step.new.rt_priority().max(step.old.rt_priority())).max().unwrap_or(0);
    let priority = (highest + 1).clamp(50, 99);
    let mut dead_man =
        DeadMan::start((options.dead_man)(priority), priority, &state, &journal, audit).map_err(TrialError::DeadMan)?;
    state.name_dead_man(dead_man.pid());
    let outcomes = match act::apply(&mut host, &mut journal, audit, steps) {
        Ok(outcomes) => outcomes,
        Err(error) => {
            dead_man.dismiss();
            return Err(error.into());
        }
    };
    let refused = steps.iter().zip(outcomes).find_map(|(step, outcome)| match outcome {
        Outcome::Failed(error) => Some(TrialError::Refused { what: named(step), new: step.new.to_string(), error }),
        Outcome::Done | Outcome::Gone => None,
    });
    let with = match refused {
        Some(error) => Err(error),
        None => wait(options, Some(&mut dead_man), measure.clone()),
    };
    let undone = state.undo_known(&mut host, &mut journal, audit);
    if !undone.is_complete() {
        dead_man.leave_to_it();
        return Err(TrialError::Left(Box::new(undone)));
    }
    dead_man.dismiss();
    let with = with?;
    if undone.others > 0 {
        return Err(TrialError::Disturbed(undone.others));
    }
    let again = wait(options, None, measure)?;
    if options.stop.load(Ordering::Relaxed) {
        return Err(TrialError::Ended);
    }
    Ok([before, with, again])
}

/// The interval of heartbeats to the dead-man process.
const BEAT: Duration = Duration::from_millis(250);

/// Waits for a measurement. If no ordinary task runs any more, which includes the measuring thread, the change is reverted at
/// once.
fn wait<T: Send + 'static>(
    options: &Options<'_>,
    mut dead_man: Option<&mut DeadMan>,
    measure: impl FnOnce(Arc<AtomicBool>) -> io::Result<T> + Send + 'static,
) -> Result<T, TrialError> {
    let ended = Arc::new(AtomicBool::new(false));
    let flag = ended.clone();
    let thread = thread::Builder::new().name("unstarve-meter".to_owned()).spawn(move || measure(flag));
    let thread = thread.map_err(TrialError::Measure)?;
    let mut canary = Canary::start().map_err(TrialError::Measure)?;
    while !thread.is_finished() {
        if options.stop.load(Ordering::Relaxed) {
            ended.store(true, Ordering::Relaxed);
            return Err(TrialError::Ended);
        }
        if canary.has_run() {
            if let Some(dead_man) = dead_man.as_deref_mut() {
                dead_man.sign();
                if let Some(reason) = dead_man.failure(options.patience) {
                    ended.store(true, Ordering::Relaxed);
                    return Err(TrialError::Alone(reason));
                }
            }
        } else if dead_man.is_some() && canary.silent_for() > options.patience / 2 {
            ended.store(true, Ordering::Relaxed);
            return Err(TrialError::Starved(options.patience / 2));
        }
        thread::sleep(BEAT);
    }
    let result = thread.join().unwrap_or_else(|_| Err(io::Error::other("the measuring thread ended early")));
    result.map_err(TrialError::Measure)
}
