//! Exports waits and blame to other tools: Perfetto's UI, the Firefox Profiler, flame graphs, spreadsheets and data
//! frames.
//!
//! Every exporter is a [`Sink`](unstarve_timeline::Sink) for one pass over a recording. It keeps sums and names but no
//! waits (unless stated otherwise), and gets the report at the end ([`Export::finish`]). `docs/export.md` describes the
//! content of each format; its sums are those of `unstarve explain`.
//!
//! | module | what it is |
//! |---|---|
//! | `cast` | names and properties of actors |
//! | `blame` | sums by victim, occupant and rule |
//! | `table` | rows of waits, pieces, blame and findings, for any [`Rows`](unstarve_tables::Rows) |
//! | `origin` | which recording a row is from |
//! | `folded` | stacks for flame graphs |
//! | `firefox` | a profile with waits as markers and samples |
//! | `perfetto` | kernel events of what ran, and tracks of waits, blame and findings |

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

/// An export format.
pub trait Export: Sink {
    /// Writes the rest, after the whole recording; `report` is its result.
    ///
    /// # Errors The first write error; nothing was written after it.
    fn finish(self, report: &Report) -> Result<(), ExportError>;
}
