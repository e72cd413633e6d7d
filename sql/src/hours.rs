//! Of the files of an hour those whose rows count: by its newest commit, if `unstarve fleet compact` made one.
//!
//! A listing is no moment: files come and go while it is made. The commit says which merged files count, so that they need not be in the
//! listing; files of hosts that it does not know are new. So each row is there once, whenever one looks.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail};
use futures::{StreamExt, TryStreamExt};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStoreExt};
use unstarve_fleet::{Commit, HEAD_BYTES, Head, Name, counting};

use crate::place::{ENDING, Part, Shop};

/// How often an hour is looked at again because it changes.
const LOOKS: u32 = 8;
/// Commits that are read at once.
const AT_ONCE: usize = 32;

/// All files below a prefix that count; none that begins with a dot, which are still being written.
///
/// # Errors
/// If something cannot be read, or a commit is not believed.
pub async fn below(shop: &Shop, prefix: &Path) -> Result<Vec<Part>> {
    let mut hours: BTreeMap<Path, Vec<ObjectMeta>> = BTreeMap::new();
    let mut listing = shop.store.list(Some(prefix));
    while let Some(meta) = listing.try_next().await? {
        hours.entry(directory(&meta.location)).or_default().push(meta);
    }
    let all = hours.into_iter().map(|(at, listed)| hour(shop, at, listed));
    let all: Vec<Vec<Part>> = futures::stream::iter(all).buffered(AT_ONCE).try_collect().await?;
    Ok(all.into_iter().flatten().collect())
}

/// A file that was named itself; nothing if its rows are in a merged file beside it.
///
/// # Errors
/// If something cannot be read, or a commit is not believed.
pub async fn one(shop: &Shop, meta: ObjectMeta) -> Result<Option<Part>> {
    let at = directory(&meta.location);
    if !at.filename().is_some_and(|name| name.starts_with("hour=")) {
        return Ok(Some(Part { store: shop.url.clone(), meta }));
    }
    let listed = shop.store.list_with_delimiter(Some(&at)).await?.objects;
    let parts = hour(shop, at, listed).await?;
    let found = parts.into_iter().find(|part| part.meta.location == meta.location);
    if found.is_none() {
        eprintln!("unstarve sql: {}: left out, its rows do not count or are in a merged file beside it", meta.location);
    }
    Ok(found)
}

fn directory(file: &Path) -> Path {
    let parts: Vec<_> = file.parts().collect();
    parts[..parts.len().saturating_sub(1)].iter().cloned().collect()
}

fn name(meta: &ObjectMeta) -> &str {
    meta.location.filename().unwrap_or_default()
}

/// The files of a directory that count.
async fn hour(shop: &Shop, at: Path, mut listed: Vec<ObjectMeta>) -> Result<Vec<Part>> {
    for _ in 0..LOOKS {
        let number = |meta: &ObjectMeta| match Name::of(name(meta)) {
            Name::Commit(number) => Some(number),
            _ => None,
        };
        let newest = listed.iter().filter_map(|meta| Some((number(meta)?, meta))).max_by_key(|(number, _)| *number);
        let is_data = |meta: &&ObjectMeta| Name::of(name(meta)) == Name::Part && meta.size > 0;
        let Some((number, meta)) = newest else {
            let parts = listed.iter().filter(is_data).filter(|meta| name(meta).ends_with(ENDING));
            return Ok(parts.map(|meta| Part { store: shop.url.clone(), meta: meta.clone() }).collect());
        };
        let names: Vec<String> = listed.iter().filter(is_data).map(|meta| name(meta).to_owned()).collect();
        let read = if names.is_empty() {
            head(shop, number, meta).await.map(|head| (head, None))
        } else {
            whole(shop, number, meta).await.map(|commit| (commit.head.clone(), Some(commit)))
        };
        match read {
            Ok((head, commit)) => return files(shop, &at, &listed, &names, &head, commit),
            // It was not the newest any more: another look.
            Err(error) if is_absent(&error) => {}
            Err(error) => return Err(error.context(meta.location.to_string())),
        }
        listed = shop.store.list_with_delimiter(Some(&at)).await?.objects;
    }
    bail!("{at}: its commits are replaced faster than they can be read; ask again")
}

fn is_absent(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| matches!(cause.downcast_ref(), Some(object_store::Error::NotFound { .. })))
}

/// The first line of a commit.
async fn head(shop: &Shop, number: u64, meta: &ObjectMeta) -> Result<Head> {
    believe(shop, meta)?;
    let text = shop.store.get_range(&meta.location, 0..meta.size.min(HEAD_BYTES)).await?;
    match text.iter().position(|byte| *byte == b'\n') {
        Some(end) => Ok(Head::decode(number, &text[..=end])?),
        None => Ok(whole(shop, number, meta).await?.head),
    }
}

async fn whole(shop: &Shop, number: u64, meta: &ObjectMeta) -> Result<Commit> {
    believe(shop, meta)?;
    let text = shop.store.get(&meta.location).await?.bytes().await?;
    Ok(Commit::decode(number, &text)?)
}

fn files(
    shop: &Shop,
    at: &Path,
    listed: &[ObjectMeta],
    names: &[String],
    head: &Head,
    commit: Option<Commit>,
) -> Result<Vec<Part>> {
    let files = counting(names, Some(head), || commit.context("the commit was not read to its end"))?;
    let loose: BTreeSet<&String> = files.loose.iter().collect();
    let part = |meta: ObjectMeta| Part { store: shop.url.clone(), meta };
    let by_hosts = listed.iter().filter(|meta| loose.contains(&name(meta).to_owned())).cloned();
    let merged = files.outputs.iter().map(|output| {
        let location = at.clone().join(output.name.as_str());
        let seen = listed.iter().find(|meta| meta.location == location).cloned();
        // Named between the beginning of the listing and that of the commit.
        seen.unwrap_or_else(|| ObjectMeta {
            location,
            last_modified: Default::default(),
            size: output.bytes,
            e_tag: None,
            version: None,
        })
    });
    Ok(merged.chain(by_hosts).map(part).collect())
}

/// Whether a commit in a directory is one: hosts write there, too. A bucket has no owners of files; there its policy says who may write what.
fn believe(shop: &Shop, meta: &ObjectMeta) -> Result<()> {
    use std::os::unix::fs::MetadataExt;
    if shop.url != datafusion::datasource::object_store::ObjectStoreUrl::local_filesystem() {
        return Ok(());
    }
    let path = LocalFileSystem::new().path_to_filesystem(&meta.location)?;
    let found = match path.symlink_metadata() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let path = meta.location.to_string();
            return Err(object_store::Error::NotFound { path, source: Box::new(error) }.into());
        }
        found => found?,
    };
    let table = path
        .ancestors()
        .find(|above| above.file_name().is_some_and(|name| name.to_string_lossy().starts_with("table=")));
    let top = table.and_then(|table| table.parent()).and_then(|top| Some(top.metadata().ok()?.uid()));
    let us = std::fs::metadata("/proc/self").ok().map(|found| found.uid());
    let is_ours = found.uid() == 0 || [top, us].contains(&Some(found.uid()));
    if !found.is_file() || !is_ours {
        bail!("not believed: expected a file of root, this user, or the owner of the whole directory");
    }
    if found.mode() & 0o022 != 0 {
        bail!("not believed: others than its owner may write it; expected mode 644 or less");
    }
    Ok(())
}
