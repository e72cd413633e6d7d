//! Where a command writes its result: a file, standard output, a FIFO.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result};
use unstarve_files::target::{Readers, Target as Place};

use crate::output::{Out, silent_end};

/// A command's output ([`unstarve_files::target`]), with a writer for each kind.
pub struct Target(Place);

/// A writer to a target.
pub type Writer = Box<dyn Write + Send>;

const WRITE_BUFFER_BYTES: usize = 1 << 16;

impl Target {
    /// Checks before any work that it can be written. Results contain names of other users' processes, so files are
    /// private.
    pub fn open(path: &Path) -> Result<Target> {
        Ok(Target(Place::open(path, Readers::Owner)?))
    }

    /// Its name in messages.
    pub fn name(&self) -> String {
        self.0.name()
    }

    /// Whether the result is a separate file.
    pub fn is_file(&self) -> bool {
        matches!(self.0, Place::File(_))
    }

    /// A buffered writer.
    pub fn writer(&self) -> Result<Writer> {
        Ok(match &self.0 {
            Place::Stdout => Box::new(Out::new()),
            Place::Open { file, .. } => {
                let file = file.try_clone().with_context(|| self.name())?;
                Box::new(BufWriter::with_capacity(WRITE_BUFFER_BYTES, PipeWriter(file)))
            }
            Place::File(part) => {
                let file = part.file().try_clone().with_context(|| self.name())?;
                Box::new(BufWriter::with_capacity(WRITE_BUFFER_BYTES, file))
            }
        })
    }

    /// Writes a whole text.
    pub fn text(&self, text: &str) -> Result<()> {
        let mut writer = self.writer()?;
        let written = writer.write_all(text.as_bytes()).and_then(|()| writer.flush());
        written.with_context(|| format!("cannot write {}", self.name()))
    }

    /// Renames the finished file to its name.
    pub fn deliver(self) -> Result<()> {
        Ok(self.0.deliver()?)
    }
}

/// A FIFO or `/dev/stdout`: its reader may close it early, as that of standard output.
struct PipeWriter(File);

impl Write for PipeWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        silent_end(self.0.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        silent_end(self.0.flush())
    }
}
