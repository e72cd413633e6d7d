//! Compacts a directory with the tables of many hosts, hour by hour.
//!
//! Hosts put small files below `table=NAME/date=…/hour=…/`. [`compact`] merges the files of an hour into a few sorted ones, and
//! records that in a numbered *commit* in the same directory, which is created only if its number is free. A reader takes the
//! files that the newest commit lists, and hosts' files that the commit does not have: each row once, at any moment, even if
//! compactors are killed (docs/fleet.md).
//!
//! | module | what it is | uses |
//! |---|---|---|
//! | `commit` | names of files, a commit as text, which files count, whose commits are believed; pure | – |
//! | `problem`, `error` | what is reported, with limits | commit |
//! | `decode` | Parquet files → rows; those of hosts in children with limits (feature `columnar`) | commit |
//! | `store` | the directory by descriptors: no link is followed; an hour as it is found (`columnar`) | decode and above |
//! | `merge` | the files of an hour → those of its next commit (`columnar`) | store and above |
//! | `upkeep` | merge what is due, remove what is old, verify, report (`columnar`) | merge and above |

#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

mod commit;
#[cfg(feature = "columnar")]
mod decode;
#[cfg(feature = "columnar")]
mod error;
#[cfg(feature = "columnar")]
mod merge;
#[cfg(feature = "columnar")]
mod problem;
#[cfg(feature = "columnar")]
mod store;
#[cfg(feature = "columnar")]
mod upkeep;

pub use commit::*;
#[cfg(feature = "columnar")]
pub use decode::{
    DecodeLimits, Decoded, Examine, Examined, InProcessDecode, Needed, Run, SandboxedDecode, Take, decode, serve,
};
#[cfg(feature = "columnar")]
pub use error::FleetError;
#[cfg(feature = "columnar")]
pub use merge::{Done, Options};
#[cfg(feature = "columnar")]
pub use problem::Problem;
#[cfg(feature = "columnar")]
pub use store::{Effect, Holds, Store, live};
#[cfg(feature = "columnar")]
pub use upkeep::{Status, TableStatus, Verified, compact, status, verify};
