//! Makes changes and reverts them.

use std::io;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::audit::{Audit, Entry, Event};
use crate::host::Host;
use crate::journal::{Journal, JournalError, Step, Store};
use unstarve_change::TaskKey;
use unstarve_change::{Aspect, Place, Value};

/// The outcome of a change.
#[derive(Debug)]
pub enum Outcome {
    /// The value is set.
    Done,
    /// The task or file is gone.
    Gone,
    /// The system call failed.
    Failed(io::Error),
}

/// Journals changes, then makes them. Returns the outcomes in the order of the changes, whose numbers it sets.
///
/// # Errors
/// If they cannot be journalled; then nothing was changed.
pub fn apply<H: Host, S: Store>(
    host: &mut H,
    journal: &mut Journal<S>,
    audit: &mut Audit,
    changes: &mut [Step],
) -> Result<Vec<Outcome>, JournalError> {
    for change in changes.iter_mut().filter(|change| change.comm.is_empty()) {
        change.comm = host.handlers(&change.target).unwrap_or_default().join(BETWEEN_HANDLERS);
    }
    journal.promise(changes)?;
    let mut outcomes = Vec::with_capacity(changes.len());
    let mut settled = Vec::new();
    let mut last: Option<(&Place, bool)> = None;
    for change in changes.iter() {
        // A task's changes are adjacent, so one check serves all of them.
        let there = match last {
            Some((target, there)) if *target == change.target => there,
            _ => host.is_there(&change.target),
        };
        last = Some((&change.target, there));
        let outcome = match if there { host.write(&change.target, &change.new) } else { Err(gone()) } {
            Ok(()) => Outcome::Done,
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Outcome::Gone,
            Err(error) => Outcome::Failed(error),
        };
        match &outcome {
            // Immediately: an undo after a kill must recognise the value.
            Outcome::Done => {
                if let Some(amended) = amendment(host, change) {
                    journal.amend(&mut [amended]);
                }
            }
            // Nothing was changed, so there is nothing to revert.
            Outcome::Gone | Outcome::Failed(_) => settled.push(change.seq),
        }
        audit.log(&entry(change, &outcome));
        outcomes.push(outcome);
    }
    journal.settle(settled);
    audit.flush();
    Ok(outcomes)
}

/// Records in the changes of threads which process would get the value if the thread calls execve.
pub(crate) fn name_processes<H: Host>(host: &H, changes: &mut [Step]) {
    for change in changes {
        change.process = process_that_may_take_over(host, change);
    }
}

/// The process that would get a thread's new value if the thread calls execve, unless it has the value already.
fn process_that_may_take_over<H: Host>(host: &H, step: &Step) -> Option<TaskKey> {
    let Place::Task(key) = step.target else { return None };
    let process = host.process_of(key)?;
    let its = host.read(&Place::Task(process), step.new.aspect()).ok()??;
    (!step.explains(&its)).then_some(process)
}

/// Journals the values that tasks inherited. Nothing is changed now; undo reverts them like changes.
///
/// # Errors
/// If they cannot be journalled.
pub fn adopt<S: Store>(
    journal: &mut Journal<S>,
    audit: &mut Audit,
    inherited: &mut [Step],
) -> Result<(), JournalError> {
    journal.promise(inherited)?;
    for change in inherited.iter() {
        audit.log(&about(change, Event::Inherited));
    }
    audit.flush();
    Ok(())
}

fn gone() -> io::Error {
    io::Error::from_raw_os_error(libc::ESRCH)
}

/// The kernel may set another value than requested (only existing CPUs, a rounded number). Undo must recognise the value that
/// was actually set.
fn amendment<H: Host>(host: &H, change: &Step) -> Option<Step> {
    // The kernel sets other values exactly or not at all.
    if change.new.of_task().is_some_and(|setting| !setting.may_differ_when_set) {
        return None;
    }
    let actual = host.read(&change.target, change.new.aspect()).ok()??;
    (!actual.same(&change.new)).then(|| Step { new: actual, ..change.clone() })
}

