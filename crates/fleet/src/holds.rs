//! Whether a directory is a store at all: nothing is said of one that is not, and nothing is written there.

use crate::{FleetError, Store};

/// What is in a directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Holds {
    /// Tables, or what is called so.
    Tables,
    /// Nothing: no host has written yet.
    Nothing,
}

impl Store {
    /// Whether there are tables, or nothing yet.
    ///
    /// # Errors
    /// If it cannot be read, or if there is something else only: most likely the wrong directory.
    pub(crate) fn holds(&self) -> Result<Holds, FleetError> {
        let names = self.names()?;
        if names.iter().any(|name| name.starts_with("table=")) {
            return Ok(Holds::Tables);
        }
        if names.is_empty() { Ok(Holds::Nothing) } else { Err(self.no_tables()) }
    }

    /// The error about a directory without tables.
    pub(crate) fn no_tables(&self) -> FleetError {
        FleetError::NoTables { path: self.path().to_owned() }
    }
}
