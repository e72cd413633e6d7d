//! Compacts a store with the tables of many hosts, hour by hour.
//!
//! Hosts' files are copied below `hosts/v1/table=NAME/date=…/hour=…/`. [`compact`] merges the files of an hour into a few sorted
//! ones below `merged/v1/`, where any engine reads each row once by listing the directory. What was merged is recorded in numbered
//! *commits* below `state/v1/`: first a commit is on disk, then its files are moved to their place, so a compactor may be killed at
//! any moment. [`counting`] gives the files of a reader who wants what is not merged yet, too (docs/fleet.md).
//!
//! | module | what it is | uses |
//! |---|---|---|
//! | `commit` | names of files, a commit as text; pure | – |
//! | `error`, `problem` | what is reported, with limits | commit |
//! | `decode` | Parquet files → rows; those of hosts in children with limits (feature `columnar`) | commit |
//! | `store` | the trees by descriptors: no link is followed; an hour as it is found; which files count | decode and above |
//! | `merge` | the files of an hour → those of its next commit (`columnar`) | store and above |
//! | `upkeep` | merge what is due, remove what is old, verify, report, migrate; which files of hosts a reader may take (`columnar`) | merge and above |

#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]
#![cfg_attr(not(feature = "columnar"), allow(dead_code, unused_imports, reason = "what only a compactor needs"))]

mod commit;
#[cfg(feature = "columnar")]
mod decode;
mod error;
#[cfg(feature = "columnar")]
mod merge;
mod problem;
mod store;
#[cfg(feature = "columnar")]
mod upkeep;

pub use commit::*;
#[cfg(feature = "columnar")]
pub use decode::{
    Asked, DecodeLimits, Decoded, Examine, Examined, InProcessDecode, Needed, Run, SandboxedDecode, Take, Wants,
    decode, serve,
};
pub use error::FleetError;
#[cfg(feature = "columnar")]
pub use merge::{Done, Options};
pub use problem::Problem;
pub use store::{Counting, CountingFile, CountingKind, Effect, Holds, Store, StoreKind, counting};
#[cfg(feature = "columnar")]
pub use upkeep::{
    LeftOut, Migrated, Status, TableStatus, Verdicts, Verified, WhyLeftOut, compact, examine_unmerged, migrate, status,
    verify,
};
