//! Compacts a store: merges the files of hosts, hour by hour, and drops hours that are too old.

use unstarve_model::WallTime;
use unstarve_tables::Partition;

use super::{manifest, retention, sweep};
use crate::error::{FleetError, chain};
use crate::merge::{Done, NextCommit, Options, REFUSED_NAME, Refusals, merge};
use crate::problem::{Kind, Problem, add_all};
use crate::store::{Depth, Holds, MANIFEST_NAME, State, Store};

/// Attempts to commit before giving up on an hour that others commit to.
const MAX_TRIES: u32 = 8;

/// Merges hosts' files, drops hours that are too old, writes the manifest, and then removes files that have not counted for the
/// grace period: only after the manifest has stopped listing them. An error of an hour or a file is reported as a problem; the
/// rest continues.
///
/// # Errors
/// If the directory cannot be read, has files and no table, or the manifest cannot be written.
pub fn compact(store: &Store, options: &Options) -> Result<Done, FleetError> {
    let mut done = Done::default();
    // Nothing is written into an empty directory.
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
        let result = compact_hour(store, partition, oldest, options, &mut refusals, &mut done);
        let found = std::mem::replace(&mut done.problems, before);
        add_all(&mut done.problems, found);
        if let Err(error) = result {
            is_doubted |= error.is_of_commit();
            Problem::of(Kind::Place, partition.path(), &chain(&error)).add(&mut done.problems);
        }
    }
    // The owner of the manifest is the keeper, whose commits may not be ignored. A user who does not trust the commits here
    // must neither become the keeper nor remove what they list.
    if is_doubted {
        let why = "left as it is, and nothing is removed: a commit is not believed";
        Problem::of(Kind::Store, MANIFEST_NAME, why).add(&mut done.problems);
        return Ok(done.sorted());
    }
    manifest::write(store)?;
    if let Err(error) = refusals.write(store) {
        let why = format!("files that were refused are read again in the next run: {}", chain(&error));
        Problem::of(Kind::Store, REFUSED_NAME, &why).add(&mut done.problems);
    }
    for partition in &hours {
        let swept = store.hour(partition).and_then(|hour| sweep::sweep(&hour, options, &mut done));
        if let Err(error) = swept {
            Problem::of(Kind::Place, partition.path(), &chain(&error)).add(&mut done.problems);
        }
    }
    Ok(done.sorted())
}

/// Counts the files of an hour that is not settled yet.
fn leave(partition: &Partition, state: &State, options: &Options, done: &mut Done) {
    let files = state.files.loose.len() as u64;
    if files > 0 {
        done.waiting += files;
        let until = settled_at(partition, options);
        done.waiting_until = done.waiting_until.into_iter().chain(until).min();
    }
}

/// Compacts an hour. `done.problems` has only this hour's.
fn compact_hour(
    store: &Store,
    partition: &Partition,
    oldest: Option<WallTime>,
    options: &Options,
    refusals: &mut Refusals,
    done: &mut Done,
) -> Result<(), FleetError> {
    let hour = store.hour(partition)?;
    for tried in 1.. {
        // A new attempt finds the same problems again.
        done.problems.clear();
        let mut state = State::of(&hour, Depth::Needed, &mut done.problems)?;
        if !state.is_whole && (!state.many_small().is_empty() || state.wants_renewal(options.now)) {
            done.problems.clear();
            state = State::of(&hour, Depth::Whole, &mut done.problems)?;
        }
        let made = if !state.is_dropped() && oldest.is_some_and(|oldest| partition.is_before(oldest)) {
            Some(NextCommit::dropped(&hour, &state, options))
        } else if is_settled(partition, options) {
            let Some(table) = unstarve_tables::named(&partition.table) else {
                let why = "no table of this version; left alone";
                Problem::of(Kind::Place, format!("table={}", partition.table), why).add(&mut done.problems);
                return Ok(());
            };
            let merged = if state.is_dropped() { None } else { merge(&hour, table, &state, options, refusals, done)? };
            let renewed = || state.wants_renewal(options.now).then(|| NextCommit::renewed(&hour, &state, options));
            merged.or_else(renewed)
        } else {
            leave(partition, &state, options, done);
            refusals.keep(&hour);
            None
        };
        let Some(made) = made else { return Ok(()) };
        if made.commit(&hour, &state)? {
            made.count(done);
            return Ok(());
        }
        done.lost += 1;
        made.remove_outputs(&hour)?;
        if tried == MAX_TRIES {
            return Err(FleetError::Busy { path: hour.path().to_owned(), tries: MAX_TRIES });
        }
    }
    Ok(())
}

fn is_settled(partition: &Partition, options: &Options) -> bool {
    settled_at(partition, options).is_some_and(|at| at <= options.now)
}

/// When an hour can be merged.
fn settled_at(partition: &Partition, options: &Options) -> Option<WallTime> {
    const HOUR: u64 = 3_600_000_000_000;
    let settle = u64::try_from(options.settle.as_nanos()).unwrap_or(u64::MAX);
    partition.begin().map(|begin| WallTime(begin.0.saturating_add(HOUR).saturating_add(settle)))
}
