//! Merges the files of hosts, hour by hour, and drops hours that are too old.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use unstarve_model::WallTime;
use unstarve_tables::Partition;

use super::{manifest, retention, sweep};
use crate::commit::{Commit, Input, Name, Output, Retired};
use crate::error::FleetError;
use crate::merge::merge;
use crate::merge::refusals::{self, Refusals};
use crate::problem::{Kind, Problem, absorb};
use crate::store::{Depth, Holds, Hour, Readers, State, Store};

/// What a compaction does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// The time now.
    pub now: WallTime,
    /// How long after its end an hour is left alone: hosts still write.
    pub settle: Duration,
    /// How long a file that does not count any more is left for those who read it still.
    pub grace: Duration,
    /// Hours that are older are dropped.
    pub keep: Option<Duration>,
}

/// What a compaction did.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Debug)]
pub struct Done {
    /// Hours that got a commit with merged files.
    pub hours: u64,
    /// Files of hosts that were merged, and their bytes.
    pub inputs: u64,
    /// Their bytes.
    pub input_bytes: u64,
    /// Their rows.
    pub rows: u64,
    /// Files that were written.
    pub outputs: u64,
    /// Their bytes.
    pub output_bytes: u64,
    /// Hours that are no longer kept since now.
    pub dropped: u64,
    /// Files that were removed.
    pub removed: u64,
    /// Files of hosts in hours that have not ended for long enough: they are left for a later run.
    pub waiting: u64,
    /// When the first of these hours can be merged.
    pub waiting_until: Option<WallTime>,
    /// Commits that another compactor made first.
    pub lost: u64,
    /// Files of hosts that an earlier run refused and that are the same: they were not read again.
    pub refused_before: u64,
    /// What is beside the tables and may have been meant to be in them: it is left alone.
    pub beside: Vec<PathBuf>,
    /// What was left alone.
    pub problems: Vec<Problem>,
}

/// How often another compactor may be faster.
const TRIES: u32 = 8;

/// Merges what hosts have written, drops what is too old, writes the manifest, and removes what has not counted for long enough: not before the
/// manifest has stopped to list it. What is wrong with an hour or a file is a problem; the rest goes on.
///
/// # Errors
/// If the directory cannot be read or has files and no table, or the manifest not be written.
pub fn compact(store: &Store, options: &Options) -> Result<Done, FleetError> {
    let mut done = Done::default();
    // Nothing is written where nothing is.
    if store.holds()? == Holds::Nothing {
        return Ok(done);
    }
    done.beside = store.beside()?;
    let hours = store.hours(&mut done.problems)?;
    let oldest = retention::oldest(store, &hours, options, &mut done.problems)?;
    let mut is_doubted = false;
    let mut refusals = Refusals::read(store, options.now, &mut done.problems);
    for partition in &hours {
        let before = std::mem::take(&mut done.problems);
        let result = one(store, partition, oldest, options, &mut refusals, &mut done);
        let found = std::mem::replace(&mut done.problems, before);
        absorb(&mut done.problems, found);
        if let Err(error) = result {
            is_doubted |= error.is_of_commit();
            Problem::of(Kind::Place, partition.path(), &chain(&error)).add(&mut done.problems);
        }
    }
    // Whoever writes the manifest is the one whose commits may not be passed over. A user whom another one's commits mean nothing must not become that, nor
    // remove what they list.
    if is_doubted {
        let why = "left as it is, and nothing is removed: a commit is not believed";
        Problem::of(Kind::Store, manifest::NAME, why).add(&mut done.problems);
        return Ok(done.sorted());
    }
    manifest::write(store)?;
    if let Err(error) = refusals.write(store) {
        let why = format!("files that were refused are read again in the next run: {}", chain(&error));
        Problem::of(Kind::Store, refusals::NAME, &why).add(&mut done.problems);
    }
    for partition in &hours {
        let swept = store.hour(partition).and_then(|hour| sweep::sweep(&hour, options, &mut done));
        if let Err(error) = swept {
            Problem::of(Kind::Place, partition.path(), &chain(&error)).add(&mut done.problems);
        }
    }
    Ok(done.sorted())
}

impl Done {
    /// The hour has not ended for long enough.
    fn leave(&mut self, partition: &Partition, state: &State, options: &Options) {
        let files = state.files.loose.len() as u64;
        if files > 0 {
            self.waiting += files;
            let until = settled_at(partition, options);
            self.waiting_until = self.waiting_until.into_iter().chain(until).min();
        }
    }

    fn sorted(mut self) -> Done {
        self.problems.sort();
        self.problems.dedup();
        self
    }
}

pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let cause = std::iter::successors(error.source(), |cause| cause.source());
    cause.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

/// An hour; problems are those of this one.
fn one(
    store: &Store,
    partition: &Partition,
    oldest: Option<WallTime>,
    options: &Options,
    refusals: &mut Refusals,
    done: &mut Done,
) -> Result<(), FleetError> {
    let hour = store.hour(partition)?;
    for tried in 1.. {
        // What was wrong a moment before is found again.
        done.problems.clear();
        let mut state = State::of(&hour, Depth::Needed, &mut done.problems)?;
        if !state.is_whole && (!state.many_small().is_empty() || state.wants_renewal(options.now)) {
            done.problems.clear();
            state = State::of(&hour, Depth::Whole, &mut done.problems)?;
        }
        let made = if !state.is_dropped() && oldest.is_some_and(|oldest| partition.is_before(oldest)) {
            Some(Made::dropped(&hour, &state, options))
        } else if is_settled(partition, options) {
            let Some(table) = unstarve_tables::named(&partition.table) else {
                let why = "no table of this version; left alone";
                Problem::of(Kind::Place, format!("table={}", partition.table), why).add(&mut done.problems);
                return Ok(());
            };
            let merged = if state.is_dropped() { None } else { merge(&hour, table, &state, options, refusals, done)? };
            let renewed = || state.wants_renewal(options.now).then(|| Made::renewed(&hour, &state, options));
            merged.or_else(renewed)
        } else {
            done.leave(partition, &state, options);
            refusals.keep(&hour);
            None
        };
        let Some(made) = made else { return Ok(()) };
        if made.commit(&hour, &state)? {
            made.count(done);
            return Ok(());
        }
        done.lost += 1;
        made.take_back(&hour)?;
        if tried == TRIES {
            return Err(FleetError::Busy { path: hour.path().to_owned(), tries: TRIES });
        }
    }
    Ok(())
}

