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
//! | `table` | rows of waits, pieces, blame and findings, for any [`Rows`](unstarve_tables::Rows) |
//! | `origin` | which recording a row is from |
//! | `folded` | stacks for flame graphs |
//! | `firefox` | a profile with waits as markers and samples |
//! | `perfetto` | kernel events of who ran, tracks of who waited, of blame and of findings |

#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

mod blame;
mod cast;
mod findings;
mod firefox;
mod folded;
mod origin;
mod perfetto;
mod table;

pub use firefox::Firefox;
pub use folded::Folded;
pub use perfetto::Perfetto;
#[doc(hidden)]
pub use perfetto::proto as perfetto_proto;
pub use table::{Table, Tables};
use unstarve_diagnose::report::Report;
use unstarve_tables::Out;
/// Why an export could not be written.
pub use unstarve_tables::TableError as ExportError;
use unstarve_timeline::Sink;

/// One format being written.
pub trait Export: Sink {
    /// Writes what is left: the whole recording has been told, and this is what it comes to.
    ///
    /// # Errors
    /// The first error of the writer; nothing was written after it.
    fn finish(self, report: &Report) -> Result<(), ExportError>;
}
