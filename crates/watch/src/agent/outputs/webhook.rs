//! Episodes as JSON, posted to a URL.

use std::io;
use std::sync::Arc;

use super::delivery_queue::DeliveryQueue;
use super::post::{agent, post};
use crate::agent::board::Board;
use crate::agent::config::Webhook;
use crate::episode::Episode;

/// Starts the thread that posts.
///
/// # Errors
/// If there is no thread to be had.
pub fn start(webhook: Webhook, board: Arc<Board>) -> io::Result<DeliveryQueue<Arc<Episode>>> {
    let agent = agent();
    DeliveryQueue::start("webhook", board, move |episode: &Arc<Episode>, within| {
        let body = serde_json::to_vec(episode.as_ref()).unwrap_or_default();
        post(&agent, &webhook.url, "application/json", &webhook.headers, &body, within)
    })
}
