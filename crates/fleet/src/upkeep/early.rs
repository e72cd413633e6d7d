//! Stores of the layout before `v1`: merged files and commits beside hosts' files. Which of them count.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde::Deserialize;

use crate::commit::Name;
use crate::error::{FleetError, chain};
use crate::store::{Content, OTHERS_WRITE, Place, Store};

/// The first line of a commit: what is needed of it.
#[derive(Deserialize)]
struct Head {
    hour: Option<String>,
    dropped: bool,
    outputs: Vec<Named>,
    inputs: usize,
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

/// What to do.
const MIGRATE_AGAIN: &str = "if its rows are meant, make its commit one that only the owner of the store may write, and migrate into another new store";

/// More than any version has written.
const MAX_COMMIT_FILE_BYTES: u64 = 256 << 20;

/// The names of the files that count in an hour: those of the newest commit that one of the store's own users wrote, and hosts' files that
/// it does not have. `problems` gets newer commits that are not believed, and merged files if no commit is: their rows may be missed.
///
/// # Errors
/// If the hour cannot be read, or that commit cannot.
pub(super) fn counting(
    store: &Store,
    hour: &Place<'_>,
    key: &str,
    problems: &mut Vec<(PathBuf, String)>,
) -> Result<Vec<String>, FleetError> {
    let entries = hour.list()?.0;
    let mut numbers: Vec<(u64, &str)> =
        entries.iter().filter(|entry| entry.is_regular).filter_map(|entry| number(&entry.name)).collect();
    numbers.sort_unstable();
    let parts = entries.iter().filter(|entry| entry.is_regular && entry.kind == Name::Part);
    let parts = parts.map(|entry| entry.name.clone());
    for (_, name) in numbers.into_iter().rev() {
        let Some(content) = hour.read(name, MAX_COMMIT_FILE_BYTES)? else { continue };
        if !is_believed(store, &content) {
            let why = "not believed: others than the owner of the store may have written it, so what it says was merged is not copied";
            problems.push((hour.shown(name), format!("{why}; {MIGRATE_AGAIN}")));
            continue;
        }
        let bad = |why: &str| FleetError::Rows { path: hour.path().join(name), why: format!("not a commit: {why}") };
        let mut lines = content.bytes.split_inclusive(|byte| *byte == b'\n');
        let head: Head =
            serde_json::from_slice(lines.next().unwrap_or_default()).map_err(|error| bad(&chain(&error)))?;
        // One that somebody copied here.
        if head.hour.as_deref().is_some_and(|hour| hour != key) {
            continue;
        }
        if head.dropped {
            return Ok(Vec::new());
        }
        let inputs: Vec<Named> =
            lines.map(serde_json::from_slice).collect::<Result<_, _>>().map_err(|error| bad(&chain(&error)))?;
        let outputs: Vec<String> = head.outputs.into_iter().map(|output| output.name).collect();
        if inputs.len() != head.inputs || outputs.iter().any(|name| Name::of(name) != Name::Merged) {
            return Err(bad("it is not whole"));
        }
        let known: BTreeSet<String> = inputs.into_iter().map(|input| input.name).collect();
        return Ok(outputs.into_iter().chain(parts.filter(|name| !known.contains(name))).collect());
    }
    for entry in entries.iter().filter(|entry| entry.is_regular && entry.kind == Name::Merged) {
        problems.push((
            hour.shown(&entry.name),
            format!("not copied: no commit that is believed lists it; {MIGRATE_AGAIN}"),
        ));
    }
    Ok(parts.collect())
}

fn number(name: &str) -> Option<(u64, &str)> {
    let digits = name.strip_prefix("_commit-")?.strip_suffix(".json")?;
    Some((digits.parse().ok()?, name))
}

fn is_believed(store: &Store, content: &Content) -> bool {
    store.believes(content.owner) && content.mode & OTHERS_WRITE == 0
}
