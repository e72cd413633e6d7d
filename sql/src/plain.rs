//! Files of this machine, through no symbolic link: hosts write below the places that are read, and a link there would lead to another file, or to the
//! same rows once more. A place that a user names may be a link; it is resolved when it is named.

use std::fmt;
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Component, Path as FilePath};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use object_store::path::{Path, PathPart};
use object_store::{Error, GetOptions, GetResult, GetResultPayload, ListResult, ObjectMeta, ObjectStore, Result};
use rustix::fs::{Mode, OFlags, openat};
use unstarve_fleet::Name;

use crate::program::{About, note};
use crate::read_only::{ReadOnly, Reads};

/// The file system of this machine, to be read.
#[derive(Debug, Default)]
pub struct Plain;

impl fmt::Display for Plain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("files")
    }
}

/// Opens a regular file by its absolute path, no component of which may be a link.
///
/// # Errors
/// What the system says; `ELOOP`, `ENOTDIR` or `EINVAL` for what is not a regular file.
pub fn open(path: &FilePath) -> io::Result<(File, Metadata)> {
    let above = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    // A FIFO must not stop us.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let mut names = path.components().peekable();
    let mut at: OwnedFd = match names.next() {
        Some(Component::RootDir) => rustix::fs::open("/", above, Mode::empty())?,
        _ => return Err(io::Error::new(io::ErrorKind::InvalidInput, "not an absolute path")),
    };
    while let Some(name) = names.next() {
        let is_last = names.peek().is_none();
        at = openat(&at, name.as_os_str(), if is_last { flags } else { above }, Mode::empty())?;
    }
    let file = File::from(at);
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    Ok((file, metadata))
}

/// Whether something is not there, or is no file that may be read: a link, or a directory.
pub fn is_no_file(error: &io::Error) -> bool {
    let number = error.raw_os_error().map(rustix::io::Errno::from_raw_os_error);
    matches!(number, Some(rustix::io::Errno::LOOP | rustix::io::Errno::NOTDIR))
        || error.kind() == io::ErrorKind::InvalidInput
}

/// Whether a file is there, and this user may not read it.
pub fn is_closed(location: &Path) -> bool {
    matches!(open(&path_of(location)), Err(error) if error.kind() == io::ErrorKind::PermissionDenied)
}

/// Where a file or directory is: all that its name says, also where `LocalFileSystem` has a use of its own for some (`a#1`).
pub fn path_of(location: &Path) -> std::path::PathBuf {
    FilePath::new("/").join(location.as_ref())
}

fn meta(location: Path, metadata: &Metadata) -> Result<ObjectMeta> {
    let modified = metadata.modified().map_err(|error| said(&location, error))?;
    Ok(ObjectMeta { location, last_modified: modified.into(), size: metadata.len(), e_tag: None, version: None })
}

fn said(location: &Path, error: io::Error) -> Error {
    let path = format!("/{location}");
    match error.kind() {
        io::ErrorKind::NotFound => Error::NotFound { path, source: error.into() },
        io::ErrorKind::PermissionDenied => Error::PermissionDenied { path, source: error.into() },
        _ if is_no_file(&error) => {
            let why = format!("{path}: not a regular file; links are not followed");
            Error::Generic { store: "files", source: why.into() }
        }
        _ => Error::Generic { store: "files", source: format!("{path}: {error}").into() },
    }
}

async fn aside<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work).await?
}

/// Says that something has a name that nothing of a table has.
pub fn strange(directory: &dyn fmt::Display, name: &[u8]) {
    let name = unstarve_model::clean_bytes(name);
    note(About::Name, &format!("/{directory}/{name}: left out, its name has control characters or is no UTF-8"));
}

/// What is in a directory: files, and directories; of what is neither nothing.
fn entries(location: &Path) -> Result<(Vec<ObjectMeta>, Vec<Path>)> {
    let (mut files, mut directories) = (Vec::new(), Vec::new());
    let found = match std::fs::read_dir(path_of(location)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((files, directories)),
        found => found.map_err(|error| said(location, error))?,
    };
    for entry in found {
        let entry = entry.map_err(|error| said(location, error))?;
        let name = entry.file_name();
        // As it is: `join` of a text would change some characters.
        let Some(Ok(name)) = Name::text(name.as_bytes()).map(PathPart::parse) else {
            strange(&location, name.as_bytes());
            continue;
        };
        let at = location.clone().join(name);
        match entry.metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(said(&at, error)),
            Ok(metadata) if metadata.is_dir() => directories.push(at),
            Ok(metadata) if metadata.is_file() => files.push(meta(at, &metadata)?),
            Ok(metadata) if metadata.is_symlink() => {
                note(About::Link, &format!("/{at}: left out, links are not followed"));
            }
            Ok(_) => {}
        }
    }
    Ok((files, directories))
}