fn entry<'a>(change: &'a Step, outcome: &Outcome) -> Entry<'a> {
    let (event, errno) = match outcome {
        Outcome::Done => (Event::Applied, None),
        Outcome::Gone => (Event::Gone, None),
        Outcome::Failed(error) => (Event::Failed, error.raw_os_error()),
    };
    Entry { errno, ..about(change, event) }
}

fn about(change: &Step, event: Event) -> Entry<'_> {
    Entry {
        rule: Some(&change.rule),
        target: Some(&change.target),
        comm: matches!(change.target, Place::Task(_)).then_some(&change.comm),
        old: Some(&change.old),
        new: Some(&change.new),
        ..Entry::of(event)
    }
}

/// The result of reverting changes.
#[derive(Debug, Default)]
pub struct Undone {
    /// Reverted.
    pub restored: usize,
    /// Already had the old value.
    pub unchanged: usize,
    /// Changed by another program since, and left.
    pub others: usize,
    /// The task or file is gone.
    pub gone: usize,
    /// Inherited values without a journal entry; they were reverted, too.
    pub inherited: usize,
    /// System calls that failed; the changes stay in the journal.
    pub failed: Vec<(Step, io::Error)>,
    /// After the last pass children still inherited these values: some task probably forks as fast as it can.
    pub racing: bool,
}

impl Undone {
    /// The sum of both.
    pub fn and(mut self, other: Undone) -> Undone {
        self.restored += other.restored;
        self.unchanged += other.unchanged;
        self.others += other.others;
        self.gone += other.gone;
        self.inherited += other.inherited;
        self.failed.extend(other.failed);
        self.racing |= other.racing;
        self
    }

    /// Whether everything was reverted.
    pub fn is_complete(&self) -> bool {
        self.failed.is_empty() && !self.racing
    }
}

/// Maximum passes over the children of changed tasks. Each pass finds children forked during the previous one by a task that
/// was not yet restored; more than a few are needed only if some task forks faster than a pass.
const LOOKS_FOR_HEIRS: usize = 50;

/// How often the same value is reverted on the same child.
const TRIES: u32 = 4;

/// Reverts changes, the last one first, each only if the target still has the value that was set; also on tasks that inherited
/// it. Writes only to `audit`, so it needs no disk space, and it can be interrupted anywhere and restarted. Also returns the
/// numbers of changes for which nothing is left to do.
pub fn restore<H: Host>(host: &mut H, audit: &mut Audit, changes: &[Step]) -> (Undone, Vec<u64>) {
    let mut undone = Undone::default();
    let mut settled = Vec::with_capacity(changes.len());
    take_back(host, audit, changes, &mut undone, &mut settled);
    let mut known = changes.to_vec();
    undone.racing = true;
    let mut is_last = false;
    let (mut tried, mut failed_heirs) = (FxHashMap::<_, u32>::default(), false);
    for _ in 0..LOOKS_FOR_HEIRS {
        // A child with the value set on its parent inherited it, even if a change of the child itself seems overwritten: a
        // guard killed while reverting may have stopped half way.
        let mut heirs = host.heirs(&known);
        // A value that reads the same after every write (a cpuset clips an affinity) cannot be restored further. A few
        // repetitions are normal while several changes are reverted.
        heirs.retain(|heir| {
            let tries = tried.entry((heir.target.clone(), heir.new.to_string())).or_default();
            *tries += 1;
            *tries <= TRIES
        });
        if heirs.is_empty() && is_last {
            undone.racing = false;
            break;
        }
        is_last = heirs.is_empty();
        if is_last {
            host.let_births_finish(&known);
            continue;
        }
        let mut round = Undone::default();
        take_back(host, audit, &heirs, &mut round, &mut Vec::new());
        let refused = round.restored == 0 && !round.failed.is_empty();
        undone.inherited += round.restored;
        undone.gone += round.gone;
        known.extend(heirs);
        failed_heirs |= !round.failed.is_empty();
        if refused {
            undone.failed.extend(round.failed);
            undone.racing = false;
            break;
        }
    }
    audit.flush();
    if undone.racing || failed_heirs {
        // A retry needs the parents' changes to find them.
        settled.clear();
    }
    (undone, settled)
}

