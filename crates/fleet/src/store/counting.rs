//! Which files a reader takes: of a store, of a host's own directory, and of a directory of the layout before `v1`.

use std::path::{Path, PathBuf};

use unstarve_tables::Partition;

use super::directory::Store;
use super::dropped::DroppedHours;
use super::hour::{Depth, Hour};
use super::kinds::StoreKind;
use super::place::Place;
use super::trees::Tree;
use crate::commit::Name;
use crate::error::FleetError;
use crate::problem::Problem;

/// A file that counts. All together have each row once.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct CountingFile {
    /// The table.
    pub table: String,
    /// Its hour.
    pub partition: Partition,
    /// The file.
    pub path: PathBuf,
    /// Who wrote it.
    pub kind: CountingKind,
}

/// Who wrote a file.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum CountingKind {
    /// A compactor: rows of many hosts.
    Merged {
        /// The same rows by the hour, which are fewer, for questions that do not need finer times.
        hourly: Option<PathBuf>,
    },
    /// A host, and nobody has merged it yet.
    OfHost,
}

/// What counts in a directory.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Counting {
    /// The files.
    pub files: Vec<CountingFile>,
    /// Merged files whose rows nobody has any more: whoever adds up the others has to say so.
    pub problems: Vec<Problem>,
}

/// The files that count in a directory: a store's (of a copy of its `merged/` alone all of them), a host's (`v1/…`, and what an earlier version wrote beside it), or that of an
/// earlier version (`table=…`). Files of an hour that was dropped do not count; links and what has no file's name are left out.
///
/// A host's file stays for the compactor's grace time after it was merged, so it can be opened until then.
///
/// # Errors
/// If the directory cannot be read or is none of these, others may have written what only a compactor writes, or it is an earlier
/// version's with merged files.
pub fn counting(path: &Path) -> Result<Counting, FleetError> {
    let store = Store::open(path)?;
    let mut problems = Vec::new();
    let mut files = match store.kind()? {
        StoreKind::Empty => Vec::new(),
        StoreKind::Store => of_store(&store, &mut problems)?,
        StoreKind::Copy => of_copy(&store)?,
        StoreKind::OfHost => {
            let top = store.top()?;
            let mut files = plain(&store, &top)?;
            if let Some(inner) = top.inner(unstarve_tables::LAYOUT_NAME)? {
                files.extend(plain(&store, &inner)?);
            }
            files
        }
        StoreKind::Early => plain(&store, &store.top()?)?,
        StoreKind::Other => {
            let found = "holds other files, and no tables";
            return Err(FleetError::NoStore { path: path.to_owned(), found });
        }
    };
    files.sort();
    Ok(Counting { files, problems })
}

fn of_store(store: &Store, lost: &mut Vec<Problem>) -> Result<Vec<CountingFile>, FleetError> {
    // What is wrong with names is said by `compact` and `verify`.
    let mut problems = Vec::new();
    let mut files = Vec::new();
    let dropped = DroppedHours::read(store)?;
    for partition in store.all_hours(&mut problems)?.into_iter().filter(|hour| !dropped.has(hour)) {
        let mut hour = Hour::read(store, &partition, Depth::Needed, &mut problems)?;
        if !hour.lost().is_empty() {
            // Perhaps a compactor worked on it meanwhile: its files were moved after they were looked for.
            hour = Hour::read(store, &partition, Depth::Needed, &mut problems)?;
        }
        hour.lost().into_iter().for_each(|problem| problem.add(lost));
        let path = |place: &Option<Place<'_>>, name: &str| Some(place.as_ref()?.path().join(name));
        for output in hour.outputs() {
            let hourly = path(&hour.hourly.place, &output.name).filter(|_| hour.has_hourly(output));
            let path = path(&hour.merged.place, &output.name);
            files.extend(path.map(|path| file(&partition, path, CountingKind::Merged { hourly })));
        }
        let loose = hour.loose().filter_map(|entry| path(&hour.hosts.place, &entry.name));
        files.extend(loose.map(|path| file(&partition, path, CountingKind::OfHost)));
    }
    // The commit that said it can have gone before its hour was read.
    let later = DroppedHours::read(store)?;
    files.retain(|file| !later.has(&file.partition));
    Ok(files)
}

/// The merged tree without its commits, as it is copied to where others ask: each row is in it once. Which files of hosts it has nobody
/// can say there.
fn of_copy(store: &Store) -> Result<Vec<CountingFile>, FleetError> {
    let top = store.top()?;
    let tree = |tree: Tree| -> Result<Option<Place<'_>>, FleetError> {
        let [name, layout] = tree.steps();
        let Some(outer) = top.inner(name)? else { return Ok(None) };
        outer.inner(layout)
    };
    let Some(merged) = tree(Tree::Merged)? else { return Ok(Vec::new()) };
    let hourly = tree(Tree::Hourly)?;
    let mut files = Vec::new();
    for partition in store.hours_in(&merged, &mut Vec::new())? {
        let Some(hour) = walk(&merged, &partition)? else { continue };
        let by_the_hour = hourly.as_ref().map(|hourly| walk(hourly, &partition)).transpose()?.flatten();
        let others = by_the_hour.as_ref().map(Place::list).transpose()?.map(|(entries, _)| entries).unwrap_or_default();
        for entry in hour.list()?.0.iter().filter(|entry| entry.is_regular && entry.kind != Name::Other) {
            let has_hourly = others.iter().any(|other| other.is_regular && other.name == entry.name);
            let hourly = by_the_hour.as_ref().filter(|_| has_hourly).map(|place| place.path().join(&entry.name));
            files.push(file(&partition, hour.path().join(&entry.name), CountingKind::Merged { hourly }));
        }
    }
    Ok(files)
}

/// All files of a directory in which nobody merges.
fn plain(store: &Store, top: &Place<'_>) -> Result<Vec<CountingFile>, FleetError> {
    let mut problems: Vec<Problem> = Vec::new();
    let mut files = Vec::new();
    for partition in store.hours_in(top, &mut problems)? {
        let Some(hour) = walk(top, &partition)? else { continue };
        let entries = hour.list()?.0;
        let has_commits = entries.iter().any(|entry| entry.name.starts_with("_commit-"));
        for entry in entries {
            match entry.kind {
                Name::Part if entry.is_regular => {
                    files.push(file(&partition, hour.path().join(&entry.name), CountingKind::OfHost));
                }
                Name::Merged => {
                    let found = match has_commits {
                        true => {
                            "has merged tables of an earlier version; `unstarve fleet migrate` copies them into a new store"
                        }
                        false => {
                            "has merged files and not the rest of their store: name the directory that has `merged/v1` in it"
                        }
                    };
                    return Err(FleetError::NoStore { path: store.path().to_owned(), found });
                }
                _ => {}
            }
        }
    }
    Ok(files)
}

/// The directory of an hour below another; `None` if it was removed meanwhile.
pub(crate) fn walk<'a>(top: &Place<'a>, partition: &Partition) -> Result<Option<Place<'a>>, FleetError> {
    let mut at = None;
    for step in partition.path().iter().filter_map(|step| step.to_str()) {
        let Some(next) = at.as_ref().unwrap_or(top).inner(step)? else { return Ok(None) };
        at = Some(next);
    }
    Ok(at)
}

fn file(partition: &Partition, path: PathBuf, kind: CountingKind) -> CountingFile {
    CountingFile { table: partition.table.clone(), partition: partition.clone(), path, kind }
}
