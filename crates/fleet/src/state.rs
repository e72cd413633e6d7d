use std::collections::BTreeSet;
use std::convert::Infallible;

use unstarve_tables::Partition;

use crate::FleetError;
use crate::store::{Entry, Hour, Store};
use crate::{Commit, Files, Name, Output, Problem, counting};

/// An hour as it is found.
pub(crate) struct State {
    /// What is in it.
    pub entries: Vec<Entry>,
    /// The commit that holds.
    pub commit: Option<Commit>,
    /// Whether the inputs of that commit were read: not where no file of a host is there and nobody asked for them.
    pub is_whole: bool,
    /// Which files count.
    pub files: Files,
}

/// How much of a commit is read. Behind its first line there may be a hundred thousand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Depth {
    /// Its inputs where there are files of hosts.
    Needed,
    /// All of it.
    Whole,
}

impl State {
    /// Looks at an hour. A name of a file that counts, and that is no file, is a problem.
    pub fn of(hour: &Hour<'_>, depth: Depth, problems: &mut Vec<Problem>) -> Result<State, FleetError> {
        let (entries, commit, is_whole) = newest(hour, depth)?;
        let mut names = Vec::new();
        for entry in &entries {
            if entry.is_regular {
                names.push(entry.name.clone());
            } else if matches!(entry.kind, Name::Part | Name::Merged(_)) {
                problems.push(Problem::new(hour.shown(&entry.name), "not a regular file; links are not followed"));
            }
        }
        let inputs = || Ok::<_, Infallible>(commit.clone().unwrap_or_else(|| Commit::new(0, 0)));
        let Ok(files) = counting(&names, commit.as_ref().map(|commit| &commit.head), inputs);
        Ok(State { entries, commit, is_whole, files })
    }

    /// The number of the commit that holds, 0 without any.
    pub fn number(&self) -> u64 {
        self.commit.as_ref().map_or(0, |commit| commit.head.number)
    }

    /// The outputs that count and have not as many rows as one may have.
    pub fn small(&self) -> impl Iterator<Item = &Output> {
        self.files.outputs.iter().filter(|output| !output.full)
    }

    /// Whether the hour is no longer kept.
    pub fn is_dropped(&self) -> bool {
        self.commit.as_ref().is_some_and(|commit| commit.head.dropped)
    }

    /// Merged rows that no commit lists and that none can list any more: their number is taken.
    pub fn garbage(&self) -> Vec<&Entry> {
        let (number, known) = (self.number(), self.listed());
        let is_garbage = |entry: &&Entry| match entry.kind {
            Name::Merged(made_for) => made_for <= number && !known.contains(entry.name.as_str()),
            _ => false,
        };
        self.entries.iter().filter(is_garbage).collect()
    }

    /// The outputs that the commit lists, those that are retired included.
    fn listed(&self) -> BTreeSet<&str> {
        let head = self.commit.iter().map(|commit| &commit.head);
        let names = head.flat_map(|head| {
            let outputs = head.outputs.iter().map(|output| output.name.as_str());
            outputs.chain(head.retired.iter().map(|old| old.name.as_str()))
        });
        names.collect()
    }
}

/// What is in an hour, and its newest commit. One that goes while it is being read was not the newest: another look.
fn newest(hour: &Hour<'_>, depth: Depth) -> Result<(Vec<Entry>, Option<Commit>, bool), FleetError> {
    const LOOKS: u32 = 8;
    for _ in 0..LOOKS {
        let entries = hour.list()?;
        let number = |entry: &Entry| match entry.kind {
            Name::Commit(number) => Some(number),
            _ => None,
        };
        let Some(number) = entries.iter().filter_map(number).max() else { return Ok((entries, None, true)) };
        let is_whole = depth == Depth::Whole || entries.iter().any(|entry| entry.kind == Name::Part);
        let commit = if is_whole {
            hour.read_commit(number)?
        } else {
            hour.read_head(number)?.map(|head| Commit { head, inputs: Vec::new() })
        };
        if commit.is_some() {
            return Ok((entries, commit, is_whole));
        }
    }
    Err(FleetError::Busy { path: hour.path().to_owned(), tries: LOOKS })
}

/// Which files of a store count, hour by hour: what a reader takes.
///
/// # Errors
/// If something cannot be read, or a commit is not believed.
pub fn live(store: &Store) -> Result<Vec<(Partition, Files)>, FleetError> {
    let mut problems = Vec::new();
    let mut live = Vec::new();
    for partition in store.hours(&mut problems)? {
        let state = State::of(&store.hour(&partition)?, Depth::Needed, &mut problems)?;
        live.push((partition, state.files));
    }
    Ok(live)
}
