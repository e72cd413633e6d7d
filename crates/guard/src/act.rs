//! Making changes, and taking them back.

use std::io;

use crate::aspect::{Target, Value};
use crate::audit::{Audit, Entry, Event};
use crate::host::Host;
use crate::journal::{Change, Journal, JournalError, Store};

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
    changes: &mut [Change],
) -> Result<Vec<Outcome>, JournalError> {
    journal.promise(changes)?;
    let mut outcomes = Vec::with_capacity(changes.len());
    let mut settled = Vec::new();
    let mut amended = Vec::new();
    let mut last: Option<(&Target, bool)> = None;
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
            Outcome::Done => amended.extend(amendment(host, change)),
            // Nothing was changed, so there is nothing to take back.
            Outcome::Gone | Outcome::Failed(_) => settled.push(change.seq),
        }
        audit.log(&entry(change, &outcome));
        outcomes.push(outcome);
    }
    journal.promise(&mut amended)?;
    if !settled.is_empty() {
        journal.settle(settled)?;
    }
    Ok(outcomes)
}

fn gone() -> io::Error {
    io::Error::from_raw_os_error(libc::ESRCH)
}

/// The kernel may set something near what was asked (CPUs that are there, a rounded number). What it has set is what undo
/// has to recognise.
fn amendment<H: Host>(host: &H, change: &Change) -> Option<Change> {
    // The rest it sets exactly or not at all.
    if !matches!(change.new, Value::Affinity(_) | Value::Text(_)) {
        return None;
    }
    let actual = host.read(&change.target, change.new.aspect()).ok()??;
    (!actual.same(&change.new)).then(|| Change { new: actual, ..change.clone() })
}

fn entry<'a>(change: &'a Change, outcome: &Outcome) -> Entry<'a> {
    let (event, errno) = match outcome {
        Outcome::Done => (Event::Applied, None),
        Outcome::Gone => (Event::Gone, None),
        Outcome::Failed(error) => (Event::Failed, error.raw_os_error()),
    };
    Entry { errno, ..about(change, event) }
}

fn about(change: &Change, event: Event) -> Entry<'_> {
    Entry {
        event,
        rule: Some(&change.rule),
        target: Some(&change.target),
        comm: matches!(change.target, Target::Task(_)).then_some(&change.comm),
        old: Some(&change.old),
        new: Some(&change.new),
        errno: None,
        reason: None,
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
    /// The system refused; they stay in the journal.
    pub failed: Vec<(Change, io::Error)>,
}

/// Takes changes back, the last one first, each only if the value is still what we have set. It may be cut off anywhere
/// and begun again.
///
/// # Errors
/// If it cannot be written down that they are settled; they are taken back nevertheless.
pub fn undo<H: Host, S: Store>(
    host: &mut H,
    journal: &mut Journal<S>,
    audit: &mut Audit,
    changes: &[Change],
) -> Result<Undone, JournalError> {
    let mut undone = Undone::default();
    let mut settled = Vec::with_capacity(changes.len());
    for change in changes.iter().rev() {
        match restore(host, change) {
            Ok(event) => {
                match event {
                    Some(Event::Restored) => undone.restored += 1,
                    Some(Event::Gone) => undone.gone += 1,
                    Some(_) => undone.others += 1,
                    None => undone.unchanged += 1,
                }
                if let Some(event) = event {
                    audit.log(&Entry { old: Some(&change.new), new: Some(&change.old), ..about(change, event) });
                }
                settled.push(change.seq);
            }
            Err(error) => {
                let errno = error.raw_os_error();
                audit.log(&Entry { errno, reason: Some("undo"), ..about(change, Event::Failed) });
                undone.failed.push((change.clone(), error));
            }
        }
    }
    journal.settle(settled)?;
    Ok(undone)
}

/// `None`: it is as before already, be it that the change was never made.
fn restore<H: Host>(host: &mut H, change: &Change) -> io::Result<Option<Event>> {
    let Some(now) = host.read(&change.target, change.new.aspect())? else { return Ok(Some(Event::Gone)) };
    if now.same(&change.old) {
        return Ok(None);
    }
    if !now.same(&change.new) {
        return Ok(Some(Event::LeftToOthers));
    }
    match host.write(&change.target, &change.old) {
        Ok(()) => Ok(Some(Event::Restored)),
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(Some(Event::Gone)),
        Err(error) => Err(error),
    }
}

impl Change {
    /// A change that has no number yet.
    pub fn new(target: Target, comm: &str, rule: &str, old: Value, new: Value) -> Change {
        Change { seq: 0, target, comm: comm.to_owned(), rule: rule.to_owned(), old, new }
    }
}
