//! Of the files of an hour those whose rows count: by its newest commit, if `unstarve fleet compact` made one.
//!
//! A listing is no moment: files come and go while it is made. The commit says which merged files count, so that they need not be in the
//! listing; files of hosts that it does not know are new. So each row is there once, whenever one looks.

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail};
use datafusion::datasource::object_store::ObjectStoreUrl;
use futures::{StreamExt, TryStreamExt};
use object_store::ObjectMeta;
use object_store::path::Path;
use unstarve_fleet::{Commit, HEAD_BYTES, Head, Name, counting};
use unstarve_tables::Partition;

use crate::belief::{Found, believed};
use crate::place::{Directory, ENDING, Part, Shop, Wanted};
use crate::program::{About, note};
use crate::{layout, plain};

/// How often an hour is looked at again because it changes.
const LOOKS: u32 = 8;
/// Commits that are read at once.
const AT_ONCE: usize = 32;

/// Which files of an hour are asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ask {
    /// All whose rows count.
    All,
    /// Those that `compact` has merged, and so has examined.
    Merged,
}

/// The files that count; none that begins with a dot, which are still being written. Each directory is looked at once, so that a file is not taken at one
/// moment, and what it was merged into at another.
///
/// # Errors
/// If something cannot be read, or a commit is not whole.
pub async fn count(wanted: Wanted, ask: Ask) -> Result<Vec<Part>> {
    let all = wanted.directories.into_iter().map(|((_, at), directory)| files_of(at, directory, ask));
    let all: Vec<Vec<Part>> = futures::stream::iter(all).buffered(AT_ONCE).try_collect().await?;
    readable(all.into_iter().flatten().collect())
}

/// Without files of hours that this user may not read: each has rows of those who closed it, so one host does not hide an hour. They are said.
///
/// # Errors
/// If none is left.
fn readable(parts: Vec<Part>) -> Result<Vec<Part>> {
    let is_of_hour = |part: &Part| layout::hour(&layout::directory(&part.meta.location)).is_some();
    let is_closed = |part: &Part| is_local(part) && is_of_hour(part) && plain::is_closed(&part.meta.location);
    let (closed, open): (Vec<Part>, Vec<Part>) = parts.into_iter().partition(is_closed);
    let Some(first) = closed.first().map(|part| part.meta.location.clone()) else { return Ok(open) };
    if open.is_empty() {
        bail!("/{first}: this user may not read it, nor any other file of the tables");
    }
    let count = closed.len();
    let files = if count == 1 { "1 file".to_owned() } else { format!("{count} files") };
    let said = format!("{files} left out, this user may not read them; the first: /{first}");
    note(About::Closed, &said);
    Ok(open)
}

fn is_local(part: &Part) -> bool {
    part.store == ObjectStoreUrl::local_filesystem()
}

async fn files_of(at: Path, directory: Directory, ask: Ask) -> Result<Vec<Part>> {
    let Directory { shop, listed, named } = directory;
    // A bucket has them as well; of files of this machine they were left out before.
    for meta in listed.iter().flatten().filter(|meta| Name::text(name(meta).as_bytes()).is_none()) {
        plain::strange(&at, name(meta).as_bytes());
    }
    let Some(hour) = layout::hour(&at) else {
        let is_data = |meta: &ObjectMeta| Name::of(name(meta)) == Name::Part && name(meta).ends_with(ENDING);
        let listed = listed.into_iter().flatten().filter(|meta| is_data(meta) && meta.size > 0);
        let mut seen = BTreeSet::new();
        let all = listed.chain(named.into_iter().flatten());
        let once = all.filter(|meta| seen.insert(meta.location.clone()));
        return Ok(once.map(|meta| Part::new(shop.url.clone(), meta)).collect());
    };
    let listed = match listed {
        Some(listed) => listed,
        None => shop.store.list_with_delimiter(Some(&at)).await?.objects,
    };
    let parts = files_of_hour(&shop, &at, &hour, listed, ask).await?;
    let Some(named) = named else { return Ok(parts) };
    for file in &named {
        if !parts.iter().any(|part| part.meta.location == file.location) {
            let why = "left out, its rows do not count or are in a merged file beside it";
            note(About::Place, &format!("{}: {why}", file.location));
        }
    }
    let is_named = |part: &Part| named.iter().any(|file| file.location == part.meta.location);
    Ok(parts.into_iter().filter(is_named).collect())
}

fn name(meta: &ObjectMeta) -> &str {
    meta.location.filename().unwrap_or_default()
}

/// The files of an hour that count.
async fn files_of_hour(
    shop: &Shop,
    at: &Path,
    hour: &Partition,
    mut listed: Vec<ObjectMeta>,
    ask: Ask,
) -> Result<Vec<Part>> {
    let mut passed_over = BTreeSet::new();
    for _ in 0..LOOKS {
        let is_data = |meta: &&ObjectMeta| Name::of(name(meta)) == Name::Part && meta.size > 0;
        let names: Vec<String> = listed.iter().filter(is_data).map(|meta| name(meta).to_owned()).collect();
        match newest(shop, hour, &listed, !names.is_empty(), &mut passed_over).await? {
            Look::Again => {}
            Look::At(commit) => return files(shop, at, &listed, &names, *commit, ask),
        }
        listed = shop.store.list_with_delimiter(Some(at)).await?.objects;
    }
    bail!("{at}: its commits are replaced faster than they can be read; ask again")
}

