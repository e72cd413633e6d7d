//! Maintenance of a store: compact, remove, verify, report.

mod compact;
mod manifest;
mod retention;
mod status;
mod sweep;
mod verify;

pub use compact::compact;
pub use status::{Status, TableStatus, status};
pub use verify::{Verified, verify};
