//! Parquet files become rows; those of hosts in children with limits.

pub(crate) mod parallel_read;
mod parquet;
mod sandboxed_decode;
mod serve;
mod wire;

pub use parquet::{Decoded, Examined, Most, Needed, decode};
pub(crate) use parquet::{MORE_COLUMNS, add_cells, known, seed_of, sum_of_rows};
pub(crate) use sandboxed_decode::NOT_EXAMINED;
pub use sandboxed_decode::{Apart, Examine, Here, Run, Take};
pub use serve::serve;
