//! Writes the sums of each interval as tables, for queries over many hosts: `[tables]` of the configuration.
//!
//! The main loop passes on the present sums without waiting; a thread writes the growth since what it has written.

#[cfg_attr(not(any(feature = "columnar", test)), expect(dead_code, reason = "only the writer reads it"))]
mod interval;
#[cfg(feature = "columnar")]
mod write;

use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use unstarve_model::WallTime;

use self::interval::Sums;
use crate::agent::board::{Board, Published};
use crate::agent::config::{Config, Tables};
use crate::engine::reading::Reading;
use crate::episode::{Episode, Stage};

/// The sums at the end of an interval.
#[cfg_attr(not(feature = "columnar"), expect(dead_code, reason = "only the writer reads it"))]
pub(crate) struct Work {
    /// When the engine started.
    begun: Sums,
    now: Sums,
    /// All episodes that are listed.
    episodes: Vec<Arc<Episode>>,
}

/// The tables of a running watch.
pub(crate) struct Rollups {
    config: Tables,
    /// Start of the current interval.
    begun: Option<WallTime>,
    work: Sender<Work>,
    writer: JoinHandle<()>,
}

impl Rollups {
    /// Opens the configured tables; `None` if none are configured.
    pub fn start(config: &Config, board: &Arc<Board>) -> Result<Option<Rollups>, String> {
        let Some(tables) = config.tables.clone() else { return Ok(None) };
        let (work, writer) = start_writer(config, &tables, board)?;
        Ok(Some(Rollups { config: tables, begun: None, work, writer }))
    }

    /// Processes a reading, and passes the interval on if it is over. Intervals end at multiples of their length on the wall clock, so that those
    /// of all hosts are aligned.
    pub fn see(&mut self, reading: &Reading, published: &Published) {
        let every = self.config.every.nanos();
        let begun = *self.begun.get_or_insert(reading.since.wall);
        if begun.0 / every != reading.at.wall.0 / every {
            self.begun = Some(reading.at.wall);
            self.hand_over(reading, published);
        }
    }

    fn hand_over(&self, reading: &Reading, published: &Published) {
        // Episodes that are still being recorded are written with the next interval.
        let is_whole = |episode: &&Arc<Episode>| episode.trigger.is_some() && episode.stage == Stage::Complete;
        let episodes = published.episodes.iter().filter(is_whole).cloned().collect();
        // Fails only if the writer has ended, which it has reported.
        let _ = self.work.send(Work { begun: Sums::at_the_start(reading), now: Sums::of(reading), episodes });
    }

    /// Writes the growth since the last interval, and waits for the writer at most for `patience`.
    pub fn finish(self, published: &Published, patience: Duration) {
        if let Some(reading) = &published.reading {
            self.hand_over(reading, published);
        }
        drop(self.work);
        let end = Instant::now() + patience;
        while !self.writer.is_finished() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

#[cfg(feature = "columnar")]
fn start_writer(
    config: &Config,
    tables: &Tables,
    board: &Arc<Board>,
) -> Result<(Sender<Work>, JoinHandle<()>), String> {
    write::start(tables, &config.store.directory, Arc::clone(board))
}

#[cfg(not(feature = "columnar"))]
fn start_writer(_: &Config, _: &Tables, _: &Arc<Board>) -> Result<(Sender<Work>, JoinHandle<()>), String> {
    Err("this unstarve was built without Parquet: build it with `make build` (cargo's feature columnar)".to_owned())
}
