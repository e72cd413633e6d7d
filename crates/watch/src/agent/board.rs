use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use unstarve_model::WallTime;

use super::history::History;
use super::series::Admitted;
use crate::agent::config::Address;
use crate::agent::store::{Kept, Store};
use crate::engine::reading::Reading;
use crate::episode::Episode;

/// Where the loop puts how things stand, and from where others take it.
#[derive(Debug, Default)]
pub struct Board(Mutex<Arc<Published>>);

/// How things stand.
#[derive(Clone, Debug, Default)]
pub struct Published {
    /// The engine's name.
    pub engine: &'static str,
    /// When counting began, by the wall's clock; `None` before.
    pub started: Option<WallTime>,
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
    /// Where metrics and the page are, once they are: of port 0 the one that was free.
    pub listening: Option<Address>,
    /// How the flight recorder is.
    pub recorder: RecorderState,
    /// Grows with each change: what is made of it is good as long as this stays.
    pub version: u64,
    /// What does not work now, for people.
    pub problems: BTreeMap<&'static str, String>,
}

/// What was counted since the start.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Episodes by finding, be it about others than their victim; those without any are `none`. Dumps on demand are not counted.
    pub episodes: BTreeMap<String, u64>,
    /// Episodes that have begun, by the rule that the counters saw: at once, whatever `explain` finds later.
    pub begun: BTreeMap<&'static str, u64>,
    /// Episodes that were seen and not kept, because they came too soon after another.
    pub not_kept: u64,
    /// Starvation that has no episode of its own, because one of its class was open or was kept just before: by the victim's role.
    pub suppressed: BTreeMap<String, u64>,
    /// Traces that begin after the wait that they are of.
    pub short_traces: u64,
    /// Times that the store could not be written.
    pub store_errors: u64,
    /// Times that the engine could not be read.
    pub engine_errors: u64,
    /// Episodes and pushes that an output did not get, by output.
    pub undelivered: BTreeMap<&'static str, u64>,
    /// Whether the latest SIGHUP's configuration was refused; `None`: there was none.
    pub reload_refused: Option<bool>,
    /// What the store holds.
    pub kept: Option<Kept>,
    /// From the first sight of the latest episode to its trace being on the disk, in ns.
    pub to_disk_ns: Option<u64>,
}

/// Roles that are counted by their names; further ones, of groups that come and go, are `rest`.
const SUPPRESSED: usize = 64;

impl Counts {
    /// Counts a victim that gets no episode.
    pub fn suppress(&mut self, role: &str) {
        let has_name = self.suppressed.len() < SUPPRESSED || self.suppressed.contains_key(role);
        let name = if has_name { role } else { "rest" };
        *self.suppressed.entry(name.to_owned()).or_insert(0) += 1;
    }
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
        let published = Arc::make_mut(&mut published);
        change(published);
        published.version += 1;
    }

    /// Notes that the store could not be written.
    pub(crate) fn store_problem(&self, problem: &str) {
        self.write(|published| {
            published.counts.store_errors += 1;
            published.problems.insert("store", format!("store: {problem}"));
        });
    }

    /// Notes what the store holds.
    pub(crate) fn note_kept(&self, store: &Store) {
        let kept = store.kept().ok();
        self.write(|published| published.counts.kept = kept);
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

    /// What is pushed of it. It may wait for long, and holds nothing of the past.
    pub(crate) fn to_push(&self) -> Published {
        let (reading, admitted) = (self.reading.clone(), Arc::clone(&self.admitted));
        let (counts, recorder) = (self.counts.clone(), self.recorder.clone());
        let (engine, started, problems) = (self.engine, self.started, self.problems.clone());
        Published { engine, started, reading, admitted, counts, recorder, problems, ..Published::default() }
    }

    /// Puts an episode in the list, before those that began earlier, instead of an older word on it: what is known of one may
    /// come after others have begun.
    pub fn list(&mut self, episode: Arc<Episode>) {
        self.episodes.retain(|old| old.id != episode.id && Some(&old.id) != episode.announced_as.as_ref());
        let place = self.episodes.iter().position(|old| old.at_ns <= episode.at_ns);
        self.episodes.insert(place.unwrap_or(self.episodes.len()), episode);
        self.episodes.truncate(LISTED);
    }
}
