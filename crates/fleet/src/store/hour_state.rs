//! The state of an hour on disk: its entries, its newest commit, and the files that count.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;

use unstarve_model::WallTime;
use unstarve_tables::Partition;

use super::commit_auth::NoCommit;
use super::directory::{Entry, Hour, Readers, Store};
use crate::commit::{Commit, Files, Name, Output, counting};
use crate::error::{FleetError, chain};
use crate::problem::{Kind, Problem};

/// This many small outputs with the same readers and columns are merged again.
pub(crate) const MIN_OUTPUTS_TO_MERGE: usize = 4;

/// An hour as found on disk.
pub(crate) struct State {
    /// All entries.
    pub entries: Vec<Entry>,
    /// The newest commit.
    pub commit: Option<Commit>,
    /// Whether that commit's inputs were read, too. They are needed only if there are hosts' files.
    pub is_whole: bool,
    /// Which files count.
    pub files: Files,
}

/// How much of a commit to read: it can have a hundred thousand lines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Depth {
    /// The inputs only if there are hosts' files.
    Needed,
    /// All of it.
    Whole,
}

impl State {
    /// Reads an hour. Something with a data file's name that is not a regular file is a problem.
    pub fn of(hour: &Hour<'_>, depth: Depth, problems: &mut Vec<Problem>) -> Result<State, FleetError> {
        let Newest { entries, strange, commit, is_whole } = newest(hour, depth, problems)?;
        let mut names = Vec::new();
        for entry in &entries {
            if entry.is_regular {
                names.push(entry.name.clone());
            } else if matches!(entry.kind, Name::Part | Name::Merged(_) | Name::Hourly(_)) {
                Problem::of(Kind::Link, hour.shown(&entry.name), "not a regular file; links are not followed")
                    .add(problems);
            }
        }
        let is_below = |entry: &&Entry| entry.is_directory && entry.kind == Name::Other;
        let below = entries.iter().filter(is_below).map(|entry| entry.name.clone()).collect();
        let left = [Problem::stray(&hour.shown(""), below), Problem::strange_name(&hour.shown(""), strange)];
        left.into_iter().flatten().for_each(|problem| problem.add(problems));
        let inputs = || Ok::<_, Infallible>(commit.clone().unwrap_or_else(|| Commit::new(0, "", 0)));
        let Ok(files) = counting(&names, commit.as_ref().map(|commit| &commit.head), inputs);
        Ok(State { entries, commit, is_whole, files })
    }

    /// The number of the newest commit; 0 if there is none.
    pub fn number(&self) -> u64 {
        self.commit.as_ref().map_or(0, |commit| commit.head.number)
    }

    /// The next free number. A number is taken if any file has it, even one of another program.
    pub fn next(&self) -> u64 {
        let taken: BTreeSet<u64> = self.entries.iter().filter_map(Entry::number).collect();
        let mut next = self.number().saturating_add(1);
        while taken.contains(&next) {
            next = next.saturating_add(1);
        }
        next
    }

    /// Whether a commit is due although there is nothing to merge: the newest one is an early version's and does not name its
    /// hour, or a compactor was killed a day ago and left files that become garbage only when their number is taken. Hosts can
    /// create files with such names and any mtime, so there is at most one such commit a day.
    pub fn wants_renewal(&self, now: WallTime) -> bool {
        const RENEWAL_SECONDS: u64 = 24 * 3600;
        let is_over = |since: u64| since.saturating_add(RENEWAL_SECONDS) <= now.0 / 1_000_000_000;
        let head = self.commit.as_ref().map(|commit| &commit.head);
        if head.is_some_and(|head| head.hour.is_none()) {
            return true;
        }
        if self.lacks_commit() {
            return false;
        }
        let next = self.next();
        let is_left = |entry: &Entry| entry.kind.made_for() == Some(next) && entry.is_regular && is_over(entry.written);
        head.is_none_or(|head| is_over(head.at_ns / 1_000_000_000)) && self.entries.iter().any(is_left)
    }

    /// Whether there are merged files and nothing else: a user copied them without their commit. A killed compactor cannot
    /// cause this, because hosts' files are removed only after a commit.
    pub fn lacks_commit(&self) -> bool {
        let is_merged = |entry: &Entry| matches!(entry.kind, Name::Merged(_)) && entry.is_regular;
        self.commit.is_none() && self.files.loose.is_empty() && self.entries.iter().any(is_merged)
    }

