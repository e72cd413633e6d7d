//! An hour of a table in all trees, as it is found on disk.
//!
//! A commit *holds* when all its merged files are in their place: from then on its hosts' files do not count any more. Before
//! that they do, and the files of the commit that are in place already do not. So a reader that looks for commits first, then for
//! merged files, then for hosts' files sees each row once, whatever a compactor does meanwhile.
//!
//! Of a commit that lost a merged file after its hosts' files were removed, the merged files that are left count: few rows and a
//! word are better than none.

use std::collections::BTreeSet;

use unstarve_tables::Partition;

use super::directory::Store;
use super::dropped::DroppedHours;
use super::place::{Entry, Place, Readers};
use super::trees::Tree;
use crate::commit::{Commit, Input, Name, Output};
use crate::error::{FleetError, chain};
use crate::problem::{Kind, Problem};

/// An hour.
pub(crate) struct Hour<'a> {
    store: &'a Store,
    pub partition: Partition,
    key: String,
    /// What hosts wrote.
    pub hosts: Tied<'a>,
    /// Merged rows.
    pub merged: Tied<'a>,
    /// Rows by the hour.
    pub hourly: Tied<'a>,
    /// Commits and what waits for its place.
    pub state: Tied<'a>,
    /// By number.
    pub commits: Vec<Made>,
    /// Inputs of commits whose merged files count, and of the others.
    known: [BTreeSet<String>; 2],
}

/// A directory of an hour with its entries; without a directory there are none.
#[derive(Default)]
pub(crate) struct Tied<'a> {
    pub place: Option<Place<'a>>,
    pub entries: Vec<Entry>,
}

/// A commit that was made.
pub(crate) struct Made {
    pub commit: Commit,
    /// Whether its merged files are in their place.
    pub holds: bool,
    /// Whether it does not hold, and hosts' files of it are missing, too: rows are lost. The merged files that are there count, or the hosts'
    /// files if there is none.
    pub has_lost: bool,
}

/// How much of the commits to read: each can have a hundred thousand lines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Depth {
    /// The inputs only if there are hosts' files.
    Needed,
    /// All.
    Whole,
}

/// More than any version has written.
const MAX_COMMIT_FILE_BYTES: u64 = 256 << 20;

impl Tied<'_> {
    fn of<'a>(place: Option<Place<'a>>, strange: &mut Vec<Problem>) -> Result<Tied<'a>, FleetError> {
        let Some(place) = place else { return Ok(Tied::default()) };
        let (entries, names) = place.list()?;
        strange.extend(Problem::strange_name(&place.shown(""), names));
        Ok(Tied { place: Some(place), entries })
    }

    /// The regular file with this name.
    pub fn file(&self, name: &str) -> Option<&Entry> {
        let at = self.entries.binary_search_by(|entry| entry.name.as_str().cmp(name)).ok()?;
        self.entries.get(at).filter(|entry| entry.is_regular)
    }

    /// The regular files of a kind.
    pub fn files(&self, kind: Name) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(move |entry| entry.is_regular && entry.kind == kind)
    }
}

