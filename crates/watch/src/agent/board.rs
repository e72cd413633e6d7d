//! The board: the watch's current state, shared with all outputs.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use unstarve_model::{Nanos, WallTime};

use super::history::History;
use super::last_words::LastWords;
use super::machine::Machine;
use super::series::{Admitted, Key};
use crate::agent::config::{Address, SeriesLimits};
use crate::agent::store::{Kept, Store};
use crate::agent::workload_series::WorkloadRows;
use crate::engine::reading::Reading;
use crate::episode::Episode;

/// The current state: written by the loop and its threads, read by all outputs.
#[derive(Debug, Default)]
pub struct Board {
    published: Mutex<Arc<Published>>,
    /// What is still to be said of open episodes.
    pub(crate) last_words: LastWords,
}

/// The current state.
#[derive(Clone, Debug, Default)]
pub struct Published {
    /// What this machine is called.
    pub machine: Arc<Machine>,
    /// The engine's name.
    pub engine: &'static str,
    /// When counting began; `None` before.
    pub started: Option<WallTime>,
    /// The latest reading.
    pub reading: Option<Arc<Reading>>,
    /// The readings of the five seconds before it, oldest first.
    pub earlier: VecDeque<Arc<Reading>>,
    /// The last hour.
    pub history: Arc<History>,
    /// The latest episodes, newest first.
    pub episodes: VecDeque<Arc<Episode>>,
    /// Episodes of which all is said since the tables took them; `None` without tables.
    pub(crate) finished: Option<Vec<Arc<Episode>>>,
    /// Counts since the start.
    pub counts: Counts,
    /// Combinations that have series of their own in the metrics.
    pub admitted: Arc<Admitted>,
    /// What has a series of its own in the metrics.
    pub series: SeriesLimits,
    /// The worst combinations, where only they have series.
    pub worst_blame: Arc<BTreeMap<Key, Nanos>>,
    /// Waits by pod and unit.
    pub workloads: Arc<WorkloadRows>,
    /// Where metrics and the page are served, with the real port instead of 0.
    pub listening: Option<Address>,
    /// The state of the flight recorder.
    pub recorder: RecorderState,
    /// Incremented with each change: caches are valid while it stays the same.
    pub version: u64,
    /// Present problems, by subject.
    pub problems: BTreeMap<&'static str, String>,
}

/// What was counted since the start.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Episodes by finding, about their victim or others; without any: `none`. Dumps on demand are not counted.
    pub episodes: BTreeMap<String, u64>,
    /// Episodes that have begun, by the counters' rule; not corrected by `explain`.
    pub begun: BTreeMap<&'static str, u64>,
    /// Episodes that have a line and no trace: their culprit had one just before, or there were too many.
    pub without_trace: u64,
    /// Episodes that were seen and have no line, because too many began at once.
    pub not_kept: u64,
    /// Episodes that have ended.
    pub ended: u64,
    /// Victims without an episode of their own (one by the same culprit was open, or too many began), by role.
    pub suppressed: BTreeMap<String, u64>,
    /// Traces that begin after their wait did.
    pub short_traces: u64,
    /// Times that the store could not be written.
    pub store_errors: u64,
    /// Times that the engine could not be read.
    pub engine_errors: u64,
    /// Messages not delivered, by output.
    pub undelivered: BTreeMap<&'static str, u64>,
    /// Whether the configuration of the latest SIGHUP was refused; `None` without SIGHUP.
    pub reload_refused: Option<bool>,
    /// The contents of the store.
    pub kept: Option<Kept>,
    /// From detection of the latest episode to its trace on disk, in ns.
    pub to_disk_ns: Option<u64>,
}

/// Maximum roles counted by name; further ones are `rest`.
const SUPPRESSED: usize = 64;

impl Counts {
    /// Counts a victim that gets no episode.
    pub fn suppress(&mut self, role: &str) {
        let has_name = self.suppressed.len() < SUPPRESSED || self.suppressed.contains_key(role);
        let name = if has_name { role } else { "rest" };
        *self.suppressed.entry(name.to_owned()).or_insert(0) += 1;
    }
}

