//! The files of an hour become those of its next commit.

use std::collections::VecDeque;
use std::path::PathBuf;

use sha2::{Digest, Sha256};
use unstarve_tables::Schema;

use crate::apart::Run;
use crate::commit::COMMIT_BYTES;
use crate::compact::{Made, What, chain, follow};
use crate::effects::random;
use crate::loose::Loose;
use crate::merge::Chunk;
use crate::state::State;
use crate::store::{Hour, Readers};
use crate::{Done, FleetError, Input, Most, Name, Options, Output, Problem, lanes};

/// More than a host writes in an hour. It is read into memory.
pub(crate) const LARGEST_INPUT: u64 = 64 << 20;
/// More than a merged file has.
pub(crate) const LARGEST_OUTPUT: u64 = 1 << 30;
/// More memory than the rows of a file take that is not full, also where a decoder reserves twice as much as they need.
const PARTLY_MEMORY: usize = 512 << 20;
/// So many merged files an hour may have before files whose columns do not fit to others' are left alone.
const MOST_OUTPUTS: usize = 1000;
/// So many small outputs with the same readers and columns become one.
pub(crate) const MANY: usize = 4;

/// Rows on their way from files of one hour to files of the next commit.
pub(crate) struct Merge<'a> {
    pub hour: &'a Hour<'a>,
    table: &'static Schema,
    number: u64,
    chunk: Chunk<'a>,
    /// Who may read any of the files that the commit will list.
    pub readers: Readers,
    outputs: Vec<Output>,
    /// How many the commit before lists.
    before: usize,
}

/// Merges files of hosts, and outputs if there are many small ones. `None` if there is nothing to do.
pub(crate) fn merge(
    hour: &Hour<'_>,
    table: &'static Schema,
    state: &State,
    options: &Options,
    done: &mut Done,
) -> Result<Option<Made>, FleetError> {
    let (chunk, readers, before) = (Chunk::of(table), state.readers_of_outputs(), state.files.outputs.len());
    let mut merge = Merge { hour, table, number: state.next(), chunk, readers, outputs: Vec::new(), before };
    let made = merge.all(state, options, done);
    if !matches!(made, Ok(Some(_))) {
        // No commit will list them.
        for output in &merge.outputs {
            let _ = hour.remove(&output.name);
        }
    }
    made
}

