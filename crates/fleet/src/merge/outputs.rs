//! The merged files of the next commit.

use std::fs::File;
use std::io;
use std::path::PathBuf;

use unstarve_tables::Schema;

use super::chunk::{Chunk, FULL_MEMORY};
use super::hourly;
use crate::commit::{HourlyFile, Name, Output};
use crate::decode::{DecodeLimits, Needed, Run};
use crate::error::{FleetError, chain};
use crate::problem::Problem;
use crate::store::{Hour, MIN_OUTPUTS_TO_MERGE, Readers, State, random};

/// Memory limit for reading a merged file that is not full: with empty columns, and with a decoder that reserves twice what it needs.
const PARTLY_FULL_MEMORY: usize = 512 << 20;

/// Collects rows and writes them to merged files.
pub(crate) struct OutputFiles<'a> {
    pub hour: &'a Hour<'a>,
    pub table: &'static Schema,
    number: u64,
    /// Rows of the next file without extra columns, and of the next one with some: extra columns of one host do not end the file of the others.
    pub(super) chunks: [Chunk<'a>; 2],
    /// Users who may read all files that the commit will list.
    pub readers: Readers,
    pub outputs: Vec<Output>,
    /// Number of merged files in the newest commit.
    before: usize,
    most_outputs: usize,
}

