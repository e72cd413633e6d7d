//! Whether a file that is called like a commit is one: hosts write there, too. A bucket has no owners of files; there its policy says who may write what.

use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use datafusion::datasource::object_store::ObjectStoreUrl;
use object_store::{ObjectMeta, ObjectStoreExt};
use unstarve_fleet::{BadCommit, Head, Trusted, Writer};

use crate::place::Shop;
use crate::plain;

/// What is called like a commit.
pub enum Found<T> {
    /// A compactor's.
    Believed(T),
    /// Somebody else's, or of another hour: as if it were not there.
    Doubted(String),
}

impl<T> Found<T> {
    /// The same of a part of it.
    pub fn map<U>(self, part: impl FnOnce(T) -> U) -> Found<U> {
        match self {
            Found::Believed(found) => Found::Believed(part(found)),
            Found::Doubted(why) => Found::Doubted(why),
        }
    }
}

/// The text of a commit, up to a length. Of a file its owner decides, who is asked of what was opened.
///
/// # Errors
/// If it is not there, cannot be read, or may be a compactor's that is not believed: wrong rows are worse than none.
pub async fn believed(shop: &Shop, meta: &ObjectMeta, most: u64) -> Result<Found<Vec<u8>>> {
    if !is_local(shop) {
        let text = shop.store.get_range(&meta.location, 0..meta.size.min(most)).await?;
        return Ok(Found::Believed(text.into()));
    }
    let path = plain::path_of(&meta.location);
    let (file, found) = match plain::open(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let path = meta.location.to_string();
            return Err(object_store::Error::NotFound { path, source: Box::new(error) }.into());
        }
        Err(error) if plain::is_no_file(&error) => return Ok(Found::Doubted("not a regular file".to_owned())),
        opened => opened?,
    };
    match trusted(top(&path).as_deref()).judge(found.uid(), found.mode()) {
        Writer::Believed => {}
        Writer::Another => return Ok(Found::Doubted(NOT_BELIEVED.to_owned())),
        Writer::Keeper => bail!(NOT_BELIEVED),
        Writer::Anybody => bail!("not believed: others than its owner may write it; expected mode 644 or less"),
    }
    let mut text = Vec::new();
    file.take(most).read_to_end(&mut text)?;
    Ok(Found::Believed(text))
}

const NOT_BELIEVED: &str = "not believed: expected a file of root, this user, or the owner of the whole directory";

/// What a compactor made for this hour; what it made for another one, somebody else brought here.
///
/// # Errors
/// If it is no commit; or if an early version made it, which did not say the hour, and others can bring files here.
pub fn bound<T>(
    shop: &Shop,
    meta: &ObjectMeta,
    decoded: Result<T, BadCommit>,
    head: impl Fn(&T) -> &Head,
) -> Result<Found<T>> {
    match decoded {
        Err(error @ BadCommit::Elsewhere { .. }) => Ok(Found::Doubted(error.to_string())),
        decoded => {
            let commit = decoded?;
            if head(&commit).hour.is_none() && is_local(shop) && !is_closed(&plain::path_of(&meta.location)) {
                bail!(
                    "not believed: it does not say its hour, and others than its owner may write the directories above it; \
                     give these to one user, mode 755, and run `unstarve fleet compact`"
                );
            }
            Ok(Found::Believed(commit))
        }
    }
}

fn is_local(shop: &Shop) -> bool {
    shop.url == ObjectStoreUrl::local_filesystem()
}

/// The whole directory that an hour is in.
fn top(commit: &Path) -> Option<PathBuf> {
    commit.ancestors().nth(4).map(Path::to_owned)
}

/// Whose files in it are believed.
fn trusted(top: Option<&Path>) -> Trusted {
    let owner = |path: PathBuf| Some(path.symlink_metadata().ok()?.uid());
    let us = rustix::process::geteuid().as_raw();
    let keeper = top.and_then(|top| owner(top.join("manifest.parquet")));
    Trusted { us, owner: top.and_then(|top| owner(top.to_owned())), keeper }
}

/// Whether nobody who is not believed can bring files into the hour of a commit.
fn is_closed(commit: &Path) -> bool {
    let above: std::io::Result<Vec<(u32, u32)>> = commit
        .ancestors()
        .skip(1)
        .take(4)
        .map(|directory| directory.symlink_metadata().map(|found| (found.uid(), found.mode())))
        .collect();
    above.is_ok_and(|above| trusted(top(commit).as_deref()).is_closed(above))
}
