//! A directory with the tables of many hosts, hour by hour.
//!
//! Hosts put small files below `table=NAME/date=…/hour=…/`. [`compact`] merges those of an hour into a few sorted ones and says so by a
//! numbered *commit* beside them, which is made only if that number is free. Who reads takes the files that the newest commit lists, and
//! those of hosts that it does not know: each row once, at every moment, even if any of them is killed (docs/fleet.md).
//!
//! | module | what it is |
//! |---|---|
//! | `commit` | a commit as text: what was merged into what |
//! | `name` | what the name of a file in an hour says |
//! | `hour` | names and the newest commit → which files count; pure |
//! | `sum` | a sum over rows that does not depend on their order |
//! | `store`, `effects` | the directory by descriptors: no link is followed |
//! | `problem` | what is wrong, no more of it than somebody reads |
//! | `holds`, `elsewhere` | whether there are tables, and what lies in no hour of them |
//! | `writer`, `belief` | whether what is called like a commit is one |
//! | `state` | an hour as it is found |
//! | `apart`, `serve`, `wire` | hosts' files are read by children, which give back rows (feature `columnar`) |
//! | `lanes` | several threads with a child each, and their rows in order (feature `columnar`) |
//! | `decode`, `merge`, `sorted` | files → rows → sorted files (feature `columnar`) |
//! | `hourly` | rows that differ only in time and numbers → one for the hour (feature `columnar`) |
//! | `keep` | how old an hour may become, by clocks that may be wrong |
//! | `gather`, `loose` | the files of an hour → those of its next commit (feature `columnar`) |
//! | `refusals` | files that were refused, and are not read again (feature `columnar`) |
//! | `compact`, `sweep`, `verify`, `status`, `manifest` | what is done with a store (feature `columnar`) |

#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

mod commit;
#[cfg(feature = "columnar")]
mod commit_auth;
#[cfg(feature = "columnar")]
mod compact;
#[cfg(feature = "columnar")]
mod decode;
#[cfg(feature = "columnar")]
mod effects;
#[cfg(feature = "columnar")]
mod error;
#[cfg(feature = "columnar")]
mod gather;
#[cfg(feature = "columnar")]
mod holds;
mod hour;
#[cfg(feature = "columnar")]
mod hourly;
#[cfg(feature = "columnar")]
mod keep;
#[cfg(feature = "columnar")]
mod manifest;
#[cfg(feature = "columnar")]
mod merge;
#[cfg(feature = "columnar")]
mod misplaced_files;
mod name;
#[cfg(feature = "columnar")]
mod parallel_read;
#[cfg(feature = "columnar")]
mod problem;
#[cfg(feature = "columnar")]
mod refusals;
#[cfg(feature = "columnar")]
mod sandboxed_decode;
#[cfg(feature = "columnar")]
mod serve;
#[cfg(feature = "columnar")]
mod sorted;
#[cfg(feature = "columnar")]
mod state;
#[cfg(feature = "columnar")]
mod status;
#[cfg(feature = "columnar")]
mod store;
mod sum;
#[cfg(feature = "columnar")]
mod sweep;
#[cfg(feature = "columnar")]
mod unmerged_files;
#[cfg(feature = "columnar")]
mod verify;
#[cfg(feature = "columnar")]
mod wire;
mod writer;

pub use commit::{BadCommit, COMMIT_BYTES, Commit, HEAD_BYTES, Head, HourlyFile, Input, Output, Retired};
#[cfg(feature = "columnar")]
pub use compact::{Done, Options, compact};
#[cfg(feature = "columnar")]
pub use decode::{Decoded, Examined, Most, Needed, decode};
#[cfg(feature = "columnar")]
pub use error::FleetError;
#[cfg(feature = "columnar")]
pub use holds::Holds;
pub use hour::{Files, counting};
pub use name::Name;
#[cfg(feature = "columnar")]
pub use problem::Problem;
#[cfg(feature = "columnar")]
pub use sandboxed_decode::{Apart, Examine, Here, Run, Take};
#[cfg(feature = "columnar")]
pub use serve::serve;
#[cfg(feature = "columnar")]
pub use state::live;
#[cfg(feature = "columnar")]
pub use status::{Status, TableStatus, status};
#[cfg(feature = "columnar")]
pub use store::{Effect, Store};
pub use sum::Sum;
#[cfg(feature = "columnar")]
pub use verify::{Verified, verify};
pub use writer::{OTHERS_WRITE, Trusted, Writer};
