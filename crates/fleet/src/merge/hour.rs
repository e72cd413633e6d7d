//! Merges the files of an hour into those of its next commit.

use unstarve_tables::Schema;

use super::compaction::{Done, Options};
use super::next_commit::{CommitReason, NextCommit, next_commit};
use super::outputs::OutputFiles;
use super::refusals::Refusals;
use super::unmerged_files::UnmergedFiles;
use crate::commit::Output;
use crate::decode::{DecodeLimits, parallel_read};
use crate::error::FleetError;
use crate::store::{Hour, State};

/// With this many merged files in an hour, a host's file that would need one more for its columns is refused.
const MAX_OUTPUTS: usize = 1000;

/// Merges hosts' files, and outputs if there are many small ones. `None` if there is nothing to do.
pub(crate) fn merge(
    hour: &Hour<'_>,
    table: &'static Schema,
    state: &State,
    options: &Options,
    refusals: &mut Refusals,
    done: &mut Done,
) -> Result<Option<NextCommit>, FleetError> {
    merge_into(OutputFiles::of(hour, table, state, MAX_OUTPUTS), state, options, refusals, done)
}

fn merge_into(
    mut files: OutputFiles<'_>,
    state: &State,
    options: &Options,
    refusals: &mut Refusals,
    done: &mut Done,
) -> Result<Option<NextCommit>, FleetError> {
    let made = merge_all(&mut files, state, options, refusals, done);
    if !matches!(made, Ok(Some(_))) {
        // No commit will list them.
        for name in files.outputs.iter().flat_map(Output::names) {
            let _ = files.hour.remove(name);
        }
    }
    made
}

fn merge_all(
    files: &mut OutputFiles<'_>,
    state: &State,
    options: &Options,
    refusals: &mut Refusals,
    done: &mut Done,
) -> Result<Option<NextCommit>, FleetError> {
    let (hour, table) = (files.hour, files.table);
    let mut unmerged = UnmergedFiles::of(files, state, options.now, refusals, &mut done.problems);
    if unmerged.is_any() {
        parallel_read::run(hour.store().examiner(), table, DecodeLimits::INPUT, &mut unmerged)?;
    }
    done.refused_before += unmerged.say_refused();
    let inputs = unmerged.inputs;
    files.flush_all()?;
    let mut merged = Vec::new();
    for outputs in state.many_small() {
        merged.extend(files.merge_outputs(outputs, &mut done.problems)?);
    }
    if inputs.is_empty() && merged.is_empty() {
        return Ok(None);
    }
    let commit = next_commit(hour, state, &files.outputs, &merged, &inputs, options);
    let outputs = files.outputs.clone();
    Ok(Some(NextCommit { commit, readers: files.readers, what: CommitReason::Merged, outputs, inputs }))
}

#[cfg(test)]
#[path = "hour_tests.rs"]
mod tests;
