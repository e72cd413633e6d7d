//! Posts episodes as JSON to a URL.

use std::sync::Arc;
use std::time::Duration;

use super::post::{agent, post};
use super::{Delivery, Message, Output, OutputKind, Tried};
use crate::agent::config::Webhook;

/// Entry in the list of outputs.
pub const KIND: OutputKind = OutputKind {
    name: "webhook",
    message: ["webhook message", "webhook messages"],
    delivery: Delivery::Queued,
    takes: |message| matches!(message, Message::Episode(_)),
    open: |config| {
        let settings = config.webhook.clone()?;
        Some(Arc::new(WebhookOutput { agent: agent(), settings }))
    },
};

struct WebhookOutput {
    agent: ureq::Agent,
    settings: Webhook,
}

impl Output for WebhookOutput {
    fn deliver(&self, message: &Message, within: Duration) -> Tried {
        let Message::Episode(episode) = message else { return Tried::Done };
        let body = serde_json::to_vec(episode.as_ref()).unwrap_or_default();
        let Webhook { url, headers } = &self.settings;
        post(&self.agent, url, "application/json", headers, &body, within)
    }
}
