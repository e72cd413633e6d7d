//! Finds the episodes that a killed watch has left unexplained.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::ffi::OsStr;

use unstarve_files::trust::Directory;

use super::{ALONG, LARGEST_EPISODE, LOGGED, Rank, Store, StoreError, log};
use crate::episode::Episode;

/// An episode that a killed watch has left to be explained.
#[derive(Clone, PartialEq, Debug)]
pub struct Left {
    /// The episode with the trace.
    pub episode: Episode,
    /// Episodes that began before the trace was written, and share it.
    pub along: Vec<Episode>,
}

impl Left {
    /// The first `most` of them, in the order of [`Store::unexplained`]: those of kernel threads first, and of these the latest.
    pub(crate) fn first(mut left: Vec<Left>, most: usize) -> Vec<Left> {
        left.reverse();
        left.sort_by_key(|left| Reverse(Rank::of_all(&left.episode, &left.along)));
        left.truncate(most);
        left
    }
}

impl Store {
    /// Episodes with a complete trace that are missing in the log, each with the episodes that share the trace and are missing too: the watch was
    /// killed before explaining them. After them, episodes of which the log has only the first record.
    ///
    /// # Errors
    /// If the directory or the log cannot be read.
    pub fn unexplained(&self) -> Result<Vec<Left>, StoreError> {
        let all = log::read(self.path())?.episodes.into_iter();
        // Of the others only the end is missing, see [`Store::without_end`].
        let (begun, complete): (Vec<Episode>, Vec<Episode>) = all.partition(Episode::expects_trace);
        let logged: BTreeSet<String> = complete.into_iter().map(|episode| episode.id).collect();
        // A long log is rotated, so that an episode can be missing in both files that are kept.
        let is_noted = |id: &String| self.directory_of(id).join(LOGGED).symlink_metadata().is_ok();
        let ids = self.ids()?.into_iter().filter(|id| !logged.contains(id) && !is_noted(id));
        let left = |id: String| {
            let along = self.along(&id).into_iter().filter(|other| !logged.contains(&other.id));
            Some(Left {
                episode: with_end(self.episode(&id)?, &begun),
                along: along.map(|other| with_end(other, &begun)).collect(),
            })
        };
        let mut all: Vec<Left> = ids.filter_map(left).collect();
        let has = |left: &Left, id: &str| left.episode.id == id || left.along.iter().any(|other| other.id == id);
        for episode in begun {
            let is_whole = self.directory_of(&episode.id).symlink_metadata().is_ok();
            if !is_whole && !all.iter().any(|left| has(left, &episode.id)) {
                all.push(Left { episode: episode.interrupted(), along: Vec::new() });
            }
        }
        Ok(all)
    }

    /// Episodes whose last word the earlier watch did not say, though only the end was missing.
    ///
    /// # Errors
    /// If the log cannot be read.
    pub fn without_end(&self) -> Result<Vec<Episode>, StoreError> {
        let all = log::read(self.path())?.episodes.into_iter();
        Ok(all.filter(|episode| episode.lasts && !episode.expects_trace()).collect())
    }

    /// The episodes that share a trace, as they were when it was written.
    pub(super) fn along(&self, id: &str) -> Vec<Episode> {
        let bytes = Directory::open(&self.directory_of(id))
            .and_then(|directory| directory.read(OsStr::new(ALONG), LARGEST_EPISODE));
        let Ok(Some(bytes)) = bytes else { return Vec::new() };
        serde_json::from_slice(&bytes).unwrap_or_default()
    }
}

/// The same with the end that the log has of it: it ended before it was explained.
fn with_end(mut episode: Episode, words: &[Episode]) -> Episode {
    if let Some(end) = words.iter().find(|word| word.is_same(&episode)).and_then(Episode::end) {
        episode.note_end(&end);
    }
    episode
}
