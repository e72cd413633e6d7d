//! Sums of each interval as tables, for questions about many hosts: `[tables]` of the configuration.
//!
//! The loop hands over what is to be written and goes on; a thread of its own writes it.

mod interval;
#[cfg(feature = "columnar")]
mod write;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use self::interval::{Interval, Sums};
use crate::Reading;
use crate::config::{Config, Tables};
use crate::episode::Episode;
use crate::tell::{Board, Published};

/// What is to be written at once.
pub(crate) struct Work {
    /// What came in the interval.
    #[cfg_attr(not(feature = "columnar"), expect(dead_code, reason = "only the writer reads it"))]
    interval: Interval,
    /// Episodes that were not handed over yet.
    #[cfg_attr(not(feature = "columnar"), expect(dead_code, reason = "only the writer reads it"))]
    episodes: Vec<Arc<Episode>>,
}

/// The tables of a running watch.
pub(crate) struct Rollups {
    config: Tables,
    last: Option<Sums>,
    /// Episodes that were handed over, of those that are listed.
    handed: BTreeSet<String>,
    work: Sender<Work>,
    writer: JoinHandle<()>,
}

impl Rollups {
    /// Those that the configuration asks for; `None` if it asks for none, or if they cannot be had: then the board says why.
    pub fn start(config: &Config, board: &Arc<Board>) -> Option<Rollups> {
        let tables = config.tables.clone()?;
        match start_writer(config, &tables, board) {
            Ok((work, writer)) => Some(Rollups { config: tables, last: None, handed: BTreeSet::new(), work, writer }),
            Err(why) => {
                board.write(|published| drop(published.problems.insert("tables", format!("tables: {why}"))));
                None
            }
        }
    }

    /// Looks at a reading, and hands over the interval if it is over. Intervals end at multiples of their length of the wall's
    /// clock, so that those of all hosts lie side by side.
    pub fn see(&mut self, reading: &Reading, published: &Published) {
        let every = self.config.every.nanos();
        let begun = self.last.get_or_insert_with(|| Sums::at_the_start(reading)).wall();
        if begun.0 / every != reading.at.wall.0 / every {
            self.hand_over(reading, published);
        }
    }

    fn hand_over(&mut self, reading: &Reading, published: &Published) {
        let now = Sums::of(reading);
        let Some(last) = self.last.replace(now.clone()) else { return };
        let listed = published.episodes.iter().filter(|episode| episode.trigger.is_some());
        let ids: BTreeSet<String> = listed.clone().map(|episode| episode.id.clone()).collect();
        let new = listed.filter(|episode| !self.handed.contains(&episode.id)).cloned().collect();
        self.handed = ids;
        // A writer that has ended has said why.
        let _ = self.work.send(Work { interval: last.until(&now), episodes: new });
    }

    /// Writes what came since the last interval, and waits for it, but not for ever.
    pub fn finish(mut self, published: &Published, patience: Duration) {
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
