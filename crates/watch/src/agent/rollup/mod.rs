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
use crate::agent::board::Board;
use crate::agent::config::{Config, Tables};
use crate::engine::reading::Reading;
use crate::episode::Episode;

/// The sums at the end of an interval.
#[cfg_attr(not(feature = "columnar"), expect(dead_code, reason = "only the writer reads it"))]
pub(crate) struct Work {
    /// When the engine started.
    begun: Sums,
    now: Sums,
    /// Episodes of which all was said since the last interval.
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
        // Those of the log, which an earlier watch may not have written.
        board.write(|published| {
            let finished = published.episodes.iter().filter(|episode| episode.is_final());
            published.finished = Some(finished.cloned().collect());
        });
        Ok(Some(Rollups { config: tables, begun: None, work, writer }))
    }

    /// Processes a reading, and passes the interval on if it is over. Intervals end at multiples of their length on the wall clock, so that those
    /// of all hosts are aligned.
    pub fn see(&mut self, reading: &Reading, board: &Board) {
        let every = self.config.every.nanos();
        let begun = *self.begun.get_or_insert(reading.since.wall);
        if begun.0 / every != reading.at.wall.0 / every {
            self.begun = Some(reading.at.wall);
            self.hand_over(reading, board);
        }
    }

    fn hand_over(&self, reading: &Reading, board: &Board) {
        // An episode has one row, which is written after its last word.
        let mut episodes = Vec::new();
        board.write(|published| episodes.extend(published.finished.iter_mut().flat_map(std::mem::take)));
        episodes.retain(|episode| episode.trigger.is_some());
        // Fails only if the writer has ended, which it has reported.
        let _ = self.work.send(Work { begun: Sums::at_the_start(reading), now: Sums::of(reading), episodes });
    }

    /// Writes the growth since the last interval, and waits for the writer at most for `patience`.
    pub fn finish(self, board: &Board, patience: Duration) {
        if let Some(reading) = &board.read().reading {
            self.hand_over(reading, board);
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
