//! Making changes, and taking them back.

use std::io;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::audit::{Audit, Entry, Event};
use crate::host::Host;
use crate::journal::{Journal, JournalError, Step, Store};
use unstarve_change::TaskKey;
use unstarve_change::{Aspect, Place, Value};

/// What came of a change.
#[derive(Debug)]
pub enum Outcome {
    /// It is so.
    Done,
    /// The task or file is gone.
    Gone,
    /// The system refused.
    Failed(io::Error),
}

/// Writes changes down, then makes them. The outcomes are in the order of the changes, which have got their numbers.
///
/// # Errors
/// If they cannot be written down; then nothing was changed.
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
        // A task's changes follow each other: one look for all of them.
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
            // At once: an undo after a kill has to recognise it.
            Outcome::Done => {
                if let Some(amended) = amendment(host, change) {
                    journal.amend(&mut [amended]);
                }
            }
            // Nothing was changed, so there is nothing to take back.
            Outcome::Gone | Outcome::Failed(_) => settled.push(change.seq),
        }
        audit.log(&entry(change, &outcome));
        outcomes.push(outcome);
    }
    journal.settle(settled);
    audit.flush();
    Ok(outcomes)
}

/// Writes into the changes of threads which process will have the value if they call execve.
pub(crate) fn name_processes<H: Host>(host: &H, changes: &mut [Step]) {
    for change in changes {
        change.process = process_that_may_take_over(host, change);
    }
}

/// The process that will have a thread's new value if the thread calls execve; not where it has it already.
fn process_that_may_take_over<H: Host>(host: &H, step: &Step) -> Option<TaskKey> {
    let Place::Task(key) = step.target else { return None };
    let process = host.process_of(key)?;
    let its = host.read(&Place::Task(process), step.new.aspect()).ok()??;
    (!step.explains(&its)).then_some(process)
}

/// Writes down what tasks were born with. Nothing is changed now, and everything is taken back as if we had set it.
///
/// # Errors
/// If it cannot be written down.
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

/// The kernel may set something near what was asked (CPUs that are there, a rounded number). What it has set is what undo
/// has to recognise.
fn amendment<H: Host>(host: &H, change: &Step) -> Option<Step> {
    // The rest it sets exactly or not at all.
    if !matches!(change.new, Value::Affinity(_) | Value::Content(_)) {
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

/// What became of changes that were taken back.
#[derive(Debug, Default)]
pub struct Undone {
    /// As before again.
    pub restored: usize,
    /// As before already.
    pub unchanged: usize,
    /// Changed by somebody else since, and left so.
    pub others: usize,
    /// The task or file is gone.
    pub gone: usize,
    /// Tasks' values that were inherited and not in the journal; they are as before, too.
    pub inherited: usize,
    /// The system refused; they stay in the journal.
    pub failed: Vec<(Step, io::Error)>,
    /// Children were still being born with these values after so many looks that somebody must be racing with us.
    pub racing: bool,
}

impl Undone {
    /// Both together.
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

    /// Whether nothing is left that we have set.
    pub fn is_complete(&self) -> bool {
        self.failed.is_empty() && !self.racing
    }
}

/// How often children of changed tasks are looked for. Each look finds what was born during the one before from a task that was
/// not restored yet; more than a few are needed only where somebody forks faster than we look.
const LOOKS_FOR_HEIRS: usize = 50;

/// How often the same value is taken back from the same heir.
const TRIES: u32 = 4;

/// Takes changes back, the last one first, each only if the value is still what we have set, and the same from tasks that have
/// inherited it. Writes nothing down but in `audit`, so it needs no space; it may be cut off anywhere and begun again.
/// Gives also the numbers of those for which nothing is left to do.
pub fn restore<H: Host>(host: &mut H, audit: &mut Audit, changes: &[Step]) -> (Undone, Vec<u64>) {
    let mut undone = Undone::default();
    let mut settled = Vec::with_capacity(changes.len());
    take_back(host, audit, changes, &mut undone, &mut settled);
    let mut known = changes.to_vec();
    undone.racing = true;
    let mut is_last = false;
    let (mut tried, mut failed_heirs) = (FxHashMap::<_, u32>::default(), false);
    for _ in 0..LOOKS_FOR_HEIRS {
        // A child that has what we set on its parent has it from there, also where a change of its own looks like
        // somebody else's by now: a guard that was killed in here before may have come half way.
        let mut heirs = host.heirs(&known);
        // What reads the same again and again after it was written (a cpuset clips an affinity) is as it can be. A few times it
        // may, on the way through several changes.
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
        // Who tries again needs the changes of their parents to find them.
        settled.clear();
    }
    (undone, settled)
}

/// As [`restore`], and settles them in the journal. What was inherited from a task stays possible until its change is settled, so
/// that is done last.
pub fn undo<H: Host, S: Store>(host: &mut H, journal: &mut Journal<S>, audit: &mut Audit, changes: &[Step]) -> Undone {
    let (undone, settled) = restore(host, audit, changes);
    journal.settle(settled);
    undone
}

/// Takes changes back of a task whose children are known and keep what they have.
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
        // An earlier change of the same may tell that what looks like somebody else's is what it was: a guard that was killed
        // while it took things back had come so far.
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

/// What no name of a handler has in it, for each is one of a directory.
const BETWEEN_HANDLERS: &str = "/";

/// Whether the number of the interrupt that was changed is another one's by now.
fn is_another_interrupt<H: Host>(host: &H, change: &Step) -> bool {
    host.handlers(&change.target).is_some_and(|now| {
        let mut was = change.comm.split(BETWEEN_HANDLERS).filter(|handler| !handler.is_empty());
        was.any(|handler| !now.iter().any(|present| present == handler))
    })
}

/// `None`: it is as before already, be it that the change was never made.
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
    /// A change that has no number yet.
    pub fn new(target: Place, comm: &str, rule: &str, old: Value, new: Value) -> Step {
        let (comm, rule) = (comm.to_owned(), rule.to_owned());
        Step { seq: 0, target, comm, rule, old, new, at: 0, from: None, batch: None, process: None }
    }

    /// What a child was born with that was set on its parent by this.
    pub fn inherited_by(&self, child: TaskKey, comm: &str) -> Step {
        let from = match &self.target {
            Place::Task(key) => Some(*key),
            _ => None,
        };
        Step { target: Place::Task(child), comm: comm.to_owned(), from, process: None, ..self.clone() }
    }
}