fn is_settled(partition: &Partition, options: &Options) -> bool {
    settled_at(partition, options).is_some_and(|at| at <= options.now)
}

/// From when on an hour is merged.
fn settled_at(partition: &Partition, options: &Options) -> Option<WallTime> {
    const HOUR: u64 = 3_600_000_000_000;
    let settle = u64::try_from(options.settle.as_nanos()).unwrap_or(u64::MAX);
    partition.begin().map(|begin| WallTime(begin.0.saturating_add(HOUR).saturating_add(settle)))
}

/// What a commit is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum What {
    Merged,
    Dropped,
    Renewed,
}

/// A commit that is yet to be made, with its files written.
pub(crate) struct Made {
    pub what: What,
    pub commit: Commit,
    pub readers: Readers,
    pub outputs: Vec<Output>,
    pub inputs: Vec<Input>,
}

impl Made {
    fn dropped(hour: &Hour<'_>, state: &State, options: &Options) -> Made {
        let retired = state.files.outputs.iter().collect::<Vec<_>>();
        let mut commit = follow(hour, state, &[], &retired, &[], options);
        commit.head.dropped = true;
        // No file of it counts, whatever its name.
        commit.inputs = Vec::new();
        Made { what: What::Dropped, commit, readers: Readers::ALL, outputs: Vec::new(), inputs: Vec::new() }
    }

    /// What holds already, once more: by a commit that says its hour, and whose number nobody can use any more.
    fn renewed(hour: &Hour<'_>, state: &State, options: &Options) -> Made {
        let mut commit = follow(hour, state, &[], &[], &[], options);
        commit.head.dropped = state.is_dropped();
        Made { what: What::Renewed, commit, readers: Readers::ALL, outputs: Vec::new(), inputs: Vec::new() }
    }

    /// Makes the commit; not if another compactor was faster.
    fn commit(&self, hour: &Hour<'_>, state: &State) -> Result<bool, FleetError> {
        let number = self.commit.head.number;
        let is_made = match hour.commit(&self.commit, self.readers) {
            // Without its name in the directory nobody lists its files. If it cannot be seen whether it is there, they stay.
            Err(error) if hour.is_absent(&Name::commit(number)) => {
                let _ = self.take_back(hour);
                return Err(error);
            }
            is_made => is_made?,
        };
        // Numbers were passed over that somebody took who is not believed. If a compactor had one of them meanwhile, this commit does not know it.
        if is_made && number > state.number() + 1 && hour.has_commit_between(state.number(), number)? {
            hour.remove(&Name::commit(number))?;
            return Ok(false);
        }
        Ok(is_made)
    }

    fn count(&self, done: &mut Done) {
        match self.what {
            What::Merged => done.hours += 1,
            What::Dropped => done.dropped += 1,
            What::Renewed => {}
        }
        done.inputs += self.inputs.len() as u64;
        done.input_bytes += self.inputs.iter().map(|input| input.bytes).sum::<u64>();
        done.rows += self.inputs.iter().map(|input| input.rows).sum::<u64>();
        done.outputs += self.outputs.len() as u64;
        let hourly = |output: &Output| output.hourly.as_ref().map_or(0, |hourly| hourly.bytes);
        done.output_bytes += self.outputs.iter().map(|output| output.bytes + hourly(output)).sum::<u64>();
    }

    /// Another commit has its number, so that nobody will ever list its files.
    fn take_back(&self, hour: &Hour<'_>) -> Result<(), FleetError> {
        self.outputs.iter().flat_map(Output::names).try_for_each(|name| hour.remove(name))
    }
}

/// The commit after that of an hour.
pub(crate) fn follow(
    hour: &Hour<'_>,
    state: &State,
    outputs: &[Output],
    merged: &[&Output],
    inputs: &[Input],
    options: &Options,
) -> Commit {
    let mut commit = Commit::new(state.next(), hour.key(), options.now.0);
    let is_there = |old: &&Retired| state.entries.iter().any(|entry| entry.name == old.name);
    let since_now = |name: &str| Retired { name: name.to_owned(), at_ns: options.now.0 };
    let retired = state.commit.iter().flat_map(|commit| &commit.head.retired).filter(is_there).cloned();
    commit.head.retired = retired.chain(merged.iter().map(|output| since_now(&output.name))).collect();
    let retired = state.commit.iter().flat_map(|commit| &commit.head.retired_hourly).filter(is_there).cloned();
    let hourly = merged.iter().filter_map(|output| Some(since_now(&output.hourly.as_ref()?.name)));
    commit.head.retired_hourly = retired.chain(hourly).collect();
    let kept = state.files.outputs.iter().filter(|output| !merged.contains(output));
    commit.head.outputs = kept.chain(outputs).cloned().collect();
    commit.inputs = state.commit.iter().flat_map(|commit| &commit.inputs).chain(inputs).cloned().collect();
    commit
}
