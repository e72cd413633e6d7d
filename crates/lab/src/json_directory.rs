//! A directory of JSON files, each written as a whole: results that are kept between calls.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;
use unstarve_files::{Limit, read_text};

use crate::store::{PartialEntry, check_way};

#[derive(Clone, Debug)]
pub(crate) struct JsonDirectory {
    directory: PathBuf,
    limit: Limit,
}

impl JsonDirectory {
    /// The files in this directory, which is made with the first one.
    pub(crate) fn at(directory: &Path, limit: Limit) -> JsonDirectory {
        JsonDirectory { directory: directory.to_owned(), limit }
    }

    /// Makes the directory.
    ///
    /// # Errors
    /// If it cannot be made, or nothing can be written there.
    pub(crate) fn prepare(&self) -> io::Result<()> {
        let probe = PartialEntry::file(&self.path("probe"))?;
        fs::write(probe.path(), [])
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(format!("{name}.json").replace('/', "_"))
    }

    /// The file of this name; `None` if it is missing or unreadable, or if others than root could have written what root would believe.
    pub(crate) fn find<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        check_way(&self.directory).ok()?;
        serde_json::from_str(&read_text(&self.path(name), self.limit).ok()?).ok()
    }

    /// Writes a file as a whole.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn keep<T: Serialize>(&self, name: &str, value: &T) -> io::Result<()> {
        let part = PartialEntry::file(&self.path(name))?;
        fs::write(part.path(), serde_json::to_vec(value)?)?;
        part.keep()?;
        Ok(())
    }

    /// All files, by name.
    ///
    /// # Errors
    /// If the directory or a file in it cannot be read.
    pub(crate) fn all<T: DeserializeOwned>(&self) -> io::Result<Vec<T>> {
        let entries = fs::read_dir(&self.directory)?;
        let mut paths: Vec<PathBuf> =
            entries.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<_>>()?;
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
        paths.sort();
        let read = |path: &PathBuf| {
            let text = read_text(path, self.limit).map_err(io::Error::other)?;
            serde_json::from_str(&text).map_err(|error| io::Error::other(format!("{}: {error}", path.display())))
        };
        paths.iter().map(read).collect()
    }
}
