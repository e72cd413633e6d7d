//! Creates the next commit of an hour, whose files are already written.

use super::compaction::{Done, Options};
use crate::commit::{Commit, Input, Name, Output, Retired};
use crate::error::FleetError;
use crate::store::{Hour, Readers, State};

/// Why there is a new commit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CommitReason {
    Merged,
    Dropped,
    Renewed,
}

/// A commit that is not made yet; its files are written.
pub(crate) struct NextCommit {
    pub what: CommitReason,
    pub commit: Commit,
    pub readers: Readers,
    pub outputs: Vec<Output>,
    pub inputs: Vec<Input>,
}

impl NextCommit {
    pub fn dropped(hour: &Hour<'_>, state: &State, options: &Options) -> NextCommit {
        let retired = state.files.outputs.iter().collect::<Vec<_>>();
        let mut commit = next_commit(hour, state, &[], &retired, &[], options);
        commit.head.dropped = true;
        // None of its files counts, whatever its name.
        commit.inputs = Vec::new();
        NextCommit::without_files(CommitReason::Dropped, commit)
    }

    /// The same content again: the new commit names its hour, and takes a number that leftover files had.
    pub fn renewed(hour: &Hour<'_>, state: &State, options: &Options) -> NextCommit {
        let mut commit = next_commit(hour, state, &[], &[], &[], options);
        commit.head.dropped = state.is_dropped();
        NextCommit::without_files(CommitReason::Renewed, commit)
    }

    fn without_files(what: CommitReason, commit: Commit) -> NextCommit {
        NextCommit { what, commit, readers: Readers::ALL, outputs: Vec::new(), inputs: Vec::new() }
    }

    /// Creates the commit; `false` if another compactor was faster.
    pub fn commit(&self, hour: &Hour<'_>, state: &State) -> Result<bool, FleetError> {
        let number = self.commit.head.number;
        let is_made = match hour.commit(&self.commit, self.readers) {
            // No commit lists its files, so they can go. If it is unknown whether the commit exists, they stay.
            Err(error) if hour.is_absent(&Name::commit(number)) => {
                let _ = self.remove_outputs(hour);
                return Err(error);
            }
            is_made => is_made?,
        };
        // Untrusted files have taken the numbers in between. If a compactor has committed with one of them meanwhile, this
        // commit misses its rows.
        if is_made && number > state.number() + 1 && hour.has_commit_between(state.number(), number)? {
            hour.remove(&Name::commit(number))?;
            return Ok(false);
        }
        Ok(is_made)
    }

    pub fn count(&self, done: &mut Done) {
        match self.what {
            CommitReason::Merged => done.hours += 1,
            CommitReason::Dropped => done.dropped += 1,
            CommitReason::Renewed => {}
        }
        done.inputs += self.inputs.len() as u64;
        done.input_bytes += self.inputs.iter().map(|input| input.bytes).sum::<u64>();
        done.rows += self.inputs.iter().map(|input| input.rows).sum::<u64>();
        done.outputs += self.outputs.len() as u64;
        let hourly = |output: &Output| output.hourly.as_ref().map_or(0, |hourly| hourly.bytes);
        done.output_bytes += self.outputs.iter().map(|output| output.bytes + hourly(output)).sum::<u64>();
    }

    /// Removes its files: another commit has its number, so no commit will list them.
    pub fn remove_outputs(&self, hour: &Hour<'_>) -> Result<(), FleetError> {
        self.outputs.iter().flat_map(Output::names).try_for_each(|name| hour.remove(name))
    }
}

/// The commit that follows the newest one of an hour.
pub(super) fn next_commit(
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