    /// The outputs that are due to be merged again, in groups with the same readers and columns. None of them is full.
    pub fn many_small(&self) -> Vec<Vec<&Output>> {
        let mut alike: BTreeMap<(Readers, &str), Vec<&Output>> = BTreeMap::new();
        for output in self.files.outputs.iter().filter(|output| !output.full) {
            alike.entry((self.readers(&output.name), &output.columns)).or_default().push(output);
        }
        alike.into_values().filter(|outputs| outputs.len() >= MIN_OUTPUTS_TO_MERGE).collect()
    }

    /// Hosts' files that are not merged yet, sorted by their readers.
    pub fn loose_by_readers(&self) -> Vec<&String> {
        let mut loose: Vec<&String> = self.files.loose.iter().collect();
        loose.sort_by_key(|name| self.readers(name));
        loose
    }

    /// Users who may read all outputs that count.
    pub fn readers_of_outputs(&self) -> Readers {
        let all = self.files.outputs.iter().map(|output| self.readers(&output.name));
        all.fold(Readers::default(), Readers::or)
    }

    fn readers(&self, name: &str) -> Readers {
        self.entry(name).map_or(Readers::default(), |entry| entry.readers)
    }

    /// The entry with this name.
    pub fn entry(&self, name: &str) -> Option<&Entry> {
        let at = self.entries.binary_search_by(|entry| entry.name.as_str().cmp(name)).ok()?;
        self.entries.get(at)
    }

    /// Whether the hour was dropped.
    pub fn is_dropped(&self) -> bool {
        self.commit.as_ref().is_some_and(|commit| commit.head.dropped)
    }

    /// Merged files that no commit lists or can still list, because their number is taken.
    pub fn garbage(&self) -> Vec<&Entry> {
        let (number, known) = (self.number(), self.listed());
        let is_garbage = |entry: &&Entry| {
            let is_taken = entry.kind.made_for().is_some_and(|made_for| made_for <= number);
            entry.is_regular && is_taken && !known.contains(entry.name.as_str())
        };
        self.entries.iter().filter(is_garbage).collect()
    }

    /// The outputs that the commit lists, retired ones included.
    fn listed(&self) -> BTreeSet<&str> {
        let head = self.commit.iter().map(|commit| &commit.head);
        let names = head.flat_map(|head| {
            let retired = head.retired.iter().chain(&head.retired_hourly).map(|old| old.name.as_str());
            head.outputs.iter().flat_map(Output::names).chain(retired)
        });
        names.collect()
    }
}

/// The entries of an hour, and its newest commit.
struct Newest {
    entries: Vec<Entry>,
    strange: Vec<String>,
    commit: Option<Commit>,
    is_whole: bool,
}

/// Finds the newest commit. If one disappears while it is read, a newer one exists: try again. Files that only have a commit's name are ignored.
fn newest(hour: &Hour<'_>, depth: Depth, problems: &mut Vec<Problem>) -> Result<Newest, FleetError> {
    const MAX_LOOKS: u32 = 8;
    'looks: for _ in 0..MAX_LOOKS {
        let (entries, strange) = hour.list()?;
        let is_whole = depth == Depth::Whole || entries.iter().any(|entry| entry.kind == Name::Part);
        let numbered = entries.iter().enumerate().filter_map(|(at, entry)| Some((entry.number()?, at)));
        let mut commits: Vec<(u64, usize)> = numbered.collect();
        commits.sort_unstable();
        let trusted = hour.store().trusted();
        for (number, at) in commits.into_iter().rev() {
            let found = match hour.why_ignored(&trusted, &entries[at]) {
                Some(why) => Err(NoCommit::Ignored(why)),
                None if is_whole => hour.read_commit(number),
                None => hour.read_head(number).map(|head| Commit { head, inputs: Vec::new() }),
            };
            match found {
                Ok(commit) => return Ok(Newest { commit: Some(commit), entries, strange, is_whole }),
                Err(NoCommit::Gone) => continue 'looks,
                Err(NoCommit::Failed(error)) => return Err(error),
                Err(NoCommit::Ignored(why)) => {
                    let why = format!("passed over: {}", chain(&why));
                    Problem::of(Kind::Commit, hour.shown(&Name::commit(number)), &why).add(problems);
                }
            }
        }
        return Ok(Newest { commit: None, entries, strange, is_whole: true });
    }
    Err(FleetError::Busy { path: hour.path().to_owned(), tries: MAX_LOOKS })
}

/// The files that a reader of the store takes, by hour.
///
/// # Errors
/// If something cannot be read, or a commit is not trusted.
pub fn live(store: &Store) -> Result<Vec<(Partition, Files)>, FleetError> {
    let mut problems = Vec::new();
    let mut live = Vec::new();
    for partition in store.hours(&mut problems)? {
        let state = State::of(&store.hour(&partition)?, Depth::Needed, &mut problems)?;
        live.push((partition, state.files));
    }
    Ok(live)
}
