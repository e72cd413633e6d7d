//! Who hears of an episode.

use std::sync::Arc;

use crate::agent::board::Board;
use crate::agent::config::Store as StoreConfig;
use crate::agent::outputs::DeliveryQueue;
use crate::agent::outputs::log::Log;
use crate::episode::Episode;

/// Who hears of an episode.
#[derive(Clone)]
pub(crate) struct Outputs {
    pub(crate) log: Arc<Log>,
    pub(crate) webhook: Option<Arc<DeliveryQueue<Arc<Episode>>>>,
    pub(crate) store: StoreConfig,
    /// Roles that are never whom an episode is about.
    pub(crate) ignored: Arc<[String]>,
}

impl Outputs {
    /// One word on an episode.
    pub(crate) fn tell(&self, episode: &Arc<Episode>, board: &Board) {
        if !self.log.write(episode) {
            board.undelivered("log");
        }
        if let Some(webhook) = &self.webhook {
            webhook.send(Arc::clone(episode));
        }
    }
}
