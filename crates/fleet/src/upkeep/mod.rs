//! What is done with a store.

pub(crate) mod compact;
pub(crate) mod manifest;
mod retention;
mod status;
mod sweep;
mod verify;

pub use compact::{Done, Options, compact};
pub use status::{Status, TableStatus, status};
pub use verify::{Verified, verify};
