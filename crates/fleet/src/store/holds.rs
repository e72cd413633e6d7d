//! Whether a directory is one with tables: a mistyped path is no reason to write into somebody's directory.

use super::directory::{MANIFEST_NAME, Names, Store};
use crate::error::FleetError;

/// What a directory has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Holds {
    /// Tables, or what a compactor left of them.
    Tables,
    /// Nothing yet.
    Nothing,
}

impl Store {
    /// Whether there are tables. A hidden file is nothing.
    ///
    /// # Errors
    /// If it cannot be read; or if there is something, and nothing of it is a table: another directory is meant.
    pub fn holds(&self) -> Result<Holds, FleetError> {
        let Names { texts, strange } = self.names()?;
        let is_ours = |name: &String| name.starts_with("table=") || name == MANIFEST_NAME;
        if texts.iter().any(is_ours) {
            return Ok(Holds::Tables);
        }
        if texts.iter().chain(&strange).any(|name| !name.starts_with('.') && name != "lost+found") {
            return Err(self.no_tables());
        }
        Ok(Holds::Nothing)
    }

    /// The error about a directory without tables.
    pub(crate) fn no_tables(&self) -> FleetError {
        FleetError::NoTables { path: self.path().to_owned() }
    }
}
