//! Waits and blame in the formats of others: what Perfetto's UI, the Firefox Profiler, flame graphs, spreadsheets and data
//! frames open.
//!
//! Every exporter is a [`Sink`](unstarve_timeline::Sink) for one pass over a recording, keeps sums and names but no waits
//! (unless it says otherwise), and is told the report at the end ([`Export::finish`]). What each format holds, and that its
//! sums are those of `unstarve explain`, is in `docs/export.md`.
//!
//! | module | what it is |
//! |---|---|
//! | `cast` | who an actor is, looked up once |
//! | `blame` | sums by victim, occupant and rule |
//! | `table` | the columns of waits, pieces and blame, declared once; rows to any [`Rows`] |
//! | `text_table`, `columnar` | rows to CSV; to Arrow IPC and Parquet (feature `columnar`) |
//! | `folded` | stacks for flame graphs |
//! | `firefox` | a profile with waits as markers and samples |
//! | `perfetto` | kernel events of who ran, tracks of who waited, of blame and of findings |

#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

mod blame;
mod cast;
#[cfg(feature = "columnar")]
mod columnar;
mod columns;
mod error;
mod firefox;
mod folded;
mod perfetto;
mod table;
mod text_table;

use std::io::Write;

#[cfg(feature = "columnar")]
pub use columnar::{ArrowRows, ParquetRows};
pub use columns::{Column, Kind, Presence};
pub use error::ExportError;
pub use firefox::Firefox;
pub use folded::Folded;
pub use perfetto::Perfetto;
#[doc(hidden)]
pub use perfetto::proto as perfetto_proto;
pub use table::{Cell, Rows, Table, Tables};
pub use text_table::CsvRows;
use unstarve_diagnose::report::Report;
use unstarve_timeline::Sink;

/// One format being written.
pub trait Export: Sink {
    /// Writes what is left: the whole recording has been told, and this is what it comes to.
    ///
    /// # Errors
    /// The first error of the writer; nothing was written after it.
    fn finish(self, report: &Report) -> Result<(), ExportError>;
}

/// Where an export goes: it may be written from another thread.
pub trait Out: Write + Send {}

impl<W: Write + Send> Out for W {}
