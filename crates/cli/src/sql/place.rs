//! Paths, globs and URLs become files, each of a table.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use unstarve_fleet::{CountingFile, CountingKind, counting};
use unstarve_model::{clean, counted};

use super::bucket::{Bucket, is_bucket};
use super::duckdb::DuckDb;

/// A file of a table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TableFile {
    pub table: String,
    /// As DuckDB opens it.
    pub path: String,
    /// The same rows by the hour, if the store has them.
    pub hourly: Option<String>,
}

/// Which files are asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ask {
    All,
    /// Without what hosts wrote and `fleet compact` has not examined.
    Merged,
}

/// What was asked for, as files. Each file is there once, however many places lead to it.
#[derive(Default, Debug)]
pub struct Found {
    files: BTreeMap<String, TableFile>,
    /// Directories and prefixes below which DuckDB may read.
    pub roots: Vec<String>,
    pub bucket: Option<Bucket>,
}

impl Found {
    /// The files of a table.
    pub fn of<'a>(&'a self, table: &'a str) -> impl Iterator<Item = &'a TableFile> {
        self.files.values().filter(move |file| file.table == table)
    }

    /// The tables that have files.
    pub fn tables(&self) -> impl Iterator<Item = &str> {
        self.files.values().map(|file| file.table.as_str())
    }

    fn add(&mut self, file: TableFile) {
        self.files.entry(file.path.clone()).or_insert(file);
    }
}

/// What is left out, and why: of each reason the first file, and how many.
#[derive(Default)]
struct LeftOut(BTreeMap<&'static str, (String, u64)>);

impl LeftOut {
    fn add(&mut self, why: &'static str, path: &Path) {
        let first = || (clean(&path.to_string_lossy()).into_owned(), 0);
        self.0.entry(why).or_insert_with(first).1 += 1;
    }

    fn say(&self) {
        for (why, (first, count)) in &self.0 {
            note!("{} left out, {why}: {first}{}", counted(*count, "file"), if *count > 1 { ", …" } else { "" });
        }
    }
}

const WHY_UNREADABLE: &str = "this user may not read it";
const WHY_BACKSLASH: &str = "its name has a backslash";
const WHY_STRANGE_NAME: &str = "its name has control characters or is no UTF-8";

/// Why a file cannot be asked.
fn reason(path: &Path) -> Option<&'static str> {
    match path.to_str() {
        // DuckDB's patterns have no way to write a backslash.
        Some(name) if name.contains('\\') => Some(WHY_BACKSLASH),
        Some(name) if !name.chars().any(char::is_control) => {
            rustix::fs::access(path, rustix::fs::Access::READ_OK).is_err().then_some(WHY_UNREADABLE)
        }
        _ => Some(WHY_STRANGE_NAME),
    }
}

/// What is looked for.
#[derive(Clone, Copy)]
pub struct Wanted<'a> {
    pub ask: Ask,
    /// Which tables are asked. Hosts' files of others are not examined.
    pub uses: &'a dyn Fn(&str) -> bool,
}

/// Looks for tables at these places.
///
/// # Errors
/// If a place cannot be read, or has no tables.
pub fn find(
    places: &[String],
    wanted: Wanted<'_>,
    bucket: impl Fn() -> Result<Bucket>,
    duckdb: &DuckDb,
) -> Result<Found> {
    if places.is_empty() {
        bail!("no tables to ask; expected a PATH or URL, for example /var/lib/unstarve/tables");
    }
    let mut found = Found::default();
    for place in places {
        if is_bucket(place)? {
            let bucket = found.bucket.get_or_insert(bucket()?).clone();
            of_bucket(place, &bucket, duckdb, &mut found)?;
        } else {
            let path = place.strip_prefix("file://").unwrap_or(place);
            of_this_machine(path, wanted, duckdb, &mut found)?;
        }
    }
    Ok(found)
}

fn of_this_machine(place: &str, wanted: Wanted<'_>, duckdb: &DuckDb, found: &mut Found) -> Result<()> {
    let path = Path::new(place);
    let mut left_out = LeftOut::default();
    if !path.exists() && place.contains(['*', '?', '[']) {
        return of_glob(place, duckdb, found);
    }
    // A place that is a link itself is what its user meant; links below it are left out.
    let path = fs::canonicalize(path).with_context(|| format!("cannot read {place}"))?;
    let before = found.files.len();
    if path.is_dir() {
        found.roots.push(format!("{}/", text(&path)?));
        of_directory(&path, wanted, found, &mut left_out)?;
        left_out.say();
        if found.files.len() == before && wanted.ask == Ask::All {
            bail!("{place}: there is no Parquet file below it that can be read");
        }
        return Ok(());
    }
    let path = text(&path)?;
    found.roots.push(path.to_owned());
    found.add(TableFile { table: table_of(path), path: path.to_owned(), hourly: None });
    Ok(())
}

