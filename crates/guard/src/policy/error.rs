//! Errors in policy files, with the line and column.

use std::path::{Path, PathBuf};

/// A policy that cannot be used, and where.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// The file cannot be read.
    #[error("{}: cannot be read", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Another user could have written it.
    #[error("a policy decides what root does, so nobody else may be able to write it")]
    Untrusted(#[source] unstarve_files::TrustError),
    /// Something in it is invalid.
    #[error("{place}: {message}")]
    Wrong {
        /// `policy.toml:12:5`.
        place: String,
        /// What was found and what was expected.
        message: String,
    },
}

/// A file's text, and the line index that converts offsets to places.
pub(super) struct Source<'a> {
    pub path: &'a Path,
    pub text: &'a str,
    /// Offsets of line starts.
    lines: Vec<usize>,
}

impl<'a> Source<'a> {
    pub fn new(path: &'a Path, text: &'a str) -> Source<'a> {
        let breaks = text.bytes().enumerate().filter(|&(_, byte)| byte == b'\n').map(|(at, _)| at + 1);
        Source { path, text, lines: std::iter::once(0).chain(breaks).collect() }
    }

    /// `policy.toml:12`.
    pub fn line(&self, offset: usize) -> String {
        format!("{}:{}", self.path.display(), self.row(offset) + 1)
    }

    fn row(&self, offset: usize) -> usize {
        self.lines.partition_point(|&begin| begin <= offset).saturating_sub(1)
    }

    /// The offset of the key whose value begins at `value`.
    pub fn key_before(&self, value: usize, key: &str) -> usize {
        self.text.get(..value).and_then(|before| before.rfind(key)).unwrap_or(value)
    }

    /// An error at an offset.
    pub fn wrong(&self, offset: usize, message: impl Into<String>) -> PolicyError {
        let row = self.row(offset);
        let column = self.text.get(self.lines[row]..offset).map_or(0, |before| before.chars().count()) + 1;
        PolicyError::Wrong { place: format!("{}:{}:{column}", self.path.display(), row + 1), message: message.into() }
    }
}
