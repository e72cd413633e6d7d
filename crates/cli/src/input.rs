use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use unstarve_model::EventSource;

use crate::output;

/// The recording to read: a file, or standard input for `-`.
pub struct Recording(PathBuf);

impl Recording {
    pub fn new(path: PathBuf) -> Result<Recording> {
        if path.is_dir() {
            if let Some(looks) = unstarve_readers::foreign::directory(&path) {
                bail!("{}: is a directory; {looks}", path.display());
            }
            bail!("{}: is a directory; expected a recording, for example its trace.dat", path.display());
        }
        Ok(Recording(path))
    }

    pub fn open(&self) -> Result<Box<dyn EventSource>> {
        if self.0.metadata().is_ok_and(|found| found.file_type().is_fifo()) {
            // Opening waits for a writer, and reading for its end: without a word it looks like a hang.
            output::remark(&format!("reading from the pipe {} until its writer closes it", self.name()));
        }
        Ok(if self.0 == Path::new("-") { unstarve_readers::open_stdin()? } else { unstarve_readers::open(&self.0)? })
    }

    /// What a page calls it: without the directories, which say much about the machine and nothing about the recording.
    pub fn short_name(&self) -> String {
        let file = self.0.file_name().filter(|name| *name != "-");
        file.map_or_else(|| self.name(), |name| name.to_string_lossy().into_owned())
    }

    /// The file; `None` for standard input, which cannot be read again.
    pub fn file(&self) -> Option<&Path> {
        (self.0 != Path::new("-")).then_some(self.0.as_path())
    }

    /// What messages call it.
    pub fn name(&self) -> String {
        if self.0 == Path::new("-") { "standard input".to_owned() } else { self.0.display().to_string() }
    }
}

/// Whether two names are of the same regular file: a result must not replace what it is made from.
pub fn is_same_file(a: &Path, b: &Path) -> bool {
    let of = |path: &Path| path.metadata().ok().filter(|found| found.is_file()).map(|found| (found.dev(), found.ino()));
    a != Path::new("-") && of(a).is_some_and(|a| of(b) == Some(a))
}
