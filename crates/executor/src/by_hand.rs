//! Changes that a person makes with `fix` or `knobs`: all of them or none, in a journal that outlives the command.

use std::path::Path;

use crate::act::{self, Outcome, Undone};
use crate::audit::Audit;
use crate::host::{Host, ThisHost};
use crate::journal::{Journal, JournalError, Step};
use crate::state::{self, Role, State, StateError};

/// The journal of changes made by hand, locked.
#[derive(Debug)]
pub struct ByHand {
    state: State,
    journal: Journal,
}

/// Why changes were not made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ByHandError {
    /// The directory or the lock.
    #[error(transparent)]
    State(#[from] StateError),
    /// The journal; nothing was changed.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A guard keeps it where its policy says, and would write its own value again.
    #[error(
        "{what}: `unstarve {holder}` (process {pid}) keeps it, by its rule \"{rule}\"; change that policy, or stop it first"
    )]
    Guarded {
        /// What.
        what: String,
        /// What the guard does.
        holder: String,
        /// Its process.
        pid: u32,
        /// Its rule.
        rule: String,
    },
    /// The system refused one; the others were taken back.
    #[error("{what}: {new}: {error}. Nothing is changed")]
    Refused {
        /// What.
        what: String,
        /// To what.
        new: String,
        /// Why.
        error: std::io::Error,
    },
    /// The system refused one, and one of the others could not be taken back.
    #[error("{what}: {new}: {error}; {} could not be taken back, `unstarve fix --undo` tries again", undone.failed.len())]
    Half {
        /// What.
        what: String,
        /// To what.
        new: String,
        /// Why.
        error: std::io::Error,
        /// What came of the others.
        undone: Box<Undone>,
    },
}

/// What was changed at once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Batch {
    /// What for.
    pub rule: String,
    /// The single changes, in their order.
    pub steps: Vec<Step>,
}

/// How much is taken back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extent {
    /// The last change.
    Last,
    /// All changes.
    All,
}

impl ByHand {
    /// Locks the journal in a directory, which is made if there is none.
    ///
    /// # Errors
    /// If somebody else has it, or it cannot be believed.
    pub fn open(directory: &Path, doing: &str) -> Result<ByHand, ByHandError> {
        let state = State::lock_as(Role::ByHand, directory, doing)?;
        let journal = state.journal()?;
        Ok(ByHand { state, journal })
    }

    /// Makes all of these changes, or none. Gives how many were made: things may be gone by now.
    ///
    /// # Errors
    /// If one is a guard's, if they cannot be written down, or if the system refuses one.
    pub fn apply<H: Host>(
        &mut self,
        host: &mut H,
        audit: &mut Audit,
        steps: &mut [Step],
    ) -> Result<usize, ByHandError> {
        check_guard(steps)?;
        let outcomes = act::apply(host, &mut self.journal, audit, steps)?;
        let mut done = 0;
        let mut refused = None;
        for (step, outcome) in steps.iter().zip(outcomes) {
            match outcome {
                Outcome::Done => done += 1,
                Outcome::Gone => {}
                Outcome::Failed(error) => refused = refused.or(Some((step, error))),
            }
        }
        let Some((step, error)) = refused else { return Ok(done) };
        let (what, new) = (named(step), step.new.to_string());
        let numbers: Vec<u64> = steps.iter().map(|step| step.seq).collect();
        let mut open = self.journal.open_changes();
        open.retain(|step| numbers.contains(&step.seq) || numbers.first().is_some_and(|first| step.seq > *first));
        let undone = act::undo(host, &mut self.journal, audit, &open);
        match undone.is_complete() {
            true => Err(ByHandError::Refused { what, new, error }),
            false => Err(ByHandError::Half { what, new, error, undone: Box::new(undone) }),
        }
    }

    /// What was changed and not taken back, oldest first.
    pub fn batches(&self) -> Vec<Batch> {
        batches(self.journal.open_changes())
    }

    /// Takes the last change back whose rule is wanted, or all such, each value only if nobody else has changed it since.
    pub fn undo(&mut self, audit: &mut Audit, extent: Extent, wanted: impl Fn(&str) -> bool) -> (Undone, Vec<Batch>) {
        let mut batches: Vec<Batch> = self.batches().into_iter().filter(|batch| wanted(&batch.rule)).collect();
        if extent == Extent::Last {
            batches.drain(..batches.len().saturating_sub(1));
        }
        let steps: Vec<Step> = batches.iter().flat_map(|batch| batch.steps.iter().cloned()).collect();
        let undone = act::undo(&mut ThisHost, &mut self.journal, audit, &steps);
        (undone, batches)
    }

    /// Where the journal is.
    pub fn directory(&self) -> &Path {
        self.state.directory()
    }
}

/// What a journal has open, without its lock.
///
/// # Errors
/// If it cannot be read or believed.
pub fn look_into(directory: &Path) -> Result<Vec<Batch>, StateError> {
    Ok(batches(state::look_into(directory, Role::ByHand)?.open))
}

/// Changes that were made at once were promised at once: they are for the same, and have the same time.
fn batches(open: Vec<Step>) -> Vec<Batch> {
    let same = |a: &Step, b: &Step| a.rule == b.rule && a.at == b.at;
    open.chunk_by(same).map(|steps| Batch { rule: steps[0].rule.clone(), steps: steps.to_vec() }).collect()
}

/// A task by its name and number, anything else by its path.
pub fn named(step: &Step) -> String {
    let comm = unstarve_model::clean(&step.comm);
    let target = step.target.to_string();
    let target = unstarve_model::clean(&target);
    if comm.is_empty() { target.into_owned() } else { format!("{comm} ({target})") }
}

/// What a guard keeps is its own.
fn check_guard(steps: &[Step]) -> Result<(), ByHandError> {
    let Some(holder) = state::holder()? else { return Ok(()) };
    let open = state::look_into(&holder.state, Role::Guard)?.open;
    let theirs =
        |step: &Step| open.iter().find(|other| other.target == step.target && other.new.aspect() == step.new.aspect());
    match steps.iter().find_map(|step| Some((step, theirs(step)?))) {
        None => Ok(()),
        Some((step, other)) => Err(ByHandError::Guarded {
            what: named(step),
            holder: holder.doing,
            pid: holder.pid,
            rule: unstarve_model::clean(&other.rule).into_owned(),
        }),
    }
}
