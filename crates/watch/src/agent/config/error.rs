//! Errors of the configuration, with their place in the file.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use unstarve_files::TrustError;

/// An unusable configuration, and the place of the error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("{}: cannot be read", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of the system call.
        source: io::Error,
    },
    /// It is not a file.
    #[error("{}: is a directory; expected a TOML file", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
    },
    /// Another user could have written it.
    #[error("a configuration decides where root writes and connects to, so nobody else may be able to write it")]
    Untrusted(#[source] TrustError),
    /// A key or value is wrong.
    #[error("{place}: {message}")]
    Wrong {
        /// `watch.toml:12:5`.
        place: String,
        /// What was found, and what was expected.
        message: String,
    },
}

impl ConfigError {
    pub(super) fn of_trust(path: &Path, error: TrustError) -> ConfigError {
        match error {
            TrustError::Io { source, .. } => ConfigError::Unreadable { path: path.to_owned(), source },
            other => ConfigError::Untrusted(other),
        }
    }

    /// An error at a place in the text; at the beginning if there is none.
    pub(super) fn at(path: &Path, text: &str, span: Option<Range<usize>>, message: &str) -> ConfigError {
        let offset = span.map(|span| span.start).unwrap_or_default();
        let before = text.get(..offset).unwrap_or(text);
        let row = before.bytes().filter(|&byte| byte == b'\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or(before).chars().count() + 1;
        let message = message.lines().collect::<Vec<_>>().join("; ");
        ConfigError::Wrong { place: format!("{}:{row}:{column}", path.display()), message }
    }

    /// Whether the file does not exist.
    pub fn is_absent(&self) -> bool {
        matches!(self, ConfigError::Unreadable { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}
