//! Outputs: how episodes, metrics and warnings leave a watch.
//!
//! An output is a file with its [`OutputKind`], and a row of [`OUTPUTS`]. The loop waits for none of them: an output either takes no time, or
//! has a [`DeliveryQueue`]. What is asked for instead of sent ([`http`]) takes it from the [`Board`].

mod delivery_queue;
mod families;
pub mod http;
mod log;
mod otlp;
mod post;
mod webhook;

use std::io;
use std::sync::Arc;
use std::time::Duration;

pub use self::delivery_queue::{Deliveries, DeliveryQueue, Undelivered};
use crate::agent::board::{Board, Published};
use crate::agent::config::Config;
use crate::episode::Episode;

/// All outputs. Their order is that of messages about them.
pub static OUTPUTS: [OutputKind; 3] = [log::KIND, otlp::KIND, webhook::KIND];

/// The output whose undelivered episodes the next watch delivers.
pub const WEBHOOK: &str = webhook::KIND.name;

/// What is sent.
#[derive(Clone, Debug)]
pub enum Message {
    /// An episode that has begun, or of which all is known.
    Episode(Arc<Episode>),
    /// The metrics of this moment.
    Metrics(Arc<Published>),
    /// Something about the watch itself.
    Warning(Arc<str>),
}

impl Message {
    /// The episode that it is about: the next watch can deliver it. All else is only good now.
    fn episode(&self) -> Option<Arc<Episode>> {
        match self {
            Message::Episode(episode) => Some(Arc::clone(episode)),
            Message::Metrics(_) | Message::Warning(_) => None,
        }
    }
}

/// How a try went.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Tried {
    /// It was taken.
    Done,
    /// Another try may help.
    Later(String),
    /// It will never be taken.
    Refused(String),
}

/// Where messages go.
pub trait Output: Send + Sync {
    /// Tries to deliver a message, within this time.
    fn deliver(&self, message: &Message, within: Duration) -> Tried;
}

/// By whom an output's messages are delivered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Delivery {
    /// By the sender, in one try: it never blocks.
    Immediate,
    /// By a thread of its own, which tries again. That it fails is a problem of the watch.
    Queued,
}

/// An output that a configuration can switch on.
pub struct OutputKind {
    /// Its name in metrics, among problems and in the store.
    pub name: &'static str,
    /// One message and several, for people.
    pub message: [&'static str; 2],
    /// How it is delivered to.
    pub delivery: Delivery,
    /// Which messages it gets.
    pub takes: fn(&Message) -> bool,
    /// Opens it, if the configuration has it on.
    pub open: fn(&Config) -> Option<Arc<dyn Output>>,
}

impl OutputKind {
    /// The output of this name.
    pub fn named(name: &str) -> Option<&'static OutputKind> {
        OUTPUTS.iter().find(|kind| kind.name == name)
    }

    /// Those that are delivered to by a queue.
    pub fn queued() -> impl Iterator<Item = &'static OutputKind> {
        OUTPUTS.iter().filter(|kind| kind.delivery == Delivery::Queued)
    }
}

/// The outputs that a configuration has on.
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
    /// Opens all that the configuration has on.
    ///
    /// # Errors
    /// If a thread cannot be started.
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

    /// The queue of an output, if it is on.
    pub fn queue_of(&self, name: &str) -> Option<&DeliveryQueue> {
        self.queues().find(|(kind, _)| kind.name == name).map(|(_, queue)| queue)
    }

    /// How many outputs have a queue.
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
#[path = "outside_tests.rs"]
mod outside;