/// As [`restore`], and settles the changes in the journal. A child can inherit from a task until its change is settled, so this
/// comes last.
pub fn undo<H: Host, S: Store>(host: &mut H, journal: &mut Journal<S>, audit: &mut Audit, changes: &[Step]) -> Undone {
    let (undone, settled) = restore(host, audit, changes);
    journal.settle(settled);
    undone
}

/// Reverts changes of a task whose children are known and keep their values.
pub fn release<H: Host, S: Store>(
    host: &mut H,
    journal: &mut Journal<S>,
    audit: &mut Audit,
    changes: &[Step],
) -> Undone {
    let (mut undone, mut settled) = (Undone::default(), Vec::new());
    take_back(host, audit, changes, &mut undone, &mut settled);
    journal.settle(settled);
    audit.flush();
    undone
}

fn take_back<H: Host>(host: &mut H, audit: &mut Audit, changes: &[Step], undone: &mut Undone, settled: &mut Vec<u64>) {
    let mut theirs: FxHashSet<(Place, Aspect)> = FxHashSet::default();
    for change in changes.iter().rev() {
        let event = match put_back(host, change) {
            Ok(event) => event,
            Err(error) => {
                let errno = error.raw_os_error();
                audit.log(&Entry { errno, reason: Some("undo"), ..about(change, Event::Failed) });
                undone.failed.push((change.clone(), error));
                continue;
            }
        };
        // If an earlier change of the same aspect finds its old value in place, no other program changed it: a guard that was
        // killed while reverting had got that far.
        let what = (change.target.clone(), change.new.aspect());
        match event {
            Some(Event::Restored) => undone.restored += 1,
            Some(Event::Gone) => undone.gone += 1,
            Some(_) => {
                theirs.insert(what);
            }
            None => {
                undone.unchanged += 1;
                theirs.remove(&what);
            }
        }
        if let Some(event) = event {
            audit.log(&Entry { old: Some(&change.new), new: Some(&change.old), ..about(change, event) });
        }
        settled.push(change.seq);
    }
    undone.others += theirs.len();
}

/// Separates handler names; a name cannot contain it, because each is also the name of a directory.
const BETWEEN_HANDLERS: &str = "/";

/// Whether the number of the changed interrupt belongs to another interrupt now.
fn is_another_interrupt<H: Host>(host: &H, change: &Step) -> bool {
    host.handlers(&change.target).is_some_and(|now| {
        let mut was = change.comm.split(BETWEEN_HANDLERS).filter(|handler| !handler.is_empty());
        was.any(|handler| !now.iter().any(|present| present == handler))
    })
}

/// `None` if the target already has the old value, also if the change was never made.
fn put_back<H: Host>(host: &mut H, change: &Step) -> io::Result<Option<Event>> {
    let Some(now) = host.read(&change.target, change.new.aspect())? else { return Ok(Some(Event::Gone)) };
    if now.same(&change.old) {
        return Ok(None);
    }
    if is_another_interrupt(host, change) {
        return Ok(Some(Event::Gone));
    }
    if !change.explains(&now) {
        return Ok(Some(Event::LeftToOthers));
    }
    match host.write(&change.target, &change.old) {
        Ok(()) => Ok(Some(Event::Restored)),
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(Some(Event::Gone)),
        Err(error) => Err(error),
    }
}

impl Step {
    /// A change without a number.
    pub fn new(target: Place, comm: &str, rule: &str, old: Value, new: Value) -> Step {
        let (comm, rule) = (comm.to_owned(), rule.to_owned());
        Step { seq: 0, target, comm, rule, old, new, at: 0, from: None, batch: None, process: None }
    }

    /// The change that records what a child inherited from this change's target.
    pub fn inherited_by(&self, child: TaskKey, comm: &str) -> Step {
        let from = match &self.target {
            Place::Task(key) => Some(*key),
            _ => None,
        };
        Step { target: Place::Task(child), comm: comm.to_owned(), from, process: None, ..self.clone() }
    }
}
