//! Paths, globs and URLs become lists of files, each in a store of DataFusion's.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use datafusion::datasource::object_store::ObjectStoreUrl;
use futures::TryStreamExt;
use object_store::path::Path as At;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};
use url::Url;

use crate::bucket::{self, Reach};
use crate::program::{About, note};
use crate::{layout, plain};

/// A file of a table.
#[derive(Clone, Debug)]
pub struct Part {
    /// Its store.
    pub store: ObjectStoreUrl,
    /// Where it is in it, and its size.
    pub meta: ObjectMeta,
    /// Its rows by the hour, if `compact` has written them beside it.
    pub hourly: Option<ObjectMeta>,
}

impl Part {
    /// A file as it is.
    pub fn new(store: ObjectStoreUrl, meta: ObjectMeta) -> Part {
        Part { store, meta, hourly: None }
    }

    /// Where its rows by the hour are: as they are, if they were not folded.
    pub fn by_the_hour(&self) -> Part {
        Part::new(self.store.clone(), self.hourly.as_ref().unwrap_or(&self.meta).clone())
    }
}

#[cfg(test)]
impl Part {
    /// One of this machine, of one byte.
    pub fn local(path: &str) -> Self {
        let meta = ObjectMeta {
            location: path.into(),
            last_modified: Default::default(),
            size: 1,
            e_tag: None,
            version: None,
        };
        Part::new(ObjectStoreUrl::local_filesystem(), meta)
    }
}

/// A store, and how DataFusion calls it.
#[derive(Clone, Debug)]
pub struct Shop {
    /// The store.
    pub store: Arc<dyn ObjectStore>,
    /// Its name.
    pub url: ObjectStoreUrl,
}

/// What is asked for: directories, each looked at once, however many places lead to it.
#[derive(Default)]
pub struct Wanted {
    /// By store and place.
    pub directories: BTreeMap<(String, At), Directory>,
    /// Stores that DataFusion has to know.
    pub stores: Vec<(Url, Arc<dyn ObjectStore>)>,
    /// How buckets are reached.
    pub reach: Reach,
}

/// A directory of which something is asked for.
pub struct Directory {
    /// Its store.
    pub shop: Shop,
    /// What was in it, if it was listed.
    pub listed: Option<Vec<ObjectMeta>>,
    /// The files that were named; all if none was.
    pub named: Option<Vec<ObjectMeta>>,
}

impl Wanted {
    /// All files of a directory.
    fn all(&mut self, shop: &Shop, at: At, files: Vec<ObjectMeta>) {
        let shop = shop.clone();
        // Listed twice: what is newer is taken.
        self.directories.insert((shop.url.to_string(), at), Directory { shop, listed: Some(files), named: None });
    }

    /// One file.
    fn one(&mut self, shop: &Shop, file: ObjectMeta) {
        let key = (shop.url.to_string(), layout::directory(&file.location));
        let new = || Directory { shop: shop.clone(), listed: None, named: Some(Vec::new()) };
        if let Some(named) = &mut self.directories.entry(key).or_insert_with(new).named {
            named.push(file);
        }
    }

    /// All directories below a prefix.
    async fn below(&mut self, shop: &Shop, prefix: &At, place: &str) -> Result<()> {
        let mut directories: BTreeMap<At, Vec<ObjectMeta>> = BTreeMap::new();
        let mut listing = shop.store.list(Some(prefix));
        while let Some(meta) = listing.try_next().await? {
            directories.entry(layout::directory(&meta.location)).or_default().push(meta);
        }
        let mut has_data = false;
        for (at, files) in directories {
            if !layout::is_plain(prefix, &at) {
                let why = "left out, no place for files of a table; expected table=NAME/date=YYYY-MM-DD/hour=HH";
                note(About::Place, &format!("{at}: {why}"));
                continue;
            }
            has_data |= files.iter().any(|file| file.location.as_ref().ends_with(ENDING));
            self.all(shop, at, files);
        }
        if !has_data {
            bail!("{place}: there is no Parquet file; expected what unstarve watch --tables or unstarve export writes");
        }
        Ok(())
    }
}

