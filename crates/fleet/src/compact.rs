//! Merges the files of hosts, hour by hour, and drops hours that are too old.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;
use sha2::{Digest, Sha256};
use unstarve_model::WallTime;
use unstarve_tables::{Partition, Schema};

use crate::FleetError;
use crate::merge::Chunk;
use crate::state::{Depth, State};
use crate::store::{Hour, Store, random};
use crate::{Commit, Input, Name, Output, Retired, decode, manifest, sweep};

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

/// Something that is wrong, and was left as it is.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Debug)]
pub struct Problem {
    /// Where, below the store.
    pub path: PathBuf,
    /// What.
    pub why: String,
}

impl Problem {
    pub(crate) fn new(path: impl AsRef<Path>, why: &str) -> Problem {
        Problem { path: path.as_ref().to_owned(), why: why.to_owned() }
    }
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
    /// Commits that another compactor made first.
    pub lost: u64,
    /// What was left alone.
    pub problems: Vec<Problem>,
}

/// More than a host writes in an hour. It is read into memory.
pub(crate) const LARGEST_INPUT: u64 = 64 << 20;
/// More than a merged file has.
pub(crate) const LARGEST_OUTPUT: u64 = 1 << 30;
/// So many small outputs become one.
const MANY: usize = 4;
/// How often another compactor may be faster.
const TRIES: u32 = 8;

/// Merges what hosts have written, drops what is too old, removes what has not counted for long enough, and writes the manifest. What is
/// wrong with an hour or a file is a problem; the rest goes on.
///
/// # Errors
/// If the directory cannot be read, or the manifest not be written.
pub fn compact(store: &Store, options: &Options) -> Result<Done, FleetError> {
    let mut done = Done::default();
    let hours = store.hours(&mut done.problems)?;
    let newest = hours.iter().filter_map(Partition::begin).max();
    for partition in &hours {
        if let Err(error) = one(store, partition, newest, options, &mut done) {
            done.problems.push(Problem::new(partition.path(), &chain(&error)));
        }
    }
    manifest::write(store)?;
    done.problems.sort();
    done.problems.dedup();
    Ok(done)
}

pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let cause = std::iter::successors(error.source(), |cause| cause.source());
    cause.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

fn one(
    store: &Store,
    partition: &Partition,
    newest: Option<WallTime>,
    options: &Options,
    done: &mut Done,
) -> Result<(), FleetError> {
    let hour = store.hour(partition)?;
    for tried in 1.. {
        let mut state = State::of(&hour, Depth::Needed, &mut done.problems)?;
        if !state.is_whole && state.small().count() >= MANY {
            state = State::of(&hour, Depth::Whole, &mut done.problems)?;
        }
        let made = if state.is_dropped() {
            None
        } else if is_too_old(partition, newest, options) {
            Some(Made::dropped(&state, options))
        } else if is_settled(partition, options) {
            let Some(table) = unstarve_tables::named(&partition.table) else {
                done.problems
                    .push(Problem::new(format!("table={}", partition.table), "no table of this version; left alone"));
                return Ok(());
            };
            merge(&hour, table, &state, options, done)?
        } else {
            None
        };
        let Some(made) = made else { break };
        if hour.commit(&made.commit, made.mode)? {
            made.count(done);
            break;
        }
        done.lost += 1;
        made.take_back(&hour)?;
        if tried == TRIES {
            return Err(FleetError::Busy { path: hour.path().to_owned(), tries: TRIES });
        }
    }
    sweep::sweep(&hour, options, done)
}

/// Both now and beside the newest hour that is there: a clock that jumps ahead makes nothing old by itself.
fn is_too_old(partition: &Partition, newest: Option<WallTime>, options: &Options) -> bool {
    let Some(keep) = options.keep else { return false };
    let age = u64::try_from(keep.as_nanos()).unwrap_or(u64::MAX);
    let now = newest.map_or(options.now, |newest| newest.min(options.now));
    partition.is_before(WallTime(now.0.saturating_sub(age)))
}