/// A store of many hosts, a host's own directory of tables, or any directory with Parquet files.
fn of_directory(path: &Path, wanted: Wanted<'_>, found: &mut Found, left_out: &mut LeftOut) -> Result<()> {
    let has_tables = |name: &str| name.starts_with("table=") || ["merged", "hosts", "v1", "state"].contains(&name);
    let is_ours = fs::read_dir(path)?.flatten().any(|entry| entry.file_name().to_str().is_some_and(has_tables));
    if !is_ours {
        let files = files_below(path)?;
        refuse_doubled(&path.to_string_lossy(), files.iter().filter_map(|file| file.to_str()))?;
        for file in files {
            match reason(&file) {
                Some(why) => left_out.add(why, &file),
                None => {
                    let path = text(&file)?.to_owned();
                    found.add(TableFile { table: table_of(&path), path, hourly: None });
                }
            }
        }
        return Ok(());
    }
    let counted_files = counting(path)?;
    for problem in &counted_files.problems {
        note!("{}: {}", clean(&problem.path.display().to_string()), clean(&problem.why));
    }
    // A host could add a file of any table name; one that DuckDB cannot read would fail every question.
    let known = counted_files.files.into_iter().filter(|file| unstarve_tables::named(&file.table).is_some());
    let mut unmerged = Vec::new();
    for file in known {
        if let Some(why) = reason(&file.path) {
            left_out.add(why, &file.path);
            continue;
        }
        match file.kind {
            CountingKind::OfHost => unmerged.push(file),
            CountingKind::Merged { hourly } => {
                let hourly = hourly.as_deref().map(text).transpose()?.map(str::to_owned);
                found.add(TableFile { table: file.table, path: text(&file.path)?.to_owned(), hourly });
            }
        }
    }
    if wanted.ask == Ask::Merged {
        return Ok(());
    }
    let (used, unused): (Vec<_>, Vec<_>) = unmerged.into_iter().partition(|file| (wanted.uses)(&file.table));
    for file in examined(path, used)?.into_iter().chain(unused) {
        found.add(TableFile { table: file.table, path: text(&file.path)?.to_owned(), hourly: None });
    }
    Ok(())
}

/// Those of hosts' files that `fleet compact` would merge.
#[cfg(feature = "columnar")]
fn examined(place: &Path, mut files: Vec<CountingFile>) -> Result<Vec<CountingFile>> {
    let mut left_out = super::examined::left_out(place, &files)?.into_iter().peekable();
    let mut at = 0..;
    files.retain(|_| left_out.next_if_eq(&at.next().unwrap_or(usize::MAX)).is_none());
    Ok(files)
}

/// All, and a word: what examines them is not in this program.
#[cfg(not(feature = "columnar"))]
fn examined(_: &Path, files: Vec<CountingFile>) -> Result<Vec<CountingFile>> {
    if !files.is_empty() {
        note!("hosts' files are not examined, as this unstarve was built without Parquet; --merged leaves them out");
    }
    Ok(files)
}

/// Directories in directories beyond this depth are not looked into.
const MAX_DEPTH: usize = 12;