impl<'a> OutputFiles<'a> {
    /// Empty; the hour may have `most_outputs` merged files.
    pub fn of(hour: &'a Hour<'a>, table: &'static Schema, state: &State, most_outputs: usize) -> OutputFiles<'a> {
        OutputFiles {
            hour,
            table,
            number: state.next(),
            chunks: two_chunks(table),
            readers: state.readers_of_outputs(),
            outputs: Vec::new(),
            before: state.files.outputs.len(),
            most_outputs,
        }
    }

    /// Adds rows of files with the same readers and columns. If their columns conflict with earlier ones, a new file starts:
    /// one host's columns must not exclude another host's rows (docs/decisions/0432).
    pub fn push(&mut self, run: Run, readers: Readers) -> Result<(), Refused> {
        let own = usize::from(self.chunks[0].has_extra_columns(&run));
        if self.chunks[own].readers != readers {
            self.flush(own)?;
        }
        if !self.chunks[own].fits_columns(&run) {
            self.check_outputs()?;
            self.flush(own)?;
        }
        if self.chunks[own].is_over(&run) {
            self.flush(own)?;
        }
        self.make_room(own, &run)?;
        let chunk = &mut self.chunks[own];
        chunk.push(run, readers).map_err(Refused::File)?;
        if chunk.is_full() { Ok(self.flush(own)?) } else { Ok(()) }
    }

    /// Merges outputs of an earlier commit into fewer, and returns those that it replaced. If that would not leave fewer files
    /// to merge, they stay as they are; otherwise each run would write them again.
    pub fn merge_outputs<'o>(
        &mut self,
        outputs: Vec<&'o Output>,
        problems: &mut Vec<Problem>,
    ) -> Result<Vec<&'o Output>, FleetError> {
        let (first, mut merged) = (self.outputs.len(), Vec::new());
        for output in outputs {
            match self.push_output(output) {
                Ok(()) => merged.push(output),
                Err(why) => why.problem(self.hour.shown(&output.name))?.add(problems),
            }
        }
        if merged.len() >= MIN_OUTPUTS_TO_MERGE {
            self.flush_all()?;
            if self.outputs[first..].iter().filter(|output| !output.full).count() < merged.len() {
                return Ok(merged);
            }
        }
        self.chunks = two_chunks(self.table);
        for output in self.outputs.drain(first..) {
            output.names().try_for_each(|name| self.hour.remove(name))?;
        }
        Ok(Vec::new())
    }

    /// Takes the rows of an output of an earlier commit.
    fn push_output(&mut self, output: &Output) -> Result<(), Refused> {
        // No more than the commit says: a user who may write to the hour could have replaced the file.
        let read = self.hour.read(&output.name, output.bytes).map_err(|error| Refused::File(chain(&error)))?;
        let Some(content) = read else {
            return Err(Refused::File("the commit lists it, and it is not there".to_owned()));
        };
        let (mut found, mut refused, most) =
            (None, None, DecodeLimits { memory: PARTLY_FULL_MEMORY, rows: output.rows, needed: Needed::Nothing });
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

    /// Refuses a file that would exceed the limit of merged files only because of its columns.
    fn check_outputs(&self) -> Result<(), Refused> {
        let begun = self.chunks.iter().filter(|chunk| chunk.rows > 0).count();
        let most = self.most_outputs;
        if self.before + self.outputs.len() + begun < most {
            return Ok(());
        }
        Err(Refused::File(format!(
            "its columns need a file of their own, and the hour has {most} merged files already"
        )))
    }

    /// Keeps both chunks together within the memory of one: writes the one that would be larger.
    fn make_room(&mut self, own: usize, run: &Run) -> Result<(), FleetError> {
        let other = 1 - own;
        loop {
            let (with, beside) = (self.chunks[own].memory_with(run), self.chunks[other].memory());
            let larger = if self.chunks[own].rows > 0 && with >= beside { own } else { other };
            if with.saturating_add(beside) <= FULL_MEMORY || self.chunks[larger].rows == 0 {
                return Ok(());
            }
            self.flush(larger)?;
        }
    }

    /// An error about rows of this hour.
    pub fn rows_error(&self, why: &str) -> FleetError {
        FleetError::Rows { path: self.hour.path().to_owned(), why: why.to_owned() }
    }

    pub fn flush_all(&mut self) -> Result<(), FleetError> {
        (0..self.chunks.len()).try_for_each(|at| self.flush(at))
    }

    fn flush(&mut self, at: usize) -> Result<(), FleetError> {
        let chunk = std::mem::replace(&mut self.chunks[at], Chunk::of(self.table));
        if chunk.rows == 0 {
            return Ok(());
        }
        let random = random().map_err(|error| self.rows_error(&error.to_string()))?;
        let hourly = self.write_hourly(&chunk, Name::hourly(self.number, random))?;
        let name = Name::merged(self.number, random);
        let (rows, sum, columns, readers) = (chunk.rows, chunk.sum, chunk.columns(), chunk.readers);
        let full = chunk.is_half_full();
        let written = self.write(&name, readers, |file| chunk.write(file));
        let written = written.and_then(|(written, bytes)| match written.sum == sum {
            true => Ok((written, bytes)),
            false => Err(self.rows_error("the rows to be written are not those that were read")),
        });
        let (written, bytes) = match written {
            Ok(written) => written,
            Err(error) => {
                for name in std::iter::once(&name).chain(hourly.iter().map(|hourly| &hourly.name)) {
                    let _ = self.hour.remove(name);
                }
                return Err(error);
            }
        };
        let (min_ts, max_ts, hosts) = (written.min_ts, written.max_ts, written.hosts);
        self.outputs.push(Output { name, bytes, rows, sum, min_ts, max_ts, hosts, full, columns, hourly });
        Ok(())
    }

    /// Folds its rows by the hour, if the table supports that and there are far fewer rows then.
    fn write_hourly(&self, chunk: &Chunk<'_>, name: String) -> Result<Option<HourlyFile>, FleetError> {
        let Some(folded) = chunk.hourly().map_err(|error| self.rows_error(&error.to_string()))? else {
            return Ok(None);
        };
        let rows = folded.num_rows() as u64;
        let written = self.write(&name, chunk.readers, |file| hourly::write(file, &folded));
        let (sum, bytes) = written.inspect_err(|_| {
            let _ = self.hour.remove(&name);
        })?;
        Ok(Some(HourlyFile { name, bytes, rows, sum }))
    }

    /// Writes a file and returns its size. After an error the file may exist.
    fn write<T>(
        &self,
        name: &str,
        readers: Readers,
        fill: impl FnOnce(&mut File) -> io::Result<T>,
    ) -> Result<(T, u64), FleetError> {
        let mut written = None;
        self.hour.write(name, readers, |file| {
            written = Some((fill(file)?, file.metadata()?.len()));
            Ok(())
        })?;
        written.ok_or_else(|| self.rows_error("nothing was written"))
    }
}

fn two_chunks(table: &Schema) -> [Chunk<'_>; 2] {
    [Chunk::of(table), Chunk::of(table)]
}

/// Why a file is not merged.
pub(crate) enum Refused {
    /// The file is invalid, and left alone.
    File(String),
    /// The store cannot be read or written.
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
            Refused::File(why) => Ok(Problem::new(path, &why)),
            Refused::Store(error) => Err(error),
        }
    }
}
