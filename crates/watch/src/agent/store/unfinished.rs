//! An episode that is being written to the store.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::PathBuf;

use unstarve_files::trust::{Directory, How};

use super::{ALONG, Rank, Store, StoreError, TRACE, note_in};
use crate::episode::Episode;

/// An episode that is being written. Dropped without [`Unfinished::finish`], it is removed.
#[derive(Debug)]
pub struct Unfinished {
    pub(super) path: PathBuf,
    pub(super) id: String,
    pub(super) sequence: u64,
    pub(super) removed: Vec<String>,
}

impl Unfinished {
    /// The id of the episode.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The sequence number of the episode in the store.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Older episodes that were removed to make room for it.
    pub fn removed(&self) -> &[String] {
        &self.removed
    }

    /// Where to write its trace.
    pub fn trace(&self) -> PathBuf {
        self.path.join(TRACE)
    }

    /// Renames the directory to its final name, with the present record and those of the episodes that share the trace. The contents are on the
    /// disk before the rename, and the new name afterwards: from here on nothing is lost in a crash.
    ///
    /// # Errors
    /// If a system call fails.
    pub fn finish(self, store: &Store, episode: &Episode, along: &[Episode]) -> Result<(), StoreError> {
        let around = store.home.directory()?;
        let directory = Directory::open(&self.path)?;
        let trace = directory.file(OsStr::new(TRACE), How::Read)?;
        trace.sync_all().map_err(StoreError::io(&self.trace()))?;
        note_in(&directory, episode).map_err(StoreError::io(&self.path))?;
        if !along.is_empty() {
            let json = serde_json::to_vec(along).map_err(io::Error::from);
            let written = json.and_then(|json| directory.replace_durably(OsStr::new(ALONG), &json, 0o600));
            written.map_err(StoreError::io(&self.path))?;
        }
        directory.sync().map_err(StoreError::io(&self.path))?;
        let to = store.directory_of(&self.id);
        fs::rename(&self.path, &to).map_err(StoreError::io(&to))?;
        around.sync().map_err(|error| {
            let _ = fs::remove_dir_all(&to);
            StoreError::io(store.path())(error)
        })?;
        store.state().unexplained.insert(self.id.clone(), Rank::of_all(episode, along));
        Ok(())
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // After `finish` there is no such directory.
        let _ = fs::remove_dir_all(&self.path);
    }
}
