//! What a directory is, so that nothing is written into one named by mistake.

use super::directory::Store;
use super::place::Names;
use crate::error::FleetError;

/// What a directory has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StoreKind {
    /// It is empty.
    Empty,
    /// A store: `hosts/`, `merged/` and others.
    Store,
    /// `merged/` of a store without its `state/`, as it is copied to where others ask.
    Copy,
    /// What one host wrote, below `v1/`, perhaps beside tables of the layout before.
    OfHost,
    /// Tables of the layout before `v1`: `table=…` in the directory itself.
    Early,
    /// None of these.
    Other,
}

/// Whether a store has anything.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Holds {
    /// Tables, or what a compactor made.
    Tables,
    /// It is empty.
    Nothing,
}

impl Store {
    /// What the directory is, by the names in it. Hidden ones do not count.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn kind(&self) -> Result<StoreKind, FleetError> {
        let Names { texts, strange } = self.top()?.names()?;
        let has = |names: &[&str]| texts.iter().any(|name| names.contains(&name.as_str()));
        Ok(if has(&["merged"]) && !has(&["state"]) {
            StoreKind::Copy
        } else if has(&["hosts", "merged", "state"]) {
            StoreKind::Store
        } else if has(&[unstarve_tables::LAYOUT_NAME]) {
            StoreKind::OfHost
        } else if texts.iter().any(|name| name.starts_with("table=")) {
            StoreKind::Early
        } else if texts.iter().chain(&strange).any(|name| !name.starts_with('.') && name != "lost+found") {
            StoreKind::Other
        } else {
            StoreKind::Empty
        })
    }

    /// Whether there are tables.
    ///
    /// # Errors
    /// If it cannot be read, or is neither a store nor empty.
    pub fn holds(&self) -> Result<Holds, FleetError> {
        let found = match self.kind()? {
            StoreKind::Store => return Ok(Holds::Tables),
            StoreKind::Empty => return Ok(Holds::Nothing),
            StoreKind::Copy => "has merged files and no `state/` that says whose rows are in them: a copy to read",
            StoreKind::OfHost => "has the tables of one host, which removes old ones itself",
            StoreKind::Early => {
                "has tables of an earlier version; `unstarve fleet migrate` copies them into a new store"
            }
            StoreKind::Other => "holds other files, and no tables",
        };
        Err(FleetError::NoStore { path: self.path().to_owned(), found })
    }

    /// Names in the store and in `hosts/` that are nobody's: copied to the wrong place, perhaps.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub(crate) fn beside(&self) -> Result<Vec<std::path::PathBuf>, FleetError> {
        let is_other = |name: &String, known: &[&str]| !name.starts_with('.') && !known.contains(&name.as_str());
        let top = self.top()?;
        let mut found = Vec::new();
        let known = ["hosts", "merged", "hourly", "state", "lost+found"];
        found.extend(top.names()?.texts.into_iter().filter(|name| is_other(name, &known)).map(|name| top.shown(&name)));
        if let Ok(Some(hosts)) = top.inner("hosts") {
            let names = hosts.names()?.texts.into_iter().filter(|name| is_other(name, &[unstarve_tables::LAYOUT_NAME]));
            found.extend(names.map(|name| hosts.shown(&name)));
        }
        found.sort();
        Ok(found)
    }
}
