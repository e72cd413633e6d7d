//! Files at another depth than those of tables: nobody merges them, so they are named.

use std::path::{Path, PathBuf};

use super::directory::{Names, Store, names};
use crate::commit::Name;
use crate::error::FleetError;
use crate::problem::{Kind, Problem};
use crate::upkeep::manifest;

/// What belongs where it is.
const WHERE: &str = "left alone: its rows are in no hour; expected table=…/date=YYYY-MM-DD/hour=HH/*.parquet";

/// Of names in a directory of a table that are not those of dates or hours. However many there are, they are one problem.
pub(crate) fn stray(below: &Path, mut names: Vec<String>) -> Option<Problem> {
    // Of other programs by their custom, or still being copied.
    names.retain(|name| !name.starts_with(['.', '_']));
    one(Kind::Place, below, &names, WHERE)
}

/// Of names in a directory that nothing of a table has, as they are shown.
pub(crate) fn strange(below: &Path, names: Vec<String>) -> Option<Problem> {
    one(Kind::Name, below, &names, "left alone: its name has control characters or is no UTF-8")
}

fn one(kind: Kind, below: &Path, names: &[String], why: &str) -> Option<Problem> {
    let first = names.iter().min()?;
    let others = match names.len() - 1 {
        0 => String::new(),
        others => format!(", as {others} more beside it"),
    };
    Some(Problem::of(kind, below.join(first), &format!("{why}{others}")))
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
            inner.is_some_and(|names| names.texts.iter().any(is_table))
        };
        let is_meant = |name: &String| {
            !is_table(name)
                && name != manifest::NAME
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
