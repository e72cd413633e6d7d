//! Changes that a person makes with `fix` or `knobs`: all of them or none, in a journal that outlives the command.

use std::path::Path;

use crate::act::{self, Outcome, Undone};
use crate::audit::Audit;
use crate::host::Host;
use crate::journal::{Journal, JournalError, Step};
use crate::legacy;
use crate::state::{self, DEFAULT_DIRECTORY, Role, State, StateError};
use unstarve_change::Value;
use unstarve_files::trust::Directory;

/// The rule name in the journal for changes by `knobs set`.
pub const KNOBS: &str = "knobs set";

/// The journal of manual changes, locked.
#[derive(Debug)]
pub struct ByHand {
    state: State,
    journal: Journal,
}

/// Why changes were not made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ByHandError {
    /// The directory or the lock failed.
    #[error(transparent)]
    State(#[from] StateError),
    /// The journal failed; nothing was changed.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The journal of an earlier version failed.
    #[error(transparent)]
    Damaged(#[from] legacy::Damaged),
    /// A guard keeps the value by its policy, and would set its own again.
    #[error(
        "{what}: `unstarve {holder}` (process {pid}) keeps it, by its rule \"{rule}\"; change that policy, or stop it first"
    )]
    Guarded {
        /// What would be changed.
        what: String,
        /// What the guard does.
        holder: String,
        /// The guard's pid.
        pid: u32,
        /// The guard's rule.
        rule: String,
    },
    /// Another program has changed the value since it was read.
    #[error("{what} was {was} a moment ago, and is {now} now: somebody else is changing it. Nothing is changed")]
    Changed {
        /// What would be changed.
        what: String,
        /// The value that was read.
        was: String,
        /// The value now.
        now: String,
    },
    /// The journal of an earlier version was imported, but cannot be removed: it would be imported again.
    #[error("{path} was taken over, and cannot be removed: {error}. Remove it")]
    Leftover {
        /// Its path.
        path: String,
        /// The error.
        error: std::io::Error,
    },
    /// A system call failed; the other changes were reverted.
    #[error("{what}: {new}: {}. Nothing is changed", unstarve_host::refusal(what, error))]
    Refused {
        /// What would be changed.
        what: String,
        /// The value to set.
        new: String,
        /// The error.
        error: std::io::Error,
    },
    /// A system call failed, and another change could not be reverted.
    #[error(
        "{what}: {new}: {}; {} could not be taken back, `unstarve fix --undo` tries again",
        unstarve_host::refusal(what, error),
        undone.failed.len()
    )]
    Half {
        /// What would be changed.
        what: String,
        /// The value to set.
        new: String,
        /// The error.
        error: std::io::Error,
        /// The outcome of reverting the others.
        undone: Box<Undone>,
    },
}

/// Changes that were made together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Batch {
    /// The name of the rule that made them.
    pub rule: String,
    /// The changes, in their order.
    pub steps: Vec<Step>,
}

/// How much to revert.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extent {
    /// The last change.
    Last,
    /// All changes.
    All,
}

impl ByHand {
    /// Locks the journal in a directory, which is created if missing.
    ///
    /// # Errors
    /// If another process holds the lock, or the journal is not trusted.
    pub fn open(directory: &Path, doing: &str) -> Result<ByHand, ByHandError> {
        let mut hand = ByHand::over(State::lock_as(Role::ByHand, directory, doing)?)?;
        if directory == Path::new(DEFAULT_DIRECTORY) {
            hand.take_over(Path::new(legacy::DEFAULT))?;
        }
        Ok(hand)
    }

    /// The same with a journal of this name.
    ///
    /// # Errors
    /// As [`ByHand::open`].
    pub fn open_file(journal: &Path, doing: &str) -> Result<ByHand, ByHandError> {
        ByHand::over(State::lock_file(journal, doing)?)
    }

