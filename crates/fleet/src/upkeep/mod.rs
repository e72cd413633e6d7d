//! Maintenance of a store: compact, remove, verify, report, migrate; what a reader may take of what is not merged.

mod compact;
mod due;
mod early;
mod examination;
mod folding;
mod migrate;
mod retention;
mod status;
mod sweep;
mod verify;

pub use compact::compact;
pub use examination::{LeftOut, Verdicts, WhyLeftOut, examine_unmerged};
pub use migrate::{Migrated, migrate};
pub use status::{Status, TableStatus, status};
pub use verify::{Verified, verify};