fn below(location: Path) -> Result<Vec<ObjectMeta>> {
    let (mut all, mut open) = (Vec::new(), vec![location]);
    while let Some(location) = open.pop() {
        let (files, directories) = entries(&location)?;
        all.extend(files);
        open.extend(directories);
    }
    Ok(all)
}

#[async_trait]
impl Reads for Plain {
    async fn get(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let location = location.clone();
        aside(move || {
            let path = path_of(&location);
            let (file, metadata) = open(&path).map_err(|error| said(&location, error))?;
            let meta = meta(location, &metadata)?;
            options.check_preconditions(&meta)?;
            let range = match options.range {
                Some(range) => range
                    .as_range(meta.size)
                    .map_err(|error| Error::Generic { store: "files", source: error.into() })?,
                None => 0..meta.size,
            };
            Ok(GetResult { payload: GetResultPayload::File(file, path), meta, range, attributes: Default::default() })
        })
        .await
    }

    async fn get_ranges(&self, location: &Path, ranges: &[std::ops::Range<u64>]) -> Result<Vec<Bytes>> {
        let (location, ranges) = (location.clone(), ranges.to_vec());
        aside(move || {
            let (file, metadata) = open(&path_of(&location)).map_err(|error| said(&location, error))?;
            let read = |range: std::ops::Range<u64>| -> io::Result<Bytes> {
                if range.start > range.end || range.end > metadata.len() {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                let length = usize::try_from(range.end - range.start).map_err(io::Error::other)?;
                let mut bytes = vec![0; length];
                file.read_exact_at(&mut bytes, range.start)?;
                Ok(bytes.into())
            };
            ranges.into_iter().map(|range| read(range).map_err(|error| said(&location, error))).collect()
        })
        .await
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let prefix = prefix.cloned().unwrap_or_default();
        let all = aside(move || below(prefix));
        futures::stream::once(all)
            .flat_map(|all| match all {
                Ok(all) => futures::stream::iter(all).map(Ok).boxed(),
                Err(error) => futures::stream::iter([Err(error)]).boxed(),
            })
            .boxed()
    }

    async fn list_one(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let prefix = prefix.cloned().unwrap_or_default();
        let (objects, common_prefixes) = aside(move || entries(&prefix)).await?;
        Ok(ListResult { common_prefixes, objects })
    }
}

/// The file system, as a store.
pub fn files() -> Arc<dyn ObjectStore> {
    Arc::new(ReadOnly(Plain))
}

#[cfg(test)]
mod tests {
    use super::*;
    use object_store::ObjectStoreExt;

    #[tokio::test]
    async fn links_lead_nowhere() {
        let place = tempfile::tempdir().expect("a place for files");
        let place = place.path().canonicalize().expect("it is there");
        std::fs::create_dir(place.join("real")).expect("it can be made");
        std::fs::write(place.join("real/a.parquet"), b"0123456789").expect("it can be written");
        std::os::unix::fs::symlink(place.join("real"), place.join("linked")).expect("it can be made");
        std::os::unix::fs::symlink("/etc/hostname", place.join("b.parquet")).expect("it can be made");
        let at = |name: &str| Path::from_absolute_path(place.join(name)).expect("a path");
        let store = files();
        let found: Vec<_> = store.list(Some(&at(""))).map(|found| found.expect("a file").location).collect().await;
        assert_eq!(found, [at("real/a.parquet")]);
        for linked in ["linked/a.parquet", "b.parquet", "real"] {
            let error = store.get(&at(linked)).await.expect_err("not read").to_string();
            assert!(error.contains("links are not followed"), "{error}");
        }
        let real = at("real/a.parquet");
        assert_eq!(store.get(&real).await.expect("read").bytes().await.expect("read").as_ref(), b"0123456789");
        assert_eq!(store.get_ranges(&real, &[2..4, 9..10]).await.expect("read"), ["23", "9"].map(Bytes::from));
        assert!(store.get_ranges(&real, std::slice::from_ref(&(2..40))).await.is_err());
        assert!(store.put(&real, "x".into()).await.is_err());
    }
}