/// The newest commit of an hour: its first line, and the rest if it was asked for.
type Newest = Option<(Head, Option<Commit>)>;

enum Look {
    /// Something was replaced meanwhile.
    Again,
    At(Box<Newest>),
}

async fn newest(
    shop: &Shop,
    hour: &Partition,
    listed: &[ObjectMeta],
    is_whole: bool,
    passed_over: &mut BTreeSet<u64>,
) -> Result<Look> {
    let number = |meta: &ObjectMeta| match Name::of(name(meta)) {
        Name::Commit(number) => Some(number),
        _ => None,
    };
    let mut commits: Vec<(u64, &ObjectMeta)> = listed.iter().filter_map(|meta| Some((number(meta)?, meta))).collect();
    commits.sort_unstable_by_key(|(number, _)| std::cmp::Reverse(*number));
    for (number, meta) in commits {
        let found = if is_whole {
            whole(shop, hour, number, meta).await.map(|found| found.map(|commit| (commit.head.clone(), Some(commit))))
        } else {
            head(shop, hour, number, meta).await.map(|found| found.map(|head| (head, None)))
        };
        match found {
            Ok(Found::Believed(newest)) => return Ok(Look::At(Box::new(Some(newest)))),
            Ok(Found::Doubted(why)) => {
                if passed_over.insert(number) {
                    let why = format!("{}: passed over: {why}", meta.location);
                    note(About::Commit, &why);
                }
            }
            // It was not the newest any more: another look.
            Err(error) if is_absent(&error) => return Ok(Look::Again),
            Err(error) => return Err(error.context(meta.location.to_string())),
        }
    }
    Ok(Look::At(Box::new(None)))
}

fn is_absent(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| matches!(cause.downcast_ref(), Some(object_store::Error::NotFound { .. })))
}

/// The first line of a commit.
async fn head(shop: &Shop, hour: &Partition, number: u64, meta: &ObjectMeta) -> Result<Found<Head>> {
    let text = match believed(shop, meta, HEAD_BYTES).await? {
        Found::Believed(text) => text,
        Found::Doubted(why) => return Ok(Found::Doubted(why)),
    };
    match text.iter().position(|byte| *byte == b'\n') {
        Some(end) => {
            let head = Head::decode(number, &key(hour), &text[..=end]);
            crate::belief::bound(shop, meta, head, |head| head)
        }
        None => Ok(whole(shop, hour, number, meta).await?.map(|commit| commit.head)),
    }
}

async fn whole(shop: &Shop, hour: &Partition, number: u64, meta: &ObjectMeta) -> Result<Found<Commit>> {
    /// More than any version has written.
    const LARGEST: u64 = 256 << 20;
    if meta.size > LARGEST {
        bail!("larger than {LARGEST} bytes; expected a smaller commit");
    }
    match believed(shop, meta, LARGEST).await? {
        Found::Believed(text) => {
            crate::belief::bound(shop, meta, Commit::decode(number, &key(hour), &text), |commit| &commit.head)
        }
        Found::Doubted(why) => Ok(Found::Doubted(why)),
    }
}

fn key(hour: &Partition) -> String {
    hour.path().display().to_string()
}

fn files(
    shop: &Shop,
    at: &Path,
    listed: &[ObjectMeta],
    names: &[String],
    newest: Newest,
    ask: Ask,
) -> Result<Vec<Part>> {
    let is_merged = |meta: &&ObjectMeta| matches!(Name::of(name(meta)), Name::Merged(_));
    if newest.is_none() && names.is_empty() && listed.iter().any(|meta| is_merged(&meta)) {
        let why = "left out, merged rows without a commit that lists them; copy its _commit-*.json files, too";
        note(About::Uncommitted, &format!("{at}: {why}"));
    }
    let (head, commit) = newest.unzip();
    let rest = || commit.flatten().context("the commit was not read to its end");
    let files = counting(names, head.as_ref(), rest)?;
    let loose: BTreeSet<&str> = match ask {
        Ask::All => files.loose.iter().map(String::as_str).collect(),
        Ask::Merged => BTreeSet::new(),
    };
    let part = |meta: ObjectMeta| Part::new(shop.url.clone(), meta);
    let by_hosts = listed.iter().filter(|meta| loose.contains(name(meta))).cloned();
    let merged = files.outputs.iter().map(|output| {
        let location = at.clone().join(output.name.as_str());
        let seen = listed.iter().find(|meta| meta.location == location).cloned();
        // Named between the beginning of the listing and that of the commit.
        let meta = seen.unwrap_or_else(|| ObjectMeta {
            location,
            last_modified: Default::default(),
            size: output.bytes,
            e_tag: None,
            version: None,
        });
        // Whoever copied the merged files alone has not got it: then the rows themselves are asked.
        let hourly = output.hourly.as_ref().and_then(|hourly| {
            let location = at.clone().join(hourly.name.as_str());
            listed.iter().find(|meta| meta.location == location && meta.size == hourly.bytes).cloned()
        });
        Part { hourly, ..part(meta) }
    });
    Ok(merged.chain(by_hosts.map(part)).collect())
}
