use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::RecordError;

const PREFIX: &str = ".unstarve-part-";

/// Where the output is put together: a hidden directory beside it, removed on drop with all that is in it. The output
/// gets its name only when it is complete.
///
/// The directory is locked like an [`crate::instance::Instance`], so what killed recorders left is recognised.
pub(crate) struct Workshop {
    directory: PathBuf,
    output: PathBuf,
    _lock: File,
}

impl Workshop {
    /// Makes the directory early, so that an output that cannot be written is known before anything is recorded.
    pub(crate) fn beside(output: &Path) -> Result<Workshop, RecordError> {
        if fs::metadata(output).is_ok_and(|existing| !existing.is_file()) {
            return Err(RecordError::NotAFile(output.to_owned()));
        }
        let parent = match output.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        };
        remove_leftovers(parent);
        let pid = std::process::id();
        for attempt in 0..100 {
            let directory = parent.join(format!("{PREFIX}{pid}-{attempt}"));
            match DirBuilder::new().mode(0o700).create(&directory) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(source) => return Err(RecordError::Output { path: output.to_owned(), source }),
            }
            // Before it was locked, another recorder may have taken it for a leftover.
            if let Some(lock) = lock(&directory, FlockOperation::LockExclusive).filter(|_| directory.exists()) {
                return Ok(Workshop { directory, output: output.to_owned(), _lock: lock });
            }
        }
        Err(RecordError::Output { path: output.to_owned(), source: io::ErrorKind::AlreadyExists.into() })
    }

    /// A place for temporary files, on the filesystem that the user chose.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Where the finished file is to be.
    pub(crate) fn file(&self) -> PathBuf {
        self.directory.join("trace.dat")
    }

    /// Gives the finished file its name; returns its size in bytes.
    pub(crate) fn deliver(self) -> Result<u64, RecordError> {
        self.finish().map_err(RecordError::output(&self.output))
    }

    fn finish(&self) -> io::Result<u64> {
        let file = self.file();
        // Symbols and process names are nobody else's business, as with perf.data. Under sudo the file belongs to the
        // user, who would otherwise need root again to read it.
        fs::set_permissions(&file, Permissions::from_mode(0o600))?;
        if let (Some(user), Some(group)) = (id_from("SUDO_UID"), id_from("SUDO_GID")) {
            let _ = chown(&file, Some(user), Some(group));
        }
        let size = file.metadata()?.len();
        fs::rename(&file, &self.output)?;
        Ok(size)
    }
}

impl Drop for Workshop {
    fn drop(&mut self) {
        // What cannot be removed now is removed by the next recording.
        let _ = fs::remove_dir_all(&self.directory);
    }
}

fn id_from(variable: &str) -> Option<u32> {
    std::env::var(variable).ok()?.parse().ok()
}

fn lock(directory: &Path, operation: FlockOperation) -> Option<File> {
    let file = File::open(directory).ok()?;
    flock(&file, operation).ok().map(|()| file)
}

fn remove_leftovers(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if ours && is_directory && lock(&entry.path(), FlockOperation::NonBlockingLockExclusive).is_some() {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(directory)
            .expect("a directory")
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn an_output_appears_complete_or_not_at_all_and_leftovers_go() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let output = place.path().join("t.dat");
        fs::write(&output, "old").expect("an older recording");
        let leftover = place.path().join(".unstarve-part-1-0");
        fs::create_dir(&leftover).expect("a leftover");
        fs::write(leftover.join("trace.dat"), "of a killed recorder").expect("its file");

        let first = Workshop::beside(&output).expect("a workshop");
        let second = Workshop::beside(&output).expect("another at the same time");
        assert_eq!(names(place.path()).len(), 3, "both workshops and the old output, no leftover");
        drop(first);
        assert_eq!(fs::read_to_string(&output).expect("still there"), "old");
        fs::write(second.file(), "new").expect("the finished file");
        assert_eq!(second.deliver().expect("delivered"), 3);
        assert_eq!(names(place.path()), ["t.dat"]);
        assert_eq!(fs::read_to_string(&output).expect("replaced"), "new");
    }

    #[test]
    fn devices_and_directories_are_not_replaced() {
        for output in ["/dev/null", "/tmp"] {
            assert!(matches!(Workshop::beside(Path::new(output)), Err(RecordError::NotAFile(_))), "{output}");
        }
        let nowhere = Workshop::beside(Path::new("/nonexistent/t.dat"));
        assert!(matches!(nowhere, Err(RecordError::Output { .. })));
    }
}