impl<'a> Hour<'a> {
    /// Reads an hour. What has a data file's name and is not a regular file is a problem.
    ///
    /// # Errors
    /// If it cannot be read, or a commit cannot: wrong rows are worse than none.
    pub fn read(
        store: &'a Store,
        partition: &Partition,
        depth: Depth,
        problems: &mut Vec<Problem>,
    ) -> Result<Hour<'a>, FleetError> {
        let mut found = Vec::new();
        // In this order: see above.
        let state = Tied::of(store.place(Tree::State, partition)?, &mut found)?;
        let has_parts = || -> Result<bool, FleetError> {
            let hosts = store.place(Tree::Hosts, partition)?;
            let names = hosts.map(|hosts| hosts.names()).transpose()?.unwrap_or_default();
            Ok(names.texts.iter().any(|name| Name::of(name) == Name::Part))
        };
        let is_whole = depth == Depth::Whole || (!state.entries.is_empty() && has_parts()?);
        let key = partition.path().display().to_string();
        let Some(commits) = read_commits(&state, &key, is_whole)? else {
            // One was removed meanwhile: the hour was dropped, which a newer one says.
            return Hour::read(store, partition, depth, problems);
        };
        let merged = Tied::of(store.place(Tree::Merged, partition)?, &mut found)?;
        let hourly = Tied::of(store.place(Tree::Hourly, partition)?, &mut found)?;
        let hosts = Tied::of(store.place(Tree::Hosts, partition)?, &mut found)?;
        if !is_whole && !commits.is_empty() && hosts.files(Name::Part).next().is_some() {
            // It has come meanwhile, perhaps once more.
            return Hour::read(store, partition, Depth::Whole, problems);
        }
        let in_place = |output: &Output| is_in_place(&merged, output);
        let made = |commit: Commit| {
            let holds = commit.head.dropped || commit.head.outputs.iter().all(in_place);
            Made { holds, has_lost: !holds && !has_inputs(&hosts, &commit), commit }
        };
        let commits: Vec<Made> = commits.into_iter().map(made).collect();
        let is_merged = |made: &Made| made.holds || (made.has_lost && made.commit.head.outputs.iter().any(in_place));
        let known = [true, false].map(|merged| {
            let of = commits.iter().filter(|made| is_merged(made) == merged).flat_map(|made| &made.commit.inputs);
            of.map(|input| input.name.clone()).collect()
        });
        let hour = Hour { store, partition: partition.clone(), key, hosts, merged, hourly, state, commits, known };
        found.extend(hour.odd());
        found.into_iter().for_each(|problem| problem.add(problems));
        Ok(hour)
    }

    /// What is not as it should be.
    fn odd(&self) -> Vec<Problem> {
        let mut odd = Vec::new();
        if let Some(hosts) = &self.hosts.place {
            for entry in &self.hosts.entries {
                let why = match (entry.kind, entry.is_regular) {
                    (Name::Part, false) => "not a regular file; links are not followed",
                    (Name::Merged, _) => {
                        "left alone: merged rows of a store, whose commits say which count; copy hosts' files"
                    }
                    _ => continue,
                };
                odd.push(Problem::of(Kind::Link, hosts.shown(&entry.name), why));
            }
            let below = self.hosts.entries.iter().filter(|entry| entry.is_directory && entry.kind == Name::Other);
            odd.extend(Problem::stray(&hosts.shown(""), below.map(|entry| entry.name.clone()).collect()));
        }
        let listed = self.listed();
        for (tied, why) in [
            (
                &self.merged,
                "no commit lists it, and every engine reads it: copied from elsewhere, or its state is lost",
            ),
            (&self.hourly, "no commit lists it"),
        ] {
            let Some(place) = &tied.place else { continue };
            let unlisted = tied.entries.iter().filter(|entry| !listed.contains(entry.name.as_str()));
            odd.extend(unlisted.map(|entry| Problem::of(Kind::Commit, place.shown(&entry.name), why)));
        }
        odd
    }

    pub fn store(&self) -> &'a Store {
        self.store
    }

    /// Its name in commits: `table=…/date=…/hour=…`.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The next number of a commit.
    pub fn next(&self) -> u64 {
        self.commits.last().map_or(0, |made| made.commit.head.number).saturating_add(1)
    }

    /// The newest commit.
    pub fn newest(&self) -> Option<&Commit> {
        self.commits.last().map(|made| &made.commit)
    }

    /// Whether the hour was dropped.
    pub fn is_dropped(&self) -> bool {
        self.commits.iter().any(|made| made.commit.head.dropped)
    }

    /// The merged files that count.
    pub fn outputs(&self) -> impl Iterator<Item = &Output> {
        let counting = self.commits.iter().filter(|made| (made.holds || made.has_lost) && !self.is_dropped());
        let outputs = counting.flat_map(|made| &made.commit.head.outputs);
        outputs.filter(|output| is_in_place(&self.merged, output))
    }

    /// Merged files that are missing and whose rows nobody has any more.
    pub fn lost(&self) -> Vec<Problem> {
        let lost = self.commits.iter().filter(|made| made.has_lost && !self.is_dropped());
        let missing = lost.flat_map(|made| &made.commit.head.outputs);
        let missing = missing.filter(|output| !is_in_place(&self.merged, output));
        let [name, layout] = Tree::Merged.steps();
        let below = std::path::Path::new(name).join(layout).join(self.partition.path());
        missing.map(|output| Problem::of(Kind::Commit, below.join(&output.name), &self.why_missing(true))).collect()
    }

    /// What is said of a merged file that is neither in its place nor waiting for it.
    fn why_missing(&self, has_lost: bool) -> String {
        let rest = if has_lost {
            "hosts' files of it were removed, so rows are lost: those that are left of the commit count; copy the file back"
        } else {
            "its hosts' files stay, and count"
        };
        format!("a commit lists it, and it is not there, or has another size: {rest}")
    }

    /// Whether the rows by the hour of a merged file can be read.
    pub fn has_hourly(&self, output: &Output) -> bool {
        let bytes = output.hourly.map(|hourly| hourly.bytes);
        bytes.is_some() && self.hourly.file(&output.name).map(|entry| entry.bytes) == bytes
    }

    /// Hosts' files that count.
    pub fn loose(&self) -> impl Iterator<Item = &Entry> {
        let [held, _] = &self.known;
        self.hosts.files(Name::Part).filter(|entry| !self.is_dropped() && !held.contains(&entry.name))
    }

    /// Hosts' files that no commit has, sorted by their readers. A commit that does not hold yet keeps its own.
    pub fn unmerged(&self) -> Vec<&Entry> {
        let [_, begun] = &self.known;
        let mut unmerged: Vec<&Entry> = self.loose().filter(|entry| !begun.contains(&entry.name)).collect();
        unmerged.sort_by_key(|entry| entry.readers);
        unmerged
    }

    /// Hosts' files that were merged and are still there, with the time since when.
    pub fn merged_inputs(&self) -> impl Iterator<Item = (u64, &Input)> {
        let holding = self.commits.iter().filter(|made| made.holds);
        let inputs = holding.flat_map(|made| made.commit.inputs.iter().map(|input| (made.commit.head.at_ns, input)));
        inputs.filter(|(_, input)| self.hosts.file(&input.name).is_some())
    }

    /// What killed compactors left: nobody else writes here while the lock is held.
    pub fn garbage(&self) -> impl Iterator<Item = &Entry> {
        let listed = self.listed();
        self.state.entries.iter().filter(move |entry| match entry.kind {
            Name::Merged => !listed.contains(entry.name.as_str()),
            Name::Hourly => !listed.iter().any(|name| Name::waiting_hourly(name) == entry.name),
            _ => entry.name.starts_with(super::HIDDEN_PREFIX),
        })
    }

    /// Names of merged files in commits.
    fn listed(&self) -> BTreeSet<&str> {
        let outputs = self.commits.iter().flat_map(|made| &made.commit.head.outputs);
        outputs.map(|output| output.name.as_str()).collect()
    }

    /// Writes a commit. Its files are in `state/` and on disk; it counts from now on, whatever happens.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn commit(&self, state: &Place<'_>, commit: &Commit) -> Result<(), FleetError> {
        let text = commit.encode();
        // Whoever may list the store may know what is in it; the rows have readers of their own.
        let readers = Readers::of(self.store.mode, self.store.group);
        state.write(&Name::commit(commit.head.number), readers, |file| std::io::Write::write_all(file, &text))
    }

    /// Moves the files of a commit to their place: rows by the hour first, so that whoever finds merged rows finds these, too.
    ///
    /// # Errors
    /// If they cannot be moved, or one is missing.
    pub fn put_in_place(&self, state: &Place<'_>, commit: &Commit) -> Result<(), FleetError> {
        if commit.head.outputs.is_empty() {
            return Ok(());
        }
        let merged = self.store.make(Tree::Merged, &self.partition)?;
        let (waiting, placed) = (state.names()?.texts, merged.list()?.0);
        let has = |name: &String| waiting.contains(name);
        for output in &commit.head.outputs {
            let hourly = Name::waiting_hourly(&output.name);
            if output.hourly.is_some() && has(&hourly) {
                let place = self.store.make(Tree::Hourly, &self.partition)?;
                state.move_to(&hourly, &place, &output.name)?;
                place.sync()?;
            }
            let is_placed = |entry: &Entry| entry.name == output.name && entry.bytes == output.bytes;
            match (has(&output.name), placed.iter().any(is_placed)) {
                (_, true) => {}
                (true, false) => state.move_to(&output.name, &merged, &output.name)?,
                (false, false) => {
                    let why = self.why_missing(!has_inputs(&self.hosts, commit));
                    return Err(FleetError::Rows { path: merged.path().join(&output.name), why });
                }
            }
        }
        merged.sync()?;
        state.sync()
    }
}

