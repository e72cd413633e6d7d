//! Maintenance of a store: compact, remove, verify, report, migrate.

mod compact;
mod due;
mod early;
mod migrate;
mod retention;
mod status;
mod sweep;
mod verify;

pub use compact::compact;
pub use migrate::{Migrated, migrate};
pub use status::{Status, TableStatus, status};
pub use verify::{Verified, verify};
