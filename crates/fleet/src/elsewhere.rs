//! Files at another depth than those of tables: nobody merges them, so they are named.

use std::path::{Path, PathBuf};

use crate::store::{Store, names};
use crate::{FleetError, Name, Problem, manifest};

/// What belongs where it is.
const WHERE: &str = "left alone: its rows are in no hour; expected table=…/date=YYYY-MM-DD/hour=HH/*.parquet";

/// Of names in a directory of a table that are not those of dates or hours. However many there are, they are one problem.
pub(crate) fn stray(below: &Path, mut names: Vec<String>) -> Option<Problem> {
    // Of other programs by their custom, or still being copied.
    names.retain(|name| !name.starts_with(['.', '_']));
    let first = names.iter().min()?;
    let others = match names.len() - 1 {
        0 => String::new(),
        others => format!(", as {others} more beside it"),
    };
    Some(Problem::new(below.join(first), &format!("{WHERE}{others}")))
}

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
            inner.is_some_and(|names| names.iter().any(is_table))
        };
        let is_meant = |name: &String| {
            !is_table(name)
                && name != manifest::NAME
                && (matches!(Name::of(name), Name::Part | Name::Merged(_)) || has_tables(name))
        };
        let mut found: Vec<PathBuf> = self.names()?.into_iter().filter(is_meant).map(PathBuf::from).collect();
        found.sort();
        Ok(found)
    }
}
