use std::fs::{self, File, Permissions};
use std::io::{BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tempfile::NamedTempFile;

use crate::output::Out;

/// Where a command's result goes: standard output for `-`, something that is there and no file (a FIFO, `/dev/null`), or a
/// file that gets its name only when it is whole.
pub enum Target {
    Stdout,
    Device { file: File, path: PathBuf },
    File { part: NamedTempFile, path: PathBuf },
}

/// What writes to a target.
pub type Writer = Box<dyn Write + Send>;

const BUFFER: usize = 1 << 16;

impl Target {
    /// Makes sure that it can be written, before any work.
    pub fn open(path: &Path) -> Result<Target> {
        let named = || format!("cannot write {}", path.display());
        if path == Path::new("-") {
            return Ok(Target::Stdout);
        }
        if fs::metadata(path).is_ok_and(|there| !there.is_file()) {
            let file = File::options().write(true).open(path).with_context(named)?;
            return Ok(Target::Device { file, path: path.to_owned() });
        }
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // Nobody else's business, as with the recording itself: it has the names of processes.
        let part = tempfile::Builder::new()
            .prefix(".unstarve-part-")
            .permissions(Permissions::from_mode(0o600))
            .tempfile_in(directory)
            .with_context(named)?;
        Ok(Target::File { part, path: path.to_owned() })
    }

    /// What messages call it.
    pub fn name(&self) -> String {
        match self {
            Target::Stdout => "standard output".to_owned(),
            Target::Device { path, .. } | Target::File { path, .. } => path.display().to_string(),
        }
    }

    /// Writes to it, with a buffer.
    pub fn writer(&self) -> Result<Writer> {
        let file = match self {
            Target::Stdout => return Ok(Box::new(Out::new())),
            Target::Device { file, .. } => file.try_clone(),
            Target::File { part, .. } => part.as_file().try_clone(),
        };
        Ok(Box::new(BufWriter::with_capacity(BUFFER, file.with_context(|| self.name())?)))
    }

    /// Gives a finished file its name.
    pub fn deliver(self) -> Result<()> {
        if let Target::File { part, path } = self {
            part.persist(&path)
                .map_err(|error| error.error)
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(())
    }
}