/// States of the flight recorder.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum RecorderState {
    /// Switched off by the configuration.
    #[default]
    Off,
    /// Recording.
    Recording,
    /// Records when a condition is above half of its threshold.
    Armed,
    /// Not working, with the reason.
    Broken(String),
}

impl RecorderState {
    /// One word for the state.
    pub fn word(&self) -> &'static str {
        match self {
            RecorderState::Off => "off",
            RecorderState::Recording => "recording",
            RecorderState::Armed => "armed",
            RecorderState::Broken(_) => "broken",
        }
    }
}

/// Maximum episodes listed on the page.
const LISTED: usize = 100;

impl Board {
    /// The current state.
    pub fn read(&self) -> Arc<Published> {
        Arc::clone(&self.published.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Changes the state.
    pub fn write(&self, change: impl FnOnce(&mut Published)) {
        let mut published = self.published.lock().unwrap_or_else(PoisonError::into_inner);
        // Copies only if the old state is still in use.
        let published = Arc::make_mut(&mut published);
        change(published);
        published.version += 1;
    }

    /// Records that the store could not be written.
    pub(crate) fn store_problem(&self, problem: &str) {
        self.write(|published| {
            published.counts.store_errors += 1;
            published.problems.insert("store", format!("store: {problem}"));
        });
    }

    /// Records the contents of the store.
    pub(crate) fn note_kept(&self, store: &Store) {
        let kept = store.kept().ok();
        self.write(|published| published.counts.kept = kept);
    }

    /// Counts a message that was not delivered to an output.
    pub fn undelivered(&self, output: &'static str) {
        self.write(|published| *published.counts.undelivered.entry(output).or_insert(0) += 1);
    }
}

/// Episodes that began longer ago are in no metric that names them.
const NAMED_FOR: Nanos = Nanos::from_millis(900_000);

/// The latest episode of each rule by which one began lately, newest first.
pub(crate) fn last_by_rule(published: &Published) -> VecDeque<Arc<Episode>> {
    let Some(reading) = &published.reading else { return VecDeque::new() };
    let mut rules = Vec::new();
    let is_recent = |episode: &&Arc<Episode>| reading.at.wall.0.saturating_sub(episode.at_ns) < NAMED_FOR.0;
    let is_last = |episode: &&Arc<Episode>| -> bool {
        let rule = episode.began_by();
        let is_first = rule.is_some() && !rules.contains(&rule);
        rules.push(rule);
        is_first
    };
    published.episodes.iter().filter(is_recent).filter(is_last).cloned().collect()
}

/// Five seconds of readings.
const EARLIER: usize = 20;

impl Published {
    /// Sets the next reading.
    pub fn next(&mut self, reading: Arc<Reading>) {
        self.earlier.extend(self.reading.replace(reading));
        while self.earlier.len() > EARLIER {
            self.earlier.pop_front();
        }
    }

    /// The part of the state that is pushed. It can wait in a queue for long, so it has no history.
    pub(crate) fn to_push(&self) -> Published {
        let (reading, admitted) = (self.reading.clone(), Arc::clone(&self.admitted));
        let (workloads, episodes) = (Arc::clone(&self.workloads), last_by_rule(self));
        let (counts, recorder) = (self.counts.clone(), self.recorder.clone());
        let (engine, started, problems) = (self.engine, self.started, self.problems.clone());
        let (machine, series, worst_blame) = (Arc::clone(&self.machine), self.series, Arc::clone(&self.worst_blame));
        Published {
            machine,
            engine,
            started,
            reading,
            series,
            worst_blame,
            admitted,
            workloads,
            episodes,
            counts,
            recorder,
            problems,
            ..Published::default()
        }
    }

    /// Inserts an episode into the list by time, replacing its earlier record.
    pub fn list(&mut self, episode: Arc<Episode>) {
        if let Some(finished) = self.finished.as_mut().filter(|_| episode.is_final()) {
            finished.push(Arc::clone(&episode));
        }
        self.episodes.retain(|old| !old.is_same(&episode));
        let place = self.episodes.iter().position(|old| old.at_ns <= episode.at_ns);
        self.episodes.insert(place.unwrap_or(self.episodes.len()), episode);
        self.episodes.truncate(LISTED);
    }
}
