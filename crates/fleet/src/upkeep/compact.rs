//! Compacts a store: merges the files of hosts, hour by hour, and drops hours that are too old.

use unstarve_model::WallTime;
use unstarve_tables::Partition;

use super::due::due;
use super::folding::Folding;
use super::{retention, sweep};
use crate::commit::{Commit, Output};
use crate::error::{FleetError, chain};
use crate::merge::{Done, Options, REFUSED_NAME, Refusals, merge};
use crate::problem::{Kind, Problem, add_all};
use crate::store::{Depth, DroppedHours, Holds, Hour, Place, Store, Tree};

/// Merges hosts' files, drops hours that are too old, and removes hosts' files that were merged longer ago than the grace period.
/// What a run that was killed had begun is finished first. An error of an hour or a file is reported as a problem; the rest
/// continues.
///
/// # Errors
/// If the directory is no store or cannot be read, or another process changes it.
pub fn compact(store: &Store, options: &Options) -> Result<Done, FleetError> {
    let mut done = Done::default();
    // Nothing is written into an empty directory.
    if store.holds()? == Holds::Nothing {
        return Ok(done);
    }
    let _locked = store.lock()?;
    done.beside = store.beside()?;
    let mut dropped = DroppedHours::read(store)?;
    let hours = store.kept_hours(&dropped, &mut done.problems)?;
    let mut folding = Folding::default();
    let oldest = retention::oldest(store, &hours, options, &mut done.problems)?;
    let mut refusals = Refusals::read(store, options.now, &mut done.problems);
    for partition in &hours {
        let before = std::mem::take(&mut done.problems);
        let result = compact_hour(store, partition, oldest, options, (&mut refusals, &mut folding), &mut done);
        let found = std::mem::replace(&mut done.problems, before);
        add_all(&mut done.problems, found);
        if let Err(error) = result {
            Problem::of(Kind::Place, partition.path(), &chain(&error)).add(&mut done.problems);
        }
    }
    if let Err(error) = folding.fold(store, &mut dropped, &mut done) {
        Problem::of(Kind::Store, "state", &chain(&error)).add(&mut done.problems);
    }
    if let Err(error) = refusals.write(store) {
        let why = format!("files that were refused are read again in the next run: {}", chain(&error));
        Problem::of(Kind::Store, REFUSED_NAME, &why).add(&mut done.problems);
    }
    Ok(done.sorted())
}

/// Compacts an hour, and removes what it does not need any more. `done.problems` has only this hour's.
fn compact_hour(
    store: &Store,
    partition: &Partition,
    oldest: Option<WallTime>,
    options: &Options,
    (refusals, folding): (&mut Refusals, &mut Folding),
    done: &mut Done,
) -> Result<(), FleetError> {
    let mut hour = Hour::read(store, partition, Depth::Needed, &mut done.problems)?;
    if finish(&hour, done)? {
        hour = Hour::read(store, partition, Depth::Needed, &mut done.problems)?;
    }
    if oldest.is_some_and(|oldest| partition.is_before(oldest)) {
        if !hour.is_dropped() {
            drop_hour(&hour, options, done)?;
        }
    } else if !hour.is_dropped() && !merge_hour(&hour, options, refusals, done)? {
        refusals.keep(hour.key());
    }
    let hour = Hour::read(store, partition, Depth::Needed, &mut Vec::new())?;
    sweep::sweep(&hour, options, done)?;
    folding.look_at(&hour, options);
    Ok(())
}

/// Finishes what a killed run had begun: moves the files of commits to their place, and takes those of a dropped hour away. Whether
/// there was something.
fn finish(hour: &Hour<'_>, done: &mut Done) -> Result<bool, FleetError> {
    let Some(state) = &hour.state.place else { return Ok(false) };
    if hour.is_dropped() {
        take_away(hour, state)?;
        return Ok(false);
    }
    let mut has_moved = false;
    for made in hour.commits.iter().filter(|made| !made.holds) {
        match hour.put_in_place(state, &made.commit) {
            Ok(()) => {
                done.finished += 1;
                has_moved = true;
            }
            Err(error) => Problem::of(Kind::Place, hour.partition.path(), &chain(&error)).add(&mut done.problems),
        }
    }
    Ok(has_moved)
}

/// Merges what is due. `false` if its time has not come.
fn merge_hour(
    hour: &Hour<'_>,
    options: &Options,
    refusals: &mut Refusals,
    done: &mut Done,
) -> Result<bool, FleetError> {
    let files = hour.unmerged().len() as u64;
    if files == 0 {
        return Ok(true);
    }
    let Some(table) = unstarve_tables::named(&hour.partition.table) else {
        let why = "no table of this version; left alone";
        Problem::of(Kind::Place, format!("table={}", hour.partition.table), why).add(&mut done.problems);
        return Ok(true);
    };
    let due = due(&hour.partition, hour.newest().map(|commit| commit.head.at_ns), options);
    if due > options.now {
        done.waiting += files;
        done.waiting_until = done.waiting_until.into_iter().chain([due]).min();
        return Ok(false);
    }
    let state = hour.store().make(Tree::State, &hour.partition)?;
    if let Some(commit) = merge(hour, &state, table, options, refusals, done)? {
        hour.put_in_place(&state, &commit)?;
        count(&commit, done);
    }
    Ok(true)
}

fn count(commit: &Commit, done: &mut Done) {
    let outputs = &commit.head.outputs;
    let bytes = |output: &Output| output.bytes + output.hourly.map_or(0, |hourly| hourly.bytes);
    done.hours += 1;
    done.inputs += commit.inputs.len() as u64;
    done.input_bytes += commit.inputs.iter().map(|input| input.bytes).sum::<u64>();
    done.rows += commit.inputs.iter().map(|input| input.rows).sum::<u64>();
    done.outputs += outputs.len() as u64;
    done.output_bytes += outputs.iter().map(bytes).sum::<u64>();
}

/// Drops an hour: first says so, then takes it away as a whole.
fn drop_hour(hour: &Hour<'_>, options: &Options, done: &mut Done) -> Result<(), FleetError> {
    let state = hour.store().make(Tree::State, &hour.partition)?;
    hour.commit(&state, &Commit::dropped(hour.next(), hour.key(), options.now.0))?;
    take_away(hour, &state)?;
    done.dropped += 1;
    Ok(())
}

/// Moves the directories of a dropped hour out of the trees that engines list, so that all of its rows go at once. Their files
/// are removed below `state/`.
fn take_away(hour: &Hour<'_>, state: &Place<'_>) -> Result<(), FleetError> {
    for (tree, name) in [(Tree::Merged, "dropped-merged"), (Tree::Hourly, "dropped-hourly")] {
        let date = hour.store().date(tree, &hour.partition)?;
        let last = format!("hour={}", hour.partition.hour);
        if let Some(date) = date
            && date.inner(&last)?.is_some()
        {
            // What an earlier run took away.
            remove_inner(state, name)?;
            date.move_to(&last, state, name)?;
            date.sync()?;
        }
        remove_inner(state, name)?;
    }
    Ok(())
}

fn remove_inner(state: &Place<'_>, name: &str) -> Result<(), FleetError> {
    let Some(inner) = state.inner(name)? else { return Ok(()) };
    for entry in inner.list()?.0 {
        inner.remove(&entry.name)?;
    }
    state.remove_empty(name)
}