/// Parquet files in a directory and below; no link is followed.
fn files_below(path: &Path) -> Result<Vec<PathBuf>> {
    let (mut files, mut open) = (Vec::new(), vec![(path.to_owned(), 0)]);
    while let Some((directory, depth)) = open.pop() {
        let entries = fs::read_dir(&directory).with_context(|| format!("cannot read {}", directory.display()))?;
        for entry in entries.flatten() {
            let (kind, path) = (entry.file_type()?, entry.path());
            let is_hidden = entry.file_name().to_string_lossy().starts_with('.');
            if kind.is_dir() && !is_hidden && depth < MAX_DEPTH {
                open.push((path, depth + 1));
            } else if kind.is_file() && !is_hidden && path.extension().is_some_and(|ending| ending == "parquet") {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

fn of_glob(place: &str, duckdb: &DuckDb, found: &mut Found) -> Result<()> {
    let is_file = |path: &String| fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file());
    let mut paths: Vec<String> = duckdb.list(place, None)?.into_iter().filter(is_file).collect();
    paths.retain(|path| path.ends_with(".parquet"));
    if paths.is_empty() {
        bail!("{place}: no Parquet file matches");
    }
    let whole = |path: &String| Ok(text(&fs::canonicalize(path)?)?.to_owned());
    let paths = paths.iter().map(whole).collect::<Result<Vec<String>>>()?;
    refuse_doubled(place, paths.iter().map(String::as_str))?;
    for path in paths {
        found.roots.push(path.clone());
        found.add(TableFile { table: table_of(&path), path, hourly: None });
    }
    Ok(())
}

/// Whether files have the same rows, as far as their places say: those of several trees of a store, and merged files beside those of hosts, of which
/// only the commits of their store know which count.
fn refuse_doubled<'a>(place: &str, paths: impl Iterator<Item = &'a str>) -> Result<()> {
    let trees = ["hosts", "merged", "hourly", "state"].map(|tree| (tree, format!("/{tree}/v1/table=")));
    let mut found: Vec<&str> = Vec::new();
    for path in paths {
        let tree = trees.iter().find(|(_, below)| path.contains(below.as_str())).map(|(tree, _)| *tree);
        let is_merged = path.rsplit('/').next().is_some_and(|name| name.starts_with("merged-by-commit-"));
        if is_merged && !tree.is_some_and(|tree| ["merged", "hourly"].contains(&tree)) {
            bail!(
                "{place}: {} has merged rows of a store, and is not in its merged/v1: which files have the same rows only its commits say; \
                 `unstarve fleet migrate` copies a store of an earlier version into a new one",
                clean(path)
            );
        }
        if let Some(tree) = tree.filter(|tree| !found.contains(tree)) {
            found.push(tree);
        }
    }
    if let [one, other, ..] = found[..] {
        bail!("{place}: it matches files below {one}/ and {other}/, which have the same rows; name the store itself");
    }
    Ok(())
}

/// In a store the merged files: which files of hosts they have not got yet only its directory can say. Those are not even listed.
fn of_bucket(place: &str, bucket: &Bucket, duckdb: &DuckDb, found: &mut Found) -> Result<()> {
    let root = place.trim_end_matches('/');
    let list = |below: &str| duckdb.list(&format!("{root}{below}/**/*.parquet"), Some(bucket));
    let merged = list("/merged/v1")?;
    let paths = if merged.is_empty() { list("")? } else { merged };
    if paths.is_empty() {
        bail!("{place}: no Parquet file is below it");
    }
    refuse_doubled(place, paths.iter().map(String::as_str))?;
    for path in paths {
        found.add(TableFile { table: table_of(&path), path, hourly: None });
    }
    found.roots.push(format!("{root}/"));
    Ok(())
}

/// By `table=NAME` of its path; else by the file's name: `waits.parquet`, or `waits-monday.parquet` for a table that
/// unstarve writes.
fn table_of(path: &str) -> String {
    let of_directory = path.rsplit('/').skip(1).find_map(|part| part.strip_prefix("table="));
    if let Some(table) = of_directory {
        return table.to_owned();
    }
    let name = path.rsplit('/').next().unwrap_or(path);
    let stem = name.split('.').next().unwrap_or(name);
    let first = stem.split(['-', ' ']).next().unwrap_or(stem);
    let plain = |stem: &str| stem.chars().map(|c| if c.is_alphanumeric() { c } else { '_' }).collect::<String>();
    if unstarve_tables::named(first).is_some() { first.to_owned() } else { plain(stem).to_lowercase() }
}

/// DuckDB takes paths as texts.
fn text(path: &Path) -> Result<&str> {
    path.to_str().with_context(|| format!("{}: its name is no UTF-8", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_says_by_its_path_of_which_table_it_is() {
        assert_eq!(table_of("a/table=wait_rollup/date=2026-01-01/hour=00/waits.parquet"), "wait_rollup");
        assert_eq!(table_of("s3://fleet/merged/v1/table=hosts/date=2026-01-01/hour=00/x.parquet"), "hosts");
        assert_eq!(table_of("a/waits.parquet"), "waits");
        assert_eq!(table_of("a/waits-web1.parquet"), "waits");
        assert_eq!(table_of("a/My Data-1.parquet"), "my_data_1");
    }
}
