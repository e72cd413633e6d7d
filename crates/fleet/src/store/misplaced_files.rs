//! Files beside the tables that look as if they were of some: nobody merges them, so they are named.

use std::path::PathBuf;

use super::directory::{MANIFEST_NAME, Names, Store, names};
use crate::commit::Name;
use crate::error::FleetError;

impl Store {
    /// What is beside the tables and looks as if it were of some: Parquet files, and directories with tables of their own. Both may be there on purpose, as more to be asked by
    /// `unstarve sql`; or were copied to the wrong place.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub(crate) fn beside(&self) -> Result<Vec<PathBuf>, FleetError> {
        let is_table = |name: &String| name.starts_with("table=");
        let has_tables = |name: &str| {
            let inner = self.inner(name).and_then(|inner| names(inner).ok());
            inner.is_some_and(|names| names.texts.iter().any(is_table))
        };
        let is_meant = |name: &String| {
            !is_table(name)
                && name != MANIFEST_NAME
                && (matches!(Name::of(name), Name::Part | Name::Merged(_)) || has_tables(name))
        };
        let Names { texts, strange } = self.names()?;
        // Of what nothing of a table can be called, tables are said by who looks for hours.
        let strange = strange.into_iter().filter(|name| name.ends_with(".parquet"));
        let mut found: Vec<PathBuf> = texts.into_iter().filter(is_meant).chain(strange).map(PathBuf::from).collect();
        found.sort();
        Ok(found)
    }
}