/// How the name of such a file ends.
pub const ENDING: &str = ".parquet";

/// Finds the directories at a place that may have Parquet files. `hours` says which of these count.
///
/// # Errors
/// If it cannot be read, or if there is none.
pub async fn find(place: &str, wanted: &mut Wanted) -> Result<()> {
    match Url::parse(place) {
        Ok(url) if url.scheme() == "s3" => in_bucket(&url, place, wanted).await.with_context(|| place.to_owned()),
        Ok(url) if url.scheme() == "file" => {
            let path = url.to_file_path().ok().with_context(|| format!("{place}: expected file:///PATH"))?;
            local(&real(&path)?, place, wanted).await
        }
        Ok(url) if place.contains("://") => {
            bail!("{place}: cannot read {}://; expected a path, file:// or s3://", url.scheme())
        }
        _ if place.contains(['*', '?', '[']) && !Path::new(place).exists() => globbed(place, wanted).await,
        _ => local(&real(Path::new(place))?, place, wanted).await,
    }
}

/// A place without links: who names it may name one.
fn real(path: &Path) -> Result<PathBuf> {
    path.canonicalize().with_context(|| format!("cannot read {}", path.display()))
}

/// The paths that a text with `*`, `?` or `[…]` is for. Links are followed only in what is written out.
async fn globbed(place: &str, wanted: &mut Wanted) -> Result<()> {
    let is_pattern = |part: &Component<'_>| part.as_os_str().to_string_lossy().contains(['*', '?', '[']);
    let written: PathBuf = Path::new(place).components().take_while(|part| !is_pattern(part)).collect();
    let pattern: PathBuf = Path::new(place).components().skip_while(|part| !is_pattern(part)).collect();
    let written = real(if written.as_os_str().is_empty() { Path::new(".") } else { &written })?;
    let pattern = format!("{}/{}", glob::Pattern::escape(&written.display().to_string()), pattern.display());
    let paths = glob::glob(&pattern).with_context(|| format!("{place}: not a pattern of file names"))?;
    let paths: Vec<PathBuf> = paths.collect::<Result<_, _>>().with_context(|| place.to_owned())?;
    if paths.is_empty() {
        bail!("{place}: no file has such a name");
    }
    let mut is_any = false;
    for path in paths {
        // One that leads nowhere, too.
        if !real(&path).is_ok_and(|real| real == path) {
            note(About::Link, &format!("{}: left out, links are not followed", path.display()));
            continue;
        }
        local(&path, place, wanted).await.with_context(|| path.display().to_string())?;
        is_any = true;
    }
    if is_any { Ok(()) } else { bail!("{place}: only links have such a name; name the files that they lead to") }
}

async fn local(path: &Path, place: &str, wanted: &mut Wanted) -> Result<()> {
    let metadata = path.metadata().with_context(|| format!("cannot read {}", path.display()))?;
    let shop = Shop { store: plain::files(), url: ObjectStoreUrl::local_filesystem() };
    let at = At::from_absolute_path(path)?;
    if metadata.is_dir() {
        return wanted.below(&shop, &at, place).await;
    }
    let meta = shop.store.head(&at).await?;
    wanted.one(&shop, meta);
    Ok(())
}

async fn in_bucket(url: &Url, place: &str, wanted: &mut Wanted) -> Result<()> {
    let name = url.host_str().context("expected s3://BUCKET/PREFIX")?;
    let base = Url::parse(&format!("s3://{name}"))?;
    let known = wanted.stores.iter().find(|(url, _)| *url == base).map(|(_, store)| Arc::clone(store));
    let store = match known {
        Some(store) => store,
        None => {
            let store = bucket::open(name, &wanted.reach)?;
            wanted.stores.push((base.clone(), Arc::clone(&store)));
            store
        }
    };
    let prefix = At::from_url_path(url.path())?;
    let shop = Shop { store, url: ObjectStoreUrl::parse(base.as_str())? };
    if prefix.filename().is_some_and(|name| name.ends_with(ENDING)) {
        let meta = shop.store.head(&prefix).await?;
        wanted.one(&shop, meta);
        return Ok(());
    }
    wanted.below(&shop, &prefix, place).await
}