    fn over(state: State) -> Result<ByHand, ByHandError> {
        let bytes = state.bytes()?;
        if !legacy::is_one(&bytes) {
            let journal = state.journal()?;
            return Ok(ByHand { state, journal });
        }
        let contents = legacy::Contents::parse(&bytes, &state.journal_path())?;
        let mut steps = legacy::steps(&contents, state.boot());
        steps.iter_mut().zip(1..).for_each(|(step, seq)| step.seq = seq);
        let journal = state.begin_anew(steps, contents.entries().len() as u64)?;
        Ok(ByHand { state, journal })
    }

    /// Imports the open changes of an earlier version's journal.
    fn take_over(&mut self, path: &Path) -> Result<(), ByHandError> {
        let above = path.parent().unwrap_or(Path::new("/"));
        let name = path.file_name().unwrap_or_default();
        let directory = match Directory::open(above) {
            Err(error) if error.is_absent() => return Ok(()),
            directory => directory.map_err(StateError::from)?,
        };
        let Some(bytes) = directory.read(name, LONGEST_LEGACY).map_err(StateError::from)? else { return Ok(()) };
        let contents = legacy::Contents::parse(&bytes, path)?;
        let mut steps = legacy::steps(&contents, self.state.boot());
        let open = self.journal.open_changes();
        let is_known = |step: &Step| {
            open.iter().any(|other| (&other.target, &other.old, &other.new) == (&step.target, &step.old, &step.new))
        };
        steps.retain(|step| !is_known(step));
        self.journal.promise(&mut steps)?;
        let leftover = |error| ByHandError::Leftover { path: path.display().to_string(), error };
        directory.remove(name).map_err(leftover)
    }

    /// Makes all of these changes, or none. Returns how many were made, without targets that are gone.
    ///
    /// # Errors
    /// If a guard keeps one, if the journal cannot be written, or if a system call fails.
    pub fn apply<H: Host>(
        &mut self,
        host: &mut H,
        audit: &mut Audit,
        steps: &mut [Step],
    ) -> Result<usize, ByHandError> {
        check_guard(steps)?;
        check_unchanged(host, steps)?;
        let batch = self.journal.last_seq() + 1;
        for step in steps.iter_mut() {
            step.batch = Some(batch);
        }
        act::name_processes(host, steps);
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
        let mut open = self.journal.open_changes();
        open.retain(|step| step.batch == Some(batch));
        let undone = act::undo(host, &mut self.journal, audit, &open);
        match undone.is_complete() {
            true => Err(ByHandError::Refused { what, new, error }),
            false => Err(ByHandError::Half { what, new, error, undone: Box::new(undone) }),
        }
    }

    /// The changes that were not reverted, oldest first.
    pub fn batches(&self) -> Vec<Batch> {
        batches(self.journal.open_changes())
    }

    /// Reverts the last of the wanted changes, or all of them. Skips changes below another root, except those of `knobs set`, which names
    /// that root again. A value that another program has changed since is left alone, and its change stays in the journal: it can be
    /// undone when the value is back.
    pub fn undo<H: Host>(
        &mut self,
        host: &mut H,
        audit: &mut Audit,
        extent: Extent,
        wanted: impl Fn(&Batch) -> bool,
    ) -> TakenBack {
        let may_be = |batch: &Batch| batch.rule == KNOBS || batch.steps.iter().all(|step| step.target.root().is_none());
        let mut batches: Vec<Batch> =
            self.batches().into_iter().filter(|batch| may_be(batch) && wanted(batch)).collect();
        if extent == Extent::Last {
            batches.drain(..batches.len().saturating_sub(1));
        }
        let steps: Vec<Step> = batches.iter().flat_map(|batch| batch.steps.iter().cloned()).collect();
        let open = self.journal.open_changes();
        let (steps, covered) = uncovered(&open, steps);
        let (theirs, ours) = theirs_and_ours(host, &open, steps);
        let undone = act::undo(host, &mut self.journal, audit, &ours);
        TakenBack { undone, batches, theirs, covered }
    }

    /// The journal's directory.
    pub fn directory(&self) -> &Path {
        self.state.directory()
    }
}

/// The result of an undo.
#[derive(Debug)]
pub struct TakenBack {
    /// The outcome of the reverts.
    pub undone: Undone,
    /// The batches to revert.
    pub batches: Vec<Batch>,
    /// Changes whose values another program has changed since, with the values now.
    pub theirs: Vec<(Step, Value)>,
    /// Changes overridden by a later change that stays, with that one's rule.
    pub covered: Vec<(Step, String)>,
}

