//! Checks whether a directory has tables, so that nothing is written into a directory named by mistake.

use super::directory::{MANIFEST_NAME, Names, Store};
use crate::error::FleetError;

/// Whether a directory has tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Holds {
    /// Tables, or leftovers of a compactor.
    Tables,
    /// It is empty.
    Nothing,
}

impl Store {
    /// Whether there are tables. Hidden files do not count.
    ///
    /// # Errors
    /// If it cannot be read, or is not empty and has no table.
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

    /// The error for a directory without tables.
    pub(crate) fn no_tables(&self) -> FleetError {
        FleetError::NoTables { path: self.path().to_owned() }
    }
}