fn is_settled(partition: &Partition, options: &Options) -> bool {
    const HOUR: u64 = 3_600_000_000_000;
    let settle = u64::try_from(options.settle.as_nanos()).unwrap_or(u64::MAX);
    partition.begin().is_some_and(|begin| begin.0.saturating_add(HOUR).saturating_add(settle) <= options.now.0)
}

/// A commit that is yet to be made, with its files written.
struct Made {
    commit: Commit,
    mode: u32,
    outputs: Vec<Output>,
    inputs: Vec<Input>,
}

impl Made {
    fn dropped(state: &State, options: &Options) -> Made {
        let mut commit =
            follow(state, state.number() + 1, &[], &state.files.outputs.iter().collect::<Vec<_>>(), &[], options);
        commit.head.dropped = true;
        // No file of it counts, whatever its name.
        commit.inputs = Vec::new();
        Made { commit, mode: 0o644, outputs: Vec::new(), inputs: Vec::new() }
    }

    fn count(&self, done: &mut Done) {
        if self.commit.head.dropped {
            done.dropped += 1;
            return;
        }
        done.hours += 1;
        done.inputs += self.inputs.len() as u64;
        done.input_bytes += self.inputs.iter().map(|input| input.bytes).sum::<u64>();
        done.rows += self.inputs.iter().map(|input| input.rows).sum::<u64>();
        done.outputs += self.outputs.len() as u64;
        done.output_bytes += self.outputs.iter().map(|output| output.bytes).sum::<u64>();
    }

    /// Another commit has its number, so that nobody will ever list its files.
    fn take_back(&self, hour: &Hour<'_>) -> Result<(), FleetError> {
        self.outputs.iter().try_for_each(|output| hour.remove(&output.name))
    }
}

/// Rows on their way from files of one hour to files of the next commit.
struct Merge<'a> {
    hour: &'a Hour<'a>,
    table: &'static Schema,
    number: u64,
    chunk: Chunk<'a>,
    mode: u32,
    outputs: Vec<Output>,
}

/// Merges files of hosts, and outputs if there are many small ones. `None` if there is nothing to do.
fn merge(
    hour: &Hour<'_>,
    table: &'static Schema,
    state: &State,
    options: &Options,
    done: &mut Done,
) -> Result<Option<Made>, FleetError> {
    let small: Vec<&Output> = if state.small().count() >= MANY { state.small().collect() } else { Vec::new() };
    let number = state.number() + 1;
    let mut merge = Merge { hour, table, number, chunk: Chunk::of(table), mode: 0o666, outputs: Vec::new() };
    let mut inputs = Vec::new();
    for name in &state.files.loose {
        match merge.input(name, options.now) {
            Ok(Some(input)) => inputs.push(input),
            Ok(None) => {}
            Err(why) => done.problems.push(why.problem(hour.shown(name))?),
        }
    }
    let mut merged = Vec::new();
    for output in small {
        match merge.output(output) {
            Ok(()) => merged.push(output),
            Err(why) => done.problems.push(why.problem(hour.shown(&output.name))?),
        }
    }
    if inputs.is_empty() && merged.len() < MANY {
        return Ok(None);
    }
    merge.flush(Fill::Partly)?;
    let commit = follow(state, number, &merge.outputs, &merged, &inputs, options);
    Ok(Some(Made { commit, mode: merge.mode | 0o600, outputs: merge.outputs, inputs }))
}

/// The commit after that of an hour.
fn follow(
    state: &State,
    number: u64,
    outputs: &[Output],
    merged: &[&Output],
    inputs: &[Input],
    options: &Options,
) -> Commit {
    let mut commit = Commit::new(number, options.now.0);
    let is_there = |old: &&Retired| state.entries.iter().any(|entry| entry.name == old.name);
    let retired = state.commit.iter().flat_map(|commit| &commit.head.retired).filter(is_there).cloned();
    let now = merged.iter().map(|output| Retired { name: output.name.clone(), at_ns: options.now.0 });
    commit.head.retired = retired.chain(now).collect();
    let kept = state.files.outputs.iter().filter(|output| !merged.contains(output));
    commit.head.outputs = kept.chain(outputs).cloned().collect();
    commit.inputs = state.commit.iter().flat_map(|commit| &commit.inputs).chain(inputs).cloned().collect();
    commit
}

