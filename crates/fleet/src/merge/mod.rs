//! Merges the files of an hour into those of its next commit.

mod chunk;
mod compaction;
mod hour;
mod hourly;
mod outputs;
mod refusals;
mod row_order;
mod sorted;
mod unmerged_files;

pub use compaction::{Done, Options};
pub(crate) use hour::merge;
pub(crate) use refusals::{MAX_REASON_CHARS, READ_AGAIN_AFTER_NS, REFUSED_NAME, Refusals, is_settled};
