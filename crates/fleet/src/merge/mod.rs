//! The files of an hour become those of its next commit.

mod chunk;
mod hour;
mod hourly;
pub(crate) mod refusals;
mod sorted;
mod unmerged_files;

pub(crate) use hour::{LARGEST_INPUT, LARGEST_OUTPUT, MANY, digest_of, merge};