/// Whether a merged file is where readers look for it, as its commit says.
fn is_in_place(merged: &Tied<'_>, output: &Output) -> bool {
    merged.file(&output.name).is_some_and(|entry| entry.bytes == output.bytes)
}

/// Whether all hosts' files of a commit are still there.
fn has_inputs(hosts: &Tied<'_>, commit: &Commit) -> bool {
    // Without hosts' files, their names were not read.
    commit.inputs.len() as u64 == commit.head.inputs
        && commit.inputs.iter().all(|input| hosts.file(&input.name).is_some_and(|entry| entry.bytes == input.bytes))
}

/// `None` if one of those that were listed is not there any more.
fn read_commits(state: &Tied<'_>, key: &str, is_whole: bool) -> Result<Option<Vec<Commit>>, FleetError> {
    let Some(place) = &state.place else { return Ok(Some(Vec::new())) };
    let mut commits = Vec::new();
    for entry in state.entries.iter().filter(|entry| entry.is_regular) {
        let Name::Commit(number) = entry.kind else { continue };
        let decoded = if is_whole {
            let Some(content) = place.read(&entry.name, MAX_COMMIT_FILE_BYTES)? else { return Ok(None) };
            Commit::decode(number, key, &content.bytes)
        } else {
            let Some(line) = place.read_line(&entry.name, MAX_COMMIT_FILE_BYTES)? else { return Ok(None) };
            Commit::decode_head(number, key, &line)
        };
        let bad = |source| FleetError::Commit { path: place.path().join(&entry.name), source };
        commits.push(decoded.map_err(bad)?);
    }
    commits.sort_by_key(|commit| commit.head.number);
    Ok(Some(commits))
}

