use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use super::history::History;
use super::series::Admitted;
use crate::Reading;
use crate::episode::Episode;

/// Where the loop puts how things stand, and from where others take it.
#[derive(Debug, Default)]
pub struct Board(Mutex<Arc<Published>>);

/// How things stand.
#[derive(Clone, Debug, Default)]
pub struct Published {
    /// The engine's name.
    pub engine: &'static str,
    /// The latest reading.
    pub reading: Option<Arc<Reading>>,
    /// Those of the five seconds before it, oldest first.
    pub earlier: VecDeque<Arc<Reading>>,
    /// The last hour.
    pub history: Arc<History>,
    /// The latest episodes, newest first.
    pub episodes: VecDeque<Arc<Episode>>,
    /// What was counted.
    pub counts: Counts,
    /// Which combinations have series of their own in the metrics.
    pub admitted: Arc<Admitted>,
    /// How the flight recorder is.
    pub recorder: RecorderState,
    /// What does not work now, for people.
    pub problems: BTreeMap<&'static str, String>,
}

/// What was counted since the start.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Episodes by finding, be it about others than their victim; those without any are `none`. Dumps on demand are not counted.
    pub episodes: BTreeMap<String, u64>,
    /// Episodes that were seen and not kept, because they came too soon after another.
    pub not_kept: u64,
    /// Times that the store could not be written.
    pub store_errors: u64,
    /// Times that the engine could not be read.
    pub engine_errors: u64,
    /// Episodes and pushes that an output did not get, by output.
    pub undelivered: BTreeMap<&'static str, u64>,
    /// What the store holds.
    pub kept: Option<crate::store::Kept>,
    /// From the first sight of the latest episode to its trace being on the disk, in ns.
    pub to_disk_ns: Option<u64>,
}

/// How the flight recorder is.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum RecorderState {
    /// Switched off by the configuration.
    #[default]
    Off,
    /// It records.
    Recording,
    /// It would record if something were above half of its threshold.
    Armed,
    /// It cannot.
    Broken(String),
}

impl RecorderState {
    /// In a word.
    pub fn word(&self) -> &'static str {
        match self {
            RecorderState::Off => "off",
            RecorderState::Recording => "recording",
            RecorderState::Armed => "armed",
            RecorderState::Broken(_) => "broken",
        }
    }
}

/// Episodes that the page lists.
const LISTED: usize = 100;

impl Board {
    /// What is there now.
    pub fn read(&self) -> Arc<Published> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Changes it.
    pub fn write(&self, change: impl FnOnce(&mut Published)) {
        let mut published = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Who reads the old one keeps it; mostly nobody does, and nothing is copied.
        change(Arc::make_mut(&mut published));
    }

    /// Notes that an output did not get something.
    pub fn undelivered(&self, output: &'static str) {
        self.write(|published| *published.counts.undelivered.entry(output).or_insert(0) += 1);
    }
}

/// Five seconds of readings.
const EARLIER: usize = 20;

impl Published {
    /// The next reading.
    pub fn next(&mut self, reading: Arc<Reading>) {
        self.earlier.extend(self.reading.replace(reading));
        while self.earlier.len() > EARLIER {
            self.earlier.pop_front();
        }
    }

    /// Puts an episode first in the list, instead of an older word on it.
    pub fn list(&mut self, episode: Arc<Episode>) {
        self.episodes.retain(|old| old.id != episode.id);
        self.episodes.push_front(episode);
        self.episodes.truncate(LISTED);
    }
}
