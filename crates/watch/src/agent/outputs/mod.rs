//! Outputs: send episodes, metrics and warnings to other programs.
//!
//! An output is a file with its [`OutputKind`], and a row of [`OUTPUTS`]. The main loop waits for none of them: an output either never blocks, or
//! has a [`DeliveryQueue`]. Outputs that are polled ([`http`]) read from the [`Board`].

mod delivery_queue;
mod families;
pub mod http;
mod log;
mod otlp;
mod post;
mod resource;
mod webhook;

use std::io;
use std::sync::Arc;
use std::time::Duration;

pub use self::delivery_queue::{Deliveries, DeliveryQueue, Undelivered};
pub use self::post::origin;
use crate::agent::board::{Board, Published};
use crate::agent::config::Config;
use crate::episode::Episode;

/// All outputs, in the order of messages about them.
pub static OUTPUTS: [OutputKind; 3] = [log::KIND, otlp::KIND, webhook::KIND];

/// The output whose undelivered episodes the next watch delivers.
pub const WEBHOOK: &str = webhook::KIND.name;

/// A message to outputs.
#[derive(Clone, Debug)]
pub enum Message {
    /// An episode that has begun or is complete.
    Episode(Arc<Episode>),
    /// The present metrics.
    Metrics(Arc<Published>),
    /// A warning about the watch itself.
    Warning(Arc<str>),
}

impl Message {
    /// Whether it is worth nothing once there is a newer one: metrics are sums since the start.
    fn is_replaced_by_a_newer_one(&self) -> bool {
        matches!(self, Message::Metrics(_))
    }

    /// The episode of the message, if it has one: the next watch can deliver it. Other messages become outdated.
    fn episode(&self) -> Option<Arc<Episode>> {
        match self {
            Message::Episode(episode) => Some(Arc::clone(episode)),
            Message::Metrics(_) | Message::Warning(_) => None,
        }
    }
}

/// The outcome of an attempt.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Tried {
    /// Accepted.
    Done,
    /// Failed; another attempt may succeed.
    Later(String),
    /// Rejected; it will never be accepted.
    Refused(String),
}

/// A destination of messages.
pub trait Output: Send + Sync {
    /// Tries to deliver a message within this time.
    fn deliver(&self, message: &Message, within: Duration) -> Tried;
}

/// How an output's messages are delivered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Delivery {
    /// By the sender, in one attempt that never blocks.
    Immediate,
    /// By a thread, with retries. Failures are reported as a problem of the watch.
    Queued,
}

/// An output that a configuration can enable.
pub struct OutputKind {
    /// The name in metrics, in problems and in the store.
    pub name: &'static str,
    /// The words for one message and for several, for people.
    pub message: [&'static str; 2],
    /// How messages are delivered.
    pub delivery: Delivery,
    /// Whether the output takes a message.
    pub takes: fn(&Message) -> bool,
    /// Opens the output, if the configuration enables it.
    pub open: fn(&Config) -> Option<Arc<dyn Output>>,
}

impl OutputKind {
    /// The output with this name.
    pub fn named(name: &str) -> Option<&'static OutputKind> {
        OUTPUTS.iter().find(|kind| kind.name == name)
    }

    /// The outputs with a queue.
    pub fn queued() -> impl Iterator<Item = &'static OutputKind> {
        OUTPUTS.iter().filter(|kind| kind.delivery == Delivery::Queued)
    }
}

/// The outputs that a configuration enables.
#[derive(Clone)]
pub struct Outputs {
    open: Arc<[(&'static OutputKind, Sender)]>,
    board: Arc<Board>,
}

enum Sender {
    Immediate(Arc<dyn Output>),
    Queued(DeliveryQueue),
}

impl Outputs {
    /// Opens all outputs that the configuration enables.
    pub fn open(config: &Config, board: &Arc<Board>, deliveries: &Deliveries) -> io::Result<Outputs> {
        let opened = OUTPUTS.iter().filter_map(|kind| Some((kind, (kind.open)(config)?)));
        let started = opened.map(|(kind, output)| {
            let sender = match kind.delivery {
                Delivery::Immediate => Sender::Immediate(output),
                Delivery::Queued => {
                    let deliver = move |message: &Message, within| output.deliver(message, within);
                    Sender::Queued(DeliveryQueue::start(kind.name, Arc::clone(board), deliver)?)
                }
            };
            Ok((kind, sender))
        });
        let open: Arc<[_]> = started.collect::<io::Result<Vec<_>>>()?.into();
        let outputs = Outputs { open, board: Arc::clone(board) };
        outputs.queues().for_each(|(_, queue)| deliveries.add(queue));
        Ok(outputs)
    }

    /// Sends a message to each output that takes it.
    pub fn send(&self, message: &Message) {
        for (kind, sender) in self.open.iter().filter(|(kind, _)| (kind.takes)(message)) {
            match sender {
                Sender::Queued(queue) => queue.send(message.clone()),
                Sender::Immediate(output) => {
                    if output.deliver(message, Duration::ZERO) != Tried::Done {
                        self.board.undelivered(kind.name);
                    }
                }
            }
        }
    }

    /// The queue of an output, if it is enabled.
    pub fn queue_of(&self, name: &str) -> Option<&DeliveryQueue> {
        self.queues().find(|(kind, _)| kind.name == name).map(|(_, queue)| queue)
    }

    /// Number of outputs with a queue.
    pub fn queue_count(&self) -> usize {
        self.queues().count()
    }

    fn queues(&self) -> impl Iterator<Item = (&'static OutputKind, &DeliveryQueue)> {
        self.open.iter().filter_map(|(kind, sender)| match sender {
            Sender::Queued(queue) => Some((*kind, queue)),
            Sender::Immediate(_) => None,
        })
    }
}

#[cfg(test)]
#[path = "metrics_doc_tests.rs"]
mod metrics_doc;
#[cfg(test)]
#[path = "outside_tests.rs"]
mod outside;
