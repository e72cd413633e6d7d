//! Whether a file that is called like a commit is one: hosts write there, too. A bucket has no owners of files; there its policy says who may write what.

use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use datafusion::datasource::object_store::ObjectStoreUrl;
use object_store::{ObjectMeta, ObjectStoreExt};
use unstarve_fleet::{BadCommit, Head};

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

/// Mode bits by which others than the owner may write.
const OTHERS_WRITE: u32 = 0o022;

/// The text of a commit, up to a length. Of a file its owner decides, who is asked of what was opened.
///
/// # Errors
/// If it is not there, cannot be read, or may be a compactor's that is not believed: wrong rows are worse than none.
pub async fn believed(shop: &Shop, meta: &ObjectMeta, most: u64) -> Result<Found<Vec<u8>>> {
    if !is_local(shop) {
        let text = shop.store.get_range(&meta.location, 0..meta.size.min(most)).await?;
        return Ok(Found::Believed(text.into()));
    }
    let path = plain::path_of(&meta.location)?;
    let (file, found) = match plain::open(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let path = meta.location.to_string();
            return Err(object_store::Error::NotFound { path, source: Box::new(error) }.into());
        }
        Err(error) if plain::is_no_file(&error) => return Ok(Found::Doubted("not a regular file".to_owned())),
        opened => opened?,
    };
    let top = top(&path);
    if !believes(top.as_deref(), found.uid()) {
        let why = "not believed: expected a file of root, this user, or the owner of the whole directory";
        // Who wrote the manifest keeps the whole store: without his commits the rows would be wrong.
        let keeper = top.and_then(|top| Some(top.join("manifest.parquet").symlink_metadata().ok()?.uid()));
        return if keeper == Some(found.uid()) { bail!(why) } else { Ok(Found::Doubted(why.to_owned())) };
    }
    if found.mode() & OTHERS_WRITE != 0 {
        bail!("not believed: others than its owner may write it; expected mode 644 or less");
    }
    let mut text = Vec::new();
    file.take(most).read_to_end(&mut text)?;
    Ok(Found::Believed(text))
}

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
            if head(&commit).hour.is_none() && is_local(shop) && !is_closed(&plain::path_of(&meta.location)?) {
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

fn believes(top: Option<&Path>, user: u32) -> bool {
    let owner = top.and_then(|top| Some(top.symlink_metadata().ok()?.uid()));
    let us = rustix::process::geteuid().as_raw();
    user == 0 || user == us || owner == Some(user)
}

/// Whether nobody who is not believed can bring files into the hour of a commit.
fn is_closed(commit: &Path) -> bool {
    let top = top(commit);
    let mut above = commit.ancestors().skip(1).take(4);
    above.all(|directory| {
        let found = directory.symlink_metadata();
        found.is_ok_and(|found| believes(top.as_deref(), found.uid()) && found.mode() & OTHERS_WRITE == 0)
    })
}
