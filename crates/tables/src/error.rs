//! Errors of writing tables.

use std::io;

use thiserror::Error;

/// Why a table could not be written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TableError {
    /// A system call failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The format's library failed.
    #[error("cannot write {format}: {why}")]
    Format {
        /// CSV, Arrow IPC or Parquet.
        format: &'static str,
        /// Its error message.
        why: String,
    },
}

impl From<csv::Error> for TableError {
    fn from(error: csv::Error) -> TableError {
        match error.into_kind() {
            csv::ErrorKind::Io(error) => TableError::Io(error),
            other => TableError::Format { format: "CSV", why: format!("{other:?}") },
        }
    }
}
