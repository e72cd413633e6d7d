//! Saves what outputs had not delivered when the watch ended: the next watch delivers records to the webhook, and counts the rest.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::StoreError;
use super::store_dir::StoreDir;
use crate::episode::Episode;

const NAME: &str = "unsent.json";
/// Maximum size of the file: dozens of episodes of a few KiB each.
const LARGEST: u64 = 4 << 20;

/// The output that the records are for.
const WEBHOOK: &str = "webhook";

/// What was not delivered.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Unsent {
    /// Records for the webhook, in order.
    pub words: Vec<Episode>,
    /// Number of records that cannot be delivered any more, by output.
    pub counts: BTreeMap<String, u64>,
}

impl Unsent {
    /// Whether nothing is undelivered.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty() && self.counts.is_empty()
    }

    /// The part that fits into a file that can be read again: the newest records. The others are counted.
    #[must_use]
    pub fn fitting(self) -> Unsent {
        let mut room = LARGEST.saturating_sub(self.frame());
        let Unsent { words, mut counts } = self;
        let all = words.len();
        let fits = |word: &Episode| {
            // Includes the comma after it.
            let size = json_size(word).saturating_add(1);
            let fits = size <= room;
            room -= if fits { size } else { 0 };
            fits
        };
        let mut words: Vec<Episode> = words.into_iter().rev().filter(fits).collect();
        words.reverse();
        if words.len() < all {
            *counts.entry(WEBHOOK.to_owned()).or_insert(0) += (all - words.len()) as u64;
        }
        Unsent { words, counts }
    }

    /// Bytes around the records, for any counts.
    fn frame(&self) -> u64 {
        let mut counts = self.counts.clone();
        counts.insert(WEBHOOK.to_owned(), u64::MAX);
        json_size(&Unsent { words: Vec::new(), counts })
    }
}

/// The saved file. The store belongs to this watch as long as this exists.
#[derive(Clone, Debug)]
pub struct Outbox(Arc<StoreDir>);

impl Outbox {
    pub(super) fn of(home: &Arc<StoreDir>) -> Outbox {
        Outbox(Arc::clone(home))
    }

    /// Reads what the earlier watch has saved. The file stays until [`Outbox::note`].
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn read(&self) -> Result<Unsent, StoreError> {
        let bytes = self.0.directory()?.read(OsStr::new(NAME), LARGEST)?;
        let path = self.0.path().join(NAME);
        let parsed = bytes.map_or_else(|| Ok(Unsent::default()), |bytes| serde_json::from_slice(&bytes));
        parsed.map_err(std::io::Error::from).map_err(StoreError::unreadable(&path))
    }

    /// Saves as much as can be read again (see [`Unsent::fitting`]), replacing the earlier contents.
    ///
    /// # Errors
    /// If a system call fails.
    pub fn note(&self, unsent: &Unsent) -> Result<(), StoreError> {
        let directory = self.0.directory()?;
        let noted = match unsent.is_empty() {
            true => directory.remove(OsStr::new(NAME)),
            false => {
                let json = serde_json::to_vec(&unsent.clone().fitting()).map_err(std::io::Error::from);
                json.and_then(|json| directory.replace_durably(OsStr::new(NAME), &json, 0o600))
            }
        };
        noted.and_then(|()| directory.sync()).map_err(StoreError::io(&self.0.path().join(NAME)))
    }
}

/// Size as JSON, in bytes.
fn json_size(what: &impl Serialize) -> u64 {
    serde_json::to_vec(what).map_or(u64::MAX, |json| json.len() as u64)
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::agent::store::Limits;

    fn word(number: usize, bytes: usize) -> Episode {
        Episode { id: format!("20261123-012345-{number:03}"), problem: Some("x".repeat(bytes)), ..Episode::default() }
    }

    fn numbers(unsent: &Unsent) -> Vec<usize> {
        unsent.words.iter().filter_map(|word| word.id.rsplit('-').next()?.parse().ok()).collect()
    }

    /// Users choose the names of tasks in an episode, and so their lengths.
    #[test]
    fn of_words_that_are_too_many_to_be_read_the_newest_are_noted() {
        let (_place, store) = crate::testing::store(Limits { bytes: u64::MAX, episodes: 9 });
        let words: Vec<Episode> = (0..9).map(|number| word(number, 1 << 20)).collect();
        let counts = BTreeMap::from([("otlp".to_owned(), 2), ("webhook".to_owned(), 1)]);
        store.outbox().note(&Unsent { words, counts }).expect("noted");
        let read = store.outbox().read().expect("it can be read");
        assert_eq!(numbers(&read), [6, 7, 8]);
        assert_eq!(read.counts, BTreeMap::from([("otlp".to_owned(), 2), ("webhook".to_owned(), 7)]));
    }

    #[test]
    fn one_that_is_too_large_keeps_no_other_from_being_noted() {
        let words = vec![word(0, 10), word(1, 2 << 20), word(2, 5 << 20), word(3, 10)];
        let unsent = Unsent { words: words.clone(), counts: BTreeMap::new() }.fitting();
        assert_eq!((numbers(&unsent), unsent.counts.get(WEBHOOK)), (vec![0, 1, 3], Some(&1)));
        let few = Unsent { words: words[..2].to_vec(), counts: BTreeMap::new() };
        assert_eq!(few.clone().fitting(), few);
    }

    /// Exact to the byte: the limit for writing is that for reading.
    #[test]
    fn what_just_fits_is_noted() {
        let empty = Unsent { words: vec![word(1, 0)], counts: [(WEBHOOK.to_owned(), u64::MAX)].into() };
        let most = (LARGEST - json_size(&empty)) as usize;
        for (bytes, fits) in [(most - 1, true), (most + 1, false)] {
            let unsent = Unsent { words: vec![word(1, bytes)], counts: BTreeMap::new() }.fitting();
            assert_eq!(!unsent.words.is_empty(), fits, "{bytes}");
            assert!(json_size(&unsent) <= LARGEST);
        }
    }
}