impl Store {
    /// All hours of the store.
    ///
    /// # Errors
    /// If it cannot be read, or others may have written what only a compactor writes.
    pub(crate) fn all_hours(&self, problems: &mut Vec<Problem>) -> Result<Vec<Partition>, FleetError> {
        let mut hours = BTreeSet::new();
        for tree in [Tree::State, Tree::Merged, Tree::Hosts] {
            hours.extend(self.hours(tree, problems)?);
        }
        Ok(hours.into_iter().collect())
    }

    /// All hours of the store but those that were [dropped](DroppedHours) long ago. If such an hour has merged files, that is a problem.
    ///
    /// # Errors
    /// As [`Store::all_hours`].
    pub(crate) fn kept_hours(
        &self,
        dropped: &DroppedHours,
        problems: &mut Vec<Problem>,
    ) -> Result<Vec<Partition>, FleetError> {
        let (gone, kept): (Vec<Partition>, Vec<Partition>) =
            self.all_hours(problems)?.into_iter().partition(|hour| dropped.has(hour));
        let [name, layout] = Tree::Merged.steps();
        for hour in gone {
            if self.place(Tree::Merged, &hour)?.is_some() {
                let why = "the hour was dropped, and every engine reads what is here: copied from elsewhere";
                let path = std::path::Path::new(name).join(layout).join(hour.path());
                Problem::of(Kind::Place, path, why).add(problems);
            }
        }
        Ok(kept)
    }

    /// Reads an hour; an error is a problem of that hour.
    pub(crate) fn try_hour(
        &self,
        partition: &Partition,
        depth: Depth,
        problems: &mut Vec<Problem>,
    ) -> Option<Hour<'_>> {
        let hour = Hour::read(self, partition, depth, problems);
        hour.inspect_err(|error| Problem::of(Kind::Place, partition.path(), &chain(error)).add(problems)).ok()
    }
}
