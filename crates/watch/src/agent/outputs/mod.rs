//! Ways in which episodes and metrics leave a watch.
//!
//! The loop never waits for any of them: it puts what there is to say on the [`Board`](crate::agent::board::Board), or into a queue that has
//! an end.

pub mod all;
mod delivery_queue;
mod families;
pub mod http;
pub mod log;
pub mod otlp;
mod post;
pub mod webhook;

pub use delivery_queue::DeliveryQueue;
pub(crate) use delivery_queue::{Deliveries, Undelivered};

#[cfg(test)]
#[path = "outside_tests.rs"]
mod outside;
