use std::io;

use thiserror::Error;

/// Why an export could not be written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ExportError {
    /// The operating system said no.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The library that writes the format did.
    #[error("cannot write {format}: {why}")]
    Format {
        /// Arrow IPC or Parquet.
        format: &'static str,
        /// In its words.
        why: String,
    },
}

impl From<csv::Error> for ExportError {
    fn from(error: csv::Error) -> ExportError {
        match error.into_kind() {
            csv::ErrorKind::Io(error) => ExportError::Io(error),
            other => ExportError::Format { format: "CSV", why: format!("{other:?}") },
        }
    }
}
