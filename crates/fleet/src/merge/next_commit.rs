//! The commit after that which holds, with its files written.

use super::compaction::{Done, Options};
use crate::commit::{Commit, Input, Name, Output, Retired};
use crate::error::FleetError;
use crate::store::{Hour, Readers, State};

/// What a commit is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CommitReason {
    Merged,
    Dropped,
    Renewed,
}

/// A commit that is yet to be made, with its files written.
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
        // No file of it counts, whatever its name.
        commit.inputs = Vec::new();
        NextCommit {
            what: CommitReason::Dropped,
            commit,
            readers: Readers::ALL,
            outputs: Vec::new(),
            inputs: Vec::new(),
        }
    }

    /// What holds already, once more: by a commit that says its hour, and whose number nobody can use any more.
    pub fn renewed(hour: &Hour<'_>, state: &State, options: &Options) -> NextCommit {
        let mut commit = next_commit(hour, state, &[], &[], &[], options);
        commit.head.dropped = state.is_dropped();
        NextCommit {
            what: CommitReason::Renewed,
            commit,
            readers: Readers::ALL,
            outputs: Vec::new(),
            inputs: Vec::new(),
        }
    }

    /// Makes the commit; not if another compactor was faster.
    pub fn commit(&self, hour: &Hour<'_>, state: &State) -> Result<bool, FleetError> {
        let number = self.commit.head.number;
        let is_made = match hour.commit(&self.commit, self.readers) {
            // Without its name in the directory nobody lists its files. If it cannot be seen whether it is there, they stay.
            Err(error) if hour.is_absent(&Name::commit(number)) => {
                let _ = self.remove_outputs(hour);
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

    /// Another commit has its number, so that nobody will ever list its files.
    pub fn remove_outputs(&self, hour: &Hour<'_>) -> Result<(), FleetError> {
        self.outputs.iter().flat_map(Output::names).try_for_each(|name| hour.remove(name))
    }
}

/// The commit after that of an hour.
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
