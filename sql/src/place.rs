//! Paths, globs and URLs become lists of files, each in a store of DataFusion's.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use datafusion::datasource::object_store::ObjectStoreUrl;
use object_store::aws::AmazonS3Builder;
use object_store::local::LocalFileSystem;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};
use url::Url;

use crate::hours;

/// A file of a table.
#[derive(Clone, Debug)]
pub struct Part {
    /// Its store.
    pub store: ObjectStoreUrl,
    /// Where it is in it, and its size.
    pub meta: ObjectMeta,
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
        Part { store: ObjectStoreUrl::local_filesystem(), meta }
    }
}

/// A store, and how DataFusion calls it.
pub struct Shop {
    /// The store.
    pub store: Arc<dyn ObjectStore>,
    /// Its name.
    pub url: ObjectStoreUrl,
}

/// Files, and the stores that they are in.
#[derive(Default)]
pub struct Found {
    /// All files.
    pub parts: Vec<Part>,
    /// Stores that DataFusion has to know.
    pub stores: Vec<(Url, Arc<dyn ObjectStore>)>,
}

/// How the name of such a file ends.
pub const ENDING: &str = ".parquet";

/// Finds the Parquet files at a place whose rows count: each row once, also while `unstarve fleet compact` is at work (docs/fleet.md).
///
/// # Errors
/// If it cannot be read, or if there is none.
pub async fn find(place: &str, found: &mut Found) -> Result<()> {
    let before = found.parts.len();
    match Url::parse(place) {
        Ok(url) if url.scheme() == "s3" => bucket(&url, found).await.with_context(|| place.to_owned())?,
        Ok(url) if url.scheme() == "file" => {
            let path = url.to_file_path().ok().with_context(|| format!("{place}: expected file:///PATH"))?;
            local(&path, found).await?;
        }
        Ok(url) if place.contains("://") => {
            bail!("{place}: cannot read {}://; expected a path, file:// or s3://", url.scheme())
        }
        _ => {
            for path in globbed(place)? {
                local(&path, found).await.with_context(|| path.display().to_string())?;
            }
        }
    }
    if found.parts.len() == before {
        bail!("{place}: there is no Parquet file; expected what unstarve watch --tables or unstarve export writes");
    }
    Ok(())
}

/// The paths that a text with `*`, `?` or `[…]` is for; one without is for itself.
fn globbed(place: &str) -> Result<Vec<PathBuf>> {
    if !place.contains(['*', '?', '[']) || Path::new(place).exists() {
        return Ok(vec![PathBuf::from(place)]);
    }
    let paths = glob::glob(place).with_context(|| format!("{place}: not a pattern of file names"))?;
    let paths: Vec<PathBuf> = paths.collect::<Result<_, _>>().with_context(|| place.to_owned())?;
    if paths.is_empty() {
        bail!("{place}: no file has such a name");
    }
    Ok(paths)
}

async fn local(path: &Path, found: &mut Found) -> Result<()> {
    let metadata = path.metadata().with_context(|| format!("cannot read {}", path.display()))?;
    let store: Arc<dyn ObjectStore> = Arc::new(LocalFileSystem::new());
    let place = std::path::absolute(path)?;
    let url = ObjectStoreUrl::local_filesystem();
    if metadata.is_file() {
        let at = object_store::path::Path::from_absolute_path(&place)?;
        let meta = store.head(&at).await?;
        found.parts.extend(hours::one(&Shop { store, url }, meta).await?);
        return Ok(());
    }
    let prefix = object_store::path::Path::from_absolute_path(&place)?;
    found.parts.extend(hours::below(&Shop { store, url }, &prefix).await?);
    Ok(())
}

async fn bucket(url: &Url, found: &mut Found) -> Result<()> {
    let bucket = url.host_str().context("expected s3://BUCKET/PREFIX")?;
    let base = Url::parse(&format!("s3://{bucket}"))?;
    let known = found.stores.iter().find(|(url, _)| *url == base).map(|(_, store)| Arc::clone(store));
    let store = match known {
        Some(store) => store,
        None => {
            // AWS_ACCESS_KEY_ID, AWS_REGION, AWS_ENDPOINT, AWS_ALLOW_HTTP, …, or the machine's role.
            let store: Arc<dyn ObjectStore> = Arc::new(AmazonS3Builder::from_env().with_bucket_name(bucket).build()?);
            found.stores.push((base.clone(), Arc::clone(&store)));
            store
        }
    };
    let prefix = object_store::path::Path::from_url_path(url.path())?;
    let store_url = ObjectStoreUrl::parse(base.as_str())?;
    if prefix.filename().is_some_and(|name| name.ends_with(ENDING)) {
        let meta = store.head(&prefix).await?;
        found.parts.extend(hours::one(&Shop { store, url: store_url }, meta).await?);
        return Ok(());
    }
    found.parts.extend(hours::below(&Shop { store, url: store_url }, &prefix).await?);
    Ok(())
}
