//! The status of a running watch.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Watch;
use crate::agent::board::Published;
use crate::agent::config::Address;
use crate::engine::reading::Lost;
use crate::episode::settings::Thresholds;

/// `unstarve.watch-status/1`: additions only. A running watch may be of another version, so every field may be absent when it
/// is read.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct WatchStatus {
    /// `unstarve.watch-status/1`
    pub schema: String,
    /// The watch's process.
    pub pid: Option<u32>,
    /// The program's version.
    pub version: Option<String>,
    /// How waits are counted.
    pub engine: Option<String>,
    /// When counting began (RFC 3339); absent before the first reading.
    pub since: Option<String>,
    /// The time of the latest reading.
    pub at: Option<String>,
    /// The flight recorder: `off`, `recording`, `armed` or `broken`.
    pub recorder: Option<String>,
    /// What an episode is, all defaults included.
    #[serde(skip_deserializing)]
    pub thresholds: Thresholds,
    /// The directory of the store.
    pub store: Option<PathBuf>,
    /// Where metrics and the page are served, or should be.
    pub listen: Option<String>,
    /// Whether they are served there.
    pub listening: Option<bool>,
    /// Episodes since the start, by finding.
    pub episodes: BTreeMap<String, u64>,
    /// Episodes in the store.
    pub kept: Option<u64>,
    /// Their size.
    pub kept_bytes: Option<u64>,
    /// Of these, waiting to be explained.
    pub unexplained: Option<u64>,
    /// Episodes that have a line and no trace: their culprit had one just before, or there were too many.
    pub without_trace: Option<u64>,
    /// Episodes without a line: too many began at once.
    pub not_kept: Option<u64>,
    /// Victims without an episode of their own, by role.
    pub suppressed: BTreeMap<String, u64>,
    /// Whether an episode is open now.
    pub open: Option<bool>,
    /// The processor time of this process.
    pub cpu_seconds: Option<f64>,
    /// What could not be observed.
    #[serde(skip_deserializing)]
    pub lost: Option<Lost>,
    /// Present problems.
    pub problems: Vec<String>,
}

impl WatchStatus {
    /// Whether it should listen and does not.
    pub fn cannot_listen(&self) -> bool {
        self.listening == Some(false) && self.listen != Some(Address::Off.to_string())
    }
}

impl Watch {
    /// The bound address, or the one that is being tried. A changed configuration takes effect later.
    fn listen<'a>(&'a self, published: &'a Published) -> &'a Address {
        published.listening.as_ref().unwrap_or_else(|| self.serving.wanted())
    }

    /// The fields are in the order of their names.
    pub(super) fn status(&self) -> String {
        let published = self.board.read();
        let (reading, counts) = (published.reading.as_ref(), &published.counts);
        let status = WatchStatus {
            schema: "unstarve.watch-status/1".to_owned(),
            pid: Some(std::process::id()),
            version: Some(env!("CARGO_PKG_VERSION").to_owned()),
            engine: Some(published.engine.to_owned()),
            since: reading.map(|reading| reading.since.wall.to_string()),
            at: reading.map(|reading| reading.at.wall.to_string()),
            recorder: Some(published.recorder.word().to_owned()),
            thresholds: self.config.thresholds.in_full(),
            store: Some(self.config.store.directory.clone()),
            listen: Some(self.listen(&published).to_string()),
            listening: Some(published.listening.is_some()),
            episodes: counts.episodes.clone(),
            kept: counts.kept.map(|kept| kept.episodes as u64),
            kept_bytes: counts.kept.map(|kept| kept.bytes),
            unexplained: counts.kept.map(|kept| kept.unexplained as u64),
            without_trace: Some(counts.without_trace),
            not_kept: Some(counts.not_kept),
            suppressed: counts.suppressed.clone(),
            open: Some(self.detector.is_open()),
            cpu_seconds: reading.map(|reading| reading.cost.process.as_secs_f64()),
            lost: reading.map(|reading| reading.lost),
            problems: published.problems.values().cloned().collect(),
        };
        serde_json::to_value(status).unwrap_or_default().to_string()
    }
}
