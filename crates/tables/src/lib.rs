//! The tables of unstarve: declares every column once, and writes rows to files.
//!
//! | module | what it is |
//! |---|---|
//! | `column` | a column: name, type, unit, meaning |
//! | `schema` | every table ([`ALL`]); `docs/tables.md` is generated from it |
//! | `rows` | a row's cells, and [`Rows`], which writes them |
//! | `text_table`, `columnar` | writers for CSV; for Arrow IPC and Parquet (feature `columnar`) |
//! | `shelf` | the directory with files of many hosts and hours, by table, day and hour |

#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

mod column;
#[cfg(feature = "columnar")]
mod columnar;
mod error;
mod rows;
mod schema;
mod shelf;
mod text_table;

pub use column::{COLUMN_KINDS, Column, Kind, Presence, Sign};
#[cfg(feature = "columnar")]
pub use columnar::{ArrowRows, ParquetRows, arrow_schema, arrow_type, parquet_file};
pub use error::TableError;
pub use rows::{Cell, Out, Rows};
pub use schema::{
    ALL, BLAME, BLAME_ROLLUP, EPISODES, FINDINGS, Fold, HOSTS, Hourly, KERNEL_CELLS, PIECES, PROOFS, SETTINGS, Schema,
    WAIT_ROLLUP, WAITS, named,
};
pub use shelf::{LAYOUT_NAME, Limits, Partition, Shelf, ShelfError, part_name};
pub use text_table::CsvRows;
