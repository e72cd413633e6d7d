//! Who hears what: the board that the loop writes and others read, and those who read it.
//!
//! The loop never waits for any of them: it puts what there is to say on the [`Board`], or into a queue that has an end.

mod board;
mod delivery_queue;
mod families;
mod history;
mod hour;
pub mod http;
pub mod http_head;
mod http_places;
pub mod log;
pub mod metrics;
pub mod otlp;
mod page;
mod post;
mod series;
pub mod webhook;

pub use board::{Board, Counts, Published, RecorderState};
pub(crate) use delivery_queue::{Deliveries, Undelivered};
pub use delivery_queue::{DeliveryQueue, Thing};
pub use history::{History, Minute};

#[cfg(test)]
#[path = "outside_tests.rs"]
mod outside;
