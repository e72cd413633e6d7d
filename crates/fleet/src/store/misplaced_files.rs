//! Finds misplaced files that look like files of tables. They are not merged, so they are reported.

use std::path::PathBuf;

use super::directory::{MANIFEST_NAME, Names, Store, names};
use crate::commit::Name;
use crate::error::FleetError;

impl Store {
    /// Parquet files outside of the tables, and directories with tables of their own: copied to the wrong place, or there on
    /// purpose, for `unstarve sql`.
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
        // Directories with impossible names are reported by `Store::hours`.
        let strange = strange.into_iter().filter(|name| name.ends_with(".parquet"));
        let mut found: Vec<PathBuf> = texts.into_iter().filter(is_meant).chain(strange).map(PathBuf::from).collect();
        found.sort();
        Ok(found)
    }
}
