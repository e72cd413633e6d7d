//! The merged files of the next commit.

use std::fs::File;
use std::io;
use std::path::PathBuf;

use unstarve_tables::Schema;

use super::chunk::{Chunk, FULL_MEMORY};
use super::hourly;
use crate::commit::{COMMIT_BYTES, HourlyFile, Name, Output};
use crate::decode::Run;
use crate::error::FleetError;
use crate::problem::Problem;
use crate::store::{Hour, Place, Readers, random};

/// Collects rows and writes them to merged files.
pub(crate) struct OutputFiles<'a> {
    pub hour: &'a Hour<'a>,
    /// Where they are written.
    state: &'a Place<'a>,
    pub table: &'static Schema,
    pub number: u64,
    /// Rows of the next file without extra columns, and of the next one with some: extra columns of one host do not end the file of the others.
    pub(super) chunks: [Chunk<'a>; 2],
    pub outputs: Vec<Output>,
    /// Number of merged files that the hour has already.
    before: usize,
    most_outputs: usize,
    /// Maximum size of the commit.
    pub commit_bytes: u64,
}

impl<'a> OutputFiles<'a> {
    /// Empty; the hour may have `most_outputs` merged files.
    pub fn of(
        hour: &'a Hour<'a>,
        state: &'a Place<'a>,
        table: &'static Schema,
        most_outputs: usize,
    ) -> OutputFiles<'a> {
        OutputFiles {
            hour,
            state,
            table,
            number: hour.next(),
            chunks: [Chunk::of(table), Chunk::of(table)],
            outputs: Vec::new(),
            before: hour.outputs().count(),
            most_outputs,
            commit_bytes: COMMIT_BYTES,
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
        FleetError::Rows { path: self.state.path().to_owned(), why: why.to_owned() }
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
        let name = Name::merged(self.number, random);
        let hourly = self.write_hourly(&chunk, &Name::waiting_hourly(&name))?;
        let (rows, sum, readers) = (chunk.rows, chunk.sum, chunk.readers);
        let (written, bytes) = self.write(&name, readers, |file| chunk.write(file))?;
        // Listed before it is checked, so that it is removed with the others.
        self.outputs.push(Output { name, bytes, rows, sum, hourly });
        match written == sum {
            true => Ok(()),
            false => Err(self.rows_error("the rows to be written are not those that were read")),
        }
    }

    /// Folds its rows by the hour, if the table supports that and there are far fewer rows then.
    fn write_hourly(&self, chunk: &Chunk<'_>, name: &str) -> Result<Option<HourlyFile>, FleetError> {
        let Some(folded) = chunk.hourly().map_err(|error| self.rows_error(&error.to_string()))? else {
            return Ok(None);
        };
        let rows = folded.num_rows() as u64;
        let (sum, bytes) = self.write(name, chunk.readers, |file| hourly::write(file, &folded))?;
        Ok(Some(HourlyFile { bytes, rows, sum }))
    }

    /// Writes a file below `state/`, and returns its size.
    fn write<T>(
        &self,
        name: &str,
        readers: Readers,
        fill: impl FnOnce(&mut File) -> io::Result<T>,
    ) -> Result<(T, u64), FleetError> {
        self.state.write(name, readers, |file| Ok((fill(file)?, file.metadata()?.len())))
    }

    /// Removes what was written: no commit will list it.
    pub fn remove(&self) {
        for output in &self.outputs {
            for name in [&output.name, &Name::waiting_hourly(&output.name)] {
                // The next run does what fails.
                let _ = self.state.remove(name);
            }
        }
    }
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
