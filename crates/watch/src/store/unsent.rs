//! What outputs had not got when the watch ended, for the next one: words are delivered then, and the rest is counted.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::StoreError;
use super::home::Home;
use crate::episode::Episode;

const NAME: &str = "unsent.json";
/// Some dozens of episodes, of some KiB each.
const LARGEST: u64 = 4 << 20;

/// What was not delivered.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Unsent {
    /// Words for the webhook, in their order.
    pub words: Vec<Episode>,
    /// What nobody can deliver any more, by output.
    pub counts: BTreeMap<String, u64>,
}

impl Unsent {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty() && self.counts.is_empty()
    }
}

/// Where it is noted. The store stays this watch's while there is one.
#[derive(Clone, Debug)]
pub struct Outbox(Arc<Home>);

impl Outbox {
    pub(super) fn of(home: &Arc<Home>) -> Outbox {
        Outbox(Arc::clone(home))
    }

    /// What the watch before has noted. It stays noted until [`Outbox::note`].
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn read(&self) -> Result<Unsent, StoreError> {
        let bytes = self.0.directory()?.read(OsStr::new(NAME), LARGEST)?;
        let path = self.0.path().join(NAME);
        let parsed = bytes.map_or_else(|| Ok(Unsent::default()), |bytes| serde_json::from_slice(&bytes));
        parsed.map_err(std::io::Error::from).map_err(StoreError::unreadable(&path))
    }

    /// Notes this, and nothing else any more.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn note(&self, unsent: &Unsent) -> Result<(), StoreError> {
        let directory = self.0.directory()?;
        let noted = match unsent.is_empty() {
            true => directory.remove(OsStr::new(NAME)),
            false => {
                let json = serde_json::to_vec(unsent).map_err(std::io::Error::from);
                json.and_then(|json| directory.replace(OsStr::new(NAME), &json, 0o600))
            }
        };
        noted.map_err(StoreError::io(&self.0.path().join(NAME)))
    }
}