/// Journals of the earlier version were never longer.
const LONGEST_LEGACY: u64 = 64 << 20;

/// Whether both change the same aspect of the same target.
fn is_alike(a: &Step, b: &Step) -> bool {
    a.target == b.target && a.new.aspect() == b.new.aspect()
}

/// Changes of one target form a chain: one in the middle cannot be reverted while a later one is in force.
fn uncovered(open: &[Step], steps: Vec<Step>) -> (Vec<Step>, Vec<(Step, String)>) {
    let wanted: Vec<u64> = steps.iter().map(|step| step.seq).collect();
    let cover = |step: &Step| {
        let later =
            open.iter().find(|other| other.seq > step.seq && is_alike(other, step) && !wanted.contains(&other.seq));
        later.map(|other| other.rule.clone())
    };
    let (mut free, mut covered) = (Vec::new(), Vec::new());
    for step in steps {
        match cover(&step) {
            Some(rule) => covered.push((step, rule)),
            None => free.push(step),
        }
    }
    (free, covered)
}

/// Separates changes whose targets have a value that none of the changes explains from the rest.
fn theirs_and_ours<H: Host>(host: &H, open: &[Step], steps: Vec<Step>) -> (Vec<(Step, Value)>, Vec<Step>) {
    let now: Vec<Option<Value>> =
        steps.iter().map(|step| host.read(&step.target, step.new.aspect()).ok().flatten()).collect();
    let is_ours = |step: &Step, now: &Value| {
        open.iter().filter(|other| is_alike(other, step)).any(|other| other.explains(now) || other.old.same(now))
    };
    let ours: Vec<bool> =
        steps.iter().zip(&now).map(|(step, now)| now.as_ref().is_none_or(|now| is_ours(step, now))).collect();
    let (mut theirs, mut taken) = (Vec::new(), Vec::new());
    for ((step, now), ours) in steps.into_iter().zip(now).zip(ours) {
        match now {
            Some(now) if !ours => theirs.push((step, now)),
            _ => taken.push(step),
        }
    }
    (theirs, taken)
}

/// What a journal says without its lock.
#[derive(Debug)]
pub struct Journalled {
    /// The open changes, oldest first.
    pub batches: Vec<Batch>,
    /// Number of lines that could not be read: what they say is unknown.
    pub unreadable_lines: usize,
}

/// Reads a journal's open changes without its lock.
///
/// # Errors
/// If it cannot be read, or is not trusted.
pub fn look_into(directory: &Path) -> Result<Journalled, StateError> {
    let contents = state::look_into(directory, Role::ByHand)?;
    Ok(Journalled { batches: batches(contents.open), unreadable_lines: contents.damaged })
}

fn batches(open: Vec<Step>) -> Vec<Batch> {
    let same = |a: &Step, b: &Step| a.batch.is_some() && a.batch == b.batch;
    open.chunk_by(same).map(|steps| Batch { rule: steps[0].rule.clone(), steps: steps.to_vec() }).collect()
}

/// Names a task by name and tid, anything else by path.
pub fn named(step: &Step) -> String {
    let comm = unstarve_model::clean(&step.comm);
    let target = step.target.to_string();
    let target = unstarve_model::clean(&target);
    if comm.is_empty() { target.into_owned() } else { format!("{comm} ({target})") }
}

/// A value may have been changed between the plan and its execution; an undo would then lose that value.
pub(crate) fn check_unchanged<H: Host>(host: &H, steps: &[Step]) -> Result<(), ByHandError> {
    for step in steps {
        if let Ok(Some(now)) = host.read(&step.target, step.new.aspect())
            && !now.same(&step.old)
        {
            return Err(ByHandError::Changed { what: named(step), was: step.old.to_string(), now: now.to_string() });
        }
    }
    Ok(())
}

/// A value that a guard keeps is not changed.
pub(crate) fn check_guard(steps: &[Step]) -> Result<(), ByHandError> {
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