/// Why a file is not merged.
pub(crate) enum Refused {
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
    pub fn problem(self, path: PathBuf) -> Result<Problem, FleetError> {
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
    fn all(&mut self, state: &State, options: &Options, done: &mut Done) -> Result<Option<Made>, FleetError> {
        let known = state.commit.iter().flat_map(|commit| &commit.inputs).map(Input::line_bytes).sum::<u64>();
        let names: Vec<&str> = state.loose_by_readers().into_iter().map(String::as_str).collect();
        let mut loose = Loose {
            merge: self,
            names: names.into_iter(),
            room: COMMIT_BYTES.saturating_sub(known),
            now: options.now,
            asked: VecDeque::new(),
            next: None,
            inputs: Vec::new(),
            problems: &mut done.problems,
        };
        let (hour, table) = (loose.merge.hour, loose.merge.table);
        if loose.names.len() > 0 {
            lanes::run(hour.store().examiner(), table, Most::INPUT, &mut loose)?;
        }
        let inputs = loose.inputs;
        let mut merged = Vec::new();
        for output in state.many_small() {
            match self.output(output) {
                Ok(()) => merged.push(output),
                Err(why) => done.problems.push(why.problem(self.hour.shown(&output.name))?),
            }
        }
        if inputs.is_empty() && merged.len() < MANY {
            return Ok(None);
        }
        self.flush(Fill::Partly)?;
        let commit = follow(self.hour, state, &self.outputs, &merged, &inputs, options);
        let outputs = self.outputs.clone();
        Ok(Some(Made { commit, mode: self.readers.mode(), what: What::Merged, outputs, inputs }))
    }

    /// Merged rows of a commit before.
    fn output(&mut self, output: &Output) -> Result<(), Refused> {
        // No more than the commit says: who may write in the hour could have put another file there.
        let read = self.hour.read(&output.name, output.bytes).map_err(|error| Refused::File(chain(&error)))?;
        let Some(content) = read else {
            return Err(Refused::File("the commit lists it, and it is not there".to_owned()));
        };
        let (mut found, mut refused, most) = (None, None, Most { memory: PARTLY_MEMORY, rows: output.rows });
        let files = [content.bytes];
        self.hour.store().examiner().rows(self.table, &files, most, &|| true, &mut |answer| match answer {
            Ok(run) => found = Some(run),
            Err(why) => refused = Some(why),
        });
        let run = found.ok_or_else(|| Refused::File(refused.unwrap_or_default()))?;
        let sums = run.files.iter().map(|file| (file.rows, file.sum));
        if !sums.eq([(output.rows, output.sum)]) {
            return Err(Refused::File("its rows are not those of the commit".to_owned()));
        }
        self.push(run, content.readers)
    }

    /// Rows of files that have the same readers, and the same columns. If these cannot be beside the columns of files before, they go into a file of their own: what one host
    /// writes does not keep out what another one does (docs/decisions/0432).
    pub fn push(&mut self, run: Run, readers: Readers) -> Result<(), Refused> {
        if self.chunk.rows > 0 && !self.chunk.takes(&run) {
            if self.before + self.outputs.len() >= MOST_OUTPUTS {
                let why = format!(
                    "its columns need a file of their own, and the hour has {MOST_OUTPUTS} merged files already"
                );
                return Err(Refused::File(why));
            }
            self.flush(Fill::Partly)?;
        } else if self.chunk.readers != readers {
            self.flush(Fill::Partly)?;
        } else if self.chunk.is_over(&run) {
            self.flush(Fill::Full)?;
        }
        self.chunk.push(run, readers).map_err(Refused::File)?;
        Ok(self.flush_full()?)
    }

    /// Something that cannot be.
    pub fn wrong(&self, why: &str) -> FleetError {
        FleetError::Rows { path: self.hour.path().to_owned(), why: why.to_owned() }
    }

    fn flush_full(&mut self) -> Result<(), FleetError> {
        if self.chunk.is_full() { self.flush(Fill::Full) } else { Ok(()) }
    }

    fn flush(&mut self, fill: Fill) -> Result<(), FleetError> {
        let chunk = std::mem::replace(&mut self.chunk, Chunk::of(self.table));
        if chunk.rows == 0 {
            return Ok(());
        }
        let name = Name::merged(self.number, random().map_err(|error| self.wrong(&error.to_string()))?);
        let (rows, sum, columns, mode) = (chunk.rows, chunk.sum, chunk.columns(), chunk.readers.mode());
        let (mut written, mut bytes) = (None, 0);
        let done = self.hour.write(&name, mode, |file| {
            written = Some(chunk.write(file)?);
            bytes = file.metadata()?.len();
            Ok(())
        });
        if done.is_err() {
            // It may have its name already.
            let _ = self.hour.remove(&name);
        }
        done?;
        let Some(written) = written.filter(|written| written.sum == sum) else {
            let _ = self.hour.remove(&name);
            return Err(self.wrong("the rows to be written are not those that were read"));
        };
        let (min_ts, max_ts, hosts) = (written.min_ts, written.max_ts, written.hosts);
        let full = fill == Fill::Full;
        self.outputs.push(Output { name, bytes, rows, sum, min_ts, max_ts, hosts, full, columns });
        Ok(())
    }
}

/// SHA-256, the first half: nobody makes another file of the same.
pub(crate) fn digest_of(bytes: &[u8]) -> String {
    Sha256::digest(bytes)[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}
