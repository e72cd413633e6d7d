//! Parquet files become rows; those of hosts in children with limits.

pub(crate) mod parallel_read;
mod parquet;
mod sandboxed_decode;
mod serve;
mod wire;

pub use parquet::{DecodeLimits, Decoded, Examined, Needed, decode};
pub(crate) use parquet::{MAX_EXTRA_COLUMNS, add_cells, seed_of, sum_of_rows, table_schema};
pub(crate) use sandboxed_decode::NOT_EXAMINED;
pub use sandboxed_decode::{Examine, InProcessDecode, Run, SandboxedDecode, Take};
pub use serve::serve;