/// Why a file is not merged.
enum Refused {
    /// The file is not what it should be: it is left alone.
    File(String),
    /// Nothing works.
    Store(FleetError),
}

impl From<FleetError> for Refused {
    fn from(error: FleetError) -> Refused {
        Refused::Store(error)
    }
}

impl Refused {
    fn problem(self, path: PathBuf) -> Result<Problem, FleetError> {
        match self {
            Refused::File(why) => Ok(Problem { path, why }),
            Refused::Store(error) => Err(error),
        }
    }
}

/// Whether a file has as many rows as one may have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fill {
    Full,
    Partly,
}

impl Merge<'_> {
    /// A host's file; `None` if it has gone.
    fn input(&mut self, name: &str, now: WallTime) -> Result<Option<Input>, Refused> {
        let read = self.hour.read(name, LARGEST_INPUT).map_err(|error| Refused::File(chain(&error)))?;
        let Some(content) = read else { return Ok(None) };
        // The commit names it, so it is for the same readers, also if the file has no rows.
        self.mode &= content.mode;
        let (bytes, digest) = (content.bytes.len() as u64, digest_of(&content.bytes));
        let decoded = decode(content.bytes, self.table).map_err(Refused::File)?;
        let input = Input { name: name.to_owned(), bytes, rows: decoded.rows, sum: decoded.sum, digest, at_ns: now.0 };
        self.chunk.push(decoded, content.mode).map_err(Refused::File)?;
        self.flush_full()?;
        Ok(Some(input))
    }

    /// Merged rows of a commit before.
    fn output(&mut self, output: &Output) -> Result<(), Refused> {
        let read = self.hour.read(&output.name, LARGEST_OUTPUT).map_err(|error| Refused::File(chain(&error)))?;
        let Some(content) = read else {
            return Err(Refused::File("the commit lists it, and it is not there".to_owned()));
        };
        let decoded = decode(content.bytes, self.table).map_err(Refused::File)?;
        if (decoded.rows, decoded.sum) != (output.rows, output.sum) {
            return Err(Refused::File("its rows are not those of the commit".to_owned()));
        }
        self.chunk.push(decoded, content.mode).map_err(Refused::File)?;
        Ok(self.flush_full()?)
    }

    fn flush_full(&mut self) -> Result<(), FleetError> {
        if self.chunk.is_full() { self.flush(Fill::Full) } else { Ok(()) }
    }

    fn flush(&mut self, fill: Fill) -> Result<(), FleetError> {
        let chunk = std::mem::replace(&mut self.chunk, Chunk::of(self.table));
        if chunk.rows == 0 {
            return Ok(());
        }
        let shown = |why: String| FleetError::Rows { path: self.hour.path().to_owned(), why };
        let name = Name::merged(self.number, random().map_err(|error| shown(error.to_string()))?);
        let (rows, sum, mode) = (chunk.rows, chunk.sum, chunk.mode | 0o600);
        self.mode &= chunk.mode;
        let (mut written, mut bytes) = (None, 0);
        self.hour.write(&name, mode, |file| {
            written = Some(chunk.write(file)?);
            bytes = file.metadata()?.len();
            Ok(())
        })?;
        let written = written.filter(|written| written.sum == sum);
        let written = written.ok_or_else(|| shown("the rows to be written are not those that were read".to_owned()))?;
        let (min_ts, max_ts, hosts) = (written.min_ts, written.max_ts, written.hosts);
        self.outputs.push(Output { name, bytes, rows, sum, min_ts, max_ts, hosts, full: fill == Fill::Full });
        Ok(())
    }
}

/// SHA-256, the first half: nobody makes another file of the same.
pub(crate) fn digest_of(bytes: &[u8]) -> String {
    Sha256::digest(bytes)[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}
