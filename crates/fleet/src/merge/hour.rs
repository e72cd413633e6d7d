//! Merges the files of an hour into those of its next commit.

use unstarve_tables::Schema;

use super::compaction::{Done, Options};
use super::outputs::OutputFiles;
use super::refusals::Refusals;
use super::unmerged_files::UnmergedFiles;
use crate::commit::{Commit, Name};
use crate::decode::{DecodeLimits, Wants, parallel_read};
use crate::error::FleetError;
use crate::store::{Hour, Place};

/// With this many merged files in an hour, a host's file that would need one more for its columns is refused.
const MAX_OUTPUTS: usize = 1000;

/// Merges hosts' files, and commits them. The files of the commit are still below `state/`. `None` if there is nothing to do.
pub(crate) fn merge(
    hour: &Hour<'_>,
    state: &Place<'_>,
    table: &'static Schema,
    options: &Options,
    refusals: &mut Refusals,
    done: &mut Done,
) -> Result<Option<Commit>, FleetError> {
    merge_into(OutputFiles::of(hour, state, table, MAX_OUTPUTS), state, options, refusals, done)
}

fn merge_into(
    mut files: OutputFiles<'_>,
    state: &Place<'_>,
    options: &Options,
    refusals: &mut Refusals,
    done: &mut Done,
) -> Result<Option<Commit>, FleetError> {
    let merged = merge_all(&mut files, options, refusals, done);
    let made = merged.and_then(|commit| match commit {
        None => Ok(None),
        Some(commit) => files.hour.commit(state, &commit).map(|()| Some(commit)),
    });
    // An error may have come after the commit had its name: then its files are needed.
    let name = Name::commit(files.number);
    if !matches!(made, Ok(Some(_))) && state.names().is_ok_and(|names| !names.texts.contains(&name)) {
        files.remove();
    }
    made
}

fn merge_all(
    files: &mut OutputFiles<'_>,
    options: &Options,
    refusals: &mut Refusals,
    done: &mut Done,
) -> Result<Option<Commit>, FleetError> {
    let (hour, table) = (files.hour, files.table);
    let Some(hosts) = &hour.hosts.place else { return Ok(None) };
    let mut unmerged = UnmergedFiles::of(files, hour, hosts, refusals, &mut done.problems);
    if unmerged.is_any() {
        parallel_read::run(hour.store().examiner(), table, DecodeLimits::INPUT, Wants::Rows, &mut unmerged)?;
    }
    done.refused_before += unmerged.say_refused();
    let inputs = unmerged.inputs;
    files.flush_all()?;
    if inputs.is_empty() {
        return Ok(None);
    }
    Ok(Some(Commit::new(files.number, hour.key(), options.now.0, files.outputs.clone(), inputs)))
}

#[cfg(test)]
#[path = "hour_tests.rs"]
mod tests;
