//! What may be read: the places that were named when it was started, and nothing else, whatever a query asks for.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use anyhow::{Context, bail};
use async_trait::async_trait;
use bytes::Bytes;
use datafusion::common::{DataFusionError, exec_datafusion_err};
use datafusion::execution::object_store::ObjectStoreRegistry;
use futures::StreamExt;
use futures::stream::BoxStream;
use object_store::path::Path;
use object_store::{Error, GetOptions, GetResult, ListResult, ObjectMeta, ObjectStore, Result};
use unstarve_sql::bucket::{self, Reach};
use unstarve_sql::plain;
use unstarve_sql::read_only::{ReadOnly, Reads};
use url::Url;

/// A store of which only some places may be read.
#[derive(Debug)]
struct Within {
    store: Arc<dyn ObjectStore>,
    places: Vec<Path>,
}

impl fmt::Display for Within {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} within {:?}", self.store, self.places)
    }
}

impl Within {
    fn check(&self, location: &Path) -> Result<()> {
        if self.places.iter().any(|place| location.prefix_matches(place)) {
            return Ok(());
        }
        Err(Error::PermissionDenied { path: location.to_string(), source: OUTSIDE.into() })
    }
}

const OUTSIDE: &str = "outside of what the executor may read (its --place)";

#[async_trait]
impl Reads for Within {
    async fn get(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.check(location)?;
        self.store.get_opts(location, options).await
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.check(location)?;
        self.store.get_ranges(location, ranges).await
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        match self.check(&prefix.cloned().unwrap_or_default()) {
            Ok(()) => self.store.list(prefix),
            Err(error) => futures::stream::iter([Err(error)]).boxed(),
        }
    }

    async fn list_one(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.check(&prefix.cloned().unwrap_or_default())?;
        self.store.list_with_delimiter(prefix).await
    }
}

/// Opens a store that a place is in.
type Open = Box<dyn Fn() -> anyhow::Result<Arc<dyn ObjectStore>>>;

/// All stores there are, for queries.
#[derive(Debug, Default)]
pub struct Fence {
    /// By scheme and host.
    stores: BTreeMap<String, Arc<ReadOnly<Within>>>,
}

impl Fence {
    /// Lets these places be read: paths, and s3://BUCKET/PREFIX.
    ///
    /// # Errors
    /// If one is not there, or is none.
    pub fn around(places: &[String], reach: &Reach) -> anyhow::Result<Fence> {
        let mut stores: BTreeMap<String, (Arc<dyn ObjectStore>, Vec<Path>)> = BTreeMap::new();
        for place in places {
            let (key, open, path): (_, Open, _) = match place.strip_prefix("s3://") {
                Some(rest) => {
                    let (name, prefix) = rest.split_once('/').unwrap_or((rest, ""));
                    let (name, reach) = (name.to_owned(), reach.clone());
                    let prefix = Path::parse(prefix.trim_end_matches('/'))?;
                    (format!("s3://{name}"), Box::new(move || bucket::open(&name, &reach)), prefix)
                }
                None if place.contains("://") => bail!("{place}: expected a path or s3://BUCKET/PREFIX"),
                None => {
                    let real = std::path::Path::new(place).canonicalize();
                    let real = real.with_context(|| format!("cannot read {place}"))?;
                    (FILES.to_owned(), Box::new(|| Ok(plain::files())), Path::from_absolute_path(real)?)
                }
            };
            if !stores.contains_key(&key) {
                stores.insert(key.clone(), (open()?, Vec::new()));
            }
            if let Some((_, places)) = stores.get_mut(&key) {
                places.push(path);
            }
        }
        let within = |(key, (store, places))| (key, Arc::new(ReadOnly(Within { store, places })));
        Ok(Fence { stores: stores.into_iter().map(within).collect() })
    }
}

const FILES: &str = "file://";

impl ObjectStoreRegistry for Fence {
    fn register_store(&self, _: &Url, _: Arc<dyn ObjectStore>) -> Option<Arc<dyn ObjectStore>> {
        // There are the ones that it was started with.
        None
    }

    fn get_store(&self, url: &Url) -> datafusion::common::Result<Arc<dyn ObjectStore>> {
        let key = format!("{}://{}", url.scheme(), url.host_str().unwrap_or_default());
        let store =
            self.stores.get(&key).ok_or_else(|| -> DataFusionError { exec_datafusion_err!("{url}: {OUTSIDE}") })?;
        Ok(Arc::clone(store) as _)
    }
}

#[cfg(test)]
mod tests {
    use object_store::ObjectStoreExt;

    use super::*;

    #[tokio::test]
    async fn nothing_outside_of_the_places_is_read() {
        let place = tempfile::tempdir().expect("a place for files");
        let top = place.path().canonicalize().expect("it is there");
        for file in ["in/a", "in/deep/b", "inside", "c"] {
            let file = top.join(file);
            std::fs::create_dir_all(file.parent().expect("above")).expect("it can be made");
            std::fs::write(file, "text").expect("it can be written");
        }
        let named = top.join("in").display().to_string();
        let fence = Fence::around(&[named], &Reach::default()).expect("it is there");
        let store = fence.get_store(&Url::parse("file:///").expect("a URL")).expect("files");
        let at = |name: &str| Path::from_absolute_path(top.join(name)).expect("a path");
        for name in ["in/a", "in/deep/b"] {
            assert!(store.get(&at(name)).await.is_ok(), "{name}");
            assert!(store.get_ranges(&at(name), std::slice::from_ref(&(0..2))).await.is_ok(), "{name}");
        }
        for name in ["inside", "c", "", "in/../c"] {
            let Ok(at) = Path::parse(top.join(name).display().to_string().trim_start_matches('/')) else { continue };
            let error = store.get(&at).await.expect_err("outside").to_string();
            assert!(error.contains("--place"), "{error}");
            assert!(
                store.get_ranges(&at, std::slice::from_ref(&(0..1))).await.is_err()
                    && store.list_with_delimiter(Some(&at)).await.is_err()
            );
        }
        assert!(store.list_with_delimiter(None).await.is_err() && store.list(None).next().await.expect("one").is_err());
        assert!(store.put(&at("in/new"), "x".into()).await.is_err());
        for url in ["s3://fleet/in", "http://127.0.0.1/in", "memory:///"] {
            let error = fence.get_store(&Url::parse(url).expect("a URL")).expect_err("outside").to_string();
            assert!(error.contains("--place"), "{error}");
        }
        assert!(Fence::around(&["https://x/y".to_owned()], &Reach::default()).is_err());
    }
}
