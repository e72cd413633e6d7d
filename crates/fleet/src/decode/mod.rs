//! Decodes Parquet files; those of hosts in child processes with limits.

pub(crate) mod parallel_read;
mod parquet;
mod sandboxed_decode;
mod serve;
mod wire;

pub use parquet::{DecodeLimits, Decoded, Examined, Needed, decode};
pub(crate) use parquet::{MAX_EXTRA_COLUMNS, add_cells, is_one_name, seed_of, sum_of_rows, table_schema};
pub(crate) use sandboxed_decode::NOT_EXAMINED;
pub use sandboxed_decode::{Asked, Examine, InProcessDecode, Run, SandboxedDecode, Take};
pub use serve::serve;
pub use wire::Wants;
