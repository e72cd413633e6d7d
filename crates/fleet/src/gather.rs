//! The files of an hour become those of its next commit.

use std::path::PathBuf;

use sha2::{Digest, Sha256};
use unstarve_model::WallTime;
use unstarve_tables::Schema;

use crate::commit::COMMIT_BYTES;
use crate::compact::{Made, What, chain, follow};
use crate::effects::random;
use crate::merge::Chunk;
use crate::state::State;
use crate::store::{Content, Hour, Readers};
use crate::{Done, Examined, FleetError, Input, Most, Name, Options, Output, Problem, decode};

/// More than a host writes in an hour. It is read into memory.
pub(crate) const LARGEST_INPUT: u64 = 64 << 20;
/// More than a merged file has.
pub(crate) const LARGEST_OUTPUT: u64 = 1 << 30;
/// So many small outputs with the same readers become one.
pub(crate) const MANY: usize = 4;

/// Rows on their way from files of one hour to files of the next commit.
struct Merge<'a> {
    hour: &'a Hour<'a>,
    table: &'static Schema,
    number: u64,
    chunk: Chunk<'a>,
    /// Who may read any of the files that the commit will list.
    readers: Readers,
    outputs: Vec<Output>,
}

/// Merges files of hosts, and outputs if there are many small ones. `None` if there is nothing to do.
pub(crate) fn merge(
    hour: &Hour<'_>,
    table: &'static Schema,
    state: &State,
    options: &Options,
    done: &mut Done,
) -> Result<Option<Made>, FleetError> {
    let (chunk, readers) = (Chunk::of(table), state.readers_of_outputs());
    let mut merge = Merge { hour, table, number: state.next(), chunk, readers, outputs: Vec::new() };
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
    fn all(&mut self, state: &State, options: &Options, done: &mut Done) -> Result<Option<Made>, FleetError> {
        let known = state.commit.iter().flat_map(|commit| &commit.inputs).map(Input::line_bytes).sum::<u64>();
        let mut room = COMMIT_BYTES.saturating_sub(known);
        let mut inputs = Vec::new();
        for (at, name) in state.loose_by_readers().into_iter().enumerate() {
            let line = Input::most_line_bytes(name);
            if line > room {
                let rest = state.files.loose.len() - at;
                let why = format!(
                    "{rest} files are not merged: the commit would be larger than {COMMIT_BYTES} bytes; let hosts write fewer and larger files"
                );
                done.problems.push(Problem::new(self.hour.shown(""), &why));
                break;
            }
            match self.input(name, options.now) {
                Ok(Some(input)) => {
                    room -= line;
                    inputs.push(input);
                }
                Ok(None) => {}
                Err(why) => done.problems.push(why.problem(self.hour.shown(name))?),
            }
        }
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

    /// A host's file; `None` if it has gone.
    fn input(&mut self, name: &str, now: WallTime) -> Result<Option<Input>, Refused> {
        let read = self.hour.read(name, LARGEST_INPUT).map_err(|error| Refused::File(chain(&error)))?;
        let Some(content) = read else { return Ok(None) };
        let examined = self.hour.examine(self.table, &content.bytes, Most::INPUT).map_err(Refused::File)?;
        self.readers = self.readers.or(content.readers);
        let (bytes, digest) = (content.bytes.len() as u64, digest_of(&content.bytes));
        let input =
            Input { name: name.to_owned(), bytes, rows: examined.rows, sum: examined.sum, digest, at_ns: now.0 };
        self.push(content, Most::INPUT, examined)?;
        Ok(Some(input))
    }

    /// Merged rows of a commit before.
    fn output(&mut self, output: &Output) -> Result<(), Refused> {
        let read = self.hour.read(&output.name, LARGEST_OUTPUT).map_err(|error| Refused::File(chain(&error)))?;
        let Some(content) = read else {
            return Err(Refused::File("the commit lists it, and it is not there".to_owned()));
        };
        let examined = self.hour.examine(self.table, &content.bytes, Most::OUTPUT).map_err(Refused::File)?;
        if (examined.rows, examined.sum) != (output.rows, output.sum) {
            return Err(Refused::File("its rows are not those of the commit".to_owned()));
        }
        self.push(content, Most::OUTPUT, examined)
    }

    fn push(&mut self, content: Content, most: Most, examined: Examined) -> Result<(), Refused> {
        let decoded = decode::rows_of(content.bytes, self.table, most, examined).map_err(Refused::File)?;
        if self.chunk.readers != content.readers {
            self.flush(Fill::Partly)?;
        }
        self.chunk.push(decoded, content.readers).map_err(Refused::File)?;
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
        let (rows, sum, mode) = (chunk.rows, chunk.sum, chunk.readers.mode());
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
            return Err(shown("the rows to be written are not those that were read".to_owned()));
        };
        let (min_ts, max_ts, hosts) = (written.min_ts, written.max_ts, written.hosts);
        self.outputs.push(Output { name, bytes, rows, sum, min_ts, max_ts, hosts, full: fill == Fill::Full });
        Ok(())
    }
}

/// SHA-256, the first half: nobody makes another file of the same.
pub(crate) fn digest_of(bytes: &[u8]) -> String {
    Sha256::digest(bytes)[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}
